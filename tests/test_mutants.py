"""The tool that changes the code in small ways: what it changes, and what it remembers."""

import importlib
import json
import sys
from pathlib import Path

import pytest

CI = Path(__file__).resolve().parent.parent / ".ci"
SOURCE = '''\
"""Text: 1 + 1."""
from typing import Protocol, overload

LIMIT: int = 3
hidden: int = field(init=False)


class Seen(Protocol):
    def look(self, most: int = 7) -> int: ...


def count(items, *, most=2):
    _log.debug("%d items", len(items) + 1)
    self.transaction.log(_log, "most", most - 1)
    if len(items) > most:
        return most - 1
    for one, other in zip(items, items, strict=True):
        return False
    return not items
'''


@pytest.fixture
def mutants(monkeypatch):
    monkeypatch.syspath_prepend(CI)
    yield importlib.import_module("mutants")
    for name in ("mutants", "reached_lines"):
        del sys.modules[name]


@pytest.fixture
def reached_lines(mutants):
    return sys.modules["reached_lines"]


def test_code_is_changed_and_nothing_that_is_never_executed(mutants, monkeypatch, tmp_path):
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    (tmp_path / "a.py").write_text(SOURCE)
    keys = {mutant.key.removeprefix("a.py: ") for mutant in mutants.mutants_of(Path("a.py"))}
    assert keys == {
        "LIMIT: int = 3 => LIMIT: int = 4",
        "def count(items, *, most=2): => def count(items, *, most=3):",
        "if len(items) > most: => if (len(items) >= most):",
        "if len(items) > most: => if False:",
        "return most - 1 => return (most + 1)",
        "return most - 1 => return most - 2",
        "return most - 1 => return None",
        "return False => return True",
        "return not items => return None",
        "return not items => return (items)",
    }


def test_groups_and_tests_of_other_packages_name_files_that_are_there(mutants, reached_lines):
    assert all(
        path.is_file() for group in reached_lines.GROUPS for path in mutants.modules_of(group)
    )
    names = {name for tests in mutants.NEIGHBOURS.values() for name in tests}
    assert [name for name in names if not (CI.parent / "tests" / name).is_file()] == []


def test_conditions_and_orders_of_sql_are_changed_and_what_it_assigns_is_not(
    mutants, monkeypatch, tmp_path
):
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    (tmp_path / "a.py").write_text(
        'def look(t):\n    """Of rows AND more."""\n'
        '    t.sql("UPDATE a SET b = 1 WHERE ü = 2")\n'
        '    t.sql(f"DELETE FROM {t} WHERE NOT EXISTS (SELECT 1)"\n        " AND x > 1")\n'
        '    log(f"{1 + 1} is nothing = of it")\n'
    )
    keys = {mutant.key.removeprefix("a.py: ") for mutant in mutants.mutants_of(Path("a.py"))}
    update, where = 't.sql("UPDATE a SET b = 1 WHERE ü {} 2")', " WHERE NOT EXISTS (SELECT 1)"
    delete = 't.sql(f"DELETE FROM {t}%s"'
    assert {key for key in keys if not key.endswith("pass")} == {
        f"{update.format('=')} => {update.format('<>')}",
        f"{update.format('=')} => {update.format('=').replace('WHERE', 'WHERE 1 = 1 OR')}",
        f"{delete % where} => {delete % ' WHERE EXISTS (SELECT 1)'}",
        f"{delete % where} => {delete % ' WHERE 1 = 1 OR NOT EXISTS (SELECT 1)'}",
        '" AND x > 1") => " OR x > 1")',
        '" AND x > 1") => " AND x >= 1")',
    }


