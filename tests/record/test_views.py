"""The views of a study: names as they were given, values that SQL can use."""

import contextlib
import math
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from zenturio.errors import InputError, NotFoundError
from zenturio.experiment.experiment import HostConditions, HostDetails, MachineKind, Missing, Series
from zenturio.record import (
    DriverProcess,
    Field,
    StudyDefinition,
    maintenance,
    sql_names,
    studies,
    study_views,
)
from zenturio.record.open import open_repository
from zenturio.testing.experiments import ODD_MEASURES, experiment, outcome


@pytest.fixture
def repository(url):
    repository = open_repository(url)
    yield repository
    repository.close()


def _entered(repository, study, values, metrics, status="ok", index=1):
    driver = DriverProcess("here", 1, "x")
    repository.open(study, StudyDefinition(tuple(map(Field, values)), tuple(map(Field, metrics))))
    lease = repository.acquire_lease(study, driver, join=True)
    given = experiment(index, values, salt=study)
    repository.add_results(study, lease.number, [(given, outcome(given, status, metrics))])
    return given


def _asked(repository, sql):
    """What somebody's own query answers."""
    with repository.engine.connect() as connection:
        found = connection.exec_driver_sql(repository.expand_views(sql).replace("%", "%%"))
        return [dict(row._mapping) for row in found]


def _archived(repository):
    for lease in repository.leases("s"):
        repository.release_lease(lease)
    assert repository.archive(repository.study("s")) is not None


def _plain(rows):
    """Rows of the smaller view without what every study has."""
    return [{k: v for k, v in row.items() if k not in LEADING} for row in rows]


LEADING = ("machine", "round", "repeat")


def test_a_view_has_a_column_for_each_parameter_and_metric(repository):
    _entered(repository, "matmul", {"n": 128, "flag": "-O3"}, {"gflops": 2.5, "size": 7})
    assert _asked(repository, "SELECT * FROM study_matmul") == [
        {"machine": None, "round": 1, "repeat": 1, "n": 128, "flag": "-O3", "gflops": 2.5,
         "size": 7}
    ]  # fmt: skip


def test_the_whole_view_tells_how_it_went(repository):
    given = _entered(repository, "s", {"n": 1}, {"t": 1.5})
    lost = _entered(repository, "s", {"n": 2}, {}, "failed", 2)
    far = _entered(repository, "s", {"n": 3}, {}, "timeout", 10**30)
    assert [row["n"] for row in _asked(repository, "SELECT * FROM study_s")] == [1]
    first, second, third = _asked(repository, "SELECT * FROM study_s_all ORDER BY n")
    assert first == {
        "digest": given.digest, "index": 1, "repeat": 1, "round": 1, "machine": None,
        "status": "ok", "cause": None, "host": "karwendel", "attempt": 1, "started": 1e9,
        "ended": 1e9 + 2.5, "exit": 0, "remarks": None, "host_cpu": None, "host_cores": None,
        "host_memory": None, "host_kernel": None, "host_load": None, "run_order": None, "run_block": None,
        "run_turn": None, **dict.fromkeys(
            f"host_{name}" for name in (
                "runnable", "delay", "others", "pressure", "steal", "mhz", "governor", "slots",
                "cpus", "pinned", "slots_start", "slots_end", "load_end", "mhz_end", "celsius",
                "celsius_end", "throttled", "memory_pressure", "gpu_mhz", "gpu_mhz_end",
                "unmeasured",
            )
        ), "n": 1, "t": 1.5,
    }  # fmt: skip
    assert (second["digest"], second["status"], second["cause"], second["exit"]) == (
        lost.digest, "failed", "exit 3", 3,
    )  # fmt: skip
    assert (third["digest"], third["status"], third["t"]) == (far.digest, "timeout", None)
    assert int(third["index"]) == 10**30


