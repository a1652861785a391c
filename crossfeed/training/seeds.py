"""One training seed, independent random streams: initial weights, data order, masks, dropout, changed plans.

Streams are derived anew for every stage and epoch, so a resumed run needs no generator state: it draws exactly what
the undisturbed run would have drawn.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch

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
