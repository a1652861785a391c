"""Generated bad inputs: no traceback, no exit code that lies, no memory beyond 2 GB.

Run: python benchmarks/bad_input.py [--cases 10000] [--seed 0] [--write]
Each case writes files, types a command (in the same process, for speed) and looks at what came back. Cases run in child
processes whose memory is limited; a child that dies names its case, and the next child goes on behind it.
"""

import argparse
import contextlib
import io
import json
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from bad_input_cases import Case, draw_case

MEMORY = 2 * 2**30
BATCH = 500
LONGEST_S = 60


class TooLongError(Exception):
    """A case that has not ended in time."""


def make_model(folder: Path) -> bytes:
    """The bytes of a small model file, to be damaged."""
    import torch

    from crossfeed.model.presets import crossfeed
    from crossfeed.model.world_model import WorldModel
    from crossfeed.schema import canonical
    from crossfeed.windows.normalise import Normaliser

    schema = canonical()
    sensors, commands = len(schema.sensors), len(schema.commands)
    import numpy as np

    normaliser = Normaliser(
        "zscore", 0.0, schema.sensor_names, schema.command_names, np.zeros(sensors), np.ones(sensors),
        np.zeros(commands), np.ones(commands), (), "nothing",
    )  # fmt: skip
    torch.manual_seed(0)
    WorldModel.build(crossfeed("tiny").model, schema, normaliser).save(folder / "whole.safetensors", {})
    return (folder / "whole.safetensors").read_bytes()


def judge(case: Case) -> dict[str, Any]:
    """Run one case and say what was wrong with the answer: nothing, a traceback, a lie, or too long a wait."""
    told, code, problem = io.StringIO(), 0, ""
    began = time.perf_counter()
    signal.alarm(LONGEST_S)
    try:
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
            code = _plan(case) if case.inside else _typed(case.words)
    except TooLongError:
        problem = "too long"
    except BaseException as error:  # whatever comes through here, a user would see as a traceback
        frames = traceback.extract_tb(error.__traceback__)
        where = next(
            (f"{Path(f.filename).name}:{f.lineno}" for f in reversed(frames) if "crossfeed" in f.filename), "?"
        )
        problem = f"traceback: {type(error).__name__} in {where}: {str(error)[:120]}"
    finally:
        signal.alarm(0)
    problem = problem or _lie(case, code, told.getvalue())
    return {"family": case.family, "code": code, "problem": problem, "seconds": time.perf_counter() - began}


def _typed(words: list[str]) -> int:
    """The exit code of `crossfeed WORDS`."""
    from crossfeed.cli import main

    kept, sys.argv = sys.argv, ["crossfeed", "--quiet", *words]
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    finally:
        sys.argv = kept
    return 0


def _plan(case: Case) -> int:
    """The exit code that reading a plan would end with."""
    import numpy as np

    from crossfeed.errors import CrossfeedError
    from crossfeed.scenarios.plan_table import columns_of_file, plan_columns
    from crossfeed.schema import Channel, Schema

    schema = Schema(
        name="two",
        sensors=(Channel(name="p", quantity="power", unit="kW"),),
        commands=(
            Channel(name="spindle_speed", quantity="rotational speed", unit="rpm"),
            Channel(name="feed_x", quantity="feed", unit="mm/min"),
        ),
    )
    try:
        commands = plan_columns(columns_of_file(case.words[0]), schema, 1.0, "plan")
    except CrossfeedError as error:
        print(f"error: {error}")
        return 2
    assert np.isfinite(commands).all()
    return 0


def _lie(case: Case, code: int, told: str) -> str:
    """Whether the exit code says something else than what happened."""
    if code not in (0, 1, 2):
        return f"lie: exit code {code}"
    if code == 0 and case.must_fail:
        return "lie: exit code 0 for what cannot be done"
    if code == 1 and case.words[0] != "audit":
        return "lie: exit code 1 from a command that finds nothing"
    if code == 1 and "violation" not in told:
        return "lie: exit code 1 without a violation"
    if code == 2 and not any(word in told for word in ("error", "Error", "Usage")):
        return "lie: exit code 2 without a word"
    if case.out is not None and code == 0:
        return _table_problem(Path(case.out))
    if case.out is not None and Path(case.out).exists():
        return "lie: an error left a table behind"
    if case.family == "templates" and code == 0:
        return _template_problem(told)
    return ""


def _table_problem(path: Path) -> str:
    import numpy as np

    from crossfeed.logs.table import Table

    if not path.is_file():
        return "lie: exit code 0 and no table"
    table = Table.read(path)
    whole = np.isfinite(table.commands).all() and np.isfinite(table.sensors).any()
    return "" if len(table) and whole else "lie: exit code 0 and a table without values"


