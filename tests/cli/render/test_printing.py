"""What every command prints alike: one document of JSON, and the next command ready to be pasted."""

import json
from dataclasses import dataclass

import pytest

from crossfeed.cli.render.printing import print_json


def test_json_is_one_document_also_of_a_dataclass(capsys: pytest.CaptureFixture[str]) -> None:
    @dataclass
    class Found:
        name: str
        values: tuple[int, ...]

    print_json(Found("Fräse", (1, 2)))
    printed = capsys.readouterr().out
    assert json.loads(printed) == {"name": "Fräse", "values": [1, 2]}
    assert "Fräse" in printed
