"""What every repository must do. Subclass it and give it a ``repository`` fixture, empty."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

import pytest

from zenturio.errors import ConflictError, InputError, NotFoundError
from zenturio.experiment.experiment import (
    Artifact,
    Experiment,
    Log,
    Measure,
    Missing,
    Outcome,
    Recipe,
    Series,
    Status,
)
from zenturio.expression import Value
from zenturio.record.driver import Driver, born
from zenturio.record.facts import Definition, Field, Logs
from zenturio.record.repository import Repository

ODD_MEASURES: dict[str, Measure] = {
    "int": 3,
    "real": 3.0,
    "a third": 1 / 3,
    "minus zero": -0.0,
    "least": 5e-324,
    "largest": 1.7976931348623157e308,
    "nan": math.nan,
    "inf": math.inf,
    "minus inf": -math.inf,
    "yes": True,
    "no": False,
    "last in 63 bits": 2**63 - 1,
    "first in 63 bits": -(2**63),
    "beyond 63 bits": 2**63,
    "far beyond": -(10**200),
    "text": "text",
    "empty": "",
    "number as text": "3.0",
    "letters": "Größe \U0001f600 '\"`\\",
    "nul": "a\0b",
    "surrogate": "\udcff",
    "missing": Missing("no match in stdout"),
    "series": Series((1, 2.5, "a\0", None, True, math.nan, 2**70, -0.0)),
    "no series": Series(()),
}
"""One of each kind of value that a program may come up with."""


def experiment(
    index: int, values: Mapping[str, Value] | None = None, *, repeat: int = 1, salt: str = ""
) -> Experiment:
    """An experiment that differs from others in its *index*, *repeat* and *salt*."""
    digest = blake2b(repr((index, repeat, salt)).encode(), digest_size=16).hexdigest()
    point = {"n": index} if values is None else values
    return Experiment(digest, index, repeat, point, (), (), {}, None, Recipe())


def outcome(
    of: Experiment,
    status: Status = "ok",
    metrics: Mapping[str, Measure] | None = None,
    *,
    attempt: int = 1,
    **more: Measure,
) -> Outcome:
    """An outcome of an experiment, with times and a host."""
    cause, code = ("", 0) if status == "ok" else ("exit 3", 3)
    measured = {**(metrics or {}), **more}
    return Outcome(of.digest, status, cause, measured, attempt, "karwendel", 1e9, 1e9 + 2.5, code)


def same(one: object, other: object) -> bool:
    """Whether two values are one to the bit: type, NaN and the sign of zero included."""
    return _image(one) == _image(other)


def _image(value: object) -> object:
    if isinstance(value, Series):
        return ("series", *map(_image, value.values))
    if isinstance(value, Mapping):
        return {name: _image(v) for name, v in value.items()}
    return (type(value).__name__, repr(value))


DEFINITION = Definition((Field("n", "int"),), (Field("time", unit="s", how="stdout"),))
FIVE = [experiment(i) for i in range(5)]
A, B, C, D, E = FIVE
ALL = [e.digest for e in FIVE]


class _Studies:
    def test_a_study_opened_twice_is_one(self, repository: Repository) -> None:
        first = repository.open("s", DEFINITION)
        assert repository.open("s", DEFINITION) == first == repository.study("s")
        assert repository.studies() == (first,)

    def test_studies_are_told_in_the_order_of_their_creation(self, repository: Repository) -> None:
        for name in ("b", "a", "c", "a b"):
            repository.open(name, DEFINITION)
        assert [study.name for study in repository.studies()] == ["b", "a", "c", "a b"]

    def test_a_definition_comes_back_as_it_was_given(self, repository: Repository) -> None:
        given = Definition(
            parameters=(Field("Größe", "real", "m", "assign"), Field("select", "str")),
            metrics=(Field("time", None, "s", how='stdout REGEX "t=(\\S+)"'),),
            goals=({"direction": "minimize", "expression": "time"},),
            provenance={"commit": "abc", "dirty": True, "threads": 4, "nested": {"a": [1, None]}},
            sources={"a.c": b"int main;\r\n", "b": bytes(range(256)), "leer/c": b""},
            notes={"emoji": "\U0001f600", "nul": "\0"},
        )
        repository.open("s", given)
        assert repository.definition("s") == given

    def test_the_newest_definition_counts(self, repository: Repository) -> None:
        repository.open("s", DEFINITION)
        newer = replace(DEFINITION, metrics=(*DEFINITION.metrics, Field("size")), notes={"a": 1})
        repository.open("s", newer)
        assert repository.definition("s") == newer

    def test_an_unknown_study_is_answered_with_the_nearest(self, repository: Repository) -> None:
        repository.open("matmul", DEFINITION)
        with pytest.raises(NotFoundError, match="did you mean 'matmul'"):
            repository.study("matmull")
        with pytest.raises(NotFoundError, match="did you mean 'matmul'"):
            repository.counts("matmull")

    def test_a_name_used_for_two_fields_is_refused(self, repository: Repository) -> None:
        with pytest.raises(InputError, match="'n' names two parameters or metrics"):
            repository.open("s", Definition((Field("n"),), (Field("n"),)))
        assert repository.studies() == ()

    @pytest.mark.parametrize("name", ["", "a\0b", "\udcff"])
    def test_a_name_that_no_database_holds_is_refused(
        self, repository: Repository, name: str
    ) -> None:
        with pytest.raises(InputError, match="cannot be a name"):
            repository.open(name, DEFINITION)
        with pytest.raises(InputError, match="cannot be a name"):
            repository.open("s", Definition((Field(name),)))

    def test_names_are_data(self, repository: Repository) -> None:
        names = [
            "select",
            "Größe",
            "x" * 70,
            "x" * 71,
            "n",
            "N",
            "status",
            "%s",
            ':a"b`[',
            "ü" * 40,
        ]
        names += ["status_2", "index", "zen_status", "rowid", "experiment", "-- ", "{}", " "]
        values = {name: i for i, name in enumerate(names)}
        for study in ("select", "ß" * 50, 'a"b', "%s; --", "a", "a_all", "A"):
            repository.open(study, Definition(tuple(Field(name, "int") for name in names)))
            repository.add(study, [experiment(1, values)])
            (record,) = repository.records(study)
            assert record.values == values
        views = [v.casefold() for s in repository.studies() for v in (s.view, s.view_all)]
        assert len(set(views)) == len(views)
        assert all(len(view.encode()) <= 63 for view in views)

    def test_events_are_told_in_their_order(self, repository: Repository) -> None:
        repository.open("s", DEFINITION)
        repository.open("t", DEFINITION)
        repository.add("s", [A])
        repository.note("s", "hello", "first", A.digest)
        repository.note("s", "hello", "Größe\n")
        repository.note("t", "hello", "elsewhere")
        assert [e.text for e in repository.events("s")] == ["first", "Größe\n"]
        assert [e.text for e in repository.events("s", A.digest)] == ["first"]
        assert repository.events("s")[0].at <= repository.events("s")[1].at


class _Leases:
    def test_a_second_driver_is_told_who_drives(self, repository: Repository) -> None:
        repository.open("s", DEFINITION)
        repository.lease("s", Driver("elsewhere", 4711, "x"))
        with pytest.raises(
            ConflictError, match=r"process 4711 on elsewhere since \d{4}-"
        ) as raised:
            repository.lease("s", Driver.here())
        assert "--join" in str(raised.value)

    def test_a_driver_may_join(self, repository: Repository) -> None:
        repository.open("s", DEFINITION)
        one = repository.lease("s", Driver.here())
        two = repository.lease("s", Driver.here(), join=True)
        assert repository.drivers("s") == (one, two)
        assert one.number != two.number

    def test_two_studies_have_a_driver_each(self, repository: Repository) -> None:
        for name in ("s", "t"):
            repository.open(name, DEFINITION)
            repository.lease(name, Driver.here())
        assert len(repository.drivers("s")) == len(repository.drivers("t")) == 1

    def test_a_driver_that_asks_twice_gets_its_own_lease(self, repository: Repository) -> None:
        repository.open("s", DEFINITION)
        driver = Driver.here()
        first = repository.lease("s", driver)
        assert repository.lease("s", driver).number == first.number

    def test_a_driver_of_this_host_whose_process_is_gone_is_superseded_at_once(
        self, repository: Repository
    ) -> None:
        repository.open("s", DEFINITION)
        dead = repository.lease("s", _dead())
        heir = repository.lease("s", Driver.here())
        assert repository.drivers("s") == (heir,)
        with pytest.raises(ConflictError, match="another driver took the study over"):
            repository.beat(dead)

    def test_a_driver_elsewhere_is_superseded_when_its_lease_runs_out(
        self, repository: Repository
    ) -> None:
        repository.open("s", DEFINITION)
        late = repository.lease("s", Driver("elsewhere", 1, "x"), seconds=0)
        heir = repository.lease("s", Driver.here())
        assert repository.drivers("s") == (heir,)
        with pytest.raises(ConflictError):
            repository.beat(late)

    def test_a_lease_that_ran_out_unnoticed_goes_on(self, repository: Repository) -> None:
        repository.open("s", DEFINITION)
        lease = repository.lease("s", Driver.here(), seconds=0)
        assert repository.beat(lease).number == lease.number

    def test_a_beat_makes_the_lease_longer(self, repository: Repository) -> None:
        repository.open("s", DEFINITION)
        lease = repository.lease("s", Driver.here(), seconds=30)
        assert lease.until == pytest.approx(lease.since + 30, abs=1)
        assert repository.beat(lease).until >= lease.until

    def test_a_driver_that_left_makes_room(self, repository: Repository) -> None:
        repository.open("s", DEFINITION)
        repository.leave(repository.lease("s", Driver("elsewhere", 1, "x")))
        assert repository.drivers("s") == ()
        repository.lease("s", Driver.here())

    def test_leaving_twice_changes_nothing(self, repository: Repository) -> None:
        repository.open("s", DEFINITION)
        lease = repository.lease("s", Driver.here())
        repository.leave(lease)
        repository.leave(lease)
        assert repository.drivers("s") == ()

    def test_what_a_lost_driver_had_claimed_is_stale_and_waits(
        self, repository: Repository
    ) -> None:
        repository.open("s", DEFINITION)
        repository.add("s", [A, B])
        dead = repository.lease("s", _dead())
        assert repository.claim("s", dead.number, [A.digest]) == {A.digest: 1}
        heir = repository.lease("s", Driver.here())
        assert repository.counts("s")["running"] == 0
        assert [a.state for a in repository.attempts(A.digest)] == ["stale"]
        assert repository.claim("s", heir.number, [A.digest]) == {A.digest: 2}
        assert [a.state for a in repository.attempts(A.digest)] == ["stale", "running"]
        assert [e.kind for e in repository.events("s", A.digest)] == ["stale"]


class _Claims:
    def test_what_waits_is_granted_once(self, repository: Repository) -> None:
        one, two = _driven(repository, 2)
        repository.add("s", FIVE)
        assert repository.claim("s", one, [A.digest, B.digest]) == {A.digest: 1, B.digest: 1}
        assert repository.claim("s", two, [B.digest, C.digest]) == {C.digest: 1}
        assert repository.counts("s")["running"] == 3

    def test_a_claim_whose_answer_was_lost_is_read_again(self, repository: Repository) -> None:
        (one,) = _driven(repository)
        repository.add("s", [A])
        assert repository.claim("s", one, [A.digest]) == {A.digest: 1}
        assert repository.claim("s", one, [A.digest, A.digest]) == {A.digest: 1}
        assert len(repository.attempts(A.digest)) == 1

    def test_what_has_an_outcome_is_not_granted(self, repository: Repository) -> None:
        (one,) = _driven(repository)
        _run(repository, one, [A])
        assert repository.claim("s", one, [A.digest]) == {}

    def test_what_was_never_added_is_named(self, repository: Repository) -> None:
        (one,) = _driven(repository)
        with pytest.raises(NotFoundError, match=f"study 's' has no experiment {A.digest}"):
            repository.claim("s", one, [A.digest])
        with pytest.raises(NotFoundError):
            repository.record("s", one, [outcome(A)])
        with pytest.raises(NotFoundError):
            repository.attempts(A.digest)

    def test_a_superseded_driver_claims_nothing(self, repository: Repository) -> None:
        repository.open("s", DEFINITION)
        repository.add("s", [A])
        dead = repository.lease("s", _dead())
        repository.lease("s", Driver.here())
        with pytest.raises(ConflictError):
            repository.claim("s", dead.number, [A.digest])
        assert repository.counts("s")["waiting"] == 1

    def test_a_claim_of_a_lost_driver_of_another_study_is_taken_over(
        self, repository: Repository
    ) -> None:
        (one,) = _driven(repository)
        repository.open("t", DEFINITION)
        for study in ("s", "t"):
            repository.add(study, [A])
        dead = repository.lease("t", _dead())
        repository.claim("t", dead.number, [A.digest])
        assert repository.claim("s", one, [A.digest]) == {A.digest: 2}

    def test_a_claim_of_a_live_driver_of_another_study_is_respected(
        self, repository: Repository
    ) -> None:
        (one,) = _driven(repository)
        repository.open("t", DEFINITION)
        for study in ("s", "t"):
            repository.add(study, [A])
        other = repository.lease("t", Driver("elsewhere", 1, "x"))
        repository.claim("t", other.number, [A.digest])
        assert repository.claim("s", one, [A.digest]) == {}

    def test_leaving_gives_claims_back(self, repository: Repository) -> None:
        repository.open("s", DEFINITION)
        repository.add("s", [A])
        lease = repository.lease("s", Driver.here())
        repository.claim("s", lease.number, [A.digest])
        repository.leave(lease)
        assert repository.counts("s")["waiting"] == 1
        assert [a.state for a in repository.attempts(A.digest)] == ["stale"]


class _Outcomes:
    def test_nothing_is_found_before_it_is_recorded(self, repository: Repository) -> None:
        (one,) = _driven(repository)
        _run(repository, one, [A], time=2.5)
        repository.add("s", [B])
        assert repository.find([A.digest, B.digest, C.digest]) == {A.digest: outcome(A, time=2.5)}

    def test_recording_twice_keeps_the_first(self, repository: Repository) -> None:
        (one,) = _driven(repository)
        _run(repository, one, [A])
        assert repository.record("s", one, [outcome(A, "failed")]) == {A.digest}
        assert repository.find([A.digest]) == {A.digest: outcome(A)}
        assert [a.state for a in repository.attempts(A.digest)] == ["ok"]

    def test_adding_twice_changes_nothing(self, repository: Repository) -> None:
        (one,) = _driven(repository)
        assert repository.add("s", [A, A, B]) == frozenset()
        _run(repository, one, [A])
        assert repository.add("s", FIVE) == {A.digest}
        assert [r.digest for r in repository.records("s")] == ALL
        assert sum(repository.counts("s").values()) == 5

    def test_a_late_result_is_kept_as_superseded(self, repository: Repository) -> None:
        repository.open("s", DEFINITION)
        repository.add("s", [A])
        dead = repository.lease("s", _dead()).number
        repository.claim("s", dead, [A.digest])
        heir = repository.lease("s", Driver.here()).number
        repository.claim("s", heir, [A.digest])
        late = replace(outcome(A, time=1.0), stdout=Log(b"late", b"", 4))
        assert repository.record("s", dead, [late]) == frozenset()
        assert repository.record("s", heir, [outcome(A, attempt=2, time=2.0)]) == {A.digest}
        assert repository.record("s", dead, [late]) == frozenset()
        assert [a.state for a in repository.attempts(A.digest)] == ["superseded", "ok"]
        assert repository.find([A.digest])[A.digest].metrics == {"time": 2.0}
        assert repository.logs(A.digest, 1).stdout.head == b"late"
        assert repository.counts("s")["ok"] == 1

    def test_a_result_without_a_claim_is_kept_as_superseded(self, repository: Repository) -> None:
        one, two = _driven(repository, 2)
        repository.add("s", [A])
        repository.claim("s", one, [A.digest])
        for _ in range(2):
            assert repository.record("s", two, [outcome(A)]) == frozenset()
        assert [a.state for a in repository.attempts(A.digest)] == ["running", "superseded"]
        assert repository.counts("s")["running"] == 1

    def test_an_attempt_that_is_not_final_leaves_the_experiment_waiting(
        self, repository: Repository
    ) -> None:
        (one,) = _driven(repository)
        repository.add("s", [A])
        repository.claim("s", one, [A.digest])
        for _ in range(2):
            repository.record("s", one, [outcome(A, "timeout")], final=False)
        assert repository.counts("s")["waiting"] == 1
        assert repository.find([A.digest]) == {}
        assert repository.claim("s", one, [A.digest]) == {A.digest: 2}
        repository.record("s", one, [outcome(A, attempt=2)])
        assert [(a.number, a.state) for a in repository.attempts(A.digest)] == [
            (1, "timeout"),
            (2, "ok"),
        ]

    def test_an_attempt_tells_what_happened(self, repository: Repository) -> None:
        (one,) = _driven(repository)
        repository.add("s", [A])
        repository.claim("s", one, [A.digest])
        (running,) = repository.attempts(A.digest)
        assert (running.state, running.driver, running.ended) == ("running", one, None)
        assert running.started > 1.7e9
        repository.record("s", one, [outcome(A, "failed")])
        (done,) = repository.attempts(A.digest)
        assert (done.state, done.host, done.cause, done.exit) == (
            "failed", "karwendel", "exit 3", 3,
        )  # fmt: skip
        assert (done.started, done.ended) == (1e9, 1e9 + 2.5)

    def test_every_kind_of_measure_comes_back_as_it_was(self, repository: Repository) -> None:
        (one,) = _driven(repository)
        _run(repository, one, [A], metrics=ODD_MEASURES)
        for kind, measure in ODD_MEASURES.items():
            _run(repository, one, [experiment(9, salt=kind)], time=measure)
            (found,) = repository.find([experiment(9, salt=kind).digest]).values()
            assert same(found.metrics, {"time": measure})
        assert same(repository.find([A.digest])[A.digest].metrics, ODD_MEASURES)

    def test_every_kind_of_value_comes_back_as_it_was(self, repository: Repository) -> None:
        values = {
            k: v for k, v in ODD_MEASURES.items() if v is None or isinstance(v, int | float | str)
        } | {"inactive": None}
        repository.open("s", Definition(tuple(Field(name) for name in values)))
        mixed = [experiment(i, dict.fromkeys(values, v)) for i, v in enumerate(values.values())]
        repository.add("s", [experiment(-1, values), *mixed])
        first, *rest = repository.records("s")
        assert same(first.values, values)
        for record, given in zip(rest, mixed, strict=True):
            assert same(record.values, given.values)

    def test_values_and_metrics_that_nobody_declared_are_kept(self, repository: Repository) -> None:
        (one,) = _driven(repository)
        _run(repository, one, [experiment(1, {"n": 1, "m": "x"})], wtime=0.5)
        _run(repository, one, [experiment(2, {"n": 2})], time=1)
        one_, two = repository.records("s")
        assert one_.values == {"n": 1, "m": "x"}
        assert one_.outcome is not None
        assert one_.outcome.metrics == {"wtime": 0.5}
        assert two.values in ({"n": 2}, {"n": 2, "m": None})
        assert two.outcome is not None
        assert two.outcome.metrics == {"time": 1}

    @pytest.mark.parametrize("count", [300, 1700])
    def test_many_parameters_and_metrics_work(self, repository: Repository, count: int) -> None:
        values: dict[str, Value] = {f"p{i}": (i, i / 7, f"t{i}")[i % 3] for i in range(count)}
        metrics: dict[str, Measure] = {f"m{i}": (i / 3, i, f"t{i}")[i % 3] for i in range(count)}
        fields = tuple(map(Field, values)), tuple(map(Field, metrics))
        repository.open("s", Definition(*fields))
        one = repository.lease("s", Driver.here()).number
        _run(repository, one, [experiment(1, values)], metrics=metrics)
        (record,) = repository.records("s")
        assert record.values == values
        assert record.outcome is not None
        assert record.outcome.metrics == metrics

    def test_counts_name_every_state(self, repository: Repository) -> None:
        (one,) = _driven(repository)
        repository.add("s", FIVE)
        repository.claim("s", one, ALL[:4])
        repository.record("s", one, [outcome(A), outcome(B, "failed"), outcome(C, "cancelled")])
        assert repository.counts("s") == {
            "waiting": 1, "running": 1, "ok": 1, "failed": 1, "timeout": 0, "cancelled": 1,
        }  # fmt: skip

    def test_records_come_by_index_then_repeat(self, repository: Repository) -> None:
        repository.open("s", DEFINITION)
        indices = [10**200, 3, -1, 2**63, 2**63 - 1, 10**30, 0, 3 * 10**30, 2**64]
        given = [experiment(i, {}, repeat=r) for i in indices for r in (2, 1)]
        given += [experiment(-1, {}, repeat=1, salt=str(i)) for i in range(3)]
        repository.add("s", given)
        records = list(repository.records("s"))
        assert [(r.index, r.repeat) for r in records] == sorted((e.index, e.repeat) for e in given)
        for at in (0, 5, len(given) - 2, len(given) - 1):
            assert list(repository.records("s", after=records[at].key)) == records[at + 1 :]

    def test_records_may_be_asked_for_by_state(self, repository: Repository) -> None:
        (one,) = _driven(repository)
        repository.add("s", FIVE)
        _run(repository, one, [B, D])
        assert [r.digest for r in repository.records("s", states=["ok"])] == [B.digest, D.digest]
        waiting = repository.records("s", states=("waiting", "running"))
        assert [r.outcome for r in waiting] == [None] * 3

    def test_results_may_be_entered_with_their_experiments(self, repository: Repository) -> None:
        (one,) = _driven(repository)
        pairs = [(e, outcome(e, time=e.index)) for e in FIVE]
        assert repository.enter("s", one, pairs) == set(ALL)
        assert repository.enter("s", one, pairs) == set(ALL)
        assert repository.counts("s")["ok"] == 5
        assert [r.outcome for r in repository.records("s")] == [o for _, o in pairs]
        assert len(repository.attempts(A.digest)) == 1

    def test_entering_what_another_has_yields_to_it(self, repository: Repository) -> None:
        one, two = _driven(repository, 2)
        repository.add("s", [B])
        repository.claim("s", one, [B.digest])
        repository.enter("s", one, [(A, outcome(A, time=1))])
        pairs = [(e, outcome(e, time=2)) for e in (A, B, C)]
        assert repository.enter("s", two, pairs) == {C.digest}
        assert repository.find([A.digest])[A.digest].metrics == {"time": 1}
        assert [a.state for a in repository.attempts(A.digest)] == ["ok", "superseded"]
        assert [a.state for a in repository.attempts(B.digest)] == ["running", "superseded"]

    def test_entering_what_failed_before_is_its_next_attempt(self, repository: Repository) -> None:
        (one,) = _driven(repository)
        _run(repository, one, [A], "failed")
        repository.reopen("s", [A.digest])
        for _ in range(2):
            assert repository.enter("s", one, [(A, outcome(A))]) == {A.digest}
        assert [a.state for a in repository.attempts(A.digest)] == ["failed", "ok"]
        assert repository.find([A.digest])[A.digest].attempt == 2

    def test_what_failed_may_be_opened_again(self, repository: Repository) -> None:
        (one,) = _driven(repository)
        _run(repository, one, [A])
        _run(repository, one, [B], "failed", time=1.0, far=2**70)
        assert repository.reopen("s", [A.digest, B.digest]) == 1
        assert repository.reopen("s", [A.digest, B.digest]) == 0
        assert repository.counts("s")["waiting"] == 1
        assert repository.claim("s", one, ALL[:2]) == {B.digest: 2}
        repository.record("s", one, [outcome(B, attempt=2, size=1)])
        assert [a.state for a in repository.attempts(B.digest)] == ["failed", "ok"]
        assert repository.find([B.digest])[B.digest].metrics == {"size": 1}

    def test_metrics_may_be_measured_anew(self, repository: Repository) -> None:
        (one,) = _driven(repository)
        repository.add("s", [C])
        _run(repository, one, [A], "failed", time=1.0, old="x", older=2**64)
        _run(repository, one, [B])
        anew = replace(outcome(A, time=math.inf, new=2), started=0.0, host="elsewhere")
        assert repository.remeasure("s", [anew, outcome(C)]) == 1
        found = repository.find([A.digest])[A.digest]
        assert found == replace(outcome(A, time=math.inf, new=2), exit=3)
        assert repository.counts("s") | {"ok": 2, "failed": 0, "waiting": 1} == repository.counts(
            "s"
        )
        assert [a.state for a in repository.attempts(A.digest)] == ["ok"]


class _Files:
    def test_logs_are_kept_to_the_byte(self, repository: Repository) -> None:
        (one,) = _driven(repository)
        every = Log(bytes(range(256)) * 4, b"\xff\x00\xfe" * 100, 10**10)
        heard = replace(outcome(A), stdout=every, stderr=Log(b"\0", b"", 1))
        _run_as(repository, one, [A], [heard])
        _run(repository, one, [B])
        assert repository.logs(A.digest) == Logs(every, Log(b"\0", b"", 1))
        assert repository.logs(A.digest, 1) == repository.logs(A.digest)
        assert repository.logs(B.digest) == Logs()
        assert repository.logs(A.digest, 2) == Logs()

    def test_each_attempt_has_its_logs(self, repository: Repository) -> None:
        (one,) = _driven(repository)
        repository.add("s", [A])
        for number in (1, 2):
            repository.claim("s", one, [A.digest])
            said = Log(b"%d" % number, b"", 1)
            failed = replace(outcome(A, "failed", attempt=number), stderr=said)
            repository.record("s", one, [failed], final=number == 2)
        assert repository.logs(A.digest).stderr.head == b"2"
        assert repository.logs(A.digest, 1).stderr.head == b"1"

    def test_artifacts_are_kept(self, repository: Repository) -> None:
        (one,) = _driven(repository)
        files = tuple(
            Artifact(f"out/{i}.dat", 2**40 + i, f"{i:064x}", Path(f"/kept/Größe {i}"))
            for i in range(3)
        )
        _run_as(repository, one, [A], [replace(outcome(A), artifacts=files)])
        assert repository.artifacts(A.digest) == files
        assert repository.artifacts(A.digest, 1) == files
        assert repository.artifacts(A.digest, 7) == ()


class _Sharing:
    def test_what_one_study_has_run_another_recalls(self, repository: Repository) -> None:
        (one,) = _driven(repository)
        _run(repository, one, [A], time=2.5)
        repository.open("t", DEFINITION)
        assert repository.add("t", [A, B]) == {A.digest}
        assert repository.counts("t")["ok"] == 1
        record, waiting = repository.records("t")
        assert record.outcome == outcome(A, time=2.5)
        assert waiting.outcome is None
        assert repository.find([A.digest], "t") == {A.digest: outcome(A, time=2.5)}

    def test_what_two_studies_wait_for_comes_to_both(self, repository: Repository) -> None:
        (one,) = _driven(repository)
        for name in ("t", "u"):
            repository.open(name, DEFINITION)
            repository.add(name, FIVE)
        repository.add("s", FIVE)
        _run(repository, one, [A], time=2)
        for name in ("s", "t", "u"):
            assert repository.counts(name)["ok"] == 1
            assert next(repository.records(name)).outcome == outcome(A, time=2)

    def test_metrics_measured_in_another_way_are_missing_and_say_so(
        self, repository: Repository
    ) -> None:
        (one,) = _driven(repository)
        _run(repository, one, [A], time=1.0, wtime=3.0)
        ours = (Field("time", how="stderr"), Field("size", how="stdout"))
        repository.open("t", Definition(metrics=ours))
        repository.add("t", [A])
        metrics = repository.find([A.digest], "t")[A.digest].metrics
        assert metrics["wtime"] == 3.0
        assert metrics["time"] == Missing(
            "the experiment was run by study 's', which measures it in another way"
        )
        assert metrics["size"] == Missing(
            "the experiment was run by study 's', which did not measure it"
        )
        assert repository.find([A.digest])[A.digest].metrics["time"] == 1.0

    def test_measuring_a_shared_experiment_anew_leaves_its_status(
        self, repository: Repository
    ) -> None:
        (one,) = _driven(repository)
        _run(repository, one, [A], time=1.0)
        repository.open("t", DEFINITION)
        repository.add("t", [A])
        assert repository.remeasure("t", [outcome(A, "failed", time=Missing("gone"))]) == 1
        assert repository.find([A.digest])[A.digest] == outcome(A, time=1.0)
        found = repository.find([A.digest], "t")[A.digest]
        assert (found.status, found.metrics) == ("ok", {"time": Missing("gone")})

    def test_a_study_that_goes_leaves_what_others_have(self, repository: Repository) -> None:
        (one,) = _driven(repository)
        kept = Artifact("a", 1, "0" * 64, Path("/kept/a"))
        heard = replace(outcome(B), artifacts=(kept,), stdout=Log(b"abc", b"de", 9))
        _run(repository, one, [A], time=1.0)
        _run_as(repository, one, [B], [heard])
        repository.open("t", DEFINITION)
        repository.add("t", [A, C])
        repository.leave(repository.drivers("s")[0])
        burden = repository.burden("s")
        assert (burden.experiments, burden.shared, burden.attempts) == (1, 1, 1)
        assert (burden.log_bytes, burden.artifacts) == (5, ("/kept/a",))
        assert repository.delete("s") == burden
        assert [s.name for s in repository.studies()] == ["t"]
        assert repository.find([A.digest, B.digest]) == {A.digest: outcome(A, time=1.0)}
        assert repository.counts("t") | {"ok": 1, "waiting": 1} == repository.counts("t")
        with pytest.raises(NotFoundError):
            repository.logs(B.digest)
        repository.open("s", DEFINITION)
        assert repository.add("s", [A, B]) == {A.digest}

    def test_a_study_with_a_driver_cannot_go(self, repository: Repository) -> None:
        _driven(repository)
        with pytest.raises(ConflictError, match="cannot be removed: process"):
            repository.delete("s")
        assert repository.study("s").name == "s"


class RepositoryContract(_Studies, _Leases, _Claims, _Outcomes, _Files, _Sharing):
    """Everything that a repository promises."""


def _driven(repository: Repository, drivers: int = 1) -> list[int]:
    """A study ``s`` and the lease numbers of its *drivers*."""
    repository.open("s", DEFINITION)
    return [repository.lease("s", Driver.here(), join=True).number for _ in range(drivers)]


def _run(
    repository: Repository,
    driver: int,
    experiments: list[Experiment],
    status: Status = "ok",
    metrics: Mapping[str, Measure] | None = None,
    **more: Measure,
) -> None:
    measured = {**(metrics or {}), **more}
    outcomes = [outcome(e, status, measured) for e in experiments]
    _run_as(repository, driver, experiments, outcomes)


def _run_as(
    repository: Repository, driver: int, experiments: list[Experiment], outcomes: list[Outcome]
) -> None:
    digests = [e.digest for e in experiments]
    repository.add("s", experiments)
    assert repository.claim("s", driver, digests) == dict.fromkeys(digests, 1)
    assert repository.record("s", driver, outcomes) == set(digests)


def _dead() -> Driver:
    """A driver of this host whose process has ended."""
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    driver = Driver(Driver.here().host, process.pid, born(process.pid) or "")
    process.communicate()
    return driver