def test_a_view_tells_where_each_result_was_measured(repository):
    repository.open("s", StudyDefinition((Field("n"),)))
    driver = repository.acquire_lease("s", DriverProcess.current()).number
    for n in range(3):
        of, machine = (
            experiment(n, {"n": n}),
            MachineKind(f"Epyc {n}", 64 + n, ("A100",) * n, "gcc"),
        )
        told = replace(
            outcome(of), machine=machine, host=f"host{n}",
            host_details=HostDetails(f"host{n}", f"Linux {n}", 2**39 + n, f"host_mhz: no {n}"),
            conditions=HostConditions(
                load_start=0.5 + n, cpus=4, other={"numa": 1}, pinned=f"0-{n}", slots=8,
                slots_start=2 + n, slots_end=1 + n, gpu_mhz_start=300.0 + n,
                gpu_mhz_end=1980.0 + n, celsius_end=61.0 + n,
            ),
        )  # fmt: skip
        assert repository.add_results("s", driver, [(of, told)]) == {of.digest}
        (attempt,) = repository.attempts(of.digest)
        assert (
            attempt.machine == repository.find_outcomes([of.digest])[of.digest].machine == machine
        )
        assert attempt.host_details == told.host_details
        assert attempt.conditions == told.conditions
    rows = _asked(repository, "SELECT * FROM study_s_all ORDER BY n")
    for n, row in enumerate(rows):
        gpus = ("", ", A100", ", 2 x A100")[n]
        assert row["machine"] == f"Epyc {n}, {64 + n} cores{gpus} (gcc)"
        told = {
            "cpu": f"Epyc {n}", "cores": 64 + n, "memory": 2**39 + n, "kernel": f"Linux {n}",
            "load": 0.5 + n, "pinned": f"0-{n}", "slots_start": 2 + n, "slots_end": 1 + n,
            "gpu_mhz": 300.0 + n, "gpu_mhz_end": 1980.0 + n, "celsius_end": 61.0 + n,
            "unmeasured": f"host_mhz: no {n}",
        }  # fmt: skip
        assert {fact: row[f"host_{fact}"] for fact in told} == told
    assert len(rows) == 3


def test_a_host_may_begin_to_tell_more(repository):
    """A sensor or a driver was installed: the reasons of the last results count."""
    repository.open("s", StudyDefinition((Field("n"),)))
    driver = repository.acquire_lease("s", DriverProcess.current()).number
    for index, reason in enumerate(("host_gpu_mhz: no GPU", "", "host_celsius: no sensor")):
        of = experiment(index, {"n": index})
        told = replace(
            outcome(of), host_details=HostDetails("karwendel", "Linux 6.1", 2**39, reason)
        )
        repository.add_results("s", driver, [(of, told)])
        repository._cache.hosts.clear()  # as another driver knows none
    rows = _asked(repository, "SELECT host_unmeasured FROM study_s_all")
    assert {row["host_unmeasured"] for row in rows} == {"host_celsius: no sensor"}


def test_a_copy_tells_where_its_source_was_measured(repository):
    for study in ("s", "t"):
        repository.open(study, StudyDefinition((Field("n"),)))
    of = experiment(1, {"n": 1})
    told = replace(
        outcome(of),
        machine=MachineKind("Epyc 7763", 64, (), ""),
        host_details=HostDetails("karwendel", "Linux 6.1", 2**39),
        conditions=HostConditions(load_start=0.5),
    )
    repository.add_results(
        "s", repository.acquire_lease("s", DriverProcess.current()).number, [(of, told)]
    )
    assert repository.cached("t", [of]) == {of.digest}
    one, other = (_asked(repository, f"SELECT * FROM study_{s}_all")[0] for s in "st")
    assert other == one
    assert (other["host_load"], other["host_memory"], other["host_kernel"]) == (
        0.5, 2**39, "Linux 6.1",
    )  # fmt: skip


NAMES = [
    "select", "Größe", "x" * 70, "x" * 71, "n", "N", "status", "zen_status", 'a"b', "a'b", "%s",
    "%", ":name", "a.b c", "ü" * 40, "digest", "experiment", "[x]", "`", "?", "study_select",
]  # fmt: skip


def test_names_are_data(repository):
    values = {name: i for i, name in enumerate(NAMES)}
    for study in ("select", 'quo"te', "per%cent", "Größe", "x" * 80, "x" * 81):
        _entered(repository, study, values, {"it's": 2**70})
        view = repository.study(study).view.replace('"', '""')
        (row,) = _plain(_asked(repository, f'SELECT * FROM "{view}"'))
        assert list(map(int, row.values())) == [*range(len(NAMES)), 2**70]
        assert list(row)[:2] == ["select", "Größe"]
        assert (row["param_status"], row["param_digest"]) == (6, NAMES.index("digest"))
        whole_view = repository.study(study).view_all.replace('"', '""')
        (whole,) = _asked(repository, f'SELECT * FROM "{whole_view}"')
        assert whole["status"] == "ok"


