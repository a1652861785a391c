// Requests to our own service; every error arrives as one sentence a person can act on.
import { element } from "./dom.js";

class Problem extends Error {}

async function read(response) {
  let content = null;
  try { content = await response.json(); } catch { /* an answer without JSON has only its status */ }
  if (response.ok) return content;
  const told = content?.error;
  if (!told) throw new Problem(`The service answered ${response.status}.`);
  throw new Problem([told.found, told.expected && `Expected: ${told.expected}.`, told.remedy].filter(Boolean).join(" "));
}

async function ask(path, options) {
  try {
    return await read(await fetch(path, options));
  } catch (error) {
    if (error.name === "AbortError" || error instanceof Problem) throw error;
    throw new Problem("The service does not answer; does crossfeed serve still run?");
  }
}

export const get = (path) => ask(path, {});

export const post = (path, content, signal) => ask(path, {
  method: "POST", signal, headers: { "content-type": "application/json" }, body: JSON.stringify(content ?? {}),
});

export function upload(file) {
  const form = new FormData();
  form.append("file", file, file.name);
  return ask("/api/programs", { method: "POST", body: form });
}

// What an address answers, drawn as the elements that `parts` makes of it; or the sentence that says why not.
export async function showAnswer(place, path, parts) {
  let told;
  try { told = await get(path); } catch (problem) { place.replaceChildren(element("p", { class: "told", text: problem.message })); return; }
  place.replaceChildren(...parts(told));
}

// Only the newest question matters: asking again cancels the one before, here and on the server.
export function latest(path) {
  let under_way = null;
  const ask = async (content) => {
    under_way?.abort();
    under_way = new AbortController();
    return post(path, content, under_way.signal);
  };
  ask.stop = () => under_way?.abort();
  return ask;
}

export function stream(onState, onChange) {
  let wait = 500;
  const open = () => {
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/api/stream`);
    socket.onopen = () => { wait = 500; onChange(true); };
    socket.onmessage = (event) => onState(JSON.parse(event.data));
    socket.onclose = (event) => {
      onChange(false);
      if (event.code !== 1013) setTimeout(open, wait);
      wait = Math.min(wait * 2, 10000);
    };
  };
  open();
}
