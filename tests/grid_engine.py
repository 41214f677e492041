"""A Grid Engine of the tests' own: a cell with a master and one host, in a folder in /tmp.

from grid_engine import cell, grid_engine   # fixtures; the second where commands are to find it

Ports and the groups by which it knows its jobs are its own, so that several may be up at a time.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest

from needs import needs
from ports import free_ports

LIBRARY = Path("/usr/lib/gridengine")
"""Where Debian has its programs."""
SHARED = Path("/usr/share/gridengine")
PROGRAMS = ("qsub", "qstat", "qconf", "sge_qmaster", "sge_execd", "setpriv")

BOOTSTRAP = """\
admin_user              none
default_domain          none
ignore_fqdn             false
spooling_method         classic
spooling_lib            libspoolc
spooling_params         {root}/default/common;{root}/spool/master
binary_path             {root}/bin
qmaster_spool_dir       {root}/spool/master
security_mode           none
listener_threads        1
worker_threads          1
scheduler_threads       1
"""
CHANGES = {
    "execd_spool_dir": "{root}/spool/execd",
    "min_uid": "0",
    "min_gid": "0",
    "gid_range": "{groups}",
    "max_aj_tasks": "20",
    "load_report_time": "00:00:05",
    "reporting_params": "accounting=true reporting=false flush_time=00:00:01 joblog=false"
    " sharelog=00:00:00",
}
"""What differs from Debian's configuration of a cell."""
HOST = """\
hostname              {host}
load_scaling          NONE
complex_values        NONE
user_lists            NONE
xuser_lists           NONE
projects              NONE
xprojects             NONE
usage_scaling         NONE
report_variables      NONE
"""
PARALLEL = """\
pe_name            smp
slots              999
user_lists         NONE
xuser_lists        NONE
start_proc_args    NONE
stop_proc_args     NONE
allocation_rule    $pe_slots
control_slaves     FALSE
job_is_first_task  TRUE
urgency_slots      min
accounting_summary FALSE
qsort_args         NONE
"""
QUEUE = {
    "qname": "main.q",
    "hostlist": "{host}",
    "seq_no": "0",
    "load_thresholds": "NONE",
    "suspend_thresholds": "NONE",
    "nsuspend": "1",
    "suspend_interval": "00:05:00",
    "priority": "0",
    "min_cpu_interval": "00:05:00",
    "processors": "UNDEFINED",
    "qtype": "BATCH",
    "ckpt_list": "NONE",
    "pe_list": "smp",
    "rerun": "FALSE",
    "slots": "16",
    "tmpdir": "/tmp",
    "shell": "/bin/sh",
    "shell_start_mode": "posix_compliant",
    "notify": "00:00:60",
    "starter_method": "{root}/starter",
    "initial_state": "default",
}
_NONE = [
    "prolog",
    "epilog",
    "suspend_method",
    "resume_method",
    "terminate_method",
    "owner_list",
    "user_lists",
    "xuser_lists",
    "subordinate_list",
    "complex_values",
    "projects",
    "xprojects",
    "calendar",
]
_LIMITS = [f"{kind}_{what}" for kind in "sh" for what in
           ("rt", "cpu", "fsize", "data", "stack", "core", "rss", "vmem")]  # fmt: skip


