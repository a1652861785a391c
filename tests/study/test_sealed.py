"""No public function of the package gives a target row before the ledger holds an opening: all of them are tried.

The plain rows exist only as output of the vault's keystream, so it is enough to watch that one function: whatever is
called, with the sealed file, the vault or the study folder as its path, the keystream may run only when the ledger of
that study says 'opening' or 'release' already.
"""

import asyncio
import importlib
import inspect
import io
import pkgutil
import shutil
import signal
import sys
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from traceback import walk_stack
from types import FrameType
from typing import Any

import numpy as np
import pytest

import crossfeed
from crossfeed.errors import CrossfeedError
from crossfeed.logs.table import Table
from crossfeed.progress import be_quiet
from crossfeed.study import vault
from crossfeed.study.record.store import Store
from crossfeed.study.study import Study
from tests.study.conftest import kinds
from tests.training.conftest import TOY, toy_table

# The only public ways to the rows; each of them writes its right to the ledger first.
READERS = {
    "crossfeed.cli.study.unseal",
    "crossfeed.study.opening.unseal",
    "crossfeed.study.study.Study.unseal",
}
# Parameters that only say where to write; a function with no other path has nothing to read.
WRITTEN = ("out", "to")
CPU_SECONDS, WALL_SECONDS = 1.5, 20.0
IMPORTING = "<frozen importlib._bootstrap>"


class TooLong(BaseException):
    """Not an Exception, so that no function under test swallows it."""


@dataclass
class Watch:
    """Who made the vault give rows, and what the ledger said at that moment."""

    folder: Path = Path()
    caller: str = ""
    sealing: bool = False
    reads: list[tuple[str, bool]] = field(default_factory=list)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        keystream, seal = vault._apply_keystream, vault.seal

        def watched(content: bytes, key: str) -> bytes:
            if not self.sealing:
                recorded = {"opening", "release"} & set(kinds(Study(self.folder)))
                self.reads.append((self.caller, bool(recorded)))
            return keystream(content, key)

        def sealing(*arguments: Any) -> dict[str, Any]:
            self.sealing = True
            try:
                return seal(*arguments)
            finally:
                self.sealing = False

        monkeypatch.setattr(vault, "_apply_keystream", watched)
        monkeypatch.setattr(vault, "seal", sealing)


@dataclass
class Copy:
    """A copy of the study that every call finds untouched; made again only after a call that changed something."""

    original: Path
    folder: Path
    made: dict[Path, tuple[int, int]] = field(default_factory=dict)

    def untouched(self) -> Path:
        if not self.made or self._files() != self.made:
            shutil.rmtree(self.folder, ignore_errors=True)
            shutil.copytree(self.original, self.folder)
            self.made = self._files()
        return self.folder

    def _files(self) -> dict[Path, tuple[int, int]]:
        found = ((path, path.stat()) for path in self.folder.rglob("*"))
        return {path: (status.st_mtime_ns, status.st_size) for path, status in found}


