"""What the numbers owe to how the logs were read: the rule of the bins, their length, the length of a controller cycle.

The paper leaves two things open: that the target's cycles last 2 ms, and how its results depend on resampling. Each
reading of the same logs is made into tables, the same models learn from the source and are scored on the target, and
every error is told as a share of persistence on the very same windows: the readings have z-units of their own. Errors
are compared at the times ahead that all readings have. Target rows are read, so it is for logs that hold no secret.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from crossfeed.configuration import override
from crossfeed.errors import ConfigError
from crossfeed.evaluation.baselines.budget import Budget, Size
from crossfeed.evaluation.baselines.compare import ComparisonInputs, ComparisonRunner
from crossfeed.evaluation.baselines.contenders import Setting, config_of, line_up, target_set
from crossfeed.evaluation.baselines.results import Result
from crossfeed.files import atomic_file, claim, write_sealed
from crossfeed.logs.data_sets import CYCLE, THWS, with_cycle
from crossfeed.logs.pipeline import ingest
from crossfeed.logs.resample import Rule
from crossfeed.logs.table import Table
from crossfeed.progress import console
from crossfeed.show.drawing import draw
from crossfeed.show.figures import Dot, Dots, Figure, save_figure
from crossfeed.show.formats import markdown
from crossfeed.show.tables import ResultTable, plain_table
from crossfeed.training.run_config import RunConfig

CONTEXT_S, AHEAD_S = 32.0, (1.0, 2.0, 4.0, 8.0, 16.0)
LONGER_S = 2.0
CYCLES = ("1 ms", "1.8 ms", "2.2 ms", "4 ms")
PERSISTENCE = "persistence"


@dataclass(frozen=True, slots=True)
class LogReading:
    """One way to read the same logs; `cycle` is that of the target's controller."""

    name: str
    rule: Rule
    period: float = 1.0
    cycle: str = CYCLE


@dataclass(frozen=True, slots=True)
class SensitivityLine:
    """One model under one reading: RMSE over the times ahead that all readings have, and as a share of persistence.

    `change` is how far the share is from the one of the reference, and is None for the reference.
    """

    reading: str
    side: str
    model: str
    seeds: int
    windows: int
    rmse: float
    share: float
    change: float | None


@dataclass(frozen=True)
class Sensitivity:
    """Every model under every reading, the reference first."""

    folder: Path
    reference: str
    ahead_s: tuple[float, ...]
    lines: tuple[SensitivityLine, ...]

    def tables(self) -> list[ResultTable]:
        """One table a side: readings down, models across."""
        ahead = ", ".join(f"{seconds:g}" for seconds in self.ahead_s)
        shown = []
        for side in dict.fromkeys(line.side for line in self.lines):
            by = {(line.reading, line.model): line for line in self.lines if line.side == side}
            models = [model for model in dict.fromkeys(model for _, model in by) if model != PERSISTENCE]
            rows = []
            for reading in dict.fromkeys(reading for reading, _ in by):
                floor, each = by[reading, PERSISTENCE], [by.get((reading, model)) for model in models]
                cells = [line and f"{line.share:.3f}{_signed(line.change)}" for line in each]
                rows.append([reading, f"{floor.windows:,}", f"{floor.rmse:.3f}", *cells])
            title = f"{side.capitalize()}: RMSE {ahead} s ahead over that of persistence (change from {self.reference})"
            heads = ["reading", "windows", "persistence", *models]
            shown.append(plain_table(title, heads, rows, name=f"sensitivity-{side}"))
        return shown

    def figure(self) -> Figure:
        """The shares of the target, a row of dots for each reading."""
        by = {(line.reading, line.model): line.share for line in self.lines if line.side == "target"}
        readings, models = (tuple(dict.fromkeys(names)) for names in zip(*by, strict=True))
        series = tuple(
            (model, colour, tuple(Dot(by.get((reading, model))) for reading in readings))
            for colour, model in enumerate(model for model in models if model != PERSISTENCE)
        )
        title = "Target RMSE over that of persistence on the same windows"
        panel = Dots(title, "share (left of 1: better than persistence)", readings, series, reference=1.0)
        legend = tuple((model, colour, "points") for model, colour, _ in series)
        return Figure("sensitivity", f"One change at a time from {self.reference}.", (panel,), legend)

    def write(self) -> None:
        """Save lines, tables and figure; each file appears whole or not at all."""
        content = {"reference": self.reference, "ahead_s": self.ahead_s, "lines": [asdict(line) for line in self.lines]}
        write_sealed(self.folder / "sensitivity.json", content)
        for table in self.tables():
            with atomic_file(self.folder / f"{table.name}.md") as temporary:
                temporary.write_text(markdown(table) + "\n", encoding="utf-8")
        save_figure(draw(self.figure()), self.folder / "sensitivity.png")


