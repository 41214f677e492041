"""Which values of its settings an engine is tuned over: those that are named, or a few of each."""

import pytest

from zenturio.errors import InputError
from zenturio.search import EngineDescription, Setting
from zenturio.study.tuning import tuning_scenario
from zenturio.study.tuning.tuning_scenario import read_ranges

SETTINGS = {
    "choice": (Setting("choice", "str", "a", "", choices=("a", "b")), "a, b"),
    "truth": (Setting("truth", "bool", True, ""), "true, false"),
    "free": (Setting("free", "int", 10, ""), "5, 10, 20"),
    "odd": (Setting("odd", "int", 3, ""), "2, 3, 6"),
    "real": (Setting("real", "float", 0.5, ""), "0.25, 0.5, 1"),
    "least": (Setting("least", "int", 10, "", low=8), "8, 10, 20"),
    "most": (Setting("most", "int", 10, "", high=15), "5, 10, 15"),
    "share": (Setting("share", "float", 0.2, "", low=0, high=1), "0.1, 0.2, 0.4"),
    "near_one": (Setting("near_one", "float", 0.9, "", low=0, high=1), "0.8, 0.9, 0.95"),
    "half": (Setting("half", "float", 0.5, "", low=0, high=1), "0.25, 0.5, 1"),
    "auto": (Setting("auto", "int", None, "", optional=True), "auto, 20, 50, 100"),
    "auto_from": (Setting("auto_from", "int", None, "", low=50, optional=True), "auto, 50, 100"),
    "auto_real": (Setting("auto_real", "float", None, "", optional=True), "auto, 0.1, 1, 10"),
    "auto_both": (
        Setting("auto_both", "int", None, "", low=0, high=1000, optional=True), "auto, 10, 100",
    ),
}  # fmt: skip
TEXT = Setting("text", "str", "x", "")


def engine(*settings):
    return EngineDescription("e", "", settings, multi_objective=False)


def test_a_few_values_stand_for_a_setting_that_is_named_alone():
    described = engine(*(setting for setting, _ in SETTINGS.values()), TEXT)
    expected = {name: f"{{ {few} }}" for name, (_, few) in SETTINGS.items()}
    assert read_ranges(described, list(SETTINGS)).sets == expected
    every = read_ranges(described, [])  # a text could be anything
    assert (every.sets, every.given) == (expected, False)
    assert read_ranges(described, ["text"]).sets == {"text": "{ x }"}


def test_sets_are_cut_at_commas_outside_of_braces_and_quotes():
    described = engine(TEXT, SETTINGS["free"][0], SETTINGS["real"][0])
    for written in (
        ["free={1,2},text={'a,b', \"c}\"},real=0.5"],
        ["free={1,2}", " text = {'a,b', \"c}\"} ", "real=0.5", ","],
    ):
        ranges = read_ranges(described, written)
        assert ranges.sets == {
            "free": "{1,2}", "text": "{'a,b', \"c}\"}", "real": "{ 0.5 }",
        }  # fmt: skip
        assert ranges.given
    python = {"free": range(1, 4), "text": "a", "real": (0.5, 1.5)}
    assert read_ranges(described, python).sets == {
        "free": "{ 1, 2, 3 }", "text": "{ a }", "real": "{ 0.5, 1.5 }",
    }  # fmt: skip
    truths = read_ranges(engine(SETTINGS["truth"][0]), {"truth": [True, False]})
    assert truths.sets == {"truth": "{ true, false }"}
    assert read_ranges(engine(SETTINGS["auto"][0]), {"auto": None}).sets == {"auto": "{ auto }"}


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (["fre=1"], "did you mean 'free'"),
        (["free=1", "free=2"], "names free twice"),
        (["free={1,x}"], "x"),
        (["least=7"], "8"),
        (["free={1:10001}"], "free has 10,001 values"),
    ],
)
def test_what_a_setting_cannot_be_is_told(written, message):
    described = engine(*(setting for setting, _ in SETTINGS.values()))
    with pytest.raises(InputError) as refused:
        read_ranges(described, written)
    assert message in str(refused.value)


def test_all_mistakes_are_told_at_once_and_the_most_values_are_allowed(monkeypatch):
    with pytest.raises(InputError) as refused:
        read_ranges(engine(SETTINGS["free"][0]), ["free=x", "other=1"])
    assert len(refused.value.diagnostics) == 2
    with pytest.raises(InputError, match="has no settings"):
        read_ranges(engine(), ["free=1"])
    monkeypatch.setattr(tuning_scenario, "MOST", 3)
    assert read_ranges(engine(SETTINGS["free"][0]), ["free={1:3}"]).given
    with pytest.raises(InputError, match="free has 4 values"):
        read_ranges(engine(SETTINGS["free"][0]), ["free={1:4}"])
