// One figure: sensors above each other with their fans, commands below, and the same numbers as a table behind it.
import { element, number, table, words } from "./dom.js";

export const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7"];
const IN_THE_DARK = ["#56b4e9", "#ff9f4d", "#3ddbb0", "#e6a0cc"];
const ROW = 158, COMMAND_ROW = 98, LABEL = 16, MOST_DRAWN = 6;

const colour = (place) => (matchMedia("(prefers-color-scheme: dark)").matches ? IN_THE_DARK : COLOURS)[place];

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const shade = (colour, opacity) => {
  const parts = [1, 3, 5].map((place) => parseInt(colour.slice(place, place + 2), 16));
  return `rgba(${parts.join(",")},${opacity})`;
};

// The quantiles of every sensor as the edges of a fan; `pick` says which of the values are wanted.
export const fanEdges = (sensors, pick = (values) => values) => Object.fromEntries(Object.entries(sensors).map(([name, { quantiles }]) => [name, {
  low: pick(quantiles["0.05"]), lower: pick(quantiles["0.25"]), median: pick(quantiles["0.5"]), upper: pick(quantiles["0.75"]), high: pick(quantiles["0.95"]),
}]));

export class Figure {
  constructor(place, label) {
    this.canvas = element("div", { class: "canvas", role: "img", "aria-label": label });
    this.numbers = element("div", { class: "scroll" });
    this.details = element("details", {}, element("summary", { text: "The numbers of this figure" }), this.numbers);
    this.details.addEventListener("toggle", () => this.fill());
    this.caption = element("p", { class: "quiet" });
    place.replaceChildren(element("div", { class: "figure" }, this.canvas, this.caption, this.details));
    this.label = label;
    this.used = new Set(); // commands that were ever more than zero: what a machine does not have needs no room
    // Also where the page became wider while another view was shown: nothing has a width there.
    new ResizeObserver(() => this.last && this.canvas.clientWidth && this.canvas.clientWidth !== this.width && this.draw(this.last)).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.last && this.draw(this.last));
  }

  // content: {now, history: {time, sensors, commands}, fans: [{name, time, sensors: {name: {low, median, high, ...}}, truth}],
  //           plans: [{name, time, commands}], units, sensors, commands, limits}
  draw(content) {
    this.last = content;
    content = withinRange(content);
    this.width = this.canvas.clientWidth;
    this.caption.textContent = caption(content);
    const rows = [...content.sensors, ...this.shownCommands(content)];
    const heights = rows.map((_, place) => (place < content.sensors.length ? ROW : COMMAND_ROW));
    const whole = heights.reduce((sum, height) => sum + height, 0);
    const traces = [], narrow = this.width < 600;
    const layout = {
      height: whole + 40, ...(this.width ? { width: this.width } : {}), margin: { l: narrow ? 52 : 70, r: 12, t: 8, b: 32 }, showlegend: false, dragmode: "zoom",
      paper_bgcolor: style("--paper"), plot_bgcolor: style("--paper"), font: { color: style("--ink"), size: narrow ? 11 : 12 },
      hovermode: "x", uirevision: "kept",
      xaxis: { title: { text: "seconds from now" }, gridcolor: style("--line"), zeroline: true, zerolinecolor: style("--quiet"), anchor: `y${rows.length > 1 ? rows.length : ""}`, range: content.range },
      shapes: [], annotations: [],
    };
    let top = 1;
    rows.forEach((name, place) => {
      const key = place ? `y${place + 1}` : "y", low = top - heights[place] / whole, command = place >= content.sensors.length;
      layout[place ? `yaxis${place + 1}` : "yaxis"] = {
        domain: [Math.max(low + 0.006, 0), top - LABEL / whole], gridcolor: style("--line"), zeroline: false, nticks: command ? 3 : 5,
        ...(command ? { rangemode: "tozero" } : {}),
      };
      layout.annotations.push({
        xref: "paper", yref: "paper", x: 0, y: top, xanchor: "left", yanchor: "top", showarrow: false,
        text: `${words(name)}, ${content.units[name]}`, font: { size: 11, color: style("--quiet") },
      });
      top = low;
      if (command) this.command(traces, content, name, key); else this.sensor(traces, layout, content, name, key);
    });
    window.Plotly.react(this.canvas, traces, layout, { displayModeBar: false, doubleClick: "reset" });
    this.fill();
  }

  shownCommands(content) {
    const sides = [content.history, ...content.plans].map((side) => side.commands);
    for (const name of content.commands) if (sides.some((side) => side[name]?.some(Boolean))) this.used.add(name);
    const used = content.commands.filter((name) => this.used.has(name));
    return used.length ? used : content.commands;
  }

  sensor(traces, layout, content, name, key) {
    const past = content.history.sensors[name] ?? [];
    traces.push({ x: content.history.time, y: past, yaxis: key, mode: "lines", name: "measured", line: { color: style("--quiet"), width: 1.6 }, hoverinfo: "y+name" });
    content.fans.forEach((fan, place) => {
      const said = fan.sensors[name];
      if (!said) return;
      const own = colour(place), now = past.at(-1) ?? null;
      const x = now === null ? fan.time : [0, ...fan.time], from = (values) => (now === null ? values : [now, ...values]);
      const band = (low, high, opacity) => traces.push({
        x: [...x, ...[...x].reverse()], y: [...from(high), ...[...from(low)].reverse()], yaxis: key, mode: "lines", fill: "toself",
        fillcolor: shade(own, opacity), line: { width: 0 }, hoverinfo: "skip",
      });
      band(said.low, said.high, 0.16);
      if (said.lower) band(said.lower, said.upper, 0.26);
      traces.push({ x, y: from(said.median), yaxis: key, mode: "lines", name: fan.name, line: { color: own, width: 2 }, hoverinfo: "y+name" });
      if (fan.truth?.[name]) traces.push({ x: fan.time, y: fan.truth[name], yaxis: key, mode: "lines", name: "what followed", line: { color: style("--ink"), width: 1, dash: "dot" }, hoverinfo: "y+name" });
    });
    const limit = content.limits?.[name];
    if (limit !== undefined) {
      layout.shapes.push({ type: "line", xref: "paper", x0: 0, x1: 1, yref: key, y0: limit, y1: limit, line: { color: style("--red"), width: 1.5, dash: "dash" } });
    }
  }

  command(traces, content, name, key) {
    const past = content.history.commands[name] ?? [];
    traces.push({ x: content.history.time, y: past, yaxis: key, mode: "lines", name: "commanded", line: { color: style("--quiet"), width: 1.4, shape: "vh" }, hoverinfo: "y+name" });
    content.plans.forEach((plan, place) => {
      const values = plan.commands[name] ?? [];
      const last = past.at(-1) ?? values[0];
      traces.push({ x: [0, ...plan.time], y: [last, ...values], yaxis: key, mode: "lines", name: plan.name, line: { color: colour(place), width: 1.6, shape: "vh" }, hoverinfo: "y+name" });
    });
  }

  // The table is written only when somebody looks: it changes with every row of a stream.
  fill() {
    if (!this.last || !this.details.open) return;
    const content = this.last, rows = [];
    for (const fan of content.fans) {
      for (const name of content.sensors) {
        const said = fan.sensors[name];
        said?.median.forEach((median, place) => rows.push([
          `${words(name)}`, fan.name, number(fan.time[place]), number(median), number(said.low[place]), number(said.high[place]), content.units[name],
        ]));
      }
    }
    for (const plan of content.plans) {
      for (const name of content.commands) {
        (plan.commands[name] ?? []).slice(0, 64).forEach((value, place) => rows.push([
          `${words(name)} (command)`, plan.name, number(plan.time[place]), number(value), "", "", content.units[name],
        ]));
      }
    }
    this.numbers.replaceChildren(table(this.label, ["channel", "'plan", "s from now", "median", "5 %", "95 %", "'unit"], rows));
  }
}

