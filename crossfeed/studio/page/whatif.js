// Other plans from the same moment: the picture follows the slider, the numbers follow when it rests.
import { $, debounce, element, number, span, table, unbroken, words } from "./dom.js";
import { Chooser, COLOURS, fanEdges, Figure } from "./figure.js";
import { get, latest, upload } from "./api.js";

const MOST = COLOURS.length;

export class WhatIf {
  constructor(model) {
    this.model = model;
    this.programs = model.programs.map((id) => ({ id, name: id.replace("bundled:", "") }));
    this.plans = [{ kind: "followed", feed: 100, spindle: 100 }, { kind: "followed", feed: 80, spindle: 100 }];
    this.figure = new Figure($("whatif-figure"), "Forecasts under each plan");
    this.chooser = new Chooser($("whatif-lights"), () => this.draw());
    this.forecast = latest("/api/forecast");
    this.whatIf = latest("/api/what-if");
    this.numbersSoon = debounce(() => this.numbers(), 350);
    this.sessions = [];
    this.wire();
  }

  wire() {
    $("add-plan").addEventListener("click", () => { this.plans.push({ ...this.plans.at(-1) }); this.showPlans(); this.ask(); });
    $("session").addEventListener("change", () => { this.showSession(); this.ask(); });
    $("at").addEventListener("input", () => { $("at-shown").textContent = `${$("at").value} s`; this.ask(); });
    $("ahead").addEventListener("change", () => this.ask());
    $("freeze").addEventListener("click", () => { $("session").value = ""; this.showSession(); this.ask(); });
    $("limit-sensor").addEventListener("change", () => this.showUnit());
    $("limit-value").addEventListener("change", () => this.ask());
    $("limit-form").addEventListener("submit", (event) => event.preventDefault());
    $("moment").addEventListener("submit", (event) => event.preventDefault());
    $("upload").addEventListener("change", () => this.take($("upload").files[0]));
    const drop = $("drop");
    drop.addEventListener("dragover", (event) => { event.preventDefault(); drop.classList.add("over"); });
    drop.addEventListener("dragleave", () => drop.classList.remove("over"));
    drop.addEventListener("drop", (event) => { event.preventDefault(); drop.classList.remove("over"); this.take(event.dataTransfer.files[0]); });
  }

  async open() {
    const told = await get("/api/sessions");
    this.live = told.live;
    this.sessions = told.sessions;
    $("moment-live").hidden = !told.live;
    const newest = told.live ? [element("option", { value: "", text: "now" })] : [];
    $("session").replaceChildren(...newest, ...this.sessions.map((one) => element("option", { value: one.session, text: `${one.machine} ${one.session.split("/").at(-1)} ${one.program}` })));
    $("limit-sensor").replaceChildren(...this.model.sensors.filter((one) => one.learned).map((one) => element("option", { value: one.name, text: words(one.name) })));
    this.showUnit();
    this.showSession();
    this.showPlans();
    await this.ask();
  }

  showUnit() {
    $("limit-unit").textContent = this.model.sensors.find((one) => one.name === $("limit-sensor").value)?.unit ?? "";
  }

  showSession() {
    const one = this.sessions.find((session) => session.session === $("session").value);
    $("at").disabled = !one;
    if (!one) { $("at-shown").textContent = "now"; return; }
    const period = this.model.period;
    $("at").min = Math.ceil(one.first); $("at").max = Math.floor(one.seconds); $("at").step = period;
    $("at").value = Math.max(Math.ceil(one.first), Math.min(Math.round(one.seconds * 0.4), Math.floor(one.seconds - 16 * period)));
    $("at-shown").textContent = `${$("at").value} s`;
  }

  showPlans() {
    $("add-plan").disabled = this.plans.length >= MOST;
    $("plans").replaceChildren(...this.plans.map((plan, place) => this.planRow(plan, place)));
  }

  planRow(plan, place) {
    const kinds = [["followed", "as planned"], ["held", "hold the last command"], ...this.programs.map((one) => [`program ${one.id}`, one.name])];
    const chosen = plan.kind === "program" ? `program ${plan.program}` : plan.kind;
    const select = element("select", { id: `plan-${place}`, onchange: (event) => {
      const [kind, program] = event.target.value.split(" ");
      Object.assign(plan, { kind, program });
      this.ask();
    } }, ...kinds.map(([value, text]) => element("option", { value, text, selected: value === chosen })));
    return element("div", { class: `plan c${place}`, role: "group", "aria-label": `Plan ${place + 1}` },
      element("div", {}, element("label", { for: select.id, text: `Plan ${place + 1}` }), select),
      this.slider(plan, place, "feed", "Feed override", 20, 150), this.slider(plan, place, "spindle", "Spindle override", 50, 130),
      element("button", { type: "button", "aria-label": `Remove plan ${place + 1}`, text: "×", disabled: this.plans.length === 1, onclick: () => { this.plans.splice(place, 1); this.showPlans(); this.ask(); } }));
  }

  slider(plan, place, knob, title, low, high) {
    const id = `${knob}-${place}`, output = element("output", { for: id, text: `${plan[knob]} %` });
    return element("div", {}, element("label", { for: id, text: `${title}: ` }, output),
      element("input", { type: "range", id, min: low, max: high, step: 5, value: plan[knob], oninput: (event) => {
        plan[knob] = Number(event.target.value);
        output.textContent = `${plan[knob]} %`;
        this.ask(performance.now());
      } }));
  }

