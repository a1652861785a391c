"""Are the probabilities right? PIT, coverage against nominal, and both by regime."""

from collections.abc import Mapping
from typing import Any

from crossfeed.evaluation.records import Calibration
from crossfeed.reporting.artefacts import Artefacts
from crossfeed.reporting.blocks import Block, Figure, Note, ReportTable, Section, columns, section
from crossfeed.reporting.panels import INK, XY, Bars, Line

_COLOURS = {"idle": 0, "steady": 1, "start-up": 2, "stop": 3}


def sections(found: Artefacts) -> list[Section]:
    """Calibration on the target, or on the source while the target is sealed."""
    target = found.on_target()
    known, where = (target, "target") if target else (found.on_source(), "source")
    measured = known.evaluation.calibration.get(known.name) if known else None
    if known is None or measured is None:
        return []
    blocks: list[Block] = [Note(f"Reading of the histogram: {measured.reading}."), _figure(measured, where)]
    if measured.by_regime:
        blocks += [_by_regime(measured.by_regime), _table(measured)]
    conformal = (known.evaluation.conformal or {}).get(known.name) or _conformal(found)
    if conformal:
        blocks.append(_layers(conformal))
    lead = (
        "Do the stated probabilities come true? The histogram should be flat: a heap at both ends means too sure, a "
        "heap in the middle too cautious, one end biased. Coverage should lie on the diagonal, in every regime."
    )
    return section("calibration", "Calibration", lead, blocks)


def _conformal(found: Artefacts) -> Mapping[str, Any] | None:
    """Conformal layers are measured by the full suite of an evaluation, never in a sealed pass."""
    other = found.evaluation(own=False)
    return (other.conformal or {}).get(other.model.name) if other and other.model else None


def _pit(measured: Calibration, title: str, colour: int) -> XY:
    bins = len(measured.pit)
    edges = [position / bins for position in range(bins + 1)]
    heights = [None if share is None else share * bins for share in measured.pit]
    bars = (Bars("PIT", edges, heights, colour),)
    x_label, y_label = "predicted probability of a smaller value", "density (1 is right)"
    return XY(title, x_label, y_label, bars=bars, level=(1.0, "flat"))


def _coverage(measured: Calibration, name: str, colour: int) -> Line:
    levels = [float(level) for level in measured.coverage]
    return Line(name, levels, list(measured.coverage.values()), colour, "marked")


def _diagonal(measured: Calibration) -> Line:
    levels = [float(level) for level in measured.coverage]
    return Line("nominal", levels, levels, INK, "dashed")


def _figure(measured: Calibration, where: str) -> Figure:
    diagram = XY("Coverage, all regimes", "nominal", "observed", (_diagonal(measured), _coverage(measured, "model", 0)))
    caption = (
        f"Calibration on the {where}: where the observations fell in the predicted distributions (PIT), and how many "
        "lie inside the central intervals."
    )
    legend = (("model", 0, "line"), ("nominal", INK, "dashed"))
    return Figure("calibration", caption, (_pit(measured, "PIT histogram", 0), diagram), legend)


def _by_regime(regimes: Mapping[str, Calibration]) -> Figure:
    first = next(iter(regimes.values()))
    lines = [_coverage(own, regime, _COLOURS.get(regime, 4)) for regime, own in regimes.items()]
    panels = [XY("Reliability by regime", "nominal", "observed", (_diagonal(first), *lines))]
    panels += [_pit(own, f"PIT: {regime}", _COLOURS.get(regime, 4)) for regime, own in regimes.items()]
    legend = (*((regime, _COLOURS.get(regime, 4), "line") for regime in regimes), ("nominal", INK, "dashed"))
    caption = "The same by regime: intervals that are right on average may be wrong in every start-up."
    return Figure("calibration-by-regime", caption, tuple(panels), legend)


def _table(measured: Calibration) -> ReportTable:
    rows = tuple(
        {
            "regime": regime, **{f"coverage_{level}": value for level, value in part.coverage.items()},
            "width_0.9": part.width90, "pit_deviation": part.pit_deviation, "reading": part.reading,
        }
        for regime, part in {"all": measured, **measured.by_regime}.items()
    )  # fmt: skip
    levels = tuple((f"coverage_{level}", f"in {100 * float(level):.0f} %", "share") for level in measured.coverage)
    heads = columns(
        ("regime", "regime", "text"), *levels, ("width_0.9", "width of 90 % [z]"), ("pit_deviation", "PIT deviation"),
        ("reading", "reading", "text"),
    )  # fmt: skip
    caption = "Observed coverage of the central intervals. PIT deviation: mean distance of the histogram from flat."
    return ReportTable("calibration", caption, heads, rows)


def _layers(conformal: Mapping[str, Any]) -> ReportTable:
    names = {
        "as_is": "as it is, on the later runs",
        "split": "calibrated on the first two runs",
        "adaptive": "tracked while running",
    }
    levels = list(conformal["adaptive"])
    rows = tuple(
        {"layer": title, **{level: conformal[key].get(level) for level in levels}}
        for key, title in names.items()
        if isinstance(conformal.get(key), Mapping)
    )
    heads = columns(
        ("layer", "intervals", "text"), *((level, f"{100 * float(level):.0f} %", "share") for level in levels)
    )
    caption = "Coverage with a conformal layer on top: what a few runs of the machine itself can mend."
    return ReportTable("conformal", caption, heads, rows)
