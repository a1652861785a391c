"""What is missing in a report, and the command that brings it."""

from pathlib import Path
from shlex import quote

from crossfeed.reporting.artefacts import Artefacts
from crossfeed.reporting.study_facts import StudyFacts


def next_steps(found: Artefacts) -> list[str]:
    """Sentences with a command each, the next one first; empty when nothing is missing."""
    if found.study is None:
        return _for_run(found)
    return _for_study(found.study) or _extras(found)


def _shell(path: Path) -> str:
    """A path as a shell takes it."""
    return quote(str(path))


def _for_run(found: Artefacts) -> list[str]:
    steps = []
    if found.run is not None and not found.run.summary:
        steps.append(
            f"Finish the training: crossfeed train --out {_shell(found.folder)} --resume --table SOURCE.parquet"
        )
    if not found.evaluations:
        steps.append(
            f"Judge it on another machine: crossfeed evaluate {_shell(found.folder)} --table TARGET.parquet "
            "--source SOURCE.parquet --out evaluation"
        )
    return steps + _extras(found)


def _for_study(study: StudyFacts) -> list[str]:
    """The step of the protocol that comes next; none after the opening."""
    folder = _shell(study.folder)
    unfinished = [run for run in study.runs if run.status not in ("finished", "invalid")]
    if not study.runs:
        return [f"Train the candidates: crossfeed study search {folder}"]
    if unfinished:
        return [f"Finish the {len(unfinished)} runs that are planned: crossfeed study search {folder} --planned"]
    if study.lock is None:
        if study.confirmation is None:
            return [f"Confirm the leader with more seeds: crossfeed study confirm {folder}"]
        if study.refusals:
            return [
                f"The study cannot be locked: {refusal.reason}. Then: {refusal.command(folder)}"
                for refusal in study.refusals
            ]
        return [f"Freeze the leader: crossfeed study lock {folder}"]
    if study.protocol["vault"] and study.confirmatory is None:
        return [f"Open the target, once: crossfeed study unseal {folder}"]
    return []


def _extras(found: Artefacts) -> list[str]:
    """What would make a finished report more complete."""
    study = found.study
    model = _shell(found.folder / "runs" / study.shown_run if study and study.shown_run else found.folder)
    steps = []
    wanting = not (found.comparison and found.forecasts)
    if study is not None and study.confirmatory is not None and wanting and not study.entries("release"):
        steps.append(f"Get the target tables back for what follows: crossfeed study release {_shell(study.folder)} OUT")
    if study is not None and found.on_target() and not any(one.robustness for one in found.evaluations):
        steps.append(
            f"Robustness and the source's test side: crossfeed evaluate {model} --table SOURCE.parquet --suite full "
            "--out evaluation"
        )
    if not found.adaptation:
        steps.append(f"Few-shot curves: crossfeed adapt {model} --table TARGET.parquet --out adaptation")
    if not found.comparison:
        steps.append("Baselines: crossfeed compare --table SOURCE.parquet --target TARGET.parquet --out comparison")
    if not found.forecasts:
        steps.append(
            f"What if: crossfeed what-if {model} --history LOG.parquet --commands PLAN.csv --compare OTHER.csv "
            "--out forecast"
        )
    if not found.audits:
        steps.append("Data audit: crossfeed audit SOURCE.parquet --json > audit.json")
    return steps
