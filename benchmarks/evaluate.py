"""What a full evaluation costs on a CPU, and what sharing the encoded context between plans saves.

    python benchmarks/evaluate.py            prints the table
    python benchmarks/evaluate.py --write    also rewrites benchmarks/evaluate.md

The weights are random, which changes no cost; the rows are synthetic. Processor seconds of one thread are counted, so
other work on the machine does not matter much; two free cores need about half as long.
"""

import argparse
import platform
import time
from collections.abc import Callable
from pathlib import Path

import torch
from measuring import identity_normaliser, processor, sessions

from crossfeed.evaluation.command_use import CONDITIONS, command_use, false_plan
from crossfeed.evaluation.conformal import ForecastRecorder, conformal_coverage
from crossfeed.evaluation.forecaster import naive_baselines
from crossfeed.evaluation.judge import COMMAND_WINDOWS, JudgedModel, judge
from crossfeed.evaluation.metrics import EvaluationSet, score_windows
from crossfeed.evaluation.opened_model import WorldModelForecaster
from crossfeed.evaluation.robustness import Probe, channel_curve, robustness, slower_logging
from crossfeed.model.presets import crossfeed
from crossfeed.model.world_model import WorldModel
from crossfeed.progress import be_quiet
from crossfeed.schema import canonical
from crossfeed.windows.windows import WindowSet

SCHEMA, NORMALISER = canonical(), identity_normaliser()


def judged(count: int, rows: int, shown: int) -> EvaluationSet:
    """Synthetic sessions to be judged on."""
    windows = WindowSet.build(sessions(count, rows, shown), None, NORMALISER)
    return EvaluationSet(windows, SCHEMA, NORMALISER, NORMALISER)


def seconds(action: Callable[[], object]) -> float:
    """Processor seconds of one call."""
    start = time.process_time()
    action()
    return time.process_time() - start


def costs(size: str, data: EvaluationSet) -> list[float]:
    """One row of the table."""
    torch.manual_seed(0)
    model = WorldModel.build(crossfeed(size).model, SCHEMA, NORMALISER)  # type: ignore[arg-type]
    forecaster = WorldModelForecaster(model).reading(data.windows)
    record, index = ForecastRecorder(data.windows), data.sample(COMMAND_WINDOWS)
    score_windows(forecaster, data, data.sample(64))
    first = seconds(lambda: score_windows(forecaster, data, on_forecast=[record]))
    scores = score_windows(forecaster, data, data.sample(64))
    plans = seconds(lambda: command_use(forecaster, data, index))
    naive = seconds(lambda: score_windows(forecaster, data, index, false_plan("shuffled", data, index, 0)))
    probe = Probe.of(forecaster, data)
    probes = seconds(lambda: (robustness(probe), slower_logging(probe), channel_curve(probe)))
    layers = seconds(lambda: conformal_coverage(record, scores, data))
    whole = seconds(lambda: judge([JudgedModel(forecaster, data)], naive_baselines(model.horizons), 1.0, "full"))
    return [first, plans, naive * (1 + len(CONDITIONS)), probes, layers, whole]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--write", action="store_true", help="rewrite benchmarks/evaluate.md")
    options.add_argument("--sizes", nargs="+", default=["tiny", "compact"])
    chosen = options.parse_args()
    be_quiet()
    torch.set_num_threads(1)
    sets = {"source test, demo scale": judged(3, 358, 17), "target, full scale": judged(13, 236, 10)}
    header = (
        "model", "windows", "all windows once", "command use", "the same, a pass per plan", "corruptions and curves",
        "conformal", "whole report",
    )  # fmt: skip
    lines = [" | ".join(header), " | ".join("---" for _ in header)]
    for size in chosen.sizes:
        for name, data in sets.items():
            cells = " | ".join(f"{value:.1f}" for value in costs(size, data))
            lines.append(f"{size} | {len(data.windows):,} ({name}) | {cells}")
            print(lines[-1], flush=True)
    text = "\n".join(f"| {line} |" for line in lines)
    note = (
        f"One thread of {processor()}; torch {torch.__version__.split('+')[0]}, Python "
        f"{platform.python_version()}, `python benchmarks/evaluate.py --write`."
    )
    if chosen.write:
        content = f"# A full evaluation, processor seconds\n\n{text}\n\n{note}\n"
        Path(__file__).with_suffix(".md").write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
