"""Disks that are full, databases that are locked or restarted, clocks that jump, files that run out."""

import os
import subprocess
import sys
import time
from contextlib import chdir

import pytest

from loaded import Program
from needs import needs
from study import oracle
from zenturio.record.open import open_repository
from zenturio.testing.executor import until

HELD = 'while test ! -e "$FLAKY/go"; do sleep 0.02; done'
"""Experiments that end when they may."""
WORDY = "head -c 20000 /dev/zero | tr '\\0' x; sleep 0.005"
"""Experiments whose logs fill a disk soon."""


@pytest.fixture
def small_disk(tmp_path):
    """Mounts small file systems; ``resize`` makes room in them."""
    mounted = []

    def mount(folder, size):
        folder.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0755", "tmpfs", folder],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
        mounted.append(folder)

    if os.geteuid() != 0:
        pytest.skip("only root may mount a small disk")
    needs("mount", "umount")
    yield mount
    for folder in mounted:
        subprocess.run(["umount", "-l", folder], check=True)


def resize(folder, size):
    subprocess.run(["mount", "-o", f"remount,size={size}", folder], check=True)


def test_a_full_disk_under_the_database_ends_the_run_and_keeps_what_was_told(
    study, small_disk, tmp_path
):
    disk = tmp_path / "disk"
    small_disk(disk, "3m")
    wordy = study(200, work=WORDY, url=str(disk / "zenturio.db"))
    out, err = oracle.finished(wordy.start(), 4)
    assert "make room" in err
    kept = oracle.told(out)
    assert 0 < kept < 200
    resize(disk, "64m")
    assert wordy.states()["ok"] >= kept
    assert oracle.faults_after_resume(wordy) == []


@pytest.mark.slow
def test_a_full_disk_under_the_work_folder_ends_the_run_and_keeps_what_was_told(study, small_disk):
    busy = study(400)
    disk = busy.folder / ".zenturio"
    small_disk(disk, "1m")
    out, err = oracle.finished(busy.start("keep=always"), 4)
    assert "No space left on device" in err
    assert "make room" in err
    assert 0 < oracle.told(out) <= busy.states()["ok"] < 400
    resize(disk, "16m")
    assert oracle.faults_after_resume(busy) == []


