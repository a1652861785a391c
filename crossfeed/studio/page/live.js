// The newest moment: history, the fan of the next seconds, commands below, lights, ages.
import { $, element, number } from "./dom.js";
import { Chooser, Figure } from "./figure.js";
import { stream } from "./api.js";
import { Rolled } from "./rolled.js";

export class Live {
  constructor() {
    this.state = null;
    this.figure = new Figure($("live-figure"), "Measured values and the forecast of the next seconds");
    this.chooser = new Chooser($("live-lights"), () => this.show());
    this.rolled = new Rolled(() => this.show());
    $("live-roll").addEventListener("change", () => { this.rolled.forget(); this.show(); });
  }

  start() {
    stream((state) => {
      this.state = state;
      if (!$("live").hidden) this.wanted ??= requestAnimationFrame(() => { this.wanted = null; this.show(); });
    }, (connected) => {
      $("connection").textContent = connected ? "" : "The stream is interrupted: what is shown is old. It goes on by itself once the service answers again.";
      $("connection").classList.toggle("told", !connected);
      if (connected || !this.state) return;
      const quiet = { colour: "unknown", sentence: "Nothing is heard any more, so nothing can be said about now." };
      this.state = { ...this.state, row_age: undefined, forecast_age: undefined, verdict: quiet, lights: {} };
      this.show();
    });
  }

  show() {
    const state = this.state;
    if (!state) return;
    $("machine").textContent = `${state.machine} · ${state.source}`;
    const verdict = $("live-verdict");
    verdict.className = `verdict dot ${state.verdict?.colour ?? "unknown"}`;
    const sentence = state.verdict?.sentence ?? "";
    if (verdict.textContent !== sentence) verdict.textContent = sentence; // a screen reader speaks whenever it is set
    const facts = {
      "newest row": age(state.row_age), "forecast from": age(state.forecast_age), plan: state.plan.sentence,
      ...(state.learning ? { learning: state.learning } : {}),
      ...Object.fromEntries(Object.entries(state.counters).filter(([name, count]) => count && name !== "skew")),
    };
    $("live-facts").replaceChildren(...Object.entries(facts).map(([name, value]) =>
      element("div", {}, element("dt", { text: name }), element("dd", { text: typeof value === "number" ? number(value, 9) : value }))));
    $("live-notices").textContent = (state.notices ?? []).slice(0, 3).join(" · ");
    this.chooser.offer(state.sensors, state.lights);
    const shown = -61, of = (columns) => Object.fromEntries(Object.entries(columns).map(([name, values]) => [name, values.slice(shown)]));
    const times = state.recent.times.slice(shown), last = times.at(-1) ?? 0, horizon = state.horizons.map((rows) => rows * state.period);
    const planTime = Object.values(state.plan.commands)[0]?.map((_, place) => (place + 1) * state.period) ?? [];
    const further = this.further(state);
    const fan = { name: "forecast", time: horizon, sensors: state.forecast }, plan = { name: "planned", time: planTime, commands: state.plan.commands };
    this.figure.draw({
      history: { time: times.map((time) => time - last), sensors: of(state.recent.sensors), commands: of(state.recent.commands) },
      fans: further ? [further.fan] : Object.keys(state.forecast).length ? [fan] : [],
      plans: [further ? further.plan : plan],
      sensors: this.chooser.chosen, commands: state.commands, units: state.units,
      range: [-60 * state.period, (further?.fan.time.at(-1) ?? horizon.at(-1) ?? 16) * 1.02],
    });
  }

  // What is planned further ahead than the trained horizons, where that is known and wanted.
  further(state) {
    const known = ["program", "followed"].includes(state.plan.kind);
    $("live-rolling").hidden = !known;
    if (!known || !$("live-roll").checked) { $("live-rolled").textContent = ""; return null; }
    this.rolled.follow();
    const found = this.rolled.fan(state);
    const told = this.rolled.problem || (found ? "" : "Rolling …");
    if ($("live-rolled").textContent !== told) $("live-rolled").textContent = told;
    return found;
  }
}

const age = (seconds) => (seconds === undefined ? "not known" : seconds === null ? "none yet" : `${seconds.toFixed(1)} s ago`);
