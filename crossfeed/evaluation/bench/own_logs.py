"""One machine's sessions in two: those that everybody is judged on, and the rest in the order of time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch

from crossfeed.errors import TableError
from crossfeed.evaluation.bench.result import ALL
from crossfeed.evaluation.metrics import EvaluationSet
from crossfeed.logs.table import Group, Table
from crossfeed.schema import Schema
from crossfeed.training.seeds import spread_out
from crossfeed.windows.listing import WindowList, list_windows, pair_up
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.split import FIRST_CALENDAR_SECOND, Split, TrainRows, split_table
from crossfeed.windows.split_tables import DataConfig
from crossfeed.windows.windows import WindowSet

# Rows of each judged session that tell what a model knows at 0 minutes; no window that ends inside them is judged.
FIRST_ROWS = 64
FEWEST_WINDOWS, FEWEST_PIECES, VALIDATION_EVERY = 8, 3, 5
# As many pieces as that, unless they would be shorter than two windows or longer than so many of the shortest.
USUAL_PIECES, LONGEST_PIECE = 10, 8


@dataclass(frozen=True)
class OwnLogs:
    """`test` and `own` are groups of rows of the table; judged sessions are called test/..."""

    table: Table
    test: tuple[Group, ...]
    own: tuple[Group, ...]

    @classmethod
    def of(cls, table: Table, data: DataConfig) -> "OwnLogs":
        """Divide the sessions as training does: its test side is judged on, all else is to learn from."""
        if len(table.machines()) > 1:
            raise TableError(
                f"The table holds {len(table.machines())} machines: {', '.join(table.machines()[:5])}.",
                expected="one machine, whose minutes can be counted",
                remedy="Write one table for each machine (crossfeed data divide).",
            )
        split = split_table(table, data.split_by, data.split_seed, (data.train_fraction, data.validation_fraction))
        test = split.groups(table, "test")
        own = [group for group in table.groups if group not in test]
        starts = [float(table.time[group.start]) for group in own]
        if min(starts) >= FIRST_CALENDAR_SECOND:  # other clocks begin anew in each session: the table has the order
            own = [own[number] for number in np.argsort(starts, kind="stable")]
        named = (replace(group, session=f"test/{group.run}/{group.session}") for group in test)
        return cls(table, tuple(named), tuple(own))

    @property
    def minutes(self) -> float:
        """How long the own logs are."""
        return sum(map(len, self.own)) * self.table.period / 60.0

    def first(self, minutes: float) -> tuple[Group, ...]:
        """The groups of the first so many minutes; the last one is cut where the time is up."""
        left = sum(map(len, self.own)) if minutes == ALL else round(minutes * 60.0 / self.table.period)
        groups = []
        for group in self.own:
            if left <= 0:
                break
            groups.append(replace(group, stop=min(group.stop, group.start + left)))
            left -= len(group)
        return tuple(groups)

    def beginnings(self) -> Table:
        """The first rows of each judged session."""
        return self.table.laid_out([replace(one, stop=min(one.stop, one.start + FIRST_ROWS)) for one in self.test])

    def space(self) -> Normaliser:
        """The z-score of all own logs, in which everybody is judged, however little they saw of them."""
        # Only train rows can be fitted, and a split needs three sides: each half of the rows is the train side once.
        middles = [group.start + len(group) // 2 for group in self.own]
        halves = [
            *(replace(one, session=f"train/{n}", stop=middles[n]) for n, one in enumerate(self.own)),
            *(replace(one, session=f"validation/{n}", start=middles[n]) for n, one in enumerate(self.own)),
        ]
        table = self.table.laid_out([*(half for half in halves if len(half)), *self.test])
        split = split_table(table, "side")
        sides = {"by": split.by, "seed": split.seed, "test": split.test}
        swapped = Split.model_validate({**sides, "train": split.validation, "validation": split.train})
        return Normaliser.fit(TrainRows.join([split.train_rows(table), swapped.train_rows(table)]))


def sides(groups: Sequence[Group], window: int) -> list[Group]:
    """The groups cut into train and validation pieces, named by their side; nothing where they are too few.

    Every fifth piece validates, or the last one of fewer. Neighbouring train pieces stay in one: each cut costs the
    windows that would lie across it, and a short log has few of them.
    """
    shortest = window + FEWEST_WINDOWS - 1
    rows = sum(map(len, groups))
    wanted = min(max(rows // USUAL_PIECES, 2 * window), LONGEST_PIECE * shortest)
    length = max(shortest, min(wanted, rows // FEWEST_PIECES))
    pieces = [(number == 0, piece) for one in groups for number, piece in enumerate(_pieces(one, shortest, length))]
    whole = [number for number, (_, piece) in enumerate(pieces) if len(piece) >= shortest]
    if len(whole) < FEWEST_PIECES:
        return []
    last_of_few = whole[-1:] if len(whole) < VALIDATION_EVERY else []
    validation = {*whole[VALIDATION_EVERY - 1 :: VALIDATION_EVERY], *last_of_few}
    joined: list[Group] = []
    for number, (begins_a_group, piece) in enumerate(pieces):
        side = "validation" if number in validation else "train"
        if side == "train" and not begins_a_group and number - 1 not in validation:
            joined[-1] = replace(joined[-1], stop=piece.stop)
        else:
            joined.append(replace(piece, session=f"{side}/{len(joined):04d}"))
    return joined


def _pieces(group: Group, shortest: int, length: int) -> list[Group]:
    """Equal parts of about this length; a group too short for one stays as it is, for the normaliser."""
    if len(group) < shortest:
        return [group]
    edges = np.linspace(group.start, group.stop, max(1, len(group) // length) + 1).round().astype(int)
    return [replace(group, start=int(start), stop=int(stop)) for start, stop in pairwise(edges)]


def sensors_left_out(logs: OwnLogs, window: int) -> dict[str, str]:
    """Sensors that nobody is judged on, each with the reason; the same for every number of minutes."""
    own = logs.table.laid_out(logs.own).sensors
    beginning = own[:window]
    reasons = {}
    for column, name in enumerate(logs.table.schema.sensor_names):
        seen = own[np.isfinite(own[:, column]), column]
        if not len(seen):
            continue  # the machine does not have it
        if not np.isfinite(beginning[:, column]).any():
            reasons[name] = f"not measured in the first {window} rows"
        elif seen.min() == seen.max():
            reasons[name] = "never moves in the own logs, so nothing says what a small error is"
    return reasons


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