def test_names_that_differ_too_little_are_told_apart_as_they_are_written(repository):
    _entered(repository, "s", {"N": 1, "n": 2, "n_2": 3, "straße": 4, "STRASSE": 5}, {})
    (row,) = _asked(repository, 'SELECT N, n, n_2, "straße", "STRASSE" FROM study_s')
    assert list(row.values()) == [1, 2, 3, 4, 5]
    (row,) = _asked(repository, "SELECT 'n', n AS x, N /* n */ FROM study_s -- n")
    assert list(row.values()) == ["n", 2, 1]
    told = [event.text for event in repository.events("s") if event.kind == "name"]
    assert told == [
        "'n' is 'n__2' in SQL: its name is taken, or differs too little",
        "'STRASSE' is 'STRASSE__2' in SQL: its name is taken, or differs too little",
    ]


def test_reported_metrics_that_are_called_as_facts_are_kept_under_another_name(repository):
    _entered(repository, "s", {"n": 1}, {})
    _entered(repository, "s", {"n": 2}, {"exit": 7, "digest": "abc", "wtime": 0.5}, index=2)
    rows = _asked(repository, "SELECT * FROM study_s_all ORDER BY n")
    assert [(r["exit"], r["metric_exit"], r["metric_digest"], r["wtime"]) for r in rows] == [
        (0, None, None, None), (0, 7, "abc", 0.5),
    ]  # fmt: skip
    assert [e.kind for e in repository.events("s")].count("name") == 2


def test_somebodys_own_tables_stand_beside_the_views(repository):
    _entered(repository, "s", {"n": 1}, {})
    both = "WITH mine (n, why) AS (VALUES (1, 'study_s')) SELECT why FROM mine JOIN study_s"
    assert _asked(repository, f"{both} ON mine.n = study_s.n") == [{"why": "study_s"}]
    assert repository.expand_views("SELECT 'study_s' -- study_s") == "SELECT 'study_s' -- study_s"
    assert _asked(repository, "select count(*) AS c from STUDY_S_ALL") == [{"c": 1}]


def test_a_version_that_was_archived_has_its_view(repository):
    _entered(repository, "s", {"n": 1}, {"old": 1.5})
    _archived(repository)
    _entered(repository, "s", {"k": 2}, {"new": 2.5}, index=2)
    assert _plain(_asked(repository, "SELECT * FROM study_s")) == [{"k": 2, "new": 2.5}]
    assert _plain(_asked(repository, 'SELECT * FROM "study_s@1"')) == [{"n": 1, "old": 1.5}]
    assert _asked(repository, 'SELECT count(*) AS c FROM "study_s@1_all"') == [{"c": 1}]
    assert _plain(_asked(repository, 'SELECT * FROM "study_s@2"')) == [{"k": 2, "new": 2.5}]


def test_a_parameter_that_was_renamed_by_its_case_alone_is_found_by_its_name(repository):
    _entered(repository, "s", {"N": 1}, {})
    _archived(repository)
    _entered(repository, "s", {"n": 2, "x" * 64: 3}, {}, index=2)
    name = "x" * 64
    (row,) = _asked(repository, f'SELECT n, "n", s.n, "{name}" FROM study_s AS s WHERE n > 1')
    assert next(iter(row.values())) == 2
    assert list(row.values())[-1] == 3
    assert _asked(repository, 'SELECT N FROM "study_s@1"')[0].popitem()[1] == 1


def test_an_edit_leaves_units_and_types_of_earlier_versions_alone(repository):
    before = StudyDefinition(
        parameters=(Field("n", type="int", unit="m"),), metrics=(Field("t", unit="s"),)
    )
    after = StudyDefinition(parameters=(Field("n", type="str"),), metrics=(Field("t", unit="ms"),))
    repository.open("s", before)
    _archived(repository)
    repository.open("s", after)

    def units(name):
        _, layout = repository.version_and_layout(name)
        return {f.field.name: (f.field.type, f.field.unit) for f in layout.own_fields}

    assert units("s@1") == {"n": ("int", "m"), "t": (None, "s")}
    assert units("s") == {"n": ("str", ""), "t": (None, "ms")}


def test_a_table_of_somebodys_own_with_may_be_called_as_one_of_ours(repository):
    _entered(repository, "s", {"n": 1}, {"t": 1.5})
    for table in ("machines", "results", "hosts"):
        asked = f"WITH {table} AS (SELECT 1 AS x) SELECT n, machine, x FROM study_s, {table}"
        assert [row["n"] for row in _asked(repository, asked)] == [1]


