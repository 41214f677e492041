"""Contract tests of repositories: studies, their definitions, and the leases of drivers."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from zenturio.errors import ConflictError, InputError, NotFoundError
from zenturio.record.entities import DriverProcess, Field, StudyDefinition
from zenturio.record.repository import Repository
from zenturio.testing.experiments import (
    DEFINITION,
    A,
    B,
    C,
    dead_driver,
    experiment,
    outcome,
)


class Studies:
    def test_a_study_opened_twice_is_one(self, repository: Repository) -> None:
        first = repository.open("s", DEFINITION)
        assert repository.open("s", DEFINITION) == first == repository.study("s")
        assert repository.studies() == (first,)

    def test_studies_are_listed_in_the_order_of_their_creation(
        self, repository: Repository
    ) -> None:
        for name in ("b", "a", "c", "a b"):
            repository.open(name, DEFINITION)
        assert [study.name for study in repository.studies()] == ["b", "a", "c", "a b"]

    def test_an_archived_study_goes_on_under_another_name(self, repository: Repository) -> None:
        old = repository.open("s", DEFINITION)
        lease = repository.acquire_lease("s", DriverProcess.current())
        repository.add_results("s", lease.number, [(A, outcome(A))])
        repository.release_lease(lease)
        archived = repository.archive(old)
        assert archived is not None
        assert archived.name == "s@1"
        assert repository.archive(old) is None
        new = repository.open("s", DEFINITION)
        assert len({old.view, new.view, archived.view}) == 2
        assert repository.cached("s", [A]) == {A.digest}
        assert [r.digest for r in repository.records("s@1")] == [A.digest]
        assert repository.count_states("s@1")["ok"] == repository.count_states("s")["ok"] == 1
        assert repository.find_outcomes([A.digest], "s@1") == repository.find_outcomes([A.digest])
        second_archived = repository.archive(new)
        assert second_archived is not None
        assert second_archived.name == "s@2"
        with pytest.raises(NotFoundError):
            repository.study("s")
        assert {study.name for study in repository.studies()} == {"s@1", "s@2"}

    def test_the_number_of_a_pruned_version_is_not_reused(self, repository: Repository) -> None:
        for number in (1, 2, 3):
            study = repository.open("s", DEFINITION)
            assert study.version == number
            repository.archive(study)
        repository.delete("s@3")
        assert repository.open("s", DEFINITION).version == 4
        repository.delete("s")
        repository.delete("s@1")
        with pytest.raises(NotFoundError):
            repository.study("s@4")
        assert repository.open("s", DEFINITION).version == 5

    def test_versions_are_counted_on_after_all_are_pruned(self, repository: Repository) -> None:
        view = repository.open("s", DEFINITION).view
        repository.delete("s")
        assert repository.studies() == ()
        with pytest.raises(NotFoundError):
            repository.study("s")
        reopened = repository.open("s", StudyDefinition((Field("other"),)))
        assert (reopened.version, reopened.view) == (2, view)
        driver = repository.acquire_lease("s", DriverProcess.current()).number
        submitted = experiment(1, {"other": 1})
        repository.add_results("s", driver, [(submitted, outcome(submitted))])
        assert [record.values for record in repository.records("s")] == [{"other": 1}]

    def test_a_study_with_a_driver_is_not_archived(self, repository: Repository) -> None:
        study = repository.open("s", DEFINITION)
        lease = repository.acquire_lease("s", DriverProcess.current())
        with pytest.raises(ConflictError):
            repository.archive(study)
        repository.release_lease(lease)
        assert repository.archive(study) is not None

    def test_a_lost_driver_does_not_keep_a_study_from_being_archived(
        self, repository: Repository
    ) -> None:
        study = repository.open("s", DEFINITION)
        lost = repository.acquire_lease("s", dead_driver())
        repository.claim("s", lost.number, [A])
        assert repository.archive(study) is not None
        with pytest.raises((ConflictError, NotFoundError)):
            repository.renew_lease(lost)
        heir = repository.acquire_lease("s@1", DriverProcess.current())
        assert repository.claim("s@1", heir.number, [A]) == {A.digest: 2}

    def test_a_definition_survives_a_round_trip(self, repository: Repository) -> None:
        definition = StudyDefinition(
            parameters=(Field("Größe", "real", "m", "assign"), Field("select", "str")),
            metrics=(Field("time", None, "s", how='stdout REGEX "t=(\\S+)"'),),
            goals=({"direction": "minimize", "expression": "time"},),
            provenance={"commit": "abc", "dirty": True, "threads": 4, "nested": {"a": [1, None]}},
            sources={"a.c": b"int main;\r\n", "b": bytes(range(256)), "leer/c": b""},
            notes={"emoji": "\U0001f600", "nul": "\0"},
        )
        assert repository.notes("s") == {}
        repository.open("s", definition)
        assert repository.definition("s") == definition
        assert repository.notes("s") == definition.notes

    def test_the_newest_definition_counts(self, repository: Repository) -> None:
        repository.open("s", DEFINITION)
        newer = replace(DEFINITION, metrics=(*DEFINITION.metrics, Field("size")), notes={"a": 1})
        repository.open("s", newer)
        assert repository.definition("s") == newer

    def test_a_definition_of_the_past_is_found_by_its_time(self, repository: Repository) -> None:
        repository.open("s", replace(DEFINITION, notes={"version": 1}))
        between = repository.acquire_lease("s", DriverProcess.current()).since
        time.sleep(0.02)
        repository.open("s", replace(DEFINITION, notes={"version": 2}))
        for at, version in ((0.0, 1), (between, 1), (between + 3600, 2), (None, 2)):
            assert repository.definition("s", at).notes == {"version": version}

    def test_the_error_for_an_unknown_study_suggests_a_similar_name(
        self, repository: Repository
    ) -> None:
        repository.open("matmul", DEFINITION)
        with pytest.raises(NotFoundError, match="did you mean 'matmul'"):
            repository.study("matmull")
        with pytest.raises(NotFoundError, match="did you mean 'matmul'"):
            repository.count_states("matmull")

    def test_a_name_used_for_two_fields_is_refused(self, repository: Repository) -> None:
        with pytest.raises(InputError, match="'n' names two parameters or metrics"):
            repository.open("s", StudyDefinition((Field("n"),), (Field("n"),)))
        assert repository.studies() == ()

    @pytest.mark.parametrize("name", ["", "a\0b", "\udcff"])
    def test_a_name_that_a_database_cannot_store_is_refused(
        self, repository: Repository, name: str
    ) -> None:
        with pytest.raises(InputError, match="cannot be a name"):
            repository.open(name, DEFINITION)
        with pytest.raises(InputError, match="cannot be a name"):
            repository.open("s", StudyDefinition((Field(name),)))

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
            repository.open(study, StudyDefinition(tuple(Field(name, "int") for name in names)))
            driver = repository.acquire_lease(study, DriverProcess.current()).number
            named = experiment(1, values, salt=study)
            repository.add_results(study, driver, [(named, outcome(named))])
            (record,) = repository.records(study)
            assert record.values == values
        views = [v.casefold() for s in repository.studies() for v in (s.view, s.view_all)]
        assert len(set(views)) == len(views)
        assert all(len(view.encode()) <= 63 for view in views)

    def test_events_are_ordered_by_time(self, repository: Repository) -> None:
        repository.open("s", DEFINITION)
        repository.open("t", DEFINITION)
        repository.add_event("s", "hello", "first", A.digest)
        repository.add_event("s", "hello", "Größe\n")
        repository.add_event("t", "hello", "elsewhere")
        assert [e.text for e in repository.events("s")] == ["first", "Größe\n"]
        assert [e.text for e in repository.events("s", A.digest)] == ["first"]
        assert repository.events("s")[0].at <= repository.events("s")[1].at


class Leases:
    def test_a_second_driver_is_refused_and_the_first_is_named(
        self, repository: Repository
    ) -> None:
        repository.open("s", DEFINITION)
        repository.acquire_lease("s", DriverProcess("elsewhere", 4711, "x"))
        with pytest.raises(
            ConflictError, match=r"process 4711 on elsewhere since \d{4}-"
        ) as raised:
            repository.acquire_lease("s", DriverProcess.current())
        assert "--join" in str(raised.value)

    def test_a_driver_may_join(self, repository: Repository) -> None:
        repository.open("s", DEFINITION)
        first = repository.acquire_lease("s", DriverProcess.current())
        second = repository.acquire_lease("s", DriverProcess.current(), join=True)
        assert repository.leases("s") == (first, second)
        assert first.number != second.number

    def test_two_studies_have_a_driver_each(self, repository: Repository) -> None:
        for name in ("s", "t"):
            repository.open(name, DEFINITION)
            repository.acquire_lease(name, DriverProcess.current())
        assert len(repository.leases("s")) == len(repository.leases("t")) == 1

    def test_a_driver_that_leases_twice_gets_the_same_lease(self, repository: Repository) -> None:
        repository.open("s", DEFINITION)
        driver = DriverProcess.current()
        first = repository.acquire_lease("s", driver)
        assert repository.acquire_lease("s", driver).number == first.number

    def test_a_driver_of_this_host_whose_process_is_gone_is_superseded_at_once(
        self, repository: Repository
    ) -> None:
        repository.open("s", DEFINITION)
        dead = repository.acquire_lease("s", dead_driver())
        heir = repository.acquire_lease("s", DriverProcess.current())
        assert repository.leases("s") == (heir,)
        with pytest.raises(ConflictError, match="another driver took the study over"):
            repository.renew_lease(dead)

    def test_a_driver_elsewhere_is_superseded_when_its_lease_runs_out(
        self, repository: Repository
    ) -> None:
        repository.open("s", DEFINITION)
        late = repository.acquire_lease("s", DriverProcess("elsewhere", 1, "x"), seconds=0)
        heir = repository.acquire_lease("s", DriverProcess.current())
        assert repository.leases("s") == (heir,)
        with pytest.raises(ConflictError):
            repository.renew_lease(late)

    def test_an_expired_lease_may_be_renewed_until_another_driver_takes_over(
        self, repository: Repository
    ) -> None:
        repository.open("s", DEFINITION)
        lease = repository.acquire_lease("s", DriverProcess.current(), seconds=0)
        assert repository.renew_lease(lease).number == lease.number

    def test_a_beat_extends_the_lease(self, repository: Repository) -> None:
        repository.open("s", DEFINITION)
        lease = repository.acquire_lease("s", DriverProcess.current(), seconds=30)
        assert lease.until == pytest.approx(lease.since + 30, abs=1)
        time.sleep(0.02)  # by the clock of the database
        renewed = repository.renew_lease(lease)
        assert renewed.until > lease.until
        (stored,) = repository.leases("s")
        assert stored.until == renewed.until

    def test_of_three_studies_one_lease_is_renewed_and_released(
        self, repository: Repository
    ) -> None:
        names, leases = ("s", "t", "u"), []
        for name, each in zip(names, (A, B, C), strict=True):
            repository.open(name, DEFINITION)
            lease = repository.acquire_lease(name, DriverProcess.current(), seconds=30)
            assert repository.claim(name, lease.number, [each]) == {each.digest: 1}
            leases.append(lease)
        first, middle, last = leases
        time.sleep(0.02)  # by the clock of the database
        renewed = repository.renew_lease(middle)
        assert renewed == replace(middle, until=renewed.until)
        assert 0 < renewed.until - middle.until < 10
        assert [repository.leases(name) for name in names] == [(first,), (renewed,), (last,)]
        (running,) = repository.attempts(B.digest)
        repository.release_lease(middle)
        assert [repository.leases(name) for name in names] == [(first,), (), (last,)]
        assert [repository.count_states(name)["running"] for name in names] == [1, 0, 1]
        (stale,) = repository.attempts(B.digest)
        assert stale.ended is not None
        assert stale.ended >= running.started
        assert stale == replace(running, state="stale", cause="left", ended=stale.ended)
        assert [repository.attempts(of.digest)[0].state for of in (A, C)] == ["running"] * 2
        recorded = [(event.kind, event.text) for event in repository.events("t")]
        assert recorded == [
            ("driver", f"lease {middle.number}: process {middle.pid} on {middle.host}"),
            ("driver", f"lease {middle.number}: released by its driver"),
            ("stale", "attempt 1: driver left"),
        ]

    def test_a_lease_is_good_for_its_own_study(self, repository: Repository) -> None:
        for name in ("s", "t"):
            repository.open(name, DEFINITION)
        lease = repository.acquire_lease("s", DriverProcess.current())
        for wrong in (replace(lease, study="t"), replace(lease, number=lease.number + 1)):
            with pytest.raises(ConflictError):
                repository.renew_lease(wrong)
            with pytest.raises(ConflictError):
                repository.claim(wrong.study, wrong.number, [A])
        for number in (lease.number, lease.number + 1):
            with pytest.raises(NotFoundError):
                repository.renew_lease(replace(lease, study="x", number=number))
        assert repository.claim("s", lease.number, [A]) == {A.digest: 1}

    def test_a_driver_may_follow_one_that_left(self, repository: Repository) -> None:
        repository.open("s", DEFINITION)
        repository.release_lease(repository.acquire_lease("s", DriverProcess("elsewhere", 1, "x")))
        assert repository.leases("s") == ()
        repository.acquire_lease("s", DriverProcess.current())

    def test_leaving_twice_changes_nothing(self, repository: Repository) -> None:
        repository.open("s", DEFINITION)
        lease = repository.acquire_lease("s", DriverProcess.current())
        repository.release_lease(lease)
        repository.release_lease(lease)
        assert repository.leases("s") == ()

    def test_claims_of_a_lost_driver_are_stale_and_may_be_claimed_again(
        self, repository: Repository
    ) -> None:
        repository.open("s", DEFINITION)
        dead = repository.acquire_lease("s", dead_driver())
        assert repository.claim("s", dead.number, [A]) == {A.digest: 1}
        heir = repository.acquire_lease("s", DriverProcess.current())
        assert repository.count_states("s")["running"] == 0
        assert [a.state for a in repository.attempts(A.digest)] == ["stale"]
        assert repository.claim("s", heir.number, [A]) == {A.digest: 2}
        assert [a.state for a in repository.attempts(A.digest)] == ["stale", "running"]
        assert [e.kind for e in repository.events("s", A.digest)] == ["stale"]
