"""Products of float32 matrices on a CPU, by the library that uses the widest instructions it has.

Torch multiplies with MKL, which leaves the 512-bit units of AMD's processors alone. oneDNN, which torch carries too,
uses them, for the same numbers in the same precision and twice the speed; torch asks it only where reduced precision
is permitted. So permission is given while one of our own commands computes, on those processors alone, and only after a
product has shown that the precision is in fact not reduced. Elsewhere the setting belongs to whoever imported us.
"""

import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import torch
from torch.backends import cuda, mkldnn

from crossfeed.processes import in_own_command

_EXACT = 1e-5  # relative error of a product in float32; with halved precision it is a thousand times larger
_lock = threading.Lock()
_users, _before = 0, ("highest", True)


@contextmanager
def wide_products() -> Iterator[None]:
    """Inside it, and in threads begun inside it, products use the widest units; as a decorator, while a function runs.

    Torch's setting is one for the process, so whoever leaves last puts it back.
    """
    global _users, _before
    if not in_own_command() or not gains():
        yield
        return
    with _lock:
        if not _users:
            _before = torch.get_float32_matmul_precision(), cuda.flash_sdp_enabled()  # type: ignore[no-untyped-call]
            # Attention in one piece would set up each of its many small products anew and take ten times as long.
            _set("medium", False)
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                _set(*_before)


def _set(precision: str, attention_in_one_piece: bool) -> None:
    torch.set_float32_matmul_precision(precision)
    cuda.enable_flash_sdp(attention_in_one_piece)


@cache
def gains() -> bool:
    """Whether oneDNN is the quicker one here and as exact; it must not depend on how busy the machine is.

    Where there is a GPU the setting would change its products too.
    """
    if torch.cuda.is_available() or not mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    if torch.backends.cpu.get_cpu_capability() != "AVX512" or "AuthenticAMD" not in _processor():
        return False
    return _exact()


def _processor() -> str:
    """How the processor calls itself."""
    try:
        return Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")[:4096]
    except OSError:
        return platform.processor()


def _exact() -> bool:
    """Whether a product keeps float32 when reduced precision is permitted."""
    random = torch.Generator().manual_seed(0)
    one, two = (torch.randn(128, 256, generator=random) for _ in range(2))
    try:
        before = torch.get_float32_matmul_precision()
    except RuntimeError:  # somebody has set precisions library by library, which the simple setting may not mix with
        return False
    torch.set_float32_matmul_precision("medium")
    try:
        said = torch.stack([one @ two.T, torch.bmm(one.unsqueeze(0), two.T.unsqueeze(0))[0]]).double()
    finally:
        torch.set_float32_matmul_precision(before)
    truth = one.double() @ two.double().T
    return bool((said - truth).abs().max() < _EXACT * truth.abs().max())