def test_a_metric_may_change_its_form(repository):
    for index, value in enumerate([1, 2.5, 2**70, True, "x", Series((1, 2))]):
        _entered(repository, "s", {"n": index}, {"m": value}, index=index)
        rows = _asked(repository, "SELECT m FROM study_s ORDER BY n")
        assert len(rows) == index + 1
        if index == 2:
            assert [row["m"] for row in rows] == [1, 2.5, 2**70]
    assert str(rows[4]["m"]) == "x"
    assert "[1,2]" in str(rows[5]["m"])


def test_what_is_not_a_number_is_told_apart(repository):
    odd = {"nan": math.nan, "inf": math.inf, "gone": Missing("no match in stdout"), "far": 2**70}
    _entered(repository, "s", {"n": 1}, odd)
    (row,) = _asked(repository, "SELECT * FROM study_s_all")
    assert row["inf"] == math.inf
    assert row["gone"] is None
    assert '"gone":{"missing":"no match in stdout"}' in row["remarks"]
    assert int(row["far"]) == 2**70
    if repository.engine.dialect.name == "sqlite":
        assert row["nan"] is None
        assert '"nan":{"real":"nan"}' in row["remarks"]
    else:
        assert math.isnan(row["nan"])


def test_integers_of_any_size_are_numbers(repository):
    sizes = [2**63, 5, 2.5, -(2**64), 2**70, 2**63 - 1, 3 * 2**63]
    for index, value in enumerate(sizes):
        _entered(repository, "s", {"n": index, "big": int(value)}, {"m": value}, index=index)
    for column, values in (("m", sizes), ("big", list(map(int, sizes)))):
        rows = _asked(repository, f"SELECT {column} AS v FROM study_s ORDER BY {column}, n")
        assert [float(row["v"]) for row in rows] == sorted(map(float, values))
        more = _asked(repository, f"SELECT count(*) AS c FROM study_s WHERE {column} > 1e19")
        assert more == [{"c": 2}]
        (total,) = _asked(repository, f"SELECT sum({column}) AS v FROM study_s")
        assert float(total["v"]) == pytest.approx(sum(values))


def test_a_view_survives_every_kind_of_value(repository):
    for index, (name, measure) in enumerate(ODD_MEASURES.items()):
        _entered(repository, "s", {"n": index}, {"m": measure, f"own {name}": measure}, index=index)
    rows = _asked(repository, "SELECT * FROM study_s_all ORDER BY n")
    assert len(rows) == len(ODD_MEASURES)
    assert rows[list(ODD_MEASURES).index("text")]["own text"] == "text"


def test_any_number_of_columns_can_be_asked_for_by_name(repository):
    values = {f"p{i}": i for i in range(1990)}
    _entered(repository, "s", values, {"m": 1.5, "last": "x"})
    (row,) = _asked(repository, "SELECT p1989, m, last, P3 FROM study_s WHERE p1988 = 1988")
    assert list(row.values()) == [1989, 1.5, "x", 3]
    if repository.engine.dialect.name == "sqlite":
        (row,) = _plain(_asked(repository, "SELECT * FROM study_s"))
        assert len(row) == 1900


def test_the_views_go_with_their_study(repository):
    _entered(repository, "s", {"n": 1}, {"m": 1.5})
    repository.release_lease(repository.leases("s")[0])
    repository.delete("s")
    with pytest.raises(Exception, match="study_s"):
        _asked(repository, "SELECT * FROM study_s")
    _entered(repository, "s", {"k": 1}, {})
    assert _plain(_asked(repository, "SELECT * FROM study_s")) == [{"k": 1}]


# What the database keeps for other programs


def _elsewhere(repository, view, what="*"):
    """What another program reads from the view that the database has."""
    prefix = ""
    with repository.engine.connect() as connection:
        if connection.dialect.name == "postgresql":
            own = connection.exec_driver_sql("SELECT current_schema()").scalar()
            prefix = f"{own}_studies."
        found = connection.exec_driver_sql(f"SELECT {what} FROM {prefix}{view}")
        return [dict(row._mapping) for row in found]


