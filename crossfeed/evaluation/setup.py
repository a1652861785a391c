"""What a table is to a model: the side to be judged on, the common space, and floors with or without a spread."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from crossfeed.errors import ConfigError, TableError
from crossfeed.evaluation.evaluate import EvaluationSet
from crossfeed.evaluation.forecaster import Floor
from crossfeed.evaluation.forecaster import floors as floors_without_spread
from crossfeed.evaluation.opened_model import OpenedModel
from crossfeed.evaluation.records import Unit
from crossfeed.evaluation.source import SourceData, foreign_set
from crossfeed.ingest.align import align
from crossfeed.ingest.table import Table
from crossfeed.model.world_model import WorldModel
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.split import Part

Side = Literal["auto", "train", "validation", "test", "all"]


@dataclass(frozen=True)
class EvaluationSetup:
    """The windows to be judged on, the floors beside the model, and which side of the table it is."""

    data: EvaluationSet
    floors: list[Floor]
    part: str


def set_up(
    opened: OpenedModel, table: Table, part: Side = "auto", sources: Sequence[Table] = (), unit: Unit | None = None
) -> EvaluationSetup:
    """Prepare the windows: the test side of a table the model was trained on, all of any other.

    `sources` are tables the model was trained on; together with an own `table` they give space and floors.
    """
    model = opened.model
    opened.check_rows(table.period, f"The table of {' and '.join(table.machines())}")
    own = opened.trained_on(table)
    if not own and part not in ("auto", "all"):
        raise ConfigError(
            f"The model was not trained on this table, so it has no {part} side.",
            expected="--part all, or a table the model was trained on",
        )
    strange = [" and ".join(source.machines()) for source in sources if not opened.trained_on(source)]
    if strange:
        raise TableError(
            f"The model was not trained on the source table of {', '.join(strange)}.",
            expected="the very tables given to crossfeed train (their fingerprints are in the model file)",
        )
    order = list(opened.provenance.get("tables", ()))
    # A run that went on from a model of many machines read its tables in the order of that model's commands.
    known = {given.fingerprint(): align(given, model.schema) for given in [*([table] if own else []), *sources]}
    tables = [known[fingerprint] for fingerprint in order if fingerprint in known]
    rebuilt = SourceData.of(tables, opened.config.data) if tables else None
    # Sensors that the model took in later are judged in the frame they were taken in by.
    space = _space(model, rebuilt, len(order)).completed_by(model.normaliser)
    floors = rebuilt.floors(model) if rebuilt is not None else floors_without_spread(model.horizons)
    if rebuilt is None or not own or part == "all":
        return EvaluationSetup(foreign_set(model, [table], space, unit or ("session" if own else "run")), floors, "all")
    side: Part = "test" if part == "auto" else part
    windows = SourceData.of([known[table.fingerprint()]], opened.config.data).windows(model, side)
    data = EvaluationSet(windows, model.schema, model.normaliser, space, unit or "session")
    return EvaluationSetup(data, floors, side)


def _space(model: WorldModel, source: SourceData | None, tables: int) -> Normaliser:
    """The common evaluation space: the model's own normaliser if it is a z-score, else that of all source rows.

    A model of many machines is judged in the frame of the machine it has met.
    """
    if model.normaliser.method == "zscore" or (model.normaliser.method == "frame" and source is None):
        return model.normaliser
    if source is None or len(source.tables) != tables:
        raise ConfigError(
            "The model uses a robust normaliser, and the z-score of its source rows is not at hand.",
            expected=f"all {tables} tables the model was trained on",
            remedy="Add --source SOURCE.parquet for each of them.",
        )
    return source.space
