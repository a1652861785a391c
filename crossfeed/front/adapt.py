"""Teach a model a new machine from a few samples of it."""

from collections.abc import Sequence
from pathlib import Path

from crossfeed.adaptation.model_adaptation import Adaptation, adapt_model, fewshot_or_online
from crossfeed.adaptation.parameters import Mode
from crossfeed.errors import ConfigError, TableError
from crossfeed.front.fitted_model import FittedModel, as_model
from crossfeed.ingest.align import as_table
from crossfeed.ingest.table import Table


def adapt(
    model: FittedModel | Path | str,
    table: Table | Path | str,
    samples: float | Sequence[float] = 0.2,
    *,
    online: bool = False,
    mode: Mode = "predictor",
    steps: int | None = None,
    rate: float = 1e-4,
    seed: int = 0,
    source: Table | Path | str | None = None,
    out: Path | str | None = None,
    device: str = "auto",
) -> FittedModel:
    """The model after learning from the beginning of each run of another machine, judged on the rows that follow.

    `samples`: the leading share of each run to learn from (0.2), or about that many rows in all (500); of several
    shares each is judged and the largest is kept. `online` learns row by row while the machine runs instead. The
    result is a model again; `adaptation` says what was gained. With `out`, models and adaptation.json are kept there.

    Examples:
        >>> import crossfeed as cf
        >>> adapted = cf.adapt("run", "b.parquet", samples=0.3, steps=1)
        >>> adapted.machines
        ('mill_a', 'mill_b')
    """
    fitted = as_model(model, device)
    found = adaptations(
        fitted, table, samples, online=online, mode=mode, steps=steps, rate=rate, seed=seed, source=source, out=out
    )
    if len(found.models) > 1:
        raise ConfigError(
            f"The table holds {len(found.models)} machines, each of which got a model of its own.",
            expected="a table of one machine",
            remedy="Adapt to each machine apart: table.select(its groups). With out, all models lie in that folder.",
        )
    if not found.models and not online and steps != 0:
        raise TableError(
            "The beginnings of the runs hold no complete window to learn from.",
            expected=f"at least {fitted.context + fitted.horizons[-1]} rows of a run to learn from",
            remedy="Give more samples, or longer runs.",
        )
    opened = next(iter(found.models.values()), fitted.opened)
    return FittedModel(opened, fitted.summary, found.result)


def adaptations(
    fitted: FittedModel, table: Table | Path | str, samples: float | Sequence[float], *, online: bool, mode: Mode,
    steps: int | None, rate: float, seed: int, source: Table | Path | str | None, out: Path | str | None,
    protocol: str = "crossfeed",
) -> Adaptation:  # fmt: skip
    """All that `adapt` finds, with one model for each machine of the table where it learns online.

    `protocol` says how few-shot learns and what it is judged by.
    """
    read = as_table(table, fitted.schema)
    given = [samples] if isinstance(samples, int | float) else list(samples)
    shares = tuple(_share(sample, read) for sample in given)
    fewshot, streaming = fewshot_or_online(shares, online, mode, steps, rate, seed, protocol)
    return adapt_model(
        fitted.opened, read, fewshot=fewshot, streaming=streaming,
        sources=[] if source is None else [as_table(source, fitted.schema, "source")],
        file=Path(table).name if isinstance(table, Path | str) else None, out=out,
    )  # fmt: skip


def _share(sample: float, table: Table) -> float:
    """A share of every run: as given, or as many rows as were asked for."""
    if 0.0 <= sample < 1.0:
        return float(sample)
    if sample >= len(table) or sample != int(sample):
        raise ConfigError(
            f"{sample:g} samples of a table of {len(table):,} rows cannot be learned from.",
            expected="a share below 1, or a whole number of rows that leaves some to judge by",
        )
    return sample / len(table)
