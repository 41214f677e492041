"""Mutation testing: change the code in small ways and see whether a test notices.

    make mutants PACKAGE=record            a seeded sample of a package
    python .ci/mutants.py record --seed 7 --count 100 --at-least 95
    python .ci/mutants.py record --select "not postgresql"      with these tests alone: quick
    python .ci/mutants.py record --map /tmp/record.json         the next run needs no coverage

A mutant is one change at one place: a comparison turned round, a statement left out, a constant
off by one. The tests that reach the changed line (known from one run with coverage) are run on a
copy of the package, the quickest first; if all pass, the mutant has survived, and is printed. A
mutant that changes nothing that could be observed is listed in .ci/equivalent-mutants.txt with the
reason. Tests that fail without any mutant are named, and judge none.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from xml.etree import ElementTree as ET

import coverage

ROOT = Path(__file__).resolve().parent.parent
EQUIVALENT = ROOT / ".ci" / "equivalent-mutants.txt"
LEAST_PATIENCE = 120.0
"""Seconds after which the tests of a mutant count as having noticed it, for it hangs; or three
times as long as all tests took without a mutant, where the machine is busy."""
MOST_TESTS = 400
"""A line that more tests reach is judged by the quickest of them."""

COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    path: Path
    line: int
    start: int
    end: int
    """Bytes of the file that are replaced."""
    old: str
    new: str

    @property
    def key(self) -> str:
        """What it is called in the list of equivalent ones: lines move, words do not."""
        return f"{self.path.as_posix()}: {_flat(self.old)} -> {_flat(self.new)}"


def _flat(text: str) -> str:
    return " ".join(text.split())


def mutants_of(path: Path) -> Iterator[Mutant]:
    """All mutants of the file *path*, which is relative to the project."""
    source = (ROOT / path).read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node in _code(ast.parse(source)):
        for replaced, new in _changes(node):
            start = starts[replaced.lineno - 1] + replaced.col_offset
            end = starts[replaced.end_lineno - 1] + replaced.end_col_offset
            old = source[start:end].decode()
            yield Mutant(path, replaced.lineno, start, end, old, new)


def _code(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes that are executed: no annotations, no docstrings, no blocks for type checkers."""
    for name, value in ast.iter_fields(tree):
        if name in {"annotation", "returns", "decorator_list", "type_params"}:
            continue
        children = value if isinstance(value, list) else [value]
        for child in children:
            if not isinstance(child, ast.AST) or _is_ignored(child):
                continue
            yield child
            yield from _code(child)


