"""Rolling a model forward over plans of any length: on sampled rows of its own, or on the rows that it expects.

A block of rows, as many as the last trained horizon reaches, is forecast at once from the rows before it; sampled, it
is the history of the next block. Row 256 stands on 16 forecasts made on forecasts, not on 256. Every path keeps to one
network of an ensemble. Only some paths are read by their network; the others follow one of them and draw their own
chance from what is said of it: distributions of single rows cost a network, draws from them cost nothing. The random
numbers are persistent in time, mirrored in pairs, and shared between plans that agree. Questions of several people that
come at the same time share one pass of the network.

N samples, G paths that are read, S paths of a share, B windows, E members, T planned rows, L rows of a block, K context
rows, C sensors, P present ones, A commands, R measured rows."""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from crossfeed.errors import ConfigError, CrossfeedError, ForecastError
from crossfeed.model.distribution import Distribution
from crossfeed.model.interface import Plan, Rows
from crossfeed.model.live import packed
from crossfeed.model.parts.instance_norm import Statistics
from crossfeed.model.world_model import WorldModel
from crossfeed.processes import cores, in_threads, wide_products
from crossfeed.progress import ProgressTask, progress
from crossfeed.scenarios.history import History
from crossfeed.scenarios.plan import PlannedCommands

FEWEST = 20  # samples; with fewer there is no 5 % quantile
# A forecast that is too high now is likely too high in the next row too. Measured: with 0.9 the
# 90 % intervals of energies over 256 s held 75 % of them, with 0.95 88 % (benchmarks/rollout.md).
PERSISTENCE = 0.95
# A command that differs by this share leaves 1/e of the chance in common; below the second share it is the same.
_FORK, _SAME = 0.1, 1e-3
READ = 8  # paths that a network reads; benchmarks/rollout.md has the figures for fewer and for more
_AT_ONCE = 8  # paths in one pass: more would leave the caches of a CPU
CONTEXTS = 4  # how many contexts back the windows may begin whose level a path keeps


