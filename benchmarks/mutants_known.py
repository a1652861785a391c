"""Which tests answer for which of the files that decide numbers, and which small errors in them do no harm."""

_FIGURES = "control/test_golden_figures.py"
_DECISIONS = "control/test_golden_decisions.py"
_TRACES = "machines/simulated/test_golden_traces.py"
_SEED = "fleet/test_seed.py"
_FINDINGS = "audits/test_golden_findings.py"
_PLANS = "programs/test_golden_plans.py"
_GOLDEN = "training/test_step.py::test_golden_losses_of_twenty_steps"
_SENSORS = ("model/sensors", "training/test_step.py::test_golden_losses_of_twenty_steps_of_the_default_network")
TESTS: dict[str, tuple[str, ...]] = {
    "ingest/resample.py": ("ingest/test_resample.py",),
    "windows/listing.py": ("windows/test_windows.py", "windows/test_counts.py"),
    "windows/corrupt.py": ("windows/test_corrupt.py",),
    "windows/block_runs.py": ("windows/test_corrupt.py",),
    "windows/normalise.py": ("windows/test_normalise.py",),
    "windows/split.py": ("windows/test_split.py",),
    "evaluation/conformal.py": ("evaluation/test_conformal.py", "evaluation/test_evaluate.py"),
    "evaluation/statistics.py": ("evaluation/test_statistics.py",),
    "distribution/mixture.py": ("distribution/test_mixture.py", "distribution/test_families.py"),
    "distribution/student_t.py": ("distribution/test_families.py",),
    "training/measure/floors.py": ("training/measure/test_floors.py",),
    "training/update/schedule.py": ("training/update/test_schedule.py",),
    "distribution/distribution.py": ("distribution/test_families.py", "distribution/test_mixture.py"),
    "distribution/gaussian.py": ("distribution/test_families.py",),
    "distribution/inversion.py": ("distribution/test_families.py", "distribution/test_mixture.py"),
    "distribution/normal.py": ("distribution/test_families.py", "distribution/test_mixture.py"),
    "distribution/quantiles.py": ("distribution/test_families.py",),
    "windows/frame.py": ("windows/test_frame.py", "model/test_new_machine.py"),
    "windows/machine_changes.py": ("windows/test_machine_changes.py",),
    "windows/no_load.py": ("windows/test_no_load.py", "windows/test_plan_changes.py"),
    "windows/plan_changes.py": ("windows/test_plan_changes.py",),
    "windows/windows.py": ("windows/test_windows.py",),
    "model/new_machine.py": ("model/test_new_machine.py",),
    "model/sensors/commands.py": _SENSORS,
    "model/sensors/paths.py": _SENSORS,
    "model/sensors/head.py": _SENSORS,
    "model/sensors/channel_embedding.py": _SENSORS,
    "model/sensors/network.py": _SENSORS,
    "model/sensors/objective.py": _SENSORS,
    "model/sensors/window.py": _SENSORS,
    "training/rehearsal.py": ("training/test_rehearsal.py",),
    "training/pretrained.py": ("training/test_pretrained.py",),
    "training/measure/calibrate.py": ("training/measure/test_calibrate.py",),
    "evaluation/calibration.py": ("evaluation/test_calibration.py",),
    "evaluation/channels.py": ("evaluation/test_channels.py",),
    "evaluation/command_use.py": ("evaluation/test_command_use.py",),
    "evaluation/corruptions.py": ("evaluation/test_corruptions.py", "evaluation/test_robustness.py"),
    "evaluation/counterfactual.py": ("evaluation/test_counterfactual.py",),
    "evaluation/metrics.py": ("evaluation/test_metrics.py", "evaluation/test_evaluate.py"),
    "evaluation/verdict.py": ("evaluation/test_verdict.py",),
    "adaptation/fewshot.py": ("adaptation/test_fewshot.py", "adaptation/test_support.py"),
    "adaptation/learning.py": ("adaptation/test_learning.py",),
    "adaptation/online.py": ("adaptation/test_online.py",),
    "adaptation/support.py": ("adaptation/test_support.py", "adaptation/test_fewshot.py"),
    "jobs.py": ("test_jobs.py", "baselines/test_compare.py"),
    "learning_curve/fleet.py": ("learning_curve/test_by_session.py", "learning_curve/test_curve.py"),
    "learning_curve/result.py": ("learning_curve/test_crossings.py", "learning_curve/test_curve.py"),
    "learning_curve/own_logs.py": ("learning_curve/test_own_logs.py", "learning_curve/test_by_session.py"),
    "serving/measures.py": ("serving/test_measures.py",),
    "serving/noise.py": ("serving/test_noise.py", "serving/test_rollout.py"),
    "serving/rollout.py": ("serving/test_rollout.py", "serving/test_level.py"),
    "control/timeline.py": ("control/test_timeline.py", _DECISIONS),
    "control/decision.py": ("control/test_decision.py", "control/test_timeline.py", _DECISIONS),
    "control/cutting_law.py": ("control/test_cutting_law.py", _DECISIONS),
    "control/margins.py": ("control/test_margins.py", _DECISIONS),
    "control/score.py": ("control/test_decision.py", _DECISIONS),
    "control/search.py": ("control/test_search.py", _DECISIONS),
    "audits/drives.py": ("audits/test_units.py", "audits/test_windows.py", _FINDINGS),
    "audits/factors.py": ("audits/test_units.py", _FINDINGS),
    "audits/physics.py": ("audits/test_units.py", _FINDINGS),
    "audits/stages.py": ("audits/test_causality.py",),
    "audits/subject.py": ("audits/test_subject.py", "audits/test_windows.py", "audits/test_commands.py"),
    "baselines/budget.py": ("baselines/test_fitting.py", "baselines/test_compare.py"),
    "baselines/network.py": ("baselines/test_networks.py", "baselines/test_fitting.py"),
    "baselines/regression.py": ("baselines/test_fitting.py", "baselines/test_trees.py"),
    "baselines/results.py": ("baselines/test_compare.py",),
    "control/adaptive_feed.py": ("control/test_adaptive_feed.py", _FIGURES, "control/test_load_calibration.py"),
    "control/forecast_scores.py": ("control/test_forecast_scores.py", "control/test_load_calibration.py"),
    "control/controllers.py": ("control/test_machine.py", "control/test_cutting_law.py", _FIGURES),
    "control/load_calibration.py": ("control/test_load_calibration.py", _DECISIONS),
    "control/earlier_runs.py": ("control/test_load_calibration.py", _DECISIONS),
    "control/imagined_episodes.py": (
        "control/test_imagined_episodes.py",
        _FIGURES,
        "control/test_environments.py",
        "control/test_learn.py",
    ),
    "control/machine.py": ("control/test_machine.py", _FIGURES),
    "control/offpolicy/estimate.py": ("control/offpolicy/test_estimate.py", _FIGURES),
    "control/limited_sensor.py": ("control/test_load_calibration.py", _DECISIONS),
    "control/limits.py": ("control/test_task.py",),
    "control/observation.py": (_FIGURES, "control/test_environments.py", "control/test_learn.py"),
    "control/offpolicy/collect.py": ("control/offpolicy/test_estimate.py", _FIGURES),
    "control/offpolicy/log.py": ("control/offpolicy/test_estimate.py", _FIGURES),
    "control/offpolicy/value.py": ("control/offpolicy/test_estimate.py", _FIGURES),
    "control/oracle.py": ("control/test_adaptive_feed.py", _FIGURES),
    "control/load_forecast.py": ("control/test_load_forecast.py", "control/test_decision.py"),
    "control/planner.py": ("control/test_decision.py", _DECISIONS),
    "control/scatter.py": ("control/test_scatter.py", _DECISIONS),
    "control/task.py": ("control/test_task.py", "control/test_decision.py"),
    "control/trial.py": ("control/test_machine.py", "control/test_cutting_law.py", _FIGURES),
    "edge.py": ("export/test_edge.py",),
    "export/graph.py": ("export/test_graph.py", "export/test_export.py"),
    "fleet/draw.py": ("fleet/test_generate.py", "fleet/test_parts.py", _SEED),
    "fleet/motors.py": ("fleet/test_generate.py", "fleet/test_parts.py", _SEED),
    "fleet/operations.py": ("fleet/test_generate.py", "fleet/test_parts.py", _SEED),
    "fleet/parts.py": ("fleet/test_generate.py", "fleet/test_parts.py", _SEED),
    "fleet/turning.py": ("fleet/test_generate.py", "fleet/test_parts.py", _SEED),
    "fleet/habits.py": ("fleet/test_log.py", "fleet/test_generate.py", _SEED),
    "fleet/log.py": ("fleet/test_log.py", "fleet/test_generate.py", _SEED),
    "fleet/people.py": ("fleet/test_log.py", "fleet/test_generate.py", _SEED),
    "fleet/servo.py": ("fleet/test_signals.py", "fleet/test_log.py", "fleet/test_generate.py", _SEED),
    "fleet/signals.py": ("fleet/test_signals.py", "fleet/test_log.py", "fleet/test_generate.py", _SEED),
    "fleet/generate.py": ("fleet/test_generate.py", _SEED),
    "fleet/describe.py": ("fleet/test_compare.py",),
    "fleet/features.py": ("fleet/test_compare.py",),
    "ingest/align.py": ("ingest/test_table.py", "evaluation/test_model_evaluation.py"),
    "learning_curve/runner.py": ("learning_curve/test_effort.py", "learning_curve/test_curve.py"),
    "live/frame.py": ("live/test_frame.py", "live/test_row_maker.py"),
    "live/machine_forecaster.py": ("live/test_monitor.py", "live/test_learning.py"),
    "live/mapping.py": ("live/test_mapping.py",),
    "live/promises.py": ("live/test_promises.py", "live/test_trust.py", "live/test_shared_forecasts.py"),
    "live/row.py": ("live/test_row.py", "live/test_monitor.py"),
    "live/sparkplug.py": ("live/test_sparkplug.py",),
    "live/tracked_intervals.py": ("live/test_learning.py",),
    "machines/column_names.py": ("machines/test_column_names.py", "machines/test_template.py"),
    "machines/dialect.py": ("machines/test_delimited.py",),
    "machines/log_clock.py": ("machines/test_log_clock.py", "machines/test_template.py", "machines/test_table.py"),
    "machines/log_columns.py": ("machines/test_log_columns.py", "machines/test_template.py", "machines/test_table.py"),
    "machines/joanneum.py": ("machines/test_joanneum.py", "machines/test_log_formats.py"),
    "machines/thws.py": ("machines/test_thws.py", "machines/test_log_formats.py"),
    "machines/mtconnect.py": (
        "machines/test_log_formats.py",
        "machines/test_mtconnect.py",
        "machines/test_mtconnect_devices.py",
    ),
    "machines/mtconnect_channels.py": ("machines/test_mtconnect_devices.py",),
    "machines/mtconnect_events.py": ("machines/test_mtconnect.py", "machines/test_mtconnect_devices.py"),
    "machines/numbers.py": ("machines/test_delimited.py", "machines/test_table.py"),
    "machines/simulated/filters.py": (
        "machines/simulated/test_dynamics.py",
        "machines/simulated/test_axes.py",
        _TRACES,
    ),
    "machines/simulated/noise.py": (
        "machines/simulated/test_dynamics.py",
        "machines/simulated/test_rollout.py",
        _TRACES,
    ),
    "machines/simulated/cutting.py": (
        "machines/simulated/test_spindle.py",
        "machines/simulated/test_stock.py",
        _TRACES,
    ),
    "model/jepa/objectives.py": ("model/jepa/test_objectives.py", _GOLDEN),
    "model/jepa/regularisers.py": ("model/jepa/test_regularisers.py", _GOLDEN),
    "model/jepa/encoder.py": (
        "model/jepa/test_encoder.py",
        "model/parts/test_packing.py",
        "model/test_presets.py",
        _GOLDEN,
    ),
    "model/jepa/head.py": ("model/jepa/test_head.py", _GOLDEN),
    "model/jepa/predictor.py": ("model/jepa/test_predictor.py", _GOLDEN),
    "model/parts/attention.py": ("model/parts/test_attention.py", _GOLDEN),
    "model/parts/blocks.py": ("model/parts/test_blocks.py", _GOLDEN),
    "model/parts/dropout.py": ("model/parts/test_dropout.py", _GOLDEN),
    "model/parts/horizon_embedding.py": ("model/jepa/test_head.py", _GOLDEN),
    "model/parts/instance_norm.py": ("model/parts/test_instance_norm.py", _GOLDEN),
    "model/sensors/further_commands.py": _SENSORS,
    "model/sensors/members.py": _SENSORS,
    "model/sensors/model.py": _SENSORS,
    "programs/execute.py": (
        "programs/test_flow.py",
        "programs/test_motion.py",
        "programs/test_cycles.py",
        "programs/test_bad_input.py",
        _PLANS,
    ),
    "machines/table.py": ("machines/test_table.py", "machines/test_log_clock.py"),
    "programs/geometry.py": ("programs/test_motion.py", "programs/test_plan.py", _PLANS),
    "programs/legs.py": ("programs/test_plan.py", "programs/test_trajectory.py", "programs/test_overrides.py", _PLANS),
    "programs/profile.py": ("programs/test_plan.py", "programs/test_overrides.py", _PLANS),
    "programs/limits.py": ("programs/test_plan.py", _PLANS),
    "rows.py": ("model/test_forecast.py", "ingest/test_from_frame.py"),
    "schema.py": ("test_schema.py",),
    "serving/describe.py": ("serving/test_describe.py", "serving/test_what_if.py"),
    "serving/plan.py": ("serving/test_plan_table.py", "serving/test_plan_program.py", "serving/test_rollout.py"),
    "serving/warnings.py": ("serving/test_doubt.py", "serving/test_trained_range.py", "serving/test_history.py"),
    "study/record/outcomes.py": ("study/test_differences.py", "study/test_halving.py"),
    "training/measure/loss_pass.py": ("training/measure/test_validate.py",),
    "training/update/flat_update.py": ("training/update/test_adamw.py", _GOLDEN),
    "windows/draws.py": ("windows/test_machine_changes.py", "windows/test_plan_changes.py", "windows/test_corrupt.py"),
    "windows/split_tables.py": (
        "windows/test_counts.py",
        "training/test_many_machines.py",
        "learning_curve/test_own_logs.py",
    ),
}
# A file whose errors a test of its own name answers for.
_OWN_TEST = {
    "adaptation": "model_adaptation parameters",
    "audits": "causality load normaliser split windows",
    "control": "advise environments learn mean_rollout rehearse write_program",
    "evaluation": "bundle invariance regimes robustness",
    "fleet": "compare train",
    "ingest": "divide from_frame segment units",
    "learning_curve": "curve",
    "live": "clock learning program_plan row_maker trust",
    "machines": "clock delimited",
    "model": "forecast live world_model",
    "model/parts": "packing",
    "serving": "history override_rows plan_program plan_table",
    "study": "contrast halving",
    "study/record": "conditions score",
    "training": "budget order selection step",
    "training/measure": "health metrics validate",
    "training/update": "adamw average optimiser",
}
TESTS |= (
    {f"{room}/{name}.py": (f"{room}/test_{name}.py",) for room, names in _OWN_TEST.items() for name in names.split()}
    | {
        f"audits/{name}.py": (f"audits/test_{name}.py", _FINDINGS)
        for name in ("clock", "commands", "dead", "swapped", "twins", "units")
    }
    | {
        f"programs/{name}.py": (f"programs/test_{name}.py", _PLANS)
        for name in ("cycles", "expressions", "flow", "motion", "plan", "read_line", "trajectory")
    }
    | {
        f"machines/simulated/{name}.py": (f"machines/simulated/test_{name}.py", _TRACES)
        for name in ("axes", "dynamics", "heat", "overrides", "path", "rollout", "spindle", "stock")
    }
)
# What does no harm when it is a little wrong: the file, what is changed, the line it stands in, and the reason.
_MORE_RUNS = "more runs than needed are cut to zero length"
_ENOUGH = "return math.ceil(mean + 3.0 * math.sqrt(mean)) + 2 if wanted else 0"
_SEARCH = "return _tail(angle, nu) - share, torch.exp(_log_constant(nu) + (nu - 1.0) * angle.sin().log())"
_START = "start = torch.where(heavy, 0.0, (0.5 * math.pi - _REACH / nu.sqrt()).clamp_min(0.0))"
_VIEW = "return _never_empty(m_BKC, m_BKC & (draw((len(m_BKC), 1, m_BKC.shape[2])) < keep), draw)"
_SHIFT = "offset_B1C = (2.0 * draw(shape) - 1.0) * FARTHEST_SHIFT * (draw(shape) < SHIFTED)"
_NEVER_HIT = "a draw never is the very number it is compared with"
_STANDS = "steps of a standing spindle that are not skipped give nought, later"
_SIGN = "a sign stands before one value, and nobody counts these"
_TOTAL = "return pl.when(total > 0).then((value * pl.col(_WEIGHT)).sum() / total).otherwise(value.mean()).alias(name)"
HARMLESS: dict[tuple[str, str, str], str] = {
    ("ingest/resample.py", "total > 0", _TOTAL): "no weight is below one microsecond",
    ("ingest/resample.py", "1", "first, last = self._bin_of(pl.col(CLOCK) + 1), self._bin_of(pl.col(UNTIL))"): (
        "a piece of one microsecond is left out"
    ),
    ("windows/corrupt.py", "draw((len(m_BKC), 1, m_BKC.shape[2])) < keep", _VIEW): _NEVER_HIT,
    ("windows/corrupt.py", "draw(shape) < SHIFTED", _SHIFT): _NEVER_HIT,
    ("windows/corrupt.py", "1e-09", ""): "any tiny number keeps a whole rank whole",
    ("distribution/student_t.py", "nu - 1.0", _SEARCH): "the slope of a search that ends at the same value, later",
    ("distribution/student_t.py", "0.0", _START): "nothing lies there where many degrees of freedom ask for it",
    ("windows/block_runs.py", "0", "return draw((batch, 0)).long()"): "a run of no length hides nothing",
    ("windows/block_runs.py", "2.0 * wanted", "mean = 2.0 * wanted / (SHORTEST_RUN + longest)"): _MORE_RUNS,
    ("windows/block_runs.py", "2.0", "mean = 2.0 * wanted / (SHORTEST_RUN + longest)"): _MORE_RUNS,
    ("windows/block_runs.py", "3.0 * math.sqrt(mean)", _ENOUGH): _MORE_RUNS,
    ("windows/block_runs.py", "3.0", _ENOUGH): _MORE_RUNS,
    ("windows/block_runs.py", "2", _ENOUGH): _MORE_RUNS,
    ("windows/block_runs.py", "1", "start_BR = before_BR + torch.minimum((lot_BR * (free_BR + 1)).long(), free_BR)"): (
        "the ring is cut open at random, so only the gaps between runs become a little uneven"
    ),
    ("windows/block_runs.py", "0", "wanted = max(wanted, SHORTEST_RUN) if wanted else 0"): (
        "a run of a single step with no neighbour is dropped"
    ),
    ("windows/split.py", "2", 'return json.dumps(self.model_dump(mode="json"), indent=2, ensure_ascii=False)'): (
        "white space in a file"
    ),
    (
        "evaluation/conformal.py",
        "0.05",
        "stream: ForecastTrace, horizons: Sequence[int], levels: Sequence[float] = LEVELS, rate: float = 0.05",
    ): "any small rate keeps the long-run share of misses",
    ("evaluation/conformal.py", "1e-09", ""): "any tiny number keeps a whole rank whole",
    ("evaluation/statistics.py", "1", "sums = np.zeros(1)"): "every flip is counted equally often",
    ("evaluation/statistics.py", "1e-12", ""): "any tiny number keeps equal sums equal",
    ("evaluation/statistics.py", "1 << 16", ""): "the size of a batch",
    ("distribution/inversion.py", "x_N - value_N / slope_N", ""): "halving the bracket ends at the same value, later",
    ("distribution/inversion.py", "x_N.device.type == 'cpu'", ""): "what rests is put aside to save time",
    ("distribution/inversion.py", "newton_N < high_N", ""): "a step to the very edge of its bracket is a step too",
    (
        "windows/no_load.py",
        "0.0",
        'edge_V = np.unique(np.quantile(speed_N, np.linspace(0.0, 1.0, BINS + 1), method="inverted_cdf"))',
    ): ("where the lowest of sixteen bins ends"),
    (
        "windows/no_load.py",
        "1",
        'edge_V = np.unique(np.quantile(speed_N, np.linspace(0.0, 1.0, BINS + 1), method="inverted_cdf"))',
    ): "into how many bins speeds are divided",
    ("evaluation/metrics.py", "mean + crps + (0.0 if nll is None else nll)", ""): (
        "what is no number is none either way"
    ),
    ("evaluation/verdict.py", "command.estimate < WEAK_COMMAND_USE", ""): "a ratio of exactly the least",
    (
        "training/rehearsal.py",
        "0.0",
        "return torch.where(batch.future_m_BHC, x_BHC, 0.0)",
    ): "what is absent is never read",
    ("evaluation/calibration.py", "high > 0.15", ""): "a share of exactly three in twenty",
    ("control/decision.py", "np.abs(feed_T[own] - 1.0).max() > _OFF", ""): "a knob that is off by exactly the least",
    (
        "model/sensors/window.py",
        "-1",
        "number_K1 = torch.arange(1, m_BKC.shape[1] + 1, device=m_BKC.device).unsqueeze(-1)",
    ): ("of one axis the next one is the last one"),
    ("evaluation/command_use.py", "1", "partner_W[index_W[order]] = index_W[order.roll(1)]"): (
        "the plan of the next but one in the cycle is somebody else's too"
    ),
    ("evaluation/corruptions.py", "1.0", "uniform = draw(tuple(shape)).double().clamp(2.0**-25, 1.0 - 2.0**-25)"): (
        "a draw in single precision is never that near to one"
    ),
    ("adaptation/learning.py", "towards_truth is None or about_errors is None", ""): "a family has a density or none",
    ("adaptation/online.py", "0.0", "clip_norm: float = Field(1.0, gt=0.0)"): "nobody clips gradients that far",
    (
        "control/timeline.py",
        "10",
        "FINE = 10  # samples in a place: short moves inside a second keep their own share of it",
    ): ("how finely a second is divided"),
    (
        "control/timeline.py",
        "np.abs(self.commands_TA[:, self.spindle_column] - now_A[self.spindle_column]) < _SPEED",
        "",
    ): ("a speed that differs by exactly the limit"),
    ("control/decision.py", "1.0", "taken = timeline.period * (1.0 - share + share / max(feed_T[index], 1.0))"): (
        "a knob that is turned down a little before it must be"
    ),
    ("control/cutting_law.py", "3", "_STEADY = 3  # rows at one speed before the spindle has settled"): (
        "one row more before the spindle counts as settled"
    ),
    (
        "control/cutting_law.py",
        "feed_xT > 1.0",
        "return np.asarray(load_xT * np.where(feed_xT > 1.0, feed_xT**power, 1.0))",
    ): ("one to any power is one"),
    ("control/score.py", "1", "count = len(next(iter(self.forecast.paths.values()))) if self.forecast.paths else 1"): (
        "without loads every sample is the same"
    ),
    ("control/score.py", "self.law.exponent + self.law.spread * draw", ""): "a draw is as often below zero as above",
    ("control/search.py", "2", "elites: int = Field(default=8, ge=2)"): "nobody asks for two elites",
    (
        "control/search.py",
        "1.0",
        "colour: float = Field(default=1.0, ge=0.0)  # 0 white; higher makes neighbouring knots move together",
    ): ("where a search looks, not what it is looking for"),
    ("control/search.py", "2.0", "seconds: float = Field(default=2.0, gt=0.0)"): "how long a search looks",
    ("evaluation/corruptions.py", "x_BKC + torch.where(hit, SPIKE * sign, 0.0)", ""): (
        "a spike goes down as often as up"
    ),
    (
        "evaluation/corruptions.py",
        "2.0",
        "uniform = draw(tuple(shape)).double().clamp(2.0**-25, 1.0 - 2.0**-25)",
    ): "how far out the noise of one draw in sixteen million lies",
    (
        "control/imagined_episodes.py",
        "1.0",
        "above_B = np.where(feeding_B > 0.99, above_BL.max(axis=1, initial=-1.0), -1.0)",
    ): "anything below nought is no excess",
    (
        "control/planner.py",
        "0",
        "forecast: LoadForecast, law: CuttingLaw, task: Task, schema: Schema, config: PlannerConfig, seed: int = 0",
    ): "any seed searches",
    ("machines/log_clock.py", "np.abs(forward - usual) < 0.1 * usual", ""): "a step that is off by exactly a tenth",
    ("machines/log_columns.py", "_correlation(np.abs(values[name]), product) > _FOLLOWS", ""): (
        "a correlation of exactly the least"
    ),
    ("machines/log_columns.py", "0.05", "rows &= watts > 0.05 * float(np.nanmax(watts, initial=0.0))"): (
        "which rows of a loaded spindle tell watts from kilowatts"
    ),
    (
        "machines/log_columns.py",
        "0",
        "if rows.sum() < _FEWEST_ROWS or one[rows].std() == 0 or two[rows].std() == 0:",
    ): "where nothing varies the correlation is no number, and that follows nothing",
    ("audits/causality.py", "1000.0", "noise = rng.normal(scale=1e3, size=sensors[later].shape)"): (
        "any other values are other values"
    ),
    ("machines/simulated/spindle.py", "grip < -1.0", ""): "a grip of exactly minus one is cut to itself",
    ("model/live.py", "0", "self._unread = 0"): "where nothing was read yet, all of it is read",
    ("model/live.py", "0", "self._rows, self._context, self._unread = None, None, 0"): (
        "where nothing was read yet, all of it is read"
    ),
    ("programs/flow.py", "0", "self.executed = 0"): "one line more or less until a program is called endless",
    (
        "training/rehearsal.py",
        "_coming_to_rest(windows, turns_N) < SHARE * STOPPED",
        "",
    ): "a share of exactly so much",
    ("machines/log_columns.py", "100.0 <= middle <= 1200.0", ""): "a link of exactly so many volts",
    ("control/environments.py", "row.truth[n] * scale", ""): "every power of the simulator is in kW",
    ("live/trust.py", "self._far.get(name, 0.0) > _FARTHEST", ""): "a value that is exactly so far away",
    (
        "control/timeline.py",
        "0.0",
        "return np.asarray((self.feed_share_T > 0.99) & (np.abs(self.commands_TA[:, self.spindle_column]) > 0.0))",
    ): "no spindle turns a hundredth a minute",
    (
        "control/offpolicy/value.py",
        "0.0",
        "penalty = _RIDGE * len(known) * np.diag(np.append(0.0, np.ones(size - 1)))",
    ): "a hundredth of a millionth pulls no mean",
    ("distribution/student_t.py", "0.5", "high = torch.full_like(nu, 0.5 * math.pi)"): (
        "a wider bracket of a search that ends at the same value"
    ),
    ("audits/units.py", "rest <= allowed", ""): "a ratio that is explained to within exactly the least",
    ("audits/units.py", "low <= reach / f.inflation <= high", ""): "a reach of exactly the least or the most",
    (
        "machines/simulated/stock.py",
        "cells > 0",
        "mean_depth = np.divide(volume, cells * block.cell**2, out=np.ones(count), where=cells > 0)",
    ): "what removes nothing is air either way",
    ("machines/log_columns.py", "1000", 'off = ratio / (1000 if unit == "kW" else 1)'): (
        "a quotient that is off by a thousandth is rounded"
    ),
    ("model/parts/attention.py", "key_value_BS2D.shape[1] <= LONGEST", ""): "kernels are there on a GPU alone",
    ("control/search.py", "cost[order[0]] < cheapest", ""): "a plan that costs exactly as much",
    (
        "machines/simulated/noise.py",
        "start + count - 1",
        "first, last = start // _BLOCK, (start + count - 1) // _BLOCK",
    ): "a block more is drawn and not looked at",
    ("serving/history.py", "0.0 <= at <= time[-1] + period * (1.0 - ON_THE_CLOCK)", ""): (
        "the first row alone is no history"
    ),
    ("audits/swapped.py", "0", "if len(values) < 30 or direction.std() == 0 or values.std() == 0:"): (
        "where nothing varies the correlation is no number, and that follows nothing"
    ),
    ("programs/cycles.py", "1000", "_MOST_PECKS = 1000"): "one peck more",
    ("programs/motion.py", "length >= _NOTHING", ""): "a length of exactly nothing",
    ("adaptation/online.py", "0", "seed: int = Field(0, ge=0)"): "any seed draws what is learned again",
    ("live/machine_forecaster.py", "False", "return False"): "rows that are read again say the same",
    ("control/task.py", "within + 1e-09", ""): "what is as good as equal is met either way",
    ("windows/corrupt.py", "2", "if steps < 2:"): "a single change never lies above its own quantile",
    (
        "windows/no_load.py",
        "BINS + 1",
        'edge_V = np.unique(np.quantile(speed_N, np.linspace(0.0, 1.0, BINS + 1), method="inverted_cdf"))',
    ): "into how many bins speeds are divided",
    (
        "evaluation/metrics.py",
        "0.0",
        "self._refuse_nan(present & ~torch.isfinite(mean + crps + (0.0 if nll is None else nll)))",
    ): ("what is no number is none either way"),
    ("control/forecast_scores.py", "32", "_AT_ONCE = 32"): "the size of a batch",
    (
        "control/planner.py",
        "32",
        "horizon: int = Field(default=32, ge=2)  # places planned at once, where the forecast reaches that far",
    ): "one place more is planned at once",
    ("model/parts/dropout.py", "0.0", "if not self.training or self.rate == 0.0:"): "a rate of nought drops nothing",
    (
        "audits/causality.py",
        "1",
        "stages, cuts = pipeline_stages(table), [int(cut * (len(table) - 1)) for cut in CUTS]",
    ): ("the probe cuts one row earlier"),
    ("audits/swapped.py", "signal.spread <= LINK_MOVES * middle", ""): "a link that moves by exactly a quarter",
    ("control/timeline.py", "0", "np.where(feeding, 0, -1), spindle, len(none),"): (
        "the only cut of a log has some number or other"
    ),
    ("distribution/inversion.py", "newton_N - x_N", ""): "halving the bracket ends at the same value, later",
    (
        "fleet/compare.py",
        "1",
        "trees = classifier(n_estimators=150, num_leaves=15, min_child_samples=20, "
        "n_jobs=1, verbose=-1, random_state=0)",
    ): "how many processors grow the trees, and how silently",
    ("fleet/features.py", "total < 1e-20", ""): "a variance of exactly so little",
    ("fleet/generate.py", "3", '"spindle_power_kw": round(machine.spindle_power / 1000, 3),'): (
        "a digit more of a fact that is only read"
    ),
    ("fleet/log.py", "np.abs(signals.trace.physics.axis_velocity) > _STANDING", ""): (
        "a velocity of exactly what counts as standing"
    ),
    ("machines/log_columns.py", "1 / 3 < off < 3", ""): "a ratio of exactly three, or a third",
    ("machines/simulated/stock.py", "1e-06", "stride = max(float(travelled[-1]) / count, 1e-6)"): (
        "any tiny number keeps a path of no length from being divided by"
    ),
    ("windows/normalise.py", "np.abs(zero_C) <= reach", ""): "a zero that lies exactly so far away",
    ("model/live.py", "level is None or held is None", ""): "a model always has a level or never",
    (
        "model/parts/dropout.py",
        "round(rate * 2 ** 16) - 2 ** 15",
        "",
    ): "in 16 bits half of all is added as it is taken away",
    ("model/parts/dropout.py", "31", "return bits - 2**32 if bits >= 2**31 else bits"): (
        "a product of 32 bits wraps around either way"
    ),
    (
        "model/parts/instance_norm.py",
        "0.0",
        "floor: float = Field(default=0.1, gt=0.0)",
    ): "nobody asks for so low a floor",
    ("model/sensors/head.py", "-1", "zero_C1, reached_C1 = zero_C.unsqueeze(-1), reached_C.unsqueeze(-1)"): (
        "of one axis the next one is the last one"
    ),
    ("serving/describe.py", "estimate.mean < 0.0", ""): "a difference of exactly nought is told before",
    ("windows/corrupt.py", "draw(shape) < of_events", ""): _NEVER_HIT,
    ("audits/swapped.py", "abs(np.log(as_held.ratio)) < abs(np.log(as_named.ratio))", ""): (
        "two ratios that are exactly as far from one"
    ),
    (
        "control/limited_sensor.py",
        "1000000.0",
        "_ANYTHING = 1e6  # widths above a forecast's middle: nothing is out of the question",
    ): ("any height that no load reaches"),
    (
        "control/trial.py",
        "256",
        "moment = Moment(run.position, knobs, np.array(sensors[-256:]), np.array(commands[-256:]))",
    ): ("a row more of the past, before all that a model reads"),
    ("edge.py", "weight_M * np.exp(-0.5 * z_M ** 2)", ""): "halving the bracket ends at the same value, later",
    ("live/row_maker.py", "1", "self._touched = None if self.newest % ticks == 0 else complete * ticks + 1"): (
        "a microsecond later lies in the same row"
    ),
    ("live/row_maker.py", "2", "back = round((LATEST_S + CARRY_FORWARD_S) * MICROSECONDS) + 2 * ticks"): (
        "a row more is kept than later rows depend on"
    ),
    ("machines/simulated/overrides.py", "abs(held * time_step - schedule.period) > 1e-09", ""): (
        "a period that is off by exactly a billionth of a second"
    ),
    ("machines/simulated/spindle.py", "speed == 0.0", "if speed == 0.0 and integral == 0.0:"): _STANDS,
    ("machines/simulated/spindle.py", "0.0", "if speed == 0.0 and integral == 0.0:"): _STANDS,
    ("serving/plan_table.py", "np.abs(steps - period) > ON_THE_CLOCK * period", ""): (
        "a step that is off by exactly a hundredth"
    ),
    (
        "study/record/outcomes.py",
        "0.0",
        'return RunOutcome(run.candidate, run.seed, {}, 0.0, 0.0, invalid=run.outcome["invalid"])',
    ): "nobody reads numbers of a run that is invalid",
    ("training/step.py", "derive(seed, 'dropout', self.stage, epoch) + self.team.rank * OTHER_DROPOUT", ""): (
        "every process of a team has a seed of its own either way"
    ),
    ("windows/plan_changes.py", "draw(windows) < self.config.share", ""): _NEVER_HIT,
    (
        "control/scatter.py",
        "np.abs(off_T) <= _REAL * scatter.spread",
        "",
    ): "a reading that stands out by exactly so much",
    ("machines/numbers.py", "values.null_count() > texts.null_count()", ""): (
        "in a column of plain numbers nothing stands between thousands"
    ),
    ("programs/expressions.py", "1", '"NEGATE": (1, operator.neg),'): _SIGN,
    ("programs/expressions.py", "1", '"NOT": (1, lambda a: float(not a)),'): _SIGN,
    ("programs/expressions.py", "0", "self._nodes = 0"): "one part less until an expression counts as too long",
    ("programs/expressions.py", "0", "def expression(self, strength: int = 0) -> Expression:"): (
        "no operator binds less than one"
    ),
    ("study/record/score.py", "spread <= 1e-09 * max((abs(value) for value in values))", ""): (
        "a spread of exactly a billionth"
    ),
    ("audits/normaliser.py", "1e-09", "TOLERANCE = 1e-9"): "rounding lies far below, other rows far above",
    (
        "audits/normaliser.py",
        "0.0",
        'command_location, command_scale, _ = channel_statistics(commands, normaliser.command_names, "zscore", 0.0)',
    ): "only a robust normaliser has a floor",
    ("audits/normaliser.py", "np.abs(found - carried) <= TOLERANCE * (yardstick + np.abs(found))", ""): (
        "a number that is off by exactly a billionth"
    ),
    ("control/task.py", "float(number) * factor.scale + factor.offset", ""): (
        "no unit of a task begins anywhere but at nought"
    ),
}
