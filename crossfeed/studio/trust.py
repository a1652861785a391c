"""May it be believed? What was recorded about this model, and how its intervals have held since the start."""

from pathlib import Path
from typing import Any

from crossfeed.errors import CrossfeedError
from crossfeed.evaluation.opened_model import OpenedModel
from crossfeed.json_file import plain
from crossfeed.model.locate import FLEET, locate_model

_SHOWN = ("channel", "unit", "light", "reasons", "skill", "coverage")


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
