"""Sensitivity of a study that ran the points of a design."""

import pytest

from cli.conftest import zen
from zenturio.errors import InputError
from zenturio.show.python_api import Study

PROGRAM = """\
#ZEN$ PARAM a = { 0:9 }
#ZEN$ PARAM b = { 0:9 }
#ZEN$ METRIC y FROM stdout REGEX "y=(.*)" UNIT "J"
#ZEN$ RUN "echo y={a}"
"""


def test_the_points_of_a_design_run_and_their_changes_are_shown(tmp_path, monkeypatch):
    (tmp_path / "linear.sh").write_text(PROGRAM)
    assert "none cached" in zen("run", "linear.sh", "--design", "morris:3", cwd=tmp_path).out
    told = zen("sensitivity", "linear", cwd=tmp_path).out
    assert told.startswith("changes of y (J), morris:3\n\nfactor  size")
    assert "3 of 3 trajectories have all results" in told
    facts = zen("sensitivity", "linear", "--design", "morris:3", "--json", cwd=tmp_path).facts
    assert [(f["factor"], f["size"] > 0) for f in facts["factors"]] == [("a", True), ("b", False)]
    monkeypatch.chdir(tmp_path)
    assert Study("linear").sensitivity().facts() == facts
    with pytest.raises(InputError, match="not enough runs: 0 of 50 rows"):
        Study("linear").sensitivity(design="saltelli:50", seed=9)
    for other in ("q", "a"):
        with pytest.raises(InputError, match=f"linear has no metric '{other}'"):
            Study("linear").sensitivity(other)
    with pytest.raises(InputError, match="has no sensitivity"):
        Study("linear").sensitivity(design="covering:2")
    with pytest.raises(InputError, match=r"not enough runs: \d+ of 50 points of lhs:50"):
        Study("linear").sensitivity(design="lhs:50", seed=9)


def test_tied_parameters_have_shapley_effects_in_tables_and_charts(tmp_path, monkeypatch):
    tied = PROGRAM.replace("#ZEN$ METRIC", "#ZEN$ CONSTRAINT VALUE a + b <= 9\n#ZEN$ METRIC")
    # Of several metrics it is about that of the objective.
    tied += '#ZEN$ METRIC z FROM stdout REGEX "y=(.)"\n#ZEN$ OBJECTIVE MINIMIZE y\n'
    (tmp_path / "tied.sh").write_text(tied.replace("0:9 }", "0:4 }").replace("<= 9", "<= 5"))
    zen("run", "tied.sh", "--design", "lhs:20", cwd=tmp_path)
    told = zen("sensitivity", "tied", "-o", "-", cwd=tmp_path).out
    assert told.startswith("Shapley effects on y (J), lhs:20\n\nparameter  share")
    assert "Shapley effects of 20 independent points" in told
    assert "tied: sensitivity of y, lhs:20\n\nShapley\na  █" in told
    facts = zen("sensitivity", "tied", "--json", "-o", "tied.svg", cwd=tmp_path).facts
    assert {e["parameter"] for e in facts["shapley"]} == {"a", "b"}
    assert sum(e["share"] for e in facts["shapley"]) == pytest.approx(1)
    assert (tmp_path / "tied.svg").exists()
    zen("run", "tied.sh", "--design", "saltelli:10", cwd=tmp_path)
    told = zen("sensitivity", "tied", cwd=tmp_path).out
    assert told.startswith("shares of the variance of y (J), saltelli:10\n\nfactor  first")
    assert "\na, b    0.9" in told
    assert "Shapley effects of 20 independent points" in told
    zen("plot", "tied", "--kind", "sensitivity", "-o", "tied.html", cwd=tmp_path)
    monkeypatch.chdir(tmp_path)
    drawn = Study("tied").plot("sensitivity")
    assert [bars.name for bars in drawn.panels[0].marks] == ["first order", "total", "Shapley"]
    assert drawn.panels[0].marks[0].x == ("a, b",)
    with pytest.raises(InputError, match="no x to choose"):
        Study("tied").plot("sensitivity", x="a")


def test_a_study_without_a_design_and_two_choices_of_points_are_refused(study, tmp_path):
    told = zen("run", "small.py", "--limit", "1", "--design", "lhs:2", cwd=tmp_path, code=2)
    assert "exclude each other" in told.err
    told = zen("run", "small.py", "--search", "ga", "--design", "lhs:2", cwd=tmp_path, code=2)
    assert "chooses the points itself" in told.err
    zen("run", "small.py", "--limit", "1", cwd=tmp_path)
    assert (
        "the last run of small had no design"
        in zen("sensitivity", "small", cwd=tmp_path, code=2).err
    )
