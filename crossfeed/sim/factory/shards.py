"""A fleet on disk, a table for every sixteen machines, each written whole and made once; and learning from it."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from crossfeed.configuration import override
from crossfeed.errors import ConfigError, CrossfeedError
from crossfeed.files import claim, read_claim
from crossfeed.jobs import InProcess, JobSpec, make_engine
from crossfeed.logs.table import Table, manifest_path
from crossfeed.model.config import Size
from crossfeed.progress import progress
from crossfeed.sim.factory.draw import NEIGHBOURS
from crossfeed.sim.factory.generate import VERSION, draw_table
from crossfeed.sim.factory.motors import fleet_schema
from crossfeed.training.run import RunResult, train
from crossfeed.training.run_config import RunConfig, preset

CLAIM = "fleet.json"
_MOST = 100_000  # machines
STEPS = 36_000
STEPS_PER_EPOCH = 2000
# Frames are estimates: gains and commands vary as much as a short history may be wrong about them.
SETTINGS = {
    "model.identity": "described",
    "machines.gain": 0.6,
    "machines.level": 0.1,
    "machines.noise": 0.02,
    "machines.commands": 0.3,
    "data.normaliser": "frame",
    "data.split_by": "machine",
    "data.train_fraction": 0.8,
    "data.validation_fraction": 0.1,
    "data.stride": 4,
    "training.batch_size": 256,
    "training.average_decay": 0.999,
    "training.validation_windows": 4096,
    "training.patience": 1000,
    "training.keep": "machines",
    "training.acceleration": "compile",
    # Its people turn knobs, so what a feed does is in its logs.
    "plans.share": 0.0,
}


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """Which fleet a folder holds; the same plan gives the same bytes."""

    machines: int
    minutes: float
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.machines <= _MOST:
            raise ConfigError(f"A fleet of {self.machines} machines.", expected=f"1 to {_MOST:,} machines")
        if not 2 <= self.minutes <= 24 * 60:
            raise ConfigError(f"Logs of {self.minutes:g} minutes.", expected="2 minutes to a day (1440)")
        if self.seed < 0:
            raise ConfigError(f"The seed {self.seed}.", expected="a whole number from 0")

    @property
    def shards(self) -> int:
        return -(-self.machines // NEIGHBOURS)

    def numbers(self, shard: int) -> range:
        """The machines of a shard."""
        return range(shard * NEIGHBOURS, min((shard + 1) * NEIGHBOURS, self.machines))

    def identity(self) -> dict[str, object]:
        """What the folder's claim says."""
        return {
            "generator": VERSION,
            "schema": fleet_schema().fingerprint,
            "seed": self.seed,
            "machines": self.machines,
            "minutes": self.minutes,
        }


@dataclass(frozen=True, slots=True)
class ShardSummary:
    """One finished shard."""

    path: Path
    machines: int
    rows: int
    period: float
    made: bool  # now; else it was there


def generate(
    folder: Path, plan: FleetPlan, jobs: int = 1, engine: str = "local", address: str | None = None
) -> list[ShardSummary]:
    """Write the shards that are missing in a folder, on so many cores or on a Ray cluster."""
    if jobs < 1:
        raise ConfigError(f"{jobs} jobs cannot do anything.", expected="at least one")
    where = make_engine(engine, jobs, address)
    claim(folder, CLAIM, plan.identity(), "a fleet")
    present = {shard: _present(folder, plan, shard) for shard in range(plan.shards)}
    finished = [summary for summary in present.values() if summary is not None]
    missing = [shard for shard, summary in present.items() if summary is None]
    if engine == "local" and min(jobs, len(missing)) < 2:
        where = InProcess()
    here, logs = folder.resolve(), folder / "logs"
    waiting = iter(
        JobSpec(f"shard {shard}", write_shard, (here, plan, shard), logs / f"shard_{shard:05d}.txt")
        for shard in missing
    )
    with progress("Generating the fleet", total=plan.machines) as task:
        task.advance(sum(summary.machines for summary in finished))
        for _, summary in where.run(lambda: next(waiting, None)):
            finished.append(summary)
            task.advance(summary.machines, note=f"{sum(shard.rows for shard in finished):,} rows")
    return sorted(finished, key=lambda summary: summary.path.name)


def shard_paths(folder: Path | str) -> list[Path]:
    """The finished shards of a fleet, in order."""
    folder = Path(folder)
    if not (folder / CLAIM).is_file():
        raise ConfigError(
            f"{folder} holds no fleet.",
            expected="a folder that `crossfeed fleet generate` wrote",
            remedy="Check the path.",
        )
    read_claim(folder / CLAIM)
    paths = [path for path in sorted(folder.glob("shard_*.parquet")) if manifest_path(path).is_file()]
    if not paths:
        raise ConfigError(
            f"The fleet in {folder} has no finished shard.", remedy="Run `crossfeed fleet generate` again."
        )
    return paths


def fleet_tables(folder: Path | str, period: float) -> Iterator[Table]:
    """The finished tables of a fleet that have a row every so many seconds."""
    paths = shard_paths(folder)
    with progress("Looking at the fleet", total=len(paths)) as task:
        for path in paths:
            if (table := Table.read(path)).period == period:
                yield table
            task.advance()


def write_shard(folder: Path, plan: FleetPlan, shard: int) -> ShardSummary:
    """Simulate the machines of a shard and write their table."""
    numbers = plan.numbers(shard)
    (table,) = draw_table(plan.seed, numbers, plan.minutes)
    path = _path(folder, shard)
    table.write(path)
    return ShardSummary(path, len(numbers), len(table), table.period, made=True)


def _path(folder: Path, shard: int) -> Path:
    return folder / f"shard_{shard:05d}.parquet"


def _present(folder: Path, plan: FleetPlan, shard: int) -> ShardSummary | None:
    """A shard that is there already, whole and with its manifest, which is written last; a damaged one is none."""
    path = _path(folder, shard)
    if not (path.is_file() and manifest_path(path).is_file()):
        return None
    try:
        table = Table.read(path)
    except CrossfeedError:
        return None
    return ShardSummary(path, len(plan.numbers(shard)), len(table), table.period, made=False)


def fleet_config(size: Size = "compact", steps: int = STEPS, seed: int = 0) -> RunConfig:
    """The complete configuration of the shipped model; other sizes and lengths for other purposes."""
    if steps < 1:
        raise ConfigError(f"{steps} steps teach nothing.", expected="at least one step")
    epochs = max(1, round(steps / STEPS_PER_EPOCH))
    length = {"training.steps_per_epoch": ceil(steps / epochs), "training.finetune_epochs": epochs}
    return override(preset("crossfeed", size), SETTINGS | length | {"training.seed": seed}, "The fleet's settings")


def train_fleet(
    folder: Path, out: Path, config: RunConfig, *, device: str = "auto", resume: bool = False,
    pretrained: Path | None = None,
) -> RunResult:  # fmt: skip
    """Train on a fleet; `resume` goes on with a run that was stopped, `pretrained` with another fleet's model."""
    return train(
        [Table.read(path) for path in shard_paths(folder)],
        config,
        out,
        device=device,
        resume=resume,
        pretrained=pretrained,
    )
