"""Paths in the project are recorded so that they go with it."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from zenturio.record.codec import to_local, to_portable

TEXT = st.text() | st.sampled_from(
    ["/p", "/p/", "/p/a/b", "/pp", "/p/../q", "zen-project:", "zen-project:=", "zen-project:./a"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(JSON)
def test_what_is_recorded_comes_back_as_it_was(value):
    assert to_local(to_portable(value, Path("/p")), Path("/p")) == value


def test_a_path_in_the_project_moves_and_others_stay():
    notes = {"root": "/p", "run": {"paths": ["/p/a.py", "/pp/b.py", "p"]}, "n": 1}
    moved = {"root": "/q/r", "run": {"paths": ["/q/r/a.py", "/pp/b.py", "p"]}, "n": 1}
    assert to_local(to_portable(notes, Path("/p")), Path("/q/r")) == moved
