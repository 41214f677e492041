"""Functions of Python at places that run commands: found by their names, called in a fork."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from zenturio.errors import InputError
from zenturio.execute.experiment_codec import pack_experiment, unpack_experiment
from zenturio.execute.inline import Inline
from zenturio.execute.local import Local
from zenturio.execute.local_runner import RunnerSettings
from zenturio.experiment import ExperimentFunction, Missing, Series
from zenturio.testing.executor import long, outcome, running, until


def divide(n, huge=0):
    print("dividing", n)
    return {"gflops": 6 / n, "all": [1, n], "huge": huge, "none": None, "ratio": float("inf")}


def sleep(seconds):
    os.execvp("sleep", ["sleep", seconds])


def fall(n):
    os.kill(os.getpid(), 11)


BORN = os.getpid()


def origin(n):
    return {"born": BORN, "parent": os.getppid(), "own": os.getpid()}


def fork(seconds):
    if not os.fork():
        os.setsid()
        os.execvp("sleep", ["sleep", seconds])
    return os.getpid()


@pytest.fixture
def place(tmp_path):
    with Local(tmp_path / "zen", 2, settings=RunnerSettings(grace=0.3)) as place:
        yield place


def made(function, **values):
    wrapped = ExperimentFunction(function)
    (one,) = wrapped.experiments(values)
    return wrapped.command(one)


def test_a_call_answers_what_the_function_answers_here(place):
    values = {"n": 4, "huge": 7**3000}
    what = unpack_experiment(pack_experiment(made(divide, **values)))
    found, here = (
        outcome(place, what),
        Inline(divide).call(ExperimentFunction(divide).experiments(values)[0]),
    )
    assert found.status == "ok"
    assert (found.digest, found.stdout.head) == (here.digest, b"dividing 4\n")
    for name in ("gflops", "all", "huge", "ratio", "none"):
        assert found.metrics[name] == here.metrics[name]
    assert found.metrics["all"] == Series((1, 4))
    assert isinstance(found.metrics["none"], Missing)
    assert found.metrics["wtime"] >= 0


def test_an_exception_is_an_outcome_with_its_traceback(place):
    found = outcome(place, made(divide, n=0))
    assert (found.status, found.cause, found.exit) == ("failed", "ZeroDivisionError", 1)
    assert b"test_call.py" in found.stderr.head


def test_a_module_is_imported_once_for_many_calls(place):
    futures = [place.submit(made(origin, n=n)) for n in range(20)]
    found = [future.result().metrics for future in futures]
    assert all(metrics["born"] == metrics["parent"] != metrics["own"] for metrics in found)
    assert len({metrics["parent"] for metrics in found}) <= place.slots


def test_a_function_that_falls_takes_nobody_with_it(place):
    assert outcome(place, made(fall, n=1)).cause == "killed by SIGSEGV"
    assert outcome(place, made(divide, n=1)).status == "ok"


def test_a_call_is_killed_and_what_it_started_too(place):
    future = place.submit(made(sleep, seconds=long("93.1")))
    until(lambda: running(long("93.1")))
    assert future.cancel()
    assert future.result().status == "cancelled"
    assert not running(long("93.1"))
    assert outcome(place, made(fork, seconds=long("93.2"))).status == "ok"
    assert not running(long("93.2"))


MODULE = """
import os
print("imported by", os.getpid())
if os.environ.get("FAULT"):
    raise RuntimeError("not today")
def square(n):
    return n * n
"""


@pytest.fixture
def square(tmp_path, monkeypatch):
    """A function in a package, which prints when it is imported."""
    package = tmp_path / "farm" / "stock"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "sheep.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path / "farm")
    from stock.sheep import square

    yield square
    for name in ("stock", "stock.sheep"):
        sys.modules.pop(name)


def test_a_function_is_found_in_its_package(place, square, tmp_path):
    assert f"{tmp_path}/farm stock.sheep:square" in made(square, n=3).steps[0].command
    found = [outcome(place, made(square, n=n)).metrics["value"] for n in range(4)]
    assert found == [0, 1, 4, 9]


def test_a_module_that_cannot_be_imported_is_an_outcome(tmp_path, square, monkeypatch):
    monkeypatch.setenv("FAULT", "1")
    with Local(tmp_path / "zen", 1) as place:
        found = outcome(place, made(square, n=3))
    assert (found.cause, found.status) == ("RuntimeError", "failed")


def test_a_function_that_nobody_else_can_find_is_refused():
    def inner(n):
        return n

    for function in (inner, lambda n: n):
        with pytest.raises(InputError, match="cannot be found by its name"):
            made(function, n=1)


PROGRAM = """
import sys
import zenturio as zen
@zen.experiment
def cube(n):
    return {"cube": n ** 3}
if __name__ == "__main__":
    study = zen.run(cube, zen.Space(n=range(20)), on=sys.argv[1], jobs=2, db="zen.db")
    again = zen.run(cube, zen.Space(n=range(21)), on=sys.argv[1], jobs=2, db="zen.db")
    print(study.summary.ok, again.summary.cached, again.summary.ok, sum(again.frame()["cube"]))
"""


@pytest.mark.parametrize("on", ["local", pytest.param("dask", marks=pytest.mark.slow)])
def test_a_program_runs_its_own_function_at_a_place(tmp_path, on):
    Path(tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "program.py", on], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["20", "20", "1", str(sum(n**3 for n in range(21)))]
