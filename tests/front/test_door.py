"""`import crossfeed` costs nothing and offers everything, with examples that run."""

import doctest
import importlib
import inspect
import subprocess
import sys

import pytest

import crossfeed as cf
from tests.front.conftest import House

VERBS = ("adapt", "audit", "curve", "evaluate", "fit", "load", "what_if")


def test_importing_loads_nothing_heavy() -> None:
    heavy = ("torch", "numpy", "polars", "pandas", "pyarrow", "matplotlib", "pydantic", "scipy", "rich")
    code = f"import crossfeed, sys; print([name for name in {heavy} if name in sys.modules], dir(crossfeed))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.startswith("[] ")
    assert all(f"'{name}'" in said for name in cf.__all__)


def test_every_name_of_the_door_leads_somewhere() -> None:
    for name in cf.__all__:
        assert getattr(cf, name) is not None
    assert set(VERBS) < set(cf.__all__)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="train_it"):
        cf.train_it  # noqa: B018


def _examples() -> list[doctest.DocTest]:
    finder = doctest.DocTestFinder(recurse=True)
    found = []
    for name in cf.__all__:
        thing = getattr(cf, name)
        if inspect.isfunction(thing) or inspect.isclass(thing):
            module = importlib.import_module(thing.__module__)
            found += [test for test in finder.find(thing, name, module=module, globs={}) if test.examples]
    return found


def test_every_public_function_has_an_example() -> None:
    shown = {test.name for test in _examples()}
    wanted = {*VERBS, "Table.from_frame", "FittedModel.forecast"}
    wanted |= {"Table", "Schema", "AuditReport", "Forecast", "Evaluation", "WhatIf"}
    assert wanted <= shown, wanted - shown


@pytest.mark.parametrize("example", _examples(), ids=lambda test: test.name)
def test_the_examples_run_as_written(example: doctest.DocTest, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(house.folder)
    said: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example, out=said.append)
    assert not result.failed, "".join(said)
