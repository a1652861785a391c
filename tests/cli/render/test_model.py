"""What `crossfeed inspect` shows."""

from crossfeed.cli.render.inputs import _text


def test_ranges_of_commands_had_sixteen_digits() -> None:
    assert _text([-28799.388021554245, 8.106229506665841e-05]) == "-28799.4, 8.10623e-05"
    assert _text(None) == "-"