def test_the_database_keeps_views_for_other_programs(repository):
    given = _entered(repository, "s", {"n": 1, "digest": "x"}, {"m": 2**70, "t": 0.5})
    assert repository.refresh_views("s")
    (row,) = _elsewhere(repository, "study_s")
    assert (row["n"], row["param_digest"], float(row["m"]), row["t"]) == (1, "x", 2.0**70, 0.5)
    (row,) = _elsewhere(repository, "study_s_all")
    assert (row["digest"], row["status"], row["repeat"]) == (given.digest, "ok", 1)


def test_a_view_that_is_kept_follows_its_study(repository):
    _entered(repository, "s", {"n": 1}, {"m": 1})
    repository.refresh_views("s")
    with repository.engine.connect() as connection:
        if connection.dialect.name == "postgresql":
            own = connection.exec_driver_sql("SELECT current_schema()").scalar()
            connection.exec_driver_sql(
                f"CREATE VIEW mine AS SELECT n, m FROM {own}_studies.study_s"
            )
    _entered(repository, "s", {"n": 2}, {"m": "text", "later": 2.5}, index=2)
    assert repository.refresh_views("s")
    rows = sorted(_elsewhere(repository, "study_s"), key=lambda row: row["n"])
    assert [row["later"] for row in rows] == [None, 2.5]
    if repository.engine.dialect.name == "postgresql":
        assert {(row["m"], row["m_text"]) for row in rows} == {(1, "1"), (None, "text")}
    else:
        assert {row["m"] for row in rows} == {1, "text"}
    _archived(repository)
    _entered(repository, "s", {"n": 3}, {"m": 3}, index=3)
    assert [row["n"] for row in _elsewhere(repository, "study_s", "n")] == [3]


def test_a_fact_that_only_a_newer_program_has_is_added_to_the_views_that_are_kept(
    repository, monkeypatch
):
    older = tuple(name for name in sql_names.FACTS if name != "exit")
    with monkeypatch.context() as before:
        before.setattr(sql_names, "FACTS", older)
        _entered(repository, "s", {"n": 1}, {"m": 1})
        assert repository.refresh_views("s")
    (row,) = _elsewhere(repository, "study_s_all")
    assert "exit" not in row
    monkeypatch.setattr(sql_names, "FACTS_REVISION", sql_names.FACTS_REVISION + 1)
    _entered(repository, "s", {"n": 2}, {"m": 2}, index=2)
    rows = _elsewhere(repository, "study_s_all", "n, status, exit")
    assert sorted(row["n"] for row in rows) == [1, 2]
    assert {(row["status"], row["exit"]) for row in rows} == {("ok", 0)}


def test_a_reader_that_holds_a_view_stops_nobody(repository):
    if repository.engine.dialect.name != "postgresql":
        pytest.skip("SQLite's readers hold nothing")
    _entered(repository, "s", {"n": 1}, {"m": 1})
    repository.refresh_views("s")
    with repository.engine.connect() as connection:
        own = connection.exec_driver_sql("SELECT current_schema()").scalar()
        connection.exec_driver_sql("BEGIN")
        connection.exec_driver_sql(f"SELECT * FROM {own}_studies.study_s")
        _entered(repository, "s", {"n": 2}, {"more": 1.5}, index=2)
        assert not repository.refresh_views("s")
        assert _asked(repository, "SELECT more FROM study_s WHERE n = 2") == [{"more": 1.5}]
        connection.exec_driver_sql("ROLLBACK")
    assert repository.refresh_views("s")
    assert [row["more"] for row in _elsewhere(repository, "study_s")] == [None, 1.5]


def test_a_file_keeps_the_views_of_the_studies_that_were_opened_last(tmp_path, monkeypatch):
    monkeypatch.setattr(study_views, "KEPT", 3)
    monkeypatch.setattr(studies, "OPENED_SECONDS", -1)
    repository = open_repository(tmp_path / "a.db")
    for name in ("a", "b", "c", "d", "a", "e"):
        repository.open(name, StudyDefinition((Field("n", "int"),)))
    with repository.engine.connect() as connection:
        kept = connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'view'")
        assert {name for (name,) in kept if not name.endswith("_all")} == {
            "study_a", "study_d", "study_e",
        }  # fmt: skip
    repository.close()