def test_a_test_knows_the_contracts_that_it_inherits(reached_lines, tmp_path):
    contracts = "zenturio.testing"
    (tmp_path / "one.py").write_text(f"from {contracts}.two import Two\n")
    (tmp_path / "two.py").write_text(f"from {contracts}.one import One\n")
    (tmp_path / "three.py").write_text("")
    source = f"from {contracts}.one import One\nfrom {contracts}.none import No\n"
    inherited = reached_lines.contracts_of(source, tmp_path)
    assert {path.name for path in inherited} == {"one.py", "two.py"}
    assert reached_lines.contracts_of("import zenturio", tmp_path) == set()


def test_each_equivalent_mutant_has_a_reason():
    lines = (CI / "equivalent-mutants.txt").read_text().splitlines()
    assert lines == sorted(set(lines))
    for line in lines:
        key, _, reason = line.partition("  # ")
        assert reason
        assert " => " in key


def test_a_line_is_judged_by_quick_tests_and_by_those_that_reach_little_else(
    reached_lines, monkeypatch
):
    monkeypatch.setattr(reached_lines, "MOST_TESTS", 4)
    seconds = {f"t{n}": float(n) for n in range(10)}
    every = list(seconds)
    lines = {
        "a.py": {1: every, 2: [], 3: every[:9], 4: every[:8], 5: ["t1"]},
        "b.py": {1: [], 2: ["t7"], 3: ["t3", "t7"]},
        "c.py": {1: []},
    }
    reach = reached_lines.Reached(lines, seconds)

    def chosen(line, name="a.py"):
        return reach.chosen(Path(name), line)

    assert chosen(5) == ["t1"]
    assert chosen(1) == chosen(2) == ["t0", "t1", "t8", "t9"]
    assert chosen(6) == []
    assert chosen(1, "b.py") == ["t3", "t7"], "what is loaded is judged by tests of that file"
    assert chosen(1, "c.py") == chosen(1, "d.py") == []


def test_a_constant_is_judged_by_tests_that_reach_its_name(reached_lines, monkeypatch, tmp_path):
    monkeypatch.setattr(reached_lines, "ROOT", tmp_path)
    (tmp_path / "a.py").write_text("LIMIT = (\n    3\n)\nOTHER = 4\n\ndef f():\n    return 7\n")
    (tmp_path / "b.py").write_text("def g():\n    return a.LIMIT\n\ndef h():\n    return LIMITS\n")
    lines = {"a.py": {1: [], 2: [], 4: [], 7: ["f"]}, "b.py": {2: ["g"], 5: ["h"]}}
    reach = reached_lines.Reached(lines, {})
    assert reach.chosen(Path("a.py"), 2) == ["g"]
    assert reach.chosen(Path("a.py"), 4) == ["f"], "nobody names it: tests of that file"
    (tmp_path / "t.py").write_text(
        "class T:\n    def test_c(self):\n        assert C(3).OTHER == 4\n"
    )
    reach = reached_lines.Reached(lines, {"t.py::T::test_c[1]": 0.1, "t.py::test_d": 0.1})
    assert reach.chosen(Path("a.py"), 4) == ["t.py::T::test_c[1]"], (
        "it names it and reaches no line"
    )


def test_the_test_that_happens_to_load_a_module_does_not_judge_its_constants(
    reached_lines, monkeypatch, tmp_path
):
    monkeypatch.setattr(reached_lines, "ROOT", tmp_path)
    (tmp_path / "a.py").write_text(
        "PART = 1\nWHOLE = PART + 1\n\ndef f(\n    x=3,\n):\n    return x\n\ndef g():\n    return WHOLE\n"
    )
    loading = {line: ["loads"] for line in (1, 2, 4, 5, 9)}
    reach = reached_lines.Reached({"a.py": {**loading, 7: ["f"], 10: ["g"]}}, {})
    assert reach.chosen(Path("a.py"), 2) == ["g", "loads"]
    assert reach.chosen(Path("a.py"), 1) == ["g", "loads"], "it is a part of what g names"
    assert reach.chosen(Path("a.py"), 5) == ["f"], "a default counts where the function is entered"
    assert reach.chosen(Path("a.py"), 7) == ["f"]