def standard_noise(
    samples: int,
    steps: int,
    sensors: int,
    seed: int,
    persistence: float,
    shared_T: np.ndarray | None = None,
) -> np.ndarray:
    """Standard normal numbers (N, T, C), each sensor a first-order process in time; forecasts turn them into draws.

    A longer plan begins with the draws of a shorter one. Each path has a mirrored twin, which makes means exact
    wherever the forecast is symmetric. `shared_T` is the share of each row's chance that is the same for every plan of
    the seed (1 where left out): futures fork where the plans fork, see `shared_chance`.
    """
    if samples < FEWEST:
        raise ConfigError(
            f"{samples} sampled futures were asked for.", expected=f"at least {FEWEST}, for the outer quantiles"
        )
    if not 0.0 <= persistence < 1.0:
        raise ConfigError(f"A persistence of {persistence:g} was asked for.", expected="0 to below 1")
    shape = (steps, (samples + 1) // 2, sensors)
    fresh = np.random.default_rng(seed).standard_normal(shape)
    if shared_T is not None:
        share = shared_T[:steps, None, None]
        fresh = share * fresh + np.sqrt(1.0 - share**2) * np.random.default_rng([seed, 1]).standard_normal(shape)
    noise = np.empty_like(fresh)
    noise[0] = fresh[0]
    for step in range(1, steps):
        noise[step] = persistence * noise[step - 1] + np.sqrt(1.0 - persistence**2) * fresh[step]
    return np.ascontiguousarray(np.concatenate([noise, -noise], axis=1)[:, :samples].transpose(1, 0, 2))


def shared_chance(first_TA: np.ndarray, other_TA: np.ndarray, scale_A: np.ndarray) -> np.ndarray:
    """How much of the chance a row of the other plan has in common with the same row of the first, 0 to 1.

    Under the same commands two plans meet the same chance, and it cancels in their difference. Under other commands
    the model errs in other ways, and a difference that claimed to know these errors would be too sure of itself.
    `scale_A` keeps small numbers around zero from counting as large relative changes.
    """
    rows = min(len(first_TA), len(other_TA))
    first_TA, other = first_TA[:rows], other_TA[:rows]
    size = np.maximum(np.maximum(np.abs(first_TA), np.abs(other)), 0.01 * scale_A)
    change_T = np.maximum((np.abs(first_TA - other) / size).max(axis=1) - _SAME, 0.0)
    return np.concatenate([np.exp(-change_T / _FORK), np.zeros(len(other_TA) - rows)])


def followed_paths(samples: int, read: int = READ) -> np.ndarray:
    """The path (N,) that each sample follows, itself for those that are read; mirrored ones follow mirrored ones."""
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
    measured = level(x_NKC, x_NKC.isfinite())
    # A window that lacks a sensor knows no level of it; the last window does, or the sensor is absent.
    newest = level(x_RC[None, last:], x_RC[None, last:].isfinite())
    return None if measured is None or newest is None else measured.where(x_NKC.isfinite().any(1), newest)


def sensor_rows(model: WorldModel, sensors_xC: np.ndarray) -> Tensor:
    """Sensors in physical units as the model reads them: z-space, single precision, on its device; NaN is absent."""
    return _tensor(model, model.normaliser.transform_sensors(sensors_xC))


def command_rows(model: WorldModel, commands_xA: np.ndarray) -> Tensor:
    """Commands in physical units as the model reads them."""
    return _tensor(model, model.normaliser.transform_commands(commands_xA))


def _tensor(model: WorldModel, values: np.ndarray) -> Tensor:
    return torch.from_numpy(values.astype(np.float32)).to(model.device)


def read_rows(model: WorldModel, x_BRC: Tensor, level: Statistics | None, channels: Tensor | None = None) -> Rows:
    """Rows as the model keeps them; absent readings are NaN."""
    m_BRC = x_BRC.isfinite()
    return model.read(torch.where(m_BRC, x_BRC, 0.0), m_BRC, level, channels)


def roll_forward(
    model: WorldModel, rows: Rows, steps: int, follow: Callable[[Rows, slice], Tensor], read: Callable[[Tensor], Rows]
) -> None:
    """Forecast block after block: `follow` says what comes in a block, `read` makes it history of the next one."""
    context, reach = model.config.context, model.horizons[-1]
    for first in range(0, steps, reach):
        x_BLC = follow(rows, slice(first, min(first + reach, steps)))
        rows = rows.followed_by(read(x_BLC))
        rows = rows.window(len(rows) - context, len(rows))


@dataclass(frozen=True, eq=False)
class MeanRollout:
    """The forecast of every row, in z-space, and what each member of an ensemble expects there."""

    distribution: Distribution  # (B, T, C)
    member_EBTC: Tensor  # one member where the model is no ensemble

    @property
    def apart(self) -> Tensor:
        """How far the members are apart, (B, T, C)."""
        return self.member_EBTC.std(0, correction=0)


@torch.inference_mode()
def mean_rollout(
    model: WorldModel, x_BKC: Tensor, a_BKA: Tensor, planned_BTA: Tensor, members: bool = False
) -> MeanRollout:
    """Forecast every planned row of many windows; what is expected is the next history, at the measured level.

    Rows between the trained horizons are asked for as `crossfeed.model.delayed_plans` has it.
    """
    present_B1C, m_BKC = x_BKC.isfinite().any(1, keepdim=True), x_BKC.isfinite()
    level = model.level(torch.where(m_BKC, x_BKC, 0.0), m_BKC)
    a_BRA, context = torch.cat([a_BKA, planned_BTA], 1), model.config.context
    forecasts: list[Distribution] = []
    expected: list[Tensor] = []

    def follow(rows: Rows, block: slice) -> Tensor:
        past_BKA, future_BLA = a_BRA[:, block.start : block.start + context], planned_BTA[:, block]
        encoded = model.context(rows, past_BKA)
        if members and model.members > 1:
            prediction = model.decode(encoded, Plan.under(future_BLA, tuple(range(1, future_BLA.shape[1] + 1))))
            assert prediction.member_mean_EBHC is not None
            forecasts.append(prediction.distribution)
            expected.append(prediction.member_mean_EBHC)
        else:
            forecasts.append(model.decode_rows(encoded, past_BKA[:, -1:], future_BLA))
            expected.append(forecasts[-1].mean.unsqueeze(0))
        return torch.where(present_B1C, forecasts[-1].mean, torch.nan)

    rows = read_rows(model, x_BKC, level)
    roll_forward(model, rows, planned_BTA.shape[1], follow, lambda x_BLC: read_rows(model, x_BLC, level))
    return MeanRollout(Distribution.concatenate(forecasts, 1), torch.cat(expected, 2))


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
        context = model.config.context
        self.device = model.device
        self._x_RC = sensor_rows(model, history.sensors)
        self._a_KA = command_rows(model, history.commands[-context:])
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

        `go_on` is asked before every pass of a network and raises when the answer is no longer wanted.
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
        follows_N = followed_paths(samples)
        read_G, place_N = np.unique(follows_N, return_inverse=True)
        level = levels(self.model.level, self._x_RC, self.model.config.context, len(read_G))
        half, shares = (len(read_G) + 1) // 2, []
        for member in range(min(self.model.members, half)):
            own_G = np.flatnonzero(np.arange(len(read_G)) % half % self.model.members == member)
            for start in range(0, len(own_G), _AT_ONCE):
                part_G = own_G[start : start + _AT_ONCE]
                samples_S = np.flatnonzero(np.isin(place_N, part_G))
                follows_S = np.searchsorted(part_G, place_N[samples_S])
                index = torch.from_numpy(part_G).to(self.device)
                own_level = None if level is None else level.map(lambda values: values[index])  # noqa: B023
                shares.append(
                    Share(member, own_level, samples_S, follows_S, np.searchsorted(samples_S, read_G[part_G]))
                )
        return shares

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
        member, context = self._members[share.member], self.model.config.context
        planned_TA = command_rows(self.model, plan.commands)
        a_RA = torch.cat([self._a_KA, planned_TA])
        follows_S, read_G = (torch.from_numpy(places).to(self.device) for places in (share.follows_S, share.read_G))

        def follow(rows: Rows, block: slice) -> Tensor:
            if go_on is not None:
                go_on()
            past_KA = a_RA[block.start : block.start + context]
            forecast = member.decode_paths(rows, past_KA, planned_TA[block], self._channels_P)
            normal_SLP = _tensor(self.model, noise_NTC[share.samples_S, block][..., self.present])
            x_SLP = forecast.draw(normal_SLP, of=follows_S)
            x_GLC = x_SLP.new_full((len(read_G), x_SLP.shape[1], len(self._present_C)), torch.nan)
            x_GLC[..., self._channels_P] = x_SLP[read_G]
            drawn_NTC[np.ix_(share.samples_S, np.arange(block.start, block.stop), np.flatnonzero(self.present))] = (
                x_SLP.double().cpu().numpy()
            )
            task.advance(x_SLP.numel())
            return x_GLC

        def read(x_NLC: Tensor) -> Rows:
            return read_rows(self.model, x_NLC, share.level, self._worth)

        roll_forward(self.model, read(self._x_RC[-context:].expand(len(read_G), -1, -1)), len(plan), follow, read)


Question = TypeVar("Question")
Answer = TypeVar("Answer")
AnswerAll = Callable[[Sequence[Question]], Sequence[Answer | Exception]]


class SharedPass(Generic[Question, Answer]):
    """A queue before a function that answers many questions at once; a cancelled question is dropped."""

    def __init__(self, answer_all: AnswerAll[Question, Answer], most: int) -> None:
        self.answer_all, self.most = answer_all, most
        self._queue: deque[tuple[Question, asyncio.Future[Answer]]] = deque()
        self._thread = ThreadPoolExecutor(1, "forecasts")
        self._worker: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """How many questions wait."""
        return len(self._queue)

    async def ask(self, question: Question) -> Answer:
        """Wait for the answer; cancelling takes the question out of the queue."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()
        self._queue.append((question, answer))
        if self._worker is None or self._worker.done():
            self._worker = loop.create_task(self._work())
        return await answer

    async def _work(self) -> None:
        """Answer until no question waits."""
        loop = asyncio.get_running_loop()
        while self._queue:
            taken = [self._queue.popleft() for _ in range(min(self.most, len(self._queue)))]
            taken = [(question, waiting) for question, waiting in taken if not waiting.done()]
            if not taken:
                continue
            try:
                answers = await loop.run_in_executor(self._thread, self.answer_all, [question for question, _ in taken])
            except Exception as error:  # a mistake of ours must not leave anybody waiting
                answers = [error] * len(taken)
            for (_, waiting), answer in zip(taken, answers, strict=True):
                if not waiting.done():
                    failed = isinstance(answer, Exception)
                    (waiting.set_exception if failed else waiting.set_result)(answer)  # type: ignore[arg-type]

    def close(self) -> None:
        """Let the thread end."""
        if self._worker is not None:
            self._worker.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)


def answer_together(
    questions: Sequence[Question],
    key: Callable[[Question], Hashable],
    together: Callable[[Sequence[Question]], Sequence[Answer]],
) -> list[Answer | Exception]:
    """Answer questions of equal keys in one pass; where one of them is bad, each is asked again alone."""
    groups: dict[Hashable, list[int]] = {}
    for number, question in enumerate(questions):
        groups.setdefault(key(question), []).append(number)
    answers: dict[int, Answer | Exception] = {}
    for numbers in groups.values():
        try:
            answers |= zip(numbers, together([questions[number] for number in numbers]), strict=True)
        except CrossfeedError as error:
            for number in numbers:
                alone = len(numbers) == 1
                answers[number] = error if alone else answer_together([questions[number]], key, together)[0]
    return [answers[number] for number in range(len(questions))]
