"""A Slurm of the tests' own: munge, a controller and three nodes on this host, in a folder in /tmp.

from slurm import cluster   # a fixture, in a conftest.py; `slurm` where commands are to find it

Ports are free ones and the key is its own, so that several may be up at a time. It is tuned to start
many jobs a second, and to forget and to requeue them within seconds instead of minutes.
"""

import os
import pwd
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

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol", "setpriv")
NODES = ("n1", "n2", "n3")
USER = pwd.getpwuid(os.getuid()).pw_name

CONFIGURATION = """\
ClusterName=zen
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/completed
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=64
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=1,sched_interval=2,bf_interval=2,default_queue_depth=1000
PriorityType=priority/basic
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
MinJobAge={memory}
KillWait=2
ReturnToService=2
SlurmdTimeout=300
MaxArraySize={array}
MaxJobCount=20000
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=10 PreemptMode=OFF
PartitionName=brief Nodes=n3 MaxTime=1 OverTimeLimit=0 PriorityTier=10 PreemptMode=OFF
PartitionName=cancelled Nodes=n3 MaxTime=INFINITE PriorityTier=1 PreemptMode=CANCEL
PartitionName=requeued Nodes=n3 MaxTime=INFINITE PriorityTier=1 PreemptMode=REQUEUE
"""


class Cluster:
    """Three nodes of *cpus* each; *memory* is for how many seconds ended jobs are known.

    *array* is one more than a job array may have tasks.
    """

    def __init__(self, memory: int = 300, array: int = 21, cpus: int = 16) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="zen-slurm-", dir="/tmp"))
        self.folder.chmod(0o755)
        self.conf = self.folder / "slurm.conf"
        self._daemons: dict[str, subprocess.Popen] = {}
        port, *ports = free_ports(1 + len(NODES))
        host = socket.gethostname()
        facts = f"NodeHostname={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=4096"
        lines = [f"NodeName={n} Port={p} {facts}" for n, p in zip(NODES, ports, strict=True)]
        self.conf.write_text(
            CONFIGURATION.format(
                host=host, user=USER, port=port, folder=self.folder, nodes="\n".join(lines),
                memory=memory, array=array,
            )
        )  # fmt: skip
        (self.folder / "state").mkdir()
        (self.folder / "home").mkdir()
        try:
            self._start_munge()
            self.start_controller()
            for node in NODES:
                self.start_node(node)
            self.wait_for_nodes()
        except BaseException:
            self.remove()
            raise

    @property
    def environment(self) -> dict[str, str]:
        """What Slurm's commands must see."""
        return os.environ | {"SLURM_CONF": str(self.conf)}

    def run(self, *command: object, check: bool = True) -> str:
        """What one of Slurm's commands says."""
        done = subprocess.run(
            [*map(str, command)], env=self.environment, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert not check or done.returncode == 0, done.stderr + self.log()
        return done.stdout

    def log(self) -> str:
        """The end of what the controller wrote."""
        path = self.folder / "slurmctld.log"
        return path.read_text()[-4000:] if path.exists() else ""

    def start_controller(self) -> None:
        self._start("slurmctld", "slurmctld", "-D", "-f", self.conf)

    def stop_controller(self, number: int = signal.SIGTERM) -> None:
        """SIGTERM lets it save what it knows; SIGKILL takes the last seconds from it."""
        self._stop("slurmctld", number)

    def start_node(self, node: str) -> None:
        self._start(node, "slurmd", "-D", "-N", node, "-f", self.conf)

    def stop_node(self, node: str) -> None:
        """As when its power fails: what ran on it is gone too."""
        self._stop(node, signal.SIGKILL)
        for pid in self._steps(node):
            _kill(pid)

    def wait_for_nodes(self) -> None:
        """Until every node may be given jobs."""
        words = ("sinfo", "-h", "-N", "-p", "main", "-o", "%T")
        while not self._all_up(states := self.run(*words, check=False).split()):
            controller = self._daemons["slurmctld"].poll()
            assert controller is None, (states, self.log())
            time.sleep(0.05)

    @staticmethod
    def _all_up(states: list[str]) -> bool:
        return len(states) == len(NODES) and set(states) <= {"idle", "mixed", "allocated"}

    def clear(self) -> None:
        """No job is left, whoever left it."""
        if not self.run("squeue", "-h"):
            return
        self.run("scancel", "--signal=KILL", "--full", "-u", USER, check=False)
        self.run("scancel", "-u", USER, check=False)
        self.run("scontrol", "update", "nodename=n[1-3]", "state=resume", check=False)
        while self.run("squeue", "-h"):
            time.sleep(0.05)

    def remove(self) -> None:
        """Ends the daemons and all that ran on the nodes."""
        for name in [*NODES, "slurmctld", "munge"]:
            self._stop(name, signal.SIGKILL)
        for node in NODES:
            for pid in self._steps(node):
                _kill(pid)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start_munge(self) -> None:
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)
        names = ("socket", "pid", "log", "seed")
        options = ("socket", "pid-file", "log-file", "seed-file")
        files = [
            f"--{o}={self.folder}/munge.{n}" for o, n in zip(options, names, strict=True)
        ]  # fmt: skip
        self._start("munge", "munged", "-F", "--force", f"--key-file={key}", *files)
        while not (self.folder / "munge.socket").exists():
            assert self._daemons["munge"].poll() is None
            time.sleep(0.01)

    def _start(self, name: str, *command: object) -> None:
        """A daemon that ends with this process, however that ends."""
        words = ["setpriv", "--pdeathsig", "KILL", "--", *map(str, command)]
        with (self.folder / f"{name}.out").open("ab") as out:
            self._daemons[name] = subprocess.Popen(
                words, env=self.environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                start_new_session=True,
            )  # fmt: skip

    def _stop(self, name: str, number: int) -> None:
        daemon = self._daemons.pop(name, None)
        if daemon is not None:
            daemon.send_signal(number)
            daemon.wait()

    def _steps(self, node: str) -> list[int]:
        """The processes of jobs on *node*, told by their environment, and what watches them."""
        conf, name = f"SLURM_CONF={self.conf}".encode(), f"SLURMD_NODENAME={node}".encode()
        found = set()
        for process in Path("/proc").iterdir():
            with suppress(OSError, ValueError):
                entries = (process / "environ").read_bytes().split(b"\0")
                if conf in entries and name in entries:
                    parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
                    line = Path("/proc", parent, "cmdline").read_bytes()
                    found |= {int(process.name), *([int(parent)] if b"slurmstepd" in line else [])}
        return sorted(found)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="session")
def cluster():
    """A Slurm for this session."""
    needs(*PROGRAMS)
    found = Cluster()
    yield found
    found.remove()


@pytest.fixture
def slurm(cluster, monkeypatch):
    """The same without jobs, where Slurm's commands find it."""
    monkeypatch.setenv("SLURM_CONF", str(cluster.conf))
    # Jobs begin in a login shell: what the user's own profile does there is not what is tested.
    monkeypatch.setenv("HOME", str(cluster.folder / "home"))
    yield cluster
    cluster.clear()
