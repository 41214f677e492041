"""What is measured again is measured whole or not at all."""

from contextlib import closing
from dataclasses import replace

import pytest

from zenturio.annotate.scan import scan
from zenturio.errors import InputError
from zenturio.experiment import ExperimentGenerator
from zenturio.experiment.experiment import Log, Missing, Outcome, Series
from zenturio.record import DriverProcess, StudyDefinition
from zenturio.record.open import open_repository
from zenturio.study import reprocess_experiments
from zenturio.study.overview import opened_repository
from zenturio.study.recorded_definition import DIGESTS, define_study
from zenturio.study.reprocess_experiments import OutcomeSpool
from zenturio.study.stages.stage_graph import built_on, stages_of
from zenturio.testing.experiments import outcome


def test_an_error_in_the_middle_changes_nothing_and_a_second_call_does_it_all(
    tmp_path, monkeypatch
):
    from tests.cli.conftest import SMALL, zen

    program = tmp_path / "small.py"
    program.write_text(SMALL)
    zen("run", program.name, "-j", 2, cwd=tmp_path)
    program.write_text(
        SMALL.replace("#ZEN$ OBJ", '#ZEN$ METRIC w FROM stdout REGEX "(t\\w+)"\n#ZEN$ OBJ')
    )
    monkeypatch.chdir(tmp_path)
    outcomes, count = reprocess_experiments._Again.outcomes, iter(range(100))

    def failing(*arguments):
        if next(count) == 4:
            raise MemoryError
        return outcomes(*arguments)

    monkeypatch.setattr(reprocess_experiments, "BATCH", 2)
    with opened_repository(None) as repository:
        before = repository.definition("small"), list(repository.records("small"))
        monkeypatch.setattr(reprocess_experiments._Again, "outcomes", failing)
        with pytest.raises(MemoryError):
            reprocess_experiments.extract(repository, "small")
        assert (repository.definition("small"), list(repository.records("small"))) == before
        monkeypatch.undo()
        monkeypatch.chdir(tmp_path)
        done = reprocess_experiments.extract(repository, "small")
        assert (done.experiments, done.metrics, done.missing) == (7, ("w",), 0)
        assert {r.outcome.metrics["w"] for r in repository.records("small")} == {"total"}


def test_a_run_that_finds_all_cached_names_metrics_that_were_added(tmp_path):
    from tests.cli.conftest import SMALL, zen

    program = tmp_path / "small.py"
    program.write_text(SMALL)
    zen("run", program.name, "-j", 2, cwd=tmp_path)
    assert "new" not in zen("run", program.name, cwd=tmp_path).out
    computed = SMALL.replace("#ZEN$ OBJ", "#ZEN$ METRIC bend := -wtime\n#ZEN$ OBJ")
    program.write_text(computed)
    assert (
        "bend is new: cached results have no value of it; zen extract small finds it in the"
        " recorded output"
    ) in zen("run", program.name, cwd=tmp_path).out
    zen("extract", "small", cwd=tmp_path)
    assert "new" not in zen("run", program.name, cwd=tmp_path).out
    program.write_text(computed.replace("-wtime", "-2 * wtime"))
    out = zen("run", program.name, cwd=tmp_path).out
    assert "new" not in out
    assert (
        "the definition of bend changed: cached results still have the earlier values; zen extract"
        " small replaces them"
    ) in out
    zen("extract", "small", cwd=tmp_path)
    assert "changed" not in zen("run", program.name, cwd=tmp_path).out
    with opened_repository(str(tmp_path / ".zenturio" / "zenturio.db")) as repository:
        metrics = [record.outcome.metrics for record in repository.records("small")]
    assert {each["bend"] / each["wtime"] for each in metrics} == {-2.0}


def test_what_was_measured_comes_back_as_it_was_as_often_as_it_is_asked_for():
    metrics = {
        "a": 2**70, "b": True, "c": -0.0, "d": float("inf"), "e": Missing("no \ud800"),
        "f": Series((1, 2.5, "x\0")), "ü": "\n",
    }  # fmt: skip
    outcomes = [Outcome(f"{i:032x}", "failed", "a\nb", metrics) for i in range(3)]
    with OutcomeSpool() as measured:
        measured.add(outcomes)
        assert list(measured) == list(measured) == outcomes
    assert outcomes[0].stdout == Log()


