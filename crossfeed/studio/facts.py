"""What a model is, for people and programs that have only its address."""

from typing import Any

from crossfeed import __version__
from crossfeed.evaluation.opened_model import OpenedModel
from crossfeed.json_file import plain
from crossfeed.programs.bundled import PREFIX, bundled_programs
from crossfeed.studio.settings import Limits


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
