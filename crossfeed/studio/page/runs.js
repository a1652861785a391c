// Studies, comparisons and trainings around the model, with how far each has come.
import { element, number, table } from "./dom.js";
import { showAnswer } from "./api.js";

export const showRuns = (place) => showAnswer(place, "/api/runs", (told) => {
  const parts = [...told.studies.map(study), ...told.comparisons.map(comparison)];
  if (told.trainings.length) {
    parts.push(element("h3", { text: "Trainings" }), table("Training runs", ["run", "epochs", "'state"],
      told.trainings.map((one) => [one.name, number(one.epochs, 9), one.problem ?? (one.finished ? "finished" : "under way or stopped")])));
  }
  return parts.length ? parts : [element("p", { text: "No study and no comparison lies here. Name a folder with crossfeed serve MODEL --runs FOLDER." })];
});

function study(one) {
  const head = element("h3", { text: `Study ${one.name}` });
  if (one.problem) return element("section", {}, head, element("p", { class: "told", text: one.problem }));
  const planned = one.runs.planned;
  const bar = element("progress", { max: Math.max(planned, 1), value: one.done, "aria-label": `Finished runs of the study ${one.name}` });
  const state = one.opened ? "locked, and the target was opened" : one.locked ? "locked; the target is still sealed" : "not locked yet";
  const running = one.under_way.map((run) => `${run.name} (epoch ${run.epochs})`).join(", ");
  return element("section", {}, head, element("p", {}, bar, ` ${one.done} of ${planned} runs finished; ${state}${one.locked ? ` (${one.locked})` : ""}.`),
    ...(running ? [element("p", { text: `Under way: ${running}.` })] : []),
    ...(one.ranking.length ? [table(`Ranking by the ${one.score} score, best first`, ["candidate", "seeds", "score"], one.ranking.map((row) => [row.candidate, row.seeds, number(row.score)]))] : []));
}

function comparison(one) {
  const head = element("h3", { text: `Comparison ${one.name}` });
  if (one.problem) return element("section", {}, head, element("p", { class: "told", text: one.problem }));
  const places = [...new Set(one.results.flatMap((result) => Object.keys(result.scores)))];
  const heads = ["model", "seed", "'state", ...places.flatMap((place) => [`${place}: RMSE`, "CRPS", "inside 90 %"])];
  return element("section", {}, head, element("p", { text: one.finished ? `${one.done} runs, finished.` : `${one.done} runs finished so far; it goes on.` }),
    table("Results so far", heads, one.results.map((result) => [result.model, result.seed, result.status, ...places.flatMap((place) => {
      const score = result.scores[place] ?? {};
      return [number(score.rmse), number(score.crps), score.coverage90 === null || score.coverage90 === undefined ? "–" : `${Math.round(100 * score.coverage90)} %`];
    })])));
}