def test_a_pinned_study_keeps_its_views(tmp_path, monkeypatch):
    monkeypatch.setattr(study_views, "KEPT", 2)
    monkeypatch.setattr(studies, "OPENED_SECONDS", -1)
    url = tmp_path / "a.db"
    repository = open_repository(url)
    for name in "abc":
        repository.open(name, StudyDefinition((Field("n", "int"),)))
    stored = {view.study for view in repository.stored_views() if view.is_stored}
    assert stored == {"b", "c"}
    pinned = maintenance.stored_views(url, pin=["a"])
    assert [(v.study, v.is_stored) for v in pinned if v.is_pinned] == [("a", True)]
    for name in "defg":
        repository.open(name, StudyDefinition((Field("n", "int"),)))
    assert {v.study for v in repository.stored_views() if v.is_stored} == {"a", "f", "g"}
    assert [v.study for v in repository.stored_views()] == list("gfedcba")
    maintenance.stored_views(url, unpin=["a"])
    repository.open("h", StudyDefinition((Field("n", "int"),)))
    assert {v.study for v in repository.stored_views() if v.is_stored} == {"g", "h"}
    with pytest.raises(NotFoundError):
        maintenance.stored_views(url, pin=["nothing"])
    repository.archive(repository.study("h"))
    with pytest.raises(InputError, match="archived"):
        maintenance.stored_views(url, pin=["h@1"])
    repository.close()


def test_views_of_a_server_can_be_listed(repository):
    _entered(repository, "s", {"n": 1}, {"m": 1})
    repository.pin_views("s", is_pinned=True)
    (view,) = repository.stored_views()
    assert (view.study, view.name, view.is_stored, view.is_pinned) == ("s", "study_s", True, True)


def test_a_field_that_was_named_before_a_fact_of_its_name_keeps_it(repository, monkeypatch):
    older = tuple(name for name in sql_names.FACTS if name != "run_block")
    with monkeypatch.context() as before:
        before.setattr(sql_names, "_FOLDED", frozenset(map(sql_names.folded, older)))
        _entered(repository, "s", {"run_block": 64}, {"m": 1})
    (row,) = _asked(repository, "SELECT * FROM study_s_all")
    assert (row["run_block"], row["run_turn"]) == (64, None)
    assert repository.refresh_views("s")


def test_truths_among_texts_are_written_as_words_unless_there_are_integers_too(postgres_url):
    with contextlib.closing(open_repository(postgres_url)) as repository:
        for study, values, texts in (
            ("words", [True, False, "x"], ["true", "false", "x"]),
            ("digits", [True, 0, "x"], ["1", "0", "x"]),
        ):
            for index, value in enumerate(values):
                _entered(repository, study, {"n": index}, {"m": value}, index=index)
            rows = _asked(repository, f"SELECT m FROM study_{study} ORDER BY n")
            assert [row["m"] for row in rows] == texts


def test_a_table_that_has_the_name_of_a_view_is_left_alone(tmp_path):
    path = tmp_path / "own.db"
    with closing(open_repository(path)) as repository:
        _entered(repository, "first", {"n": 1}, {"m": 2.0})
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE study_second (own TEXT)")
    with closing(open_repository(path)) as repository:
        _entered(repository, "second", {"n": 1}, {"m": 2.0})
        assert [view.is_stored for view in repository.stored_views()] == [False, True]
        assert _plain(_asked(repository, "SELECT * FROM study_second")) == [{"n": 1, "m": 2.0}]
    with closing(sqlite3.connect(path)) as connection:
        kinds = connection.execute("SELECT type, name FROM sqlite_master WHERE name LIKE 'study_%'")
        assert ("table", "study_second") in kinds.fetchall()


def test_a_view_that_shows_what_it_should_is_not_made_again(tmp_path):
    path = tmp_path / "own.db"
    with closing(open_repository(path)) as repository:
        _entered(repository, "s", {"n": 1}, {"m": 2.0})
        with closing(sqlite3.connect(path)) as connection:
            before = connection.execute("PRAGMA schema_version").fetchone()
        _entered(repository, "s", {"n": 2}, {"m": 3}, index=2)  # of another type: no other view
        for lease in repository.leases("s"):
            repository.release_lease(lease)
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA schema_version").fetchone() == before
        assert all(view.is_stored for view in repository.stored_views())


