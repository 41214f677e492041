"""A scheduler of Dask and its workers as processes of their own, which tests may kill.

with Cluster() as cluster:
    cluster.worker()
    ... cluster.address ...
"""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from needs import needs
from ports import free_port


def answers(port: int) -> bool:
    """Whether somebody listens there."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


class Cluster:
    """Begins with a scheduler; workers come when they are asked for."""

    def __init__(self, *ways: str, scheme: str = "dask") -> None:
        """*ways* are words for the scheduler and the workers: --tls-cert FILE."""
        needs("setpriv")
        self.port = free_port()
        self.address = f"{scheme}://127.0.0.1:{self.port}"
        self._url = self.address.replace("dask://", "tcp://")
        self._ways = ways
        self.processes: list[subprocess.Popen] = []
        self.scheduler = self.schedule()

    def schedule(self) -> subprocess.Popen:
        """Starts the scheduler, again if it was killed."""
        words = ["--host", self._url.rpartition(":")[0], "--port", str(self.port), "--no-dashboard"]
        self.scheduler = self._start("distributed.cli.dask_scheduler", *words, "--no-show")
        while not answers(self.port):
            assert self.scheduler.poll() is None
            time.sleep(0.02)
        return self.scheduler

    def worker(self, threads: int = 2, preload: Path | None = None) -> subprocess.Popen:
        """One more worker, which has no nanny: killed it stays dead. It runs *preload* first."""
        words = ["--nthreads", str(threads), "--no-nanny", "--no-dashboard"]
        words += ["--preload", str(preload)] if preload is not None else []
        return self._start("distributed.cli.dask_worker", self._url, *words)

    def _start(self, module: str, *words: str) -> subprocess.Popen:
        environment = os.environ | {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "5s"}
        end_with_us = ["setpriv", "--pdeathsig", "KILL", "--"]
        process = subprocess.Popen(
            [*end_with_us, sys.executable, "-m", module, *words, *self._ways],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.processes.append(process)
        return process

    def __enter__(self):
        return self

    def __exit__(self, *_error) -> None:
        for process in self.processes:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()


def certificate(folder: Path) -> Path:
    """A key and a certificate that vouches for itself, in one file."""
    from distributed import Security

    made = Security.temporary()
    path = folder / "both.pem"
    path.write_text(made.tls_client_key + made.tls_client_cert)
    return path
