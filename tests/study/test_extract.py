"""What is measured again is measured whole or not at all."""

import pytest

from zenturio.experiment.experiment import Log, Missing, Outcome, Series
from zenturio.study import extract
from zenturio.study.extract import MeasuredOutcomes
from zenturio.study.overview import opened_repository


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
    outcomes, count = extract._Again.outcomes, iter(range(100))

    def failing(*arguments):
        if next(count) == 4:
            raise MemoryError
        return outcomes(*arguments)

    monkeypatch.setattr(extract, "BATCH", 2)
    with opened_repository(None) as repository:
        before = repository.definition("small"), list(repository.records("small"))
        monkeypatch.setattr(extract._Again, "outcomes", failing)
        with pytest.raises(MemoryError):
            extract.extract(repository, "small")
        assert (repository.definition("small"), list(repository.records("small"))) == before
        monkeypatch.undo()
        monkeypatch.chdir(tmp_path)
        done = extract.extract(repository, "small")
        assert (done.experiments, done.metrics, done.missing) == (7, ("w",), 0)
        assert {r.outcome.metrics["w"] for r in repository.records("small")} == {"total"}


def test_what_was_measured_comes_back_as_it_was_as_often_as_it_is_asked_for():
    metrics = {
        "a": 2**70, "b": True, "c": -0.0, "d": float("inf"), "e": Missing("no \ud800"),
        "f": Series((1, 2.5, "x\0")), "ü": "\n",
    }  # fmt: skip
    outcomes = [Outcome(f"{i:032x}", "failed", "a\nb", metrics) for i in range(3)]
    with MeasuredOutcomes() as measured:
        measured.add(outcomes)
        assert list(measured) == list(measured) == outcomes
    assert outcomes[0].stdout == Log()
