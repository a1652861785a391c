"""Shared fixtures: where the real data lie, and makers of small logs in the native formats; and no luck in tests."""

import os
import random
import signal
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import typer.main
import typer.testing
from hypothesis import HealthCheck, settings

from crossfeed.progress import be_quiet

# CROSSFEED_EXAMPLES=1000 draws other examples on every run, that many where a test does not state its own number.
_EXAMPLES = os.environ.get("CROSSFEED_EXAMPLES")
settings.register_profile(
    "crossfeed",
    deadline=None,
    derandomize=_EXAMPLES is None,
    max_examples=int(_EXAMPLES or 100),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("crossfeed")

# What a shell starts in the background is deaf to Ctrl-C, and so are the processes that tests start to interrupt them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Sixty commands were put together anew for each of the many commands that tests type into this process.
typer.main.get_command = typer.testing._get_command = cache(typer.main.get_command)

_REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Every test, its fixtures included, draws the same numbers and may show progress, whatever ran before it."""
    be_quiet(False)
    random.seed(0)
    np.random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


def _real_data(variable: str, folder: str) -> Path:
    """A folder with real data, or a skip that says how to provide it."""
    candidates = [Path(os.environ[variable])] if variable in os.environ else []
    candidates.append(_REPOSITORY.parent / "shared" / "data" / folder)
    for candidate in candidates:
        if candidate.is_dir():
            return candidate
    pytest.skip(f"real data are not here: set {variable} to their folder")


@pytest.fixture(scope="session")
def michigan_folder() -> Path:
    """The 18 real runs of the Michigan mill."""
    return _real_data("CROSSFEED_MICHIGAN", "michigan")


@pytest.fixture(scope="session")
def nist_folder() -> Path:
    """40 real days of the NIST Mazak."""
    return _real_data("CROSSFEED_NIST", "nist_mazak01")


@pytest.fixture(scope="session")
def thws_meta_folder() -> Path:
    """NC programs and feature list of the THWS data set."""
    return _real_data("CROSSFEED_THWS_META", "thws_meta")


THWS_HEADER = [
    "",
    "time",
    "Program_status",
    "Program_path",
    "Spindle_smoothed_current",
    "Spindle_smoothed_torque",
    "Spindle_smoothed_active_power",
    "X_Axis_smoothed_current",
    "X_Axis_smoothed_torque",
    "Y_Axis_smoothed_current",
    "Y_Axis_smoothed_torque",
    "Z_Axis_smoothed_current",
    "Z_Axis_smoothed_torque",
    "Z_Axis_smoothed_active_power",
    "Spindle_motor_temperature",
    "X_Axis_motor_temperature",
    "Y_Axis_Motor_temperature",
    "Z_Axis_Motor_temperature",
    "Spindle_smoothed_intermediate_circuit_Voltage",
    "Spindle_smoothed_modulation_depth",
    "General_temperature",
    "Spindle_speed",
    "X-axis_feed",
    "Y-axis_feed",
    "Z-axis_feed",
]

JOANNEUM_HEADER = [
    "part",
    "block",
    "Cycle",
    *(f"{name}_{axis}" for axis in ("SP1", "X1", "Y1", "Z1") for name in ("Current", "Torque", "CommandedSpeed")),
    "Power_SP1",
    "Power_Z1",
]


@pytest.fixture
def make_thws_log(tmp_path: Path) -> Callable[..., Path]:
    """Write a THWS log; a row is (seconds after the start, status, program path), and values come from a seed."""

    def make(rows: Sequence[tuple[float, int, str]], name: str = "data_v1_0_1.csv", seed: int = 0) -> Path:
        generator = np.random.default_rng(seed)
        lines = [",".join(THWS_HEADER)]
        start = np.datetime64("2024-03-12T08:16:30", "ms")
        for index, (second, status, program) in enumerate(rows):
            stamp = str(start + np.timedelta64(round(second * 1000), "ms")).replace("T", " ")
            values = generator.normal(10.0, 1.0, len(THWS_HEADER) - 4)
            lines.append(f"{index},{stamp},{status}.0,{program}," + ",".join(f"{value:.4f}" for value in values))
        path = tmp_path / "thws" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    return make


@pytest.fixture
def make_joanneum_log(tmp_path: Path) -> Callable[..., Path]:
    """Write one JOANNEUM file from its cycle numbers; signals are simple functions of the cycle."""

    def make(name: str, cycles: Sequence[int], part: int = 1, folder: str = "joanneum") -> Path:
        cycle = np.asarray(cycles, dtype=np.int64)
        columns = {header: np.sin(0.001 * cycle + index) for index, header in enumerate(JOANNEUM_HEADER)}
        columns |= {"part": np.full(len(cycle), part), "block": cycle // 100, "Cycle": cycle}
        columns["CommandedSpeed_SP1"] = np.where(cycle % 1000 < 300, 6000.0, 12000.0)
        lines = [",".join(JOANNEUM_HEADER)]
        lines += [",".join(f"{columns[header][row]:.10g}" for header in JOANNEUM_HEADER) for row in range(len(cycle))]
        path = tmp_path / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    return make
