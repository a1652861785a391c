"""What do the tests notice? Plant small errors, one at a time, in the files that decide numbers, and run their tests.

    make mutants                                   # two hundred errors over all files, seed 0
    python benchmarks/mutants.py --draw 100 --seed 1   # a hundred over all files, each place as likely as any other
    python benchmarks/mutants.py --each 8 --only windows/corrupt.py

An operator, a comparison, a constant, a sign: each mutant changes one of them. A child process forked for every mutant
imports the package with that one change and runs the tests of the file; a mutant that no test notices survives and is
printed with its line, for a person to say whether it does harm. The tests of a file are those that import it by name,
and where there are fewer than two, those of its room. Needs a system that can fork.
"""

import argparse
import ast
import importlib.abc
import importlib.util
import os
import random
import re
import signal
import sys
import time
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Add,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
# Rooms whose files decide numbers; what only shows them is looked at by people.
ROOMS = (
    "schema.py", "logs", "windows", "model", "training", "evaluation", "study", "programs", "scenarios", "live", "sim",
    "control",
)  # fmt: skip
NOTICED, SURVIVED, TOO_LONG, SKIPPED = "noticed", "survived", "noticed (endless)", "skipped"


class Mutation(ast.NodeTransformer):
    """Counts the places where a small error can be planted, and plants one at the place with number `chosen`."""

    def __init__(self, chosen: int = -1) -> None:
        self.chosen, self.count, self.line, self.before = chosen, 0, 0, ""

    def _here(self, node: ast.expr) -> bool:
        self.count += 1
        if self.count - 1 == self.chosen:
            self.line, self.before = node.lineno, ast.unparse(node)
            return True
        return False

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if type(node.op) in SWAPPED and self._here(node):
            node.op = SWAPPED[type(node.op)]()  # type: ignore[assignment]
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        for position, operator in enumerate(node.ops):
            if type(operator) in SWAPPED and self._here(node):
                node.ops[position] = SWAPPED[type(operator)]()  # type: ignore[call-overload]
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        if self._here(node):
            node.op = SWAPPED[type(node.op)]()  # type: ignore[assignment]
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return node.operand if isinstance(node.op, ast.USub | ast.Not) and self._here(node) else node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        value = node.value
        if isinstance(value, bool):
            return ast.copy_location(ast.Constant(not value), node) if self._here(node) else node
        if isinstance(value, int | float) and self._here(node):
            return ast.copy_location(ast.Constant(value + 1 if isinstance(value, int) else value * 1.25 + 0.01), node)
        return node

    def visit_arguments(self, node: ast.arguments) -> ast.AST:
        """Annotations decide no number; defaults do."""
        node.defaults = [self.visit(default) for default in node.defaults]
        node.kw_defaults = [None if default is None else self.visit(default) for default in node.kw_defaults]
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Neither decorators nor what is returned on paper."""
        self.visit(node.args)
        node.body = [self.visit(statement) for statement in node.body]
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.body = [self.visit(statement) for statement in node.body]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.value = None if node.value is None else self.visit(node.value)
        return node

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        """Switches of a call are no numbers, and many only keep an order that is right by luck without them."""
        return (
            node
            if isinstance(node.value, ast.Constant) and isinstance(node.value.value, bool)
            else self.generic_visit(node)
        )

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return node

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        return node


class Planted(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives one module of the package in its changed form."""

    def __init__(self, name: str, path: Path, tree: ast.Module) -> None:
        self.name, self.path, self.tree = name, path, tree

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if fullname != self.name:
            return None
        return importlib.util.spec_from_file_location(fullname, self.path, loader=self)

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self.tree, str(self.path), "exec"), module.__dict__)


def files() -> list[str]:
    """Every file of the rooms that decide numbers."""
    found = [
        path for room in ROOMS for path in sorted((ROOT / "crossfeed").glob(room if "." in room else f"{room}/**/*.py"))
    ]
    return [path.relative_to(ROOT / "crossfeed").as_posix() for path in found if path.name != "__init__.py"]


