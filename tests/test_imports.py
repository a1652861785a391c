"""What importing the package asks of a machine."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import crossfeed

ROOT = Path(crossfeed.__file__).parent
# A plain installation has none of these; modules that need one say so.
EXTRAS = ["ray", "lightgbm", "fastapi", "starlette", "uvicorn", "asyncua", "aiomqtt", "amqtt"]
EXTRAS += ["prometheus_client", "gymnasium", "stable_baselines3", "onnx", "onnxruntime"]
# What Windows lacks. The libraries are imported first: they have their own ways around it.
EVERY_MODULE = f"""
import importlib, sys
import filelock, multiprocessing.connection, numpy, polars, pyarrow, pydantic, scipy, torch
for name in ("fcntl", "resource", "termios", "pwd", "grp", "tty", "pty"):
    sys.modules[name] = None
failed = []
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ImportError as error:
        if error.name in ("fcntl", "resource", "termios", "pwd", "grp", "tty", "pty"):
            failed.append(f"{{name}} needs {{error.name}}")
        elif (error.name or "").split(".")[0] not in {EXTRAS!r}:
            raise
sys.exit("\\n".join(failed) or 0)
"""


def module_names() -> list[str]:
    paths = [path.relative_to(ROOT.parent).with_suffix("") for path in sorted(ROOT.rglob("*.py"))]
    return [".".join(path.parts).removesuffix(".__init__") for path in paths if path.stem != "__main__"]


def test_a_lock_of_one_system_kept_training_from_importing_on_windows() -> None:
    names = module_names()
    assert len(names) > 200
    done = subprocess.run(
        [sys.executable, "-c", EVERY_MODULE, *names], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr


FORECAST = """
import sys
from crossfeed.scenarios.what_if import what_if
heavy = ("scipy", "polars", "matplotlib", "plotly", "pandas", "crossfeed.sim", "crossfeed.logs.pipeline",
         "crossfeed.training.loop")
found = sorted({name for name in sys.modules for part in heavy if name == part or name.startswith(part + ".")})
sys.exit(", ".join(found) or 0)
"""


def test_a_forecast_imported_the_simulator_and_its_filters() -> None:
    done = subprocess.run([sys.executable, "-c", FORECAST], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


def test_reading_a_table_imported_pandas(tmp_path: Path) -> None:
    """For half a second, wherever it was installed: pyarrow asks it about every scalar. Its functions took a tenth."""
    from crossfeed.logs.table import Group, Table
    from crossfeed.schema import canonical

    rows = np.zeros((5, 17)), np.zeros((5, 4))
    Table(canonical(), (Group("m", "s", "r", "p", 0, 5),), np.arange(5.0), *rows, 1.0, {}).write(tmp_path / "t.parquet")
    asked = "from crossfeed.logs.table import Table; Table.read(sys.argv[1]); "
    asked += "sys.exit('pandas' in sys.modules or 'pyarrow.compute' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", f"import sys; {asked}", str(tmp_path / "t.parquet")], check=False)
    assert done.returncode == 0


@pytest.mark.parametrize(("given", "found"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_waiting_threads_spun_so_that_a_forecast_beside_a_busy_process_took_five_times_as_long(
    given: str | None, found: str
) -> None:
    """The policy is set before torch loads its threads, unless somebody has chosen one."""
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    if given is not None:
        environment["OMP_WAIT_POLICY"] = given
    asked = "import crossfeed, os, sys; print(os.environ['OMP_WAIT_POLICY'], 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [found, "False"]


@pytest.mark.parametrize("given", [None, "0"])
def test_fetching_small_pages_took_a_tenth_of_an_evaluation(given: str | None) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "THP_MEM_ALLOC_ENABLE"}
    environment |= {} if given is None else {"THP_MEM_ALLOC_ENABLE": given}
    asked = "import crossfeed, os; print(os.environ['THP_MEM_ALLOC_ENABLE'])"
    done = subprocess.run([sys.executable, "-c", asked], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (given or "1")
