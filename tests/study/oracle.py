"""What must hold after every fault, once the study was resumed.

Each point has exactly one accepted result for each repeat; the results are those of a run without
the fault; the database's own check finds nothing; no process of the study is alive.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from unittest import mock

from loaded import Program
from zenturio.annotate.model import MEASURED
from zenturio.annotate.scan import scan
from zenturio.record import maintenance
from zenturio.record.open import open_repository
from zenturio.study.driver.experiment_source import select_points
from zenturio.study.driver.progress import RunSummary
from zenturio.study.driver.study_driver import DriverSettings
from zenturio.study.local_run import run_locally
from zenturio.study.study_request import PlaceOptions

DRIVER = Path(__file__).parent / "driver.py"
ZEN = "from zenturio.cli import main; main()"
PATIENCE = 240.0
"""Seconds that a process of a test may take at the most."""

STUDY = """\
#!/bin/sh
n=0
#ZEN$ ASSIGN n = {{ 1:{count} }}
#ZEN$ RUN "sh study.sh" RETRY 1 TIMEOUT 30s
#ZEN$ REPEAT {repeats} SEED run
#ZEN$ METRIC square FROM stdout REGEX "square (\\d+)"
#ZEN$ METRIC half := square / 2
#ZEN$ OBJECTIVE MAXIMIZE square
# Every seventh fails once: it leaves a mark, so that it does not the next time.
if [ $((n % 7)) = 0 ] && mkdir "$FLAKY/$n" 2>/dev/null; then exit 3; fi
{work}
echo "square $((n * n))"
"""


@dataclass(frozen=True)
class Study:
    """A study in a folder of its own, whose results are known."""

    folder: Path
    url: str
    count: int
    repeats: int = 1
    work: str = ""
    place: str = "local"

    @property
    def experiments(self) -> int:
        return self.count * self.repeats

    def write(self) -> "Study":
        """Makes the folder, with the study in it."""
        (self.folder / ".zenturio").mkdir(parents=True)
        (self.folder / "flaky").mkdir()
        (self.folder / "study.sh").write_text(
            STUDY.format(count=self.count, repeats=self.repeats, work=self.work)
        )
        return self

    def start(self, *words: str, **environment: str) -> subprocess.Popen | Program:
        """A driver; see driver.py. What changes Python itself needs one that is really started."""
        given = (self.url, f"on={self.place}", *words)
        if environment.keys() & {"LD_PRELOAD", "TZ"}:
            return self._start([str(DRIVER), *given], environment)
        every = self.environment() | environment
        return _limited(Program(DRIVER, *given, cwd=self.folder, environment=every))

    def zen(self, *words: str) -> Program:
        """``zen run`` as a user has it."""
        given = ("run", "study.sh", "--db", self.url, "--on", self.place, *words)
        return _limited(Program(None, *given, cwd=self.folder, environment=self.environment()))

    def zen_from_the_start(self) -> subprocess.Popen:
        """``zen run`` that has not been loaded yet."""
        return self._start(["-c", ZEN, "run", "study.sh", "--db", self.url], {})

    def limited(self, files: int) -> subprocess.Popen:
        """A driver that may have so many files open."""
        limit = (
            "import resource, runpy, sys; sys.argv.pop(0);"
            f"resource.setrlimit(resource.RLIMIT_NOFILE, ({files}, {files}));"
            "runpy.run_path(sys.argv[0], run_name='__main__')"
        )
        return self._start(["-c", limit, str(DRIVER), self.url], {})

    def environment(self) -> dict[str, str]:
        """What the study's processes get."""
        return os.environ | {"FLAKY": str(self.folder / "flaky")}

    def _start(self, command, environment) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=self.folder,
            env=self.environment() | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        return _limited(process)

    def resume(self, *, join: bool = False) -> RunSummary:
        """Runs the rest in this process."""
        flaky = {"FLAKY": str(self.folder / "flaky")}
        with chdir(self.folder), mock.patch.dict(os.environ, flaky):
            application = scan(["study.sh"])
            points = select_points(application.space)
            return run_locally(
                application, points, db=self.url, place=PlaceOptions(2, "never", place=self.place), join=join,
                settings=DriverSettings(),
            )  # fmt: skip

    def states(self) -> dict[str, int]:
        """How many experiments are in which state; none before the study is there."""
        repository = open_repository(self.url, finds_unique=True)
        try:
            return repository.count_states("study") if repository.studies() else {}
        finally:
            repository.close()

    def results(self) -> dict[tuple[int, int], tuple]:
        """What each point gave at each repeat: digest, status, and what does not vary."""
        found = {}
        repository = open_repository(self.url, finds_unique=True)
        try:
            for record in repository.records("study"):
                at = (record.index, record.repeat)
                assert at not in found, f"point {record.index} has two results"
                metrics = dict(record.outcome.metrics) if record.outcome else {}
                fixed = {name: v for name, v in metrics.items() if name not in MEASURED}
                found[at] = (record.digest, record.state, fixed)
                if record.outcome:
                    assert 0 <= metrics["wtime"] < PATIENCE
                    assert 0 <= record.outcome.ended - record.outcome.started < PATIENCE
                states = [a.state for a in repository.attempts(record.digest)]
                assert states.count("ok") <= 1, states
                assert set(states) <= {"running", "ok", "failed", "stale", "superseded"}, states
        finally:
            repository.close()
        return found