def test_a_new_form_of_values_makes_views_stale_only_where_their_text_changes(repository):
    def are_stale():
        return repository._database.read(
            lambda transaction: study_views._is_stale(transaction, "s")
        )

    has_types = repository.engine.dialect.name == "postgresql"
    _entered(repository, "s", {"n": 1}, {"m": 1})
    assert are_stale() == has_types
    repository.refresh_views("s")
    _entered(repository, "s", {"n": 2}, {"m": 2.5}, index=2)
    assert are_stale() == has_types
    repository.refresh_views("s")
    _entered(repository, "s", {"n": 3}, {"m": Series((1, 2))}, index=3)
    assert are_stale()
    assert repository.refresh_views("s")
    assert not are_stale()


def test_the_views_are_brought_up_to_date_though_the_answer_to_a_release_was_lost(repository):
    _entered(repository, "s", {"n": 1}, {"m": 2.0})
    (lease,) = repository.leases("s")
    repository._release_lease(lease)
    repository.release_lease(lease)
    assert _elsewhere(repository, "study_s", "n") == [{"n": 1}]


def test_a_view_whose_name_needs_quotes_has_a_plain_one(repository):
    for index, (name, n) in enumerate((("Al.scf", 1), ("al scf", 2), ("Cu-2", 3), ("cu_2", 4))):
        _entered(repository, name, {"n": n}, {"m": 1}, "failed" if n == 3 else "ok", index)
        assert repository.refresh_views(name)
    rows = {
        text: [row["n"] for row in _asked(repository, f"SELECT n FROM {text}")]
        for text in (
            "study_al_scf", "study_Al_scf", '"study_al scf"', "study_cu_2", "study_al_scf_all",
            '"study_Cu-2_all"',
        )
    }  # fmt: skip
    # The first of two has it, and a study that is called so exactly.
    assert list(rows.values()) == [[1], [1], [2], [4], [1], [3]]
    for view, n in (("study_al_scf", 1), ("study_al_scf_all", 1), ("study_cu_2", 4)):
        assert [row["n"] for row in _elsewhere(repository, view, "n")] == [n]
    _entered(repository, "al_scf", {"n": 5}, {"m": 1}, index=9)  # it takes the name back
    assert repository.refresh_views("al_scf")
    for ask in (_asked, lambda r, text: _elsewhere(r, "study_al_scf", "n")):
        assert [row["n"] for row in ask(repository, "SELECT n FROM study_al_scf")] == [5]


def test_a_plain_name_goes_with_its_study(repository):
    for name in ("a.b", "c.d"):
        _entered(repository, name, {"n": 1}, {"m": 1})
        assert repository.refresh_views(name)
    for lease in repository.leases("a.b"):
        repository.release_lease(lease)
    repository.delete("a.b")
    assert _elsewhere(repository, "study_c_d", "n") == [{"n": 1}]
    with pytest.raises(Exception, match="study_a_b"):
        _elsewhere(repository, "study_a_b", "n")


def test_somebody_elses_table_keeps_its_name_beside_plain_names(tmp_path):
    path = tmp_path / "own.db"
    with closing(open_repository(path)) as repository:
        _entered(repository, "first", {"n": 1}, {"m": 2.0})
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE study_a_b (own TEXT)")
    with closing(open_repository(path)) as repository:
        _entered(repository, "a.b", {"n": 1}, {"m": 2.0})
        assert all(view.is_stored for view in repository.stored_views())
        assert _plain(_asked(repository, "SELECT * FROM study_a_b")) == [{"n": 1, "m": 2.0}]
        assert _elsewhere(repository, '"study_a.b"', "n") == [{"n": 1}]
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE study_a_b")
        connection.execute("CREATE VIEW study_a_b AS SELECT 'mine' AS own")
    with closing(open_repository(path)) as repository:
        repository.release_lease(*repository.leases("a.b"))
        repository.delete("a.b")
        assert _elsewhere(repository, "study_a_b") == [{"own": "mine"}]


@pytest.mark.parametrize("name", ["study_s", '"study_s"', "`study_s`", "[study_s]", "STUDY_S"])
def test_a_study_can_be_asked_whose_view_the_file_does_not_keep(tmp_path, name):
    path = tmp_path / "own.db"
    with closing(open_repository(path)) as repository:
        _entered(repository, "s", {"n": 1}, {"m": 2.0})
        for view in ("study_s", "study_s_all"):
            with closing(sqlite3.connect(path)) as connection:
                connection.execute(f"DROP VIEW {view}")
        assert _asked(repository, f"SELECT n FROM {name} WHERE m > 1 -- study_t") == [{"n": 1}]
        assert repository.expand_views("SELECT 'study_s'") == "SELECT 'study_s'"
