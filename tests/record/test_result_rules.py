"""Which outcomes count, which of their metrics are shared, and which rows an answer has."""

import math
from dataclasses import replace

import pytest

from zenturio.errors import InputError
from zenturio.experiment.experiment import MachineKind, Missing, Series
from zenturio.record import entities, record_queries
from zenturio.record.entities import (
    NOT_KEPT,
    ColumnRequest,
    DriverProcess,
    Field,
    RowChoice,
    RowFilter,
    StudyDefinition,
    is_of,
    label_of,
    limit_metrics,
    machine_counts,
    machine_named,
    match_remeasured,
    read_round,
    replaces_attempt,
    result_rank,
    round_notes,
    shared_metrics,
)
from zenturio.record.open import open_repository
from zenturio.record.secret_masking import SHORTEST, Secret
from zenturio.testing.experiments import experiment, outcome

EPYC, RISCV = MachineKind("EPYC", 16), MachineKind("RISC-V", 4)


def test_a_late_outcome_replaces_a_stale_attempt_alone():
    replaced = {
        past: replaces_attempt(past) for past in (None, "stale", "ok", "failed", "superseded")
    }
    assert replaced == {
        None: True,
        "stale": True,
        "ok": False,
        "failed": False,
        "superseded": False,
    }


def test_others_get_the_oldest_result_that_is_ok_or_else_the_last_attempt():
    results = [("failed", 1, 7), ("ok", 2, 9), ("ok", 5, 8), ("failed", 4, 6), ("timeout", 9, 5)]
    assert min(results, key=lambda r: result_rank(*r)) == ("ok", 5, 8)
    failed = [result for result in results if result[0] != "ok"]
    assert min(failed, key=lambda r: result_rank(*r)) == ("timeout", 9, 5)
    assert result_rank("failed", 2, 1) < result_rank("failed", 2, 2)


def test_a_result_counts_for_the_kinds_of_machine_that_are_wanted():
    assert machine_counts(EPYC, None)
    assert machine_counts(None, {EPYC})
    assert machine_counts(EPYC, {EPYC, RISCV})
    assert not machine_counts(EPYC, {RISCV})
    assert is_of(EPYC, {EPYC})
    assert not is_of(None, {EPYC})
    assert not is_of(EPYC, None)
    assert not is_of(EPYC, {RISCV})


def test_what_is_measured_again_replaces_the_one_result_or_that_of_its_attempt():
    one, two = experiment(0), experiment(1)
    recorded = [outcome(one, attempt=1), outcome(two, attempt=1), outcome(two, attempt=2)]
    again = [outcome(one, attempt=9), outcome(two, attempt=2), outcome(experiment(5))]
    assert match_remeasured(again, recorded) == {0: again[0], 2: again[1]}
    assert match_remeasured([], recorded) == {}


def test_of_too_many_metrics_the_first_ones_are_kept_and_the_others_counted(monkeypatch):
    monkeypatch.setattr(entities, "MOST_METRICS", 4)
    fitting = outcome(experiment(0), metrics=dict.fromkeys("abcd", 1))
    assert limit_metrics(fitting) is fitting
    limited = limit_metrics(replace(fitting, metrics=dict.fromkeys("abcdef", 1))).metrics
    assert list(limited) == [NOT_KEPT, "a", "b", "c"]
    assert limited[NOT_KEPT] == Missing("3 metrics were not kept: the limit is 4 in a run")


def test_a_series_that_is_too_long_is_missing_and_says_so(monkeypatch):
    monkeypatch.setattr(entities, "MOST_VALUES", 3)
    fitting = {"a": Series((1, math.nan, -1)), "b": 2.5, "text": "long enough"}
    kept = outcome(experiment(0), metrics=fitting)
    assert limit_metrics(kept) is kept
    limited = limit_metrics(replace(kept, metrics={**fitting, "a": Series((1, 2, 3, 4))}))
    why = "its 4 values were not kept: the limit is 3"
    assert limited.metrics == {**fitting, "a": Missing(why)}
    assert limited.status == kept.status


def test_metrics_are_shared_that_both_studies_measure_alike():
    theirs = {"a": "stdout x", "b": "stdout y"}
    ours = {"a": "stdout x", "b": "stderr y", "c": "file", "free": ""}
    shared = shared_metrics({"a": 1, "b": 2, "free": 3}, "other", theirs, ours)
    begin = "the experiment was run by study 'other', which "
    assert shared == {
        "a": 1,
        "free": 3,
        "b": Missing(f"{begin}measures it in another way"),
        "c": Missing(f"{begin}did not measure it"),
    }


# Filters


def test_a_round_is_named_by_its_number_or_a_word():
    words = {text: read_round(text) for text in ("", " Newest ", "ALL", "7", "1")}
    assert words == {"": "newest", " Newest ": "newest", "ALL": "all", "7": 7, "1": 1}
    for text in ("0", "-1", "1.5", "x"):
        with pytest.raises(InputError, match=f"--round {text}"):
            read_round(text)


def test_conditions_of_rows_are_those_of_the_choice():
    assert RowFilter().conditions == " AND e.newest = 1"
    assert RowFilter(3).conditions == " AND e.machine = 3 AND e.newest = 1"
    assert RowFilter(None, "all").conditions == ""
    assert RowFilter(3, "all").conditions == " AND e.machine = 3"
    assert RowFilter(3, 7).conditions == " AND e.machine = 3 AND e.round = 7"


