"""Words that every table and sentence shares."""

import pytest

from crossfeed.grid import plural


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [(0, "run", "0 runs"), (1, "run", "1 run"), (2000, "run", "2,000 runs"), (1, "ledger entry", "1 ledger entry"),
     (3, "ledger entry", "3 ledger entries"), (2, "day", "2 days")],
)  # fmt: skip
def test_one_ledger_entries(count: int, noun: str, text: str) -> None:
    assert plural(count, noun) == text
