"""Experiments of points that the space does not hold any more are left out, and that is said."""

from pathlib import Path

import pytest

from tests.query.conftest import fill
from zenturio.annotate.scan import scan
from zenturio.query import results, study_frame
from zenturio.query.excluded_points import digests_outside
from zenturio.query.forest import parameter_bins
from zenturio.query.frames import group_frame
from zenturio.record import PAIRED, SPACES, Field, StudyDefinition
from zenturio.show.charts.chart_query import ChartQuery
from zenturio.show.charts.search_charts import search_points
from zenturio.show.charts.study_charts import draw_chart
from zenturio.space import Space
from zenturio.space.space import fingerprint
from zenturio.study.best_points import best

SOURCE = """\
n = 1
#ZEN$ ASSIGN n = {sets}
{more}#ZEN$ RUN "python3 p.py"
print(n)
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / ".zenturio").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(sets, more=""):
    Path("p.py").write_text(SOURCE.format(sets=sets, more=more))


def ran(repository, values, *, overrides=(), spaces=None, parameters=None, notes=None):
    """A study of p.py, as it is now, with an experiment for each of *values*."""
    rows = [row if isinstance(row, dict) else {"n": row} for row in values]
    fields = parameters or {"n": "int"}
    rows = [row if "y" in row else {"y": float(row["n"]), **row} for row in rows]
    fill(repository, "p", fields, {"y": "real"}, rows)
    application = scan(["p.py"], overrides=overrides)
    definition = StudyDefinition(
        tuple(Field(name, kind) for name, kind in fields.items()),
        (Field("y", "real"),),
        goals=({"direction": "maximize", "expression": "y"},),
        sources={"p.py": Path("p.py").read_bytes()},
        notes={
            "paths": [str(Path("p.py").absolute())],
            "root": str(Path.cwd()),
            "overrides": list(overrides),
            SPACES: spaces or [fingerprint(application.space)],
            **(notes or {}),
        },
    )
    repository.open("p", definition)


def shown(repository, **options):
    found = results(repository, "p", **options)
    return [row[0] for row in found.rows], found.notes


def test_a_set_that_was_narrowed_leaves_its_points_out(project, repository):
    write("{ 1, 2, 3 }")
    ran(repository, [1, 2, 3])
    assert shown(repository) == ([1, 2, 3], ())
    write("{ 1, 2 }")
    values, notes = shown(repository)
    assert values == [1, 2]
    assert notes == ("1 experiment is left out: the space no longer contains its point (--all)",)
    assert shown(repository, outside=True) == ([1, 2, 3], ())
    assert list(study_frame(repository, "p")["n"]) == [1, 2]
    assert study_frame(repository, "p").attrs["left_out"] == 1
    assert list(study_frame(repository, "p", everything=True)["n"]) == [1, 2, 3]
    assert sorted(group_frame(repository, "p", ["n"], "y")["n"]) == [1, 2]
    aggregated = results(repository, "p", aggregates=["max"])
    assert [row[-1] for row in aggregated.rows] == [1.0, 2.0]
    assert len(results(repository, "p", aggregates=["max"], where="status == 'ok'").rows) == 2


def test_the_last_run_decides_where_the_file_is_gone(project, repository):
    write("{ 1, 2 }")
    ran(repository, [1, 2, 3], spaces=["before", fingerprint(Space(n=[1, 2]))])
    Path("p.py").unlink()
    assert shown(repository)[0] == [1, 2]


def test_a_file_outside_of_the_project_is_not_looked_at(project, repository, monkeypatch):
    write("{ 1, 2, 3 }")
    ran(repository, [1, 2, 3])
    write("{ 1 }")
    (project / "copy" / ".zenturio").mkdir(parents=True)
    monkeypatch.chdir(project / "copy")
    assert shown(repository)[0] == [1, 2, 3]


def test_what_was_set_on_the_command_line_is_present_beside_the_file(project, repository):
    write("{ 1, 2 }")
    ran(repository, [1, 2, 5, 7], overrides=["n = { 7 }"], spaces=["a", "b"])
    assert shown(repository)[0] == [1, 2, 7]


def test_a_constraint_that_was_added_leaves_its_points_out(project, repository):
    write("{ 1, 2, 3, 4 }")
    ran(repository, [1, 2, 3, 4])
    write("{ 1, 2, 3, 4 }", "#ZEN$ CONSTRAINT VALUE n % 2 == 0\n")
    assert shown(repository)[0] == [2, 4]


def test_rows_from_before_a_parameter_was_added_have_no_value_and_are_in_no_average(
    project, repository
):
    write("{ 1, 2 }", "#ZEN$ PARAM price = { 10, 20 }\n")
    rows = [{"n": 1, "price": None, "y": 99.0}, {"n": 1, "price": 10}, {"n": 1, "price": 20}]
    ran(repository, rows, spaces=["before", "now"], parameters={"n": "int", "price": "int"})
    assert results(repository, "p", by=["n"], aggregates=["mean"]).rows == ((1, 2, 1.0),)
    every = results(repository, "p", outside=True)
    assert [row[:2] for row in every.rows] == [(1, None), (1, 10), (1, 20)]


def test_an_inactive_parameter_is_a_value_of_the_space(project, repository):
    write("{ 1, 2 }", "#ZEN$ PARAM tile = { 8, 16 } WHEN n == 2\n")
    rows = [
        {"n": 1, "tile": None},
        {"n": 2, "tile": 8},
        {"n": 2, "tile": None},
        {"n": 1, "tile": 8},
    ]
    ran(repository, rows, spaces=["before", "now"], parameters={"n": "int", "tile": "int"})
    assert [row[:2] for row in results(repository, "p").rows] == [(1, None), (2, 8)]


def test_the_best_is_one_of_the_present_space(project, repository):
    write("{ 1, 2, 3 }")
    ran(repository, [1, 2, 3])
    write("{ 1, 2 }")
    without = digests_outside(repository, "p")
    assert best(repository, "p", 1, without=without).points[0].values == {"n": 2}
    assert best(repository, "p", 1).points[0].values == {"n": 3}


@pytest.mark.parametrize("kind", ["slice", "parallel", "line"])
def test_charts_leave_its_points_out_and_say_so(project, sqlite, kind):
    write("{ 1, 2, 3, 4, 5, 6 }")
    ran(sqlite, [1, 2, 3, 4, 5, 6])
    write("{ 1, 2, 3, 4 }")
    note = draw_chart(sqlite, ChartQuery(("p",), kind)).chart.note
    assert "2 experiments are left out" in note
    assert "left out" not in draw_chart(sqlite, ChartQuery(("p",), kind, outside=True)).chart.note


@pytest.mark.parametrize("kind", ["line", "scatter"])
def test_charts_say_how_many_experiments_lack_the_parameter_of_an_axis(project, sqlite, kind):
    write("{ 1, 2, 3 }", "#ZEN$ PARAM tile = { 8, 16 } WHEN n == 2\n")
    rows = [
        {"n": 1, "tile": None},
        {"n": 2, "tile": 8},
        {"n": 2, "tile": 16},
        {"n": 3, "tile": None},
    ]
    ran(sqlite, rows, parameters={"n": "int", "tile": "int"})
    chart = draw_chart(sqlite, ChartQuery(("p",), kind, x="tile", y=("y",))).chart
    assert chart.counts == "2 of 4 experiments, 2 have no tile"
    some = draw_chart(sqlite, ChartQuery(("p",), kind, x="tile", y=("y",), where="n < 3")).chart
    assert some.counts == "2 of 4 experiments, 1 has no tile"
    whole = draw_chart(sqlite, ChartQuery(("p",), kind, x="n", y=("y",))).chart
    assert whole.counts == "4 of 4 experiments"


def test_versions_that_were_compared_are_drawn_beside_each_other(project, sqlite):
    write("{ 1, 2 }")
    rows = [{"n": n, "version": name} for n in (1, 2) for name in ("old", "new")]
    note = {PAIRED: {"labels": ["old", "new"], "parameter": "version"}}
    ran(sqlite, rows, parameters={"n": "int", "version": "str"}, notes=note)
    drawn = draw_chart(sqlite, ChartQuery(("p",), "line", outside=True))
    assert (drawn.query.x, drawn.query.colour) == ("n", "version")
    named = draw_chart(sqlite, ChartQuery(("p",), "line", x="version", outside=True))
    assert named.query.colour == ""
    grid = ChartQuery(("p",), "heatmap", x="n", y=("repeat",), outside=True)
    assert draw_chart(sqlite, grid).query.facet == "version"


def test_the_history_of_a_search_is_whole(project, sqlite):
    write("{ 1, 2, 3 }")
    ran(sqlite, [1, 2, 3])
    write("{ 1 }")
    assert "left out" not in draw_chart(sqlite, ChartQuery(("p",), "convergence")).chart.note


def test_a_study_without_files_has_all_its_points(project, repository):
    fill(repository, "called", {"n": "int"}, {"y": "real"}, [{"n": 1, "y": 1.0}])
    assert digests_outside(repository, "called") == frozenset()


def test_versions_that_were_compared_twice_with_other_sets_have_all_their_points(
    project, repository
):
    """No file declares what tells the versions apart."""
    write("{ 1, 2 }")
    rows = [{"n": n, "version": label} for n in (1, 2) for label in ("old", "new")]
    ran(repository, rows, spaces=["one", "other"], parameters={"n": "int", "version": "str"})
    assert digests_outside(repository, "p") == frozenset()


def test_files_that_did_not_change_are_not_read_again(project, repository, monkeypatch):
    write("{ 1, 2 }")
    ran(repository, [1, 2])
    monkeypatch.setattr("zenturio.query.points_outside.scan", None)
    assert shown(repository) == ([1, 2], ())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Space(n=[1, 2]), Space(n=[1, 2, 3])),
        (Space(n=[1, 2]), Space(m=[1, 2])),
        (Space(n=[1, 2]), Space(n=[1, 2]).where("n > 1")),
        (Space(n=[1]), Space(n=["a"])),
    ],
)
def test_fingerprints_tell_spaces_apart(one, other):
    assert fingerprint(one) != fingerprint(other)
    assert fingerprint(one) == fingerprint(Space(one.parameters, one.constraints))


def test_texts_of_a_searched_parameter_are_in_the_order_of_its_set(project, sqlite):
    """Not in that of the alphabet, and not in that of the visits."""
    write("{ '9k', '10k', '1M' }")
    rows = [{"n": text, "y": 1.0} for text in ("1M", "10k", "9k")]
    ran(sqlite, rows, parameters={"n": "str"})
    drawn = draw_chart(sqlite, ChartQuery(("p",), "slice")).chart
    assert drawn.panels[0].x.categories == ("9k", "10k", "1M")
    frame = search_points(sqlite, ("p",))
    bins = parameter_bins("n", frame["n"], frame.attrs["ranks"]["n"])
    assert bins.labels == ("9k", "10k", "1M")


def test_a_log_uniform_parameter_has_a_logarithmic_axis(project, sqlite):
    write("{ LOGUNIFORM(1, 100) }")
    ran(sqlite, [{"n": n, "y": n} for n in (1.5, 2.0, 7.0, 90.0)], parameters={"n": "real"})
    assert draw_chart(sqlite, ChartQuery(("p",), "slice")).chart.panels[0].x.log
    write("{ UNIFORM(1, 100) }")
    ran(sqlite, [{"n": n, "y": n} for n in (1.5, 2.0, 7.0, 90.0)], parameters={"n": "real"})
    assert not draw_chart(sqlite, ChartQuery(("p",), "slice")).chart.panels[0].x.log