def _template_problem(text: str) -> str:
    """A written mapping must be one."""
    import yaml

    from crossfeed.logs.mapping import Mapping

    try:
        Mapping.model_validate(yaml.safe_load(text))
    except (ValueError, yaml.YAMLError) as error:
        return f"lie: the template is no mapping: {str(error)[:100]}"
    return ""


def run_cases(numbers: range, seed: int) -> Iterator[dict[str, Any]]:
    """Judge these cases one after the other."""
    signal.signal(signal.SIGALRM, _stop)
    with tempfile.TemporaryDirectory(prefix="bad-input-") as place:
        model = make_model(Path(place))
        for number in numbers:
            folder = Path(place) / "case"
            folder.mkdir()
            yield {"number": number, **judge(draw_case(number, seed, folder, model))}
            shutil.rmtree(folder)


def _stop(*_: object) -> None:
    raise TooLongError


def child(first: int, last: int, seed: int, out: Path) -> None:
    """One batch with limited memory; each result is written as soon as it is known."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    with out.open("w", encoding="utf-8") as lines:
        for result in run_cases(range(first, last), seed):
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            print(json.dumps(result | {"peak": peak}), file=lines, flush=True)


def run_all(cases: int, seed: int, write: bool) -> None:
    """All cases in batches; after each of them the table is written anew, so that a stop loses one batch."""
    began = time.perf_counter()
    results: list[dict[str, Any]] = []
    peak, first = 0.0, 0
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "batch.jsonl"
        while first < cases:
            last = min(cases, first + BATCH)
            words = [sys.executable, __file__, "--child", str(first), str(last), str(seed), str(out)]
            ended = subprocess.run(words, check=False, stderr=subprocess.PIPE, text=True)
            judged = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
            results += judged
            first += len(judged)
            peak = max([peak, *(row["peak"] for row in judged)])
            if ended.returncode != 0:  # the case behind the last judged one took the process with it
                problem = f"traceback: the process died ({ended.returncode}): {ended.stderr[-200:]}"
                results.append(
                    {"number": first, "family": "?", "code": ended.returncode, "problem": problem, "seconds": 0}
                )
                first += 1
            problems = [row for row in results if row["problem"]]
            print(f"{first} of {cases}, {len(problems)} problems", *(problem_line(row) for row in problems), flush=True)
            text = table(results, peak, time.perf_counter() - began)
            if write:
                command = f"python benchmarks/bad_input.py --cases {first} --seed {seed} --write"
                head = f"# Bad input\n\n{(__doc__ or '').partition(chr(10))[0]} Made by `{command}`.\n\n"
                Path(__file__).with_suffix(".md").write_text(head + text + "\n", encoding="utf-8")
    print(text)


def problem_line(row: dict[str, Any]) -> str:
    """One problem in words."""
    return f"\n  case {row['number']} ({row['family']}): {row['problem']}"


def table(results: list[dict[str, Any]], peak: float, seconds: float) -> str:
    """The results in Markdown."""
    lines = [
        "| kind of input | cases | exit 0 | exit 1 | exit 2 | tracebacks | exit codes that lie | too long | ms a case |"
    ]
    lines.append("|---|---|---|---|---|---|---|---|---|")
    families = dict.fromkeys(row["family"] for row in sorted(results, key=lambda row: str(row["family"])))
    for family in (*families, "all"):
        rows = [row for row in results if family in (row["family"], "all")]
        codes, kinds = Counter(row["code"] for row in rows), Counter(row["problem"].partition(":")[0] for row in rows)
        numbers = [len(rows), codes[0], codes[1], codes[2], kinds["traceback"], kinds["lie"], kinds["too long"]]
        spent = 1000 * sum(row["seconds"] for row in rows) / len(rows)
        lines.append(f"| {family} | " + " | ".join(f"{number:,}" for number in numbers) + f" | {spent:.0f} |")
    lines.append(
        f"\n{len(results):,} cases in {seconds:.0f} s; highest memory of a process {peak / 2**20:.0f} MiB, limit 2 GiB."
    )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help="write benchmarks/bad_input.md")
    parser.add_argument("--child", nargs=4, metavar=("FIRST", "LAST", "SEED", "OUT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        first, last, seed, out = options.child
        child(int(first), int(last), int(seed), Path(out))
        return
    run_all(options.cases, options.seed, options.write)


if __name__ == "__main__":
    main()