  async take(file) {
    if (!file) return;
    $("upload").value = ""; // the same file, mended, can be chosen again
    try {
      const kept = await upload(file);
      this.programs.push({ id: kept.id, name: kept.name });
      const place = this.plans.length < MOST ? this.plans.length : MOST - 1;
      this.plans[place] = { kind: "program", program: kept.id, feed: 100, spindle: 100 };
      const errors = kept.findings.filter((finding) => finding.severity === "error");
      $("upload-told").textContent = `${kept.name} is plan ${place + 1}.` + (errors.length ? ` Not understood: line ${errors[0].line} (${errors[0].reason}).` : "");
      this.showPlans();
      await this.ask();
    } catch (problem) { $("upload-told").textContent = problem.message; }
  }

  question() {
    const session = $("session").value;
    const moment = session ? { session, at: Number($("at").value) } : {};
    return { ...moment, plans: this.plans.map((plan) => ({ kind: plan.kind, program: plan.program ?? null, feed: plan.feed, spindle: plan.spindle })) };
  }

  async ask(since = null) {
    this.whatIf.stop(); // numbers of a plan that is no longer wanted would only delay the picture
    this.numbersSoon();
    try {
      const answer = await this.forecast(this.question());
      this.answer = answer;
      this.sampled = null;
      $("whatif-told").textContent = warnings(answer);
      this.draw();
      if (since !== null) requestAnimationFrame(() => performance.measure("slider to picture", { start: since }));
    } catch (problem) { if (problem.name !== "AbortError") $("whatif-told").textContent = problem.message; }
  }

  async numbers() {
    const ahead = $("ahead").value, limit = $("limit-value").value;
    $("numbers-told").textContent = "Rolling the plans forward …";
    try {
      const content = await this.whatIf({
        ...this.question(), seconds: ahead ? Number(ahead) : null, samples: 64,
        limits: limit ? { [$("limit-sensor").value]: Number(limit) } : {},
      });
      this.sampled = content;
      $("numbers-told").textContent = `${content.settings.samples} sampled futures of each plan; intervals hold 90 % of them.`;
      this.compare(content);
      this.draw();
    } catch (problem) { if (problem.name !== "AbortError") $("numbers-told").textContent = problem.message; }
  }

  draw() {
    const content = this.sampled ?? this.answer;
    if (!content) return;
    const quick = !this.sampled, period = this.answer.period, entries = Object.entries(content.plans);
    const names = Object.keys(entries[0][1].sensors);
    this.chooser.offer(names, null);
    if (content.history) this.history = content.history;
    const limit = $("limit-value").value;
    const fans = entries.map(([name, plan]) => ({ name, time: plan.time, truth: plan.truth, sensors: fanEdges(plan.sensors) }));
    const longest = Math.max(...fans.map((fan) => fan.time.at(-1)));
    this.figure.draw({
      history: quick ? { time: this.history?.time ?? [], sensors: this.sameMoment() ? this.history.sensors : {}, commands: this.sameMoment() ? this.history.commands : {} } : content.history,
      fans, plans: entries.map(([name, plan]) => ({ name, time: plan.commands[this.model.commands[0].name].map((_, place) => (place + 1) * period), commands: plan.commands })),
      sensors: this.chooser.chosen, commands: this.model.commands.map((one) => one.name),
      units: Object.fromEntries([...this.model.sensors, ...this.model.commands].map((one) => [one.name, one.unit])),
      limits: limit ? { [$("limit-sensor").value]: Number(limit) } : {}, range: [-Math.min(60 * period, longest), longest * 1.02],
    });
  }

  sameMoment() { return this.history && this.answer && this.history.session === this.answer.session && this.history.at === this.answer.at; }

  compare(content) {
    const plans = Object.entries(content.plans), sensors = Object.keys(content.sensors);
    const unit = (name) => content.sensors[name].unit;
    const limited = sensors.filter((name) => plans[0][1].peaks[name]?.limit !== null);
    const heads = ["plan", unbroken("time in s"), unbroken("energy in Wh"), ...this.chooser.chosen.map((name) => `peak ${words(name)} ${unbroken(`in ${unit(name)}`)}`), ...limited.map((name) => `chance above ${number(plans[0][1].peaks[name].limit)} ${unit(name)}`)];
    const rows = plans.map(([name, plan]) => [
      name, number(plan.duration), span(plan.energy), ...this.chooser.chosen.map((sensor) => span(plan.peaks[sensor])),
      ...limited.map((sensor) => `${Math.round(100 * plan.peaks[sensor].probability)} %`),
    ]);
    const readings = content.comparisons.map((one) => element("li", { class: "reading", text: sentence(one.reading) }));
    $("compared").replaceChildren(
      element("ul", {}, ...readings), table("Plans side by side, with 90 % intervals", heads, rows),
      ...(content.doubts.length ? [element("h3", { text: "What speaks against trusting this" }), element("ul", {}, ...content.doubts.map((text) => element("li", { text })))] : []));
  }
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + ".";
const warnings = (answer) => answer.warnings.join(" · ");
