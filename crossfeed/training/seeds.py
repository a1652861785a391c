"""One training seed, independent random streams: initial weights, data order, masks, dropout, changed plans.

Streams are derived anew for every stage and epoch, so a resumed run needs no generator state: it draws exactly what
the undisturbed run would have drawn."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from crossfeed.errors import TrainingError

Purpose = Literal["init", "fresh_head", "order", "masks", "dropout", "plans"]


def derive(seed: int, purpose: Purpose, stage: str = "", epoch: int = 0) -> int:
    """A 63-bit seed for one purpose; nearby training seeds give unrelated numbers."""
    text = f"crossfeed/{seed}/{purpose}/{stage}/{epoch}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, purpose: Purpose, stage: str = "", epoch: int = 0, device: str = "cpu") -> torch.Generator:
    """A fresh generator on `device` for one purpose of one epoch."""
    return torch.Generator(device=device).manual_seed(derive(seed, purpose, stage, epoch))


@contextmanager
def own_randomness(device: torch.device) -> Iterator[None]:
    """Let the block reseed torch's global generators (which dropout reads) without disturbing the caller's."""
    devices = [device.index or 0] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        yield


def steps_in_epoch(windows: int, batch_size: int, cap: int | None) -> int:
    """How many full batches an epoch has; too few windows for a single one is an error."""
    steps = windows // batch_size
    if steps == 0:
        raise TrainingError(
            f"The training part has {windows} windows, not enough for one batch of {batch_size}.",
            remedy=f"Give more or longer sessions, or lower training.batch_size to at most {windows}.",
        )
    return min(steps, cap) if cap else steps


def spread_out(total: int, limit: int) -> Tensor:
    """Window numbers, all of them or `limit` evenly spread ones."""
    if total <= limit:
        return torch.arange(total)
    return torch.linspace(0, total - 1, limit).round().long()


def epoch_order(machine_W: np.ndarray, batch_size: int, steps: int, generator: torch.Generator) -> Tensor:
    """Window indices (steps, batch) of one epoch; every batch holds equal shares of all machines.

    A machine's windows come in random order and none returns before all of that machine's have been seen.
    """
    machines = np.unique(machine_W)
    turn_N = torch.arange(steps * batch_size) % len(machines)
    order_N = torch.empty(steps * batch_size, dtype=torch.long)
    for number, machine in enumerate(machines):
        own_W = torch.from_numpy(np.flatnonzero(machine_W == machine))
        mine_N = turn_N == number
        needed = int(mine_N.sum())
        rounds = [own_W[torch.randperm(len(own_W), generator=generator)] for _ in range(-(-needed // len(own_W)))]
        order_N[mine_N] = torch.cat(rounds)[:needed] if rounds else own_W[:0]
    return order_N.view(steps, batch_size)
