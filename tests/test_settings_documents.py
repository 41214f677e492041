"""Settings of any file are wrong at a file, a line and a column."""

import tomllib
from pathlib import Path

import pytest

from zenturio.errors import InputError
from zenturio.execute.hosts.hosts_file import read_hosts_file
from zenturio.settings.document import Document, Entry, read_project_file, read_table, spans_in_toml
from zenturio.settings.schema import setting, settings_of

TEXT = '''\
# [places.commented] kind = 1
title = "a # is no comment, [nor.this] a table"
words = """
[not.a.table]
kind = "text"
"""
[places.cluster]
kind = "slurm"          # a comment with = and [brackets]
"quoted key" = 'a \\ b'
options.nested = { deep = [1, { x = "}" },
  3], last = true }

[[hosts]]
name = "a"
[[hosts]]
name = "b"
  [hosts.facts]
  cores = 2
[places."node 1"]
jobs = 4
'''


def paths_of(value, path=()):
    """All paths of a parsed document."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in items if isinstance(value, dict | list) else ():
        yield (*path, key)
        if isinstance(part, dict | list):
            yield from paths_of(part, (*path, key))


def test_each_key_and_item_of_a_toml_document_has_its_place():
    spans = spans_in_toml(TEXT)
    assert set(paths_of(tomllib.loads(TEXT))) == set(spans)
    for path, (start, length) in spans.items():
        if isinstance(path[-1], str):
            assert TEXT[start : start + length].strip("\"'").endswith(path[-1])


@pytest.mark.parametrize(
    ("path", "place"),
    [
        (("places", "cluster", "kind"), "f.toml:8:1"),
        (("places", "cluster", "quoted key"), "f.toml:9:1"),
        (("places", "cluster", "options", "nested", "deep", 1, "x"), "f.toml:10:33"),
        (("places", "cluster", "options", "nested", "deep", 2), "f.toml:11:3"),
        (("hosts", 1, "name"), "f.toml:16:1"),
        (("hosts", 1, "facts", "cores"), "f.toml:18:3"),
        (("places", "node 1", "jobs"), "f.toml:20:1"),
        (("places", "node 1", "absent"), "f.toml:19:2"),
        (("absent",), "f.toml:1:1"),
    ],
)
def test_a_place_is_that_of_the_key_or_of_what_it_belongs_to(path, place):
    document = Document.from_toml(Path("f.toml"), TEXT)
    assert str(document.place(path)) == place


@pytest.mark.parametrize(
    "text", ["[", "a = [", 'a = """', "[[a", "a.b.", "=", "a = {b", "\x00", "a"]
)
def test_positions_of_a_broken_text_are_found_without_an_error(text):
    spans_in_toml(text)


def test_what_is_not_toml_is_an_error_with_place_and_hint(tmp_path):
    path = tmp_path / "zenturio.toml"
    path.write_text("[places.a]\nkind = slurm\n")
    with pytest.raises(InputError, match="not TOML") as error:
        read_project_file(path)
    (diagnostic,) = error.value.diagnostics
    assert (diagnostic.place.line, diagnostic.place.column) == (2, 8)
    assert "[places.NAME]" in diagnostic.hint


def test_a_table_has_its_entries_with_their_places(tmp_path):
    path = tmp_path / "zenturio.toml"
    assert read_table(path, "serve") is None
    path.write_text("[serve]\nport = 1\n")
    table = read_table(path, "serve")
    assert table.entries["port"].value == 1
    assert str(table.entries["port"].place) == f"{path}:2:1"


def test_all_wrong_settings_of_a_file_are_told_together_with_their_places():
    from dataclasses import dataclass

    @dataclass(frozen=True)
    class Options:
        size: int = setting(1, "how large", low=1)

    place = Document.from_toml(Path("f.toml"), TEXT).place(("title",))
    with pytest.raises(InputError) as error:
        settings_of(Options, {"size": Entry("x", place), "sise": Entry(1, place)}, "the place p")
    first, second = error.value.diagnostics
    assert first.place == second.place == place
    assert "did you mean 'size'?" in first.hint + second.hint


def test_options_of_hosts_are_read_with_all_their_faults_and_places(tmp_path):
    path = tmp_path / "hosts.toml"
    machine = '[hosts.a]\naddress = "a"\n'
    path.write_text(
        '[options]\nreturns = "4GB"\nretries = 3\nthen = "stop"\nvariants = ["bin/x"]\n'
        f'require = "cores > 2"\n{machine}'
    )
    options = read_hosts_file(path).options
    assert (options.returns, options.retries, options.then) == (4e9, 3, "stop")
    assert (options.variants, options.require.text) == (("bin/x",), "cores > 2")
    path.write_text(
        '[options]\nretires = 3\nthen = "stpo"\ncontract = -1\nprolog = "gone.py:Stages"\n'
        f'require = "cores >"\n{machine}'
    )
    with pytest.raises(InputError) as wrong:
        read_hosts_file(path)
    lines = {fault.place.line: fault for fault in wrong.value.diagnostics}
    assert list(lines) == [2, 3, 4, 5, 6]
    assert "[options] has no setting 'retires'" in lines[2].message
    assert "retries" in lines[2].hint
    assert "stop" in lines[3].hint
    assert "gone.py is not there" in lines[5].message
    assert lines[6].place.column > len('require = "')
