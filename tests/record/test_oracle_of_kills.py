"""Two drivers, and every process of theirs at the mercy of kill -9, ``cancel``, ``prune`` and ``backup``.

All by the command line as a user has it. Each experiment leaves bytes that no other attempt leaves
and prints their hash: so it can be told afterwards whose files an accepted result has.
"""

import contextlib
import os
import random
import subprocess
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path

import pytest

from loaded import Command, zen
from study.oracle import alive, processes_of
from zenturio.record.consistency_check import check_consistency
from zenturio.record.open import open_repository
from zenturio.record.repository import Repository

pytestmark = pytest.mark.slow
PROGRAM = """\
#!/bin/sh
n=0
#ZEN$ ASSIGN n = {{ 1:{count} }}
#ZEN$ RUN "sh {name}.sh" RETRY 50 TIMEOUT 60s
#ZEN$ OUTPUT "own.bin", "same.txt"
#ZEN$ METRIC square FROM stdout REGEX "square (\\d+)"
echo "the same for all" > same.txt
head -c $((1000 + n)) /dev/urandom > own.bin
sleep {seconds}
sha256sum own.bin
echo "square $((n * n))"
"""
EXTRA = ("x1", "x2", "x3")
"""Studies of one program: they share its results, and all but the last are pruned."""
GLANCE = 0.1
"""Seconds between two looks for somebody to kill."""
ENDS = {0, 3, 4, 130, -9, -15}
"""Done, failed, its workers were killed too often, cancelled, killed, cancelled before it opened the
repository or after it closed it: how a driver may end."""


@dataclass(frozen=True)
class Accepted:
    """A result, and the bytes that belong to it."""

    attempt: int
    said: str
    """The hash that the attempt printed."""
    bytes_hash: str
    """That of the artifact."""


