"""Which number format a run computes in, and on which device."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

from crossfeed.errors import ConfigError
from crossfeed.training.config import Precision

AMPERE = 8  # first generation of NVIDIA cards with real bf16 units


def choose_device(name: str) -> torch.device:
    """The device of that name; `auto` takes a GPU when there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(
            f"The device '{name}' cannot be used: {reason}", expected="auto, cpu, cuda or cuda:<number>"
        ) from error
    return device


def has_bf16(device: torch.device) -> bool:
    """Whether bf16 is computed by the hardware; emulated bf16 is several times slower than float32."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device)[0] >= AMPERE


def resolve_precision(wanted: Precision, device: torch.device, network: str = "jepa") -> str:
    """`float32`, `tf32` or `bf16`; asking for bf16 where it would only be emulated is refused.

    By default the paper's network computes in bf16 where it can. The sensor network is too small for that to pay: its
    products run on the same units in tf32, without casts.
    """
    if wanted == "bf16" and not has_bf16(device):
        raise ConfigError(
            f"training.precision is bf16, but {device} computes bf16 only by emulation.",
            remedy="Set training.precision=auto (float32 here) or train on a GPU of compute capability 8.0 or newer.",
        )
    if wanted == "float32" or not has_bf16(device):
        return "float32"
    return "tf32" if wanted == "auto" and network == "sensors" else "bf16"


def autocast(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """The context in which forward passes run."""
    if precision == "bf16":
        return torch.autocast(device.type, torch.bfloat16)
    return _tf32() if precision == "tf32" else nullcontext()


@contextmanager
def _tf32() -> Iterator[None]:
    """Inside, products of float32 matrices run on a GPU's tensor units."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
