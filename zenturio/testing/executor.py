"""Contract tests of executors; the tests of an executor inherit them::

    class TestMyExecutor(CommandContract):
        @pytest.fixture
        def place(self, tmp_path):
            with MyExecutor(tmp_path) as place:
                yield place

``ExecutorContract`` holds for every executor, ``CommandContract`` for those that run commands.
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
from zenturio.expression import parse
from zenturio.system.processes import running_with

PATIENCE = 240.0
"""Seconds after which a test gives up waiting; generous, so that a busy machine passes, too."""

T = TypeVar("T")

_repeats = itertools.count(1)


def experiment(
    *commands: str | Step,
    files: Mapping[str, bytes] | None = None,
    environment: Mapping[str, str] | None = None,
    recipe: Recipe | None = None,
    builds: tuple[str, ...] = (),
) -> Experiment:
    """Return an experiment that runs *commands*; its digest differs from that of every other."""
    steps = tuple(Step(c) if isinstance(c, str) else c for c in commands)
    filed = tuple(ExperimentFile(path, 0o755, content) for path, content in (files or {}).items())
    build_steps = tuple(map(Step, builds))
    build = (
        Build(experiment_digest(filed, build_steps, {}, 0), filed, build_steps) if builds else None
    )
    # Executors may cache by digest: the same commands must not count as the same experiment.
    repeat = next(_repeats)
    name = experiment_digest(filed, (*build_steps, *steps), environment or {}, repeat)
    return Experiment(
        name, -1, repeat, {}, filed, steps, environment or {}, build, recipe or Recipe()
    )


def outcome(place: Executor, submitted: Experiment) -> Outcome:
    """Run an experiment at a place and return its outcome."""
    return place.submit(submitted).result(PATIENCE)


def until(condition: Callable[[], T]) -> T:
    """Wait until *condition* returns something true, and return that."""
    end = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < end, f"the condition did not hold within {PATIENCE:g} s"
        time.sleep(0.005)
    return value


def running(word: str) -> list[int]:
    """Return the ids of the processes of this machine that have *word* as an argument."""
    return running_with(word)


def long(seconds: str) -> str:
    """Return *seconds* with our process id as further digits: ``sleep`` is recognised by it."""
    return f"{seconds}{os.getpid():08}"


def gflops(**changes: object) -> Recipe:
    """Return a recipe with one metric, which the program prints as ``GFLOPS=3.2``."""
    metric = Metric("gflops", "stdout", r"GFLOPS=(\S+)")
    return Recipe((replace(metric, **changes),))  # type: ignore[arg-type]


class ExecutorContract:
    """Promises of every executor.

    A subclass has a fixture ``place``, the executor to test. One that runs no commands overrides
    ``good`` (an experiment that succeeds with gflops = 3.2) and ``bad`` (one that fails).
    """

    def good(self) -> Experiment:
        return experiment("echo GFLOPS=3.2", recipe=gflops())

    def bad(self) -> Experiment:
        return experiment("exit 3", recipe=gflops())

    def test_a_successful_experiment_is_ok_and_has_its_metrics(self, place: Executor) -> None:
        good = self.good()
        result = outcome(place, good)
        assert (result.status, result.cause, result.digest) == ("ok", "", good.digest)
        assert result.metrics["gflops"] == 3.2

    def test_times_memory_and_exit_status_are_always_measured(self, place: Executor) -> None:
        metrics = outcome(place, self.good()).metrics
        assert {"wtime", "ctime", "maxrss", "exit"} <= metrics.keys()
        assert isinstance(metrics["wtime"], float)
        assert metrics["wtime"] >= 0
        assert metrics["exit"] == 0

    def test_a_failed_experiment_has_a_cause(self, place: Executor) -> None:
        result = outcome(place, self.bad())
        assert result.status == "failed"
        assert result.cause
        assert outcome(place, self.bad()).cause == result.cause

    def test_start_and_end_are_utc_and_in_order(self, place: Executor) -> None:
        before = time.time()
        result = outcome(place, self.good())
        # A second of tolerance: the clock of the machine that ran it may differ from ours.
        assert before - 1 <= result.started <= result.ended <= time.time() + 1

    def test_an_outcome_names_its_host(self, place: Executor) -> None:
        assert outcome(place, self.good()).host

    def test_each_future_has_the_outcome_of_its_experiment(self, place: Executor) -> None:
        experiments = [self.good() if i % 3 else self.bad() for i in range(20)]
        futures = [place.submit(e) for e in experiments]
        assert [f.result(PATIENCE).digest for f in futures] == [e.digest for e in experiments]
        assert [f.result().status for f in futures] == [
            "ok" if i % 3 else "failed" for i in range(20)
        ]

    def test_done_callbacks_are_called(self, place: Executor) -> None:
        completed: list[Future[Outcome]] = []
        future = place.submit(self.good())
        future.add_done_callback(completed.append)
        wait([future], PATIENCE)
        until(lambda: completed == [future])

    def test_close_may_be_called_twice(self, place: Executor) -> None:
        outcome(place, self.good())
        place.close()
        place.close()

    def test_there_is_at_least_one_slot(self, place: Executor) -> None:
        assert place.slots >= 1


class CommandContract(ExecutorContract):
    """Promises of executors that run commands."""

    def test_files_exist_with_their_modes(self, place: Executor) -> None:
        files = {"run.sh": b"#!/bin/sh\ncat sub/in.txt\n", "sub/in.txt": b"GFLOPS=7"}
        result = outcome(place, experiment("./run.sh", files=files, recipe=gflops()))
        assert result.metrics["gflops"] == 7

    def test_a_quoted_argument_is_passed_on_unchanged(self, place: Executor) -> None:
        result = outcome(place, experiment("printf '<%s>' 'a;rm -rf ~' '$(id)' '../x'"))
        assert result.stdout.head == b"<a;rm -rf ~><$(id)><../x>"

    def test_the_environment_of_the_experiment_is_set(self, place: Executor) -> None:
        greeting = experiment(
            'echo "$GREETING:$ZEN_EXPERIMENT"', environment={"GREETING": "grüß dich"}
        )
        assert outcome(place, greeting).stdout.head.decode() == f"grüß dich:{greeting.digest}\n"

    def test_commands_run_in_order_until_one_fails(self, place: Executor) -> None:
        result = outcome(place, experiment("echo one", "echo two; exit 4", "echo three"))
        assert (result.status, result.cause, result.exit) == ("failed", "exit 4 in RUN 2 of 3", 4)
        assert result.stdout.head == b"one\ntwo\n"

    def test_the_commands_of_an_experiment_share_a_folder(self, place: Executor) -> None:
        result = outcome(place, experiment("echo 5 > made", "cat made"))
        assert result.stdout.head == b"5\n"

    def test_experiments_do_not_share_a_folder(self, place: Executor) -> None:
        futures = [place.submit(experiment("ls -A; touch left; sleep 0.05")) for _ in range(6)]
        assert {future.result(PATIENCE).stdout.head for future in futures} == {b""}

    def test_standard_input_is_empty(self, place: Executor) -> None:
        assert outcome(place, experiment("cat; echo end")).stdout.head == b"end\n"

    def test_stdout_and_stderr_are_recorded_separately_and_byte_for_byte(
        self, place: Executor
    ) -> None:
        odd = b"\xff\x00\xfe\r\n\xc3"
        result = outcome(place, experiment("cat odd; cat odd odd >&2", files={"odd": odd}))
        assert (result.stdout.head, result.stdout.size) == (odd, len(odd))
        assert (result.stderr.head, result.stderr.size) == (odd + odd, 2 * len(odd))

    def test_a_missing_metric_is_a_failure_and_names_where_it_was_searched(
        self, place: Executor
    ) -> None:
        result = outcome(place, experiment("echo nothing", recipe=gflops()))
        assert (result.status, result.cause) == ("failed", "metric missing: gflops")
        missing = result.metrics["gflops"]
        assert isinstance(missing, Missing)
        assert "stdout (1 line)" in missing.why

    def test_a_result_for_which_a_condition_does_not_hold_is_wrong(self, place: Executor) -> None:
        recipe = replace(gflops(), verified=(parse("gflops > 3"), parse("gflops < 4")))
        cases = {"3.5": ("ok", ""), "5": ("wrong", "VERIFY gflops < 4"), "nan": ("wrong", "")}
        for value, (status, cause) in cases.items():
            result = outcome(place, experiment(f"echo GFLOPS={value}", recipe=recipe))
            assert result.status == status
            assert result.cause.startswith(cause)
            assert isinstance(result.metrics["gflops"], int | float)

    def test_a_command_verifies_a_result_and_is_not_measured(self, place: Executor) -> None:
        recipe = replace(gflops(), verifiers=('VERIFY "sh compare"',))
        compare = b"read n < out; echo differs by 0.5 at line 17 >&2; sleep 0.2; exit $n"
        for exit_, status in ((0, "ok"), (1, "wrong"), (127, "failed")):
            result = outcome(place, experiment(
                f"echo GFLOPS=2; echo {exit_} > out", "sh compare",
                files={"compare": compare}, recipe=recipe,
            ))  # fmt: skip
            assert (result.status, result.exit, result.metrics["exit"]) == (status, 0, 0)
            if status == "wrong":
                assert result.cause == ('VERIFY "sh compare": exit 1: differs by # at line #')
            assert result.metrics["gflops"] == 2
            assert b"line 17" in result.stderr.head

    def test_nothing_is_verified_where_the_program_failed(self, place: Executor) -> None:
        recipe = Recipe(verified=(parse("exit > 100"),), verifiers=('VERIFY "touch x"',))
        result = outcome(place, experiment("exit 4", "echo verified", recipe=recipe))
        assert (result.status, result.cause, result.exit) == ("failed", "exit 4", 4)
        assert result.stdout.head == b""

    def test_an_optional_metric_may_be_missing(self, place: Executor) -> None:
        result = outcome(place, experiment("echo nothing", recipe=gflops(optional=True)))
        assert result.status == "ok"
        assert isinstance(result.metrics["gflops"], Missing)

    def test_a_value_written_to_zen_metrics_is_a_metric(self, place: Executor) -> None:
        result = outcome(place, experiment("echo '{\"gflops\": 3.5}' >> $ZEN_METRICS"))
        assert result.metrics["gflops"] == 3.5

    def test_the_cause_names_the_signal(self, place: Executor) -> None:
        result = outcome(place, experiment("kill -SEGV $$"))
        assert (result.status, result.cause, result.exit) == ("failed", "killed by SIGSEGV", -11)

    def test_an_unknown_command_is_a_failed_experiment(self, place: Executor) -> None:
        result = outcome(place, experiment("surely-not-there 3"))
        assert (result.status, result.exit) == ("failed", 127)
        assert result.cause.startswith("exit 127: ")
        assert "surely-not-there" in result.cause
        assert b"surely-not-there" in result.stderr.head

    def test_causes_quote_stderr_without_its_numbers(self, place: Executor) -> None:
        commands = [
            f"echo '{message}' >&2; exit 1" for message in ("NaN in step 3", "NaN in step 12")
        ]
        causes = [outcome(place, experiment(command)).cause for command in commands]
        assert causes == ["exit 1: NaN in step #"] * 2
        build = ("echo broken >&2; exit 2",)
        result = outcome(place, experiment("true", builds=build))
        assert result.cause == "build failed: exit 2: broken"

    def test_a_timeout_kills_the_command(self, place: Executor) -> None:
        result = outcome(place, experiment(Step(f"echo begun; sleep {long('97.3')}", timeout=0.2)))
        assert (result.status, result.cause) == ("timeout", "timeout after 0.2 s")
        assert result.stdout.head == b"begun\n"
        assert not running(long("97.3"))

    def test_a_timeout_kills_a_command_that_ignores_sigterm(self, place: Executor) -> None:
        stubborn = f"trap '' TERM; echo begun; while :; do sleep {long('97.4')}; done"
        result = outcome(place, experiment(Step(stubborn, timeout=0.2)))
        assert result.status == "timeout"
        assert not running(long("97.4"))

    def test_daemons_do_not_outlive_their_experiment(self, place: Executor) -> None:
        sleeps = f"sleep {long('97.5')} & sleep {long('97.5')}"
        # setsid leaves the process group: to kill the group is not enough.
        daemon = f"setsid sh -c 'trap \"\" TERM HUP; {sleeps}' >/dev/null 2>&1 &"
        result = outcome(place, experiment(f"{daemon} sleep 0.1; echo GFLOPS=1", recipe=gflops()))
        assert result.status == "ok"
        assert not running(long("97.5"))

    def test_a_command_may_start_a_server_for_the_next_command(self, place: Executor) -> None:
        server = "(while ! test -e asked; do sleep 0.01; done; echo yes > answer) & echo up"
        client = "touch asked; while ! test -s answer; do sleep 0.01; done; cat answer"
        assert outcome(place, experiment(server, client)).stdout.head == b"up\nyes\n"

    def test_cancelling_kills_a_running_experiment(self, place: Executor) -> None:
        future = place.submit(experiment(f"echo begun; sleep {long('97.6')}"))
        until(lambda: running(long("97.6")))
        assert future.cancel()
        assert future.result(PATIENCE).status == "cancelled"
        assert not running(long("97.6"))

    def test_cancelling_removes_a_queued_experiment(self, place: Executor) -> None:
        busy = [place.submit(experiment(f"sleep {long('97.7')}")) for _ in range(place.slots)]
        until(lambda: all(future.running() for future in busy))
        waits = place.submit(experiment("echo never"))
        assert waits.cancel()
        assert waits.cancelled()
        for future in busy:
            future.cancel()
        assert {future.result(PATIENCE).status for future in busy} == {"cancelled"}

    def test_close_kills_all_processes(self, place: Executor) -> None:
        futures = [
            place.submit(experiment(f"sleep {long('97.8')} & sleep {long('97.8')}"))
            for _ in range(4)
        ]
        until(lambda: running(long("97.8")))
        place.close()
        assert not running(long("97.8"))
        assert all(f.cancelled() or f.result(0).status == "cancelled" for f in futures)

    def test_at_most_as_many_experiments_run_at_once_as_there_are_slots(
        self, place: Executor
    ) -> None:
        count = place.slots * 3
        outcomes = [
            future.result(PATIENCE)
            for future in [place.submit(experiment("sleep 0.1")) for _ in range(count)]
        ]
        # In its middle each experiment runs for certain, whatever starting and ending cost.
        for current in outcomes:
            overlapping = [o for o in outcomes if o.started < current.started + 0.05 < o.ended]
            assert len(overlapping) <= place.slots

    def test_head_and_tail_of_a_large_output_are_kept(self, place: Executor) -> None:
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

    def test_a_failed_build_fails_each_of_its_experiments(
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

    def test_a_failed_build_has_start_and_end_times(self, place: Executor) -> None:
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
        writer = experiment(
            "mkdir out; echo 1 > out/a.dat; echo 2 > out/b.txt; echo 3 > log", recipe=recipe
        )
        artifacts = {a.path: a for a in outcome(place, writer).artifacts}
        assert artifacts.keys() == {"out/a.dat", "log"}
        assert artifacts["log"].kept.read_bytes() == b"3\n"
        assert artifacts["log"].size == 2
        assert artifacts["log"].sha256.startswith("1121cfccd5913f0a63fec40a6ffd44ea")

    def test_a_missing_output_is_a_failure_with_its_own_cause(self, place: Executor) -> None:
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

    def test_an_experiment_that_deletes_its_folder_fails(self, place: Executor) -> None:
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

    def test_symbolic_links_among_outputs_are_not_followed(
        self, place: Executor, tmp_path: Path
    ) -> None:
        (tmp_path / "secret").write_text("secret")
        recipe = Recipe(outputs=("**/*",))
        linker = experiment(
            f"ln -s {tmp_path}/secret s; ln -s {tmp_path} d; echo 1 > f; mkfifo p", recipe=recipe
        )
        assert [a.path for a in outcome(place, linker).artifacts] == ["f"]

    def test_large_files_exist_and_their_originals_stay_unchanged(
        self, place: Executor, tmp_path: Path
    ) -> None:
        content = os.urandom(3 * 2**20)
        original = tmp_path / "original"
        original.write_bytes(content)
        big = ExperimentFile("in/big", 0o644, None, original, content_digest(content).hex())
        appender = experiment("cksum < in/big; chmod u+w in/big; echo more >> in/big; true")
        result = outcome(place, replace(appender, files=(big,)))
        assert result.stdout.head.split()[1] == str(len(content)).encode()
        assert original.read_bytes() == content
        reader = experiment("wc -c < in/big")
        assert outcome(place, replace(reader, files=(big,))).stdout.head.strip() == b"%d" % len(
            content
        )

    def test_symbolic_links_and_empty_folders_are_recreated(self, place: Executor) -> None:
        files = (
            link_to("deep/up", "../in/a"),
            link_to("also", "in"),
            ExperimentFile("in/a", 0o644, b"1"),
            empty_folder("results/raw"),
        )
        look = (
            "readlink deep/up also; cat deep/up also/a; ls -A results/raw; echo 2 > results/raw/x"
        )
        for template in (experiment(look), experiment(look, builds=("cp deep/up made",))):
            build = template.build and replace(template.build, files=files)
            result = outcome(place, replace(template, files=files, build=build))
            assert (result.status, result.stdout.head) == ("ok", b"../in/a\nin\n11")

    def test_copied_files_keep_their_times_and_filled_ones_are_newer(
        self, place: Executor, tmp_path: Path
    ) -> None:
        content = os.urandom(2 * 2**20)
        original = tmp_path / "original"
        original.write_bytes(content)
        checksum = content_digest(content).hex()
        files = (
            ExperimentFile("filled", 0o644, b"1"),
            ExperimentFile("old", 0o644, b"2", mtime=1_000_000_000 * 10**9),
            ExperimentFile("young", 0o644, b"3", mtime=time.time_ns()),
            ExperimentFile("future", 0o644, b"4", mtime=time.time_ns() + 3600 * 10**9),
        )
        newer = "test filled -nt young && test filled -nt future && stat -L -c %Y old big"
        for seconds in (b"1100000000", b"1200000000"):  # the same content, touched
            big = ExperimentFile("big", 0o644, None, original, checksum, int(seconds) * 10**9)
            result = outcome(place, replace(experiment(newer), files=(*files, big)))
            assert result.stdout.head.split() == [b"1000000000", seconds]

    def test_an_experiment_has_the_times_of_its_build(self, place: Executor) -> None:
        make = "sleep 0.05; cp filled made; head -c 2000000 made filled > big; sleep 0.05"
        dates = "stat -L -c %y filled made big"
        dated = experiment(
            f"{dates} | diff - dates && test made -nt filled && echo same",
            files={"filled": b"1"},
            builds=(f"{make}; {dates} > dates",),
        )
        # The second digest finds the build in the cache: it is copied instead of made.
        for variant in (dated, replace(dated, digest=dated.digest[::-1])):
            assert outcome(place, variant).stdout.head == b"same\n"

    def test_a_build_that_changes_no_file_is_remarked(self, place: Executor) -> None:
        files = {"filled": b"1"}
        idle = experiment("cat filled", files=files, builds=("true",))
        for variant in (idle, replace(idle, digest=idle.digest[::-1])):
            assert "changed no file" in outcome(place, variant).remark
        busy = experiment("cat filled", files=files, builds=("echo > made",))
        assert outcome(place, busy).remark == ""

    def test_what_is_observed_is_a_value_or_says_why_not(self, place: Executor) -> None:
        metrics = {
            "page_faults": "perf page-faults", "instructions": "perf instructions",
            "energy": "energy", "energy_dram": "energy", "gpu_memory": "gpu",
            "io_write": "io", "memory_peak": "memory",
        }  # fmt: skip
        observed = [Metric(name, optional=True, observed=by) for name, by in metrics.items()]
        recipe = Recipe((*observed, Metric("x", "stdout", r"x = (\d+)")))
        # Ten million bytes in a child of a child; a kilobyte that it writes.
        writes = "head -c 1000 /dev/zero > out; echo x = 3"
        holds = "x=$(head -c 10000000 /dev/zero | tr '\\0' a); sleep 0.2; true $x"
        result = outcome(place, experiment(f"sh -c '{writes}'; {holds}", recipe=recipe))
        assert (result.status, result.metrics["x"]) == ("ok", 3)
        bounds = {"page_faults": (100, 1e6), "io_write": (1000, 5e7), "memory_peak": (1e7, 1e8)}
        for name in metrics:
            value = result.metrics[name]
            if isinstance(value, Missing):
                assert value.why
            else:
                least, most = bounds.get(name, (0, 1e30))
                assert isinstance(value, int | float)
                assert least <= value <= most, name
        reasons = [
            v.why for n, v in result.metrics.items() if n in metrics and isinstance(v, Missing)
        ]
        assert all(reason in result.remark for reason in reasons)
        assert outcome(place, experiment("true")).remark == ""

    def test_outputs_of_a_failed_experiment_are_kept(self, place: Executor) -> None:
        recipe = Recipe(outputs=("deep/**/*.bin",))
        make = "mkdir -p deep/er; head -c 2000000 /dev/zero > 'deep/er/odd ü.bin'; exit 3"
        result = outcome(place, experiment(make, recipe=recipe))
        assert (result.status, result.cause) == ("failed", "exit 3")
        (artifact,) = result.artifacts
        assert (artifact.path, artifact.size) == ("deep/er/odd ü.bin", 2_000_000)
        assert artifact.kept.read_bytes() == b"\0" * 2_000_000

    def test_an_executor_does_not_retry(self, place: Executor, tmp_path: Path) -> None:
        flaky = experiment(Step(f"echo tried >> {tmp_path}/tries; exit 3", retry=5))
        assert outcome(place, flaky).cause == "exit 3"
        assert (tmp_path / "tries").read_text() == "tried\n"

    def test_the_same_experiment_can_be_run_again(self, place: Executor, tmp_path: Path) -> None:
        """A study retries a failed experiment under the same digest."""
        tries = tmp_path / "tries"
        flaky = experiment(f"echo >> {tries}; test $(wc -l < {tries}) = 2")
        assert [outcome(place, flaky).status for _ in range(2)] == ["failed", "ok"]

    def test_an_experiment_may_use_several_cpus(self, place: Executor) -> None:
        assert outcome(place, experiment(Step("echo wide", cpus=2))).stdout.head == b"wide\n"

    def test_it_may_start_as_many_threads_as_it_has_cpus(self, place: Executor) -> None:
        look = 'echo "$OMP_NUM_THREADS:$MKL_NUM_THREADS"'
        assert outcome(place, experiment(Step(look, cpus=2))).stdout.head == b"2:2\n"
        limited = experiment(Step(look, cpus=2), environment={"OMP_NUM_THREADS": "3"})
        assert outcome(place, limited).stdout.head == b"3:\n"

    def test_an_experiment_that_exceeds_its_memory_fails(self, place: Executor) -> None:
        grab = "b'1' * 600_000_000; print('GFLOPS=1')"
        step = Step(f'{sys.executable} -I -c "{grab}"', memory=200 * 2**20)
        assert outcome(place, experiment(step, recipe=gflops())).status == "failed"
        assert outcome(place, experiment(Step("echo on", memory=200 * 2**20))).status == "ok"

    def test_an_experiment_that_fits_no_machine_is_refused(self, place: Executor) -> None:
        future = place.submit(experiment(Step("true", memory=2**60)))
        assert isinstance(future.exception(PATIENCE), PlaceError)
