"""What a study taught, in five lines and a chart."""

import json

import pytest

import zenturio
from cli.conftest import zen
from zenturio.errors import InputError
from zenturio.show.python_api import Study

PROGRAM = """\
#ZEN$ PARAM a = { 1:5 }
#ZEN$ PARAM b = { 1:5 }
#ZEN$ PARAM d := a + b
#ZEN$ PARAM c = { x, y }
#ZEN$ METRIC y FROM stdout REGEX "y=(.*)"
#ZEN$ OBJECTIVE MINIMIZE y
#ZEN$ RUN "echo y=$(( ({a} - 3) * ({a} - 3) * 10 + {b} ))"
"""


def test_a_study_is_explained_in_five_lines_and_a_chart(tmp_path, monkeypatch):
    (tmp_path / "model.sh").write_text(PROGRAM)
    zen("run", "model.sh", "--sample", "24", cwd=tmp_path)
    told = zen("explain", "model", cwd=tmp_path).out.splitlines()
    heads = [line.partition(":")[0] for line in told[:5]]
    assert heads == ["model", "parameters", "interactions", "best", "next"]
    assert "24 of 24 points have a value of y" in told[0]
    assert told[1].startswith("parameters: a explains ")
    assert " hardly matter" in told[1]
    assert " d " not in told[1], "a derived parameter says what others say"
    assert told[3].startswith("best: y = ")
    assert " at a=3, b=" in told[3]
    assert "not known without repeats" in told[3]
    assert told[6] == "model: y by a"

    facts = zen("explain", "model", "--json", "-o", "model.svg", cwd=tmp_path).facts
    assert (tmp_path / "model.svg").read_text().startswith("<?xml")
    assert facts["file"] == "model.svg"
    assert {p["parameter"]: p["matters"] for p in facts["parameters"]}["a"] == "yes"
    tried = {tuple(sorted(f["parameters"].items())) for f in facts["best"]}
    assert tuple(sorted(facts["next"].items())) not in tried
    assert zen("explain", "model", "-o", "-", cwd=tmp_path).out.splitlines()[6] == told[6]
    part = zen("explain", "model", "--where", "a > 3 and c == 'x'", "--json", cwd=tmp_path).facts
    assert all(f["parameters"]["a"] > 3 for f in part["best"])
    assert part["next"] == facts["next"], "what is known is known, whatever the condition"
    assert (
        zen("best", "model", "--where", "a > 3", "--json", cwd=tmp_path).facts[0]["parameters"]["a"]
        == 4
    )
    monkeypatch.chdir(tmp_path)
    del facts["file"]
    assert json.loads(json.dumps(Study("model").explain().facts())) == facts


def test_points_as_good_as_the_best_need_repeats_and_all_points_leave_nothing_to_try(
    tmp_path, monkeypatch
):
    noisy = PROGRAM.replace(" + {b} ))", " + {s} ))").replace("b = { 1:5 }", "b = { 1:2 }")
    (tmp_path / "model.sh").write_text(noisy + "#ZEN$ REPEAT 2 SEED s\n")
    zen("run", "model.sh", cwd=tmp_path)
    monkeypatch.chdir(tmp_path)
    answer = Study("model").explain()
    assert "points that may be as good: a=3, b=1, d=4, c=y or a=3, b=2" in answer.lines[3]
    assert answer.lines[4] == "next: all points of the space were run"
    assert answer.facts()["as_good"] == 4


ORDERS = """\
#ZEN$ PARAM n = { 8, 16, 32, 64 }
#ZEN$ PARAM scheme = { first, second }
#ZEN$ PARAM power := 1 if scheme == "first" else 2
#ZEN$ RUN "sh -c 'echo {n} {power}'"
#ZEN$ METRIC n_of FROM stdout REGEX "^(\\d+)" EXACT
#ZEN$ METRIC power_of FROM stdout REGEX "(\\d)$" EXACT
#ZEN$ METRIC of_first := n_of WHEN scheme == "first"
#ZEN$ METRIC error := power_of ** 2 / n_of ** power_of EXACT
#ZEN$ OBJECTIVE MINIMIZE error
"""


def test_an_exact_metric_needs_no_repeats_and_a_fit_of_two_schemes_says_so(tmp_path, monkeypatch):
    (tmp_path / "orders.sh").write_text(ORDERS)
    zen("run", "orders.sh", cwd=tmp_path)
    told = zen("explain", "orders", cwd=tmp_path).out.splitlines()
    assert told[3].endswith(
        "error is EXACT: its values have no noise, and no other point is as good"
    )
    pooled = zen("fit", "orders", "--y", "error", "--x", "n", cwd=tmp_path).out.splitlines()
    (note,) = pooled[1:]
    assert note.startswith("rows of a point differ in scheme: one formula for all of them, without")
    assert note.endswith("; --by scheme fits each value by itself")
    apart = zen("fit", "orders", "--y", "error", "--x", "n", "--by", "scheme", cwd=tmp_path).out
    assert "error = 1 * n ** -1 " in apart
    assert "error = 4 * n ** -2 " in apart
    assert apart.count("    coefficients: ") == 2
    assert "rows of a point" not in apart
    one = zen("fit", "orders", "--y", "of_first", "--x", "n", cwd=tmp_path).out
    assert "of_first = n " in one
    assert "rows of a point" not in one  # of_first is NULL in the others, which are not used


