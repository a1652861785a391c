"""The learning curve: everybody on the same test sessions after 0, 1, 3, ... minutes of the machine's own logs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from crossfeed.errors import ConfigError, TableError
from crossfeed.evaluation.baselines.budget import Size
from crossfeed.evaluation.baselines.contenders import Setting, contender
from crossfeed.evaluation.baselines.results import Result, over_seeds
from crossfeed.evaluation.bench.fleet import open_fleet
from crossfeed.evaluation.bench.own_logs import FIRST_ROWS, OwnLogs, sensors_left_out
from crossfeed.evaluation.bench.result import (
    ALL,
    METRICS,
    MINUTES,
    Crossing,
    CurvePoint,
    LearningCurve,
    crossing,
    in_words,
    parse_minutes,
    spoken,
)
from crossfeed.evaluation.bench.runner import TEST, CurveRun, CurveRunner, CurveSetting, do_curve_runs, effort
from crossfeed.files import claim
from crossfeed.logs.align import as_table
from crossfeed.logs.table import Table
from crossfeed.model.model_file import FLEET
from crossfeed.model.new_machine import readable_schema
from crossfeed.model.world_model import choose_device
from crossfeed.schema import canonical
from crossfeed.show.tables import plural
from crossfeed.training.run_config import preset
from crossfeed.windows.split import By

MODELS = "fleet,crossfeed,tide,trees,persistence"


def curve(
    table: Table | Path | str, models: str | Sequence[str] = MODELS, minutes: str | Sequence[float | str] = MINUTES,
    out: Path | str | None = None, *, size: Size = "compact", budget: str = "quick", seeds: int = 1, jobs: int = 1,
    fleet: Path | str = FLEET, split_by: By = "session", windows: int = 4000, device: str = "auto",
) -> LearningCurve:  # fmt: skip
    """Errors against minutes of own logs, and from how many minutes on each model is better than the fleet.

    Some sessions of the table are kept to judge by; the first `minutes` of the others are learned from. `models`:
    `fleet` and any name of `crossfeed compare`. The result prints, and has `plot()`, `to_pandas()` and `crossings`.
    With `out` everything is kept there, and what it already holds is not run again.

    Examples:
        >>> import crossfeed as cf
        >>> found = cf.curve("a.parquet", models="ridge,persistence", minutes=[0, 5], size="tiny")
        >>> found.to_pandas()[["model", "minutes"]].values.tolist()
        [['ridge', 0.0], ['persistence', 0.0], ['ridge', 5.0], ['persistence', 5.0]]
        >>> found.point("ridge", "0").remark
        'too little to learn from: 0 rows do not give three pieces with windows of 48 rows'
    """
    if out is None:
        with TemporaryDirectory(prefix="crossfeed-") as temporary:
            return curve(
                table, models, minutes, Path(temporary) / "curve", size=size, budget=budget, seeds=seeds, jobs=jobs,
                fleet=fleet, split_by=split_by, windows=windows, device=device,
            )  # fmt: skip
    table = as_table(table, canonical())
    if min(seeds, jobs, windows) < 1:
        raise ConfigError(
            f"{seeds} seeds, {jobs} jobs and {windows} windows were asked for.", expected="at least one of each"
        )
    asked, names = parse_minutes(minutes), _names(models)
    device = str(choose_device(device))
    any_effort = Setting(effort(budget, size, 1000), size, device, {})
    # Who cannot take part is said before anything is trained.
    seeds_of = {name: range(seeds) if name == FLEET else contender(name, any_effort).seeds(seeds) for name in names}
    setting, left_out = _set_up(
        table, names, size, budget, windows, fleet, device, split_by, Path(out)
    )  # fmt: skip
    runner = CurveRunner(setting)
    amounts, notes = _amounts(asked, setting.logs)
    identity = {
        "table": table.fingerprint(), "sensors": setting.logs.table.shown(), "size": size, "budget": budget,
        "split_by": split_by, "judged": {name: len(ends) for name, ends in runner.judged.ends.items()},
        "space": runner.judged.space.hash(), "context": runner.judged.context,
        "horizons": runner.judged.horizons,
    }  # fmt: skip
    claim(setting.folder, "setting.json", identity, "a learning curve")
    # Nothing is learned at 0 minutes, so chance plays no part there.
    plan = [(name, one, seed) for one in amounts for name in names for seed in (seeds_of[name] if one else (0,))]
    found = do_curve_runs(plan, runner, jobs)
    points = tuple(_point(name, one, amounts[one], found) for one in amounts for name in names)
    drawn = LearningCurve(
        machine=table.machines()[0], period=table.period, own_minutes=setting.logs.minutes,
        windows=len(runner.judged), sessions=len(runner.judged.ends), size=size, budget=budget,
        sensors=setting.logs.table.shown(), points=points, crossings=(),
        notes=(
            *_meaning(runner), *notes, *(f"Not judged: {name}, {why}." for name, why in left_out.items()),
        ),
    )  # fmt: skip
    drawn = replace(drawn, crossings=_crossings(drawn))
    drawn.write(setting.folder)
    return drawn


def _names(models: str | Sequence[str]) -> tuple[str, ...]:
    given = models.split(",") if isinstance(models, str) else models
    names = tuple(dict.fromkeys(name.strip() for name in given if name.strip()))
    if not names:
        raise ConfigError("No model was named.", expected=f"names separated by commas, such as {MODELS}")
    return names


def _set_up(
    table: Table, names: Sequence[str], size: Size, budget: str, windows: int, fleet: Path | str, device: str,
    split_by: By, folder: Path,
) -> tuple[CurveSetting, dict[str, str]]:  # fmt: skip
    """Windows as the fleet reads them, or else those of the preset; the sessions divided; sensors left out."""
    config = preset("crossfeed", size)
    data = config.data.model_copy(update={"split_by": split_by})
    logs = OwnLogs.of(table, data)
    opened = open_fleet(fleet, device) if FLEET in names else None
    changes: dict[str, object] = {}
    read_as_commands: dict[str, str] = {}
    if opened is not None:
        model = opened.model
        changes = {"context": model.config.context, "horizons": model.horizons}
        read = readable_schema(table.schema, model.schema).sensor_names
        read_as_commands = {
            name: "the fleet reads it as a command" for name in table.schema.sensor_names if name not in read
        }
    config = config.model_copy(update={"model": config.model.model_copy(update=changes), "data": data})
    left_out = sensors_left_out(logs, config.model.context + config.model.horizons[-1]) | read_as_commands
    shown = table.without(left_out)
    if not shown.present().any():
        raise TableError(
            "No sensor is left to judge by.",
            expected="a sensor that is measured from the beginning and moves",
            remedy="; ".join(f"{name}: {why}" for name, why in left_out.items()) + ".",
        )
    setting = CurveSetting(
        logs=replace(logs, table=shown), config=config, size=size, budget=budget, most_windows=windows,
        fleet=opened.path if opened else None, device=device, folder=folder,
    )  # fmt: skip
    return setting, left_out


def _amounts(asked: Sequence[float], logs: OwnLogs) -> tuple[dict[float, float], list[str]]:
    """The minutes that the own logs hold, each with its true length, and a remark on those that they do not."""
    known = {one: logs.minutes if one == ALL else one for one in asked if one == ALL or one <= logs.minutes}
    missing = [in_words(one) for one in asked if one not in known]
    if not known:
        raise TableError(
            f"The own logs hold {spoken(logs.minutes)} beside the sessions that are judged.",
            expected=f"at least the {missing[0]} minutes that were asked for",
            remedy="Ask for fewer minutes, or for all of them: --minutes 0,all",
        )
    told = f"The own logs hold {spoken(logs.minutes)} beside the judged sessions"
    return known, [f"{told}; {', '.join(missing)} could not be asked." if missing else f"{told}."]


def _point(name: str, asked: float, minutes: float, found: Mapping[CurveRun, Result]) -> CurvePoint:
    """One model's runs after so many minutes, together."""
    mine = [result for run, result in found.items() if run[:2] == (name, asked)]
    results = [result for result in mine if result.status != "not run"]
    reason = next((result.reason for result in mine if result.status == "not run"), "")
    row = over_seeds(name, results, (TEST,), reason)
    kept = sorted({str(one.details["kept"]) for one in results if "kept" in one.details})
    return CurvePoint(
        model=name, label=in_words(asked), minutes=minutes, seeds=row.seeds, seconds=row.seconds,
        mean={metric: row.mean.get(f"{TEST}.{metric}") for metric in (*METRICS, "command_use")},
        spread={metric: row.spread.get(f"{TEST}.{metric}") for metric in (*METRICS, "command_use")},
        kept=" or ".join(kept), remark=row.remark,
    )  # fmt: skip


def _crossings(curve: LearningCurve) -> tuple[Crossing, ...]:
    if FLEET not in curve.models:
        return ()
    errors: dict[str, list[tuple[float, float]]] = {model: [] for model in curve.models}
    for point in curve.points:
        if crps := point.mean["crps"]:
            errors[point.model].append((point.minutes, crps))
    fleet = errors.pop(FLEET)
    found = (crossing(model, fleet, own) for model, own in errors.items())
    return tuple(one for one in found if one is not None)


def _meaning(runner: CurveRunner) -> list[str]:
    """Without these sentences the numbers mean little."""
    judged, setting = runner.judged, runner.setting
    return [
        f"Everybody is judged on the same {plural(len(judged), 'window')} of {plural(len(judged.ends), 'session')} "
        "that nobody learns from, over all horizons, in standard deviations of all own logs.",
        f"The first minutes of the other sessions, in the order of time, are learned from; normalisers see them alone. "
        f"Size {setting.size}, budget {setting.budget}.",
        f"At 0 minutes the fleet knows the first {FIRST_ROWS} rows of each judged session, and naive baselines have "
        "the spread of their errors in them; windows that end inside these rows are judged for nobody.",
    ]
