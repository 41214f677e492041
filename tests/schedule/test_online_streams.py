"""Streams by their words: files and generators with times of arrival."""

import json

import pytest

from zenturio.errors import InputError, NotFoundError
from zenturio.schedule.formats.files import write_workflow
from zenturio.schedule.generators.generator import generate
from zenturio.schedule.online.stream import is_stream, stream_of, times_of


def arrived(*words, seed=0):
    stream, _ = stream_of(words, seed)
    return [(each.name, each.arrival) for each in stream.submissions]


def written(tmp_path, text):
    path = tmp_path / "stream.toml"
    path.write_text(text)
    return str(path)


def test_workflows_come_when_their_words_say():
    assert arrived("gee@7", "maxdo", "maxdo@0.5") == [
        ("maxdo-1", 0),
        ("maxdo-2", 0.5),
        ("gee", 7),
    ]


def test_first_last_and_every_make_a_series_that_has_its_last():
    assert list(times_of("0:1:0.1"))[-1] == pytest.approx(1)
    assert list(times_of("3:10:4")) == [3, 7]
    assert arrived("maxdo@0:24:12") == [("maxdo-1", 0), ("maxdo-2", 12), ("maxdo-3", 24)]


def test_a_workflow_may_be_a_file_even_if_its_name_looks_like_a_time(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_workflow(generate("gee").workflow, tmp_path / "flow@5.json")
    (tmp_path / "flow@5.json").rename(tmp_path / "flow.json@5")
    assert not is_stream(["flow.json@5"])
    assert arrived("flow.json@5", "flow.json@5@6") == [("gee-1", 0), ("gee-2", 6)]


def test_a_file_tells_workflows_beside_it_and_generators(tmp_path):
    write_workflow(generate("gee").workflow, tmp_path / "flow.json")
    path = written(
        tmp_path,
        """
        name = "monday"
        [[submit]]
        workflow = "flow.json"
        at = [5, "1min"]
        name = "mine"
        [[submit]]
        workflow = "maxdo:spread=0.2"
        at = "0:10:10"
        [[submit]]
        workflow = "pipealign"
        """,
    )
    stream, platform = stream_of([path])
    assert stream.name == "monday"
    assert [(each.name, each.arrival) for each in stream.submissions] == [
        ("maxdo-1", 0), ("pipealign", 0), ("mine-1", 5), ("maxdo-2", 10), ("mine-2", 60),
    ]  # fmt: skip
    assert len(platform) == 4


def test_workflows_that_name_other_machines_name_none_together():
    assert stream_of(["gee@0", "maxdo@1"])[1] is not None
    assert stream_of(["gee@0", "topcuoglu@1"])[1] is None


def test_the_study_is_a_stream_with_settings_and_a_seed():
    stream, platform = stream_of(["online-51"])
    assert (len(stream), len(platform)) == (102, 4)
    names = [each.name for each in stream.submissions]
    assert [each.name for each in stream_of(["online-51:seed=0"], 7)[0].submissions] == names
    assert [each.name for each in stream_of(["online-51"], 7)[0].submissions] != names
    fast = stream_of(["online-51:every=2,spread=0.5"])[0]
    assert fast.arrivals[1] == 2
    work = {float(each.workflow.work.sum()) for each in fast.submissions}
    assert len(work) == 102


@pytest.mark.parametrize(
    ("words", "whether"),
    [
        (["gee"], False),
        (["flow.json"], False),
        (["gee@0"], True),
        (["gee", "gee"], True),
        (["stream.toml"], True),
        (["online-51:every=3"], True),
    ],
)
def test_one_workflow_is_no_stream(words, whether):
    assert is_stream(words) is whether


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("gee@x", "'x' is not a time"),
        ("gee@0:5", "is not a time"),
        ("gee@0:5:0", "is not a time"),
        ("gee@0:inf:1", "is not a time"),
        ("gee@5:0:1", "0 times"),
        ("gee@0:1e9:1e-3", "times"),
        ("gee@-3", "arrives at -3"),
        ("online-51:evry=3", "evry"),
        ("online-51:seed=x", "seed=x"),
    ],
)
def test_what_is_no_stream_is_refused(word, words):
    with pytest.raises(InputError, match=words):
        stream_of([word])


def test_a_name_that_is_neither_file_nor_generator_is_refused_with_what_is_near():
    with pytest.raises(NotFoundError) as caught:
        stream_of(["maxod@3"])
    assert "maxdo" in caught.value.diagnostics[0].hint


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('[[submit]]\nworkflow = "maxod"\n', 2, "neither a file nor a generator"),
        ("[[submit]]\nat = 3\n", 1, "without a workflow"),
        ('[[submit]]\nworkflow = "gee"\nat = -3\n', 3, "at is -3"),
        ('[[submit]]\nworkflow = "gee"\nat = [1, "x:y"]\n', 3, "'x:y'"),
        ('[[submit]]\nworkflow = "gee"\nat = "0:9"\n', 3, "is not a time"),
        ("[[submit]]\nworkflow = 3\n", 2, "has to be a text"),
        ('[[sumbit]]\nworkflow = "gee"\n', 1, "unknown key 'sumbit'"),
        ('name = "none"\n', 1, "submits no workflow"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_file_is_told_with_its_place(tmp_path, text, line, words):
    with pytest.raises(InputError, match=words) as caught:
        stream_of([written(tmp_path, text)])
    assert caught.value.diagnostics[0].place.line == line
    assert json.dumps(str(caught.value))
