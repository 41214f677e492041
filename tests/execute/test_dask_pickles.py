"""A driver takes from a scheduler of others what it sends, and executes nothing of it."""

import asyncio
import builtins
import os
import pickle
import pickletools
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dask_cluster import Cluster
from zenturio.execute.dask.executor import MOST_DEATHS, loss_of
from zenturio.execute.dask.restricted_unpickler import Inert, inert_loads


class Evil(Exception):
    """Its pickle makes a file."""

    def __init__(self, path="/nowhere/evil"):
        super().__init__(path)
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


class Setting:
    """Its pickle sets attributes of a class."""

    def __reduce__(self):
        return Inert, (), (None, {"module": "changed"})


GOOD = [
    ({1: b"x" * 50}, (2,), (3,), ("a",), "tcp://10.0.0.1:1"),
    [1, 2.5, None, True, "text", b"bytes", {"a": {1, 2}, "b": frozenset("xy")}, 2**70],
    OSError(2, "no such file", "x"),
    KeyError("n"),
    Path("/a/b"),
    bytes,
]
EXAMPLES = [pickle.dumps(value, protocol=protocol) for value in GOOD for protocol in (4, 5)]


@pytest.mark.parametrize("value", GOOD[:2], ids=["report", "values"])
def test_plain_values_are_read_as_they_are(value):
    assert inert_loads(pickle.dumps(value)) == value


def test_an_error_keeps_its_name_and_its_arguments():
    error = inert_loads(pickle.dumps(KeyError("n")))
    assert (type(error).__name__, error.args) == ("KeyError", ("n",))
    assert repr(error) == "KeyError('n')"
    missing = inert_loads(pickle.dumps(FileNotFoundError(2, "none", "x")))
    assert isinstance(missing, OSError)
    assert type(missing).__name__ == "FileNotFoundError"


def test_nothing_of_a_pickle_is_executed(tmp_path):
    path = tmp_path / "evil"
    for value in (Evil(path), [Evil(path)], {"a": (Evil(path),)}):
        inert_loads(pickle.dumps(value))
    assert not path.exists()
    value = inert_loads(pickle.dumps(Evil(path)))
    assert (value.module, type(value).__name__, value.args) == ("posix", "mkdir", (str(path),))
    inert_loads(pickle.dumps(Setting()))
    assert Inert.module == ""


def test_what_is_no_pickle_becomes_an_error_that_says_so():
    for data in (b"", b"\x80\x05", b"cos\nsystem\n(S'ls'\ntR.", b"I" + b"9" * 10**6 + b"\n.", b"."):
        error = inert_loads(data)
        assert isinstance(error, Inert)
        assert type(error).__name__ in ("UnreadablePickle", "system")


@pytest.mark.parametrize("count", [600, pytest.param(60_000, marks=pytest.mark.slow)])
def test_changed_pickles_are_read_without_code(monkeypatch, count):
    """Each is a change of a good one, or operations in any order."""
    chance = random.Random(5)
    codes = [code.code.encode("latin-1") for code in pickletools.opcodes]
    for _ in range(count):
        data = bytearray(chance.choice(EXAMPLES))
        for _ in range(chance.choice([1, 1, 2, 5, 20])):
            at = chance.randrange(2, len(data))
            match chance.randrange(4):
                case 0:
                    data[at] = chance.randrange(256)
                case 1:
                    data[at:at] = chance.choice(codes)
                case 2:
                    del data[at : at + chance.randrange(1, 9)]
                case 3:
                    other = chance.choice(EXAMPLES)
                    data[at:at] = other[2 : chance.randrange(2, len(other))]
            if len(data) < 4:
                break
        # Imports are refused for this call alone: pytest itself imports when it shows a failure.
        with monkeypatch.context() as patch:
            patch.setattr("builtins.__import__", refuse)
            try:
                value = inert_loads(bytes(data))
            except TypeError:  # a pickled traceback, which Dask leaves out then
                assert b"tblib" in data
                continue
        assert isinstance(value, Inert | type) or type(value).__module__ == "builtins", data
        repr(value)


IMPORT = builtins.__import__