def test_few_points_and_a_study_without_an_objective_say_so(tmp_path, monkeypatch):
    (tmp_path / "model.sh").write_text(PROGRAM)
    zen("run", "model.sh", "--limit", "3", cwd=tmp_path)
    told = zen("explain", "model", cwd=tmp_path).out
    assert "parameters: not enough data for a model: 'y' has a number at 3 points, at least" in told
    assert "interactions: not enough data to tell" in told
    assert len(told.splitlines()) == 5
    told = zen("explain", "model", "-o", "model.svg", cwd=tmp_path).out
    assert "no chart was written: not enough data for a model: 'y' has a number at 3 points" in told
    assert not (tmp_path / "model.svg").exists()
    (tmp_path / "bare.sh").write_text(PROGRAM.replace("#ZEN$ OBJECTIVE MINIMIZE y\n", ""))
    zen("run", "bare.sh", "--limit", "3", cwd=tmp_path)
    assert "has no objective" in zen("explain", "bare", cwd=tmp_path, code=2).err
    assert (
        "bare: minimize y" in zen("explain", "bare", "--objective", "MINIMIZE y", cwd=tmp_path).out
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="not enough data for a model"):
        Study("bare").plot("dependence", y="y")


def test_several_objectives_have_a_front_and_shares_of_the_first_one(tmp_path, monkeypatch):
    (tmp_path / "model.sh").write_text(
        PROGRAM.replace("MINIMIZE y", "MINIMIZE y, MAXIMIZE b * 2").replace(
            '"echo', '"test {b} -lt 5 && echo'
        )
    )
    zen("run", "model.sh", "--sample", "20", cwd=tmp_path, code=None)
    monkeypatch.chdir(tmp_path)
    answer = Study("model").explain()
    assert answer.lines[0].startswith("model: minimize y, maximize b * 2; ")
    assert answer.usable < answer.points == 20
    assert answer.metric == "y"
    assert answer.lines[3].startswith("best: the Pareto front has ")
    assert answer.lines[3].endswith(" points (zen best model lists them)")
    assert answer.proposal.values is not None


def test_equal_points_are_as_good_and_repeats_that_do_not_differ_are_no_lack(tmp_path, monkeypatch):
    (tmp_path / "model.sh").write_text(PROGRAM.replace("+ {b} ))", "))") + "#ZEN$ REPEAT 2\n")
    zen("run", "model.sh", "--sample", "3", cwd=tmp_path)
    monkeypatch.chdir(tmp_path)
    line = Study("model").explain().lines[3]
    assert line.endswith("; the repeats do not differ")
    flat = PROGRAM.replace("$(( ({a} - 3) * ({a} - 3) * 10 + {b} ))", "7")
    (tmp_path / "flat.sh").write_text(flat)
    zen("run", "flat.sh", "--sample", "17", cwd=tmp_path)
    answer = Study("flat").explain()
    assert answer.lines[1] == "parameters: 'y' has the same value at all 17 points"
    assert "; the same value at a=" in answer.lines[3]
    more = "; zen best flat -n 20 shows whether more points have this value; which points"
    assert more in answer.lines[3]


def test_what_is_infinite_or_no_number_is_not_counted(tmp_path):
    odd = PROGRAM.replace(
        '"echo', '"test {b} = 5 && echo y=inf || test {b} = 4 && echo y=nan || echo'
    )
    (tmp_path / "model.sh").write_text(odd)
    zen("run", "model.sh", cwd=tmp_path)
    told = zen("explain", "model", cwd=tmp_path).out.splitlines()
    assert "30 of 50 points have a value of y" in told[0]
    assert told[-1].endswith("30 of 50 points")


def test_a_python_function_has_a_proposal_from_the_space_of_its_last_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def bowl(a: int, share: float) -> dict[str, float]:
        return {"y": (a - 3) ** 2 + share}

    wide = zenturio.Space(a=range(9), share=zenturio.uniform(0, 1))
    facts = zenturio.run(bowl, wide, sample=12).explain("minimize y").facts()
    assert set(facts["next"]) == {"a", "share"}
    assert facts["engine"] == "auto"
    narrow = zenturio.Space(a=range(9), share=[0.5], constraints=["a > 6"])
    proposal = zenturio.run(bowl, narrow, limit=1).explain("minimize y").facts()["next"]
    assert proposal == {"a": 8, "share": 0.5}
