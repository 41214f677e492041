"""What the repository is told of a study."""

import pytest

from zenturio.annotate.scan import scan
from zenturio.experiment import ExperimentGenerator
from zenturio.study.recorded_definition import (
    DIGESTS,
    FORMER_PROGRAM,
    changes_of,
    define_study,
    is_same_program,
    spaces_of,
)
from zenturio.study.recorded_definition import (
    PROGRAM as PROGRAM_NOTE,
)

PROGRAM = """\
# ZEN$ PARAM n = { 1, 2 }
# ZEN$ RUN "true {n}"
# ZEN$ METRIC energy EXACT
# ZEN$ METRIC loss
# ZEN$ METRIC atoms := 2 * n
# ZEN$ METRIC part := energy / atoms
# ZEN$ METRIC power := part / wtime
# ZEN$ METRIC gain := power + energy
# ZEN$ METRIC rounded := round(loss) EXACT
# ZEN$ METRIC twice := 2 * rounded
"""


@pytest.mark.parametrize("order", [1, -1])
def test_what_is_declared_exact_or_computed_from_it_alone_is_exact(tmp_path, order):
    lines = PROGRAM.splitlines(keepends=True)
    (tmp_path / "a.py").write_text("".join([*lines[:2], *lines[2:][::order]]))
    application = scan([tmp_path / "a.py"])
    fields = define_study(application, 2, ExperimentGenerator(application).program).metrics
    assert {field.name for field in fields if field.exact} == {
        "energy",
        "atoms",
        "part",
        "rounded",
        "twice",
    }


METRICS = {
    'a FROM stdout REGEX "x=(.)"': 'FROM stdout REGEX "x=(.)" TAKE LAST',
    'b FROM stderr REGEX "x" TAKE first': 'FROM stderr REGEX "x" TAKE FIRST',
    'c FROM "o.json" JSON "$.k.v" TAKE all': 'FROM o.json JSON "$.k.v" TAKE ALL',
    'd FROM "o.csv" CSV COLUMN "t" WHERE n == 1': (
        'FROM o.csv CSV COLUMN "t" WHERE n == 1 TAKE LAST'
    ),
    'e FROM "o.bin" SIZE': "FROM o.bin SIZE TAKE LAST",
    "f := 2 * a": ":= 2 * a",
}


def test_what_measures_a_metric_is_the_same_text_for_the_same_way(tmp_path):
    lines = [f"# ZEN$ METRIC {text}\n" for text in METRICS]
    directives = ['# ZEN$ RUN "true"\n', *lines, "# ZEN$ OBSERVE memory\n"]
    (tmp_path / "a.py").write_text("".join(directives))
    application = scan([tmp_path / "a.py"])
    definition = define_study(application, 1, ExperimentGenerator(application).program)
    declared = [field.how for field in definition.metrics if field.how != "always"]
    assert declared[: len(METRICS)] == list(METRICS.values())
    assert set(declared[len(METRICS) :]) == {"OBSERVE memory"}
    assert [f.name for f in definition.metrics if f.how == "always"] == [
        "wtime", "ctime", "maxrss", "exit",
    ]  # fmt: skip


def test_the_notes_of_a_study_say_how_it_was_defined(tmp_path):
    text = """\
# ZEN$ PARAM n = { 1, 2 } UNIT "MB"
# ZEN$ PARAM twice := 2.5 * n
# ZEN$ CONSTRAINT VALUE n > 0
# ZEN$ REPEAT 2:5 SEED s UNTIL t WITHIN 10% WARMUP 1
# ZEN$ BUILD "true"
# ZEN$ RUN "echo {n} {s} {twice}"
# ZEN$ OUTPUT "o*"
# ZEN$ METRIC t FROM stdout REGEX "(.)"
# ZEN$ OBJECTIVE MAXIMIZE t / n
"""
    (tmp_path / "a.py").write_text(text)
    (tmp_path / "data").write_text("no directive")
    application = scan([tmp_path])
    definition = define_study(application, 10, {"a.py": "1"}, {"a.py": "0"})
    fields = [(f.name, f.type, f.unit, f.kind) for f in definition.parameters]
    assert [field[:3] for field in fields] == [
        ("n", "int", "MB"), ("twice", "real", ""), ("s", "int", ""),
    ]  # fmt: skip
    assert list(definition.goals) == [{"direction": "maximize", "expression": "t / n"}]
    assert list(definition.sources) == ["a.py"]
    notes = definition.notes
    facts = ("constraints", "runs", "builds", "outputs", "experiments", "warmup", "overrides")
    assert [notes.get(fact) for fact in facts] == [
        ["n > 0"], ["echo {n} {s} {twice}"], ["true"], ["o*"], 10, 1, [],
    ]  # fmt: skip
    assert (notes["root"], notes["paths"]) == (str(tmp_path), [str(tmp_path)])
    assert (notes[PROGRAM_NOTE], notes[FORMER_PROGRAM]) == ({"a.py": "1"}, {"a.py": "0"})
    for former in (None, {"a.py": "1"}):
        again = define_study(application, 10, {"a.py": "1"}, former)
        assert FORMER_PROGRAM not in again.notes


def test_programs_are_compared_by_their_parts():
    one, other = {"a": "1", "b": "1"}, {"b": "2", "c": "1"}
    assert changes_of(one, other) == ("c is new", "a is gone", "b changed")
    assert changes_of(one, dict(one)) == ()
    now = {PROGRAM_NOTE: one, FORMER_PROGRAM: other, DIGESTS: 2}
    assert is_same_program({PROGRAM_NOTE: one, DIGESTS: 2}, now)
    assert not is_same_program({PROGRAM_NOTE: other, DIGESTS: 2}, now)
    # Before formats were written down, programs were told apart as the first one does.
    assert is_same_program({PROGRAM_NOTE: other}, now)
    assert not is_same_program({PROGRAM_NOTE: one}, now)
    assert not is_same_program({}, now)


def test_the_spaces_of_a_study_are_those_of_its_present_program(tmp_path):
    (tmp_path / "a.py").write_text('# ZEN$ PARAM n = { 1 }\n# ZEN$ RUN "true"\n')
    space = scan([tmp_path / "a.py"]).space
    now = {PROGRAM_NOTE: {"a": "1"}}
    (only,) = spaces_of({}, now, space)
    assert spaces_of({**now, "spaces": ["z", only]}, now, space) == sorted({"z", only})
    assert spaces_of(now, now, space) == sorted({"unknown", only})
    assert spaces_of({PROGRAM_NOTE: {"a": "2"}, "spaces": ["z"]}, now, space) == [only]
