"""How the intervals have held since the start: every promise is compared with the row it was made for."""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crossfeed.evaluation.verdict import COVERAGE, COVERAGE_BAD
from crossfeed.live.snapshot import ChannelForecast, Light

ENOUGH = 30  # forecasts that came due before a channel is judged


@dataclass(frozen=True, eq=False)
class _Promise:
    row: int
    horizons: tuple[int, ...]
    forecast: Mapping[str, ChannelForecast]


class IntervalRecord:
    """Counts, by sensor, the values inside their 90 % interval; rows are numbered by the machine's clock."""

    def __init__(self) -> None:
        self._open: deque[_Promise] = deque()
        self._inside: Counter[str] = Counter()
        self._due: Counter[str] = Counter()

    def forget(self) -> None:
        """Promises made before a gap cannot come due."""
        self._open.clear()

    def promise(self, row: int, horizons: Sequence[int], forecast: Mapping[str, ChannelForecast]) -> None:
        """A forecast was made after this row."""
        if not self._open or self._open[-1].row < row:
            self._open.append(_Promise(row, tuple(horizons), forecast))

    def observe(self, row: int, values: Mapping[str, float | None]) -> None:
        """A row arrived; those of None were not measured."""
        while self._open and self._open[0].row + self._open[0].horizons[-1] < row:
            self._open.popleft()
        for promise in self._open:
            if row - promise.row not in promise.horizons:
                continue
            slot = promise.horizons.index(row - promise.row)
            for name, said in promise.forecast.items():
                true = values.get(name)
                if true is not None and true == true:
                    self._due[name] += 1
                    self._inside[name] += int(said.low[slot] <= true <= said.high[slot])

    def content(self) -> dict[str, dict[str, Any]]:
        """Forecasts that came due, and the share of them that held."""
        return {name: {"forecasts": due, "inside90": self._inside[name] / due} for name, due in self._due.items()}

    def light(self, name: str) -> Light:
        """What the count says about one sensor."""
        count = self._due[name]
        if count < ENOUGH:
            return Light("amber", f"only {count} forecasts came due so far; {ENOUGH} are needed")
        share = self._inside[name] / count
        told = f"{100 * share:.0f} % of {count:,} values fell inside their 90 % interval"
        if share < COVERAGE_BAD:
            return Light("red", f"{told}: far too sure of itself")
        if share < COVERAGE[0]:
            return Light("amber", f"{told}: somewhat too sure of itself")
        return Light("green", told)
