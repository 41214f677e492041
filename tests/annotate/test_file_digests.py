"""Digests of files that are remembered by stamps."""

import os
import time
from hashlib import blake2b

import pytest

from zenturio.annotate import source
from zenturio.annotate.scan import scan
from zenturio.annotate.source import FileDigests, read_facts, stamp_of
from zenturio.errors import AnnotationError

LATER = time.time_ns() + 3600 * 10**9
"""As if the files had been written long before the scan."""


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(source, "_WORTH_FILES", 1)
    return tmp_path / "cache" / "zenturio" / "digests"


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "app"
    folder.mkdir()
    for name in ("a", "b", "c"):
        (folder / name).write_text(name)
    return folder


def read(folder, began=LATER, names=("a", "b", "c")):
    """How many files are opened."""
    digests = FileDigests(folder, began=began)
    for name in names:
        path = folder / name
        facts = digests.facts(name, str(path), stamp_of(path.lstat()))
        assert facts.digest == blake2b(path.read_bytes(), digest_size=16).digest()
    digests.save()
    return digests.read_count


def test_no_file_is_opened_that_looks_as_before(folder):
    assert [read(folder), read(folder)] == [3, 0]
    (folder / "d").write_text("d")
    assert read(folder, names=("c", "d")) == 1


@pytest.mark.parametrize("name", ["touched", "written", "replaced", "mode", "times put back"])
def test_a_file_that_looks_otherwise_is_read_again(folder, name):
    read(folder)
    path, before = folder / "b", (folder / "b").stat()
    match name:
        case "touched":
            os.utime(path, ns=(1, 1))
        case "written":
            path.write_text("more")
        case "replaced":
            (folder / "new").write_text("x")
            os.utime(folder / "new", ns=(before.st_atime_ns, before.st_mtime_ns))
            (folder / "new").replace(path)
        case "mode":
            path.chmod(0o600)
        case "times put back":
            path.write_text("x")
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert read(folder) == 1


def test_a_file_written_just_before_the_scan_is_read_again(folder):
    now = time.time_ns()
    assert [read(folder, began=now), read(folder, began=now)] == [3, 3]


def test_a_time_that_was_set_into_the_future_does_not_keep_a_file_young(folder):
    os.utime(folder / "a", ns=(LATER * 2, LATER * 2))
    assert [read(folder), read(folder)] == [3, 0]


@pytest.mark.parametrize("damage", ["cut", "flipped", "open", "link"])
def test_what_was_remembered_is_not_believed_if_it_is_damaged_or_not_ours(folder, cache, damage):
    read(folder)
    (path,) = cache.iterdir()
    content = path.read_bytes()
    match damage:
        case "cut":
            path.write_bytes(content[:-3])
        case "flipped":
            path.write_bytes(content[:-3] + bytes([content[-3] ^ 1]) + content[-2:])
        case "open":
            path.chmod(0o666)
        case "link":
            path.rename(cache / "other")
            path.symlink_to("other")
    assert read(folder) == 3


def test_the_cache_is_the_users_own_and_nothing_is_written_into_the_project(folder, cache):
    read(folder)
    assert cache.stat().st_mode & 0o777 == 0o700
    assert sorted(path.name for path in folder.iterdir()) == ["a", "b", "c"]


def test_a_cache_that_cannot_be_written_is_no_error(folder, cache):
    cache.parent.parent.write_text("a file")
    assert [read(folder), read(folder)] == [3, 3]


def test_what_nobody_used_for_long_is_removed(folder, cache):
    cache.mkdir(parents=True, mode=0o700)
    (cache / "old").touch()
    os.utime(cache / "old", (0, 0))
    read(folder)
    assert not (cache / "old").exists()


@pytest.mark.parametrize(
    ("content", "is_marked"),
    [
        (b"# ZEN$ RUN", True),
        (b"# zen $ RUN", True),
        (b"# $ZEN RUN", True),
        (b"# Zen RUN", True),
        ("# ZEN\u00a7".encode(), True),
        ("# ZEN$".encode("utf-16"), True),
        (b"a frozen citizen", False),
        (b"ZEN$ \0", False),
        (b"x" * (2**20 - 2) + b"ZEN$", True),
        (b"ZEN$" + b"x" * 2**20 + b"\0", False),
        (b"", False),
    ],
)
def test_only_text_with_something_like_a_directive_is_marked(tmp_path, content, is_marked):
    path = tmp_path / "file"
    path.write_bytes(content)
    facts = read_facts(str(path))
    assert (facts.is_marked, facts.digest) == (is_marked, blake2b(content, digest_size=16).digest())


def test_a_file_that_grows_as_fast_as_it_is_read_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "log"
    path.write_text("first")
    read_piece = os.read

    def grow(descriptor, size):
        with path.open("a") as file:
            file.write("more")
        return read_piece(descriptor, size)

    monkeypatch.setattr(source.os, "read", grow)
    with pytest.raises(OSError, match="changes while it is read"):
        read_facts(str(path))


def test_a_file_that_is_written_to_during_the_scan_is_an_error_with_its_name(folder, monkeypatch):
    def busy(location, **_):
        raise OSError(16, "the file changes while it is read", location)

    monkeypatch.setattr(source, "read_facts", busy)
    with pytest.raises(AnnotationError) as refused:
        scan(folder)
    assert "app/a cannot be read: the file changes while it is read" in str(refused.value)
    assert ".zenignore" in refused.value.diagnostics[0].hint


def test_a_pipe_is_neither_read_nor_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a plain file"):
        read_facts(str(tmp_path / "pipe"))


def test_a_scan_decodes_marked_files_alone(folder, monkeypatch):
    (folder / "a.sh").write_text('# ZEN$ RUN "sh a.sh"\n# ZEN$ PARAM n = { 1, 2 }\n')
    (folder / "frozen").write_text("a frozen citizen")
    application = scan(folder)
    assert [file.path for file in application.files] == ["a.sh"]
    assert [file.path for file in application.copied] == ["a", "b", "c", "frozen"]


def test_a_value_goes_into_files_without_directives_too(folder):
    (folder / "a.sh").write_text('# ZEN$ RUN "sh a.sh"\n# ZEN$ SUBSTITUTE b = { 1, 2 } IN "?"\n')
    application = scan(folder)
    assert [file.path for file in application.files] == ["a.sh", "b"]
    assert [file.path for file in application.copied] == ["a", "c"]
