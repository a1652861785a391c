"""What a model is and whether it may be believed, for people and programs that have only its address."""

from pathlib import Path
from typing import Any

from crossfeed import __version__
from crossfeed.errors import CrossfeedError
from crossfeed.evaluation.opened_model import OpenedModel
from crossfeed.json_file import plain
from crossfeed.model.locate import FLEET, locate_model
from crossfeed.programs.bundled import PREFIX, bundled_programs
from crossfeed.studio.settings import Limits

_SHOWN = ("channel", "unit", "light", "reasons", "skill", "coverage")


def model_facts(opened: OpenedModel, limits: Limits) -> dict[str, Any]:
    """Names, units, horizons, ranges and provenance."""
    model, provenance = opened.model, opened.provenance
    ranges = provenance.get("command_range") or {}
    facts = {
        "crossfeed": __version__,
        "name": opened.forecaster.name,
        "file": opened.path.name,
        "sha256": opened.sha256,
        "machines": list(provenance.get("machines", ())),
        "adapted_to": list(provenance.get("adapted", {}).get("to", {}).get("machines", ())),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "period": float(provenance.get("row_period", 1.0)),
        "context": model.config.context,
        "horizons": list(model.horizons),
        "sensors": [
            {**channel.model_dump(), "learned": channel.name not in model.normaliser.unseen}
            for channel in model.schema.sensors
        ],
        "commands": [{**channel.model_dump(), "range": ranges.get(channel.name)} for channel in model.schema.commands],
        "shuffled_command_ratio": provenance.get("shuffled_command_ratio"),
        "programs": [PREFIX + name for name in bundled_programs()],
        "limits": limits.model_dump(),
    }
    return dict(plain(facts))


def recorded_verdict(opened: OpenedModel) -> dict[str, Any]:
    """The verdict of the study or of the evaluations that lie with the model; a sentence where there are none."""
    # Imported when somebody looks: the page is up a tenth of a second earlier.
    from crossfeed.reporting.artefacts import gather
    from crossfeed.reporting.sections.verdict import verdict

    folder = record_folder(opened.path)
    if opened.path == locate_model(FLEET):
        return _nothing(
            "This is the shipped model of many machines; how well it knows yours is not recorded.",
            "Judge it with crossfeed evaluate fleet --table TABLE.",
        )
    if folder is None:
        return _nothing("The model file lies alone: no study and no evaluation of it is at hand.")
    try:
        found = verdict(gather(folder))
    except CrossfeedError as error:
        return _nothing(f"What lies beside the model cannot be read: {error.found}")
    return dict(
        plain(
            {
                "question": found.question,
                "answer": found.answer,
                "tone": found.tone,
                "sentences": found.sentences,
                "channels": [{name: getattr(light, name) for name in _SHOWN} for light in found.lights],
                "next": found.next_steps,
            }
        )
    )


def record_folder(model: Path) -> Path | None:
    """The study a model was trained in, or its own run folder."""
    for folder in (model.parent.parent.parent, model.parent):
        if (folder / "study.db").is_file() or (folder / "run.json").is_file():
            return folder
    return None


def _nothing(
    sentence: str, step: str = "Judge it with crossfeed evaluate MODEL --table TABLE --out FOLDER beside the model."
) -> dict[str, Any]:
    return {
        "question": "May the model be trusted on the other machine, and on which channels?",
        "answer": "Not known yet.",
        "tone": "next",
        "sentences": [sentence],
        "channels": [],
        "next": [step],
    }
