"""Kill a search again and again at random moments, and see that no run is lost, none doubled, and no number changed.

    python benchmarks/kill_search.py --kills 100     some twenty minutes on two free cores

The tests kill a search twenty times at exact calls; this strikes anywhere, with runs in processes of their own.
"""

import argparse
import multiprocessing
import random
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

from crossfeed.jobs import LocalEngine
from crossfeed.logs.log_formats import log_format_named
from crossfeed.logs.pipeline import ingest
from crossfeed.progress import be_quiet
from crossfeed.sim.simulate import simulate_pair
from crossfeed.study.study import Study

SETTINGS: dict[str, Any] = {
    "model.context": 16,
    "model.width": 16,
    "model.heads": 2,
    "model.members": 1,
    "data.stride": 2,
    "training.batch_size": 16,
    "training.steps_per_epoch": 8,
    "training.validation_windows": 64,
}
CANDIDATES = ("preset", "one_mover")
# A search needs some seconds to start its first run; a kill comes between the start and well into the work.
LONGEST_LIFE = 20.0


def begin(folder: Path, source: Path, epochs: int) -> Study:
    """Two candidates on the source alone, with so many epochs that work is left for the kills."""
    stages = {"training.finetune_epochs": epochs, "training.patience": epochs}
    study = Study.init(folder, [source], size="tiny", settings=SETTINGS | stages)
    study.plan(study.candidates(CANDIDATES), seeds=1)
    return study


def numbers(study: Study) -> dict[str, Any]:
    """What a search found, without the hashes of files that hold wall-clock times."""
    return {run.name: {**run.outcome, "artefacts": None} for run in study.store.runs()}


def search(folder: Path) -> None:
    be_quiet()
    Study(folder).search(LocalEngine(jobs=1, device="cpu"))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--kills", type=int, default=100)
    options.add_argument("--seed", type=int, default=0)
    chosen = options.parse_args()
    be_quiet()
    folder, moments, struck = Path(tempfile.mkdtemp()), random.Random(chosen.seed), 0
    try:
        simulate_pair(folder / "logs", "demo")
        ingest(log_format_named("thws"), folder / "logs" / "thws").write(folder / "source.parquet")
        epochs = max(4, chosen.kills // 2)
        calm, study = (begin(folder / name, folder / "source.parquet", epochs) for name in ("calm", "killed"))
        search(calm.store.folder)
        began = time.perf_counter()
        while struck < chosen.kills:
            process = multiprocessing.get_context("spawn").Process(target=search, args=(study.store.folder,))
            process.start()
            process.join(moments.uniform(0.0, LONGEST_LIFE))
            if process.exitcode is not None:
                break
            process.kill()
            process.join()
            assert process.exitcode == -signal.SIGKILL
            struck += 1
        search(study.store.folder)
        finished = [entry.content["name"] for entry in study.ledger() if entry.kind == "run"]
        assert sorted(finished) == sorted(numbers(calm)), "a run was lost or recorded twice"
        assert numbers(study) == numbers(calm), "a number changed"
        assert study.verify().problems == ()
        print(f"{struck} kills in {time.perf_counter() - began:.0f} s: {len(finished)} runs, each once, same numbers.")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
