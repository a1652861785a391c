"""Tests of what only the extras bring, in an environment of their own; what cannot be downloaded is skipped and named.

    python .ci/extras.py [--environment .venv-extras]

Exit code 1 if a test that ran has failed, never because of a package that could not be had.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INSTALL_SECONDS, TEST_SECONDS = 300, 900
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@dataclass(frozen=True)
class Group:
    """Tests that need something more; `requirements` are installed, `program` must be on the machine."""

    name: str
    requirements: tuple[str, ...]
    imports: tuple[str, ...]
    tests: tuple[str, ...]
    only: str = ""
    program: tuple[str, ...] = ()


GROUPS = (
    Group("export: onnxruntime", (".[export]",), ("onnx", "onnxscript", "onnxruntime"), ("tests/front/export",)),
    Group("live: OPC UA, MQTT", (".[live]",), ("asyncua", "aiomqtt"), ("tests/live",)),
    Group("control: Gymnasium", (".[control]",), ("gymnasium",), ("tests/control",)),
    Group("serve: API and pages", (".[serve]",), ("fastapi", "httpx"), ("tests/studio",)),
    Group("ray: search with a killed worker", (".[ray]",), ("ray",), ("tests/study/test_engines.py",), only="ray"),
    Group(
        "pages in Chromium", (), (), ("tests/front/report/test_page.py",),
        program=BROWSERS,
    ),
)  # fmt: skip


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--environment", type=Path, default=ROOT / ".venv-extras")
    options.add_argument("--python", help="Use this interpreter as it is and install nothing.")
    options.add_argument("--only", help="Groups whose name holds this word.")
    asked = options.parse_args()
    python = asked.python
    reason = ""
    if python is None:
        python, reason = prepare(asked.environment)
    if asked.python is None:
        install_browser()
    outcomes: list[tuple[str, str, str]] = []
    for group in GROUPS:
        if asked.only and asked.only.lower() not in group.name.lower():
            continue
        print(f"--- {group.name}", flush=True)
        outcomes.append(
            (group.name, *(("skipped", reason) if reason else outcome(group, python, asked.python is None)))
        )
    print("\n=== extras ===")
    for name, verdict, why in outcomes:
        print(f"{verdict:8} {name}: {why}")
    return 1 if any(verdict == "FAILED" for _, verdict, _ in outcomes) else 0


def prepare(environment: Path) -> tuple[str, str]:
    """The interpreter of the second environment, and why there is none."""
    python = environment / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not python.exists():
        made = _quiet([sys.executable, "-m", "venv", str(environment)], INSTALL_SECONDS)
        if made:
            return "", f"no second environment: {made}"
    return str(python), install(str(python), (".[dev]",))


def install(python: str, requirements: tuple[str, ...]) -> str:
    """Install the plain package and these requirements; says why it did not work, or nothing."""
    uv = shutil.which("uv") or next((str(found) for found in (ROOT / ".venv").glob("*/uv")), None)
    pinned = ["--constraint", str(ROOT / "constraints.txt"), "--editable", ".", *requirements]
    environment = dict(os.environ, UV_HTTP_TIMEOUT="30", PIP_DEFAULT_TIMEOUT="30", PIP_RETRIES="1")
    if uv is not None:
        for setting in (":env:.find-links", "global.find-links"):
            asked = [sys.executable, "-m", "pip", "config", "get", setting]
            found = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
            if found and "UV_FIND_LINKS" not in environment:
                environment["UV_FIND_LINKS"] = found
        if not _quiet([uv, "pip", "install", "--quiet", "--python", python, *pinned], INSTALL_SECONDS, environment):
            return ""
    return _quiet([python, "-m", "pip", "install", "--quiet", *pinned], INSTALL_SECONDS, environment)


def install_browser() -> None:
    """Debian's Chromium, where there is none and we may install one; else its tests are skipped and say so."""
    if any(shutil.which(name) for name in BROWSERS) or shutil.which("apt-get") is None or os.geteuid() != 0:
        return
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    for words in (("update",), ("install", "--yes", "--no-install-recommends", "chromium")):
        if why := _quiet(["apt-get", "--quiet", *words], INSTALL_SECONDS, environment):
            print(f"Chromium cannot be had: {why}", flush=True)
            return


def outcome(group: Group, python: str, may_install: bool) -> tuple[str, str]:
    """Passed, FAILED or skipped, and the sentence that says why."""
    there = [name for path in group.tests for name in needing_more(ROOT / path)]
    if not there:
        return "skipped", f"no test in {', '.join(group.tests)} needs it"
    if group.program and not any(shutil.which(name) for name in group.program):
        return "skipped", f"none of {', '.join(group.program)} is on this machine"
    if group.requirements and may_install and (why := install(python, group.requirements)):
        return "skipped", f"{' '.join(group.requirements)} cannot be had: {why}"
    for module in group.imports:
        if why := _quiet([python, "-c", f"import {module}"], INSTALL_SECONDS):
            return "skipped", f"{module} cannot be imported: {why}"
    command = [python, "-m", "pytest", "-q", *there, *(("-k", group.only) if group.only else ())]
    began = time.monotonic()
    try:
        ran = subprocess.run(command, cwd=ROOT, check=False, timeout=TEST_SECONDS, capture_output=True, text=True)
    except subprocess.TimeoutExpired:
        return "FAILED", f"not at an end after {TEST_SECONDS} s"
    last = (ran.stdout.strip().splitlines() or ["no output"])[-1].strip("= ")
    if ran.returncode not in (0, 5):
        print(ran.stdout[-6000:], ran.stderr[-2000:], sep="\n", flush=True)
        return "FAILED", last
    return ("passed" if ran.returncode == 0 else "skipped"), f"{last} ({time.monotonic() - began:.0f} s)"


def needing_more(path: Path) -> list[str]:
    """The test files at a path that the plain installation skips or may skip; the others have run already."""
    files = sorted(path.rglob("test_*.py")) if path.is_dir() else [path] if path.exists() else []
    words = ("importorskip", "skipif")
    return [str(file.relative_to(ROOT)) for file in files if any(word in file.read_text() for word in words)]


def _quiet(command: list[str], seconds: float, environment: dict[str, str] | None = None) -> str:
    """Run something; the last line of what it complained about, or nothing."""
    try:
        ran = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=seconds
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error).splitlines()[0][:200]
    if ran.returncode == 0:
        return ""
    return ((ran.stderr or ran.stdout).strip().splitlines() or [f"exit code {ran.returncode}"])[-1].strip()[:200]


if __name__ == "__main__":
    sys.exit(main())
