"""Observers are told of each transition of an experiment, whatever runs it, and harm no run."""

import re
import sys
import tomllib
from pathlib import Path

import pytest

import zenturio as zen
from zenturio import plugins
from zenturio.errors import NotFoundError, PluginError
from zenturio.space import Space
from zenturio.testing.observers import ObserverContract

PAGE = Path(__file__).parents[2] / "docs" / "plug-ins.md"
STUDY = """\
#ZEN$ ASSIGN n = { 1, 2 }
#ZEN$ RUN "test {n} = 1 || exit 3"
"""
ONE_RUN = ["waiting", "claiming", "claimed", "submitted", "finished", "recorded"]


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    (tmp_path / ".zenturio").mkdir()
    (tmp_path / "small.sh").write_text(STUDY)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a module with observers, as pip does."""
    folder = tmp_path / "site"

    def installed(source, points):
        metadata = folder / "zen_timeline-0.1.dist-info"
        metadata.mkdir(parents=True)
        (folder / "zen_timeline.py").write_text(source)
        (metadata / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: zen-timeline\nVersion: 0.1\n"
        )
        lines = [f"{name} = {value}" for name, value in points.items()]
        text = "\n".join(["[zenturio.observers]", *lines, ""])
        (metadata / "entry_points.txt").write_text(text)
        monkeypatch.syspath_prepend(folder)
        plugins._entry_points.cache_clear()

    yield installed
    plugins._entry_points.cache_clear()
    sys.modules.pop("zen_timeline", None)


def example(language):
    """A block of the example in docs/plug-ins.md."""
    text = PAGE.read_text()
    start = text.index("## A run observer")
    block = re.search(rf"```{language}\n(.*?)```", text[start:], re.DOTALL)
    return block[1]


def states(lines):
    """The states that each experiment came to, in their order."""
    states_by_digest = {}
    for line in lines:
        _, digest, state = line.split()
        states_by_digest.setdefault(digest, []).append(state)
    return list(states_by_digest.values())


def test_the_example_on_the_page_works(install, tmp_path):
    both = f"{example('python')}\n{example('toml')}"
    assert len([line for line in both.split("\n") if line.strip()]) < 30
    project = tomllib.loads(example("toml"))["project"]
    install(example("python"), project["entry-points"]["zenturio.observers"])
    timeline = tmp_path / "small.timeline"
    zen.run("small.sh", observe=["timeline"])
    assert states(timeline.read_text().splitlines()) == [ONE_RUN, ONE_RUN]
    timeline.unlink()
    zen.run("small.sh", observe=["timeline"])
    assert states(timeline.read_text().splitlines()) == [["cached"], ["cached"]]

    def double(n):
        return n * 2

    zen.run(double, Space(n=[1, 2]), observe=["timeline"])
    assert states((tmp_path / "double.timeline").read_text().splitlines()) == [ONE_RUN, ONE_RUN]

    import zen_timeline

    class TestTimeline(ObserverContract):
        def observer(self):
            return zen_timeline.Timeline()

    for name in dir(TestTimeline):
        if name.startswith("test_"):
            getattr(TestTimeline(), name)()


OUTCOMES = """
told = []
class Outcomes:
    def begin(self, study): pass
    def observe(self, transition):
        outcome = transition.outcome
        told.append((transition.after, transition.attempt, outcome and outcome.status))
    def end(self): told.append("end")
"""


def test_a_transition_tells_the_attempt_and_its_outcome(install):
    install(OUTCOMES, {"outcomes": "zen_timeline:Outcomes"})
    Path("small.sh").write_text(STUDY.replace("1, 2", "2").replace('exit 3"', 'exit 3" RETRY 1'))
    zen.run("small.sh", observe=["outcomes"])

    import zen_timeline

    assert zen_timeline.told == [
        ("waiting", 0, None),
        ("claiming", 0, None),
        ("claimed", 1, None),
        ("submitted", 1, None),
        ("failed", 1, "failed"),
        ("waiting", 1, "failed"),
        ("claiming", 1, None),
        ("claimed", 2, None),
        ("submitted", 2, None),
        ("finished", 2, "failed"),
        ("recorded", 2, "failed"),
        "end",
    ]


FAILING = """
told = []
class Failing:
    def begin(self, study): pass
    def observe(self, transition):
        told.append(transition.after)
        raise ValueError("full")
    def end(self): told.append("end")
class Refusing:
    def begin(self, study): raise OSError("no sensor")
    def end(self): raise AssertionError
"""


def test_an_observer_that_fails_is_told_nothing_more_and_the_run_goes_on(install):
    install(FAILING, {"failing": "zen_timeline:Failing"})
    remarks = []
    summary = zen.run(
        "small.sh", observe=["failing"], listener=lambda progress: remarks.extend(progress.remarks)
    ).summary
    assert (summary.ok, summary.failed) == (1, 1)
    assert remarks == ["observer 'failing' failed: ValueError: full; it receives no more events"]

    import zen_timeline

    assert zen_timeline.told == ["waiting"]


def test_an_observer_that_cannot_begin_ends_the_run_before_it_starts(install):
    install(FAILING, {"refusing": "zen_timeline:Refusing"})
    with pytest.raises(PluginError, match="observer 'refusing' failed: OSError: no sensor"):
        zen.run("small.sh", observe=["refusing"])
    assert zen.run("small.sh").summary.ok == 1  # its lease was given back


def test_an_observer_that_nobody_installed_is_an_error_with_its_name():
    with pytest.raises(NotFoundError, match="no observer is named 'timelin'"):
        zen.run("small.sh", observe=["timelin"])
