"""Contract tests of repositories: recording and reading outcomes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest

from zenturio.errors import NotFoundError
from zenturio.experiment.experiment import Log, MetricValue, Outcome
from zenturio.expression import Value
from zenturio.record.entities import DriverProcess, Field, StudyDefinition
from zenturio.record.repository import Repository
from zenturio.testing.experiments import (
    ALL,
    DEFINITION,
    FIVE,
    ODD_MEASURES,
    A,
    B,
    C,
    D,
    E,
    dead_driver,
    driven,
    experiment,
    outcome,
    run,
    same,
)


class Outcomes:
    def test_find_returns_recorded_outcomes_only(self, repository: Repository) -> None:
        (driver,) = driven(repository)
        run(repository, driver, [A], time=2.5)
        assert repository.find_outcomes([A.digest, B.digest, C.digest]) == {
            A.digest: outcome(A, time=2.5)
        }

    def test_the_first_recorded_outcome_wins(self, repository: Repository) -> None:
        (driver,) = driven(repository)
        run(repository, driver, [A])
        assert repository.record("s", driver, [outcome(A, "failed")]) == {A.digest}
        assert repository.find_outcomes([A.digest]) == {A.digest: outcome(A)}
        assert [a.state for a in repository.attempts(A.digest)] == ["ok"]

    def test_an_experiment_with_an_outcome_is_cached(self, repository: Repository) -> None:
        (driver,) = driven(repository)
        assert repository.cached("s", [A, A, B]) == frozenset()
        run(repository, driver, [A])
        repository.claim("s", driver, [B])
        assert repository.cached("s", FIVE) == {A.digest}
        assert [r.digest for r in repository.records("s")] == ALL[:2]
        assert sum(repository.count_states("s").values()) == 2

    def test_an_experiment_is_found_by_a_prefix_of_its_digest(self, repository: Repository) -> None:
        (driver,) = driven(repository)
        run(repository, driver, [A])
        repository.claim("s", driver, [B])
        repository.open("t", DEFINITION)
        other_driver = repository.acquire_lease("t", DriverProcess.current()).number
        repository.add_results("t", other_driver, [(C, outcome(C))])
        repository.add_results("t", other_driver, [(B, outcome(B))])
        assert repository.find_digests(A.digest, 5) == ((A.digest, ("s",)),)
        assert repository.find_digests(B.digest[:7], 5) == ((B.digest, ("s", "t")),)
        studies_of = {A.digest: ("s",), B.digest: ("s", "t"), C.digest: ("t",)}
        assert repository.find_digests("", 5) == tuple(sorted(studies_of.items()))
        assert len(repository.find_digests("", 2)) == 2
        assert repository.find_digests("f" * 32, 5) == ()
        assert repository.experiment_record("s", A.digest).outcome == outcome(A)
        assert repository.experiment_record("s", B.digest).state == "running"
        assert repository.experiment_record("t", C.digest).state == "ok"
        with pytest.raises(NotFoundError):
            repository.experiment_record("s", C.digest)

    def test_a_result_that_is_given_twice_in_one_call_is_recorded_once(
        self, repository: Repository
    ) -> None:
        (driver,) = driven(repository)
        repository.claim("s", driver, [A, B])
        outcomes = [outcome(A), outcome(A), outcome(B), replace(outcome(B), cause="another")]
        assert repository.record("s", driver, outcomes) == {A.digest, B.digest}
        assert repository.find_outcomes(ALL) == {A.digest: outcome(A), B.digest: outcome(B)}
        assert [a.state for a in repository.attempts(A.digest)] == ["ok"]

    def test_a_late_result_that_is_told_twice_in_one_call_costs_no_other_one(
        self, repository: Repository
    ) -> None:
        repository.open("s", DEFINITION)
        dead = repository.acquire_lease("s", dead_driver()).number
        repository.claim("s", dead, [A])
        driver = repository.acquire_lease("s", DriverProcess.current()).number
        repository.claim("s", driver, [A])
        repository.record("s", driver, [outcome(A, attempt=2)])
        late = outcome(A, "failed")
        assert repository.record("s", dead, [late, late]) == frozenset()
        repository.claim("s", driver, [B])
        again = replace(outcome(A, "failed", attempt=7), cause="never claimed")
        assert repository.record("s", driver, [again, outcome(B), again]) == {B.digest}
        assert [a.state for a in repository.attempts(B.digest)] == ["ok"]
        states = [(a.number, a.state) for a in repository.attempts(A.digest)]
        assert states == [(1, "superseded"), (2, "ok"), (7, "superseded")]

    def test_a_late_result_is_kept_as_superseded(self, repository: Repository) -> None:
        repository.open("s", DEFINITION)
        dead = repository.acquire_lease("s", dead_driver()).number
        repository.claim("s", dead, [A])
        heir = repository.acquire_lease("s", DriverProcess.current()).number
        repository.claim("s", heir, [A])
        late = replace(outcome(A, time=1.0), stdout=Log(b"late", b"", 4))
        assert repository.record("s", dead, [late]) == frozenset()
        assert repository.record("s", heir, [outcome(A, attempt=2, time=2.0)]) == {A.digest}
        assert repository.record("s", dead, [late]) == frozenset()
        assert [a.state for a in repository.attempts(A.digest)] == ["superseded", "ok"]
        assert repository.find_outcomes([A.digest])[A.digest].metrics == {"time": 2.0}
        assert repository.logs(A.digest, 1).stdout.head == b"late"
        assert repository.count_states("s")["ok"] == 1

    def test_a_result_without_a_claim_is_kept_as_superseded(self, repository: Repository) -> None:
        driver, second = driven(repository, 2)
        repository.claim("s", driver, [A])
        for _ in range(2):
            assert repository.record("s", second, [outcome(A)]) == frozenset()
        assert [a.state for a in repository.attempts(A.digest)] == ["running", "superseded"]
        assert repository.count_states("s")["running"] == 1

    def test_an_attempt_that_is_not_final_leaves_the_experiment_missing(
        self, repository: Repository
    ) -> None:
        (driver,) = driven(repository)
        repository.claim("s", driver, [A])
        for _ in range(2):  # a driver whose connection broke records once more
            repository.record("s", driver, [outcome(A, "timeout")], final=False)
        assert set(repository.count_states("s").values()) == {0}
        assert repository.experiment_record("s", A.digest).state == "missing"
        assert repository.experiment_record("s", A.digest).values == A.values
        assert repository.find_outcomes([A.digest]) == {}
        assert repository.claim("s", driver, [A]) == {A.digest: 2}
        repository.record("s", driver, [outcome(A, attempt=2)])
        assert [(a.number, a.state) for a in repository.attempts(A.digest)] == [
            (1, "timeout"),
            (2, "ok"),
        ]

    def test_an_outcome_of_an_earlier_attempt_does_not_end_the_running_one(
        self, repository: Repository
    ) -> None:
        (driver,) = driven(repository)
        repository.claim("s", driver, [A])
        repository.record("s", driver, [outcome(A, "failed")], final=False)
        repository.claim("s", driver, [A])
        assert repository.record("s", driver, [outcome(A, attempt=1)]) == frozenset()
        assert [a.state for a in repository.attempts(A.digest)] == ["failed", "running"]
        assert repository.record("s", driver, [outcome(A, attempt=2)]) == {A.digest}

    def test_an_attempt_has_state_driver_host_cause_and_times(self, repository: Repository) -> None:
        (driver,) = driven(repository)
        repository.claim("s", driver, [A])
        (running,) = repository.attempts(A.digest)
        assert (running.state, running.driver, running.ended) == ("running", driver, None)
        assert running.started > 1.7e9
        repository.record("s", driver, [outcome(A, "failed")])
        (finished,) = repository.attempts(A.digest)
        assert (finished.state, finished.host, finished.cause, finished.exit) == (
            "failed", "karwendel", "exit 3", 3,
        )  # fmt: skip
        assert (finished.started, finished.ended) == (1e9, 1e9 + 2.5)

    def test_every_kind_of_measure_survives_a_round_trip(self, repository: Repository) -> None:
        (driver,) = driven(repository)
        run(repository, driver, [A], metrics=ODD_MEASURES)
        for kind, measure in ODD_MEASURES.items():
            run(repository, driver, [experiment(9, salt=kind)], time=measure)
            (accepted,) = repository.find_outcomes([experiment(9, salt=kind).digest]).values()
            assert same(accepted.metrics, {"time": measure})
        assert same(repository.find_outcomes([A.digest])[A.digest].metrics, ODD_MEASURES)

    def test_every_kind_of_value_survives_a_round_trip(self, repository: Repository) -> None:
        values = {
            k: v for k, v in ODD_MEASURES.items() if v is None or isinstance(v, int | float | str)
        } | {"inactive": None}
        repository.open("s", StudyDefinition(tuple(Field(name) for name in values)))
        mixed = [experiment(i, dict.fromkeys(values, v)) for i, v in enumerate(values.values())]
        driver = repository.acquire_lease("s", DriverProcess.current()).number
        experiments = [experiment(-1, values), *mixed]
        repository.claim("s", driver, experiments)
        running = list(repository.records("s"))
        assert [r.state for r in running] == ["running"] * len(experiments)
        repository.record("s", driver, [outcome(e) for e in experiments])
        for records in (running, repository.records("s")):
            first, *remaining = records
            assert same(first.values, values)
            for record, original in zip(remaining, mixed, strict=True):
                assert same(record.values, original.values)

    def test_undeclared_values_and_metrics_are_kept(self, repository: Repository) -> None:
        (driver,) = driven(repository)
        run(repository, driver, [experiment(1, {"n": 1, "m": "x"})], wtime=0.5)
        run(repository, driver, [experiment(2, {"n": 2})], time=1)
        first, second = repository.records("s")
        assert first.values == {"n": 1, "m": "x"}
        assert first.outcome is not None
        assert first.outcome.metrics == {"wtime": 0.5}
        assert second.values in ({"n": 2}, {"n": 2, "m": None})
        assert second.outcome is not None
        assert second.outcome.metrics == {"time": 1}

    @pytest.mark.parametrize("count", [300, 1700])
    def test_many_parameters_and_metrics_work(self, repository: Repository, count: int) -> None:
        values: dict[str, Value] = {f"p{i}": (i, i / 7, f"t{i}")[i % 3] for i in range(count)}
        metrics: dict[str, MetricValue] = {
            f"m{i}": (i / 3, i, f"t{i}")[i % 3] for i in range(count)
        }
        fields = tuple(map(Field, values)), tuple(map(Field, metrics))
        repository.open("s", StudyDefinition(*fields))
        driver = repository.acquire_lease("s", DriverProcess.current()).number
        run(repository, driver, [experiment(1, values)], metrics=metrics)
        (record,) = repository.records("s")
        assert record.values == values
        assert record.outcome is not None
        assert record.outcome.metrics == metrics

    def test_counts_have_every_state(self, repository: Repository) -> None:
        (driver,) = driven(repository)
        repository.claim("s", driver, FIVE[:4])
        repository.record("s", driver, [outcome(A), outcome(B, "failed"), outcome(C, "cancelled")])
        assert repository.count_states("s") == {
            "running": 1, "ok": 1, "warmup": 0, "failed": 1, "wrong": 0, "timeout": 0,
            "cancelled": 1,
        }  # fmt: skip

    def test_records_are_ordered_by_index_then_repeat(self, repository: Repository) -> None:
        repository.open("s", DEFINITION)
        # Indices of large spaces exceed 64 bits, so a database cannot sort them as integers.
        indices = [10**200, 3, -1, 2**63, 2**63 - 1, 10**30, 0, 3 * 10**30, 2**64]
        experiments = [experiment(i, {}, repeat=r) for i in indices for r in (2, 1)]
        experiments += [experiment(-1, {}, repeat=1, salt=str(i)) for i in range(3)]
        driver = repository.acquire_lease("s", DriverProcess.current()).number
        repository.add_results("s", driver, [(e, outcome(e)) for e in experiments[::2]])
        repository.claim("s", driver, experiments[1::2])
        records = list(repository.records("s"))
        assert [(r.index, r.repeat) for r in records] == sorted(
            (e.index, e.repeat) for e in experiments
        )
        for at in (0, 5, len(experiments) - 2, len(experiments) - 1):
            assert list(repository.records("s", after=records[at].key)) == records[at + 1 :]

    def test_records_may_be_filtered_by_state(self, repository: Repository) -> None:
        (driver,) = driven(repository)
        run(repository, driver, [B, D])
        assert [r.digest for r in repository.records("s", states=["ok"])] == [B.digest, D.digest]
        repository.claim("s", driver, [A, C, E])
        repository.record("s", driver, [outcome(C, "timeout")], final=False)
        unfinished = list(repository.records("s", states=("missing", "running")))
        assert [r.outcome for r in unfinished] == [None] * 3
        assert [r.state for r in unfinished] == ["running", "missing", "running"]

    def test_results_may_be_entered_with_their_experiments(self, repository: Repository) -> None:
        (driver,) = driven(repository)
        pairs = [(e, outcome(e, time=e.index)) for e in FIVE]
        assert repository.add_results("s", driver, pairs) == set(ALL)
        assert repository.add_results("s", driver, pairs) == set(ALL)
        assert repository.count_states("s")["ok"] == 5
        assert [r.outcome for r in repository.records("s")] == [o for _, o in pairs]
        assert len(repository.attempts(A.digest)) == 1

    def test_entered_results_yield_to_those_of_another_driver(self, repository: Repository) -> None:
        driver, second = driven(repository, 2)
        repository.claim("s", driver, [B])
        repository.add_results("s", driver, [(A, outcome(A, time=1))])
        pairs = [(e, outcome(e, time=2)) for e in (A, B, C)]
        assert repository.add_results("s", second, pairs) == {C.digest}
        assert repository.find_outcomes([A.digest])[A.digest].metrics == {"time": 1}
        assert [a.state for a in repository.attempts(A.digest)] == ["ok", "superseded"]
        assert [a.state for a in repository.attempts(B.digest)] == ["running", "superseded"]

    def test_a_result_entered_for_a_reopened_experiment_is_its_next_attempt(
        self, repository: Repository
    ) -> None:
        (driver,) = driven(repository)
        run(repository, driver, [A], "failed")
        repository.reopen("s", [A.digest])
        for _ in range(2):
            assert repository.add_results("s", driver, [(A, outcome(A))]) == {A.digest}
        assert [a.state for a in repository.attempts(A.digest)] == ["failed", "ok"]
        assert repository.find_outcomes([A.digest])[A.digest].attempt == 2

    def test_a_failed_experiment_may_be_reopened(self, repository: Repository) -> None:
        (driver,) = driven(repository)
        run(repository, driver, [A])
        run(repository, driver, [B], "failed", time=1.0, far=2**70)
        assert repository.reopen("s", [A.digest, B.digest]) == 1
        assert repository.reopen("s", [A.digest, B.digest]) == 0
        assert (repository.count_states("s")["ok"], repository.count_states("s")["failed"]) == (
            1,
            0,
        )
        assert repository.experiment_record("s", B.digest).state == "missing"
        assert repository.claim("s", driver, FIVE[:2]) == {B.digest: 2}
        repository.record("s", driver, [outcome(B, attempt=2, size=1)])
        assert [a.state for a in repository.attempts(B.digest)] == ["failed", "ok"]
        assert repository.find_outcomes([B.digest])[B.digest].metrics == {"size": 1}

    def test_remeasuring_changes_results_and_definition_atomically(
        self, repository: Repository
    ) -> None:
        (driver,) = driven(repository)
        run(repository, driver, [A, B], time=1.0)
        new_definition = StudyDefinition(
            (Field("n", "int"),), (Field("time", how="anew"), Field("more"))
        )

        def broken() -> Iterator[Outcome]:
            yield outcome(A, time=2.0, more=1)
            raise ArithmeticError

        with pytest.raises(ArithmeticError):
            repository.remeasure("s", broken(), new_definition)
        assert repository.definition("s") == DEFINITION
        assert repository.find_outcomes([A.digest])[A.digest].metrics == {"time": 1.0}
        anew = [outcome(what, time=2.0, more=1) for what in (A, B)]
        assert repository.remeasure("s", iter(anew), new_definition) == 2
        assert repository.definition("s") == new_definition
        for what in (A, B):
            assert repository.find_outcomes([what.digest])[what.digest].metrics == {
                "time": 2.0,
                "more": 1,
            }

    def test_remeasuring_replaces_metrics_only(self, repository: Repository) -> None:
        (driver,) = driven(repository)
        run(repository, driver, [A], "failed", time=1.0, old="x", older=2**64)
        run(repository, driver, [B])
        anew = replace(outcome(A, time=math.inf, new=2), started=0.0, host="elsewhere")
        assert repository.remeasure("s", [anew, outcome(C)]) == 1
        accepted = repository.find_outcomes([A.digest])[A.digest]
        assert accepted == replace(outcome(A, time=math.inf, new=2), exit=3)
        assert repository.count_states("s") | {"ok": 2, "failed": 0} == repository.count_states("s")
        assert [a.state for a in repository.attempts(A.digest)] == ["ok"]
