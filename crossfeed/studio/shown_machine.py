"""What runs beside the service and is shown live (a machine, or a table played back), and how its intervals hold."""

from collections import Counter, deque
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol

from crossfeed.evaluation.verdict import COVERAGE, COVERAGE_BAD
from crossfeed.json_file import plain
from crossfeed.live.snapshot import ChannelForecast, Light, Snapshot
from crossfeed.serving.history import History

ENOUGH = 30  # forecasts that came due before a channel is judged
SHOWN_ROWS = 90


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
            for name, interval in promise.forecast.items():
                true = values.get(name)
                if true is not None and true == true:
                    self._due[name] += 1
                    self._inside[name] += int(interval.low[slot] <= true <= interval.high[slot])

    def content(self) -> dict[str, dict[str, Any]]:
        """Forecasts that came due, and the share of them that held."""
        return {name: {"forecasts": due, "inside90": self._inside[name] / due} for name, due in self._due.items()}

    def light(self, name: str) -> Light:
        """What the count says about one sensor."""
        count = self._due[name]
        if count < ENOUGH:
            return Light("amber", f"only {count} forecasts came due so far; {ENOUGH} are needed")
        share = self._inside[name] / count
        sentence = f"{100 * share:.0f} % of {count:,} values fell inside their 90 % interval"
        if share < COVERAGE_BAD:
            return Light("red", f"{sentence}: far too sure of itself")
        if share < COVERAGE[0]:
            return Light("amber", f"{sentence}: somewhat too sure of itself")
        return Light("green", sentence)


class ShownMachine(Protocol):
    """Something with a newest moment."""

    @property
    def history(self) -> History | None:
        """The rows up to the newest moment, when there are enough for a forecast."""

    def snapshot(self) -> Snapshot | None:
        """The newest moment; None before the first."""

    def updates(self) -> AsyncIterator[Snapshot]:
        """Every new moment."""

    def calibration(self) -> dict[str, dict[str, Any]]:
        """How the intervals have held since the start, by sensor."""

    async def run(self) -> None:
        """Go on for as long as the service does."""


def live_content(snapshot: Snapshot) -> dict[str, Any]:
    """A snapshot as JSON: the last rows, and only sensors that the machine tells."""
    shown = [name for name in snapshot.sensors if name in snapshot.lights]
    recent, plan = snapshot.recent, snapshot.plan
    content = {item.name: getattr(snapshot, item.name) for item in fields(snapshot)} | {
        "clock": snapshot.clock.isoformat(),
        "sensors": shown,
        "recent": {
            "times": recent.times[-SHOWN_ROWS:],
            "sensors": {name: recent.sensors[name][-SHOWN_ROWS:] for name in shown if name in recent.sensors},
            "commands": {name: values[-SHOWN_ROWS:] for name, values in recent.commands.items()},
        },
        "plan": {"kind": plan.kind, "sentence": plan.sentence, "commands": plan.commands},
        "forecast": {name: interval for name, interval in snapshot.forecast.items() if name in shown},
    }
    return dict(plain(content))