def refuse(name, *args, **more):
    if threading.current_thread() is not threading.main_thread():
        return IMPORT(name, *args, **more)  # a thread of the test run, not of a pickle
    raise AssertionError(f"a pickle imports {name}")


def test_nesting_to_any_depth_neither_ends_the_driver_nor_holds_it():
    nested = b"\x80\x04" + b")" + b"\x85" * 100_000 + b"."
    assert type(inert_loads(nested)) is tuple
    as_a_key = b"\x80\x04}" + b")" + b"\x85" * 100_000 + b"Ns."
    assert type(inert_loads(as_a_key)).__name__ == "UnreadablePickle"


def test_a_lost_worker_is_told_by_whatever_arguments():
    killed = type("KilledWorker", (Inert,), {})
    assert loss_of(killed("key", object(), 1), ()).times == 2
    assert loss_of(killed("key", object(), 10**9), ()).times == MOST_DEATHS + 1
    for error in (killed(), killed("key"), killed("key", None, "x"), killed("key", None, -5)):
        assert loss_of(error, ()).times == 1


# With Dask itself


PRELOAD = """
import os, pickle
import distributed.worker, distributed.worker_state_machine
import zenturio.execute.dask.worker_plugin as stations
from distributed import get_worker
from distributed.protocol import to_serialize

class Evil:
    def __reduce__(self):
        return exec, ("import os; open(" + repr(PATH) + " + str(os.getpid()), 'w').close()",)

def error_message(error, status="error"):
    data = to_serialize(pickle.dumps(Evil()))
    return {"status": status, "exception": data, "traceback": data,
            "exception_text": "", "traceback_text": ""}

def evil(*_):
    message = {"message": pickle.dumps(Evil()), "category": pickle.dumps(Evil())}
    get_worker().log_event("warn", message)
    get_worker().log_event("print", {"args": ("from a worker",)})
    kinds.append(kinds.pop(0))
    if kinds[-1] == "error":
        raise ValueError
    return Evil() if kinds[-1] == "result" else [Evil(), b"x" * 20_000_000]

kinds = ["error", "result", "large"]
distributed.worker.error_message = distributed.worker_state_machine.error_message = error_message
assert stations.run_batch
stations.run_batch = evil
"""
RUN = """
import os
import sys
from pathlib import Path
from zenturio.execute.dask.ticket_queue import DaskOptions
from zenturio.execute.dask.executor import Dask
from zenturio.testing.experiments import experiment
from zenturio.errors import ZenError

with Dask(Path(sys.argv[1]), options=DaskOptions(address=sys.argv[2], patience=30)) as place:
    for number in range(3):
        try:
            print(place.submit(experiment(number)).result(60))
        except ZenError as error:
            print(error.diagnostics[0].message)
    print(*place._cluster.client.run(lambda: None, on_error="return").values())
    print(os.getpid())
"""


def test_nothing_that_a_hostile_worker_sends_is_executed(tmp_path):
    """Neither exceptions, nor results, large ones of another thread, nor events."""
    evil, preload = tmp_path / "evil", tmp_path / "preload.py"
    preload.write_text(PRELOAD.replace("PATH", repr(str(evil))))
    with Cluster() as cluster:
        cluster.worker(preload=preload)
        done = subprocess.run(
            [sys.executable, "-c", RUN, str(tmp_path / "p"), cluster.address],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done
    raised, result, large, answer, pid = done.stdout.splitlines()
    assert "cannot run experiments: exec(" in raised
    assert "reported experiments that it was not given" in result
    assert result == large
    assert answer == "None"
    assert not Path(f"{evil}{pid}").exists()


def test_loops_that_are_not_guarded_read_as_before():
    from distributed.protocol import pickle as dask_pickle

    from zenturio.execute.dask import restricted_unpickler

    async def read():
        return dask_pickle.loads(pickle.dumps(Path("/a")))

    async def read_guarded():
        restricted_unpickler.guard(asyncio.get_running_loop())
        return await read()

    assert isinstance(asyncio.run(read_guarded()), Inert)
    assert asyncio.run(read()) == Path("/a")
    assert dask_pickle.loads(pickle.dumps(Path("/a"))) == Path("/a")
