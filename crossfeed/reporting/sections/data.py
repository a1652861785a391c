"""Data audit and split: what went in, and who may see what."""

from collections import Counter
from dataclasses import replace

from crossfeed.audits.finding import AuditReport
from crossfeed.evaluation.verdict import words
from crossfeed.reporting.artefacts import Artefacts
from crossfeed.reporting.blocks import Block, Note, Section, Tone, section
from crossfeed.show.tables import ResultTable, columns, filled, plural


def data(found: Artefacts) -> list[Section]:
    """The audit, if there was one, and the split."""
    return [*_audit(found), *_split(found)]


def _audit(found: Artefacts) -> list[Section]:
    blocks: list[Block] = []
    if found.study is not None:
        blocks.append(_tables(found))
    for report in found.audits:
        blocks += _findings(report)
    lead = "What the tables hold, and whether anything in them contradicts physics, units or causality."
    return section("data", "Data audit", lead, blocks)


def _findings(report: AuditReport) -> list[Block]:
    told = f"{plural(len(report.violations), 'violation')} and {plural(len(report.warnings), 'warning')} in "
    told += f"{words(list(report.audited))}; checks: {', '.join(report.ran)}."
    tone: Tone = "bad" if report.violations else "fair" if report.warnings else "good"
    blocks: list[Block] = [Note(told, tone)]
    serious = bool(report.violations or report.warnings)
    caption = "What the audit found. A violation spoils results, a warning may, a note never does."
    if report.findings:
        blocks += [replace(table, caption=caption, remarks=(), folded=not serious) for table in report.tables()]
    return blocks


def _tables(found: Artefacts) -> ResultTable:
    """The paper's table of the protocol: one row per machine table, without a row of the sealed one being read."""
    assert found.study is not None
    protocol = found.study.protocol
    sides = Counter[str]()
    for side in found.study.sides:
        sides[side["table"]] += side["sessions"]
    rows = [
        {
            "table": source["name"], "role": "source", "machines": ", ".join(source["machines"]),
            "rows": source["rows"], "groups": sides.get(source["name"]), "fingerprint": source["fingerprint"],
        }
        for source in protocol["sources"]
    ]  # fmt: skip
    rows += [
        {
            "table": sealed["name"], "role": "target, sealed at the start", "machines": ", ".join(sealed["machines"]),
            "rows": sealed["rows"], "groups": sealed["groups"], "sensors": len(sealed["shared_sensors"]),
            "fingerprint": sealed["table_fingerprint"],
        }
        for sealed in protocol["vault"]
    ]  # fmt: skip
    heads = columns(
        ("table", "table", "text"), ("role", "role", "text"), ("machines", "machine", "text"),
        ("rows", "rows", "count"), ("groups", "sessions", "count"), ("sensors", "shared sensors", "count"),
        ("fingerprint", "fingerprint", "hash"),
    )  # fmt: skip
    return ResultTable("data", "Machines of the study.", heads, tuple(rows), label="data")


def _split(found: Artefacts) -> list[Section]:
    study, summary = found.study, found.run.summary if found.run else {}
    if study is not None and study.sides:
        rows = tuple({**side, "lost": side["lost_to_commands"] + side["lost_to_gaps"]} for side in study.sides)
        data = study.protocol["config"]["data"]
        lead = (
            f"Whole {data['split_by']}s stand on one side (seed {data['split_seed']}), so no window of the test side "
            "overlaps one that was learned from. Normalisers are fitted on train rows only."
        )
    elif summary:
        facts = summary["data"]["windows"]
        rows = tuple(
            {"part": part, "windows": facts[part]["count"], "window_hash": facts[part]["hash"]} for part in facts
        )
        lead = f"The split of the run, by hash (seed {', '.join(map(str, summary['data']['split_seed']))})."
    else:
        return []
    heads = columns(
        ("table", "table", "text"), ("part", "side", "text"), ("sessions", "sessions", "count"),
        ("programs", "programs", "count"), ("rows", "rows", "count"), ("windows", "windows", "count"),
        ("lost", "not offered", "count"), ("window_hash", "hash of the windows", "hash"),
    )  # fmt: skip
    caption = "Windows of each side. Not offered: windows that would touch a missing command or a gap in the clock."
    return [Section("split", "Split", lead, (ResultTable("split", caption, filled(heads, rows), rows),))]
