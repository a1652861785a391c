"""Rolling a model forward over plans of any length, on sampled rows of its own.

A block of rows, as many as the last trained horizon reaches, is forecast at once from the rows before it; sampled, it
is the history of the next block. Row 256 stands on 16 forecasts made on forecasts, not on 256. Every path keeps to one
network of an ensemble. Only some paths are read by their network; each is company for others, which draw their own
chance from what is said of it: distributions of single rows cost a network, draws from them cost nothing.

N samples, G paths that are read, S paths of a share, T planned rows, L rows of a block, K context rows, C sensors,
P present ones, A commands, R measured rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from crossfeed.errors import ConfigError, ForecastError
from crossfeed.model.interface import Rows
from crossfeed.model.packed_weights import packed
from crossfeed.model.parts.instance_norm import Statistics
from crossfeed.model.world_model import WorldModel
from crossfeed.products import wide_products
from crossfeed.progress import ProgressTask, progress
from crossfeed.serving.history import History
from crossfeed.serving.plan import PlannedCommands
from crossfeed.threads import cores, in_threads

READ = 8  # paths that a network reads; benchmarks/rollout.md has the figures for fewer and for more
_AT_ONCE = 8  # paths in one pass: more would leave the caches of a CPU
CONTEXTS = 4  # how many contexts back the windows may begin whose level a path keeps


def company(samples: int, read: int = READ) -> np.ndarray:
    """Of each sample: the path it follows, itself for those that are read. Mirrored paths follow mirrored ones."""
    pairs = (samples + 1) // 2
    number_N = np.arange(samples)
    return number_N % pairs % max(1, read // 2) + number_N // pairs * pairs


def levels(
    level: Callable[[Tensor, Tensor], Statistics | None], x_RC: Tensor, context: int, samples: int
) -> Statistics | None:
    """What a model's `level` says of N windows, evenly spread over the last measured ones; mirrored paths share.

    Statistics of sampled rows would let every small bias move the level on which the next forecast stands, and after
    minutes the paths would drift away. A single measured window would be taken for certain although a start-up peak may
    lie in it. So each path keeps the statistics of one of the last measured windows, and their spread is part of the
    forecast.
    """
    x_RC = x_RC[-CONTEXTS * context :]
    pairs = (samples + 1) // 2
    last = len(x_RC) - context
    start_N = torch.linspace(last, 0, pairs).round().long()[torch.arange(samples) % pairs]
    x_NKC = x_RC[start_N[:, None] + torch.arange(context)]
    found = level(x_NKC, x_NKC.isfinite())
    # A window that lacks a sensor knows no level of it; the last window does, or the sensor is absent.
    newest = level(x_RC[None, last:], x_RC[None, last:].isfinite())
    return None if found is None or newest is None else found.where(x_NKC.isfinite().any(1), newest)


@dataclass(frozen=True, eq=False)
class Share:
    """Paths that one network follows together: S samples, and which G of them it reads."""

    member: int
    level: Statistics | None
    samples_S: np.ndarray
    follows_S: np.ndarray  # of each sample: which of the read paths it follows
    read_G: np.ndarray  # which of the samples are read


class Rollout:
    """A model at one moment of one machine, ready to sample what follows under any plans.

    Each path keeps the level of measured rows (see `levels`).
    """

    def __init__(self, model: WorldModel, history: History) -> None:
        if model.horizons[0] != 1:
            raise ConfigError(
                f"The shortest horizon of this model is {model.horizons[0]} rows, so it cannot be rolled forward.",
                expected="a model trained with horizon 1 among its horizons",
            )
        self.model, self.history = model.eval(), history
        self._members = [packed(model.member(number)) for number in range(model.members)]
        context, normaliser = model.config.context, model.normaliser
        self.device = model.device
        self._x_RC = self._tensor(normaliser.transform_sensors(history.sensors))
        self._a_KA = self._tensor(normaliser.transform_commands(history.commands[-context:]))
        self._present_C = self._x_RC[-context:].isfinite().any(0)
        self._channels_P = self._present_C.nonzero().squeeze(1)
        self._worth = model.channels_to_read(self._present_C)

    @property
    def present(self) -> np.ndarray:
        """Which sensors the context shows; only these are forecast."""
        return np.asarray(self._present_C.cpu().numpy())

    def sample(self, plan: PlannedCommands, noise_NTC: np.ndarray) -> np.ndarray:
        """Sampled futures of one plan."""
        return self.sample_all([plan], [noise_NTC])[0]

    @wide_products()
    def sample_all(
        self,
        plans: Sequence[PlannedCommands],
        noises_NTC: Sequence[np.ndarray],
        go_on: Callable[[], None] | None = None,
    ) -> list[np.ndarray]:
        """Sampled futures (N, T, C) in physical units, NaN for absent sensors; noises hold standard normals.

        `go_on` is asked before every pass of a network and raises when nobody waits for the answer any more.
        """
        shape = len(self._present_C)
        drawn = [np.full((len(noise), len(plan), shape), np.nan) for plan, noise in zip(plans, noises_NTC, strict=True)]
        with progress("Rolling forward", total=sum(map(np.size, drawn))) as task:
            work = [
                partial(self._follow, share, plan, noise_NTC, paths_NTC, task, go_on)
                for plan, noise_NTC, paths_NTC in zip(plans, noises_NTC, drawn, strict=True)
                for share in self._shares(len(noise_NTC))
            ]
            for _ in in_threads(work, cores(self.device)):
                pass
        for plan, paths_NTC in zip(plans, drawn, strict=True):
            if not np.isfinite(paths_NTC[..., self.present]).all():
                raise ForecastError(
                    f"Under the plan {plan.name} the forecasts are no longer numbers.",
                    remedy="Check the plan's units, or shorten it.",
                )
        return [np.asarray(self.model.normaliser.inverse_sensors(paths_NTC)) for paths_NTC in drawn]

    def _shares(self, samples: int) -> list[Share]:
        """The paths in parts that need nothing of each other."""
        follows_N = company(samples)
        read_G, place_N = np.unique(follows_N, return_inverse=True)
        level = levels(self.model.level, self._x_RC, self.model.config.context, len(read_G))
        half, found = (len(read_G) + 1) // 2, []
        for member in range(min(self.model.members, half)):
            own_G = np.flatnonzero(np.arange(len(read_G)) % half % self.model.members == member)
            for start in range(0, len(own_G), _AT_ONCE):
                part_G = own_G[start : start + _AT_ONCE]
                samples_S = np.flatnonzero(np.isin(place_N, part_G))
                follows_S = np.searchsorted(part_G, place_N[samples_S])
                index = torch.from_numpy(part_G).to(self.device)
                own_level = None if level is None else level.map(lambda values: values[index])  # noqa: B023
                found.append(Share(member, own_level, samples_S, follows_S, np.searchsorted(samples_S, read_G[part_G])))
        return found

    @torch.inference_mode()
    def _follow(
        self,
        share: Share,
        plan: PlannedCommands,
        noise_NTC: np.ndarray,
        drawn_NTC: np.ndarray,
        task: ProgressTask,
        go_on: Callable[[], None] | None,
    ) -> None:
        """Draw the paths of a share in z-space, block by block."""
        member, context, longest = self._members[share.member], self.model.config.context, self.model.horizons[-1]
        planned_TA = self._tensor(self.model.normaliser.transform_commands(plan.commands))
        a_RA = torch.cat([self._a_KA, planned_TA])
        follows_S, read_G = (torch.from_numpy(places).to(self.device) for places in (share.follows_S, share.read_G))
        rows = self._read(self._x_RC[-context:].expand(len(read_G), -1, -1), share.level)
        for first in range(0, len(plan), longest):
            if go_on is not None:
                go_on()
            block = slice(first, min(first + longest, len(plan)))
            said = member.decode_paths(rows, a_RA[first : first + context], planned_TA[block], self._channels_P)
            normal_SLP = self._tensor(noise_NTC[share.samples_S, block][..., self.present])
            x_SLP = said.draw(normal_SLP, of=follows_S)
            x_GLC = x_SLP.new_full((len(read_G), x_SLP.shape[1], len(self._present_C)), torch.nan)
            x_GLC[..., self._channels_P] = x_SLP[read_G]
            rows = rows.followed_by(self._read(x_GLC, share.level))
            rows = rows.window(len(rows) - context, len(rows))
            drawn_NTC[np.ix_(share.samples_S, np.arange(block.start, block.stop), np.flatnonzero(self.present))] = (
                x_SLP.double().cpu().numpy()
            )
            task.advance(x_SLP.numel())

    def _read(self, x_NLC: Tensor, level: Statistics | None) -> Rows:
        """Rows as the model keeps them."""
        m_NLC = x_NLC.isfinite()
        return self.model.read(torch.where(m_NLC, x_NLC, 0.0), m_NLC, level, self._worth)

    def _tensor(self, values: np.ndarray) -> Tensor:
        return torch.from_numpy(values.astype(np.float32)).to(self.device)