def _is_ignored(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True  # a docstring
    if isinstance(node, ast.Expr) and ast.unparse(node).startswith("logger."):
        return True
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return True
    return isinstance(node, ast.Import | ast.ImportFrom | ast.Assert | ast.JoinedStr)


def _changes(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Pairs of a node and the text that takes its place."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in COMPARISONS:
            new = ast.Compare(node.left, [COMPARISONS[type(operator)]()], node.comparators)
            yield node, f"({ast.unparse(new)})"
        case ast.BoolOp(op=operator, values=values):
            other = ast.Or() if isinstance(operator, ast.And) else ast.And()
            yield node, f"({ast.unparse(ast.BoolOp(other, values))})"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield node, f"({ast.unparse(operand)})"
        case ast.BinOp(op=operator) if type(operator) in OPERATORS and not (
            _is_text(node) or _is_type(node)
        ):
            new = ast.BinOp(node.left, OPERATORS[type(operator)](), node.right)
            yield node, f"({ast.unparse(new)})"
        case ast.Constant(value=bool() as value):
            yield node, str(not value)
        case ast.Constant(value=int() as value):
            yield node, str(value + 1)
        case ast.Return(value=value) if value is not None and ast.unparse(value) != "None":
            yield node, "return None"
        case ast.If(test=test) | ast.While(test=test) if not isinstance(test, ast.Constant):
            yield test, "False"
        case ast.Expr(value=ast.Call()) | ast.AugAssign():
            yield node, "pass"
        case ast.Break():
            yield node, "continue"
        case ast.Continue():
            yield node, "break"


def _is_text(node: ast.BinOp) -> bool:
    return any(
        isinstance(side, ast.JoinedStr)
        or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in (node.left, node.right)
    )


def _is_type(node: ast.AST) -> bool:
    """Whether it is a union of types, which nothing executes: ``int | Series``."""
    match node:
        case ast.BinOp(op=ast.BitOr(), left=left, right=right):
            return _is_type(left) and _is_type(right)
        case ast.Name(id=name):
            return isinstance(vars(builtins).get(name), type) or name.istitle()
    return isinstance(node, ast.Constant) and node.value is None


class Copy:
    """A copy of the project in which one mutant at a time lives."""

    def __init__(self, folder: Path, patience: float) -> None:
        self._folder = folder
        self._patience = patience
        shutil.copytree(ROOT / "zenturio", folder / "zenturio", symlinks=True)
        for path in ROOT.iterdir():
            if path.name not in {"zenturio", ".git", ".zenturio"}:
                (folder / path.name).symlink_to(path)

    def survives(self, mutant: Mutant, tests: list[str]) -> bool:
        """Whether all *tests* pass on the mutant."""
        path = self._folder / mutant.path
        source = path.read_bytes()
        path.write_bytes(source[: mutant.start] + mutant.new.encode() + source[mutant.end :])
        try:
            options = ("-x", "-q", "--no-cov")
            return _pytest(self._folder, *tests, *options, patience=self._patience) == 0
        finally:
            path.write_bytes(source)


def _pytest(folder: Path, *arguments: str, patience: float | None = None) -> int:
    environment = dict(os.environ, PYTHONPATH=str(folder), PYTHONDONTWRITEBYTECODE="1")
    command = [sys.executable, "-P", "-m", "pytest", "-p", "no:cacheprovider", "-m", "not slow"]
    process = subprocess.Popen(
        [*command, *arguments], cwd=folder, env=environment, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        return process.wait(patience)
    except subprocess.TimeoutExpired:
        return 1
    finally:
        # A mutant may have left children of its own behind.
        if process.poll() is None:
            os.killpg(process.pid, 9)
            process.wait()


Reached = dict[str, dict[int, list[str]]]
"""By file and line, the tests that reach it, the quickest first."""


def reached(package: str, more: list[str], select: str, folder: Path) -> Reached:
    """Which tests reach which line of *package*: one run of its tests with coverage."""
    data, report = folder / "coverage", folder / "tests.xml"
    code = _pytest(
        ROOT, f"tests/{package}", *more, "-k", select, "-q", f"--cov=zenturio/{package}",
        "--cov-context=test", "--cov-branch", "--cov-report=", f"--junitxml={report}",
        f"--cov-config={_configuration(folder, data)}",
    )  # fmt: skip
    if code not in (0, 1) or not report.exists():
        sys.exit(f"the tests of {package} could not be run: pytest ended with {code}")
    seconds, failed = _outcomes(report)
    for test in failed:
        print(f"fails without any mutant, and judges none: {test}", flush=True)
    measured = coverage.CoverageData(str(data))
    measured.read()
    lines: Reached = {}
    for file in measured.measured_files():
        name = Path(file).resolve().relative_to(ROOT).as_posix()
        for line, contexts in measured.contexts_by_lineno(file).items():
            tests = {each.rpartition("|")[0] for each in contexts if each} - failed
            lines.setdefault(name, {})[line] = sorted(tests, key=lambda t: seconds.get(t, 0.0))
    every = {test for tests in lines.values() for at in tests.values() for test in at}
    quickest = sorted(every, key=lambda test: seconds.get(test, 0.0))
    # What runs when a module is loaded, a constant above all, is reached by each of them.
    return {n: {line: at or quickest for line, at in tests.items()} for n, tests in lines.items()}


def _outcomes(report: Path) -> tuple[dict[str, float], set[str]]:
    """How long each test took, and which failed, after what pytest wrote."""
    seconds, failed = {}, set()
    for case in ET.parse(report).iter("testcase"):
        # The name of a class follows that of its file; the methods of a contract are inherited.
        parts = case.get("classname", "").split(".")
        files = (
            i
            for i in range(len(parts))
            if (ROOT / Path(*parts[: i + 1])).with_suffix(".py").exists()
        )
        end = next(files, len(parts) - 1) + 1
        test = "::".join(["/".join(parts[:end]) + ".py", *parts[end:], case.get("name", "")])
        seconds[test] = float(case.get("time", 0.0))
        if case.find("failure") is not None or case.find("error") is not None:
            failed.add(test)
    return seconds, failed


def _kept_map(path: Path | None) -> Reached | None:
    """What an earlier run wrote; lines of files that were edited since would be others."""
    if path is None or not path.exists():
        return None
    stored = json.loads(path.read_text())
    return {n: {int(line): at for line, at in tests.items()} for n, tests in stored.items()}


def _configuration(folder: Path, data: Path) -> Path:
    path = folder / "coveragerc"
    path.write_text(f"[run]\nbranch = True\ndata_file = {data}\nconcurrency = thread\n")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("package", help="a package of zenturio, such as record")
    parser.add_argument("--count", type=int, default=60, help="mutants that are tried (60)")
    parser.add_argument("--seed", type=int, default=0, help="which sample (0)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="at a time")
    parser.add_argument("--tests", nargs="*", default=[], help="more tests than tests/PACKAGE")
    parser.add_argument("--select", default="", help="only tests that pytest -k takes")
    parser.add_argument("--map", type=Path, help="file that keeps which tests reach which line")
    parser.add_argument("--at-least", type=float, default=0.0, help="fail below so many percent")
    arguments = parser.parse_args()
    generator = random.Random(arguments.seed)
    equivalent = {line.partition("  # ")[0] for line in EQUIVALENT.read_text().splitlines()}
    with tempfile.TemporaryDirectory(prefix="zenturio-mutants-") as name:
        folder = Path(name)
        begun = time.monotonic()
        lines = _kept_map(arguments.map)
        if lines is None:
            lines = reached(arguments.package, arguments.tests, arguments.select, folder)
            if arguments.map is not None:
                arguments.map.write_text(json.dumps(lines))
        patience = max(LEAST_PATIENCE, 3 * (time.monotonic() - begun))
        paths = sorted((ROOT / "zenturio" / arguments.package).rglob("*.py"))
        every = [m for path in paths for m in mutants_of(path.relative_to(ROOT))]
        sample = generator.sample(every, min(arguments.count, len(every)))
        print(f"{len(every):,} mutants of {arguments.package}, {len(sample)} tried", flush=True)
        copies: SimpleQueue[Copy] = SimpleQueue()
        for number in range(arguments.jobs):
            copies.put(Copy(_made(folder / f"copy{number}"), patience))

        def judge(mutant: Mutant) -> str:
            if mutant.key in equivalent:
                return "equivalent"
            tests = lines.get(mutant.path.as_posix(), {}).get(mutant.line, [])
            if not tests:
                return "not reached"
            copy = copies.get()
            try:
                return "survived" if copy.survives(mutant, tests[:MOST_TESTS]) else "killed"
            finally:
                copies.put(copy)

        counts: dict[str, int] = {}
        begun = time.monotonic()
        with ThreadPoolExecutor(arguments.jobs) as pool:
            for mutant, verdict in zip(sample, pool.map(judge, sample), strict=True):
                counts[verdict] = counts.get(verdict, 0) + 1
                if verdict in {"survived", "not reached"}:
                    print(f"{verdict}: {mutant.path}:{mutant.line}\n    {mutant.key}", flush=True)
        judged = len(sample) - counts.get("equivalent", 0)
        score = 100.0 * counts.get("killed", 0) / max(judged, 1)
        print(f"{counts} in {time.monotonic() - begun:.0f} s: {score:.0f}% killed")
        sys.exit(score < arguments.at_least)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


if __name__ == "__main__":
    main()