@dataclass
class Abused:
    """A study with two drivers, and all that is done to it."""

    folder: Path
    url: str
    count: int
    seconds: float
    chance: random.Random
    drivers: list[Command] = field(default_factory=list)
    seen: dict[str, Accepted] = field(default_factory=dict)
    backups: dict[Path, frozenset[str]] = field(default_factory=dict)
    """What was accepted before each of them was made."""
    done: Counter = field(default_factory=Counter)

    @cached_property
    def repository(self) -> Repository:
        """What is looked at all the time, by one who only reads."""
        return open_repository(self.url)

    def zen(self, *words: object, codes: tuple[int, ...] = (0,)) -> str:
        done = zen(*words, "--db", self.url, cwd=self.folder)
        assert done.returncode in codes, (words, done.stdout, done.stderr)
        return done.stdout

    def write(self) -> None:
        (self.folder / ".zenturio").mkdir(parents=True)
        for name, count, seconds in (("study", self.count, self.seconds), ("extra", 3, 0)):
            text = PROGRAM.format(name=name, count=count, seconds=seconds)
            (self.folder / f"{name}.sh").write_text(text)
        for name in EXTRA:
            self.zen("run", "extra.sh", "--name", name)

    def drive(self) -> None:
        """Let two drivers be at work."""
        for driver in [driver for driver in self.drivers if driver.poll() is not None]:
            self.drivers.remove(driver)
            said = driver.communicate()
            assert driver.returncode in ENDS, said
        while len(self.drivers) < 2:
            words = "run", "study.sh", "--join", "-j", "2", "--db", self.url
            self.drivers.append(Command(*words, cwd=self.folder))

    def kill(self) -> bool:
        """Kill a driver, a launcher or an experiment; whether there was one."""
        victims = list(processes_of(self.folder))
        # Drivers that load yet are spared mostly: there would be nothing but drivers that load.
        if self.chance.random() < (0.3 if victims or len(self.seen) == self.count else 0.01):
            victims = [driver.pid for driver in self.drivers if driver.poll() is None]
        if not victims:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.chance.choice(sorted(victims)), 9)
            return True
        return False

    def cancel(self) -> bool:
        """Cancel one experiment, or the whole study with both drivers."""
        if not self.seen:
            return False
        running = [r.digest for r in self.repository.records("study", states=["running"])]
        if running and self.chance.random() < 0.5:
            self.zen("cancel", self.chance.choice(sorted(running)), codes=(0, 2))
        else:
            self.zen("cancel", "study", codes=(0, 2))
        return True

    def prune(self) -> bool:
        """Refused while a driver is at work; done as soon as there is none."""
        command = "prune", EXTRA[self.done["prune"]], "--no-folders", "--yes"
        self.zen(*command, codes=(0, 5))
        self.end()
        if command[1] in [study.name for study in self.repository.studies()]:
            self.zen(*command)
        return True

    def backup(self) -> bool:
        target = self.folder.parent / f"backup{self.done['backup']}"
        before = frozenset(self.seen)
        self.zen("db", "backup", target)
        self.backups[target] = before
        return True

    def look(self) -> None:
        """What is accepted by now."""
        if "study" not in [study.name for study in self.repository.studies()]:
            return
        for record in self.repository.records("study", states=["ok"]):
            if record.digest not in self.seen:
                self.seen[record.digest] = accepted(self.repository, record)

    def abuse(self, kills: int, pause: float) -> None:
        """Do everything, in an order that chance decides."""
        others = max(1, kills // 15)
        actions = ["kill"] * kills + ["cancel"] * others + ["backup"] * others
        actions += ["prune"] * min(others, len(EXTRA) - 1)
        self.chance.shuffle(actions)
        try:
            while actions:
                self.drive()
                time.sleep(self.chance.uniform(0, pause))
                self.look()
                while not getattr(self, actions[-1])():  # nobody is there yet who could be killed
                    time.sleep(GLANCE)
                    self.drive()
                    # Until all is accepted: then nobody but loading drivers can be killed, and is.
                    if len(self.seen) < self.count:
                        self.look()
                self.done[actions.pop()] += 1
        finally:
            self.end()

    def end(self) -> None:
        """Kill the drivers that there are."""
        while self.drivers:
            driver = self.drivers.pop()
            driver.kill()
            driver.communicate()

    def holds(self) -> None:
        """The oracle."""
        self.zen("run", "study.sh", "--only", "failed,missing", "-j", "4")
        with contextlib.closing(open_repository(self.url)) as repository:
            records = list(repository.records("study"))
            assert [record.index for record in records] == list(range(self.count))
            for record in records:
                n = record.index + 1
                assert (record.state, record.outcome.metrics["square"]) == ("ok", n * n)
                attempts = repository.attempts(record.digest)
                states = Counter(attempt.state for attempt in attempts)
                assert states["ok"] == 1
                assert states.keys() <= {"ok", "failed", "cancelled", "stale", "superseded"}
                assert len({attempt.number for attempt in attempts}) == len(attempts)
                found = accepted(repository, record)
                assert found.said == found.bytes_hash
                assert self.seen.get(record.digest, found) == found
            assert self.seen.keys() <= {record.digest for record in records}
            for record in repository.records(EXTRA[-1]):
                found = accepted(repository, record)
                assert found.said == found.bytes_hash
        self.zen("db", "check", "--artifacts")
        assert alive(self.folder) == []


def accepted(repository, record) -> Accepted:
    """What is recorded and kept of a result."""
    files = {artifact.path: artifact for artifact in repository.artifacts(record.digest)}
    assert files["same.txt"].kept.read_text() == "the same for all\n"
    own = sha256(files["own.bin"].kept.read_bytes()).hexdigest()
    assert own == files["own.bin"].sha256
    said = repository.logs(record.digest).stdout.head.split()[0].decode()
    return Accepted(record.outcome.attempt, said, own)


def opened(postgres, url: str, backup: Path, at: int) -> str:
    """The place at which a backup can be asked: the file, or a database that is made of it."""
    if "://" not in url:
        return str(backup)
    name = f"restored{at}_{backup.parent.name}"[:60].lower().replace("-", "_")
    with postgres.connect() as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    command = ["pg_restore", "-h", str(postgres.folder), "-U", "zen", "-d", name, str(backup)]
    subprocess.run(command, check=True, capture_output=True)
    return url.replace("/postgres?", f"/{name}?")


@pytest.mark.parametrize(
    ("kills", "count", "seconds", "pause"),
    [
        pytest.param(8, 16, 0.05, 0.2, id="8"),
        pytest.param(60, 300, 0.3, 0.8, id="60"),
    ],
)
def test_the_oracle_holds_after_kills_cancel_prune_and_backup(
    url, request, tmp_path, monkeypatch, kills, count, seconds, pause
):
    monkeypatch.delenv("ZENTURIO_DB", raising=False)
    study = Abused(tmp_path / "project", url, count, seconds, random.Random(19))
    study.write()
    with contextlib.chdir(study.folder):
        study.abuse(kills, pause)
        study.holds()
        study.repository.close()
        postgres = request.getfixturevalue("postgres") if "://" in url else None
        for at, (backup, before) in enumerate(study.backups.items()):
            place = opened(postgres, url, backup, at)
            with contextlib.closing(open_repository(place, create=False)) as repository:
                assert check_consistency(repository._database) == []
                if before:
                    assert repository.find_outcomes(sorted(before), "study").keys() == before
