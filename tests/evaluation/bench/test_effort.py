"""How long everybody learns from so many windows, held still: a longer budget for some would be no comparison."""

import pytest

from crossfeed.evaluation.bench.curve import effort

# Epochs, those of a pretext stage, windows in a batch, patience.
LONG = {
    ("quick", 3): (50, 25, 2, 16),
    ("quick", 40): (50, 25, 10, 16),
    ("quick", 600): (50, 25, 128, 16),
    ("quick", 5_000): (13, 6, 128, 4),
    ("quick", 100_000): (7, 3, 128, 3),
    ("normal", 600): (200, 100, 128, 30),
    ("normal", 5_000): (51, 25, 128, 17),
    ("thorough", 40): (600, 300, 10, 200),
    ("thorough", 100_000): (81, 40, 128, 27),
}


@pytest.mark.parametrize(("budget", "windows"), LONG)
def test_few_windows_are_learned_as_long_as_they_were(
    budget: str, windows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # the other tests of this room learn for a few epochs only
    found = effort(budget, "tiny", windows)
    assert (found.epochs, found.pretext_epochs, found.batch_size, found.patience) == LONG[budget, windows]
    assert found.validation_windows == 1000
