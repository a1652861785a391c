"""From native values to schema values: refuse what cannot be true, then apply the factor derived from the two units."""

import polars as pl

from crossfeed.machines.declaration import LogFormat

# No machine measures a number like this in any unit; sums of such numbers would be infinite.
BEYOND = 1e15


def to_schema_units(frame: pl.DataFrame, log_format: LogFormat) -> tuple[pl.DataFrame, dict[str, int]]:
    """Convert every channel; impossible values become null and are counted by reason."""
    repairs: dict[str, int] = {}
    converted: list[pl.Expr] = []
    flags: list[pl.Expr] = []
    for column in log_format.columns:
        value = pl.col(column.channel)
        infinite = value.is_infinite()
        flags.append(infinite.sum().alias(f"{column.channel}: infinite"))
        good = value.is_finite() & (value.abs() < BEYOND)
        flags.append((value.is_finite() & ~good).sum().alias(f"{column.channel}: {BEYOND:g} or more, no measurement"))
        if column.valid is not None:
            inside = value.is_between(*column.valid)
            low, high = column.valid
            flags.append((good & ~inside).sum().alias(f"{column.channel}: outside {low:g} to {high:g} {column.unit}"))
            good &= inside
        if column.absent_if_zero:
            measured = (value != 0.0).any()
            flags.append((good & ~measured).sum().alias(f"{column.channel}: zero throughout a run, not measured"))
            good &= measured
        scale, offset = log_format.conversion(column)
        converted.append(pl.when(good).then(value * scale + offset).alias(column.channel))
    counted = frame.lazy().select(flags).collect()
    for what in counted.columns:
        count = int(counted[what][0] or 0)
        if count:
            repairs[what] = count
    return frame.with_columns(converted), repairs
