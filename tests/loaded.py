"""``zen`` as a process of its own that need not load first.

    from loaded import zen

    done = zen("space", "first.py", cwd=tmp_path)   # as subprocess.run: returncode, stdout, stderr

To load what a verb needs takes longer than most verbs. So one process loads it, once for all tests
of a worker, and each command is a copy of it: with arguments, a folder, an environment, two streams
and an exit code of its own, and it ends as Python ends. What is said of a start itself (what is
loaded, signals that come early) wants a start, and tests of that make their own.

    driver = Command("run", "first.py", cwd=tmp_path)   # one that runs beside the test

has the number of its process as ``pid``, which may be killed.

    driver = Program(None, "run", "first.py", cwd=tmp_path)

is ``zen`` as subprocess.Popen has it, with pipes that are read while it runs; instead of None it may be
the path of another script that drives studies.
"""

import atexit
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import random
import resource
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO

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
shared: socket.socket | None = None
"""A wire to the process that has loaded, if all workers share one (copied_workers.py)."""
LARGEST = 2**20
"""Bytes of a request."""
MEASURED = "ZENTURIO_COVER_COMMANDS"
"""In the environment: a file of settings for coverage."""
HUGE_PAGE, MADV_COLLAPSE = 2**21, 25


def zen(
    *words: object, cwd: Path, cpu_seconds: int = 0, memory: int = 0
) -> subprocess.CompletedProcess[str]:
    """What ``zen`` makes of *words* in the folder *cwd*.

    It is killed (a negative exit code) after so many *cpu_seconds*, or when it has waited ten
    times as long, and may have so many bytes of *memory*; 0 is no limit.
    """
    with (
        tempfile.TemporaryFile("w+", errors="surrogateescape") as out,
        tempfile.TemporaryFile("w+") as err,
    ):
        wire = _first()
        try:
            _send(wire, words, cwd, [out, err], [cpu_seconds, memory])
            _answer(wire)
            code = _answer(wire)
        except BaseException:
            # A test that took too long: its answer must not be taken for that of the next one.
            _first.cache_clear()
            wire.close()
            raise
        told = [file.seek(0) or file.read() for file in (out, err)]
    return subprocess.CompletedProcess(["zen", *map(str, words)], code, *told)


