"""What every place promises: a suite that the tests of a place inherit.

    class TestMine(CommandContract):
        @pytest.fixture
        def place(self, tmp_path):
            with Mine(tmp_path) as place:
                yield place

``ExecutorContract`` holds for every place; ``CommandContract`` for those that run commands.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from zenturio.annotate.model import Metric
from zenturio.errors import PlaceError
from zenturio.execute.executor import Executor
from zenturio.experiment import Build, Experiment, ExperimentFile, Missing, Outcome, Recipe, Step
from zenturio.experiment.experiment import empty_folder, link_to
from zenturio.experiment.identity import content_digest, experiment_digest

PATIENCE = 240.0
"""Seconds after which a test gives up waiting: a machine that is busy never takes so long."""

T = TypeVar("T")

_repeats = itertools.count(1)


def experiment(
    *commands: str | Step,
    files: Mapping[str, bytes] | None = None,
    environment: Mapping[str, str] | None = None,
    recipe: Recipe | None = None,
    builds: tuple[str, ...] = (),
) -> Experiment:
    """An experiment of *commands*, different from every other one."""
    steps = tuple(Step(c) if isinstance(c, str) else c for c in commands)
    filed = tuple(ExperimentFile(path, 0o755, content) for path, content in (files or {}).items())
    making = tuple(map(Step, builds))
    build = Build(experiment_digest(filed, making, {}, 0), filed, making) if builds else None
    repeat = next(_repeats)
    named = experiment_digest(filed, (*making, *steps), environment or {}, repeat)
    return Experiment(
        named, -1, repeat, {}, filed, steps, environment or {}, build, recipe or Recipe()
    )


def outcome(place: Executor, what: Experiment) -> Outcome:
    """What comes out of an experiment at a place."""
    return place.submit(what).result(PATIENCE)


def until(condition: Callable[[], T]) -> T:
    """Wait for *condition* to hold, and return what it returns."""
    end = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < end, "it never came to hold"
        time.sleep(0.005)
    return value


def running(word: str) -> list[int]:
    """The processes of this machine in whose command line *word* stands."""
    pids = []
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit() and int(name) != os.getpid():
            try:
                words = Path("/proc", name, "cmdline").read_bytes()
                ended = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()[0] == "Z"
            except OSError:
                continue
            if word.encode() in words.split(b"\0") and not ended:
                pids.append(int(name))
    return pids


def long(seconds: str) -> str:
    """*seconds* as nobody else writes them, so that a process tells whose it is."""
    return f"{seconds}{os.getpid():08}"


def gflops(**changes: object) -> Recipe:
    """A recipe with one metric, which a program prints as ``GFLOPS=3.2``."""
    metric = Metric("gflops", "stdout", r"GFLOPS=(\S+)")
    return Recipe((replace(metric, **changes),))  # type: ignore[arg-type]


class ExecutorContract:
    """Give it a ``place`` fixture, and ``good`` and ``bad`` that make experiments for it."""

    def good(self) -> Experiment:
        return experiment("echo GFLOPS=3.2", recipe=gflops())

    def bad(self) -> Experiment:
        return experiment("exit 3", recipe=gflops())

    def test_what_succeeds_is_ok_and_has_its_metrics(self, place: Executor) -> None:
        what = self.good()
        result = outcome(place, what)
        assert (result.status, result.cause, result.digest) == ("ok", "", what.digest)
        assert result.metrics["gflops"] == 3.2

    def test_what_is_always_measured_is_there(self, place: Executor) -> None:
        metrics = outcome(place, self.good()).metrics
        assert {"wtime", "ctime", "maxrss", "exit"} <= metrics.keys()
        assert isinstance(metrics["wtime"], float)
        assert metrics["wtime"] >= 0
        assert metrics["exit"] == 0

    def test_what_fails_is_an_outcome_with_a_cause(self, place: Executor) -> None:
        result = outcome(place, self.bad())
        assert result.status == "failed"
        assert result.cause
        assert outcome(place, self.bad()).cause == result.cause

    def test_times_are_now_in_utc_and_in_order(self, place: Executor) -> None:
        before = time.time()
        result = outcome(place, self.good())
        assert before - 1 <= result.started <= result.ended <= time.time() + 1

    def test_the_host_is_named(self, place: Executor) -> None:
        assert outcome(place, self.good()).host

    def test_many_experiments_have_each_their_own_outcome(self, place: Executor) -> None:
        experiments = [self.good() if i % 3 else self.bad() for i in range(20)]
        futures = [place.submit(what) for what in experiments]
        assert [f.result(PATIENCE).digest for f in futures] == [e.digest for e in experiments]
        assert [f.result().status for f in futures] == [
            "ok" if i % 3 else "failed" for i in range(20)
        ]

    def test_callbacks_hear_of_the_end(self, place: Executor) -> None:
        heard: list[Future[Outcome]] = []
        future = place.submit(self.good())
        future.add_done_callback(heard.append)
        wait([future], PATIENCE)
        until(lambda: heard == [future])

    def test_closing_twice_is_no_error(self, place: Executor) -> None:
        outcome(place, self.good())
        place.close()
        place.close()

    def test_there_is_at_least_one_slot(self, place: Executor) -> None:
        assert place.slots >= 1


class CommandContract(ExecutorContract):
    """What a place that runs commands promises beyond that."""

    def test_files_are_there_with_their_modes(self, place: Executor) -> None:
        files = {"run.sh": b"#!/bin/sh\ncat sub/in.txt\n", "sub/in.txt": b"GFLOPS=7"}
        result = outcome(place, experiment("./run.sh", files=files, recipe=gflops()))
        assert result.metrics["gflops"] == 7

    def test_a_value_is_one_word_whatever_it_holds(self, place: Executor) -> None:
        result = outcome(place, experiment("printf '<%s>' 'a;rm -rf ~' '$(id)' '../x'"))
        assert result.stdout.head == b"<a;rm -rf ~><$(id)><../x>"

    def test_the_environment_is_that_of_the_experiment(self, place: Executor) -> None:
        what = experiment('echo "$GREETING:$ZEN_EXPERIMENT"', environment={"GREETING": "grüß dich"})
        assert outcome(place, what).stdout.head.decode() == f"grüß dich:{what.digest}\n"

    def test_commands_run_in_order_until_one_fails(self, place: Executor) -> None:
        result = outcome(place, experiment("echo one", "echo two; exit 4", "echo three"))
        assert (result.status, result.cause, result.exit) == ("failed", "exit 4", 4)
        assert result.stdout.head == b"one\ntwo\n"

    def test_commands_share_a_folder(self, place: Executor) -> None:
        result = outcome(place, experiment("echo 5 > made", "cat made"))
        assert result.stdout.head == b"5\n"

    def test_experiments_do_not_share_a_folder(self, place: Executor) -> None:
        futures = [place.submit(experiment("ls -A; touch left; sleep 0.05")) for _ in range(6)]
        assert {future.result(PATIENCE).stdout.head for future in futures} == {b""}

    def test_standard_input_is_empty(self, place: Executor) -> None:
        assert outcome(place, experiment("cat; echo end")).stdout.head == b"end\n"

    def test_streams_are_kept_apart_and_to_the_byte(self, place: Executor) -> None:
        odd = b"\xff\x00\xfe\r\n\xc3"
        result = outcome(place, experiment("cat odd; cat odd odd >&2", files={"odd": odd}))
        assert (result.stdout.head, result.stdout.size) == (odd, len(odd))
        assert (result.stderr.head, result.stderr.size) == (odd + odd, 2 * len(odd))

    def test_a_metric_that_is_missing_fails_and_says_where_it_was_looked_for(
        self, place: Executor
    ) -> None:
        result = outcome(place, experiment("echo nothing", recipe=gflops()))
        assert (result.status, result.cause) == ("failed", "metric missing: gflops")
        missing = result.metrics["gflops"]
        assert isinstance(missing, Missing)
        assert "stdout (1 line)" in missing.why

    def test_an_optional_metric_may_be_missing(self, place: Executor) -> None:
        result = outcome(place, experiment("echo nothing", recipe=gflops(optional=True)))
        assert result.status == "ok"
        assert isinstance(result.metrics["gflops"], Missing)

    def test_what_the_program_reports_is_a_metric(self, place: Executor) -> None:
        result = outcome(place, experiment("echo '{\"gflops\": 3.5}' >> $ZEN_METRICS"))
        assert result.metrics["gflops"] == 3.5

    def test_a_signal_is_named(self, place: Executor) -> None:
        result = outcome(place, experiment("kill -SEGV $$"))
        assert (result.status, result.cause, result.exit) == ("failed", "killed by SIGSEGV", -11)

    def test_a_command_that_is_not_there_is_an_outcome(self, place: Executor) -> None:
        result = outcome(place, experiment("surely-not-there 3"))
        assert (result.status, result.exit) == ("failed", 127)
        assert result.cause.startswith("exit 127: ")
        assert "surely-not-there" in result.cause
        assert b"surely-not-there" in result.stderr.head

    def test_failures_are_told_apart_by_what_they_say(self, place: Executor) -> None:
        commands = [
            f"echo '{message}' >&2; exit 1" for message in ("NaN in step 3", "NaN in step 12")
        ]
        causes = [outcome(place, experiment(command)).cause for command in commands]
        assert causes == ["exit 1: NaN in step #"] * 2
        build = ("echo broken >&2; exit 2",)
        result = outcome(place, experiment("true", builds=build))
        assert result.cause == "build failed: exit 2: broken"

    def test_what_takes_too_long_is_killed(self, place: Executor) -> None:
        result = outcome(place, experiment(Step(f"echo begun; sleep {long('97.3')}", timeout=0.2)))
        assert (result.status, result.cause) == ("timeout", "timeout after 0.2 s")
        assert result.stdout.head == b"begun\n"
        assert not running(long("97.3"))

    def test_what_ignores_sigterm_is_killed_too(self, place: Executor) -> None:
        stubborn = f"trap '' TERM; echo begun; while :; do sleep {long('97.4')}; done"
        result = outcome(place, experiment(Step(stubborn, timeout=0.2)))
        assert result.status == "timeout"
        assert not running(long("97.4"))

    def test_daemons_do_not_outlive_their_experiment(self, place: Executor) -> None:
        sleeps = f"sleep {long('97.5')} & sleep {long('97.5')}"
        daemon = f"setsid sh -c 'trap \"\" TERM HUP; {sleeps}' >/dev/null 2>&1 &"
        result = outcome(place, experiment(f"{daemon} sleep 0.1; echo GFLOPS=1", recipe=gflops()))
        assert result.status == "ok"
        assert not running(long("97.5"))

    def test_a_command_may_leave_a_server_for_the_next(self, place: Executor) -> None:
        server = "(while ! test -e asked; do sleep 0.01; done; echo yes > answer) & echo up"
        client = "touch asked; while ! test -s answer; do sleep 0.01; done; cat answer"
        assert outcome(place, experiment(server, client)).stdout.head == b"up\nyes\n"

    def test_cancelling_kills_what_runs(self, place: Executor) -> None:
        future = place.submit(experiment(f"echo begun; sleep {long('97.6')}"))
        until(lambda: running(long("97.6")))
        assert future.cancel()
        assert future.result(PATIENCE).status == "cancelled"
        assert not running(long("97.6"))

    def test_cancelling_takes_off_what_waits(self, place: Executor) -> None:
        busy = [place.submit(experiment(f"sleep {long('97.7')}")) for _ in range(place.slots)]
        until(lambda: all(future.running() for future in busy))
        waits = place.submit(experiment("echo never"))
        assert waits.cancel()
        assert waits.cancelled()
        for future in busy:
            future.cancel()
        assert {future.result(PATIENCE).status for future in busy} == {"cancelled"}

    def test_closing_leaves_no_process(self, place: Executor) -> None:
        futures = [
            place.submit(experiment(f"sleep {long('97.8')} & sleep {long('97.8')}"))
            for _ in range(4)
        ]
        until(lambda: running(long("97.8")))
        place.close()
        assert not running(long("97.8"))
        assert all(f.cancelled() or f.result(0).status == "cancelled" for f in futures)

    def test_no_more_run_at_once_than_there_are_slots(self, place: Executor) -> None:
        count = place.slots * 3
        spans = [
            outcome_of.result(PATIENCE)
            for outcome_of in [place.submit(experiment("sleep 0.1")) for _ in range(count)]
        ]
        for span in spans:
            at_once = [o for o in spans if o.started < span.started + 0.05 < o.ended]
            assert len(at_once) <= place.slots

    def test_the_beginning_and_the_end_of_much_output_are_kept(self, place: Executor) -> None:
        result = outcome(place, experiment("echo first; yes filler | head -c 20000000; echo last"))
        assert result.stdout.size == 20_000_011
        assert result.stdout.head.startswith(b"first\n")
        assert result.stdout.tail.endswith(b"last\n")
        assert len(result.stdout.head) + len(result.stdout.tail) < 2**20

    def test_a_program_is_built_once(self, place: Executor, tmp_path: Path) -> None:
        build = (
            f"echo built >> {tmp_path}/log",
            "printf '#!/bin/sh\\necho GFLOPS=$1' > p; chmod +x p",
        )
        futures = [
            place.submit(experiment(f"./p {i}", builds=build, recipe=gflops())) for i in range(5)
        ]
        assert [f.result(PATIENCE).metrics["gflops"] for f in futures] == [0, 1, 2, 3, 4]
        assert (tmp_path / "log").read_text() == "built\n"

    def test_a_build_that_fails_is_the_outcome_of_each_of_its_experiments(
        self, place: Executor, tmp_path: Path
    ) -> None:
        build = (f"echo tried >> {tmp_path}/log; echo broken >&2; exit 2",)
        futures = [place.submit(experiment(f"./p {i}", builds=build)) for i in range(4)]
        outcomes = [future.result(PATIENCE) for future in futures]
        assert {(o.status, o.cause, o.exit) for o in outcomes} == {
            ("failed", "build failed: exit 2: broken", 2)
        }
        assert {o.stderr.head for o in outcomes} == {b"broken\n"}
        assert (tmp_path / "log").read_text() == "tried\n"

    def test_what_could_not_be_built_was_begun_and_ended_all_the_same(
        self, place: Executor
    ) -> None:
        before = time.time()
        result = outcome(place, experiment("true", builds=("exit 2",)))
        assert before <= result.started <= result.ended <= time.time()

    def test_an_experiment_cannot_change_the_build_of_others(self, place: Executor) -> None:
        build = ("echo good > data",)
        for _ in range(2):
            result = outcome(place, experiment("cat data; echo bad > data", builds=build))
            assert result.stdout.head == b"good\n"

    def test_outputs_are_kept_with_size_and_checksum(self, place: Executor) -> None:
        recipe = Recipe(outputs=("out/*.dat", "log"))
        what = experiment(
            "mkdir out; echo 1 > out/a.dat; echo 2 > out/b.txt; echo 3 > log", recipe=recipe
        )
        kept = {a.path: a for a in outcome(place, what).artifacts}
        assert kept.keys() == {"out/a.dat", "log"}
        assert kept["log"].kept.read_bytes() == b"3\n"
        assert kept["log"].size == 2
        assert kept["log"].sha256.startswith("1121cfccd5913f0a63fec40a6ffd44ea")

    def test_an_output_that_is_missing_is_a_failure_with_a_cause_of_its_own(
        self, place: Executor
    ) -> None:
        outputs = ("out/*.dat", "log", "maybe/*")
        recipe = Recipe(outputs=outputs, required=outputs[:2])
        result = outcome(place, experiment("echo 3 > log", recipe=recipe))
        assert (result.status, result.cause) == ("failed", "output missing: out/*.dat")
        assert [artifact.path for artifact in result.artifacts] == ["log"]
        result = outcome(
            place, experiment("mkdir out; echo > out/a.dat; echo > log", recipe=recipe)
        )
        assert (result.status, result.cause) == ("ok", "")
        result = outcome(place, experiment("exit 3", recipe=recipe))
        assert (result.status, result.cause) == ("failed", "exit 3")

    def test_an_experiment_that_takes_its_folder_away_has_failed(self, place: Executor) -> None:
        metric = Metric("energy", "out.json", json="$.energy", optional=True)
        recipe = Recipe((metric,), ("out.json",), required=("out.json",))
        for command, cause, used in (
            ('rm -rf "$PWD"', "its folder was deleted", Recipe()),
            ('rm -rf "$PWD"', "its folder was deleted", recipe),
            ('chmod 0 "$PWD"', "its folder was made unreadable", recipe),
            ('cd ..; rm -rf "$OLDPWD"; touch "$OLDPWD"', "its folder was replaced", recipe),
        ):
            result = outcome(place, experiment(f"echo {{}} > out.json; {command}", recipe=used))
            assert (result.status, result.cause, result.exit) == ("failed", cause, 0)
        assert outcome(place, self.good()).status == "ok"

    def test_links_among_outputs_are_not_followed(self, place: Executor, tmp_path: Path) -> None:
        (tmp_path / "secret").write_text("secret")
        recipe = Recipe(outputs=("**/*",))
        what = experiment(
            f"ln -s {tmp_path}/secret s; ln -s {tmp_path} d; echo 1 > f; mkfifo p", recipe=recipe
        )
        assert [a.path for a in outcome(place, what).artifacts] == ["f"]

    def test_large_files_are_there_and_the_originals_stay_as_they_are(
        self, place: Executor, tmp_path: Path
    ) -> None:
        content = os.urandom(3 * 2**20)
        original = tmp_path / "original"
        original.write_bytes(content)
        big = ExperimentFile("in/big", 0o644, None, original, content_digest(content).hex())
        what = experiment("cksum < in/big; chmod u+w in/big; echo more >> in/big; true")
        result = outcome(place, replace(what, files=(big,)))
        assert result.stdout.head.split()[1] == str(len(content)).encode()
        assert original.read_bytes() == content
        again = experiment("wc -c < in/big")
        assert outcome(place, replace(again, files=(big,))).stdout.head.strip() == b"%d" % len(
            content
        )

    def test_links_are_links_and_empty_folders_are_there(self, place: Executor) -> None:
        files = (
            link_to("deep/up", "../in/a"),
            link_to("also", "in"),
            ExperimentFile("in/a", 0o644, b"1"),
            empty_folder("results/raw"),
        )
        look = (
            "readlink deep/up also; cat deep/up also/a; ls -A results/raw; echo 2 > results/raw/x"
        )
        for what in (experiment(look), experiment(look, builds=("cp deep/up made",))):
            build = what.build and replace(what.build, files=files)
            result = outcome(place, replace(what, files=files, build=build))
            assert (result.status, result.stdout.head) == ("ok", b"../in/a\nin\n11")

    def test_copied_files_keep_their_times_and_filled_ones_are_newer(
        self, place: Executor, tmp_path: Path
    ) -> None:
        content = os.urandom(2 * 2**20)
        original = tmp_path / "original"
        original.write_bytes(content)
        named = content_digest(content).hex()
        files = (
            ExperimentFile("filled", 0o644, b"1"),
            ExperimentFile("old", 0o644, b"2", mtime=1_000_000_000 * 10**9),
            ExperimentFile("young", 0o644, b"3", mtime=time.time_ns()),
            ExperimentFile("future", 0o644, b"4", mtime=time.time_ns() + 3600 * 10**9),
        )
        newer = "test filled -nt young && test filled -nt future && stat -L -c %Y old big"
        for seconds in (b"1100000000", b"1200000000"):  # the same content, touched
            big = ExperimentFile("big", 0o644, None, original, named, int(seconds) * 10**9)
            result = outcome(place, replace(experiment(newer), files=(*files, big)))
            assert result.stdout.head.split() == [b"1000000000", seconds]

    def test_an_experiment_has_the_times_of_its_build(self, place: Executor) -> None:
        make = "sleep 0.05; cp filled made; head -c 2000000 made filled > big; sleep 0.05"
        dates = "stat -L -c %y filled made big"
        what = experiment(
            f"{dates} | diff - dates && test made -nt filled && echo same",
            files={"filled": b"1"},
            builds=(f"{make}; {dates} > dates",),
        )
        for each in (what, replace(what, digest=what.digest[::-1])):
            assert outcome(place, each).stdout.head == b"same\n"

    def test_a_build_that_leaves_every_file_as_it_was_is_told(self, place: Executor) -> None:
        files = {"filled": b"1"}
        idle = experiment("cat filled", files=files, builds=("true",))
        for each in (idle, replace(idle, digest=idle.digest[::-1])):
            assert "left every file as it was" in outcome(place, each).remark
        busy = experiment("cat filled", files=files, builds=("echo > made",))
        assert outcome(place, busy).remark == ""

    def test_what_a_failed_experiment_left_is_kept_too(self, place: Executor) -> None:
        recipe = Recipe(outputs=("deep/**/*.bin",))
        make = "mkdir -p deep/er; head -c 2000000 /dev/zero > 'deep/er/odd ü.bin'; exit 3"
        result = outcome(place, experiment(make, recipe=recipe))
        assert (result.status, result.cause) == ("failed", "exit 3")
        (kept,) = result.artifacts
        assert (kept.path, kept.size) == ("deep/er/odd ü.bin", 2_000_000)
        assert kept.kept.read_bytes() == b"\0" * 2_000_000

    def test_retries_belong_to_the_study(self, place: Executor, tmp_path: Path) -> None:
        what = experiment(Step(f"echo tried >> {tmp_path}/tries; exit 3", retry=5))
        assert outcome(place, what).cause == "exit 3"
        assert (tmp_path / "tries").read_text() == "tried\n"

    def test_the_same_experiment_can_be_run_again(self, place: Executor, tmp_path: Path) -> None:
        """What failed is submitted again by a study, under the same digest."""
        tries = tmp_path / "tries"
        what = experiment(f"echo >> {tries}; test $(wc -l < {tries}) = 2")
        assert [outcome(place, what).status for _ in range(2)] == ["failed", "ok"]

    def test_an_experiment_may_use_several_cpus(self, place: Executor) -> None:
        assert outcome(place, experiment(Step("echo wide", cpus=2))).stdout.head == b"wide\n"

    def test_it_may_start_as_many_threads_as_it_has_cpus(self, place: Executor) -> None:
        look = 'echo "$OMP_NUM_THREADS:$MKL_NUM_THREADS"'
        assert outcome(place, experiment(Step(look, cpus=2))).stdout.head == b"2:2\n"
        said = experiment(Step(look, cpus=2), environment={"OMP_NUM_THREADS": "3"})
        assert outcome(place, said).stdout.head == b"3:\n"

    def test_what_allocates_more_memory_than_it_asked_for_fails(self, place: Executor) -> None:
        grab = "b'1' * 600_000_000; print('GFLOPS=1')"
        step = Step(f'{sys.executable} -I -c "{grab}"', memory=200 * 2**20)
        assert outcome(place, experiment(step, recipe=gflops())).status == "failed"
        assert outcome(place, experiment(Step("echo on", memory=200 * 2**20))).status == "ok"

    def test_what_needs_more_memory_than_any_machine_has_is_refused(self, place: Executor) -> None:
        future = place.submit(experiment(Step("true", memory=2**60)))
        assert isinstance(future.exception(PATIENCE), PlaceError)
