"""Pictures of workflows and plans from the command line."""

import pytest

from cli.conftest import zen


@pytest.mark.parametrize(
    ("words", "drawn"),
    [
        ("schedule topcuoglu --gantt plan.svg", "n10"),
        ("schedule kwave-barrier --on identical:8 --algorithm cpa --gantt plan.svg", "simulation"),
        ("simulate topcuoglu --algorithm heft --gantt plan.svg", "simulated by heft"),
        ("workflow show wien2k kpoints=3 -o plan.svg", "lapw1_3"),
    ],
)
def test_a_picture_is_written_beside_what_is_said(tmp_path, words, drawn):
    told = zen(*words.split(), cwd=tmp_path)
    assert told.out
    assert f"{drawn} -->" in (tmp_path / "plan.svg").read_text()


def test_a_picture_that_cannot_be_drawn_is_refused_with_its_kinds(tmp_path):
    told = zen("schedule", "topcuoglu", "--gantt", "plan.txt", cwd=tmp_path, code=2)
    assert ".html" in told.err
