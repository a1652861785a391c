"""A row stands for a stretch of time: what meets in one model must have rows of the same length."""

import math

from crossfeed.errors import TableError


def check_row_period(found: float, expected: float, whose: str, of: str) -> None:
    """Refuse rows (of `whose`) that are longer or shorter than those `of` something else."""
    if math.isclose(found, expected, rel_tol=1e-6):
        return
    raise TableError(
        f"{whose} has a row every {found:g} s, {of} every {expected:g} s.",
        expected="rows of the same length, because a model counts in rows",
        remedy=f"Ingest the logs again with --period {expected:g}.",
    )