def public_callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every public function, class and method of the package under its dotted name."""
    for module in pkgutil.walk_packages(crossfeed.__path__, "crossfeed."):
        if module.name.endswith("__main__"):
            continue
        try:
            content = vars(importlib.import_module(module.name))
        except ModuleNotFoundError as error:
            if str(error.name).startswith("crossfeed"):
                raise
            continue  # a module for hardware or an extra that is not there
        for name, found in content.items():
            if name.startswith("_") or getattr(found, "__module__", None) != module.name:
                continue
            if inspect.isfunction(found):
                yield f"{module.name}.{name}", found
            elif inspect.isclass(found):
                yield from _methods(f"{module.name}.{name}", found)


def _methods(label: str, owner: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, member in vars(owner).items():
        if name.startswith("_"):
            continue
        if isinstance(member, classmethod | staticmethod):
            yield f"{label}.{name}", getattr(owner, name)
        elif inspect.isfunction(member):

            def call(_owner: type = owner, _name: str = name, **arguments: Any) -> Any:
                mine = {key[5:]: value for key, value in arguments.items() if key.startswith("self.")}
                rest = {key: value for key, value in arguments.items() if not key.startswith("self.")}
                return getattr(_owner(**mine), _name)(**rest)

            call.owner, call.method = owner, member  # type: ignore[attr-defined]
            yield f"{label}.{name}", call


def hints(function: Callable[..., Any]) -> dict[str, str]:
    """The annotations of the parameters, as text."""
    try:
        found = typing.get_type_hints(function)
    except (NameError, TypeError):
        found = getattr(function, "__annotations__", {})
    return {name: str(hint) for name, hint in found.items()}


def arguments_for(function: Callable[..., Any], path: Path, study: Path) -> dict[str, Any] | None:
    """Arguments that lead to the target if anything can; nothing for a function that takes no path."""
    own = getattr(function, "method", function)
    known, leading = hints(own), False
    found: dict[str, Any] = {}
    parts = [("", inspect.signature(own), known)]
    if own is not function:
        owner = function.owner  # type: ignore[attr-defined]
        parts = [("self.", inspect.signature(owner), hints(owner.__init__)), ("", inspect.signature(own), known)]
    for prefix, signature, types in parts:
        for name, parameter in signature.parameters.items():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or name == "self":
                continue
            text = types.get(name, "")
            value, leads = _value(text, path, study)
            if leads or (value is not None and parameter.default is parameter.empty):
                found[prefix + name] = value
                leading |= leads and prefix + name not in WRITTEN
            elif parameter.default is parameter.empty:
                return None
    return found if leading else None


def _value(text: str, path: Path, study: Path) -> tuple[Any, bool]:
    """A value for a parameter of this type, and whether it leads to the study."""
    if "Path" in text:
        many = any(word in text for word in ("list[", "Sequence[", "Iterable[", "tuple["))
        return ([path] if many else path), True
    if "Store" in text or text.endswith("Study'>") or text == "Study":
        return (Store(study) if "Store" in text else Study(study)), True
    if "RunConfig" in text:
        return Study(study).config, False
    if "Schema" in text:
        return TOY, False
    plain = {"str": "control", "int": 1, "float": 1.0, "bool": False}
    word = text.removeprefix("<class '").removesuffix("'>")
    return plain.get(word), False


def called_with(function: Callable[..., Any], arguments: dict[str, Any]) -> None:
    """The call itself: only in here, and in what it calls, may time run out."""
    result = function(**arguments)
    if inspect.isgenerator(result):
        next(result, None)
    elif inspect.iscoroutine(result):
        asyncio.run(result)


@contextmanager
def limited(label: str) -> Iterator[None]:
    """No call may take longer than a moment, apart from those that must come to the rows, however busy the machine."""
    patience = 100.0 if label in READERS else 1.0

    def stop(_: int, frame: FrameType | None) -> None:
        # On a busy machine the next alarm came while the last one was still being cleaned up, and ended the test; and
        # it came inside an import, whose module was then half there for everybody: the alarm after that one will do.
        frames = list(walk_stack(frame))
        importing = any(each.f_code.co_filename == IMPORTING for each, _ in frames)
        if not importing and any(each.f_code is called_with.__code__ for each, _ in frames):
            raise TooLong

    before = {number: signal.signal(number, stop) for number in (signal.SIGALRM, signal.SIGVTALRM)}
    # Again after a while, in case the first one struck where Python drops exceptions.
    signal.setitimer(signal.ITIMER_VIRTUAL, patience * CPU_SECONDS, 1.0)
    signal.setitimer(signal.ITIMER_REAL, patience * WALL_SECONDS, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_no_public_function_reads_the_target_before_the_ledger_says_so(
    locked_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    watch = Watch()
    watch.install(monkeypatch)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    monkeypatch.setattr(sys, "argv", ["crossfeed"])
    monkeypatch.chdir(tmp_path)
    be_quiet()
    called: set[str] = set()
    copy = Copy(locked_folder, tmp_path / "copy")
    for label, function in public_callables():
        for place in ("vault/target.sealed", ""):
            if arguments_for(function, locked_folder / place, locked_folder) is None:
                break
            watch.folder, watch.caller = copy.untouched(), label
            arguments = arguments_for(function, watch.folder / place, watch.folder)
            assert arguments is not None
            called.add(label)
            try:
                with limited(label):
                    called_with(function, arguments)
            except (Exception, SystemExit, TooLong):
                pass  # refusing is right; what counts is that nothing was read
            if not {str(watch.folder / place), str([watch.folder / place])} & set(map(str, arguments.values())):
                break  # it is given a study and no path, so that the other place would be the same call again
    be_quiet(False)
    capfd.readouterr()
    assert all(recorded for _, recorded in watch.reads)
    assert {caller for caller, _ in watch.reads} == READERS
    rooms = {label.split(".")[1] for label in called}
    assert {"cli", "evaluation", "front", "logs", "model", "study", "training"} <= rooms
    assert {
        "crossfeed.study.vault.reveal",
        "crossfeed.logs.table.Table.read",
        "crossfeed.study.study.Study.rank",
    } <= called


def test_the_vault_holds_no_row_and_no_file_of_a_sealed_study_can_be_read_as_the_target(locked: Study) -> None:
    rows = toy_table("target", sessions=3, rows=40, seed=5, absent=("current_4",))
    pieces = [np.ascontiguousarray(rows.sensors[:, column]).tobytes()[:64] for column in range(4)]
    pieces += [repr(float(value)).encode() for value in rows.sensors[:5, 0]]
    for path in (path for path in locked.store.folder.rglob("*") if path.is_file()):
        content = path.read_bytes()
        assert not any(piece in content for piece in pieces), path
        try:
            found = Table.read(path)
        except CrossfeedError:
            continue
        assert found.machines() == ("source",), path


def test_the_same_rows_are_found_in_a_file_that_is_not_sealed(tmp_path: Path) -> None:
    rows = toy_table("target", sessions=3, rows=40, seed=5, absent=("current_4",))
    rows.write(tmp_path / "target.parquet")
    assert Table.read(tmp_path / "target.parquet").machines() == ("target",)
