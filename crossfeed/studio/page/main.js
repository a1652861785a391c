// The page: four views, one at a time, reachable by mouse, touch and keyboard.
import { get, post } from "./api.js";
import { $ } from "./dom.js";
import { Live } from "./live.js";
import { showRuns } from "./runs.js";
import { showTrust } from "./trust.js";
import { WhatIf } from "./whatif.js";

const tabs = [...document.querySelectorAll("[role=tab]")];
let live = null, whatif = null, refresh = 0, turn = 0;

function show(tab, focus = false) {
  for (const one of tabs) {
    const chosen = one === tab;
    one.setAttribute("aria-selected", String(chosen));
    one.tabIndex = chosen ? 0 : -1;
    $(one.getAttribute("aria-controls")).hidden = !chosen;
  }
  if (focus) tab.focus();
  const view = tab.getAttribute("aria-controls");
  history.replaceState(null, "", `#${view}`);
  clearTimeout(refresh);
  turn += 1;
  if (view === "live") live?.show();
  if (view === "whatif") whatif?.open().catch((problem) => { $("whatif-told").textContent = problem.message; });
  if (view === "trust") every(5000, () => showTrust($("trust-body")));
  if (view === "runs") every(5000, () => showRuns($("runs-body")));
}

// Again some time after the last answer, and only while the view is shown: a slow answer is not asked for twice.
async function every(milliseconds, work) {
  const own = turn;
  await work();
  if (own === turn) refresh = setTimeout(() => every(milliseconds, work), milliseconds);
}

for (const tab of tabs) {
  tab.addEventListener("click", () => show(tab));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const place = { Home: 0, End: tabs.length - 1 }[event.key] ?? (step && (tabs.indexOf(tab) + step + tabs.length) % tabs.length);
    if (place === undefined) return;
    event.preventDefault();
    show(tabs[place], true);
  });
}

$("another-device").addEventListener("click", async () => {
  try { $("device-link").textContent = (await post("/api/link")).link; } catch (problem) { $("device-link").textContent = problem.message; }
});

async function begin() {
  const model = await get("/api/model");
  $("model-name").textContent = model.name;
  whatif = new WhatIf(model);
  live = new Live();
  const asked = location.hash.slice(1);
  const wanted = tabs.find((tab) => tab.getAttribute("aria-controls") === asked);
  const sessions = await get("/api/sessions");
  if (sessions.live) live.start();
  else $("live-verdict").textContent = "Nothing runs beside this service: start it with --live or --history.";
  show(wanted ?? tabs[sessions.live ? 0 : 1]);
  document.documentElement.dataset.ready = "yes";
}

begin().catch((problem) => { $("connection").textContent = problem.message; });
