"""What the service does not do, in the words of every other error and with the status that HTTP has for it."""

from collections.abc import Mapping
from typing import Any

from crossfeed.errors import CheckpointError, CrossfeedError, StorageError


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
