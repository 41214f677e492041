"""Results before an edit become those of the program after it, only where the two agree."""

from contextlib import closing

import pytest
from typer.testing import CliRunner

from zenturio.annotate.scan import scan
from zenturio.cli.main import app
from zenturio.errors import ConflictError, InputError, NotFoundError
from zenturio.experiment import ExperimentGenerator
from zenturio.record import DriverProcess
from zenturio.record.consistency_check import check_consistency
from zenturio.record.open import open_repository
from zenturio.show.python_api import Study
from zenturio.study.equate import equate, undo_equate
from zenturio.study.overview import find_experiment
from zenturio.study.recorded_definition import define_study, open_version
from zenturio.study.reprocess_experiments import UnfilledError, files_of
from zenturio.testing.experiments import outcome

HEAD = """\
# ZEN$ SUBSTITUTE N = { 1, 2, 3 } AS n
# ZEN$ SUBSTITUTE LEVEL = { low, high } AS level
# ZEN$ RUN "sh a.sh"
"""
PROGRAM = HEAD + "echo N LEVEL\n"
EDITED = PROGRAM + "# nothing that matters\n"


@pytest.fixture
def repository(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a repository on a server begins the project of the folder
    with closing(open_repository(url)) as found:
        yield found


@pytest.fixture
def program(tmp_path):
    """Writes the program anew, and says which experiments it has."""
    path = tmp_path / "program" / "a.sh"
    path.parent.mkdir()

    def write(text):
        path.write_text(text)
        application = scan(path)
        generator, space = ExperimentGenerator(application), application.space
        made = [e for i in range(space.size) for e in generator.experiments(space.point(i))]
        return define_study(application, len(made), generator.program), made

    return write


def measure(repository, definition, experiments, **metrics):
    open_version(repository, "a", definition)
    lease = repository.acquire_lease("a", DriverProcess.current())
    repository.add_results("a", lease.number, [(e, outcome(e, **metrics)) for e in experiments])
    repository.release_lease(lease)


def test_results_before_an_edit_are_cached_after_it(repository, program):
    measure(repository, *program(PROGRAM))
    definition, experiments = program(EDITED)
    equated = equate(repository, "a@1")
    assert (equated.accepted, equated.outside, equated.archived) == (6, 0, "a@1")
    assert equated.changes == ("a.sh changed",)
    assert open_version(repository, "a", definition) is None, "a run begins no other version"
    digests = {each.digest for each in experiments}
    assert repository.cached("a", experiments) == digests
    assert {each.digest for each in repository.records("a")} == digests
    for record in repository.records("a"):
        assert repository.equated_result("a", record.digest).person == equated.person
    assert check_consistency(repository._database) == []


def test_a_version_that_a_run_has_begun_is_filled_and_what_it_measured_stays(repository, program):
    measure(repository, *program(PROGRAM), time=1.0)
    definition, experiments = program(EDITED)
    measure(repository, definition, experiments[:2], time=2.0)
    equated = equate(repository, "a@1")
    assert (equated.accepted, equated.cached, equated.archived) == (4, 2, "")
    times = [each.outcome.metrics["time"] for each in repository.records("a")]
    assert times == [2.0] * 2 + [1.0] * 4
    assert undo_equate(repository, "a@1") == 4
    assert len(list(repository.records("a"))) == 2
    assert [event.kind for event in repository.events("a")].count("equated") == 2
    assert check_consistency(repository._database) == []


def test_only_values_that_the_program_still_has_are_taken_over(repository, program):
    measure(repository, *program(PROGRAM))
    _, experiments = program(EDITED.replace("{ 1, 2, 3 }", "{ 2, 3, 4 }"))
    equated = equate(repository, "a@1")
    assert (equated.accepted, equated.outside) == (4, 2)
    present = {each.digest: each for each in experiments}
    for record in repository.records("a"):
        assert dict(record.values) == dict(present[record.digest].values)
        assert record.index == present[record.digest].index


@pytest.mark.parametrize(
    ("before", "after", "accepted"),
    [
        ("REPEAT 3 SEED s", "REPEAT 2 SEED s", 12),
        ("REPEAT 2 SEED s\n# ZEN$ PARAM s = { 7 }", "REPEAT 2 SEED s\n# ZEN$ PARAM s = { 8 }", 0),
        ("PARAM half := n / 2", "PARAM half := n * 2", 0),
        ("PARAM x = { 1 }", "PARAM x = { 1.0 }", 0),
    ],
)
def test_repeats_seeds_and_computed_values_have_to_agree(
    repository, program, before, after, accepted
):
    measure(repository, *program(f"# ZEN$ {before}\n{PROGRAM}"))
    program(f"# ZEN$ {after}\n{EDITED}")
    if accepted:
        assert equate(repository, "a@1").accepted == accepted
    else:
        with pytest.raises(InputError, match="no result of a@1 is for a point"):
            equate(repository, "a@1")
        assert repository.study("a").version == 1, "nothing was begun"


def test_other_parameters_are_refused_by_name(repository, program):
    measure(repository, *program(PROGRAM))
    program(EDITED.replace("AS level", "AS grade"))
    with pytest.raises(InputError, match="grade is new, level is gone"):
        equate(repository, "a@1")
    assert repository.study("a").version == 1


def test_a_version_that_is_not_there_or_is_none_is_refused(repository, program):
    measure(repository, *program(PROGRAM))
    with pytest.raises(NotFoundError, match="a@7"):
        equate(repository, "a@7")
    with pytest.raises(InputError, match="there is: a@1"):
        equate(repository, "a")
    with pytest.raises(InputError, match="nothing to accept"):
        equate(repository, "a@1")


def test_while_a_driver_runs_nothing_changes(repository, program):
    measure(repository, *program(PROGRAM))
    program(EDITED)
    repository.acquire_lease("a", DriverProcess.current())
    with pytest.raises(ConflictError):
        equate(repository, "a@1")
    assert repository.study("a").version == 1


def test_a_program_that_was_moved_is_named(repository, program, tmp_path):
    measure(repository, *program(PROGRAM))
    program(EDITED)
    (tmp_path / "program").rename(tmp_path / "moved")
    assert equate(repository, "a@1", [str(tmp_path / "moved" / "a.sh")]).accepted == 6


def test_a_set_aside_original_keeps_what_it_said_when_its_equal_is_deleted(repository, program):
    definition, experiments = program(PROGRAM)
    open_version(repository, "a", definition)
    lease = repository.acquire_lease("a", DriverProcess.current())
    repository.add_results("a", lease.number, [(experiments[0], outcome(experiments[0], "failed"))])
    repository.release_lease(lease)
    program(EDITED)
    equate(repository, "a@1")
    repository.reopen("a@1", [experiments[0].digest])
    removed = repository.delete("a")
    assert removed.experiments == 1
    assert [a.state for a in repository.attempts(experiments[0].digest)] == ["failed"]
    assert check_consistency(repository._database) == []


def test_the_files_that_are_shown_are_those_that_ran(repository, program):
    _, experiments = measured = program(PROGRAM)
    measure(repository, *measured)
    for number, text in enumerate((EDITED, f"{EDITED}# nor this\n"), 1):
        program(text)
        equate(repository, f"a@{number}")
    (first, *_) = repository.records("a")
    found = find_experiment(repository, first.digest)
    assert (found.equality.study, found.origin) == ("a@2", "a@1")
    expected = {f.path: f.content.decode() for f in experiments[0].files}
    assert files_of(found.definition, found.record) == expected
    repository.delete("a@1")
    with pytest.raises(UnfilledError):
        files_of(find_experiment(repository, first.digest).definition, first)


def test_python_accepts_as_the_command_line_does(repository, program):
    measure(repository, *program(PROGRAM))
    program(EDITED)
    study = Study("a", repository)
    assert study.equate(1) == study.equate(1, undo=True) == 6


def test_results_that_depend_on_other_stages_are_refused(repository, program, tmp_path):
    measure(repository, *program(PROGRAM))
    (tmp_path / "program" / "b.sh").write_text('# ZEN$ RUN "true"\n# ZEN$ PARAM n = { 1, 2, 3 }\n')
    (tmp_path / "program" / "a.sh").write_text(f'# ZEN$ AFTER "b.sh" ON n\n{EDITED}')
    with pytest.raises(InputError, match=r"study a has stages before it \(AFTER\)"):
        equate(repository, "a@1", [str(tmp_path / "program" / "a.sh")])
    assert repository.study("a").version == 1


def test_versions_that_nobody_has_recorded_are_refused(repository, program):
    measure(repository, *program(PROGRAM))
    program('# ZEN$ USE VERSION "echo 7"\n' + EDITED)
    with pytest.raises(InputError, match="the output of 'echo 7'"):
        equate(repository, "a@1")


def test_programs_and_files_that_are_used_are_no_versions(repository, program):
    head = '# ZEN$ USE PROGRAM "true"\n'
    measure(repository, *program(head + PROGRAM))
    program(head + EDITED)
    assert equate(repository, "a@1").accepted == 6


def test_undo_is_offered_only_where_a_result_was_accepted(repository, program):
    measure(repository, *program(PROGRAM))
    program(EDITED)
    command = ["equate", "a@1", "--db", repository.location]
    first, again = (CliRunner().invoke(app, command).output for _ in range(2))
    assert "6 results of a@1 accepted" in first
    assert "to undo: zen equate a@1 --undo" in first
    assert "0 results of a@1 accepted" in again
    assert "to undo" not in again
