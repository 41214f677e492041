"""Places by name: what the command line and zenturio.toml may say, and what is told of a mistake."""

from dataclasses import dataclass
from typing import Literal

import pytest

from zenturio import plugins
from zenturio.errors import InputError
from zenturio.execute.local import Local
from zenturio.execute.places import find_place, open_place
from zenturio.execute.simulate import Simulate
from zenturio.settings.schema import setting
from zenturio.testing.executor import experiment, outcome


@dataclass(frozen=True)
class Options:
    address: str = setting("", "where it is")
    workers: int = setting(1, "how many", low=1, high=64)
    cluster: Literal["slurm", "far"] | None = setting(None, "which")
    batch: str = setting("auto", "how many together")


class Far:
    Options = Options

    def __init__(self, folder, jobs=None, *, keep, pin=False, options=None):
        self.told = (folder, jobs, keep, pin, options)


@pytest.fixture(autouse=True)
def far(monkeypatch):
    load, names = plugins.load, plugins.names
    monkeypatch.setattr(plugins, "load", lambda k, n: Far if n in ("far", "hosts") else load(k, n))
    monkeypatch.setattr(plugins, "names", lambda kind: [*names(kind), "far", "hosts"])


@pytest.fixture
def written(tmp_path):
    def write(text):
        (tmp_path / "zenturio.toml").write_text(text)
        return tmp_path / ".zenturio"

    return write


@pytest.mark.parametrize(("name", "kind"), [("local", Local), ("simulate", Simulate)])
def test_a_plug_in_is_a_place_by_its_name(written, name, kind):
    with open_place(name, written(""), 1) as place:
        assert isinstance(place, kind)


def test_a_configured_place_is_what_the_file_says(written):
    folder = written('[places.mine]\nkind = "far"\nworkers = 3\njobs = 7\ncluster = "far"\n')
    place = open_place("mine", folder, keep="always", pin=True)
    assert place.told == (folder, 7, "always", True, Options(workers=3, cluster="far"))


def test_what_is_given_overrides_the_file(written):
    folder = written('[places.far]\nworkers = 3\nbatch = "4"\njobs = 7\n')
    place = open_place("far", folder, 2, overrides={"batch": "9"})
    assert place.told[1] == 2
    assert place.told[-1] == Options(workers=3, batch="9")


def test_a_built_in_place_may_be_configured_too(written):
    with open_place("local", written("[places.local]\njobs = 3\n")) as place:
        assert place.slots == 3


def test_an_address_names_its_plug_in(written):
    place = open_place("far://host:8786", written(""))
    assert place.told[-1].address == "far://host:8786"


def test_a_file_names_hosts(written):
    assert find_place("many/hosts.toml", written("").parent).kind == "hosts"


WRONG = {
    "[places.mine]\nkind = 'far'\nworkesr = 3\n": (
        3, 1, "the place far has no setting 'workesr'", "did you mean 'workers'?"),
    "[places.mine]\nkind = 'far'\nworkers = 0": (
        3, 1, "workers=0 is not possible", "from 1 to 64"),
    "[places.mine]\nkind = 'far'\nworkers = 0.5": (3, 1, "workers=0.5", "whole number"),
    "[places.mine]\nkind = 'far'\n  cluster = 'slrum'": (
        3, 3, "cluster=slrum", "did you mean 'slurm'"),
    "[places.mine]\nkind = 'fra'": (2, 1, "no place is of the kind 'fra'", "did you mean 'far'"),
    "\n  [ places . mine ]\nworkers = 1": (2, 5, "does not say of which kind", 'kind = "dask"'),
    "[places.mine]\nkind = 'far'\njobs = 0": (3, 1, "jobs = 0", "from 1"),
    "[places.mine]\nkind = 'far'\njobs = true": (3, 1, "jobs = True", "from 1"),
    "a = 1\n[place.mine]\nkind = 'far'": (2, 2, "[place] is not a table", "[places.NAME]"),
    "places = 3": (1, 1, "places have to be tables", "[places.NAME]"),
    "[places.mine]\nkind = far": (2, 8, "not TOML", 'key = "text"'),
    "[places.mine]\nkind = 'far'\nkind = 'far'": (3, 13, "not TOML", ""),
}  # fmt: skip


@pytest.mark.parametrize("text", WRONG)
def test_a_mistake_in_the_file_is_shown_with_its_place_and_its_hint(written, text):
    line, column, message, hint = WRONG[text]
    folder = written(text)
    with pytest.raises(InputError) as caught:
        open_place("mine", folder)
    (diagnostic,) = caught.value.diagnostics
    place = diagnostic.place
    assert message in diagnostic.message
    assert hint in diagnostic.hint
    assert (place.file, place.line, place.column) == (
        str(folder.parent / "zenturio.toml"), line, column,
    )  # fmt: skip
    assert place.text == text.splitlines()[line - 1]


def test_all_mistakes_are_told_at_once(written):
    folder = written("[places.far]\nworkers = 0\ncolour = 1\n")
    with pytest.raises(InputError) as caught:
        open_place("far", folder, overrides={"nodes": "1"})
    assert len(caught.value.diagnostics) == 3


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("locla", "did you mean 'local'"),
        ("mien", "did you mean 'mine'"),
        ("inline", "did you mean"),
        ("fra://host", "did you mean 'far'"),
        ("far://", "host:8786"),
    ],
)
def test_a_name_that_is_none_tells_what_is_near(written, name, hint):
    folder = written("[places.mine]\nkind = 'far'\n")
    with pytest.raises(InputError) as caught:
        open_place(name, folder)
    assert hint in caught.value.diagnostics[0].hint


def test_a_setting_that_a_place_does_not_have_is_refused(written):
    with pytest.raises(InputError, match="the place local has no setting 'batch'"):
        open_place("local", written(""), overrides={"batch": "4"})


def test_what_is_opened_runs_below_the_folder(written):
    folder = written("")
    with open_place("local", folder, 1, keep="always") as place:
        what = experiment("echo 1")
        assert outcome(place, what).status == "ok"
    assert (folder / "work" / what.digest).is_dir()
