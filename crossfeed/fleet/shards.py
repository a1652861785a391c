"""A fleet on disk: a table for every sixteen machines, each written whole; one that is whole is never made again."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path

from crossfeed.claim import claim, read_claim
from crossfeed.errors import ConfigError, CrossfeedError
from crossfeed.extras import need
from crossfeed.fleet.draw import NEIGHBOURS
from crossfeed.fleet.generate import VERSION, draw_table
from crossfeed.fleet.schema import fleet_schema
from crossfeed.ingest.table import Table, manifest_path
from crossfeed.processes import in_processes
from crossfeed.progress import progress

CLAIM = "fleet.json"
_MOST = 100_000  # machines


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
    made: bool  # now, not found


def generate(
    folder: Path, plan: FleetPlan, jobs: int = 1, engine: str = "local", address: str | None = None
) -> list[ShardSummary]:
    """Write the shards that are missing in a folder, on so many cores or on a Ray cluster."""
    if jobs < 1:
        raise ConfigError(f"{jobs} jobs cannot do anything.", expected="at least one")
    if engine not in _ENGINES:
        raise ConfigError(f"There is no engine '{engine}'.", expected="local or ray")
    claim(folder, CLAIM, plan.identity(), "a fleet")
    found = {shard: _found(folder, plan, shard) for shard in range(plan.shards)}
    finished = [summary for summary in found.values() if summary is not None]
    missing = [shard for shard, summary in found.items() if summary is None]
    with progress("Generating the fleet", total=plan.machines) as task:
        task.advance(sum(summary.machines for summary in finished))
        for summary in _ENGINES[engine](folder, plan, missing, jobs, address):
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


def _found(folder: Path, plan: FleetPlan, shard: int) -> ShardSummary | None:
    """A shard that is there already, whole and with its manifest, which is written last; a damaged one is none."""
    path = _path(folder, shard)
    if not (path.is_file() and manifest_path(path).is_file()):
        return None
    try:
        table = Table.read(path)
    except CrossfeedError:
        return None
    return ShardSummary(path, len(plan.numbers(shard)), len(table), table.period, made=False)


_Shards = Iterator[ShardSummary]


def _on_this_machine(folder: Path, plan: FleetPlan, missing: Sequence[int], jobs: int, _: str | None) -> _Shards:
    tasks = [(folder, plan, shard) for shard in missing]
    if jobs == 1 or len(tasks) < 2:
        return starmap(write_shard, tasks)
    return in_processes(write_shard, tasks, min(jobs, len(tasks)))


def _on_ray(folder: Path, plan: FleetPlan, missing: Sequence[int], jobs: int, address: str | None) -> _Shards:
    """Shards on a Ray cluster; the folder must be on storage that every node sees."""
    ray = need("ray", "The engine 'ray'", "ray")
    if not ray.is_initialized():
        ray.init(address=address, log_to_driver=False, configure_logging=False)
    remote = ray.remote(num_cpus=1, max_retries=2)(write_shard)
    left = list(reversed(missing))
    waiting: dict[object, int] = {}
    while left or waiting:
        while left and len(waiting) < jobs:
            shard = left.pop()
            waiting[remote.remote(folder.resolve(), plan, shard)] = shard
        (reference,), _ = ray.wait(list(waiting), num_returns=1)
        shard = waiting.pop(reference)
        try:
            yield ray.get(reference)
        except ray.exceptions.RayError as error:
            raise CrossfeedError(f"Shard {shard} failed on the cluster: {error}") from error


_Engine = Callable[[Path, FleetPlan, Sequence[int], int, str | None], _Shards]
_ENGINES: dict[str, _Engine] = {"local": _on_this_machine, "ray": _on_ray}
