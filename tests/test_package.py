"""The wheel, unpacked into an environment elsewhere, has all it needs."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from dataclasses import dataclass
from email.parser import Parser
from pathlib import Path

import pytest

import crossfeed

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling", reason="hatchling builds the wheel; it comes with the extra 'dev'")
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    there = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "crossfeed").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert packed == there
    assert "crossfeed/py.typed" in packed


def test_the_wheel_says_its_version_its_extras_and_its_command(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(archive.read(name).decode())
        (entry,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        assert "crossfeed = crossfeed.__main__:run" in archive.read(entry).decode()
    assert metadata["Version"] == crossfeed.__version__ == PROJECT["version"]
    assert set(metadata.get_all("Provides-Extra", [])) == set(PROJECT["optional-dependencies"])


def test_changelog_and_citation_know_the_version() -> None:
    version = PROJECT["version"]
    assert f"\n## {version}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"version: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


FOUND = """
import json
from importlib.resources import files
import crossfeed, crossfeed.demo.story
from crossfeed.programs.parse import bundled_programs
programs = {name: path.read_text() for name, path in bundled_programs().items()}
templates = [path.name for path in files("crossfeed.front.report").joinpath("templates").iterdir()]
candidates = [path.name for path in files("crossfeed.study").iterdir() if path.name.endswith(".yaml")]
from crossfeed.model.model_file import locate_model
models = locate_model("fleet").stat().st_size
found = {"programs": programs, "templates": templates, "candidates": candidates, "models": models}
print(json.dumps({"package": crossfeed.__file__, **found}))
"""


@dataclass(frozen=True)
class Elsewhere:
    """A folder with an environment of its own; the tests lend it their dependencies, the package is the wheel's."""

    folder: Path
    python: Path
    packages: Path

    def run(self, *words: str) -> str:
        """What Python prints there."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        ran = subprocess.run(
            [self.python, *words], cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout


@pytest.fixture(scope="module")
def elsewhere(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Elsewhere:
    folder = tmp_path_factory.mktemp("elsewhere")
    venv.create(folder / "environment", with_pip=False, symlinks=True)
    base = str(folder / "environment")
    packages = Path(sysconfig.get_paths(vars={"base": base, "platbase": base})["purelib"])
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    (packages / "lent.pth").write_text(sysconfig.get_paths()["purelib"] + "\n", encoding="utf-8")
    scripts = folder / "environment" / ("Scripts" if os.name == "nt" else "bin")
    return Elsewhere(folder, scripts / Path(sys.executable).name, packages)


def test_an_environment_elsewhere_finds_programs_templates_candidates_and_models(elsewhere: Elsewhere) -> None:
    found = json.loads(elsewhere.run("-c", FOUND))
    assert Path(found["package"]).is_relative_to(elsewhere.packages)
    assert {"bracket", "face_pocket"} <= found["programs"].keys()
    assert {"report.html.j2", "style.css", "script.js"} <= set(found["templates"])
    assert "crossfeed_candidates.yaml" in found["candidates"]
    assert found["models"] > 1_000_000
    assert elsewhere.run("-m", "crossfeed", "--version").strip() == f"crossfeed {PROJECT['version']}"
    elsewhere.run("-m", "crossfeed", "program", "bundled:bracket", "--csv", "plan.csv")
    assert (elsewhere.folder / "plan.csv").stat().st_size > 0


def test_the_demo_is_told_to_its_end_by_the_wheel(elsewhere: Elsewhere) -> None:
    """On toy machines, but through every chapter: study, sealed target, rivals, what-if, report."""
    shutil.copytree(ROOT / "tests", elsewhere.folder / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    elsewhere.run("-m", "tests.demo.conftest", "--out", "demo")
    headline = json.loads((elsewhere.folder / "demo" / "headline.json").read_text(encoding="utf-8"))
    assert headline["locked"]
    assert "crossfeed (locked)" in headline["rows"]
    assert (elsewhere.folder / "demo" / "report" / "report.html").stat().st_size > 100_000
