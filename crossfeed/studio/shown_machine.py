"""What runs beside the service and is shown live: a machine, or a table that is played back."""

from collections.abc import AsyncIterator
from typing import Any, Protocol

from crossfeed.serving.history import History


class ShownMachine(Protocol):
    """Something with a newest moment."""

    @property
    def history(self) -> History | None:
        """The rows up to the newest moment, when there are enough for a forecast."""

    def snapshot(self) -> dict[str, Any]:
        """The newest moment as JSON; empty before the first."""

    def updates(self) -> AsyncIterator[dict[str, Any]]:
        """Every new moment."""

    def calibration(self) -> dict[str, dict[str, Any]]:
        """How the intervals have held since the start, by sensor."""

    async def run(self) -> None:
        """Go on for as long as the service does."""
