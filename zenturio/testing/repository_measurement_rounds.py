"""Contract tests of repositories: rounds, in which experiments are measured again."""

from __future__ import annotations

from dataclasses import replace

from zenturio.experiment.experiment import Experiment, HostConditions, MachineKind, Status
from zenturio.record.entities import DriverProcess, ResultCount, ResultRunPosition
from zenturio.record.repository import Repository
from zenturio.testing.experiments import DEFINITION, A, B, driven, outcome, run

ZEN5 = MachineKind("Zen 5", 16)
RISCV = MachineKind("RISC-V", 4)


def run_again(
    repository: Repository,
    driver: int,
    of: Experiment,
    time: float,
    round_: int,
    machine: MachineKind | None = None,
    status: Status = "ok",
) -> None:
    """Claim the experiment in a round and record an outcome of *time* seconds."""
    claims = repository.claim("s", driver, [of], {machine} if machine else None, round_)
    measured = outcome(of, attempt=claims[of.digest], time=time)
    measured = replace(measured, machine=machine, status=status)
    assert repository.record("s", driver, [measured]) == {of.digest}


class RoundsContract:
    def test_rounds_are_numbered_from_one(self, repository: Repository) -> None:
        driven(repository)
        repository.end_round("s", 2)
        (first,) = repository.rounds("s")
        assert (first.number, first.is_open) == (1, False)
        assert repository.begin_round("s", "the fan was replaced") == 2
        assert repository.begin_round("s") == 2, "an open round continues"
        first, second = repository.rounds("s")
        assert (first.number, second.number) == (1, 2)
        assert (second.reason, second.is_open, bool(second.person)) == (
            "the fan was replaced",
            True,
            True,
        )
        assert second.began >= first.began
        repository.end_round("s", 2)
        repository.end_round("s", 2)
        assert not repository.rounds("s")[-1].is_open
        assert repository.begin_round("s") == 3
        texts = [event.text for event in repository.events("s") if event.kind == "round"]
        assert texts == ["round 2 begun", "round 2 ended", "round 3 begun"]

    def test_each_round_draws_the_seed_of_its_order_once(self, repository: Repository) -> None:
        driven(repository)
        first = repository.order_seed("s")
        assert first
        assert repository.order_seed("s") == first
        assert [each.seed for each in repository.rounds("s")] == [first]
        repository.begin_round("s")
        assert [each.seed for each in repository.rounds("s")] == [first, ""]
        second = repository.order_seed("s")
        assert second not in ("", first)
        assert [each.seed for each in repository.rounds("s")] == [first, second]
        assert repository.rounds("s")[-1].is_open

    def test_results_know_their_places_in_the_order_of_a_run(self, repository: Repository) -> None:
        (driver,) = driven(repository)
        claims = repository.claim("s", driver, [A, B])
        outcomes = []
        for of, block, turn in ((A, 7, 2), (B, 3, 1)):
            placed = HostConditions(run_order="search 1", run_block=block, run_turn=turn)
            measured = outcome(of, attempt=claims[of.digest])
            outcomes.append(replace(measured, machine=ZEN5, conditions=placed))
        assert repository.placed_runs("s", "search 1") == ()
        assert repository.record("s", driver, outcomes) == {A.digest, B.digest}
        assert repository.placed_runs("s", "search 1") == (
            ResultRunPosition(1, ZEN5, 1, 3, 1), ResultRunPosition(1, ZEN5, 1, 7, 2)
        )  # fmt: skip
        assert repository.placed_runs("s", "search 2") == ()

    def test_a_round_measures_experiments_with_results_again(self, repository: Repository) -> None:
        (driver,) = driven(repository)
        run(repository, driver, [A], time=1.0)
        number = repository.begin_round("s")
        assert repository.cached("s", [A, B]) == {A.digest}
        assert repository.claim("s", driver, [A]) == {}
        assert repository.cached("s", [A, B], round_=number) == frozenset()
        assert repository.find_outcomes([A.digest], "s", round_=number) == {}
        run_again(repository, driver, A, 2.0, number)
        assert repository.cached("s", [A, B], round_=number) == {A.digest}
        assert repository.claim("s", driver, [A], round_=number) == {}
        assert repository.claim("s", driver, [A]) == {}

    def test_results_of_earlier_rounds_stay_beside_the_newest(self, repository: Repository) -> None:
        (driver,) = driven(repository)
        run(repository, driver, [A, B], time=1.0)
        number = repository.begin_round("s")
        run_again(repository, driver, A, 2.0, number)
        assert repository.find_outcomes([A.digest], "s")[A.digest].metrics == {"time": 2.0}
        assert repository.find_outcomes([A.digest])[A.digest].metrics == {"time": 2.0}
        assert repository.find_outcomes([A.digest], "s", round_=1)[A.digest].metrics == {
            "time": 1.0
        }
        assert repository.find_outcomes([B.digest], "s")[B.digest].metrics == {"time": 1.0}
        records = [
            (record.digest, record.round, record.newest) for record in repository.records("s")
        ]
        assert records == [(A.digest, 1, False), (A.digest, 2, True), (B.digest, 1, True)]
        row = repository.experiment_record("s", A.digest)
        assert (row.round, row.newest) == (2, True)
        attempts = repository.attempts(A.digest)
        assert [(attempt.number, attempt.round) for attempt in attempts] == [(1, 1), (2, 2)]
        assert repository.count_states("s")["ok"] == 2
        assert set(repository.count_results("s")) == {
            ResultCount(None, 1, "ok", 2),
            ResultCount(None, 2, "ok", 1),
        }

    def test_a_round_of_one_of_three_studies_leaves_the_newest_results_of_the_others(
        self, repository: Repository
    ) -> None:
        (driver,) = driven(repository)
        run(repository, driver, [A, B], time=1.0)
        for name in ("t", "u"):
            repository.open(name, DEFINITION)
            assert repository.cached(name, [A, B]) == {A.digest, B.digest}
        before = {name: list(repository.records(name)) for name in ("t", "u")}
        run_again(repository, driver, A, 2.0, repository.begin_round("s"))
        assert [record.newest for record in repository.records("s")] == [False, True, True]
        for name, records in before.items():
            assert list(repository.records(name)) == records
            assert [record.newest for record in records] == [True, True]
            assert repository.count_states(name)["ok"] == 2

    def test_new_experiments_belong_to_the_newest_round(self, repository: Repository) -> None:
        (driver,) = driven(repository)
        run(repository, driver, [A], time=1.0)
        repository.begin_round("s")
        run(repository, driver, [B], time=2.0)
        assert repository.experiment_record("s", B.digest).round == 2

    def test_each_kind_of_machine_has_its_newest_result(self, repository: Repository) -> None:
        (driver,) = driven(repository)
        for machine, time in ((ZEN5, 1.0), (RISCV, 4.0)):
            run_again(repository, driver, A, time, 1, machine)
        number = repository.begin_round("s")
        run_again(repository, driver, A, 1.5, number, ZEN5)
        newest = {
            (record.outcome.machine, record.round)
            for record in repository.records("s")
            if record.newest and record.outcome
        }
        assert newest == {(ZEN5, 2), (RISCV, 1)}
        assert repository.find_outcomes([A.digest], "s", {RISCV})[A.digest].metrics == {"time": 4.0}
        assert repository.find_outcomes([A.digest], "s", {ZEN5})[A.digest].metrics == {"time": 1.5}

    def test_a_result_of_an_unknown_machine_is_replaced_by_a_later_round(
        self, repository: Repository
    ) -> None:
        (driver,) = driven(repository)
        run(repository, driver, [A], time=1.0)
        run_again(repository, driver, A, 1.5, repository.begin_round("s"), ZEN5)
        assert [record.newest for record in repository.records("s")] == [False, True]

    def test_drivers_measure_a_round_together(self, repository: Repository) -> None:
        (driver,) = driven(repository)
        run(repository, driver, [A, B])
        number = repository.begin_round("s")
        second = repository.acquire_lease("s", DriverProcess.current(), join=True).number
        assert repository.begin_round("s") == number
        assert set(repository.claim("s", driver, [A], round_=number)) == {A.digest}
        assert set(repository.claim("s", second, [A, B], round_=number)) == {B.digest}
        assert repository.claim("s", driver, [B], round_=number) == {}

    def test_an_experiment_runs_in_one_round_at_a_time(self, repository: Repository) -> None:
        (driver,) = driven(repository)
        second = repository.acquire_lease("s", DriverProcess.current(), join=True).number
        claims = repository.claim("s", driver, [A])
        number = repository.begin_round("s")
        assert repository.claim("s", second, [A], round_=number) == {}
        late = outcome(A, attempt=claims[A.digest])
        assert repository.record("s", driver, [late]) == {A.digest}
        assert repository.experiment_record("s", A.digest).round == 1
        assert set(repository.claim("s", second, [A], round_=number)) == {A.digest}

    def test_a_round_takes_no_results_of_other_studies(self, repository: Repository) -> None:
        (driver,) = driven(repository)
        run(repository, driver, [A], time=1.0)
        repository.open("t", DEFINITION)
        number = repository.begin_round("t")
        assert repository.cached("t", [A], round_=number) == frozenset()
        assert repository.cached("t", [A]) == {A.digest}
        assert repository.experiment_record("t", A.digest).round == number

    def test_reopening_a_result_of_a_round_restores_that_of_the_round_before(
        self, repository: Repository
    ) -> None:
        (driver,) = driven(repository)
        run(repository, driver, [A], time=1.0)
        number = repository.begin_round("s")
        run_again(repository, driver, A, 2.0, number, status="failed")
        assert repository.count_states("s")["failed"] == 1
        assert repository.reopen("s", [A.digest]) == 1
        assert repository.find_outcomes([A.digest], "s")[A.digest].metrics == {"time": 1.0}
        assert [record.newest for record in repository.records("s")] == [True]
        run_again(repository, driver, A, 3.0, number)
        assert repository.find_outcomes([A.digest], "s")[A.digest].metrics == {"time": 3.0}
        assert [attempt.number for attempt in repository.attempts(A.digest)] == [1, 2, 3]

    def test_entered_results_may_belong_to_a_round(self, repository: Repository) -> None:
        (driver,) = driven(repository)
        repository.add_results("s", driver, [(A, outcome(A, time=1.0))])
        number = repository.begin_round("s")
        pair = (A, outcome(A, time=2.0))
        assert repository.add_results("s", driver, [pair], None, number) == {A.digest}
        assert repository.add_results("s", driver, [pair], None, number) == {A.digest}
        assert repository.find_outcomes([A.digest], "s")[A.digest].metrics == {"time": 2.0}
        assert [record.round for record in repository.records("s")] == [1, 2]

    def test_remeasuring_changes_the_result_of_each_round(self, repository: Repository) -> None:
        (driver,) = driven(repository)
        run(repository, driver, [A], time=1.0)
        number = repository.begin_round("s")
        run_again(repository, driver, A, 2.0, number)
        anew = [outcome(A, attempt=1, time=1.5), outcome(A, attempt=2, time=2.5)]
        assert repository.remeasure("s", anew) == 2
        for number, time in ((1, 1.5), (2, 2.5)):
            measured = repository.find_outcomes([A.digest], "s", round_=number)[A.digest]
            assert measured.metrics == {"time": time}
