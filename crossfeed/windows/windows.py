"""Windows without a data loader: all rows lie on the device once, and a batch is a handful of index gathers.

Shapes: N rows, W windows, B batch, K context, C sensors, A commands, H horizons, T longest horizon.
A window at row t reads rows t-K+1..t and is asked about rows t+h; all of t-K+1..t+T lie in one group.
"""

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor

from crossfeed.errors import ConfigError, TableError
from crossfeed.logs.table import Group, Table, row_numbers
from crossfeed.windows.listing import HORIZONS, WindowList, blocks, list_windows, pair_up, runs_of_tables
from crossfeed.windows.normalise import Normaliser


@dataclass(frozen=True, slots=True)
class WindowBatch:
    """B windows in z-space; values are 0 where the mask is 0 and must not be read there."""

    x_BKC: Tensor
    m_BKC: Tensor
    a_BKA: Tensor
    future_x_BHC: Tensor
    future_m_BHC: Tensor
    mean_a_BHA: Tensor
    future_a_BTA: Tensor
    last_index_B: Tensor
    machine_B: Tensor


class WindowSet:
    """All windows of some groups of one or several tables, resident on one device. Make it with `build`."""

    def __init__(
        self, listing: WindowList, arrays: dict[str, np.ndarray], origin_N2: np.ndarray, device: torch.device | str
    ) -> None:
        self.listing, self.origin_N2 = listing, origin_N2
        self.context, self.horizons, self.counts = listing.context, listing.horizons, listing.counts
        self.machines = tuple(dict.fromkeys(count.machine for count in listing.counts))
        tensors = {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}
        self.x_NC, self.m_NC, self.a_NA = tensors["x_NC"], tensors["m_NC"], tensors["a_NA"]
        self.mean_a_WHA, self.last_W = tensors["mean_a_WHA"], tensors["last_W"]
        self.group_of_window = torch.from_numpy(listing.group_W).to(device)
        number = {machine: place for place, machine in enumerate(self.machines)}
        machine_G = [number[count.machine] for count in listing.counts]
        self.machine_W = torch.tensor(machine_G, device=device)[self.group_of_window]
        self._context_K = torch.arange(1 - self.context, 1, device=device)
        self._horizons_H = torch.tensor(self.horizons, device=device)
        self._future_T = torch.arange(1, self.horizons[-1] + 1, device=device)

    @classmethod
    def build(
        cls, tables: Table | Sequence[Table], groups: Sequence[Group] | Sequence[Sequence[Group]] | None,
        normaliser: Normaliser, context: int = 32, horizons: Sequence[int] = HORIZONS, stride: int = 1,
        device: torch.device | str = "cpu", hidden: Iterable[str] = (),
    ) -> Self:  # fmt: skip
        """Lay out the rows of these groups and list every window in them.

        `groups` are those of the one table, or one sequence of groups for each table; None takes all.
        `hidden` sensors are absent in context and targets, as on a machine that does not have them.
        Windows that touch a NaN command or a gap in the clock are not offered; `counts` says how many.
        """
        pairs = pair_up(tables, groups)
        schema = pairs[0][1].schema
        if any(table.schema.fingerprint != schema.fingerprint for _, table, _ in pairs):
            raise TableError("The tables have different schemas.", expected="one schema for all tables of a window set")
        periods = sorted({table.period for _, table, _ in pairs})
        if len(periods) > 1:
            raise TableError(
                f"The tables have rows every {' and every '.join(f'{period:g} s' for period in periods)}.",
                expected="one period, so that a horizon means the same time on every machine",
                remedy="Ingest the logs again with the same --period.",
            )
        if (normaliser.sensor_names, normaliser.command_names) != (schema.sensor_names, schema.command_names):
            raise TableError(
                f"The normaliser knows the sensors {', '.join(normaliser.sensor_names)} and the commands "
                f"{', '.join(normaliser.command_names)}, not those of the schema '{schema.name}'.",
                expected="a normaliser fitted on tables of this schema",
            )
        hidden = set(hidden)
        if unknown := hidden - set(schema.sensor_names):
            raise TableError(f"Cannot hide unknown sensors: {', '.join(sorted(unknown))}.")
        listing = list_windows(pairs, context, horizons, stride)
        listing.require_any()
        shown_C = np.array([name not in hidden for name in schema.sensor_names])
        table_N = np.repeat([number for number, _, _ in pairs], [len(group) for _, _, group in pairs])
        origin_N2 = np.stack([table_N, row_numbers([group for _, _, group in pairs])], axis=1)
        return cls(listing, _lay_out(pairs, listing, normaliser, shown_C), origin_N2, device)

    def __len__(self) -> int:
        return len(self.last_W)

    def batch(self, index_B: Tensor) -> WindowBatch:
        """Gather windows by their number; `index_B` lies on the set's device, and nothing comes back to the host."""
        last_B = self.last_W.index_select(0, index_B)
        context_BK = last_B[:, None] + self._context_K
        targets_BH = last_B[:, None] + self._horizons_H
        future_BT = last_B[:, None] + self._future_T
        return WindowBatch(
            x_BKC=_gather(self.x_NC, context_BK),
            m_BKC=_gather(self.m_NC, context_BK),
            a_BKA=_gather(self.a_NA, context_BK),
            future_x_BHC=_gather(self.x_NC, targets_BH),
            future_m_BHC=_gather(self.m_NC, targets_BH),
            mean_a_BHA=self.mean_a_WHA.index_select(0, index_B),
            future_a_BTA=_gather(self.a_NA, future_BT),
            last_index_B=last_B,
            machine_B=self.machine_W.index_select(0, index_B),
        )

    def only(self, index_W: Tensor) -> Self:
        """The set of these windows alone; the rows stay where they are."""
        chosen = copy(self)
        chosen.listing = self.listing.only(index_W.cpu().numpy())
        chosen.counts = chosen.listing.counts
        index_W = index_W.to(self.last_W.device)
        for name in ("last_W", "mean_a_WHA", "group_of_window", "machine_W"):
            setattr(chosen, name, getattr(self, name)[index_W])
        return chosen

    def hash(self) -> str:
        """SHA-256 of the window list, for the manifest of a protocol."""
        return self.listing.hash()


