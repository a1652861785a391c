"""Two clocks, ours and the source's: how far they lie apart, and what time it is there now."""

import time
from collections import deque

from crossfeed.machines.declaration import MICROSECONDS

REPORTED_S = 0.5  # clocks further apart than this are reported
_WINDOW = 200  # samples over which the quickest arrival is looked for


class SourceClock:
    """Learns the offset from the samples that arrived quickest; `speed` is above 1 where a machine is replayed."""

    def __init__(self, speed: float = 1.0) -> None:
        self.speed = speed
        self._begin: tuple[float, float] | None = None
        self._delays: deque[float] = deque(maxlen=_WINDOW)

    def observe(self, stamp: int, arrived: float | None = None) -> None:
        """A sample with this stamp arrived now (or at `arrived`, seconds since 1970)."""
        arrived = time.time() if arrived is None else arrived
        seconds = stamp / MICROSECONDS
        if self._begin is None:
            # A replay has no clock in common with ours: its first sample counts as in time.
            self._begin = (arrived, arrived if self.speed == 1.0 else seconds)
        self._delays.append(self._ours(arrived) - seconds)

    def _ours(self, arrived: float) -> float:
        """Our time, running as fast as the source's."""
        if self._begin is None:
            return arrived
        since, origin = self._begin
        return origin + (arrived - since) * self.speed

    @property
    def skew(self) -> float:
        """Seconds by which the source lies behind our clock (negative: ahead); the quickest arrival took no time."""
        return min(self._delays) if self._delays else 0.0

    def now(self) -> float:
        """The time at the source, in its own seconds since 1970."""
        return self._ours(time.time()) - self.skew

    def age(self, moment: float) -> float:
        """Seconds of ours since a moment of the source."""
        return max(0.0, self.now() - moment) / self.speed

    @property
    def skew_warning(self) -> str:
        """A sentence where the clocks lie too far apart, else nothing."""
        if abs(self.skew) <= REPORTED_S or self.speed != 1.0:
            return ""
        side = "behind" if self.skew > 0 else "ahead of"
        days = abs(self.skew) / 86_400
        told = f"{days:,.0f} days" if days >= 2 else f"{abs(self.skew):,.1f} s"
        return f"the source's clock is {told} {side} ours"
