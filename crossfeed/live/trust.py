"""May the forecast be believed now? One light for each sensor, one sentence for all of them."""

from collections.abc import Mapping, Sequence

import numpy as np

from crossfeed.evaluation.opened_model import OpenedModel
from crossfeed.live.promises import PromisedForecast, Promises, spans_of
from crossfeed.live.row import Row
from crossfeed.live.snapshot import Light, PlanUsed, worst

STALE_ROWS = 3.0  # periods after which the newest row is too old
_AMBER_ROWS = 1.75
_ENOUGH = 30  # judged forecasts before anything is said about them
_EVIDENCE = 20.0  # times the number of sensors: a false alarm ever, about any of them, has a chance of 1 in 20
_COVERED, _CRPS = 0.8, 1.5
_FARTHEST = 8.0  # standard deviations of the training rows
_ROUNDING = 1e-3


class Trust:
    """Watches the data and the forecasts, and says what they are worth."""

    def __init__(self, model: OpenedModel) -> None:
        self._model = model
        self._schema = model.model.schema
        self.period = float(model.provenance.get("row_period", 1.0))
        self._ranges: Mapping[str, Sequence[float]] = model.provenance.get("command_range") or {}
        self.promises = Promises(self._schema, model.model.horizons, spans_of(self._schema, self._ranges))
        self._silent: dict[str, int] = {}
        self._far: dict[str, float] = {}
        self._outside = self._doubt = ""

    def observe(self, rows: Sequence[Row]) -> None:
        """The rows of the running session, the newest last."""
        for name in self._schema.sensor_names:
            known = (back for back, row in enumerate(reversed(rows)) if row.values[name] is not None)
            self._silent[name] = next(known, len(rows))
        if rows:
            self._far = self._distances(rows[-1])
        self.promises.judge(rows, self.period)

    def promise(self, promised: PromisedForecast) -> None:
        """A forecast that was made from the newest row."""
        self.promises.add(promised)
        self._outside, self._doubt = self._outside_training(promised.plan), self._disagreement(promised.doubt)

    def _distances(self, row: Row) -> dict[str, float]:
        names = self._schema.sensor_names
        z = np.abs(self._model.model.normaliser.transform_sensors(row.floats(names)))
        return {name: float(one) for name, one in zip(names, z, strict=True) if np.isfinite(one)}

    def _outside_training(self, plan: PlanUsed) -> str:
        for channel in self._schema.commands:
            if channel.name in self._ranges:
                low, high = self._ranges[channel.name]
                edge = _ROUNDING * (high - low)
                for value in (min(plan.commands[channel.name]), max(plan.commands[channel.name])):
                    if not low - edge <= value <= high + edge:
                        return (
                            f"{channel.name} of {value:,.6g} {channel.unit} lies outside the {low:,.6g} to {high:,.6g} "
                            "of training, where forecasts are guesses"
                        )
        return ""

    def _disagreement(self, doubt: float | None) -> str:
        """Where the members of the ensemble are further apart than in 99 of 100 windows of the source."""
        usual = float(self._model.model.disagreement_threshold)
        if doubt is None or not doubt > usual > 0.0:
            return ""
        return f"this is unlike what was learned: the members of the model differ by {doubt:.2g}, usually {usual:.2g}"

    def lights(self, channels: set[str], age: float | None, problem: str, missing: int) -> dict[str, Light]:
        """One light for each sensor that the source tells."""
        names = [name for name in self._schema.sensor_names if name in channels]
        return {name: self._light(name, age, problem, missing, len(names)) for name in names}

    def _light(self, name: str, age: float | None, problem: str, missing: int, sensors: int) -> Light:
        if name in self._model.model.normaliser.unseen:
            return Light("red", "the model never saw this sensor in training")
        if age is None:
            return Light("red", "nothing has arrived yet")
        if age > STALE_ROWS * self.period:
            return Light("red", f"the newest row is {age:.0f} s old")
        if problem:
            return Light("red", problem)
        if missing:
            return Light("amber", f"the model wants {missing} more rows before its first forecast")
        silent = self._silent.get(name, 0)
        if silent:
            return Light("red", f"no value for {silent * self.period:g} s")
        return self._judged(name, sensors) or self._caution(name, age) or self._believed(name)

    def _judged(self, name: str, sensors: int) -> Light | None:
        """What the kept and broken promises say."""
        record = self.promises.records[name]
        if len(record.inside) < _ENOUGH:
            return None
        coverage, ratio, share = record.coverage, record.crps_ratio, record.words
        if record.evidence.wealth >= _EVIDENCE * sensors:
            if coverage < _COVERED:
                return Light("red", f"the machine no longer does what is forecast: {share}")
            return Light("amber", f"the forecast was wrong too often since the start; now {share}")
        if coverage < _COVERED:
            return Light("amber", f"the intervals are too narrow: {share}")
        if ratio is not None and ratio > _CRPS:
            return Light("amber", f"errors are {ratio:.1f} times as large as the forecast promises")
        return None

    def _caution(self, name: str, age: float) -> Light | None:
        if self._far.get(name, 0.0) > _FARTHEST:
            return Light("amber", f"its value is {self._far[name]:.0f} standard deviations from all that was learned")
        if self._outside or self._doubt:
            return Light("amber", self._outside or self._doubt)
        if age > _AMBER_ROWS * self.period:
            return Light("amber", f"the newest row is {age:.1f} s old")
        return None

    def _believed(self, name: str) -> Light:
        record = self.promises.records[name]
        checked = len(record.inside)
        return Light("green", f"in time; {checked} forecasts checked so far" if checked < _ENOUGH else record.words)

    def verdict(self, lights: Mapping[str, Light], skew_warning: str) -> str:
        """One sentence for the whole."""
        if not lights:
            return "Nothing is known about the machine yet."
        colour = worst(lights)
        bad = [name for name, light in lights.items() if light.colour == colour]
        also = f"; {skew_warning}" if skew_warning else ""
        if colour == "green":
            return f"The forecast may be believed{also}."
        reason = lights[bad[0]].sentence
        whom = "Nothing" if len(bad) == len(lights) and colour == "red" else f"{len(bad)} of {len(lights)} sensors"
        care = "needs care" if len(bad) == 1 else "need care"
        told = "can be believed" if whom == "Nothing" else "cannot be believed" if colour == "red" else care
        among = "" if whom == "Nothing" else f", {bad[0]}" if len(bad) == 1 else f", {bad[0]} among them"
        return f"{whom} {told} now{among}: {reason}{also}."
