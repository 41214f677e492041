"""The views of a study: names as they were given, values that SQL can use."""

import math

import pytest
from sqlalchemy import text

from zenturio.experiment.experiment import Missing, Series
from zenturio.record import Definition, Driver, Field
from zenturio.record.open import open_repository
from zenturio.testing.experiments import ODD_MEASURES, experiment, outcome


@pytest.fixture
def repository(url):
    repository = open_repository(url)
    yield repository
    repository.close()


def _entered(repository, study, values, metrics, status="ok", index=1):
    driver = Driver("here", 1, "x")
    repository.open(study, Definition(tuple(map(Field, values)), tuple(map(Field, metrics))))
    lease = repository.lease(study, driver, join=True)
    given = experiment(index, values, salt=study)
    repository.enter(study, lease.number, [(given, outcome(given, status, metrics))])
    return given


def _asked(repository, sql):
    with repository.engine.connect() as connection:
        return [dict(row._mapping) for row in connection.execute(text(sql))]


def test_a_view_has_a_column_for_each_parameter_and_metric(repository):
    _entered(repository, "matmul", {"n": 128, "flag": "-O3"}, {"gflops": 2.5, "size": 7})
    assert _asked(repository, "SELECT * FROM study_matmul") == [
        {"n": 128, "flag": "-O3", "gflops": 2.5, "size": 7}
    ]


def test_the_whole_view_tells_how_it_went(repository):
    given = _entered(repository, "s", {"n": 1}, {"t": 1.5})
    lost = _entered(repository, "s", {"n": 2}, {}, "failed", 2)
    waits = experiment(10**30, {"n": 3})
    repository.add("s", [waits])
    assert [row["n"] for row in _asked(repository, "SELECT * FROM study_s")] == [1]
    first, second, third = _asked(repository, "SELECT * FROM study_s_all ORDER BY n")
    assert first == {
        "digest": given.digest, "index": 1, "repeat": 1, "status": "ok", "cause": None,
        "host": "karwendel", "attempt": 1, "started": 1e9, "ended": 1e9 + 2.5, "remarks": None,
        "n": 1, "t": 1.5,
    }  # fmt: skip
    assert (second["digest"], second["status"], second["cause"]) == (
        lost.digest,
        "failed",
        "exit 3",
    )
    assert (third["status"], third["attempt"], third["t"]) == ("waiting", None, None)
    assert int(third["index"]) == 10**30


NAMES = [
    "select", "Größe", "x" * 70, "x" * 71, "n", "N", "status", "zen_status", 'a"b', "a'b", "%s",
    "%", ":name", "a.b c", "ü" * 40, "digest", "experiment", "[x]", "`", "?",
]  # fmt: skip


def test_names_are_data(repository):
    values = {name: i for i, name in enumerate(NAMES)}
    for study in ("select", 'quo"te', "per%cent", "Größe", "x" * 80, "x" * 81):
        _entered(repository, study, values, {"it's": 2**70})
        view = repository.study(study).view.replace('"', '""').replace(":", r"\:")
        (row,) = _asked(repository, f'SELECT * FROM "{view}"')
        assert list(map(int, row.values())) == [*range(len(NAMES)), 2**70]
        assert list(row)[:2] == ["select", "Größe"]
        assert row["status"] == NAMES.index("status")
        (whole,) = _asked(repository, f'SELECT * FROM "{repository.study(study).view_all}"'.replace(
            view, view)) if '"' not in study else (None,)  # fmt: skip
        if whole is not None:
            assert whole["zen_status_2"] == "ok"


def test_a_metric_may_change_its_form(repository):
    for index, value in enumerate([1, 2.5, True, "x", 2**70, Series((1, 2))]):
        _entered(repository, "s", {"n": index}, {"m": value}, index=index)
        rows = _asked(repository, "SELECT m FROM study_s ORDER BY n")
        assert len(rows) == index + 1
        if index == 1:
            assert [row["m"] for row in rows] == [1, 2.5]
    assert [str(row["m"]) for row in rows][3] == "x"
    assert [str(row["m"]) for row in rows][4] == str(2**70)
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


def test_a_view_survives_every_kind_of_value(repository):
    for index, (name, measure) in enumerate(ODD_MEASURES.items()):
        _entered(repository, "s", {"n": index}, {"m": measure, f"own {name}": measure}, index=index)
    rows = _asked(repository, "SELECT * FROM study_s_all ORDER BY n")
    assert len(rows) == len(ODD_MEASURES)
    assert rows[list(ODD_MEASURES).index("text")]["own text"] == "text"


def test_beyond_the_limit_of_columns_values_are_still_seen(repository):
    values = {f"p{i}": i for i in range(1700)}
    _entered(repository, "s", values, {"m": 1.5})
    (row,) = _asked(repository, "SELECT * FROM study_s")
    assert len(row) == 1500
    assert [int(row[f"p{i}"]) for i in range(1500)] == list(range(1500))


def test_the_views_go_with_their_study(repository):
    _entered(repository, "s", {"n": 1}, {"m": 1.5})
    repository.leave(repository.drivers("s")[0])
    repository.delete("s")
    with pytest.raises(Exception, match="study_s"):
        _asked(repository, "SELECT * FROM study_s")
    _entered(repository, "s", {"k": 1}, {})
    assert _asked(repository, "SELECT * FROM study_s") == [{"k": 1}]
