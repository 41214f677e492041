"""Workflows and machines that are read once."""

import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from zenturio.errors import InputError
from zenturio.schedule.generators.generator import MAX_CACHED, ProblemCache
from zenturio.schedule.model.problem import MoldableProblem


def written(path, work):
    path.write_text(json.dumps({"tasks": [{"name": "t", "work": work}], "edges": []}))
    return str(path)


def test_a_problem_is_made_once_however_many_ask():
    library = ProblemCache()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: library.problem("wien2k:kpoints=4"), range(20)))
    assert len(set(map(id, found))) == 1
    assert library.problem("wien2k:kpoints=4,seed=1") is not found[0]
    assert library.problem("wien2k:kpoints=4", "identical:3").processors == 3


def test_a_file_is_read_again_when_it_says_something_else(tmp_path):
    library, path = ProblemCache(), tmp_path / "flow.json"
    first = library.problem(written(path, 3), "identical:2")
    when = path.stat().st_mtime_ns
    assert library.problem(written(path, 3), "identical:2") is first
    written(path, 4)
    os.utime(path, ns=(when, when))
    assert library.problem(str(path), "identical:2").work.tolist() == [4]


def test_so_is_a_file_that_a_generator_reads(tmp_path):
    library, path = ProblemCache(), tmp_path / "flow.json"
    text = f"recipe:trace={written(path, 3)},tasks=5"
    assert library.problem(text, "identical:1").work.sum() == pytest.approx(15, rel=0.1)
    written(path, 4)
    assert library.problem(text, "identical:1").work.sum() == pytest.approx(20, rel=0.1)


@pytest.mark.parametrize("ending", ["toml", "json"])
def test_so_is_a_platform_when_the_log_of_its_load_says_something_else(tmp_path, ending):
    log, path = tmp_path / "a.swf", tmp_path / f"grid.{ending}"
    toml = "[[machine]]\nname = 'm'\nload = 'a.swf'"
    path.write_text(toml if ending == "toml" else '{"machines": [{"name": "m", "load": "a.swf"}]}')
    library, loads = ProblemCache(), []
    for processors in (1, 3):
        log.write_text(f"; MaxProcs: 4\n1 0 0 100 {processors}{' -1' * 13}\n")
        loads.append(library.platform(str(path)).machines[0].load[0].share)
    assert loads == [0.75, 0.25]


def test_one_workflow_may_be_asked_for_as_several_kinds_of_problem():
    library = ProblemCache()
    rigid = library.problem("kwave-tree", "identical:9")
    assert isinstance(
        library.problem("kwave-tree", "identical:9", MoldableProblem), MoldableProblem
    )
    assert library.problem("kwave-tree", "identical:9") is rigid


def test_what_was_not_asked_for_lately_is_forgotten():
    library = ProblemCache()
    first = library.problem("wien2k:kpoints=1")
    for kpoints in range(2, MAX_CACHED + 1):
        library.problem(f"wien2k:kpoints={kpoints}")
    assert library.problem("wien2k:kpoints=1") is first
    library.problem("wien2k:kpoints=99")
    assert library.problem("wien2k:kpoints=1") is first
    second = library.problem("wien2k:kpoints=2")
    assert second is library.problem("wien2k:kpoints=2")


def test_a_workflow_needs_machines(tmp_path):
    with pytest.raises(InputError, match="names no machines"):
        ProblemCache().problem(written(tmp_path / "flow.json", 1))
