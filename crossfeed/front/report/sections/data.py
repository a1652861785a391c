"""Data audit and split: what went in, and who may see what."""

import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from crossfeed.evaluation.verdict import words
from crossfeed.files import __version__
from crossfeed.front.report.artefacts import Artefacts
from crossfeed.front.report.page import Block, Listing, Note, Tone
from crossfeed.show.tables import ResultTable, columns, filled, plural
from crossfeed.study.record.declaration import Declaration
from crossfeed.windows.audits.subject import AuditReport


def data(found: Artefacts) -> list[Block]:
    """The tables of a study, and what audits found in them."""
    blocks: list[Block] = []
    if found.study is not None:
        blocks.append(_tables(found))
    for report in found.audits:
        blocks += _findings(report)
    return blocks


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


def split(found: Artefacts) -> list[Block]:
    study, summary = found.study, found.run.summary if found.run else {}
    if study is not None and study.sides:
        rows = tuple({**side, "lost": side["lost_to_commands"] + side["lost_to_gaps"]} for side in study.sides)
        data = study.protocol["config"]["data"]
        caption = f"Windows of each side: whole {data['split_by']}s stand on one (seed {data['split_seed']}). "
    elif summary:
        facts = summary["data"]["windows"]
        rows = tuple(
            {"part": part, "windows": facts[part]["count"], "window_hash": facts[part]["hash"]} for part in facts
        )
        caption = f"Windows of each side, by hash (seed {', '.join(map(str, summary['data']['split_seed']))}). "
    else:
        return []
    heads = columns(
        ("table", "table", "text"), ("part", "side", "text"), ("sessions", "sessions", "count"),
        ("programs", "programs", "count"), ("rows", "rows", "count"), ("windows", "windows", "count"),
        ("lost", "not offered", "count"), ("window_hash", "hash of the windows", "hash"),
    )  # fmt: skip
    caption += "Not offered: windows that would touch a missing command or a gap in the clock."
    return [ResultTable("split", caption, filled(heads, rows), rows)]


_LIBRARIES = ("torch", "numpy", "polars", "pyarrow", "pydantic")
_SHOWN = 40


def timing(found: Artefacts) -> list[Block]:
    """How long things took."""
    rows: list[dict[str, Any]] = []
    if found.run is not None and found.run.history:
        for stage in dict.fromkeys(row["stage"] for row in found.run.history):
            epochs = [row for row in found.run.history if row["stage"] == stage]
            trained = sum(row["train_seconds"] for row in epochs)
            validated = sum(row["validation_seconds"] for row in epochs)
            whole = trained + validated
            detail = f"{validated / max(whole, 1e-9):.0%} of it validation"
            rows.append(_spent(f"{found.run.name}, {stage}", len(epochs), "epochs", whole / len(epochs), detail))
    for row in found.comparison.rows if found.comparison else ():
        if row.seeds and row.seconds:
            detail = f"{row.parameters:,} numbers"
            rows.append(_spent(f"baseline {row.model}", row.seeds, "seeds", row.seconds, detail))
    if not rows:
        return []
    device = found.run.summary.get("device") if found.run else None
    heads = columns(
        ("what", "what", "text"), ("count", "number", "count"), ("of", "of", "text"), ("seconds", "in all", "seconds"),
        ("each", "each", "seconds"), ("detail", "", "text"),
    )  # fmt: skip
    caption = f"Wall time{f' on {device}' if device else ''}; other work on the machine counts in."
    return [ResultTable("timing", caption, heads, tuple(rows))]


def _spent(what: str, count: int, of: str, each: float, detail: str) -> dict[str, Any]:
    return {"what": what, "count": count, "of": of, "seconds": each * count, "each": each, "detail": detail}