// The past that is in the picture: what lies before it must not stretch the axes.
function withinRange(content) {
  const begin = Math.max(0, content.history.time.findIndex((time) => time >= content.range[0]));
  const cut = (columns) => Object.fromEntries(Object.entries(columns).map(([name, values]) => [name, values.slice(begin)]));
  return { ...content, history: { time: content.history.time.slice(begin), sensors: cut(content.history.sensors), commands: cut(content.history.commands) } };
}

// What the lines and bands are: the fan of one pass has no inner band, and what followed is known for the past alone.
function caption(content) {
  const sensors = content.fans.flatMap((fan) => Object.values(fan.sensors));
  return ["Grey: what was measured and commanded.", ...(sensors.length ? ["Line: the median of what may come.", sensors.some((one) => one.lower) ? "Bands: half of it, and 90 % of it." : "Band: 90 % of it."] : []),
    ...(content.fans.some((fan) => fan.truth) ? ["Dotted: what followed in the log."] : []), ...(Object.keys(content.limits ?? {}).length ? ["Dashed: the highest allowed."] : [])].join(" ");
}

// Chips that choose sensors; at most six are drawn, so that each has its room.
export class Chooser {
  constructor(place, changed) {
    this.place = place; this.changed = changed; this.chosen = null; this.shown = "";
  }

  offer(names, lights) {
    this.chosen ??= preferred(names);
    this.chosen = this.chosen.filter((name) => names.includes(name));
    if (!this.chosen.length) this.chosen = preferred(names);
    const state = JSON.stringify([names, lights, this.chosen]);
    if (state === this.shown) return;
    this.shown = state;
    const focused = this.place.contains(document.activeElement) ? document.activeElement.dataset.name : null;
    this.place.replaceChildren(...names.map((name) => element("button", {
      type: "button", class: `light ${lights ? `dot ${lights[name]?.colour ?? "unknown"}` : ""}`, "data-name": name, "aria-pressed": String(this.chosen.includes(name)),
      title: lights?.[name]?.sentence, "aria-label": lights ? `${words(name)}: ${lights[name]?.colour ?? "not judged"}` : words(name), text: words(name), onclick: () => this.toggle(name),
    })));
    if (focused) this.place.querySelector(`[data-name="${CSS.escape(focused)}"]`)?.focus();
  }

  toggle(name) {
    this.chosen = this.chosen.includes(name) ? this.chosen.filter((one) => one !== name) : [...this.chosen, name].slice(-MOST_DRAWN);
    this.changed();
  }
}

function preferred(names) {
  const wanted = ["spindle_power", "spindle_torque", "x_torque", "z_torque"].filter((name) => names.includes(name));
  return (wanted.length ? wanted : names).slice(0, 4);
}
