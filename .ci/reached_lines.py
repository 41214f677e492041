"""Which tests reach which line of a package: learnt in one run with coverage, and remembered.

An edit of a test file lets that file be run again; lines of the package that were moved keep their
tests.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import coverage

ROOT = Path(__file__).resolve().parent.parent
MOST_TESTS = 150
"""A line that more tests reach is judged by the quickest of them, by the quickest on PostgreSQL,
by those that reach one of the next lines where few do, and by those that reach the fewest lines."""
OPTIONS = ("-p", "no:cacheprovider", "--assert=plain", "-m", "not slow")
"""Rewriting assertions takes longer than most tests; nobody reads their messages."""


GROUPS = {
    "extract-backup-restore": [
        "record/database_copy.py",
        "record/maintenance.py",
        "record/salvage.py",
        "record/sqlite_pages.py",
        "study/reprocess_experiments.py",
    ],
}
"""Modules of several packages that are tried together, as if they were one."""


def modules_of(package: str) -> list[Path]:
    """Return the modules of a package, or of a group, of zenturio."""
    source = ROOT / "zenturio"
    if package in GROUPS:
        return [source / name for name in GROUPS[package]]
    return sorted((source / package).rglob("*.py"))


def environment_in(folder: Path) -> dict[str, str]:
    return dict(os.environ, PYTHONPATH=str(folder), PYTHONDONTWRITEBYTECODE="1")


@dataclass(frozen=True)
class Reached:
    """Which tests reach which line, and how long each takes."""

    lines: dict[str, dict[int, list[str]]]
    """By file and line; of a line that runs when its module is loaded none, or who loaded it."""
    seconds: dict[str, float]

    def chosen(self, path: Path, line: int) -> list[str]:
        """The tests that judge a change of that line of a file, the quickest first."""
        lines = self.lines.get(path.as_posix(), {})
        # What runs when its module is loaded, a constant above all, is reached before any test, or
        # by the test that happened to load it: it is judged by those that reach its name
        # elsewhere, a default by those that enter its function, or else by all of the same file.
        tests: Iterable[str] | None = lines.get(line)
        scope = _loaded_with(ROOT / path, line)
        if line in lines and (scope is not None or not tests):
            inside = (tests for number, tests in lines.items() if number in (scope or ()))
            tests = self._naming(path, line) or set().union(*inside) or set().union(*lines.values())
        candidates = sorted(tests or (), key=self._cost)
        if len(candidates) > MOST_TESTS:
            half = MOST_TESTS // 2
            rest = sorted(candidates[half:], key=lambda test: (self._breadth[test], test))
            # A statement may be right on one database alone, and tests on a server are never quick.
            on_server = [test for test in candidates[half:] if "postgresql" in test][: half // 3]
            # Of a condition those that reach what hangs on it, where few do.
            behind = min((lines.get(line + n) or candidates for n in (1, 2, 3)), key=len)
            near = [test for test in rest if test in set(behind)][: half // 3]
            special = list(dict.fromkeys([*near, *on_server, *rest]))[:half]
            candidates = [*candidates[:half], *sorted(special, key=self._cost)]
        return candidates

    def _naming(self, path: Path, line: int) -> set[str]:
        """The tests that reach a line with a name that this line assigns, in any module.

        So are those that have the name themselves: a dataclass writes constructors without lines.
        """
        assigned = _assigned(ROOT / path, line)
        if not assigned:
            return set()
        assigned |= _made_of(assigned, [ROOT / module for module in self.lines])
        name = re.compile(rf"\b({'|'.join(assigned)})\b")
        reaching = {
            test
            for module, tests_by_line in self.lines.items()
            for number, text in enumerate((ROOT / module).read_text().splitlines(), 1)
            if name.search(text)
            for test in tests_by_line.get(number, ())
        }
        return reaching | {test for test in self.seconds if name.search(_text_of(test))}

    def seconds_of(self, tests: Iterable[str]) -> float:
        return sum(self.seconds.get(test, 0.0) for test in tests)

    def _cost(self, test: str) -> tuple[float, str]:
        return self.seconds.get(test, 0.0), test

    @cached_property
    def _breadth(self) -> Counter[str]:
        """How many lines each test reaches."""
        reaching = (tests for lines in self.lines.values() for tests in lines.values())
        return Counter(test for tests in reaching for test in tests)

    def merged(self, other: Reached) -> Reached:
        """The tests of both."""
        lines = {name: dict(tests_by_line) for name, tests_by_line in self.lines.items()}
        for name, tests_by_line in other.lines.items():
            merged = lines.setdefault(name, {})
            for line, tests in tests_by_line.items():
                merged[line] = [*merged.get(line, ()), *tests]
        return Reached(lines, {**self.seconds, **other.seconds})


def _text_of(test: str) -> str:
    name = test.partition("[")[0]
    return _functions(ROOT / name.partition("::")[0]).get(name.rpartition("::")[2], "")


@lru_cache
def _functions(path: Path) -> dict[str, str]:
    """The text of each function of a test file, by its name."""
    source = path.read_text() if path.exists() else ""
    lines = source.splitlines()
    return {
        node.name: "\n".join(lines[node.lineno - 1 : node.end_lineno])
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef)
    }


def _assigned(path: Path, line: int) -> set[str]:
    """The names that get a value in this line of a module, or in a statement that it is part of."""
    return {
        name.id
        for node in ast.walk(_parsed(path))
        if (targets := _targets(node)) and node.lineno <= line <= (node.end_lineno or 0)
        for name in _names(targets)
    }


@lru_cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text()) if path.exists() else ast.Module([], [])


def _loaded_with(path: Path, line: int) -> range | None:
    """Return the body of the function to whose head this *line* belongs; empty outside of all.

    None in a body: such a line runs when its function is called. None of a file that is gone.
    """
    if not path.exists():
        return None
    functions = [
        node
        for node in ast.walk(_parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    scope = range(0)
    for function in functions:
        body = range(function.body[0].lineno, (function.end_lineno or 0) + 1)
        if line in body:
            return None
        if function.lineno <= line < body.start:
            scope = body
    return scope


def _made_of(names: set[str], paths: Iterable[Path]) -> set[str]:
    """The names that modules assign when they are loaded, and that are made of one of *names*."""
    statements = [
        ({name.id for name in _names(targets)}, {name.id for name in _names([statement])})
        for path in paths
        for statement in _parsed(path).body
        if (targets := _targets(statement))
    ]
    made: set[str] = set()
    while (
        new := set().union(*(a for a, used in statements if used & (names | made))) - made - names
    ):
        made |= new
    return made


def _names(nodes: Iterable[ast.AST]) -> Iterator[ast.Name]:
    return (n for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name))


def _targets(statement: ast.AST) -> list[ast.expr]:
    """What a statement assigns to; nothing if it does not assign."""
    match statement:
        case ast.Assign(targets=targets):
            return targets
        case ast.AnnAssign(target=target):
            return [target]
    return []


def reached(package: str, select: str, jobs: int, tests: list[str], folder: Path) -> Reached:
    """Which lines of *package* its *tests* reach: one run of them with coverage."""
    data, report, configuration = (folder / name for name in ("coverage", "tests.xml", "rc"))
    names = ",".join(map(str, modules_of(package)))
    configuration.write_text(
        f"[run]\ndata_file = {data}\nconcurrency = thread\ninclude = {names}\n"
    )
    command = [
        sys.executable, "-P", "-m", "pytest", *OPTIONS, *tests, "-k", select, "-q",
        "-n", str(jobs), "--dist", "worksteal",
        "--cov", "--cov-context=test", "--cov-report=", f"--cov-config={configuration}",
        f"--junitxml={report}",
    ]  # fmt: skip
    # Commands in copies of a loaded process count, too: see tests/loaded.py.
    environment = {
        **environment_in(ROOT),
        "ZENTURIO_COVER_LAWS": "1",
        "ZENTURIO_COVER_COMMANDS": str(configuration),
    }
    code = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, check=False
    ).returncode
    if code not in (0, 1) or not report.exists():
        sys.exit(f"the tests of {package} could not be run: pytest ended with {code}")
    seconds, failed = _outcomes(report)
    for test in sorted(failed):
        print(f"fails without any mutant, and judges none: {test}", flush=True)
    seconds = {test: time for test, time in seconds.items() if test not in failed}
    return Reached(dict(_tests_by_line(data, failed)), seconds)


def _tests_by_line(data: Path, failed: set[str]) -> Iterator[tuple[str, dict[int, list[str]]]]:
    """Yield each file that coverage measured, and the tests that reach its lines."""
    measured = coverage.CoverageData(str(data))
    measured.read()
    for file in measured.measured_files():
        contexts_by_line = measured.contexts_by_lineno(file).items()
        yield (
            Path(file).resolve().relative_to(ROOT).as_posix(),
            {
                line: [*{context.rpartition("|")[0] for context in contexts if context} - failed]
                for line, contexts in contexts_by_line
            },
        )


def _outcomes(report: Path) -> tuple[dict[str, float], set[str]]:
    """How long each test took, and which failed, after what pytest wrote."""
    seconds, failed = {}, set()
    for case in ET.parse(report).iter("testcase"):
        # The name of a class follows that of its file; the methods of a contract are inherited.
        parts = case.get("classname", "").split(".")
        paths = [ROOT.joinpath(*parts[:end]).with_suffix(".py") for end in range(1, len(parts) + 1)]
        end = next((number for number, path in enumerate(paths, 1) if path.exists()), len(parts))
        test = "::".join(["/".join(parts[:end]) + ".py", *parts[end:], case.get("name", "")])
        seconds[test] = float(case.get("time", 0.0))
        if case.find("failure") is not None or case.find("error") is not None:
            failed.add(test)
    return seconds, failed


class Map:
    """What one run has learnt about tests, for those that follow."""

    def __init__(
        self, path: Path | None, package: str, tests: list[str], select: str, jobs: int
    ) -> None:
        self._path = path
        self._run = partial(reached, package, select, jobs)
        self._paths = tests
        roots = [ROOT / test for test in tests]
        files = [p for root in roots for p in ([root] if root.is_file() else root.rglob("*.py"))]
        digests = _digests(files)
        self._tests = {n: d for n, d in digests.items() if Path(n).name.startswith("test_")}
        contracts = _digests((ROOT / "zenturio" / "testing").glob("*.py"))
        for name in self._tests:
            # Tests that a class inherits change with the contract that has them.
            used = sorted(contracts_of((ROOT / name).read_text(), ROOT / "zenturio" / "testing"))
            inherited = "".join(contracts[path.relative_to(ROOT).as_posix()] for path in used)
            self._tests[name] += inherited
        helpers = {name: digest for name, digest in digests.items() if name not in self._tests}
        modules = {m.relative_to(ROOT).as_posix(): m.read_text() for m in modules_of(package)}
        self._sources = modules
        self._base = {"select": select, "helpers": helpers, "modules": list(self._sources)}
        """After a change of these all tests are run again."""

    def read(self, folder: Path) -> Reached:
        """Which tests reach what: from the file, and from a run of those that it does not know."""
        stored = self._stored()
        if stored.get("base") != self._base:
            return self._written(self._run(self._paths, folder))
        before = stored["tests"]
        same = {name for name, digest in self._tests.items() if before.get(name) == digest}

        def is_same(test: str) -> bool:
            return test.partition("::")[0] in same

        lines = {}
        for name, tests_by_line in stored["lines"].items():
            usable = {int(n): [*filter(is_same, tests)] for n, tests in tests_by_line.items()}
            lines[name] = moved(usable, stored["sources"][name], self._sources[name])
        mapped = Reached(lines, {t: s for t, s in stored["seconds"].items() if is_same(t)})
        changed = sorted(self._tests.keys() - same)
        return self._written(mapped.merged(self._run(changed, folder)) if changed else mapped)

    def _stored(self) -> dict[str, Any]:
        is_there = self._path is not None and self._path.exists()
        return json.loads(self._path.read_text()) if self._path and is_there else {}

    def _written(self, reach: Reached) -> Reached:
        if self._path is not None:
            state = {"base": self._base, "tests": self._tests, "sources": self._sources}
            learnt = {"lines": reach.lines, "seconds": reach.seconds}
            self._path.write_text(json.dumps({**state, **learnt}))
        return reach


def moved(tests_by_line: dict[int, list[str]], before: str, now: str) -> dict[int, list[str]]:
    """The tests of the lines of a file that was edited: a changed line has those of the one above.

    Others may reach it, too: a mutant may live that they would notice, never the other way round.
    """
    if before == now:
        return tests_by_line
    texts = before.splitlines(), now.splitlines()
    blocks = SequenceMatcher(None, *texts, autojunk=False).get_matching_blocks()
    old_numbers = {new + i: old + i for old, new, size in blocks for i in range(1, size + 1)}
    result: dict[int, list[str]] = {}
    above: list[str] = []
    for number in range(1, len(texts[1]) + 1):
        if number not in old_numbers:
            result[number] = above
        elif (tests := tests_by_line.get(old_numbers[number])) is not None:
            result[number] = above = tests
    return result


def contracts_of(source: str, folder: Path) -> set[Path]:
    """The modules of ``zenturio.testing``, in *folder*, that a test imports, and their imports."""
    modules: set[Path] = set()
    sources = [source]
    while sources:
        names = re.findall(r"zenturio\.testing\.(\w+)", sources.pop())
        for path in {folder / f"{name}.py" for name in names} - modules:
            if path.exists():
                modules.add(path)
                sources.append(path.read_text())
    return modules


def _digests(paths: Iterable[Path]) -> dict[str, str]:
    return {
        path.relative_to(ROOT).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(paths)
    }