def readings(rule: Rule = "paper") -> list[LogReading]:
    """The reference, then one thing changed at a time; the source is logged once a second, so no period is shorter."""
    other: Rule = "crossfeed" if rule == "paper" else "paper"
    return [
        LogReading(f"rule {rule}, 1 s, 2 ms", rule),
        LogReading(f"rule {other}", other),
        LogReading(f"{LONGER_S:g} s", rule, LONGER_S),
        *(LogReading(f"cycle {cycle}", rule, cycle=cycle) for cycle in CYCLES),
    ]


def sensitivity(
    source: Path, target: Path, out: Path, *, rule: Rule = "paper", models: str = "ridge,crossfeed", seeds: int = 3,
    budget: Budget, size: Size = "tiny", stride: int = 1, device: str = "cpu",
) -> Sensitivity:  # fmt: skip
    """Read THWS and JOANNEUM logs in every way, train and score the models, write tables and figure into `out`.

    A run that is done is not run again: the same call goes on after a stop.
    """
    setting = Setting(budget, size, device, {})
    contenders, _ = line_up(f"{PERSISTENCE},{models}", setting)
    plan = [(contender.name, seed) for contender in contenders for seed in contender.seeds(seeds)]
    every, lines = readings(rule), list[SensitivityLine]()
    ahead = tuple(time for time in AHEAD_S if all((time / one.period).is_integer() for one in every))
    for base in (one for one in every if one.cycle == CYCLE):
        learned = ingest(THWS, source, rule=base.rule, period=base.period)
        config = _windows(config_of(size, "session", stride), base.period)
        inputs = ComparisonInputs(
            (learned,), _target(base, target), config, setting, out / f"{base.rule}-{base.period:g}s"
        )
        runner = ComparisonRunner(inputs)
        data = runner.data
        # Another cycle changes the target alone: who learned from this source is scored on those tables too.
        others = [each for each in every if each is not base and (each.rule, each.period) == (base.rule, base.period)]
        on = torch.device(device)
        sets = {one.name: target_set([learned], _target(one, target), data.training, config, on) for one in others}
        runner.data = replace(data, scored=data.scored | sets)
        hashes = {name: part.windows.hash() for name, part in runner.data.scored.items()}
        work: dict[str, Any] = {"budget": budget.model_dump(mode="json"), "size": size, "scored": hashes}
        claim(inputs.folder, "comparison.json", data.identity | work, "a comparison")
        results = []
        for name, seed in plan:
            results.append(runner.run(name, seed))
            console().print(f"{base.name}: {name}, seed {seed}: {results[-1].in_words('rmse')}", markup=False)
        steps = [str(round(time / base.period)) for time in ahead]
        scored = [("source", base.name, "source"), ("target", base.name, "target")]
        for side, reading, windows in [*scored, *(("target", each.name, each.name) for each in others)]:
            reference = {line.model: line.share for line in lines if (line.reading, line.side) == (every[0].name, side)}
            lines += _lines(reading, side, windows, results, steps, reference)
    result = Sensitivity(out, every[0].name, ahead, tuple(lines))
    result.write()
    return result


def _target(reading: LogReading, path: Path) -> Table:
    """The target's table under a reading."""
    return ingest(with_cycle(reading.cycle), path, rule=reading.rule, period=reading.period)


def _windows(config: RunConfig, period: float) -> RunConfig:
    """The configuration whose windows last as long, and look as far ahead, as those of one second."""
    horizons = [round(time / period) for time in AHEAD_S if (time / period).is_integer()]
    return override(config, {"model.context": round(CONTEXT_S / period), "model.horizons": horizons})


def _lines(
    reading: str, side: str, scored: str, results: Sequence[Result], steps: Sequence[str], reference: dict[str, float]
) -> list[SensitivityLine]:
    """The models on one set of windows, beside their shares under the reference; diverged ones have no line."""
    by_model: dict[str, list[dict[str, Any]]] = {}
    for result in results:
        if result.status == "finished":
            by_model.setdefault(result.model, []).append(result.scores[scored])

    def over_steps(scores: dict[str, Any]) -> float:
        return math.sqrt(fmean(scores["rmse_by_horizon"][step] ** 2 for step in steps))

    errors = {model: fmean(map(over_steps, seeds)) for model, seeds in by_model.items()}
    if PERSISTENCE not in errors:
        raise ConfigError(f"Persistence has no number under '{reading}', so nothing can be compared with it.")
    shares = {model: error / errors[PERSISTENCE] for model, error in errors.items()}
    return [
        SensitivityLine(
            reading, side, model, len(seeds), int(seeds[0]["windows"]), errors[model], shares[model],
            shares[model] - reference[model] if model in reference else None,
        )
        for model, seeds in by_model.items()
    ]  # fmt: skip


def _signed(change: float | None) -> str:
    return "" if change is None else f" ({change:+.3f})"
