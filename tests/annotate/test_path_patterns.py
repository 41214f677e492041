"""GLOB matches what Python's glob matches, and links in a circle do not keep it for ever."""

import glob
import os
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zenturio.annotate import set_reader as external
from zenturio.annotate.file_selection import match_glob
from zenturio.annotate.patterns import PathPattern, TooManyEntries
from zenturio.annotate.scan import scan
from zenturio.errors import AnnotationError

NAMES = ("a", "b.c", ".h", "a/x", "a/.y", "a/b/c", "a/b/.d/e", "d/a/b", "[x]", "e/a b/ü")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    base = tmp_path_factory.mktemp("glob")
    for name in NAMES:
        if name != "a":
            (base / name).parent.mkdir(parents=True, exist_ok=True)
            (base / name).write_text("")
    (base / "link").symlink_to("a/b")
    (base / "broken").symlink_to("nowhere")
    return base


PARTS = st.sampled_from(
    ["*", "**", "?", "a", "b", "*.c", ".*", "[ab]", "[!a]*", "link", "broken", "nope", "[[]x]", ".", "d", "e"]
)  # fmt: skip


@settings(max_examples=settings.default.max_examples * 300 // 100)
@given(parts=st.lists(PARTS, min_size=1, max_size=4), absolute=st.booleans(), slash=st.booleans())
def test_what_matches_is_what_glob_finds(folder, parts, absolute, slash):
    pattern = "/".join(parts) + "/" * slash
    if absolute:
        pattern = f"{glob.escape(str(folder))}/{pattern}"
    mine = set(PathPattern(str(folder)).matches(pattern))
    theirs = set(glob.glob(pattern, root_dir=folder, recursive=True))  # noqa: PTH207 - the twin
    # Of "nowhere/**" glob says that "nowhere/" is there, and of a broken link that it is a folder.
    theirs = {path for path in theirs if os.path.lexists(os.path.join(folder, path))}  # noqa: PTH118 - it keeps a slash
    if "**" in parts:  # glob follows links there, and names what it finds through them
        theirs = {path for path in theirs if "link/" not in path}
        mine = {path for path in mine if "link/" not in path}
    assert mine == theirs


def test_links_in_a_circle_are_looked_at_once(tmp_path):
    for name in ("l1", "l2", "l3"):
        (tmp_path / name).symlink_to(".")
    (tmp_path / "p.sh").write_text('#ZEN$ PARAM x = { GLOB("**/p.*") }\n#ZEN$ RUN "true"\n')
    assert scan(tmp_path / "p.sh").space.size == 1


def test_a_pattern_that_looks_at_too_much_is_refused_with_its_place(tmp_path, monkeypatch):
    for name in ("l1", "l2", "l3"):
        (tmp_path / name).symlink_to(".")
    with pytest.raises(TooManyEntries):
        list(PathPattern(str(tmp_path), 1000).matches("*/" * 20 + "x"))
    monkeypatch.setattr(external, "PathPattern", partial(PathPattern, most=1000))
    pattern = "*/" * 20 + "x"
    (tmp_path / "p.sh").write_text(f'#ZEN$ PARAM x = {{ GLOB("{pattern}") }}\n#ZEN$ RUN "true"\n')
    with pytest.raises(AnnotationError, match="searches more than") as caught:
        scan(tmp_path / "p.sh")
    assert caught.value.diagnostics[0].place.line == 1


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("[", "[", True),
        ("[[x", "[[x", True),
        ("[ab]c[", "ac[", True),
        ("[]]", "]", True),
        ("[!a]b", "cb", True),
        ("[!a]b", "ab", False),
        ("**/x", "x", True),
        ("**/x", "a/b/x", True),
        ("a/**/b/**", "a/b", True),
        ("a/**/b/**", "a/c/b/d/e", True),
        ("a/**/b", "a/b/c", False),
    ],
)
def test_globs_match_as_python_has_them(pattern, name, expected):
    assert match_glob(pattern, name) == expected


@pytest.mark.parametrize("pattern", ["[" * 300_000, "/".join(["**"] * 60 + ["y"]), "**/[" * 5000])
def test_no_pattern_takes_long(pattern):
    assert not match_glob(pattern, "/".join("x" * 40))
