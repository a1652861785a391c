"""What clients send (plans, moments, limits, in physical units and by name), and how a request is refused."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from crossfeed.configuration import CheckedForm
from crossfeed.errors import CheckpointError, CrossfeedError, StorageError

Columns = dict[str, list[float | None]]
Per_cent = Annotated[float, Field(ge=1.0, le=300.0)]


class PlanRequest(CheckedForm):
    """Commands to come: what followed in the log, what the program will do, the last command, rows, an NC program."""

    name: str = Field(default="", max_length=60, description="How the answer calls it.")
    kind: Literal["followed", "held", "commands", "program"] = Field(
        default="followed",
        description="'followed': what really followed in the log, or what the running program will command; 'held': "
        "the last command, held; 'commands': the rows in `commands`; 'program': the NC program or table `program`.",
    )
    commands: dict[str, list[float]] | None = Field(
        default=None, description="One list per command of the model, one number per row, in the model's units."
    )
    program: str | None = Field(
        default=None, max_length=80, description="The id of an uploaded program, or 'bundled:NAME'."
    )
    feed: Per_cent = Field(default=100.0, description="Feed override in per cent.")
    rapid: Per_cent = Field(default=100.0, description="Rapid override in per cent, for NC programs.")
    spindle: Per_cent = Field(default=100.0, description="Spindle override in per cent.")


class MomentRequest(CheckedForm):
    """The rows before the forecast: the newest, a moment of the served table, or rows sent along."""

    session: str | None = Field(default=None, max_length=200, description="Session of the served table.")
    at: float | None = Field(default=None, ge=0.0, description="Seconds after the session's first row.")
    history: Columns | None = Field(
        default=None,
        description="Rows of any sensors (null where nothing was measured) and of all commands; the last is now.",
    )


class PlansRequest(MomentRequest):
    """What is commanded from a moment on."""

    plans: list[PlanRequest] = Field(default_factory=lambda: [PlanRequest()], min_length=1)
    seconds: float | None = Field(default=None, gt=0.0, description="Only the first seconds of every plan.")


class ForecastRequest(PlansRequest):
    """A forecast at the trained horizons, quick enough for a slider."""

    levels: list[Annotated[float, Field(gt=0.0, lt=1.0)]] = Field(
        default=[0.05, 0.25, 0.5, 0.75, 0.95], min_length=1, max_length=19
    )


class WhatIfRequest(PlansRequest):
    """Plans rolled forward to their end on sampled futures, and compared: time, energy, peaks, limits."""

    samples: int = Field(default=64, ge=20)
    seed: int = Field(default=0, ge=0)
    limits: dict[str, float] = Field(default_factory=dict, description="Highest allowed value by sensor.")


class RefusalError(CrossfeedError):
    """A request that is not answered; `status` says why in HTTP's own terms."""

    def __init__(self, status: int, found: str, *, expected: str = "", remedy: str = "") -> None:
        super().__init__(found, expected=expected, remedy=remedy)
        self.status = status


def status_of(error: CrossfeedError) -> int:
    """Bad input is the client's (422), a damaged file on our side is ours (500)."""
    if isinstance(error, RefusalError):
        return error.status
    return 500 if isinstance(error, StorageError | CheckpointError) else 422


def error_content(error: CrossfeedError) -> dict[str, Any]:
    """The three parts under their names."""
    return {"error": {"found": error.found, "expected": error.expected, "remedy": error.remedy}}


def validation_error(problems: list[Mapping[str, Any]]) -> CrossfeedError:
    """The first thing that pydantic found wrong with a request, in our words."""
    first = problems[0]
    where = ".".join(str(part) for part in first.get("loc", ()) if part != "body") or "the body"
    more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
    return CrossfeedError(
        f"The request has a problem at {where}: {first.get('msg', 'it cannot be read')}{more}.",
        expected="JSON as /docs describes it",
    )
