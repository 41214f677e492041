"""Sensitivity of a study that ran the points of a design."""

import pytest

from cli.conftest import zen
from zenturio.errors import InputError
from zenturio.show.study import Study

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
    with pytest.raises(InputError, match="has no sensitivity"):
        Study("linear").sensitivity(design="lhs:5")


def test_a_study_without_a_design_and_two_choices_of_points_are_refused(study, tmp_path):
    told = zen("run", "small.py", "--limit", "1", "--design", "lhs:2", cwd=tmp_path, code=2)
    assert "exclude each other" in told.err
    told = zen("run", "small.py", "--search", "ga", "--design", "lhs:2", cwd=tmp_path, code=2)
    assert "asks for points itself" in told.err
    zen("run", "small.py", "--limit", "1", cwd=tmp_path)
    assert "was not run with a design" in zen("sensitivity", "small", cwd=tmp_path, code=2).err
