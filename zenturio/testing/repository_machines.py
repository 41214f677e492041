"""Contract tests of repositories: results of several kinds of machine."""

from __future__ import annotations

from dataclasses import replace

from zenturio.experiment.experiment import Experiment, MachineKind, Outcome
from zenturio.record.entities import DriverProcess, ResultCount
from zenturio.record.repository import Repository
from zenturio.testing.experiments import DEFINITION, A, B, driven, outcome, run

ZEN5 = MachineKind("Zen 5", 16)
RISCV = MachineKind("RISC-V", 4, ("Tensor",))
CRAY = MachineKind("Cray 1", 1)


def measured(of: Experiment, machine: MachineKind | None, time: float, attempt: int = 1) -> Outcome:
    """Return an outcome of *of* on a kind of machine."""
    return replace(outcome(of, attempt=attempt, time=time), machine=machine)


def run_on(
    repository: Repository,
    driver: int,
    of: Experiment,
    machine: MachineKind,
    time: float,
    study: str = "s",
) -> None:
    """Claim the experiment for a kind of machine and record an outcome of *time* seconds."""
    claims = repository.claim(study, driver, [of], {machine})
    result = measured(of, machine, time, claims[of.digest])
    assert repository.record(study, driver, [result]) == {of.digest}


class Machines:
    def test_a_result_of_another_kind_of_machine_does_not_count(
        self, repository: Repository
    ) -> None:
        (driver,) = driven(repository)
        run_on(repository, driver, A, ZEN5, 1.0)
        assert repository.cached("s", [A, B], {ZEN5}) == {A.digest}
        assert repository.cached("s", [A, B], {RISCV}) == frozenset()
        assert repository.cached("s", [A, B]) == {A.digest}
        assert repository.claim("s", driver, [A], {ZEN5}) == {}
        assert repository.claim("s", driver, [A]) == {}
        assert repository.claim("s", driver, [A], {RISCV}) == {A.digest: 2}

    def test_each_kind_of_machine_has_a_result_of_its_own(self, repository: Repository) -> None:
        (driver,) = driven(repository)
        run_on(repository, driver, A, RISCV, 4.0)
        run_on(repository, driver, A, ZEN5, 1.0)
        assert repository.count_states("s")["ok"] == 1
        assert set(repository.count_results("s")) == {
            ResultCount(RISCV, 1, "ok", 1),
            ResultCount(ZEN5, 1, "ok", 1),
        }
        for kind, time in ((RISCV, 4.0), (ZEN5, 1.0)):
            assert repository.find_outcomes([A.digest], "s", {kind})[A.digest].metrics == {
                "time": time
            }
            assert repository.find_outcomes([A.digest], kinds={kind})[A.digest].machine == kind
            assert repository.cached("s", [A], {kind}) == {A.digest}
            assert repository.claim("s", driver, [A], {kind}) == {}
        assert repository.find_outcomes([A.digest], "s")[A.digest].machine == ZEN5
        kinds = [record.outcome.machine for record in repository.records("s") if record.outcome]
        assert kinds == [RISCV, ZEN5]
        assert [a.number for a in repository.attempts(A.digest)] == [1, 2]

    def test_a_failure_that_was_set_aside_is_of_no_other_machine(
        self, repository: Repository
    ) -> None:
        (driver,) = driven(repository)
        repository.open("t", DEFINITION)
        other = repository.acquire_lease("t", DriverProcess.current()).number
        claims = repository.claim("s", driver, [A], {ZEN5})
        failed = replace(measured(A, ZEN5, 1.0, claims[A.digest]), status="failed")
        repository.record("s", driver, [failed])
        assert repository.cached("t", [A], {ZEN5}) == {A.digest}
        assert repository.reopen("t", [A.digest]) == 1
        assert repository.look_up("t", [A], {ZEN5}) == (frozenset(), {})
        assert repository.look_up("t", [A], {RISCV}) == (frozenset(), {A.digest: ZEN5})
        claims = repository.claim("t", other, [A], {RISCV})
        repository.record("t", other, [measured(A, RISCV, 4.0, claims[A.digest])])
        assert repository.look_up("t", [A], {ZEN5}) == (frozenset(), {A.digest: RISCV})

    def test_a_place_of_several_kinds_takes_results_of_these_alone(
        self, repository: Repository
    ) -> None:
        (driver,) = driven(repository)
        run_on(repository, driver, A, CRAY, 2.0)
        assert repository.cached("s", [A], {ZEN5, RISCV}) == frozenset()
        run_on(repository, driver, A, ZEN5, 1.0)
        run_on(repository, driver, B, RISCV, 4.0)
        assert repository.cached("s", [A, B], {ZEN5, RISCV}) == {A.digest, B.digest}
        assert repository.claim("s", driver, [A, B], {ZEN5, RISCV}) == {}
        accepted = repository.find_outcomes([A.digest, B.digest], kinds={ZEN5, RISCV})
        assert {digest: outcome.machine for digest, outcome in accepted.items()} == {
            A.digest: ZEN5,
            B.digest: RISCV,
        }
        assert repository.find_outcomes([A.digest], "s", {RISCV, CRAY})[A.digest].machine == CRAY

    def test_experiments_are_counted_by_the_result_that_was_recorded_last(
        self, repository: Repository
    ) -> None:
        (driver,) = driven(repository)
        run_on(repository, driver, A, RISCV, 4.0)
        claims = repository.claim("s", driver, [A, B], {ZEN5})
        counts = repository.count_states("s")
        assert (counts["ok"], counts["running"]) == (0, 2)
        failed = replace(measured(A, ZEN5, 1.0, claims[A.digest]), status="failed")
        good = measured(B, ZEN5, 1.0, claims[B.digest])
        repository.record("s", driver, [failed, good])
        counts = repository.count_states("s")
        assert (counts["ok"], counts["failed"]) == (1, 1)
        assert sum(count.count for count in repository.count_results("s")) == 3

    def test_a_result_of_an_unknown_machine_counts_for_every_kind(
        self, repository: Repository
    ) -> None:
        (driver,) = driven(repository)
        run(repository, driver, [A], time=2.0)
        assert repository.cached("s", [A], {RISCV}) == {A.digest}
        assert repository.find_outcomes([A.digest], "s", {RISCV})[A.digest].metrics == {"time": 2.0}
        assert repository.claim("s", driver, [A], {RISCV}) == {}

    def test_another_study_gets_the_result_of_its_own_kind_of_machine(
        self, repository: Repository
    ) -> None:
        (driver,) = driven(repository)
        run_on(repository, driver, A, RISCV, 4.0)
        run_on(repository, driver, A, ZEN5, 1.0)
        repository.open("t", DEFINITION)
        assert repository.cached("t", [A], {ZEN5}) == {A.digest}
        assert repository.find_outcomes([A.digest], "t")[A.digest].metrics == {"time": 1.0}
        assert repository.cached("t", [A], {RISCV}) == {A.digest}
        assert repository.count_states("t")["ok"] == 1
        assert {(count.machine, count.count) for count in repository.count_results("t")} == {
            (ZEN5, 1),
            (RISCV, 1),
        }
        lease = repository.acquire_lease("t", DriverProcess.current())
        assert repository.claim("t", lease.number, [A], {RISCV}) == {}

    def test_an_outcome_of_a_second_kind_that_is_recorded_twice_is_kept_once(
        self, repository: Repository
    ) -> None:
        (driver,) = driven(repository)
        run_on(repository, driver, A, RISCV, 4.0)
        run_on(repository, driver, A, ZEN5, 1.0)
        for machine, time, attempt in ((RISCV, 4.0, 1), (ZEN5, 1.0, 2)):
            again = measured(A, machine, time, attempt)
            assert repository.record("s", driver, [again]) == {A.digest}
        assert [a.state for a in repository.attempts(A.digest)] == ["ok", "ok"]

    def test_remeasuring_keeps_kinds_of_machine_apart(self, repository: Repository) -> None:
        (driver,) = driven(repository)
        run_on(repository, driver, A, RISCV, 4.0)
        run_on(repository, driver, A, ZEN5, 1.0)
        anew = [measured(A, RISCV, 4.5, 1), measured(A, ZEN5, 1.5, 2)]
        assert repository.remeasure("s", anew) == 2
        for kind, time in ((RISCV, 4.5), (ZEN5, 1.5)):
            assert repository.find_outcomes([A.digest], "s", {kind})[A.digest].metrics == {
                "time": time
            }

    def test_entered_results_count_for_their_kind_of_machine(self, repository: Repository) -> None:
        (driver,) = driven(repository)
        for machine, time in ((ZEN5, 1.0), (RISCV, 4.0)):
            pair = (A, measured(A, machine, time))
            assert repository.add_results("s", driver, [pair], {machine}) == {A.digest}
            assert repository.add_results("s", driver, [pair], {machine}) == {A.digest}
        for machine, time in ((ZEN5, 1.0), (RISCV, 4.0)):
            accepted = repository.find_outcomes([A.digest], "s", {machine})[A.digest]
            assert (accepted.machine, accepted.metrics) == (machine, {"time": time})
        assert [(a.number, a.state) for a in repository.attempts(A.digest)] == [
            (1, "ok"),
            (2, "ok"),
        ]
        assert repository.add_results("s", driver, [(A, measured(A, None, 9.0))]) == {A.digest}
        assert len(repository.count_results("s")) == 2