def mean_commands(future_a_BTA: Tensor, horizons: tuple[int, ...]) -> Tensor:
    """The mean command over (t, t+h] for each horizon h (line 1 of Algorithm 1)."""
    if future_a_BTA.shape[1] < max(horizons):
        raise ConfigError(
            f"Commands are planned for {future_a_BTA.shape[1]} steps, but horizon {max(horizons)} was asked for.",
            expected=f"at least {max(horizons)} planned command rows",
        )
    return torch.stack([future_a_BTA[:, :horizon].mean(1) for horizon in horizons], 1)


def present_mean(entry: Tensor, present: Tensor) -> Tensor:
    """Mean of the present entries, of which absent ones are never read; zero when there is none."""
    return torch.where(present, entry, 0.0).sum() / present.sum().clamp(min=1)


def _lay_out(
    pairs: Sequence[tuple[int, Table, Group]], listing: WindowList, normaliser: Normaliser, shown_C: np.ndarray
) -> dict[str, np.ndarray]:
    """Rows in z-space, group after group, with the mean commands of every window."""
    rows_G = np.array([len(group) for _, _, group in pairs])
    start_G = np.cumsum(rows_G) - rows_G
    last_W = start_G[listing.group_W] + listing.relative_W
    rows, channels, commands = int(rows_G.sum()), len(normaliser.sensor_names), len(normaliser.command_names)
    x_NC, m_NC = np.empty((rows, channels), np.float32), np.empty((rows, channels), bool)
    a_NA, running_NA = np.empty((rows, commands), np.float32), np.empty((rows, commands))
    begin = 0
    for table, rows_T in runs_of_tables(pairs):
        for part in blocks(len(rows_T)):
            place = slice(begin + part.start, begin + part.stop)
            x = normaliser.transform_sensors(table.sensors[rows_T[part]])
            m_NC[place] = np.isfinite(x) & shown_C
            x_NC[place] = np.where(m_NC[place], x, 0.0)
            running_NA[place] = np.nan_to_num(normaliser.transform_commands(table.commands[rows_T[part]]))
            a_NA[place] = running_NA[place]
        begin += len(rows_T)
    # Running sums begin anew in each group, so that no other group can reach the means of its windows.
    for start, stop in zip(start_G.tolist(), (start_G + rows_G).tolist(), strict=True):
        np.cumsum(running_NA[start:stop], axis=0, out=running_NA[start:stop])
    mean_a_WHA, horizons_H = np.empty((len(last_W), len(listing.horizons), commands), np.float32), listing.horizons
    for part in blocks(len(last_W)):
        past_WA = running_NA[last_W[part]]
        for number, horizon in enumerate(horizons_H):
            mean_a_WHA[part, number] = (running_NA[last_W[part] + horizon] - past_WA) / horizon
    return {"x_NC": x_NC, "m_NC": m_NC, "a_NA": a_NA, "mean_a_WHA": mean_a_WHA, "last_W": last_W}


def _gather(rows: Tensor, index: Tensor) -> Tensor:
    """Rows by a two-dimensional index; index_select is three times quicker than advanced indexing on a CPU."""
    return rows.index_select(0, index.view(-1)).view(*index.shape, rows.shape[1])
