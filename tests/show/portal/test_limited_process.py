"""Work for a page ends when its time or memory is used up, and leaves no process behind."""

import os

import pytest

from zenturio.errors import InputError, NotFoundError, PlaceError
from zenturio.show.portal import limited_process
from zenturio.show.portal.limited_process import ProcessLimits, run_limited


@pytest.fixture
def facts(tmp_path):
    query = {"workflow": "layered:tasks=4", "on": "identical:2", "show": "graph"}
    return {"query": query, "folder": str(tmp_path), "slow": True, "dark": False}


@pytest.fixture
def started(monkeypatch):
    """The numbers of the processes that were started."""
    found, popen = [], limited_process.subprocess.Popen

    def start(*args, **more):
        process = popen(*args, **more)
        found.append(process.pid)
        return process

    monkeypatch.setattr(limited_process.subprocess, "Popen", start)
    return found


def test_what_takes_too_long_is_killed_with_its_process(facts, started):
    query = {"workflow": "layered:tasks=4000", "on": "identical:50", "algorithm": "ga"}
    with pytest.raises(PlaceError, match="longer than"):
        run_limited("schedule figure", {**facts, "query": query}, ProcessLimits(seconds=0.5))
    (number,) = started
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


def test_what_needs_too_much_memory_ends_alone(facts):
    with pytest.raises(PlaceError, match="needs more than"):
        run_limited("schedule figure", facts, ProcessLimits(memory=2**26))


def test_errors_are_those_of_the_work(facts):
    query = {**facts["query"], "workflow": "layered:tasks=4,colour=red"}
    with pytest.raises(InputError, match="no setting 'colour'"):
        run_limited("schedule figure", {**facts, "query": query})
    query = {**facts["query"], "show": "gantt", "algorithm": "hefty"}
    with pytest.raises(NotFoundError, match="hefty"):
        run_limited("schedule figure", {**facts, "query": query})


def test_only_so_many_processes_work_at_a_time(facts, monkeypatch):
    monkeypatch.setattr(limited_process, "QUEUE_SECONDS", 0.01)
    monkeypatch.setattr(limited_process, "_slots", limited_process.BoundedSemaphore(1))
    with (
        limited_process._slot(),
        pytest.raises(limited_process.ConflictError, match="too many charts"),
    ):
        run_limited("schedule figure", facts)
    assert run_limited("schedule figure", facts)


def test_a_fault_of_the_work_is_not_called_a_lack_of_memory(facts):
    del facts["query"]
    with pytest.raises(PlaceError, match="could not be made: KeyError"):
        run_limited("schedule figure", facts)
