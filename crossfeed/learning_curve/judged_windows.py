"""The windows that everybody is judged on, the same for each model and each number of minutes."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from crossfeed.errors import TableError
from crossfeed.evaluation.evaluate import EvaluationSet
from crossfeed.ingest.table import Table
from crossfeed.learning_curve.own_logs import FIRST_ROWS, OwnLogs
from crossfeed.schema import Schema
from crossfeed.training.order import spread_out
from crossfeed.windows.listing import WindowList, list_windows, pair_up
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.windows import WindowSet


@dataclass(frozen=True)
class JudgedWindows:
    """Where the windows end in each judged session, and the space in which errors are counted."""

    context: int
    horizons: tuple[int, ...]
    ends: Mapping[str, np.ndarray]
    space: Normaliser
    device: str

    @classmethod
    def of(cls, logs: OwnLogs, context: int, horizons: tuple[int, ...], most: int, device: str) -> "JudgedWindows":
        """At most so many windows, evenly spread, that end after the first rows of their session."""
        listing = list_windows(pair_up(logs.table.laid_out(logs.test), None), context, horizons)
        known = list_windows(pair_up(logs.beginnings(), None), context, horizons)
        usable = np.flatnonzero(
            (listing.relative_W >= FIRST_ROWS - 1) & np.isin(listing.group_W, np.unique(known.group_W))
        )
        if not len(usable):
            longest = max(len(group) for group in logs.test)
            raise TableError(
                f"No window is left to judge by: the longest of {len(logs.test)} judged sessions has {longest} rows.",
                expected=f"a gapless session of at least {FIRST_ROWS + horizons[-1]} rows on the test side: the first "
                f"{FIRST_ROWS} are what is known at 0 minutes",
                remedy="Give longer sessions, or a table with more of them.",
            )
        chosen = usable[spread_out(len(usable), most).numpy()]
        return cls(context, horizons, _by_session(listing, chosen), logs.space(), device)

    def __len__(self) -> int:
        return sum(map(len, self.ends.values()))

    def of_table(self, test: Table, normaliser: Normaliser) -> EvaluationSet:
        """The judged windows of a table that holds the judged sessions, in this normaliser's z-space."""
        return self.among(WindowSet.build(test, None, normaliser, self.context, self.horizons, device=self.device),
                          test.schema, normaliser)  # fmt: skip

    def among(self, windows: WindowSet, schema: Schema, normaliser: Normaliser) -> EvaluationSet:
        """The judged windows among those of the judged sessions."""
        listing = windows.listing
        kept = np.zeros(len(listing), dtype=bool)
        for number, count in enumerate(listing.counts):
            ends = self.ends.get(count.session, np.zeros(0, np.int64))
            kept |= (listing.group_W == number) & np.isin(listing.relative_W, ends)
        chosen = windows.only(torch.from_numpy(np.flatnonzero(kept)))
        return EvaluationSet(chosen, schema, normaliser, self.space_for(schema), "session")

    def space_for(self, schema: Schema) -> Normaliser:
        """The space in the order of another list of sensors; commands, which nobody is judged on, as they are."""
        columns = [self.space.sensor_names.index(name) for name in schema.sensor_names]
        return Normaliser(
            method=self.space.method, floor=self.space.floor, sensor_names=schema.sensor_names,
            command_names=schema.command_names, sensor_location=self.space.sensor_location[columns],
            sensor_scale=self.space.sensor_scale[columns], command_location=np.zeros(len(schema.commands)),
            command_scale=np.ones(len(schema.commands)), unseen=(), fitted_on=self.space.fitted_on,
        )  # fmt: skip


def _by_session(listing: WindowList, chosen: np.ndarray) -> dict[str, np.ndarray]:
    groups = listing.group_W[chosen]
    return {
        listing.counts[number].session: listing.relative_W[chosen][groups == number] for number in np.unique(groups)
    }