class Command:
    """``zen`` with *words*, which runs while the test goes on."""

    def __init__(self, *words: object, cwd: Path) -> None:
        # Who answers waits for the command: so each has a process of its own that does.
        self._wire, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            socket.send_fds(_first(), [b"{}"], [theirs.fileno()])
        self._streams = [tempfile.TemporaryFile("w+", errors="surrogateescape") for _ in range(2)]  # noqa: SIM115 - read in the end
        _send(self._wire, words, cwd, self._streams, [0, 0])
        self.pid = _answer(self._wire)
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, if it has ended."""
        if self.returncode is None and select.select([self._wire], [], [], 0)[0]:
            self.returncode = _answer(self._wire)
            self._wire.close()
        return self.returncode

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def communicate(self) -> list[str]:
        """What it has said on its two streams when it has ended; to be asked once."""
        if self.returncode is None:
            select.select([self._wire], [], [])
            self.poll()
        said = []
        for file in self._streams:
            with file:
                file.seek(0)
                said.append(file.read())
        return said


class Program:
    """The Python program *script*, or ``zen``, with *words*, which runs while the test goes on."""

    def __init__(
        self,
        script: Path | None,
        *words: object,
        cwd: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._wire, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            socket.send_fds(_first(), [b"{}"], [theirs.fileno()])
        ends = [os.pipe() for _ in range(2)]
        self.stdout, self.stderr = (os.fdopen(ours) for ours, _ in ends)
        self._said = ("", "")
        streams = [os.fdopen(theirs, "w") for _, theirs in ends]
        _send(self._wire, words, cwd, streams, [0, 0], str(script or ""), environment)
        for each in streams:
            each.close()
        self.pid = _answer(self._wire)
        self.returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, when it has ended."""
        if self.returncode is None:
            if not select.select([self._wire], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            self.returncode = _answer(self._wire)
            self._wire.close()
        return self.returncode

    def poll(self) -> int | None:
        """The exit code, if it has ended."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end, unless it has."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        self.send_signal(signal.SIGKILL)

    def communicate(self) -> tuple[str, str]:
        """What it has said on its two streams and was not read, when it has ended."""
        if not self.stdout.closed:
            errors: list[str] = []
            with self.stdout, self.stderr:
                reads = threading.Thread(target=lambda: errors.append(self.stderr.read()))
                reads.start()
                out = self.stdout.read()
                reads.join()
            self._said = out, errors[0]
        self.wait()
        return self._said


def _send(
    wire: socket.socket,
    words: Sequence[object],
    cwd: Path,
    streams: Sequence[IO[str]],
    limits: list[int],
    script: str = "",
    environment: Mapping[str, str] | None = None,
) -> None:
    asked = {
        "script": script, "words": [*map(str, words)], "cwd": str(cwd), "limits": limits,
        "environment": dict(os.environ if environment is None else environment),
    }  # fmt: skip
    request = json.dumps(asked).encode()
    socket.send_fds(wire, [request], [file.fileno() for file in streams])


def _answer(wire: socket.socket) -> int:
    """A number: first that of the process, then its exit code."""
    answer = wire.recv(32)
    assert answer, "the process that has loaded zen is gone"
    return int(answer)


@cache
def _first() -> socket.socket:
    """The wire to the process that has loaded; it ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        if shared:
            socket.send_fds(shared, [b"{}"], [theirs.fileno()])
            return ours
        process = start(theirs)
    atexit.register(lambda: (ours.close(), process.wait()))
    return ours


def start(wire: socket.socket) -> subprocess.Popen[bytes]:
    """A process that loads, and makes a copy of itself for each request on *wire*."""
    command = [sys.executable, __file__, str(wire.fileno())]
    return subprocess.Popen(command, pass_fds=[wire.fileno()], stdin=subprocess.DEVNULL)


def _collapse_memory() -> None:
    """Put what was loaded into huge pages, where Linux has them: a copy of the process takes half as long."""
    with suppress(OSError, AttributeError):
        advise = ctypes.CDLL(None).madvise
        advise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
        for line in Path("/proc/self/maps").read_text().splitlines():
            place, rights, _, _, file, *_ = line.split()
            first, end = (int(address, 16) for address in place.split("-"))
            if (rights, file) == ("rw-p", "0"):
                for page in range(-(-first // HUGE_PAGE), end // HUGE_PAGE):
                    advise(page * HUGE_PAGE, HUGE_PAGE, MADV_COLLAPSE)  # a refusal harms nothing


def _serve(wire: socket.socket) -> str:
    """Answers with exit codes; returns in the copies, which are to run the command: a script, or ``zen``."""
    # Of what packages would tidy up in the end, a copy has nothing; to look at all of it takes 3 ms.
    weakref.finalize._registry.clear()
    gc.freeze()
    _collapse_memory()
    while True:
        request, streams, *_ = socket.recv_fds(wire, LARGEST, 2)
        if not request:
            signal.alarm(10)
            with suppress(ChildProcessError):
                while True:
                    os.wait()  # so what copies took is counted as what this process took
            os._exit(0)
        asked = json.loads(request)
        pid = os.fork()
        if not pid:
            wire.close()
            if not asked:  # the one file is a wire of its own
                wire = socket.socket(fileno=streams[0])
                continue
            _become(asked, streams)
            return asked["script"]
        for each in streams:
            os.close(each)
        if asked:
            wire.send(b"%d" % pid)
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
    sys.argv = [asked["script"] or "-c", *asked["words"]]
    random.seed()
    if "PYTHONPATH" in os.environ:  # plug-ins of the test's own may lie there
        plugins._entry_points.cache_clear()
    for each in failpoints._declared.values():
        each._left = failpoints._asked(each.name)
    _measure()


def _measure() -> None:
    """Count lines as those of the test that began this, where .ci/mutants.py asks for them."""
    if configuration := os.environ.get(MEASURED):
        test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
        coverage = importlib.import_module("coverage").Coverage(
            config_file=configuration, context=f"{test}|run", data_suffix=True
        )
        coverage.start()
        atexit.register(lambda: (coverage.stop(), coverage.save()))


def _modules() -> Iterator[str]:
    """The names of all modules of OURS."""
    for name in (f"zenturio.{package}" for package in OURS):
        yield name
        path = importlib.import_module(name).__path__
        found = (module.name for module in pkgutil.walk_packages(path, f"{name}."))
        yield from (module for module in found if ".examples." not in module)  # programs of users


def _run(script: str) -> None:
    """Run *script*, or ``zen``, and end as Python does, but for freeing all that was loaded: it takes longer
    than most commands do.
    """
    code: object = 1
    try:
        if script:
            path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
            sys.path[:1] = [str(Path(script).parent), *filter(None, path)]
            runpy.run_path(script, run_name="__main__")
        else:
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
    for name in (*_modules(), *PACKAGES, *(["coverage"] if MEASURED in os.environ else [])):
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            # An extra that is not installed, as in the environments of `make test-versions`.
            if (error.name or "").startswith("zenturio"):
                raise
    failpoints = importlib.import_module("zenturio.failpoints")
    plugins = importlib.import_module("zenturio.plugins")
    for kind in plugins._ONE:
        plugins.names(kind)
    _run(_serve(socket.socket(fileno=int(sys.argv[1]))))
