// Small makers of elements; text is always set as text.

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "text") made.textContent = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

export const $ = (id) => document.getElementById(id);
export const words = (name) => name.replaceAll("_", " ");
export const unbroken = (text) => text.replaceAll(" ", "\u00a0");

export function number(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value !== 0 && (Math.abs(value) >= 10 ** 5 || Math.abs(value) < 10 ** -3)) return value.toExponential(1);
  return Number(value.toPrecision(digits)).toLocaleString("en", { maximumFractionDigits: 4 });
}

export const span = (estimate) =>
  estimate ? `${number(estimate.mean)} (${number(estimate.low)} to ${number(estimate.high)})` : "–";

export function table(caption, heads, rows) {
  const text = (place) => (heads[place].startsWith("'") ? "text" : null);
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    element("table", {},
      element("caption", { text: caption }),
      element("thead", {}, element("tr", {}, ...heads.map((head, place) =>
        element("th", { scope: "col", class: text(place), text: head.replace(/^'/, "") })))),
      element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((cell, place) =>
        element(place ? "td" : "th", { scope: place ? null : "row", class: text(place), text: cell instanceof Node ? null : String(cell ?? "–") },
          cell instanceof Node ? cell : null)))))));
}

export function debounce(work, milliseconds) {
  let timer = 0;
  return (...given) => { clearTimeout(timer); timer = setTimeout(() => work(...given), milliseconds); };
}
