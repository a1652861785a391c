"""Who led at each seed count: what a confirmation found, and its entry in the ledger."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crossfeed.study.record.score import Score
from crossfeed.study.record.store import Store

# The kinds of their entries.
CONFIRMATION, PASSED_OVER = "confirmation", "passed over"


@dataclass(frozen=True, slots=True)
class Confirmation:
    """How far the confirmation is: who is in it, who led at each seed count, and by which score."""

    finalists: tuple[str, ...]
    leaders: dict[int, str]
    score: Score

    @classmethod
    def recorded(cls, content: Mapping[str, Any]) -> "Confirmation":
        """As the ledger holds it: seed counts are texts in alphabetical order there."""
        leaders = sorted((int(count), name) for count, name in content["leaders"].items())
        return cls(tuple(content["finalists"]), dict(leaders), content["score"])

    def content(self) -> dict[str, Any]:
        """As the ledger holds it."""
        leaders = {str(count): name for count, name in self.leaders.items()}
        return {"finalists": list(self.finalists), "leaders": leaders, "score": self.score, "stable": self.stable}

    @property
    def stable(self) -> bool:
        counts = sorted(self.leaders)
        return len(counts) > 1 and self.leaders[counts[-1]] == self.leaders[counts[-2]]

    @property
    def leader(self) -> str:
        return self.leaders[max(self.leaders)]

    @property
    def history(self) -> str:
        """Who led when, in words."""
        return ", ".join(f"{name} at {count} seeds" for count, name in self.leaders.items())


def passed_over(store: Store) -> list[str]:
    """Leaders that were taken out of the contest because nothing could make them lockable."""
    return [entry.content["candidate"] for entry in store.entries(PASSED_OVER)]
