import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from crossfeed import __version__
from crossfeed.cli import app
from crossfeed.cli.common import how_to_go_on
from tests.cli.walk import commands, problems
from tests.typed import typed

HEAVY = ("torch", "polars", "pyarrow", "pint", "scipy", "matplotlib", "plotly", "pydantic", "numpy")
# Options that mean the same wherever they stand: name -> (short form, takes a value).
SHARED = {"--out": "-o", "--table": "-t"}


def _crossfeed(*words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "crossfeed", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})


@pytest.mark.parametrize("name", commands())
def test_every_command_explains_itself_with_an_example_that_would_run(name: str) -> None:
    text = commands()[name].help
    told = text.split("Example", 1)[1] if "Example" in text else ""
    examples = re.findall(r"crossfeed [^\n]+", re.sub(r"\n(?!crossfeed |\n)", " ", told))
    assert examples, f"crossfeed {name} --help shows no example"
    for example in examples:
        words = shlex.split(example.split(">")[0])
        assert not problems(words[1:]), example
    assert any(example.startswith(f"crossfeed {name}") for example in examples)
    result = CliRunner().invoke(app, [*name.split(), "--help"])
    assert result.exit_code == 0
    assert "Usage" in result.output


@pytest.mark.parametrize("name", commands())
def test_options_are_named_alike(name: str) -> None:
    for option in commands()[name].params:
        if option.param_type_name != "option":
            continue
        assert option.help, f"crossfeed {name} {option.opts[0]} is not explained"
        for long, short in SHARED.items():
            if long in option.opts:
                assert short in option.opts, f"crossfeed {name} {long} lacks {short}"
        assert not any("_" in word for word in option.opts)


def test_the_walk_sees_what_is_wrong() -> None:
    assert problems(["trian"])
    assert problems(["train", "--table", "a.parquet", "--out", "b", "--sise", "tiny"])
    assert problems(["train", "--out", "b"])
    assert problems(["ingest", "thws"])
    assert not problems(["train", "--table", "a.parquet", "--out", "b", "--quiet"])
    assert not problems(["study", "search", "mystudy", "--seeds", "4"])


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from crossfeed.cli import app; "
        f"CliRunner().invoke(app, ['--help']); print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
    assert CliRunner().invoke(app, ["--version"]).output.strip() == f"crossfeed {__version__}"


def test_an_error_is_a_sentence_and_not_a_traceback() -> None:
    for ended in (_crossfeed("program", "nowhere.file"), typed("inspect", "nowhere.file")):
        assert ended.returncode == 2
        assert "error:" in ended.stderr
        assert "nowhere.file" in ended.stderr
        assert "Traceback" not in ended.stderr
    assert typed("inspect").returncode == 2


@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1", "FORCE_COLOR": "1"}])
def test_no_colours_outside_a_terminal_or_when_not_wanted(environment: dict[str, str]) -> None:
    listed, refused = _crossfeed("data", "list", **environment), _crossfeed("program", "nowhere.mpf", **environment)
    for text in (listed.stdout, refused.stderr):
        assert text
        assert not re.search(r"\x1b\[[0-9;]*3[0-9]", text)


def test_json_is_all_there_is_on_standard_output(tmp_path: Path) -> None:
    simulated = _crossfeed("program", "bundled:pla_cover", "--json", "--csv", str(tmp_path / "plan.csv"))
    assert json.loads(simulated.stdout)["total_time"] > 0
    assert "plan.csv" in simulated.stderr
    assert json.loads(typed("data", "list", "--json").stdout)[0]["kind"] == "thws"


def test_quiet_may_stand_anywhere(tmp_path: Path) -> None:
    words = ["program", "bundled:pla_cover", "--csv", str(tmp_path / "plan.csv")]
    assert typed(*words).stderr
    assert not typed(*words, "--quiet").stderr
    assert not typed("-q", *words).stderr


def test_after_a_stop_the_way_on_can_be_copied() -> None:
    said = how_to_go_on(["train", "--table", "my table.parquet", "--out", "run"])
    assert said.endswith("crossfeed train --table 'my table.parquet' --out run --resume")
    assert how_to_go_on(["study", "search", "s"]).endswith("the same command: crossfeed study search s")
    assert "again" in how_to_go_on(["ingest", "thws", "a", "b.parquet"])


def test_completion_can_be_shown_for_a_shell() -> None:
    shown = _crossfeed("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert shown.returncode == 0
    assert "complete" in shown.stdout
