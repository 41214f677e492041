"""The settings of a cluster, and the script of a job array that is made with them."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from zenturio.execute.job_setup import PATH_BEFORE, setup_lines
from zenturio.execute.workspace import Keep
from zenturio.experiment import Experiment, Step
from zenturio.settings.schema import setting


@dataclass(frozen=True)
class SlurmOptions:
    """Where jobs go, what they may use, and how often the queue is looked at."""

    partition: str = setting("", "partition of the jobs; the cluster's default, if none is said")
    account: str = setting("", "account that pays")
    qos: str = setting("", "quality of service")
    constraint: str = setting("", "features that a node must have, as sbatch takes them")
    time: str = setting("", "time limit where there is no TIMEOUT: 30 (minutes), 4:00:00, 1-00:00")
    extra: str = setting("", "more options of sbatch, one a line: --gres=gpu:1", executes=True)
    setup: str = setting(
        "", "lines of shell before each experiment: module load gcc", executes=True
    )
    python: str = setting(
        "", "Python on the nodes that has zenturio; this one, if none is said", executes=True
    )
    folder: str = setting("", "folder that the nodes see, where they do not see the project's")
    poll: float = setting(5.0, "seconds between two looks at the queue, at the least", low=0.05)
    array: int = setting(1000, "experiments in one job array, at the most", low=1)
    grace: float = setting(
        30.0, "seconds that an outcome may take to be seen when its job has ended", low=0
    )
    patience: float = setting(
        60.0, "seconds for a command of Slurm to answer, before it is asked again", low=1
    )
    pilots: Literal["auto", "never", "always"] = setting(
        "auto", "whether short experiments go to workers of Dask that stay, which are jobs too"
    )
    pilot_jobs: int = setting(4, "jobs of such workers", low=1, high=100_000)
    pilot_cores: int = setting(4, "CPUs of each, and experiments in it at a time", low=1, high=4096)
    pilot_memory: str = setting("2GB", "memory of each")
    pilot_time: str = setting("01:00:00", "how long each may last")
    interface: str = setting("", "the network that such workers reach this machine through: ib0")


WORKER_BYTES = 128 * 2**20
"""Bytes that a job needs beside its experiment: Python, a launcher, what they hold of output."""
JOB_OVERHEAD_SECONDS = 90.0
"""Seconds that a job may take beyond the TIMEOUTs: to start, to kill, to write what came out."""
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class JobDemand:
    """What a job asks for; experiments that ask for the same go into one array."""

    cpus: int = 1
    memory: int | None = None
    """Bytes of the experiment itself."""
    seconds: float | None = None
    """All TIMEOUTs together; none where a step has none."""

    @staticmethod
    def of(experiment: Experiment) -> JobDemand:
        """Return what *experiment* needs, its build included, for it may have to be made."""
        build = experiment.build.steps if experiment.build else ()
        steps = (*build, *experiment.steps)
        return JobDemand(experiment.cpus, experiment.memory or None, _total_timeout(steps))


def _total_timeout(steps: Iterable[Step]) -> float | None:
    total = 0.0
    for step in steps:
        if step.timeout is None:
            return None
        total += step.timeout
    return total


@dataclass(frozen=True, slots=True)
class JobPaths:
    """Where a job finds what it needs, as the nodes see it."""

    session: Path
    """With ``parcels``, ``outcomes``, ``batches`` and ``logs``."""
    work: Path
    """Below which experiments run."""
    shared: bool
    """Whether that is the project's own folder."""
    keep: Keep = "never"


def array_script(
    name: str, count: int, demand: JobDemand, options: SlurmOptions, paths: JobPaths
) -> str:
    """Return what sbatch is given for the array *name* of *count* experiments.

    The first task that starts says for which job the array's name stands. So of two jobs that
    were submitted under one name, only one does anything; and none, once the driver said that
    it has given the array up. Each start of a task, for Slurm may start one several times, has a
    file of its own (see session).
    """
    head = "\n".join(
        f"#SBATCH {option}" for option in _sbatch_options(name, count, demand, options, paths)
    )
    # The link X.job decides, once and atomically, which job may run the array X.
    session = shlex.quote(str(paths.session))
    # Relative paths from here on; 78 is EX_CONFIG of sysexits.h: the node does not see the disk.
    enter = f"cd {session} || exit 78"
    setup = setup_lines(options.setup, f'touch {session}/"$zen_start.setup"')
    return f"""\
#!/bin/bash -l
{head}
{enter}
ln -s "$SLURM_ARRAY_JOB_ID" batches/{name}.job 2>/dev/null
test "$(readlink batches/{name}.job)" = "$SLURM_ARRAY_JOB_ID" || exit 0
zen_digest=$(sed -n "$((SLURM_ARRAY_TASK_ID + 1))p" batches/{name}.list)
test -f "parcels/$zen_digest" || exit 0
zen_start="starts/{name}-$SLURM_ARRAY_TASK_ID.${{SLURM_RESTART_COUNT:-0}}"
export PATH="${{{PATH_BEFORE}:+${PATH_BEFORE}:}}$PATH"  # a login shell has set it anew
unset {PATH_BEFORE}
{setup}{enter}
exec {" ".join(_worker_command(options, paths))}
"""


def _sbatch_options(
    name: str, count: int, demand: JobDemand, options: SlurmOptions, paths: JobPaths
) -> Iterator[str]:
    yield f"--job-name={name}"
    yield f"--array=0-{count - 1}"
    folder = str(paths.session).replace("%", "%%")  # which stands for something there
    yield f"--output={shlex.quote(f'{folder}/logs/{name}-%a')}"
    yield "--open-mode=append"
    yield "--nodes=1"
    yield "--ntasks=1"
    yield f"--cpus-per-task={demand.cpus}"
    if demand.memory is not None:
        yield f"--mem={math.ceil((demand.memory + WORKER_BYTES) / _MIB)}M"
    if demand.seconds is not None:
        yield f"--time={math.ceil((demand.seconds + JOB_OVERHEAD_SECONDS) / 60)}"
    elif options.time:
        yield f"--time={shlex.quote(options.time)}"
    for option in ("partition", "account", "qos", "constraint"):
        value = getattr(options, option)
        if value:
            yield f"--{option}={shlex.quote(value)}"
    yield from extra_options(options)


def extra_options(options: SlurmOptions) -> list[str]:
    """Return the options of sbatch that are configured as they are, one after the other."""
    return [line.removeprefix("#SBATCH").strip() for line in _lines(options.extra)]


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _worker_command(options: SlurmOptions, paths: JobPaths) -> Iterator[str]:
    """The command that runs one parcel."""
    yield shlex.quote(options.python or sys.executable)
    yield "-P -m zenturio.execute.worker"  # nothing is imported from where it stands
    yield '"parcels/$zen_digest" "outcomes/$zen_digest" --start "$zen_start"'
    yield f"--folder {shlex.quote(str(paths.work))}"
    yield f"--session {paths.session.name}"
    yield f"--keep {paths.keep}"
    if paths.shared:
        yield "--shared"
