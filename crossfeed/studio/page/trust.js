// The verdict that was recorded about the model, and how its intervals have held since the service started.
import { element, number, table, unbroken, words } from "./dom.js";
import { showAnswer } from "./api.js";

const LIGHTS = { good: ["green", "yes"], fair: ["amber", "with care"], bad: ["red", "no"], unknown: ["unknown", "cannot be said"] };
const light = (colour, text) => element("span", { class: `dot ${colour}`, text });
const interval = (estimate, factor = 1, unit = "") => {
  if (!estimate || estimate.estimate === null) return "–";
  const shown = (value) => number(value * factor) + unit;
  return estimate.low === null || estimate.low === undefined ? shown(estimate.estimate) : `${shown(estimate.estimate)} (${shown(estimate.low)} to ${shown(estimate.high)})`;
};

export const showTrust = (place) => showAnswer(place, "/api/trust", (told) => {
  const recorded = told.recorded, sensors = Object.keys(told.so_far);
  const parts = [
    element("h3", { text: "Since the service started" }),
    element("p", { class: `verdict dot ${told.verdict?.colour ?? "unknown"}`, text: told.verdict?.sentence ?? "Nothing runs beside this service." }),
  ];
  if (sensors.length) {
    parts.push(table("Share of values inside their 90 % interval", ["sensor", "'light", "forecasts that came due", unbroken("inside 90 %"), "'in words"], sensors.map((name) => [
      words(name), light(told.lights[name]?.colour ?? "unknown", told.lights[name]?.colour ?? "not judged"), number(told.so_far[name].forecasts, 9),
      told.so_far[name].inside90 === null ? "–" : `${Math.round(100 * told.so_far[name].inside90)} %`, told.lights[name]?.sentence ?? "",
    ])));
  }
  parts.push(
    element("h3", { text: "As recorded" }), element("p", { text: recorded.question }),
    element("p", { class: `verdict dot ${{ good: "green", fair: "amber", bad: "red" }[recorded.tone] ?? "unknown"}`, text: recorded.answer }),
    ...recorded.sentences.map((text) => element("p", { text })));
  if (recorded.channels.length) {
    parts.push(table("Channel by channel", ["channel", "'may it be believed?", "skill over the last value", unbroken("inside 90 %"), "'why"], recorded.channels.map((one) => [
      words(one.channel), light(...LIGHTS[one.light]), interval(one.skill), interval(one.coverage, 100, " %"), one.reasons.join("; "),
    ])));
  }
  if (recorded.next.length) parts.push(element("h3", { text: "Next" }), element("ul", {}, ...recorded.next.map((text) => element("li", { text }))));
  return parts;
});
