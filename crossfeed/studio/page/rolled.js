// The running program rolled forward on sampled futures, beside a stream of rows that goes on meanwhile.
import { latest } from "./api.js";
import { fanEdges } from "./figure.js";

const AGAIN = 4000, SECONDS = 64, SAMPLES = 32;

export class Rolled {
  constructor(changed) {
    this.changed = changed;
    this.whatIf = latest("/api/what-if");
    this.forget();
  }

  forget() { this.content = null; this.problem = ""; this.asked = -AGAIN; this.whatIf.stop(); }

  // Ask again now and then; one question at a time.
  async follow() {
    if (this.waiting || performance.now() - this.asked < AGAIN) return;
    this.asked = performance.now();
    this.waiting = true;
    try {
      this.content = await this.whatIf({ plans: [{ kind: "followed" }], seconds: SECONDS, samples: SAMPLES });
      this.problem = "";
    } catch (problem) { if (problem.name !== "AbortError") this.problem = problem.message; }
    this.waiting = false;
    this.changed();
  }

  // The fan and its plan in seconds from the newest row of `state`; nothing while the row it began from is not shown.
  fan(state) {
    if (!this.content) return null;
    const told = this.content.history.sensors, names = Object.keys(told).filter((name) => state.recent.sensors[name]);
    const rows = state.recent.times.length;
    const same = (row) => names.every((name) => state.recent.sensors[name][row] === told[name].at(-1));
    let began = rows - 1;
    while (began >= 0 && !same(began)) began -= 1;
    if (began < 0 || !names.length) return null;
    const passed = (rows - 1 - began) * state.period;
    const [name, plan] = Object.entries(this.content.plans)[0];
    const kept = plan.time.map((time, place) => [time - passed, place]).filter(([time]) => time > 0);
    if (!kept.length) return null;
    const only = (values) => kept.map(([, place]) => values[place]), time = kept.map(([seconds]) => seconds);
    return {
      fan: { name: "rolled forward", time, sensors: fanEdges(plan.sensors, only) },
      plan: { name, time, commands: Object.fromEntries(Object.entries(plan.commands).map(([command, values]) => [command, only(values)])) },
    };
  }
}
