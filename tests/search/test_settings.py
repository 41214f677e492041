"""Settings are read from texts, and what is wrong is told all at once."""

from dataclasses import dataclass
from typing import Literal

import pytest

import zenturio as zen
from zenturio.errors import InputError, NotFoundError
from zenturio.search import Directions, SearchProblem, describe, make, names, setting, settings_of
from zenturio.settings.schema import described


@dataclass(frozen=True)
class Sample:
    population: int = setting(150, "individuals", low=2)
    rate: float = setting(0.9, "chance", low=0, high=1)
    elite: bool = setting(True, "keep the best")
    kind: Literal["single", "uniform"] = setting("single", "how")
    steps: int | None = setting(None, "as many as fit")
    word: str = setting("x", "anything")


def test_texts_become_values():
    given = {"population": "50", "rate": "0.25", "elite": "no", "kind": "uniform", "steps": "auto"}
    assert settings_of(Sample, given) == Sample(50, 0.25, False, "uniform", None, "x")
    assert settings_of(Sample, {"steps": "1e2"}) == Sample(steps=100)


def test_values_are_taken_as_they_are():
    assert settings_of(Sample, {"population": 7, "elite": True, "steps": None}).population == 7


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("population", "1", "from 2 on"),
        ("population", "2.5", "a whole number from 2 on"),
        ("population", True, "a whole number"),
        ("rate", "2", "from 0 to 1"),
        ("rate", "nan", "a number from 0 to 1"),
        ("elite", "maybe", "true or false"),
        ("kind", "unifrom", "did you mean 'uniform'"),
        ("poulation", "3", "did you mean 'population'"),
    ],
)
def test_what_is_wrong_says_what_would_be_right(name, value, told):
    with pytest.raises(InputError, match=told):
        settings_of(Sample, {name: value})


def test_all_that_is_wrong_is_told_at_once():
    with pytest.raises(InputError) as caught:
        settings_of(Sample, {"rate": "9", "kind": "none", "nothing": 1})
    assert len(caught.value.diagnostics) == 3


def test_settings_describe_themselves():
    listed = {each.name: each for each in described(Sample)}
    assert listed["population"].help == "individuals"
    assert (listed["population"].type, listed["population"].default) == ("int", 150)
    assert listed["kind"].choices == ("single", "uniform")
    assert listed["steps"].optional


@pytest.mark.parametrize("name", names())
def test_every_engine_says_what_it_does_and_what_each_setting_is(name):
    found = describe(name)
    assert found.about
    assert len(found.about) <= 100
    assert all(each.help for each in found.settings)


def test_an_engine_that_is_not_there_is_corrected():
    with pytest.raises(NotFoundError, match="did you mean 'random'"):
        make("randon", SearchProblem(zen.Space(x=[1])))


def test_an_engine_without_variants_takes_none():
    with pytest.raises(InputError, match="no variants"):
        make("random:TPE", SearchProblem(zen.Space(x=[1]), Directions()))


def test_a_continuous_space_cannot_be_swept():
    with pytest.raises(InputError, match="infinitely many points"):
        make("exhaustive", SearchProblem(zen.Space(x=zen.uniform(0, 1))))
