"""``zen`` as a process of its own that need not load first.

    from loaded import zen

    done = zen("space", "first.py", cwd=tmp_path)   # as subprocess.run: returncode, stdout, stderr

To load what a verb needs takes longer than most verbs. So one process loads it, once for all tests
of a worker, and each command is a copy of it: with arguments, a folder, an environment, two streams
and an exit code of its own, and it ends as Python ends. What is said of a start itself (what is
loaded, signals that come early) wants a start, and tests of that make their own.
"""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path

OURS = (
    "annotate", "cli", "execute", "experiment", "expression", "query", "record", "schedule",
    "search", "show.charts", "show.renderers", "space", "study",
)  # fmt: skip
"""Packages of zenturio whose modules are all loaded."""
PACKAGES = (
    "markdown_it", "matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg",
    "matplotlib.pyplot", "narwhals.stable.v1", "numba", "pandas", "plotly.graph_objects", "plotly.graph_objs._figure",
    "plotly.io", "psycopg", "pyarrow.csv", "scipy.linalg", "sqlalchemy.dialects.postgresql",
    "sqlalchemy.dialects.sqlite",
)  # fmt: skip
"""What charts, schedules, engines and new databases load: most of the time of such a command."""
LARGEST = 2**20
"""Bytes of a request."""


def zen(
    *words: object, cwd: Path, cpu_seconds: int = 0, memory: int = 0
) -> subprocess.CompletedProcess[str]:
    """What ``zen`` makes of *words* in the folder *cwd*.

    It is killed (a negative exit code) after so many *cpu_seconds*, or when it has waited ten
    times as long, and may have so many bytes of *memory*; 0 is no limit.
    """
    asked = {
        "words": [*map(str, words)],
        "cwd": str(cwd),
        "environment": dict(os.environ),
        "limits": [cpu_seconds, memory],
    }
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        wire = _first()
        try:
            socket.send_fds(wire, [json.dumps(asked).encode()], [out.fileno(), err.fileno()])
            answer = wire.recv(32)
        except BaseException:
            # A test that took too long: its answer must not be taken for that of the next one.
            _first.cache_clear()
            wire.close()
            raise
        assert answer, "the process that has loaded zen is gone"
        told = [file.seek(0) or file.read() for file in (out, err)]
    return subprocess.CompletedProcess(["zen", *asked["words"]], int(answer), *told)


@cache
def _first() -> socket.socket:
    """The wire to the process that has loaded; it ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
        )
    atexit.register(lambda: (ours.close(), process.wait()))
    return ours


def _serve(wire: socket.socket) -> None:
    """Answers with exit codes; returns in the copies, which are to run the command."""
    gc.freeze()
    while True:
        request, streams, *_ = socket.recv_fds(wire, LARGEST, 2)
        if not request:
            sys.exit()
        pid = os.fork()
        if not pid:
            wire.close()
            _become(json.loads(request), streams)
            return
        for each in streams:
            os.close(each)
        _, status = os.waitpid(pid, 0)
        wire.send(b"%d" % os.waitstatus_to_exitcode(status))


def _become(asked: dict, streams: list[int]) -> None:
    """A process that was started with this."""
    for number, stream in enumerate(streams, 1):
        os.dup2(stream, number)
        os.close(stream)
    cpu_seconds, memory = asked["limits"]
    if cpu_seconds:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 5))
        signal.alarm(10 * cpu_seconds)
    if memory:
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.argv = ["-c", *asked["words"]]


def _modules() -> Iterator[str]:
    """The names of all modules of OURS."""
    for name in (f"zenturio.{package}" for package in OURS):
        yield name
        path = importlib.import_module(name).__path__
        found = (module.name for module in pkgutil.walk_packages(path, f"{name}."))
        yield from (module for module in found if ".examples." not in module)  # programs of users


def _run() -> None:
    """Run the command and end as Python does, but for freeing all that was loaded: it takes longer
    than most commands do.
    """
    code: object = 1
    try:
        importlib.import_module("zenturio.cli").main()
        code = 0
    except SystemExit as error:
        code = error.code
    except BaseException:  # noqa: BLE001 - as Python does where nobody catches it
        sys.excepthook(*sys.exc_info())
    if not isinstance(code, int | None):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()  # waits for threads that are no daemons
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = 120  # as Python says that it could not write
    os._exit(code or 0)


if __name__ == "__main__":
    # As of the script `zen`: neither what lies beside this file nor a study's folder is a module.
    sys.path[0] = str(Path(sys.executable).parent)
    for name in (*_modules(), *PACKAGES):
        importlib.import_module(name)
    _serve(socket.socket(fileno=int(sys.argv[1])))
    _run()
