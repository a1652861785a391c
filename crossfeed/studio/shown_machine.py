"""What runs beside the service and is shown live: a machine, or a table that is played back."""

from collections.abc import AsyncIterator
from dataclasses import fields
from typing import Any, Protocol

from crossfeed.json_file import plain
from crossfeed.live.snapshot import Snapshot
from crossfeed.serving.history import History

SHOWN_ROWS = 90


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
        "forecast": {name: said for name, said in snapshot.forecast.items() if name in shown},
    }
    return dict(plain(content))
