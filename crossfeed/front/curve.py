"""How good is each model after so many minutes of a machine's own logs?"""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal

from crossfeed.front.inputs import as_table
from crossfeed.ingest.table import Table
from crossfeed.schema import canonical

if TYPE_CHECKING:
    from crossfeed.learning_curve.result import LearningCurve


def curve(
    table: Table | Path | str,
    models: str | Sequence[str] = "fleet,crossfeed,tide,trees,persistence",
    minutes: str | Sequence[float | str] = "0,1,3,10,30,60,all",
    out: Path | str | None = None,
    *,
    size: Literal["tiny", "compact", "base"] = "compact",
    budget: str = "quick",
    seeds: int = 1,
    jobs: int = 1,
    fleet: Path | str = "fleet",
    split_by: Literal["session", "program", "run", "day"] = "session",
    windows: int = 4000,
    device: str = "auto",
) -> "LearningCurve":
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
    from crossfeed.learning_curve.curve import learning_curve

    read = as_table(table, canonical())
    with TemporaryDirectory(prefix="crossfeed-") as temporary:
        folder = Path(temporary) / "curve" if out is None else Path(out)
        return learning_curve(
            read, folder, models=models, minutes=minutes, size=size, budget=budget, seeds=seeds, jobs=jobs, fleet=fleet,
            split_by=split_by, windows=windows, device=device,
        )  # fmt: skip