def test_tests_on_a_server_are_among_those_that_judge_a_line(reached_lines, monkeypatch):
    monkeypatch.setattr(reached_lines, "MOST_TESTS", 12)
    seconds = {f"t{n}": float(n) for n in range(20)}
    seconds |= {f"t[postgresql-{n}]": 30.0 + n for n in range(4)}
    lines = {"a.py": {1: [*seconds]}, "b.py": {1: [t for t in seconds if "postgresql" in t]}}
    chosen = reached_lines.Reached(lines, seconds).chosen(Path("a.py"), 1)
    assert chosen[:6] == ["t0", "t1", "t2", "t3", "t4", "t5"]
    assert chosen[-2:] == ["t[postgresql-0]", "t[postgresql-1]"]
    assert len(chosen) == 12


def test_tests_that_reach_what_hangs_on_a_condition_are_among_those_that_judge_it(
    reached_lines, monkeypatch
):
    monkeypatch.setattr(reached_lines, "MOST_TESTS", 6)
    seconds = {f"t{n}": float(n) for n in range(20)}
    lines = {"a.py": {1: [*seconds], 2: ["t15"], 3: [*seconds]}, "b.py": {1: ["t15"], 2: ["t15"]}}
    chosen = reached_lines.Reached(lines, seconds).chosen(Path("a.py"), 1)
    assert chosen[:3] == ["t0", "t1", "t2"]
    assert "t15" in chosen


def test_only_test_files_that_changed_are_run_again(reached_lines, monkeypatch, tmp_path):
    monkeypatch.setattr(reached_lines, "ROOT", tmp_path)
    for path in (
        "zenturio/p/a.py",
        "tests/p/test_a.py",
        "tests/p/test_b.py",
        "tests/p/conftest.py",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    runs = []

    def reached(_package, _select, _jobs, tests, _folder):
        runs.append(tests)
        names = ["tests/p/test_a.py", "tests/p/test_b.py"] if tests == ["tests/p"] else tests
        found = [f"{name}::test{len(runs)}" for name in names]
        return reached_lines.Reached({"zenturio/p/a.py": {1: found}}, dict.fromkeys(found, 0.5))

    monkeypatch.setattr(reached_lines, "reached", reached)
    stored = tmp_path / "map.json"

    def learnt():
        reach = reached_lines.Map(stored, "p", ["tests/p"], "", 1).read(tmp_path)
        return sorted(reach.lines["zenturio/p/a.py"][1]), sorted(reach.seconds)

    both = ["tests/p/test_a.py::test1", "tests/p/test_b.py::test1"]
    assert learnt() == learnt() == (both, both)
    assert runs == [["tests/p"]]
    (tmp_path / "tests/p/test_b.py").write_text("# changed")
    changed = ["tests/p/test_a.py::test1", "tests/p/test_b.py::test2"]
    assert learnt() == (changed, changed)
    assert runs[1:] == [["tests/p/test_b.py"]]
    (tmp_path / "tests/p/conftest.py").write_text("# changed")
    learnt()
    (tmp_path / "zenturio/p/a.py").write_text("# changed")
    learnt()
    assert runs[2:] == [["tests/p"]]
    (tmp_path / "zenturio/p/b.py").write_text("# new")
    learnt()
    assert runs[2:] == [["tests/p"], ["tests/p"]]
    assert json.loads(stored.read_text())["seconds"]


def test_lines_that_an_edit_moved_keep_their_tests(reached_lines):
    before = "a\nb\nc\n\nd\n"
    tests = {1: [], 2: ["t2"], 3: ["t3"], 5: ["t5"]}
    assert reached_lines.moved(tests, before, before) == tests
    assert reached_lines.moved(tests, before, "new\na\nb\nnew\n\nd\nc\n") == {
        1: [], 2: [], 3: ["t2"], 4: ["t2"], 6: ["t5"], 7: ["t5"],
    }  # fmt: skip