PROGRAM = """\
#ZEN$ ENV N = { 1:4 } AS n
#ZEN$ RUN "sh p.sh"
#ZEN$ METRIC a FROM stdout REGEX "a=(\\d+)"
#ZEN$ METRIC b FROM stdout REGEX "b=(\\d+)"
"""


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """Four experiments that ended: three printed a, all b, and c stands in stderr; one did not end well."""
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "p.sh"
    program.write_text(PROGRAM)
    application = scan([program])
    generator = ExperimentGenerator(application)
    with closing(open_repository(tmp_path / "a.db")) as repository:
        repository.open("p", define_study(application, 4, generator.former_program))
        lease = repository.acquire_lease("p", DriverProcess.current())
        pairs = []
        for index in range(4):
            (each,) = generator.experiments(application.space.point(index))
            said = f"a={index}\nb=7\n" if index else "b=7\n"
            log, errors = Log(said.encode(), b"", len(said)), Log(b"c=5\n", b"", 4)
            metrics = {"a": index or Missing("no a"), "b": 7, "own": index}
            status, cause, code = ("ok", "", 0) if index else ("failed", "metric missing: a", 0)
            if index == 3:
                status, cause, code = "failed", "exit 3", 3
            result = replace(outcome(each, status, metrics), cause=cause, exit=code)
            pairs.append((each, replace(result, stdout=log, stderr=errors)))
        repository.add_results("p", lease.number, pairs)
        repository.release_lease(lease)
        yield repository, program


def states(repository):
    records = repository.records("p")
    return [(r.outcome.status, r.outcome.cause, dict(r.outcome.metrics)) for r in records]


def test_a_metric_that_is_added_is_measured_and_the_others_stay(measured):
    repository, program = measured
    before = states(repository)
    program.write_text(PROGRAM + '#ZEN$ METRIC c FROM stderr REGEX "c=(\\d+)"\n')
    counts = []
    result = reprocess_experiments.extract(repository, "p", [str(program)], counts.append)
    assert (result.study, result.experiments, result.metrics, result.gone) == ("p", 4, ("c",), ())
    assert (result.missing, result.failed, result.mended, result.changes) == (0, 0, 0, ())
    assert counts == [4]
    assert states(repository) == [(s, cause, {**m, "c": 5}) for s, cause, m in before]
    assert [field.name for field in repository.definition("p").metrics][-1] == "c"


def test_a_metric_that_is_lacking_fails_experiments_and_one_that_is_there_mends_them(measured):
    repository, program = measured
    before = states(repository)
    program.write_text(PROGRAM.replace('"b=(', '"z=('))
    preview = reprocess_experiments.extract(repository, "p", [str(program)], really=False)
    assert (preview.missing, preview.failed, preview.mended) == (4, 2, 0)
    assert states(repository) == before
    assert reprocess_experiments.extract(repository, "p", [str(program)]) == preview
    assert [(s, cause) for s, cause, _ in states(repository)] == [
        ("failed", "metric missing: a, b"), ("failed", "metric missing: b"),
        ("failed", "metric missing: b"), ("failed", "exit 3"),
    ]  # fmt: skip
    program.write_text(PROGRAM.replace('"a=(\\d+)"', '"[ab]=(\\d+)"'))
    mended = reprocess_experiments.extract(repository, "p", [str(program)])
    assert (mended.missing, mended.failed, mended.mended) == (0, 0, 3)
    assert [s for s, _, _ in states(repository)] == ["ok", "ok", "ok", "failed"]


def test_a_metric_that_the_files_ask_for_no_more_keeps_its_values(measured):
    repository, program = measured
    lines = PROGRAM.splitlines(keepends=True)
    program.write_text("".join(lines[:-1]) + "#ZEN$ METRIC twice := a * 2\n")
    result = reprocess_experiments.extract(repository, "p", [str(program)])
    assert (result.gone, result.metrics) == (("b",), ("twice",))
    assert [m["b"] for _, _, m in states(repository)] == [7] * 4
    assert [m["twice"] for _, _, m in states(repository)][1:] == [2, 4, 6]


def test_a_study_of_former_digests_stays_one(measured):
    """What runs next tells by which digests its results are known."""
    repository, program = measured
    definition = repository.definition("p")
    notes = {name: note for name, note in definition.notes.items() if name != DIGESTS}
    repository.open("p", replace(definition, notes=notes))
    assert DIGESTS not in repository.definition("p").notes
    program.write_text(PROGRAM + '#ZEN$ METRIC c FROM stderr REGEX "c=(\\d+)"\n')
    assert reprocess_experiments.extract(repository, "p", [str(program)]).metrics == ("c",)
    assert DIGESTS not in repository.definition("p").notes


def test_a_program_that_changed_otherwise_is_told(measured):
    repository, program = measured
    sources = repository.definition("p").sources
    program.write_text(PROGRAM + "echo more\n")
    (change,) = reprocess_experiments.extract(repository, "p", [str(program)]).changes
    assert "p.sh" in change
    assert repository.definition("p").sources == sources