class Cell:
    """A master, and a host with 16 slots."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="zen-sge-", dir="/tmp"))
        self.root.chmod(0o755)
        self.host = socket.gethostname()
        master, daemon = free_ports(2)
        self.variables = {
            "SGE_ROOT": str(self.root), "SGE_CELL": "default", "SGE_ND": "1",
            "SGE_QMASTER_PORT": str(master), "SGE_EXECD_PORT": str(daemon),
        }  # fmt: skip
        self._daemons: dict[str, subprocess.Popen] = {}
        try:
            self._make_folders()
            self._configure()
            self.start("sge_qmaster")
            self._until(lambda: self.run("qconf", "-sh", check=False).returncode == 0)
            self._add_host()
            self.start("sge_execd")
            self._until(lambda: "lx-" in self.run("qstat", "-f").stdout)
        except BaseException:
            self.remove()
            raise

    def run(self, *command: object, check: bool = True) -> subprocess.CompletedProcess[str]:
        """What one of its commands says."""
        environment = {**os.environ, **self.variables, "LD_LIBRARY_PATH": str(LIBRARY)}
        done = subprocess.run(
            [*map(str, command)], env=environment, capture_output=True, text=True, check=False
        )  # fmt: skip
        assert not check or done.returncode == 0, (command, done.stdout, done.stderr, self.log())
        return done

    def log(self) -> str:
        """The end of what the master wrote."""
        path = self.root / "spool" / "master" / "messages"
        return path.read_text()[-4000:] if path.exists() else ""

    def start(self, program: str) -> None:
        """A daemon that ends with this process, however that ends."""
        words = ["setpriv", "--pdeathsig", "KILL", "--", str(LIBRARY / program)]
        with (self.root / f"{program}.out").open("ab") as out:
            self._daemons[program] = subprocess.Popen(
                words, env=os.environ | self.variables, stdin=subprocess.DEVNULL, stdout=out,
                stderr=out, start_new_session=True,
            )  # fmt: skip

    def stop(self, program: str, number: int = signal.SIGKILL) -> None:
        daemon = self._daemons.pop(program, None)
        if daemon is not None:
            daemon.send_signal(number)
            daemon.wait()

    def jobs(self) -> list[str]:
        """What is in the queue, a line for each."""
        return self.run("qstat", "-g", "d").stdout.splitlines()[2:]

    def clear(self) -> None:
        """No job is left, whoever left it."""
        while self.jobs():
            self.run("qdel", "-f", "-u", "*", check=False)
            time.sleep(0.2)

    def remove(self) -> None:
        """Ends the daemons and all that ran on the host."""
        for program in ("sge_execd", "sge_qmaster"):
            self.stop(program)
        mark = f"SGE_ROOT={self.root}".encode()
        for process in Path("/proc").iterdir():
            with suppress(OSError, ValueError):
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    os.kill(int(process.name), signal.SIGKILL)
        shutil.rmtree(self.root, ignore_errors=True)

    def _make_folders(self) -> None:
        for folder in (
            "bin",
            "utilbin",
            "home",
            "default/common",
            "spool/master/job_scripts",
            "spool/execd",
        ):
            (self.root / folder).mkdir(parents=True)
        kind = subprocess.run(
            [SHARED / "util" / "arch"], capture_output=True, text=True, check=True
        )
        for folder in ("bin", "utilbin"):
            (self.root / folder / kind.stdout.strip()).symlink_to(LIBRARY)
        (self.root / "util").symlink_to(SHARED / "util")
        common = self.root / "default" / "common"
        (common / "act_qmaster").write_text(f"{self.host}\n")
        # Else a host whose name stands for 127.0.0.1 is taken for another one.
        (common / "host_aliases").write_text(f"{self.host} localhost\n")
        (common / "bootstrap").write_text(BOOTSTRAP.format(root=self.root))

    def _configure(self) -> None:
        first = 20_000 + 100 * secrets.randbelow(400)
        facts = {"root": self.root, "groups": f"{first}-{first + 99}"}
        usual = (SHARED / "default-configuration").read_text().splitlines()
        lines = [line for line in usual if line.partition(" ")[0] not in CHANGES]
        lines += [f"{name} {text.format(**facts)}" for name, text in CHANGES.items()]
        folders = f"{self.root}/default/common;{self.root}/spool/master"
        self.run(LIBRARY / "spoolinit", "classic", "libspoolc", folders, "init")
        fill = LIBRARY / "spooldefaults"
        self.run(fill, "configuration", self._file("configuration", lines))
        self.run(fill, "complexes", SHARED / "util" / "resources" / "centry")
        self.run(fill, "usersets", SHARED / "util" / "resources" / "usersets")
        self.run(fill, "managers", "root")

    def _add_host(self) -> None:
        self.run("qconf", "-as", self.host)
        self.run("qconf", "-Ae", self._file("host", [HOST.format(host=self.host)]))
        self.run("qconf", "-Ap", self._file("parallel", [PARALLEL]))
        # Jobs begin in a login shell: what the user's own profile does there is not what is tested.
        starter = self._file(
            "starter", ["#!/bin/sh", f"HOME={self.root}/home", 'exec bash -l "$@"']
        )
        starter.chmod(0o755)
        queue = {name: text.format(host=self.host, root=self.root) for name, text in QUEUE.items()}
        queue |= dict.fromkeys(_NONE, "NONE") | dict.fromkeys(_LIMITS, "INFINITY")
        self.run("qconf", "-Aq", self._file("queue", [f"{n} {t}" for n, t in queue.items()]))
        quick = {"schedule_interval": "0:0:1", "flush_submit_sec": "1", "flush_finish_sec": "1"}
        usual = [line.split(None, 1) for line in self.run("qconf", "-ssconf").stdout.splitlines()]
        lines = [f"{name} {quick.get(name, text)}" for name, text in usual]
        self.run("qconf", "-Msconf", self._file("scheduler", lines))

    def _file(self, name: str, lines: list[str]) -> Path:
        path = self.root / name
        path.write_text("\n".join(lines) + "\n")
        return path

    def _until(self, condition) -> None:
        end = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < end, self.log()
            for program, daemon in self._daemons.items():
                said = (self.root / f"{program}.out").read_text()
                assert daemon.poll() is None, (program, said, self.log())
            time.sleep(0.1)


@pytest.fixture(scope="session")
def cell():
    """A Grid Engine for this session."""
    needs(*PROGRAMS)
    started = Cell()
    yield started
    started.remove()


@pytest.fixture
def grid_engine(cell, monkeypatch):
    """The same without jobs, where its commands find it."""
    for name, text in cell.variables.items():
        monkeypatch.setenv(name, text)
    yield cell
    cell.clear()
