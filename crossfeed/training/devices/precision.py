"""Which number format a run computes in."""

from contextlib import AbstractContextManager, nullcontext

import torch

from crossfeed.errors import ConfigError
from crossfeed.training.config import Precision

AMPERE = 8  # first generation of NVIDIA cards with real bf16 units


def has_bf16(device: torch.device) -> bool:
    """Whether bf16 is computed by the hardware; emulated bf16 is several times slower than float32."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device)[0] >= AMPERE


def resolve_precision(wanted: Precision, device: torch.device) -> str:
    """`float32` or `bf16`; asking for bf16 where it would only be emulated is refused."""
    if wanted == "bf16" and not has_bf16(device):
        raise ConfigError(
            f"training.precision is bf16, but {device} computes bf16 only by emulation.",
            remedy="Set training.precision=auto (float32 here) or train on a GPU of compute capability 8.0 or newer.",
        )
    return "bf16" if wanted != "float32" and has_bf16(device) else "float32"


def autocast(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """The context in which forward passes run."""
    return torch.autocast(device.type, torch.bfloat16) if precision == "bf16" else nullcontext()