def _limited(process):
    """End it in the end: reading what it says would wait for ever for one that hangs."""
    hung = threading.Timer(PATIENCE, process.kill)
    hung.daemon = True
    hung.start()
    return process


def faults_after_resume(study: Study) -> list[str]:
    """Resume *study*, which no driver runs, and return what does not hold of it, in words."""
    summary = study.resume()
    failures = [f"{summary.failed} failed"] if summary.failed else []
    failures += [f"{summary.unfinished} were not run"] if summary.unfinished else []
    return failures + faults(study)


def faults(study: Study) -> list[str]:
    """Return what does not hold of *study*, which has been resumed, in words."""
    results, expected = study.results(), unharmed(study.count, study.repeats, study.work)
    wrong = [f"point {at}: {results.get(at)}" for at in expected if results.get(at) != expected[at]]
    wrong += [f"point {at} was not asked for" for at in results if at not in expected]
    if study.states()["ok"] != study.experiments:
        wrong.append(f"states: {study.states()}")
    wrong += map(str, maintenance.check_repository(study.url))
    return wrong + [f"process {pid} is alive" for pid in alive(study.folder)]


@cache
def unharmed(count: int, repeats: int, work: str) -> dict[tuple[int, int], tuple]:
    """The results of the same study when nothing happens to it."""
    with tempfile.TemporaryDirectory() as folder:
        url = str(Path(folder, "db"))
        study = Study(Path(folder, "study"), url, count, repeats, work).write()
        (study.folder / "flaky" / "go").touch()  # for experiments that wait for it
        study.resume()
        found = study.results()
    assert len(found) == count * repeats
    for (index, _), (_, state, metrics) in found.items():
        square = (index + 1) ** 2
        assert (state, metrics) == ("ok", {"square": square, "half": square / 2})
    return found


def alive(folder: Path, patience: float = PATIENCE) -> list[int]:
    """Processes of the study that do not end: experiments by their mark, launchers by place."""
    end = time.monotonic() + patience
    while (found := list(processes_of(folder))) and time.monotonic() < end:
        time.sleep(0.02)
    return found


def processes_of(folder: Path) -> Iterator[int]:
    """Experiments and launchers of the study in *folder*, by their numbers."""
    mark = os.fsencode(folder)
    for process in Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        try:
            environment = (process / "environ").read_bytes()
            inside = (process / "cwd").readlink().is_relative_to(folder / ".zenturio")
        except OSError:
            continue
        if inside or (b"ZEN_EXPERIMENT=" in environment and mark in environment):
            yield int(process.name)


def finished(process: subprocess.Popen | Program, code: int | None = 0) -> tuple[str, str]:
    """What a process said, which must end by itself, with *code*."""
    out, err = process.communicate()
    assert code is None or process.returncode == code, (process.returncode, out, err)
    return out, err


def wait_for(process: subprocess.Popen | Program, word: str, number: int = 0) -> None:
    """Reads what *process* says until a line begins with *word*, and a number as high."""
    while True:
        line = process.stdout.readline()
        assert line, process.communicate()
        said, _, count = line.partition(" ")
        if said.strip() == word and int(count or 0) >= number:
            return


def told(out: str) -> int:
    """How many outcomes a driver said were committed."""
    numbers = [int(line.split()[1]) for line in out.splitlines() if line.startswith("ok ")]
    return max(numbers, default=0)
