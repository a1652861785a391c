"""Lock and ledger: what was frozen, what was opened, and whether every byte is still what it was."""

from typing import Any

from crossfeed.grid import plural
from crossfeed.reporting.artefacts import Artefacts
from crossfeed.reporting.blocks import Block, Note, ReportTable, Section, columns, section
from crossfeed.study.record.confirmation import CONFIRMATION, Confirmation
from crossfeed.study.record.ledger import Entry


def sections(found: Artefacts) -> list[Section]:
    """The history of a study; a run alone has none."""
    study = found.study
    if study is None:
        return []
    blocks: list[Block] = [_verification(found)]
    if study.lock is not None:
        frozen = [
            {"what": name, "sha256": study.lock[f"{name}_sha256"]}
            for name in ("config", "code", "normaliser", "checkpoint")
        ]
        frozen += [{"what": f"data {number}", "sha256": one} for number, one in enumerate(study.lock["data_sha256"], 1)]
        caption = (
            f"Locked on {study.lock['time']}: {study.lock['candidate']}, seed {study.lock['seed']} "
            f"(the {study.lock.get('seed_rule', 'median')} one)."
        )
        heads = columns(("what", "frozen", "text"), ("sha256", "SHA-256", "text"))
        blocks.append(ReportTable("lock", caption, heads, tuple(frozen)))
    if study.openings:
        rows = tuple(
            {
                "purpose": one.purpose, "time": one.time, "file": one.file,
                "unchanged": "yes" if one.unchanged else "NO, changed since",
                "models": ", ".join(one.models), "windows": one.result.windows,
            }
            for one in study.openings
        )  # fmt: skip
        heads = columns(
            ("purpose", "purpose", "text"), ("time", "time (UTC)", "text"), ("models", "models", "text"),
            ("windows", "windows", "count"), ("file", "result", "text"), ("unchanged", "as recorded", "text"),
        )  # fmt: skip
        blocks.append(ReportTable("openings", "Every opening of the target.", heads, rows))
    rows = tuple(
        {"number": entry.number, "time": entry.time, "kind": entry.kind, "what": _in_words(entry), "hash": entry.hash}
        for entry in study.ledger
    )
    heads = columns(
        ("number", "#", "count"), ("time", "time (UTC)", "text"), ("kind", "what", "text"), ("what", "details", "text"),
        ("hash", "hash", "hash"),
    )  # fmt: skip
    caption = "The ledger. Each entry holds the hash of the one before it, so an edited history shows."
    blocks.append(ReportTable("ledger", caption, heads, rows, folded=len(rows) > 6))
    lead = (
        "The order in which things happened: candidates first, then the lock, then the target, once. Compare the head "
        "hash with the one that was kept elsewhere."
    )
    return section("ledger", "Lock and ledger", lead, blocks)


def _verification(found: Artefacts) -> Note:
    assert found.study is not None
    check = found.study.verification
    if check.problems:
        return Note(f"Verification FAILED: {'; '.join(check.problems)}. Ledger head {check.head}.", "bad")
    remarks = f" Worth knowing: {'; '.join(check.remarks)}." if check.remarks else ""
    told = f"Verified: {plural(check.entries, 'ledger entry').replace('entrys', 'entries')}, nothing changed.{remarks}"
    return Note(f"{told} Ledger head {check.head}.", "good")


def _in_words(entry: Entry) -> str:
    """The gist of one entry."""
    content: dict[str, Any] = entry.content
    if entry.kind == "init":
        return f"protocol {content['name']}, {plural(len(content['vault']), 'target table')} sealed"
    if entry.kind == "plan":
        return plural(len(content["runs"]), "run")
    if entry.kind == "run":
        return f"{content['name']}: {content['status']}"
    if entry.kind == CONFIRMATION:
        found = Confirmation.recorded(content)
        return f"leader {found.leader}, {'stable' if found.stable else 'not stable'}"
    if entry.kind == "lock":
        return f"{content['candidate']}, seed {content['seed']}"
    if entry.kind == "declaration":
        return f"{content['name']}: {', '.join(content['arms'])}, if {content['condition']}"
    if entry.kind == "verdict":
        return f"{content['declaration']}: the condition {'holds' if content['holds'] else 'does not hold'}"
    if entry.kind in ("opening", "opening result"):
        return str(content["purpose"])
    if entry.kind == "release":
        return f"target tables handed back: {', '.join(content['tables'])}"
    return ", ".join(f"{key}: {value}" for key, value in content.items() if isinstance(value, str | int))[:120]
