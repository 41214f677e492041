"""Workers of pytest-xdist as copies of one process that has imported all tests.

Each worker imports what the others import, too, which is most of the time of a collection (5 of 6 s).
Here one process does it for all; pytest-xdist starts, instead of a new Python, a small program that
asks that process for a copy. Copies also share one process that has loaded ``zen`` (``loaded.py``).

Where lines are traced or costs counted, workers are what they are everywhere else.
"""

import atexit
import gc
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import types
from pathlib import Path

import loaded

ASK = """
import os, select, socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as wire:
    wire.connect(sys.argv[1])
    socket.send_fds(wire, [sys.argv[-1].encode()], [0, 1, 2])
    pid = int(wire.recv(32))
for stream in (0, 1):
    os.close(stream)
select.select([os.pidfd_open(pid)], [], [])
"""
"""Is started as Python is, with ``-c PROGRAM`` in the end: lets a copy run that, and ends when it ends."""


def pytest_configure(config):
    """In the process that starts workers, if it does."""
    options = config.option
    if (
        sys.platform == "linux"
        and not hasattr(config, "workerinput")
        and getattr(options, "tx", None)
        and not getattr(options, "cov_source", None)
        and not getattr(options, "costs", None)
    ):
        config.pluginmanager.register(_Copies())


class _Copies:
    """Starts the process of which workers are copies, and tells pytest-xdist."""

    def pytest_xdist_setupnodes(self, config, specs):
        temporary = tempfile.TemporaryDirectory(prefix="zen-workers-")
        config.add_cleanup(temporary.cleanup)
        ask, address = Path(temporary.name, "ask.py"), Path(temporary.name, "wire")
        ask.write_text(ASK)
        wire = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        alive, theirs = socket.socketpair()
        with wire, theirs:
            wire.bind(str(address))
            wire.listen()
            fds = [wire.fileno(), theirs.fileno()]
            first = subprocess.Popen(
                [sys.executable, __file__, *map(str, fds), *config.invocation_params.args],
                pass_fds=fds, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            )  # fmt: skip
        config.add_cleanup(lambda: (alive.close(), first.wait()))
        for spec in specs:
            if spec.popen and not spec.python:
                spec.python = f"{sys.executable} -IS {ask} {address}"


def _serve(wire, alive):
    """Answers with numbers of copies; returns in these what they are to run.

    In the end it waits for all: what they took is counted as what this process took.
    """
    copies = []
    while True:
        ready, _, _ = select.select([wire, alive], [], [])
        if alive in ready:
            for pid in copies:
                os.kill(pid, signal.SIGKILL)  # who has ended is there until somebody waits for it
                os.waitpid(pid, 0)
            return b""
        asker, _ = wire.accept()
        with asker:
            program, streams, *_ = socket.recv_fds(asker, 4096, 3)
            pid = os.fork()
            if not pid:
                for number, stream in enumerate(streams):
                    os.dup2(stream, number)
                    os.close(stream)
                wire.close()
                alive.close()
                return program
            copies.append(pid)
            asker.send(b"%d" % pid)
            for stream in streams:
                os.close(stream)


def _load():
    """Start the process that has loaded ``zen``: one for all copies."""
    loaded.shared, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        return loaded.start(theirs)


def _main():
    wire, alive = (socket.socket(fileno=int(number)) for number in sys.argv[1:3])
    sys.path.pop(0)  # the folder of this file, which pytest itself adds
    import pytest

    pytest.main([*sys.argv[3:], "-n0", "--dist=no", "--collect-only", "-qq"])
    started = _load() if "zenturio" in sys.modules else None
    gc.freeze()  # a collection in a copy would write to pages that all copies share
    if not (program := _serve(wire, alive)):
        if started:
            loaded.shared.close()
            started.wait()
        os._exit(0)
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    sys.argv = ["-c"]
    try:
        exec(program, vars(main))
    finally:
        # As Python ends, but without taking apart all modules that were imported.
        threading._shutdown()
        atexit._run_exitfuncs()
        os._exit(0)


if __name__ == "__main__":
    _main()