def test_a_program_that_waits_for_a_stage_has_not_changed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mesh.sh").write_text('#ZEN$ PARAM n = { 1, 2 }\n#ZEN$ RUN "true"\n')
    program = tmp_path / "solve.sh"
    program.write_text(
        '#ZEN$ PARAM n = { 1, 2 }\n#ZEN$ AFTER "mesh" ON n\n#ZEN$ RUN "echo {n}"\n'
        '#ZEN$ METRIC a FROM stdout REGEX "(.*)"\n'
    )
    application = scan([program])
    parts = ExperimentGenerator(application).program | built_on(stages_of(application))[-1]
    with closing(open_repository(tmp_path / "a.db")) as repository:
        repository.open("solve", define_study(application, 2, parts))

        def changes():
            return reprocess_experiments.extract(repository, "solve", really=False).changes

        assert changes() == ()
        (tmp_path / "mesh.sh").write_text('#ZEN$ PARAM n = { 1, 2 }\n#ZEN$ RUN "date"\n')
        assert changes() == ("AFTER mesh changed",)
        (tmp_path / "mesh.sh").unlink()
        assert changes() == ()


def test_files_that_nobody_named_are_asked_for(measured):
    repository, _ = measured
    repository.open("bare", StudyDefinition((), ()))
    with pytest.raises(InputError, match="study bare has no annotated files") as caught:
        reprocess_experiments.extract(repository, "bare")
    assert caught.value.diagnostics[0].hint == "name them: zen extract STUDY PATH"


COMMAS = """\
#ZEN$ PARAM n = { 1:3 }
#ZEN$ RUN "sh -c 'echo cut: {n}1, in mode fast'"
#ZEN$ METRIC cut FROM stdout REGEX "cut: (\\S+)"
#ZEN$ METRIC mode FROM stdout REGEX "mode (\\w+)"
#ZEN$ METRIC second FROM stdout REGEX "cut: (\\d+)" WHEN n == 2
"""


def test_the_kind_of_a_column_follows_what_is_extracted(tmp_path):
    from tests.cli.conftest import zen

    program = tmp_path / "p.sh"
    program.write_text(COMMAS)
    first = zen("run", "p.sh", cwd=tmp_path)
    assert r"cut is the text '11,', not a number: capture the number alone, such as (\d+)" in (
        first.err + first.out
    ).replace("'21,'", "'11,'").replace("'31,'", "'11,'")
    table = zen("results", "p", "--agg", "mean", cwd=tmp_path).out
    assert "mean(cut)" not in table
    program.write_text(COMMAS.replace("(\\S+)", "(\\d+)"))
    assert zen("extract", "p", cwd=tmp_path).out.splitlines() == [
        "p: 3 experiments measured again: cut"
    ]
    table = zen("results", "p", "--agg", "mean", cwd=tmp_path).out
    assert "mean(cut)" in table
    assert "not always a number" not in table
    # Back again: nothing is lost that a column may hold.
    program.write_text(COMMAS)
    zen("extract", "p", cwd=tmp_path)
    assert "mean(cut)" not in zen("results", "p", "--agg", "mean", cwd=tmp_path).out


def test_a_pattern_that_extracts_a_part_of_a_number_is_told(tmp_path):
    from tests.cli.conftest import zen

    program = tmp_path / "p.sh"
    program.write_text(COMMAS)
    zen("run", "p.sh", cwd=tmp_path)
    program.write_text(COMMAS.replace('"cut: (\\S+)"', '"cut: (\\d)"'))
    lines = zen("extract", "p", cwd=tmp_path).out.splitlines()
    assert len(lines) == 2
    assert lines[1][7:] in [rf"{n}, a part of '{n}1': write cut: (\d+)" for n in (1, 2, 3)]


def test_an_objective_that_is_added_later_refuses_texts_and_says_how_to_mend_them(tmp_path):
    from tests.cli.conftest import zen

    program = tmp_path / "p.sh"
    program.write_text(COMMAS)
    zen("run", "p.sh", cwd=tmp_path)
    program.write_text(COMMAS + "#ZEN$ OBJECTIVE MINIMIZE cut\n")
    lines = zen("extract", "p", cwd=tmp_path).out.splitlines()
    assert lines[1].startswith("cut is missing in 3: the text ")
    assert lines[2] == (
        "3 experiments that were ok fail for this: correct the METRIC, and repeat zen extract;"
        " OPTIONAL lets a metric be missing"
    )