def test_a_kind_of_machine_is_named_by_a_part_that_no_other_has():
    labels = {"EPYC, 16 cores", "EPYC, 32 cores", "RISC-V"}
    assert machine_named("risc", labels) == "RISC-V"
    assert machine_named("EPYC, 16 cores", labels) == "EPYC, 16 cores"
    assert machine_named("EPYC", {"EPYC", "EPYC 2"}) == "EPYC"
    with pytest.raises(
        InputError, match="--machine epyc: several kinds of machine match"
    ) as caught:
        machine_named("epyc", labels)
    assert caught.value.diagnostics[0].hint == "one of: EPYC, 16 cores; EPYC, 32 cores"
    with pytest.raises(InputError, match="no kind of machine with results matches") as caught:
        machine_named("Xeon", labels)
    assert caught.value.diagnostics[0].hint == "there are: EPYC, 16 cores; EPYC, 32 cores; RISC-V"
    with pytest.raises(InputError) as caught:
        machine_named("Xeon", ())
    assert caught.value.diagnostics[0].hint == "there are: none"
    five = [f"Xeon {n}" for n in range(5)]
    for names, hint in ((five, "there are: "), ([*five, "Xeon 5"], "did you mean ")):
        with pytest.raises(InputError) as caught:
            machine_named("Xeno 1", names)
        assert caught.value.diagnostics[0].hint.startswith(hint)


def test_several_rounds_in_one_answer_are_told():
    assert round_notes({}) == round_notes({1: 5}) == ()
    assert round_notes({2: 1, 1: 5000}) == (
        "results of 2 rounds: 1 (5,000); 2 (1); --round picks one",
    )


# Pages of columns


EXPERIMENTS = [experiment(index, {"n": index}) for index in range(50)]


def measured(index, number, attempt=1):
    status = "failed" if index % 5 == 0 else "ok"
    metrics = {"m": index / 2 + number} | ({"k": "x"} if index % 2 else {})
    result = outcome(EXPERIMENTS[index], status, metrics, attempt=attempt)
    return replace(result, machine=EPYC if number == 1 else RISCV if index % 2 else None)


@pytest.fixture
def repository(tmp_path):
    """Results of two rounds and several states: more than fit into a page."""
    repository = open_repository(tmp_path / "a.db")
    definition = StudyDefinition((Field("n", "int"),), (Field("m", "real"), Field("k", "str")))
    repository.open("s", definition)
    lease = repository.acquire_lease("s", DriverProcess.current())
    repository.add_results("s", lease.number, [(e, measured(e.index, 1)) for e in EXPERIMENTS])
    number = repository.begin_round("s")
    claims = repository.claim("s", lease.number, EXPERIMENTS[10:40], round_=number)
    results = [measured(e.index, 2, claims[e.digest]) for e in EXPERIMENTS[10:40]]
    repository.record("s", lease.number, results)
    yield repository
    repository.close()


@pytest.mark.parametrize("round_", ["newest", "all", 1, 2])
@pytest.mark.parametrize("states", [("ok",), ("failed", "ok")])
def test_pages_of_columns_hold_the_rows_of_the_records(repository, monkeypatch, round_, states):
    monkeypatch.setattr(record_queries, "_PAGE", 5)  # a page has twenty rows at the least
    without = {EXPERIMENTS[index].digest for index in (3, 12, 44)}
    request = ColumnRequest(("n",), ("k", "m"), states, round_, without)
    rows = []
    sizes = []
    for page in repository.column_pages("s", request):
        kinds = [page.kinds.get(number) for number in page.machines]
        columns = page.parameters["n"], page.metrics["m"], page.metrics["k"]
        rows += zip(page.states, page.rounds, kinds, *columns, strict=True)
        sizes.append(len(page.states))
    expected = [
        (r.state, r.round, r.outcome.machine, r.values["n"], m["m"], m.get("k"))
        for r in repository.records("s", states=states)
        if RowChoice("", round_).holds(r) and r.digest not in without
        for m in [r.outcome.metrics]
    ]
    assert rows == expected
    assert max(sizes) <= 20 < len(rows)
    assert {label_of(record) for record in repository.records("s")} == {
        EPYC.label, RISCV.label, "an unknown kind",
    }  # fmt: skip


def test_fields_that_a_study_does_not_have_are_no_columns(repository):
    request = ColumnRequest(("n", "m"), ("n", "none"), ("ok",))
    pages = list(repository.column_pages("s", request))
    assert [sorted(page.parameters) for page in pages] == [["n"]]
    assert [sorted(page.metrics) for page in pages] == [[]]
    assert list(repository.column_pages("s", replace(request, round=9))) == []


# Secrets


def test_the_cut_of_a_log_may_go_through_a_secret():
    secret = Secret("abcdefgh")
    mask = b"********"
    assert secret.log(b"x abcdefgh y", b"", 12) == (b"x ******** y", b"", 12)
    assert secret.log(b"x abcd", b"efgh y", 12) == (b"x ******** y", b"", 12)
    assert secret.log(b"x abcd", b"efgh y", 99) == (b"x " + mask, mask + b" y", 107)
    assert secret.log(b"x abc", b"fgh y", 99) == (b"x abc", b"fgh y", 99)
    assert secret.log(b"x abcdefgh", b"y", 99) == (b"x " + mask, b"y", 99)


def test_a_secret_that_reads_as_a_number_is_one():
    numbers = {text: Secret(text).numbers for text in ("1234567", "1.25e10", "1e99999", "secret")}
    assert numbers == {"1234567": (1234567,), "1.25e10": (1.25e10,), "1e99999": (), "secret": ()}
    assert all(map(math.isfinite, numbers["1.25e10"]))


def test_a_secret_is_as_long_as_words_of_others_are_not():
    assert SHORTEST == 6
    with pytest.raises(InputError, match="a secret of 5 characters"):
        Secret("abcde")
    assert Secret("abcdef").text("an abcdef here") == "an ******** here"
    for text in ("****** *", "abc\0defg"):
        with pytest.raises(InputError, match="this is not a secret"):
            Secret(text)
