"""Evaluate models on tables: one model on any table, or the models of a study on a target nobody trained on."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from crossfeed.errors import ConfigError
from crossfeed.evaluation.judge import JudgedModel, Suite, judge
from crossfeed.evaluation.opened_model import OpenedModel
from crossfeed.evaluation.records import Unit
from crossfeed.evaluation.result import Evaluation, ModelFacts, TableFacts
from crossfeed.evaluation.setup import Side, set_up
from crossfeed.evaluation.source import SourceData, foreign_set, sensors_not_read
from crossfeed.evaluation.world_model import WorldModelForecaster
from crossfeed.ingest.align import idle_commands
from crossfeed.ingest.table import Table
from crossfeed.json_file import plain
from crossfeed.model.world_model import WorldModel
from crossfeed.schema import canonical
from crossfeed.training.run_config import RunConfig
from crossfeed.windows.normalise import Normaliser


def evaluate_opened(
    opened: OpenedModel,
    table: Table,
    *,
    part: Side = "auto",
    sources: Sequence[Table] = (),
    suite: Suite = "standard",
    unit: Unit | None = None,
    machine: str | None = None,
    new_sensors: bool = False,
    file: str = "",
) -> Evaluation:
    """Evaluate a model on a table in memory; `sources` are tables it was trained on, they give the floors a spread.

    `machine` names a simulated machine on which changed plans are rolled out and compared with the forecasts.
    `new_sensors` reads and judges sensors of the table that the model never met as well.
    """
    opened = opened.meets(table)
    if new_sensors:
        opened = opened.takes_in(table)
        if left := sensors_not_read(opened.model, table):
            raise ConfigError(
                f"The model cannot read {', '.join(left)}: it knows its sensors by name, or the beginnings of the runs "
                "do not show them.",
                expected="a model that began with fleet, and sensors that show something in the first rows",
                remedy="Leave --new-sensors away, or train with --pretrained fleet.",
            )
    setup = set_up(opened, table, part, sources, unit)
    forecaster = opened.forecaster.reading(setup.data.windows)
    return replace(
        judge([JudgedModel(forecaster, setup.data)], setup.floors, table.period, suite),
        model=ModelFacts(opened.path.name, forecaster.name, opened.sha256),
        table=TableFacts(file, table.fingerprint(), tuple(table.machines())),
        part=setup.part,
        trained_on_this_table=opened.trained_on(table),
        absent_commands=idle_commands(table, opened.model.schema),
        sensors_not_read=sensors_not_read(opened.model, table),
        counterfactual=None if machine is None else _counterfactual(forecaster, machine, setup.data.space),
    )


def evaluate_target(
    models: Mapping[str, tuple[WorldModel, RunConfig]], sources: Sequence[Table], targets: Sequence[Table]
) -> Evaluation:
    """Score every model of a study once, on machines nobody trained on; the floors are fitted on the source."""
    if not models:
        raise ConfigError("No model was given to evaluate on the target.")
    first, config = next(iter(models.values()))
    source = SourceData.of(sources, config.data)
    judged = []
    for name, (model, _) in models.items():
        data = foreign_set(model, targets, source.space)
        judged.append(JudgedModel(WorldModelForecaster(model, name).reading(data.windows), data))
    return judge(judged, source.floors(first), targets[0].period)


def _counterfactual(forecaster: WorldModelForecaster, machine: str, space: Normaliser) -> dict[str, Any]:
    """What the forecasts make of changed plans, judged by the simulator."""
    # The simulator is heavy, and few evaluations ask it.
    from crossfeed.evaluation.counterfactual import counterfactual_error, counterfactual_tables
    from crossfeed.machines.simulated.catalogue import machine_named
    from crossfeed.machines.simulated.rollout import SimulatedMachine

    model = forecaster.model
    if model.schema.fingerprint != canonical().fingerprint:
        raise ConfigError(
            "Simulated machines speak the canonical schema, the model another one.",
            expected="a model of the canonical channels",
            remedy="Leave --machine away.",
        )
    simulated = SimulatedMachine(machine_named(machine))
    tables = counterfactual_tables(simulated, model.config.context, model.horizons[-1])
    found = counterfactual_error(
        forecaster, tables, model.normaliser, space, model.config.context, model.horizons, model.device
    )
    return {"machine": machine, **plain(found)}
