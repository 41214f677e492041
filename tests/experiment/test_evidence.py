"""Small promises of the package: lazy names, digests, logs, folders that are used, plain files."""

import os

import pytest

import zenturio.experiment as room
from zenturio.annotate.model import Metric
from zenturio.errors import SafetyError
from zenturio.experiment import Evidence, Log, Missing, Recipe
from zenturio.experiment.identity import _folder_digest, checked_digest
from zenturio.experiment.metrics import MetricReaderCache, measure
from zenturio.experiment.safe_file_reading import OutsideError, open_inside, read_inside
from zenturio.expression import parse


def test_all_names_of_the_package_are_there_and_no_others():
    for name in room.__all__:
        assert getattr(room, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'Nonsense'"):
        room.Nonsense  # noqa: B018


def test_only_what_is_written_as_a_digest_becomes_part_of_a_path():
    assert checked_digest("0123456789abcdef" * 2) == "0123456789abcdef" * 2
    for text in ("", "../" + "a" * 29, "g" * 32, "A" * 32, "a" * 31, "a" * 33, "a" * 32 + "\n"):
        with pytest.raises(SafetyError, match="is not a digest"):
            checked_digest(text)


def test_a_log_is_trimmed_to_its_beginning_and_its_end():
    short = Log(b"abcdef", b"", 6)
    assert short.trimmed(3) is short
    assert short.trimmed(2) == Log(b"ab", b"ef", 6)
    long = Log(b"abcdef", b"uvwxyz", 100)
    assert long.trimmed(2) == Log(b"ab", b"yz", 100)
    assert long.trimmed(6) == long


def test_a_folder_that_is_used_counts_by_paths_contents_and_links(tmp_path):
    def made(name, order):
        folder = tmp_path / name
        for path in order:
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(path)
        (folder / "link").symlink_to("b/one")
        (folder / "folder").symlink_to("b")
        return folder

    paths = ["a", "b/one", "b/two", "c/deep/three", "z"]
    first, second = made("first", paths), made("second", list(reversed(paths)))
    assert _folder_digest(first) == _folder_digest(second)
    (second / "b" / "one").write_text("changed")
    assert _folder_digest(first) != _folder_digest(second)
    (second / "b" / "one").write_text("b/one")
    (second / "link").unlink()
    (second / "link").symlink_to("b/two")
    assert _folder_digest(first) != _folder_digest(second)
    (second / "link").unlink()
    (second / "link").symlink_to("./b/one")  # the same content by another text
    assert _folder_digest(first) != _folder_digest(second)


def test_the_order_in_which_a_folder_is_read_is_not_part_of_its_digest(tmp_path, monkeypatch):
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    walk = os.walk

    def backwards(top):
        for above, folders, names in walk(top):
            folders.sort(reverse=True)
            yield above, folders, names

    before = _folder_digest(tmp_path)
    monkeypatch.setattr(os, "walk", backwards)
    assert _folder_digest(tmp_path) == before


def test_a_folder_that_is_none_is_said_to_be_none(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OutsideError, match="its folder: Not a directory"):
        open_inside(tmp_path / "file", "x")
    with pytest.raises(OutsideError, match=r"^file/x cannot be read: Not a directory$"):
        open_inside(tmp_path, "file/x")


def test_evidence_without_a_file_or_a_folder_says_what_is_not_there(tmp_path):
    (tmp_path / "stored").write_text("7")
    kept = Evidence(Log(), files={"out.txt": tmp_path / "stored"})
    assert kept.text("out.txt").log.head == b"7"
    assert kept.text("./out.txt").log.head == b"7"
    assert kept.text("other.txt").fault == "other.txt is not there"
    assert "there is no folder" in Evidence(Log()).text("out.txt").fault


def test_a_formula_over_a_series_is_missing_and_says_why():
    metrics = (
        Metric("all", "stdout", regex=r"(\d)", take="all"),
        Metric("sum", formula=parse("all + 1")),
        Metric("more", formula=parse("sum + 1")),
    )
    found = measure(Recipe(metrics), {}, Evidence(Log(b"1 2", b"", 3)))
    assert found["sum"] == Missing("it needs all, which is a series (TAKE all), not a value")
    assert found["more"] == Missing(f"it needs sum: {found['sum'].why}")


@pytest.mark.parametrize(("column", "value"), [("2", 4), ("3", None)])
def test_a_column_by_number_is_there_or_not(column, value):
    metric = Metric("x", "stdout", column=column, take="last")
    found = measure(Recipe((metric,)), {}, Evidence(Log(b"1,2\n3,4\n", b"", 8)))["x"]
    assert found == value if value else f"there is no column {column}" in found.why


def test_a_file_of_just_the_largest_size_is_read_and_none_that_is_larger(tmp_path):
    (tmp_path / "log").write_bytes(b"12345")
    assert read_inside(tmp_path, "log", 5) == b"12345"
    with pytest.raises(OutsideError, match="log has 5 bytes, of which at most 4 are read"):
        read_inside(tmp_path, "log", 4)
    os.truncate(tmp_path / "log", 64 * 2**20 + 1)  # nothing of it is on the disk
    with pytest.raises(OutsideError, match="of which at most 67108864 are read"):
        read_inside(tmp_path, "log")


def test_a_recipe_has_one_meter():
    meters, recipe = MetricReaderCache(), Recipe()
    assert meters.of(recipe) is meters.of(recipe)
    assert meters.of(Recipe()) is not meters.of(recipe)
    assert meters.of(recipe).measure({}, Evidence()) == {}


def test_counting_what_matches_nothing_gives_none_and_no_fault():
    metric = Metric("x", "stdout", regex="error", take="count")
    assert measure(Recipe((metric,)), {}, Evidence(Log(b"fine", b"", 4))) == {"x": 0}
