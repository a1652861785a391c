"""May the forecast be believed now? One light for each sensor, one sentence for all of them."""

from collections.abc import Mapping, Sequence

from crossfeed.evaluation.opened_model import OpenedModel
from crossfeed.live.rows import Row
from crossfeed.live.snapshot import Light, PlanUsed, worst
from crossfeed.model.forecast import Forecast

STALE_ROWS = 3.0  # periods after which the newest row is too old
_AMBER_ROWS = 1.75


class Trust:
    """Watches the data and the forecasts, and says what they are worth."""

    def __init__(self, model: OpenedModel) -> None:
        self._model = model
        self._period = float(model.provenance.get("row_period", 1.0))
        self._silent: dict[str, int] = {}

    def observe(self, rows: Sequence[Row]) -> None:
        """The rows of the running session, the newest last."""
        for name in self._model.model.schema.sensor_names:
            silent = next(
                (count for count, row in enumerate(reversed(rows)) if row.values[name] is not None), len(rows)
            )
            self._silent[name] = silent

    def promise(self, row: Row, forecast: Forecast, plan: PlanUsed) -> None:
        """A forecast that was made from this row."""

    def lights(self, told: set[str], age: float | None, problem: str, missing: int) -> dict[str, Light]:
        """One light for each sensor that the source tells."""
        names = [name for name in self._model.model.schema.sensor_names if name in told]
        return {name: self._light(name, age, problem, missing) for name in names}

    def _light(self, name: str, age: float | None, problem: str, missing: int) -> Light:
        if name in self._model.model.normaliser.unseen:
            return Light("red", "the model never saw this sensor in training")
        if age is None:
            return Light("red", "nothing has arrived yet")
        if age > STALE_ROWS * self._period:
            return Light("red", f"the newest row is {age:.0f} s old")
        if problem:
            return Light("red", problem)
        if missing:
            return Light("amber", f"the model wants {missing} more rows before its first forecast")
        silent = self._silent.get(name, 0)
        if silent:
            return Light("red", f"no value for {silent * self._period:g} s")
        if age > _AMBER_ROWS * self._period:
            return Light("amber", f"the newest row is {age:.1f} s old")
        return Light("green", "in time")

    def verdict(self, lights: Mapping[str, Light], remark: str) -> str:
        """One sentence for the whole."""
        if not lights:
            return "Nothing is known about the machine yet."
        colour = worst(lights)
        bad = [name for name, light in lights.items() if light.colour == colour]
        also = f"; {remark}" if remark else ""
        if colour == "green":
            return f"The forecast may be believed{also}."
        reason = lights[bad[0]].sentence
        whom = "Nothing" if len(bad) == len(lights) and colour == "red" else f"{len(bad)} of {len(lights)} sensors"
        told = "can be believed" if whom == "Nothing" else "cannot be believed" if colour == "red" else "need care"
        return f"{whom} {told} now: {reason}{also}."
