"""The files of an experiment are made again from what was kept, and only a true reason stops it."""

from contextlib import closing
from dataclasses import replace

import pytest

from zenturio.annotate.scan import scan
from zenturio.experiment import ExperimentGenerator
from zenturio.record import DriverProcess
from zenturio.record.open import open_repository
from zenturio.study.recorded_definition import define_study
from zenturio.study.reprocess_experiments import UnfilledError, files_of
from zenturio.testing.experiments import outcome

STUDIES = {
    "a seed that is its number": "REPEAT 3 SEED s",
    "a seed to count from": "REPEAT 3 SEED s\n# ZEN$ PARAM s = { 7 }",
    "seeds one by one": "REPEAT 3 SEED s\n# ZEN$ PARAM s = { a, b, c }",
    "repeats without a seed": "REPEAT 3",
    "a condition": "PARAM q = { 1, 2 } WHEN n == 1 DEFAULT 0",
    "a derived parameter": "PARAM half := n / 2",
    "real numbers": "PARAM x = { 0.1:0.5:0.1 }",
    "truths": "PARAM b = { yes, no } TYPE bool",
}


def rows(folder, text):
    """The definition, the experiments by digest, and the records, as a database gives them back."""
    program = folder / "a.sh"
    program.write_text(text)
    application = scan(program)
    generator, space = ExperimentGenerator(application), application.space
    made = [e for i in range(space.size) for e in generator.experiments(space.point(i))]
    definition = define_study(application, len(made), generator.program)
    with closing(open_repository(str(folder / "zenturio.db"))) as repository:
        repository.open("a", definition)
        driver = repository.acquire_lease("a", DriverProcess.current()).number
        repository.add_results("a", driver, [(each, outcome(each)) for each in made])
        by_digest = {e.digest: e for e in made}
        return repository.definition("a"), by_digest, list(repository.records("a"))


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_that_nobody_edited_can_be_filled_again(name, tmp_path):
    head = f'# ZEN$ SUBSTITUTE N = {{ 1, 2 }} AS n\n# ZEN$ {STUDIES[name]}\n# ZEN$ RUN "sh a.sh"\n'
    definition, made, records = rows(tmp_path, head + "echo N\n")
    assert len(records) == len(made) > 1
    for record in records:
        expected = {f.path: f.content.decode() for f in made[record.digest].files}
        assert files_of(definition, record) == expected


def test_a_value_that_no_set_holds_any_more_is_named(tmp_path):
    definition, _, records = rows(tmp_path, '# ZEN$ PARAM n = { 1 }\n# ZEN$ RUN "true"\n')
    other = replace(records[0], values={"n": 5})
    with pytest.raises(UnfilledError, match=r"have changed since it ran: .*5"):
        files_of(definition, other)
