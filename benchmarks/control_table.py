"""The tables of benchmarks/control.md, from the JSON lines that benchmarks/control.py writes."""

import json
from pathlib import Path

import numpy as np

ROUGHING = ("roughing", "pocketing")
PLANNERS = ("planner", "planner, first part")


def read(paths):
    """The cases of some files; what several of them tell of a case is put together."""
    found = {}
    for path in paths:
        for row in map(json.loads, Path(path).read_text().splitlines()):
            case = found.setdefault((row["machine"], row["number"]), row)
            for part in ("runs", "decisions", "seconds_per_decision"):
                case[part] = {**row[part], **case[part]}
    return list(found.values())


def summarise(paths):
    cases = [case for case in read(paths) if "oracle" in case["runs"]]
    machines = dict.fromkeys(c["machine"] for c in cases)
    programs = {c["number"] for c in cases}
    print(f"{len(cases)} cases: {len(programs)} programs, {len(machines)} machines.\n")
    print("| programs | cases | who | time saved | energy saved | limits passed (as written) | regret |")
    print("|---|---|---|---|---|---|---|")
    groups = {"roughing and pocketing": ROUGHING, "drilling": ("drilling",), "finishing": ("finishing",)}
    for title, kinds in groups.items():
        _table(title, [c for c in cases if c["kind"] in kinds])
    _table("all", cases)
    print("\nThe planner by machine:\n")
    print("| machine | cases | who | time saved | energy saved | limits passed (as written) | regret |")
    print("|---|---|---|---|---|---|---|")
    for machine in machines:
        own = [c for c in cases if c["machine"] == machine]
        for kinds in (ROUGHING, ("finishing",)):
            some = [c for c in own if c["kind"] in kinds]
            if some:
                _table(f"{machine}, {kinds[0]}", some, only=("planner",))
    _limits(cases)
    for who in PLANNERS:
        _decided(who, [c for c in cases if who in c["runs"]])
    nothing = [c for c in cases if c["runs"]["oracle"]["cost"] > 0.995 * c["runs"]["as written"]["cost"]]
    print(f"\nDoing nothing was already best (the oracle gains < 0.5 %) in {len(nothing)} cases.")


def _table(title, own, only=None):
    for who in dict.fromkeys(name for c in own for name in c["runs"]):
        some = [c for c in own if who in c["runs"]]
        if only and who not in only:
            continue
        saved = {key: 100 * np.mean([1 - c["runs"][who][key] / c["runs"]["as written"][key] for c in some])
                 for key in ("seconds", "energy")}  # fmt: skip
        passed, before = (
            100 * sum(c["runs"][name]["passed"] for c in some) / max(sum(c["runs"][name]["cutting"] for c in some), 1)
            for name in (who, "as written")
        )
        gain, best = (
            sum(c["runs"]["as written"]["cost"] - c["runs"][name]["cost"] for c in some) for name in (who, "oracle")
        )
        regret = f"{100 * (1 - gain / best):.0f} %" if best > 0 else "-"
        savings = f"{saved['seconds']:.1f} % | {saved['energy']:.1f} %"
        print(f"| {title} | {len(some)} | {who} | {savings} | {passed:.2f} % ({before:.2f} %) | {regret} |")


def _limits(cases):
    """How often limits were passed, beside the untouched program run a second time."""
    print("\n| programs | cases | who | seconds above a limit | as written | cases with more | with fewer | raised |")
    print("|---|---|---|---|---|---|---|---|")
    groups = {"roughing and pocketing": ROUGHING, "drilling": ("drilling",), "finishing": ("finishing",), "all": None}
    for title, kinds in groups.items():
        own = [c for c in cases if kinds is None or c["kind"] in kinds]
        for who in ("planner", "as written, again", "planner, first part"):
            some = [c["runs"] for c in own if who in c["runs"]]
            if not some:
                continue
            passed, cutting, raised = (sum(r[who][key] for r in some) for key in ("passed", "cutting", "passed_faster"))
            before, whole = (sum(r["as written"][key] for r in some) for key in ("passed", "cutting"))
            more = sum(r[who]["passed"] > r["as written"]["passed"] for r in some)
            fewer = sum(r[who]["passed"] < r["as written"]["passed"] for r in some)
            shares = [f"{part} of {total:,} ({100 * part / max(total, 1):.2f} %)"
                      for part, total in ((passed, cutting), (before, whole))]  # fmt: skip
            print(f"| {title} | {len(some)} | {who} | {shares[0]} | {shares[1]} | {more} | {fewer} | {raised} |")


def _decided(who, cases):
    rows = [row for c in cases for row in c["decisions"][who]]
    sure = [row for row in rows if row["acts"] and row["verdict"] == "faster"]
    if not sure:
        return
    held = 100 * np.mean([row["low"] <= row["true"] <= row["high"] for row in sure])
    harmed = 100 * np.mean([row["true"] < 0 for row in sure])
    written = [c["runs"]["as written"] for c in cases]
    planned = [c["runs"][who] for c in cases]
    more = sum(after["passed"] > before["passed"] for before, after in zip(written, planned))
    dearer = [c for c, before, after in zip(cases, written, planned) if after["cost"] > before["cost"] + 1e-6]
    kept = [c for c in dearer if c["runs"]["as written"]["passed"] == 0]
    finishing = [c for c in dearer if c["kind"] == "finishing"]
    pace = np.median([c["seconds_per_decision"][who] for c in cases])
    print(f"\n{who}, {len(cases)} cases, {len(rows)} decisions, {len(sure)} of them to gain:")
    print(f"- 90 % intervals of the gain hold {held:.0f} %; acting to gain harmed (true gain < 0) in {harmed:.1f} %.")
    by_machine = dict.fromkeys(c["machine"] for c in cases)
    for machine in by_machine:
        own = [row for c in cases if c["machine"] == machine for row in c["decisions"][who]]
        own = [row for row in own if row["acts"] and row["verdict"] == "faster"]
        by_machine[machine] = np.mean([row["low"] <= row["true"] <= row["high"] for row in own]) if own else np.nan
    print(f"- by machine: {', '.join(f'{name} {100 * share:.0f} %' for name, share in by_machine.items())}.")
    print(f"- limits passed more often than as written in {more} cases.")
    print(f"- dearer than as written in {len(dearer)} cases ({len(finishing)} finishing), {len(kept)} of them without")
    print("  a limit passed as written.")
    print(f"- {pace:.2f} s for a decision (median, on a shared core).")