def tests_of(file: str) -> list[str]:
    """The tests that import a file by name; where hardly any do, those of its room."""
    name, every = "crossfeed." + file[:-3].replace("/", "."), sorted((ROOT / "tests").rglob("test_*.py"))
    package, _, module = name.rpartition(".")
    imports = re.compile(
        rf"(from {re.escape(name)} import|import {re.escape(name)}\b|from {re.escape(package)} import .*\b{module}\b)"
    )
    direct = [path for path in every if imports.search(path.read_text(encoding="utf-8"))]
    near = [path for path in every if path.parent == ROOT / "tests" / Path(file).parent]
    return [str(path) for path in (direct if len(direct) > 1 else dict.fromkeys([*direct, *near]))]


def places(path: Path) -> int:
    """In how many places of a file an error can be planted."""
    counting = Mutation()
    counting.visit(ast.parse(path.read_text(encoding="utf-8")))
    return counting.count


def drawn(files: Sequence[str], each: int | None, together: int, seed: int) -> dict[str, list[int]]:
    """The places of every file at which an error is planted."""
    draw, count = random.Random(seed), {file: places(ROOT / "crossfeed" / file) for file in files}
    if each is not None:
        return {file: sorted(draw.sample(range(count[file]), min(each, count[file]))) for file in files}
    everywhere = [(file, number) for file in files for number in range(count[file])]
    chosen = sorted(draw.sample(everywhere, min(together, len(everywhere))))
    return {file: [number for other, number in chosen if other == file] for file in files}


def try_mutant(file: str, number: int, limit: float) -> tuple[str, Mutation, float]:
    """What became of a mutant (-1: nothing planted), the mutant, and the seconds it took."""
    path = ROOT / "crossfeed" / file
    mutation = Mutation(number)
    tree = ast.fix_missing_locations(mutation.visit(ast.parse(path.read_text(encoding="utf-8"))))
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        code = 3
        try:
            code = _tests_of(file, Planted("crossfeed." + file[:-3].replace("/", "."), path, tree))
        finally:
            os._exit(code)
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() - began > limit:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return TOO_LONG, mutation, time.monotonic() - began
        time.sleep(0.02)
    code = os.waitstatus_to_exitcode(status)
    outcome = {pytest.ExitCode.OK: SURVIVED, pytest.ExitCode.NO_TESTS_COLLECTED: SKIPPED}.get(code, NOTICED)
    return outcome, mutation, time.monotonic() - began


def _tests_of(file: str, planted: Planted) -> int:
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    sys.meta_path.insert(0, planted)
    return int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests_of(file)]))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--each", type=int, help="so many mutants of every file, instead of a draw over all")
    options.add_argument("--draw", type=int, default=200, help="mutants of all files together")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--only", nargs="*", default=files(), metavar="FILE", help="some of the files")
    chosen = options.parse_args()
    unknown = [file for file in chosen.only if file not in files()]
    if unknown:
        options.error(f"{', '.join(unknown)}: no file of {', '.join(ROOMS)}")
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    # Everything but the package itself: a child imports that anew, with its error in it.
    import hypothesis  # noqa: F401
    import polars  # noqa: F401
    import pydantic  # noqa: F401
    import scipy.stats  # noqa: F401
    import torch

    torch.set_num_threads(1)
    noticed, survivors, untried = 0, [], []
    for file, numbers in drawn(chosen.only, chosen.each, chosen.draw, chosen.seed).items():
        if not numbers:
            continue
        outcome, _, seconds = try_mutant(file, -1, 600.0)
        if outcome != SURVIVED:
            why = "need an extra that is not here" if outcome == SKIPPED else "fail without any error planted"
            print(f"{file}: its tests {why}", flush=True)
            untried.append(file)
            continue
        lines = (ROOT / "crossfeed" / file).read_text(encoding="utf-8").splitlines()
        for number in numbers:
            outcome, mutant, _ = try_mutant(file, number, 5.0 * seconds + 30.0)
            print(f"{file}:{mutant.line} {outcome}: '{mutant.before}' in {lines[mutant.line - 1].strip()}", flush=True)
            noticed += outcome != SURVIVED
            survivors += [f"{file}:{mutant.line}"] if outcome == SURVIVED else []
    planted = noticed + len(survivors)
    print(f"{noticed} of {planted} noticed. Survivors: {', '.join(survivors) or 'none'}")
    if untried:
        print(f"Not tried: {', '.join(untried)}")
    sys.exit(0 if noticed >= 0.9 * planted and not untried else 1)


if __name__ == "__main__":
    main()
