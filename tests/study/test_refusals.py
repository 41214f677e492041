"""What run refuses, check refuses; and what is refused leaves no study behind."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from zenturio.annotate.lint import lint
from zenturio.annotate.scan import scan
from zenturio.cli.main import app
from zenturio.errors import InputError, ZenError
from zenturio.study.driver.experiment_source import select_points
from zenturio.study.driver.study_session import TRIED, doubtful_formulas, refusals
from zenturio.study.local_run import run_locally
from zenturio.study.study_request import PlaceOptions

WRONG = {
    "CPUS that are none at a point": 'PARAM n = { 0:3 }\nRUN "true" CPUS n',
    "a constraint without a value": 'PARAM n = { 0:3 }\nCONSTRAINT VALUE 4 // n > 0\nRUN "x {n}"',
    "a derived parameter without a value": 'PARAM n = { 0:3 }\nPARAM h := 4 / n\nRUN "x {h}"',
    "a text that is no number": 'PARAM n = { a, 1 }\nRUN "echo $(( {n} + 1 ))"',
    "a bound without a value": 'PARAM n = { 0:3 }\nPARAM m = { 1:(4 // n) }\nRUN "x {m}"',
    "a condition without a value": 'PARAM n = { 0:3 }\nPARAM m = { 1 } WHEN 4 // n > 2\nRUN "x {m}"',
    "a requirement without a value": 'PARAM n = { 0:3 }\nREQUIRE host.memory / n > 0\nRUN "x {n}"',
    "a program that is not there": 'USE PROGRAM "no-such-program"\nRUN "true"',
    "a stage that is not there": 'AFTER "mesh"\nRUN "true"',
    "CPUS that are none at an end": f'PARAM n = {{ 1:{TRIED} }}\nRUN "x" CPUS {TRIED} - n',
}
UNFIT = {
    "more memory than there is": 'PARAM n = { 1, 2 }\nRUN "x {n}" MEMORY 1PB',
    "a requirement that does not hold": 'REQUIRE host.memory > 1PB\nRUN "true"',
}


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ZENTURIO_DB", raising=False)

    def put(text, name="a.sh"):
        (tmp_path / name).write_text("".join(f"# ZEN$ {line}\n" for line in text.split("\n")))
        return tmp_path / name

    return put


def run(path):
    return CliRunner().invoke(app, ["run", str(path)]).exception


def no_study():
    found = CliRunner().invoke(app, ["list", "--json"])
    return '"study"' not in found.output


@pytest.mark.parametrize("title", WRONG)
def test_check_and_run_refuse_the_same(write, title):
    path = write(WRONG[title])
    found = CliRunner().invoke(app, ["check", str(path)])
    assert found.exit_code == 2, found.output
    assert f"{path}:" in found.output
    error = run(path)
    assert isinstance(error, InputError)
    assert error.diagnostics[0].message in found.output
    assert no_study()


@pytest.mark.parametrize("title", UNFIT)
def test_what_this_machine_cannot_run_leaves_no_study(write, title):
    assert isinstance(run(write(UNFIT[title])), ZenError)
    assert no_study()


def test_a_large_space_is_tried_at_its_ends_as_well(write):
    last = 10 * TRIED
    text = f'PARAM a = {{ 1:{last} }}\nPARAM b = {{ 1, 2 }}\nRUN "x {{a}}" CPUS '
    assert refusals(scan(write(text + "b"))) == ()
    (found,) = refusals(scan(write(text + f"{last} - a")))
    assert found.message.startswith("CPUS is")
    assert found.place.line == 3


def test_points_that_no_constraint_keeps_are_not_tried(write):
    path = write('PARAM n = { 0:3 }\nCONSTRAINT VALUE n > 0\nRUN "x" CPUS n')
    assert refusals(scan(path)) == ()


def test_a_run_is_refused_for_its_own_points_alone(write, tmp_path):
    path = write('PARAM n = { 1, 0 }\nRUN "true" CPUS n')
    found = CliRunner().invoke(app, ["run", str(path), "--limit", "1"])
    assert found.exit_code == 0, found.output


def test_a_study_that_runs_nothing_is_told_before_its_place_is_looked_for(write):
    application = scan(write("PARAM n = { 1, 2 }"))
    with pytest.raises(InputError, match="has no RUN directive"):
        run_locally(
            application, select_points(application.space), place=PlaceOptions(place="nowhere")
        )


def test_data_are_not_read_for_it(write, tmp_path, monkeypatch):
    write('PARAM n = { 0:3 }\nRUN "x {n}" CPUS n')
    (tmp_path / "data.bin").write_bytes(b"\0" * 100)
    application = scan(tmp_path)
    monkeypatch.setattr(Path, "read_bytes", None)
    assert len(refusals(application)) == 1


def test_each_fault_is_told_once(write):
    path = write('PARAM n = { 0:3 }\nPARAM m = { 1:50 }\nPARAM h := m / n\nRUN "x {h}" CPUS n')
    assert len(refusals(scan(path))) == 1


def test_a_continuous_space_is_tried_at_one_point(write):
    path = write('PARAM x = { UNIFORM(0, 1) }\nOBJECTIVE MINIMIZE wtime\nRUN "true {x}" CPUS 0')
    (found,) = refusals(scan(path))
    assert found.message.startswith("CPUS is")


FORMULAS = {
    "a metric": ("METRIC m := wtime / n", "m has no value where n = 0: division by zero"),
    "an objective": (
        "OBJECTIVE MINIMIZE wtime / n",
        "objective wtime / n has no value where n = 0",
    ),
    "a metric of all points": ("METRIC m := wtime / (n + 1)", ""),
    "a guess that is wrong everywhere": ("METRIC m := wtime / (maxrss - maxrss)", ""),
    "a guess that is wrong once": ("METRIC m := 1 / (wtime - 1.7)", ""),
    "texts": ("METRIC t FROM stdout REGEX 'x'\nMETRIC m := n if match(t, 'a') else 0", ""),
    "an inactive parameter": ("PARAM q = { 1 } WHEN n == 1\nMETRIC m := wtime / q", ""),
}


@pytest.mark.parametrize("title", FORMULAS)
def test_formulas_without_a_value_at_some_points_are_warned_of(write, title):
    directives, told = FORMULAS[title]
    path = write(f'PARAM n = {{ 0:3 }}\nRUN "true {{n}}"\n{directives}')
    found = [each.message for each in doubtful_formulas(scan(path))]
    assert len(found) == bool(told)
    assert told in "".join(found)
    assert ("has no value" in CliRunner().invoke(app, ["check", str(path)]).output) == bool(told)


BLANKS = {
    "an assignment": ("ASSIGN q = { 1, 2 } WHEN s == 1", "", "q ="),
    "an operand": ("SUBSTITUTE Q = { 1, 2 } WHEN s == 1", "int q = Q;", "int q = ;"),
    "an argument": ("SUBSTITUTE Q = { 1, 2 } WHEN s == 1", "f(1, Q);", "f(1, );"),
}


@pytest.mark.parametrize("title", BLANKS)
def test_a_condition_that_leaves_nothing_behind_is_warned_of(tmp_path, title):
    directive, code, shown = BLANKS[title]
    head = '//ZEN$ PARAM s = { 1, 2 }\n//ZEN$ RUN "./p {s}"\n'
    file = tmp_path / "p.c"
    file.write_text(f"{head}//ZEN$ {directive}\n{code}\n")
    (found,) = lint(scan(file))
    assert found.message.endswith(f"is empty: {shown}")
    for default in ("0", '""'):
        file.write_text(f"{head}//ZEN$ {directive} DEFAULT {default}\n{code}\n")
        assert lint(scan(file)) == ()


def test_a_word_that_may_be_missing_is_left_in_peace(tmp_path):
    file = tmp_path / "a.sh"
    file.write_text(
        '# ZEN$ PARAM s = { 1, 2 }\n# ZEN$ RUN "sh a.sh {s}"\n'
        "# ZEN$ SUBSTITUTE OPTION = { -v } WHEN s == 1\n./p OPTION\n"
    )
    assert lint(scan(file)) == ()


def test_a_fault_is_told_once_though_each_point_has_other_words_for_it(write):
    (fault,) = refusals(scan(write('PARAM n = { 1:3 }\nRUN "x" CPUS n - 5')))
    assert fault.place.line == 2
