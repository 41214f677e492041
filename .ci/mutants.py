"""Mutation testing: change the code in small ways and see whether a test notices.

    make mutants PACKAGE=record            a seeded sample of a package
    python .ci/mutants.py record --seed 7 --count 100 --at-least 95
    python .ci/mutants.py record --select "not postgresql"      with these tests alone: quick
    python .ci/mutants.py extract-backup-restore         modules of several packages: see GROUPS
    python .ci/mutants.py record --map /tmp/record.json         the next run needs no coverage

A mutant is one change at one place: a comparison turned round, a statement left out, a constant
off by one, a condition of SQL turned round. The tests that reach the changed line (known from one
run with coverage) are run on a copy of the package, the quickest first; if all pass, the mutant
has survived, and is printed. A mutant that changes nothing that could be observed is listed in
.ci/equivalent-mutants.txt, as it was printed, with the reason. Tests that fail without any mutant
are named, and judge none. Each copy has a place for PostgreSQL servers, with a new cluster that
tests copy: a start takes half a second then.

With --map only the test files that changed are run with coverage, or all where the package has
other modules; lines that an edit moved keep their tests. Tests run in copies of a process that has
loaded pytest and other people's packages.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from queue import SimpleQueue

from reached_lines import OPTIONS, ROOT, Map, Reached, environment_in, modules_of

sys.path.insert(0, str(ROOT / "tests"))
import postgres  # where servers of the tests lie

EQUIVALENT = ROOT / ".ci" / "equivalent-mutants.txt"
LEAST_PATIENCE = 120.0
"""Seconds after which a mutant hangs, which counts as noticed; or five times as long as its tests
took without a mutant."""
FIRST = (12, 60)
"""So many of the quickest tests are run before the others are even collected: they kill most."""
NEIGHBOURS = {
    "annotate": ["execute/test_run_observers.py", "study/test_refusals.py"],
    "experiment": [
        "query/test_comparison.py",
        "query/test_defined_aggregates.py",
        "query/test_doubts.py",
        "query/test_formula_twins.py",
        "study/test_best_intervals.py",
        "study/test_uses.py",
    ],
    "extract-backup-restore": [
        "cli/test_former_digests.py",
        "cli/test_maintenance.py",
        "query/test_sql_reader.py",
        "record/test_artifact_store.py",
        "record/test_database_copy.py",
        "record/test_former_digests.py",
        "record/test_portable.py",
        "record/test_salvage.py",
        "record/test_sqlite_pages.py",
        "record/test_team_roles.py",
        "record/test_upgrade.py",
        "record/test_upkeep.py",
        "record/test_views.py",
        "study/test_equate.py",
        "study/test_extract.py",
        "study/test_identity_check.py",
        "study/test_machines.py",
        "study/test_redact.py",
        "study/test_refill.py",
        "test_foreign_bytes.py",
        "test_trust.py",
    ],
    "record": [
        "query/test_columnar_copy.py",
        "query/test_sql_reader.py",
        "query/test_found_rows.py",
        "query/test_present.py",
        "study/test_cached_points.py",
        "study/test_identity_check.py",
        "test_trust.py",
    ],
    "study": [
        "cli/test_serve.py",
        "query/test_columnar_copy.py",
        "search/test_expected_best.py",
        "show/portal/test_people.py",
        "show/portal/test_versions.py",
    ],
}
"""Tests of other packages that are about what a package does."""

COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip

SQL = re.compile(r"\b(SELECT|DELETE|UPDATE|WHERE|AND|OR|ORDER BY|GROUP BY|EXISTS)\b")
"""What tells a text of SQL from others."""
SQL_CHANGES = tuple(
    (re.compile(pattern), new)
    for pattern, new in (
        (r"\bAND\b", "OR"), (r"\bOR\b", "AND"), (r"\bNOT (?=IN\b|EXISTS\b|NULL\b)", ""),
        (r"(?<!NOT )\b(?=IN \(|EXISTS\b)", "NOT "), (r" = ", " <> "), (r" <> ", " = "),
        (r" < ", " <= "), (r" > ", " >= "), (r" <= ", " < "), (r" >= ", " > "),
        (r"\bmax\(", "min("), (r"\bmin\(", "max("), (r" DESC\b", ""), (r"\bDISTINCT ", ""),
        (r" ORDER BY [\w., ]+", ""), (r" WHERE (?=[\w.{])", " WHERE 1 = 1 OR "),
    )
)  # fmt: skip
"""Changes of conditions and orders; each is made wherever it may be, one at a time."""
LOGS = re.compile(r"(_log|logger)\.|[\w.]+\.log\(_log,")
"""A statement that writes a line of the log and does nothing else."""


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
        """The lines before and after, as the list of equivalent ones has them: numbers move."""
        source = (ROOT / self.path).read_bytes()
        begin = source.rfind(b"\n", 0, self.start) + 1
        end = source.find(b"\n", self.end)
        before, after = source[begin : self.start].decode(), source[self.end : end].decode()
        old, new = (_flat(f"{before}{part}{after}") for part in (self.old, self.new))
        return f"{self.path.as_posix()}: {old} => {new}"


def _flat(text: str) -> str:
    return " ".join(text.split())


def mutants_of(path: Path) -> Iterator[Mutant]:
    """All mutants of the file *path*, which is relative to the project."""
    source = (ROOT / path).read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def bounds(node: ast.AST) -> tuple[int, int]:
        start = starts[node.lineno - 1] + node.col_offset
        return start, starts[node.end_lineno - 1] + node.end_col_offset

    for node in _code(ast.parse(source)):
        if _is_sql(node):
            start, end = bounds(node)
            for first, last, new in _changes_of_sql(source[start:end]):
                old = source[start + first : start + last].decode()
                yield Mutant(path, node.lineno, start + first, start + last, old, new)
        for replaced, new in _changes(node):
            start, end = bounds(replaced)
            yield Mutant(path, replaced.lineno, start, end, source[start:end].decode(), new)


def _is_sql(node: ast.AST) -> bool:
    if isinstance(node, ast.JoinedStr):
        parts = (part.value for part in node.values if isinstance(part, ast.Constant))
        return any(SQL.search(str(part)) for part in parts)
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return is_text and SQL.search(node.value) is not None


def _changes_of_sql(text: bytes) -> Iterator[tuple[int, int, str]]:
    """Where a text of SQL, as it is written, may be changed, and what stands there then."""
    written = text.decode("latin-1")  # a character for each byte, so that places agree
    condition = re.search(r"\b(WHERE|ON|HAVING|AND|OR)\b", written)
    for pattern, new in SQL_CHANGES:
        for match in pattern.finditer(written):
            # Before the first condition, a sign of equality assigns: SET until = ...
            if new != " <> " or (condition and match.start() > condition.start()):
                yield match.start(), match.end(), new


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
            if not isinstance(child, ast.JoinedStr):  # a text; what it names is of other tests
                yield from _code(child)


def _is_ignored(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True  # a docstring
    if isinstance(node, ast.Expr) and LOGS.match(ast.unparse(node)):
        return True  # tests see some of it; that each line is there is no promise
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return True
    if isinstance(node, ast.keyword) and node.arg in {"init", "strict"}:
        return True  # of a field that nobody gives, and of zip, as an assertion
    if isinstance(node, ast.FunctionDef) and not any(map(_does_something, node.body)):
        return True  # an overload, or what a protocol demands: even its defaults are never used
    return isinstance(node, ast.Import | ast.ImportFrom | ast.Assert)


def _does_something(statement: ast.stmt) -> bool:
    return not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))


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
        # Whoever asks for a truth takes None for False; that it becomes True is another mutant.
        case ast.Return(value=value) if value and ast.unparse(value) not in {"None", "False"}:
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

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()
        shutil.copytree(ROOT / "zenturio", folder / "zenturio", symlinks=True)
        for path in ROOT.iterdir():
            if path.name not in {"zenturio", ".git", ".zenturio", ".hypothesis"}:
                (folder / path.name).symlink_to(path)
        # Short, for the path of a socket has at most 107 bytes.
        self._servers = Path(tempfile.mkdtemp(prefix="zen-pg-", dir=postgres.place_of_servers()))
        if all(map(shutil.which, postgres.PROGRAMS)):
            postgres.new_cluster(self._servers)
        environment = {**environment_in(folder), postgres.PLACE: str(self._servers)}
        self._loaded = subprocess.Popen(
            [sys.executable, "-P", "-c", LOADED], cwd=folder, env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def close(self) -> None:
        self._loaded.communicate()
        shutil.rmtree(self._servers)

    def judge(self, mutant: Mutant, tests: list[str], patience: float) -> str:
        """``survived`` where all *tests* pass on the mutant, ``killed``, or ``hangs``."""
        path = self._folder / mutant.path
        source = path.read_bytes()
        path.write_bytes(source[: mutant.start] + mutant.new.encode() + source[mutant.end :])
        verdict = "survived"
        try:
            for start, end in pairwise((0, *FIRST, len(tests))):
                if verdict == "survived" and (part := tests[start:end]):
                    verdict = self._run(part, patience)
        finally:
            path.write_bytes(source)
            postgres.end_servers(self._servers)
        return verdict

    def _run(self, tests: list[str], patience: float) -> str:
        request = [patience, [*OPTIONS, *tests, "-x", "-q", "--no-cov"]]
        assert self._loaded.stdin is not None, "it is a pipe"
        assert self._loaded.stdout is not None, "it is a pipe"
        self._loaded.stdin.write(json.dumps(request).encode() + b"\n")
        self._loaded.stdin.flush()
        answer = self._loaded.stdout.readline().decode().strip()
        return {"0": "survived", "hangs": "hangs"}.get(answer, "killed")


LOADED = """
import contextlib, importlib, json, os, select, signal, sys
import pytest
for name in ("coverage", "hypothesis.stateful", "numpy", "psycopg", "re2", "typer.testing",
             "sqlalchemy.dialects.postgresql", "sqlalchemy.dialects.sqlite", "xdist.plugin"):
    with contextlib.suppress(ImportError):
        importlib.import_module(name)
