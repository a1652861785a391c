"""What was heard of a machine so far: its newest rows in the model's channels, and what happened on the way."""

from collections import Counter, deque
from collections.abc import Sequence
from datetime import UTC, datetime

from crossfeed.live.clock import SourceClock
from crossfeed.live.row import MachineRows
from crossfeed.live.row_maker import RowMaker
from crossfeed.live.snapshot import Counters
from crossfeed.live.source import LINE, OVERRIDES, Arrival, Notice, Sample, Value
from crossfeed.machines.declaration import MICROSECONDS, PROGRAM, LogFormat
from crossfeed.schema import Schema

_SHOWN_NOTICES = 20
_FOLLOWED = (PROGRAM, LINE, *OVERRIDES.values())


class ArrivalReader:
    """Takes arrivals in any order; `unread` rows have had no forecast yet, `reread` says that older ones changed."""

    def __init__(self, log_format: LogFormat, schema: Schema, shown_rows: int, clock: SourceClock) -> None:
        self.log_format, self.clock = log_format, clock
        self.rows = MachineRows(log_format.schema, schema, shown_rows)
        self.states: dict[str, Value] = {}
        self.notices: deque[str] = deque(maxlen=_SHOWN_NOTICES)
        self.unread, self.reread = 0, False
        self._maker = RowMaker(log_format)
        self._counts: Counter[str] = Counter()

    def take(self, arrived: Sequence[Arrival]) -> bool:
        """Take everything in; True when it brought new rows, or changed some."""
        for arrival in arrived:
            if isinstance(arrival, Sample):
                self._sample(arrival)
            elif isinstance(arrival, Notice):
                self._notice(arrival)
        fresh = self._maker.rows()
        known = self.rows.newest
        self._counts["rows"] += sum(known is None or row.time > known.time for row in fresh)
        self.reread |= self.rows.take(fresh)
        self.unread += len(fresh)
        return bool(fresh)

    def _sample(self, sample: Sample) -> None:
        self._counts["samples"] += 1
        newest = self._maker.newest
        if newest is None or sample.time > newest:
            self.clock.observe(sample.time)
        if sample.channel in _FOLLOWED and (newest is None or sample.time >= newest - MICROSECONDS):
            self.states[sample.channel] = sample.value
        if not self._maker.add(sample):
            self._counts["late"] += 1

    def _notice(self, notice: Notice) -> None:
        self._counts[notice.kind] += 1
        if notice.kind == "gap":
            self._maker.mask(notice.begin, notice.end)
        if notice.kind != "doubled":
            self.notices.appendleft(f"{datetime.now(UTC):%H:%M:%S} {notice.text}")

    def counters(self, dropped: int) -> Counters:
        """What happened since the start; `dropped` samples never came here."""
        counts = self._counts
        return Counters(
            samples=counts["samples"],
            rows=counts["rows"],
            gaps=counts["gap"],
            late=counts["late"],
            dropped=dropped,
            doubled=counts["doubled"],
            reconnects=counts["reconnect"],
            restarts=counts["restart"],
            skew=round(self.clock.skew, 3),
        )