class Lock:
    """Holds a SQLite database as another process would: nobody else can write."""

    CODE = """
import sys
from zenturio.record.sqlite import sqlite_module
connection = sqlite_module().connect(sys.argv[1], isolation_level=None, timeout=240)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""

    def __init__(self, path):
        self._path = path

    def __enter__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", self.CODE, self._path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout.readline() == "held\n"
        return self.process

    def __exit__(self, *_error):
        self.process.communicate()


def test_a_database_that_stays_locked_ends_the_run_and_names_who_holds_it(study):
    busy = study(200, work=f"test $n -le 20 || {HELD}")
    running = busy.start("order=sorted", ZENTURIO_DB_WAIT="1")
    oracle.wait_for(running, "ok")
    with Lock(busy.url) as holder:
        (busy.folder / "flaky" / "go").touch()
        out, err = oracle.finished(running, 4)
        assert "has been locked for 1 seconds" in err
        assert f"process {holder.pid}" in err
        assert oracle.alive(busy.folder, 0.0) == []
    assert 0 < busy.states()["ok"] < 200
    assert busy.states()["ok"] >= oracle.told(out)
    assert oracle.faults_after_resume(busy) == []


@pytest.mark.slow
def test_a_database_that_is_locked_for_a_while_is_waited_for(study):
    busy = study(150, work="sleep 0.01")
    running = busy.start(ZENTURIO_DB_WAIT="30")
    oracle.wait_for(running, "ok")
    with Lock(busy.url):
        time.sleep(0.5)
    oracle.finished(running, 0)
    assert oracle.faults(busy) == []


def test_long_experiments_survive_a_database_that_is_away_when_they_end(study):
    """Locked for longer than the driver waits, but not longer than the experiments run."""
    long = study(6, work=f'echo $n >> "$FLAKY/runs"; {HELD}')
    running = long.start("jobs=6", ZENTURIO_DB_WAIT="0.2")
    runs = long.folder / "flaky" / "runs"
    while not (runs.exists() and len(runs.read_text().split()) == 6):
        assert running.poll() is None
        time.sleep(0.02)
    with Lock(long.url):
        time.sleep(0.5)
    (long.folder / "flaky" / "go").touch()
    oracle.finished(running, 0)
    assert len(runs.read_text().split()) == 6
    assert oracle.faults(long) == []


@pytest.mark.slow
def test_a_server_that_is_restarted_in_the_middle_costs_nothing(study, postgres, postgres_url):
    busy = study(200, work="sleep 0.02", url=postgres_url)
    running = busy.start()
    oracle.wait_for(running, "ok")
    postgres.restart()
    oracle.finished(running, 0)
    assert oracle.faults(busy) == []


JUMPING = """\
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
static long jump(void) { /* a day ahead, or back, as the file says by being there */
  if (access(getenv("ZEN_TEST_AHEAD"), F_OK) == 0) return 86400;
  if (access(getenv("ZEN_TEST_BACK"), F_OK) == 0) return -86400;
  return 0;
}
int clock_gettime(clockid_t which, struct timespec *now) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  int found = real(which, now);
  if (which == CLOCK_REALTIME) now->tv_sec += jump();
  return found;
}
int gettimeofday(struct timeval *now, void *zone) {
  struct timespec precise;
  clock_gettime(CLOCK_REALTIME, &precise);
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return 0;
}
time_t time(time_t *where) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (where) *where = now.tv_sec;
  return now.tv_sec;
}
"""


def test_a_clock_that_jumps_harms_no_duration_and_no_claim(study, tmp_path):
    """A day ahead in the middle, then two days back: for the driver and all that it starts."""
    needs("cc")
    (tmp_path / "jump.c").write_text(JUMPING)
    library = tmp_path / "jump.so"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", library, tmp_path / "jump.c", "-ldl"], check=True
    )
    ahead, back = tmp_path / "ahead", tmp_path / "back"
    busy = study(120, work="sleep 0.02")
    running = busy.start(
        LD_PRELOAD=str(library), ZEN_TEST_AHEAD=str(ahead), ZEN_TEST_BACK=str(back)
    )
    oracle.wait_for(running, "ok", 20)
    ahead.touch()
    oracle.wait_for(running, "ok", 50)
    back.touch()
    ahead.unlink()
    oracle.finished(running, 0)
    days = {round((start - time.time()) / 86400) for start in starts(busy)}
    assert days == {-1, 0, 1}, "the clock did not jump"
    assert oracle.faults(busy) == []


@pytest.mark.slow  # it waits for the change of the time zone
def test_daylight_saving_that_ends_in_the_middle_harms_no_duration_and_no_time(study):
    """Local time goes back by an hour while each of the first experiments runs."""
    change = "until test $(date +%z) = +0000; do sleep 0.1; done"
    busy = study(30, work=f'date +%z >> "$FLAKY/zones"; {change}; date +%z >> "$FLAKY/zones"')
    before = time.time()
    # Summer ends in ten seconds: at that time of that day of the year, as summer has it.
    last = time.gmtime(before + 10 + 3600)
    zone = f"WIN0SUM,0/0,{last.tm_yday - 1}/{time.strftime('%H:%M:%S', last)}"
    oracle.finished(busy.start("lease=5", TZ=zone), 0)
    zones = (busy.folder / "flaky" / "zones").read_text().split()
    assert (zones[0], zones[-1]) == ("+0100", "+0000"), "daylight saving did not end"
    assert all(before - 1 < start < time.time() for start in starts(busy))
    assert oracle.faults(busy) == []


def starts(study):
    repository = open_repository(study.url, finds_unique=True)
    try:
        return [record.outcome.started for record in repository.records("study")]
    finally:
        repository.close()


@pytest.mark.parametrize(
    "files", [8, *(pytest.param(n, marks=pytest.mark.slow) for n in (12, 18, 40))]
)
def test_too_few_open_files_end_the_run_or_slow_it_but_never_hang_it(study, files):
    small = study(20)
    process = small.limited(files)
    _, err = oracle.finished(process, None)
    assert process.returncode in (0, 4), (process.returncode, err)
    assert "Traceback" not in err
    assert oracle.faults_after_resume(small) == []


def test_what_asks_for_more_cpus_than_a_laptop_has_runs_alone(tmp_path, study):
    wide = study(6, work="sleep 0.02")
    text = (wide.folder / "study.sh").read_text()
    (wide.folder / "study.sh").write_text(text.replace("TIMEOUT 30s", "TIMEOUT 30s CPUS n * 100"))
    summary = wide.resume()
    assert (summary.ok, summary.alone) == (6, 6)


def test_what_ends_while_the_server_is_away_is_recorded_by_the_next_run(
    postgres, postgres_url, tmp_path
):
    (tmp_path / ".zenturio").mkdir()
    (tmp_path / "p.sh").write_text(
        '#ZEN$ PARAM n = { 1:2 }\n#ZEN$ RUN "sh p.sh {n}"\n#ZEN$ OUTPUT "out"\n'
        f'echo "$1" >> {tmp_path}/ran\n'
        f"while test ! -e {tmp_path}/go; do sleep 0.02; done\n"
        'echo "$1" > out\n'
    )
    environment = {
        **os.environ, "ZENTURIO_DB": postgres_url, "ZENTURIO_DB_WAIT": "0.3", "ZENTURIO_TRUST": "1",
    }  # fmt: skip

    def start():
        return Program(None, "run", "p.sh", "-j", 2, cwd=tmp_path, environment=environment)

    run = start()
    ran = tmp_path / "ran"
    until(lambda: ran.exists() and len(ran.read_text().split()) == 2)
    postgres.stop()
    (tmp_path / "go").touch()
    _, err = run.communicate()
    postgres.start()
    assert run.returncode == 4, err
    assert "the next run records" in err
    run = start()
    _, err = run.communicate()
    assert run.returncode == 0, err
    assert sorted(ran.read_text().split()) == ["1", "2"]  # nothing ran twice
    with chdir(tmp_path):
        repository = open_repository(postgres_url)
    for record in repository.records("p"):
        (artifact,) = repository.artifacts(record.digest)
        assert artifact.kept.read_text().strip() == str(record.values["n"])
    assert repository.count_states("p")["ok"] == 2
    repository.close()