for line in sys.stdin:
    patience, arguments = json.loads(line)
    pid = os.fork()
    if not pid:
        os.setsid()
        quiet = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(quiet, stream)
        sys.exit(pytest.main(arguments))
    ended = select.select([os.pidfd_open(pid)], [], [], patience)[0]
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)  # a mutant may leave children of its own behind
    status = os.waitpid(pid, 0)[1]
    print(status if ended else "hangs", flush=True)
"""
"""A process that runs pytest in a copy of itself for each line that it reads, and prints how that
ended. It has loaded what takes long, and nothing of zenturio, which is another one each time."""


def verdicts(sample: list[Mutant], reach: Reached, jobs: int, folder: Path) -> Iterator[str]:
    """Yield what became of each mutant of *sample*, so many at a time."""
    equivalent = _equivalent()
    copies: SimpleQueue[Copy] = SimpleQueue()

    def judge(mutant: Mutant) -> str:
        if mutant.key in equivalent:
            return "equivalent"
        tests = reach.chosen(mutant.path, mutant.line)
        if not tests:
            return "not reached"
        copy = copies.get()
        try:
            return copy.judge(mutant, tests, max(LEAST_PATIENCE, 5 * reach.seconds_of(tests)))
        finally:
            copies.put(copy)

    with ExitStack() as stack:
        for number in range(jobs):
            copy = Copy(folder / f"copy{number}")
            stack.callback(copy.close)
            copies.put(copy)
        yield from stack.enter_context(ThreadPoolExecutor(jobs)).map(judge, sample)


def _equivalent() -> set[str]:
    return {line.partition("  # ")[0] for line in EQUIVALENT.read_text().splitlines()}


def sampled(package: str, count: int, seed: int) -> list[Mutant]:
    """Return *count* mutants of *package*, and print which equivalent ones are none any more."""
    paths = [path.relative_to(ROOT) for path in modules_of(package)]
    mutants = [mutant for path in paths for mutant in mutants_of(path)]
    keys = {mutant.key for mutant in mutants}
    modules = {path.as_posix() for path in paths}
    for key in sorted(_equivalent() - keys):
        if key.startswith(f"zenturio/{package}/") or key.partition(": ")[0] in modules:
            print(f"listed as equivalent, and no mutant any more: {key}", flush=True)
    sample = random.Random(seed).sample(mutants, min(count, len(mutants)))
    print(f"{len(mutants):,} mutants of {package}, {len(sample)} tried", flush=True)
    return sample


def report(sample: list[Mutant], verdicts: Iterable[str]) -> float:
    """Print each mutant that nobody noticed, and the counts; return the percentage killed."""
    counts: Counter[str] = Counter()
    begun = time.monotonic()
    for number, (mutant, verdict) in enumerate(zip(sample, verdicts, strict=True), 1):
        counts[verdict] += 1
        if verdict in {"survived", "not reached"}:
            print(
                f"{verdict} ({number}): {mutant.path}:{mutant.line}\n    {mutant.key}", flush=True
            )
    judged = len(sample) - counts["equivalent"]
    score = 100.0 * (counts["killed"] + counts["hangs"]) / max(judged, 1)
    print(f"{dict(counts)} in {time.monotonic() - begun:.0f} s: {score:.0f}% killed")
    return score


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("package", help="a package of zenturio, such as record, or a group")
    parser.add_argument("--count", type=int, default=60, help="mutants that are tried (60)")
    parser.add_argument("--seed", type=int, default=0, help="which sample (0)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="at a time")
    parser.add_argument("--tests", nargs="*", default=[], help="more tests than tests/PACKAGE")
    parser.add_argument("--select", default="", help="only tests that pytest -k takes")
    parser.add_argument("--map", type=Path, help="file that keeps which tests reach which line")
    parser.add_argument("--at-least", type=float, default=0.0, help="fail below so many percent")
    return parser.parse_args()


def main() -> None:
    arguments = _arguments()
    package, jobs = arguments.package, arguments.jobs
    neighbours = [f"tests/{name}" for name in NEIGHBOURS.get(package, ())]
    own = [name for name in (f"tests/{package}",) if (ROOT / name).exists()]
    tests = [*own, *neighbours, *arguments.tests]
    with tempfile.TemporaryDirectory(prefix="zenturio-mutants-") as name:
        folder = Path(name)
        reach = Map(arguments.map, package, tests, arguments.select, jobs).read(folder)
        sample = sampled(package, arguments.count, arguments.seed)
        score = report(sample, verdicts(sample, reach, jobs, folder))
    sys.exit(score < arguments.at_least)


if __name__ == "__main__":
    main()