def reproduce(found: Artefacts) -> list[Block]:
    """How to repeat what was done."""
    size, settings = _departures(found)
    blocks: list[Block] = [Listing(tuple(_commands(found, size, settings))), _versions(found)]
    if settings:
        rows = tuple(
            {"setting": name, "value": str(value), "preset": str(usual)} for name, (value, usual) in settings.items()
        )
        heads = columns(("setting", "setting", "text"), ("value", "here", "text"), ("preset", "preset", "text"))
        blocks.append(
            ResultTable("settings", "Settings that differ from the preset.", heads, rows, folded=len(rows) > 8)
        )
    blocks.append(
        Note("The same seeds, tables and versions give the same numbers; on a CPU with as many threads bit by bit.")
    )
    return blocks


def _departures(found: Artefacts) -> tuple[str, Mapping[str, Sequence[Any]]]:
    """The size of the nearest preset, and what differs from it: as a run or a study recorded it, else found now."""
    recorded = found.study.protocol if found.study else found.run.summary if found.run else {}
    told = recorded.get("preset")
    if told:
        return told["size"], told["departures"]
    config = found.study.protocol["config"] if found.study else dict(found.run.config) if found.run else {}
    name = found.study.protocol["name"] if found.study else "crossfeed"
    if not config:
        return "compact", {}
    from crossfeed.training.run_config import departures

    return departures(name, config)


def _commands(found: Artefacts, size: str, departures: Mapping[str, Sequence[Any]]) -> list[str]:
    study = found.study
    if study is None:
        return ["crossfeed train --table SOURCE.parquet --config config.yaml --out again"]
    protocol = study.protocol
    tables = " ".join(f"--source {source['name']}" for source in protocol["sources"])
    tables += "".join(f" --target {sealed['name'].removesuffix('.sealed')}.parquet" for sealed in protocol["vault"])
    changes = "".join(f" --set {name}={value[0]}" for name, value in list(departures.items())[:_SHOWN])
    searched = [run for run in study.searched if run.stage == "search"]
    seeds = 1 + max((run.seed for run in searched), default=3)
    only = "".join(f" --only {name}" for name in dict.fromkeys(run.candidate for run in searched))
    lines = [
        f"crossfeed study init again {tables} --protocol {protocol['name']} --size {size} "
        f"--minimum-seeds {protocol['minimum_seeds']}{changes}",
        f"crossfeed study search again{' --halving' if study.entries('halving') else ''} --seeds {seeds}{only}",
    ]
    lines += ["crossfeed study confirm again"] if study.confirmation else []
    lines += ["crossfeed study lock again"] if study.lock else []
    lines += ["crossfeed study unseal again"] if study.confirmatory else []
    for entry in study.entries("declaration"):
        content = entry.content
        arms = " ".join(
            f"--arm {arm}:{','.join(f'{key}={value}' for key, value in changed.items())}"
            for arm, changed in Declaration.recorded(content).arms.items()
        )
        lines += [
            f"crossfeed study declare again {content['name']} {arms} --seeds {content['seeds']}",
            "crossfeed study search again --planned",
            f"crossfeed study unseal again --declared {content['name']}",
        ]
    return [*lines, f"crossfeed study verify {study.folder.name}"]


def _versions(found: Artefacts) -> ResultTable:
    versions = {"crossfeed, this report": __version__, "Python": platform.python_version()}
    for name in _LIBRARIES:
        with suppress(PackageNotFoundError):  # a report can be made where torch came without metadata
            versions[name] = version(name)
    if found.study is not None:
        protocol = found.study.protocol
        versions |= {
            "crossfeed at the start of the study": protocol["crossfeed"],
            "code of the study (SHA-256)": protocol["code"],
            "ledger head": found.study.verification.head,
        }
    data = found.study.protocol if found.study else found.run.summary.get("data") if found.run else None
    if data is not None:
        versions["train rows (SHA-256)"] = data["fitted_on"]
        versions |= {f"windows, {part}": facts["hash"] for part, facts in data["windows"].items()}
    heads = columns(("what", "what", "text"), ("value", "version or hash", "text"))
    rows = tuple({"what": what, "value": value} for what, value in versions.items())
    return ResultTable("versions", "Versions and hashes.", heads, rows)
