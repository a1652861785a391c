"""Which tests answer for which of the files that decide numbers, and which small errors in them do no harm."""

_SENSORS = ("model/sensors", "training/test_step.py::test_golden_losses_of_twenty_steps_of_the_default_network")
TESTS: dict[str, tuple[str, ...]] = {
    "ingest/resample.py": ("ingest/test_resample.py",),
    "windows/listing.py": ("windows/test_windows.py", "windows/test_counts.py"),
    "windows/corrupt.py": ("windows/test_corrupt.py",),
    "windows/block_runs.py": ("windows/test_corrupt.py",),
    "windows/normalise.py": ("windows/test_normalise.py",),
    "windows/split.py": ("windows/test_split.py",),
    "evaluation/conformal.py": ("evaluation/test_conformal.py",),
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
    "windows/frame.py": ("windows/test_frame.py", "model/test_meeting.py"),
    "windows/machine_changes.py": ("windows/test_machine_changes.py",),
    "windows/turning_alone.py": ("windows/test_turning_alone.py", "windows/test_unseen_plans.py"),
    "windows/unseen_plans.py": ("windows/test_unseen_plans.py",),
    "windows/windows.py": ("windows/test_windows.py",),
    "model/meeting.py": ("model/test_meeting.py",),
    "model/sensors/commands.py": _SENSORS,
    "model/sensors/following.py": _SENSORS,
    "model/sensors/head.py": _SENSORS,
    "model/sensors/identity.py": _SENSORS,
    "model/sensors/network.py": _SENSORS,
    "model/sensors/objective.py": _SENSORS,
    "model/sensors/window.py": _SENSORS,
    "training/known_changes.py": ("training/test_known_changes.py",),
    "training/going_on.py": ("training/test_going_on.py",),
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
    "learning_curve/by_session.py": ("learning_curve/test_by_session.py",),
    "learning_curve/crossings.py": ("learning_curve/test_crossings.py",),
    "learning_curve/own_logs.py": ("learning_curve/test_own_logs.py",),
    "serving/level.py": ("serving/test_level.py",),
    "serving/measures.py": ("serving/test_measures.py",),
    "serving/noise.py": ("serving/test_noise.py", "serving/test_rollout.py"),
    "serving/rollout.py": ("serving/test_rollout.py",),
    "control/course.py": ("control/test_course.py",),
    "control/decision.py": ("control/test_decision.py", "control/test_course.py"),
    "control/law.py": ("control/test_law.py",),
    "control/margin.py": ("control/test_margin.py",),
    "control/score.py": ("control/test_decision.py",),
    "control/search.py": ("control/test_search.py",),
    "control/tail.py": ("control/test_tail.py",),
}
# What does no harm when it is a little wrong: the file, what is changed, the line it stands in, and the reason.
_MORE_RUNS = "more runs than needed are cut to zero length"
_ENOUGH = "return math.ceil(mean + 3.0 * math.sqrt(mean)) + 2 if wanted else 0"
_SEARCH = "return _tail(angle, nu) - share, torch.exp(_log_constant(nu) + (nu - 1.0) * angle.sin().log())"
_START = "start = torch.where(heavy, 0.0, (0.5 * math.pi - _REACH / nu.sqrt()).clamp_min(0.0))"
_VIEW = "return _never_empty(m_BKC, m_BKC & (draw((len(m_BKC), 1, m_BKC.shape[2])) < keep), draw)"
_SHIFT = "offset_B1C = (2.0 * draw(shape) - 1.0) * scale * (draw(shape) < probability)"
_NEVER_HIT = "a draw never is the very number it is compared with"
_TOTAL = "return pl.when(total > 0).then((value * pl.col(_WEIGHT)).sum() / total).otherwise(value.mean()).alias(name)"
HARMLESS: dict[tuple[str, str, str], str] = {
    ("ingest/resample.py", "total > 0", _TOTAL): "no weight is below one microsecond",
    ("ingest/resample.py", "1", "first, last = self._bin_of(pl.col(CLOCK) + 1), self._bin_of(pl.col(UNTIL))"): (
        "a piece of one microsecond is left out"
    ),
    ("windows/corrupt.py", "draw((len(m_BKC), 1, m_BKC.shape[2])) < keep", _VIEW): _NEVER_HIT,
    ("windows/corrupt.py", "draw(shape) < probability", _SHIFT): _NEVER_HIT,
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
    ("evaluation/conformal.py", "0.05", "rate: float = 0.05,"): "any small rate keeps the long-run share of misses",
    ("evaluation/conformal.py", "1e-09", ""): "any tiny number keeps a whole rank whole",
    ("evaluation/statistics.py", "1", "sums = np.zeros(1)"): "every flip is counted equally often",
    ("evaluation/statistics.py", "1e-12", ""): "any tiny number keeps equal sums equal",
    ("evaluation/statistics.py", "1 << 16", ""): "the size of a batch",
    ("distribution/inversion.py", "x_N - value_N / slope_N", ""): "halving the bracket ends at the same value, later",
    ("distribution/inversion.py", "x_N.device.type == 'cpu'", ""): "what rests is put aside to save time",
    ("distribution/inversion.py", "newton_N < high_N", ""): "a step to the very edge of its bracket is a step too",
    (
        "windows/turning_alone.py",
        "0.0",
        'edge_V = np.unique(np.quantile(speed_N, np.linspace(0.0, 1.0, BINS + 1), method="inverted_cdf"))',
    ): ("where the lowest of sixteen bins ends"),
    (
        "windows/turning_alone.py",
        "1",
        'edge_V = np.unique(np.quantile(speed_N, np.linspace(0.0, 1.0, BINS + 1), method="inverted_cdf"))',
    ): "into how many bins speeds are divided",
    ("evaluation/metrics.py", "mean + crps + (0.0 if nll is None else nll)", ""): (
        "what is no number is none either way"
    ),
    ("evaluation/verdict.py", "command.estimate < WEAK_COMMAND_USE", ""): "a ratio of exactly the least",
    (
        "training/known_changes.py",
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
    ("evaluation/command_use.py", "0", "seed: int = 0,"): "any seed draws false plans",
    ("evaluation/corruptions.py", "1.0", "uniform = draw(tuple(shape)).double().clamp(2.0**-25, 1.0 - 2.0**-25)"): (
        "a draw in single precision is never that near to one"
    ),
    ("adaptation/learning.py", "towards_truth is None or about_errors is None", ""): "a family has a density or none",
    ("adaptation/online.py", "0.0", "clip_norm: float = Field(1.0, gt=0.0)"): "nobody clips gradients that far",
    (
        "learning_curve/by_session.py",
        "0.0",
        "return torch.where(present, after.transform_sensors(before.inverse_sensors(values)), 0.0)",
    ): ("what is absent is never read"),
    (
        "control/course.py",
        "10",
        "FINE = 10  # samples in a place: short moves inside a second keep their own share of it",
    ): ("how finely a second is divided"),
    (
        "control/course.py",
        "np.abs(self.commands_TA[:, self.spindle_column] - now_A[self.spindle_column]) < _SPEED",
        "",
    ): ("a speed that differs by exactly the limit"),
    ("control/decision.py", "1.0", "taken = course.period * (1.0 - share + share / max(feed_T[index], 1.0))"): (
        "a knob that is turned down a little before it must be"
    ),
    ("control/law.py", "3", "_STEADY = 3  # rows at one speed before the spindle has settled"): (
        "one row more before the spindle counts as settled"
    ),
    ("control/law.py", "feed_xT > 1.0", "return np.asarray(load_xT * np.where(feed_xT > 1.0, feed_xT**power, 1.0))"): (
        "one to any power is one"
    ),
    ("control/score.py", "1", "count = len(next(iter(self.outlook.paths.values()))) if self.outlook.paths else 1"): (
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
}
