"""What a program uses outside of its folder: what is recorded of a version."""

from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

import pytest

from zenturio.annotate import source
from zenturio.annotate.scan import scan
from zenturio.errors import InputError, PlaceError
from zenturio.experiment import identity
from zenturio.experiment.identity import (
    ask_versions,
    file_digest,
    recall_versions,
    used_digests,
)

LIMIT = 2**16


def answer(tmp_path, count, end):
    path = tmp_path / "p.sh"
    path.write_text(
        f'#ZEN$ RUN "sh p.sh"\n#ZEN$ USE VERSION "yes x | head -c {count}; echo {end}"\n'
    )
    (found,) = ask_versions(scan([str(path)])).versions.values()
    return found


def test_of_a_long_answer_the_beginning_is_recorded_and_all_of_it_counts(tmp_path):
    said = "x\n" * LIMIT
    assert answer(tmp_path, LIMIT - 1, "y") == said[: LIMIT - 1] + "y"
    for end in ("y", "z"):
        output = f"{said[: LIMIT + 1]}{end}\n".encode()
        whole = blake2b(output, digest_size=16).hexdigest()
        assert answer(tmp_path, LIMIT + 1, end) == f"{said[:LIMIT]}\n... {whole}"


def test_a_device_is_neither_a_file_nor_a_folder():
    with pytest.raises(OSError, match="neither a file nor a folder"):
        file_digest(Path("/dev/null"))


def test_what_is_remembered_of_files_that_are_used_has_an_end(tmp_path, monkeypatch):
    recent = {}
    monkeypatch.setattr(identity, "_recent", recent)
    monkeypatch.setattr(identity, "_MOST_RECENT", 2)
    for number, remembered in enumerate((1, 2, 1, 2)):
        path = tmp_path / f"{number}"
        path.write_text(f"{number}")
        digest = blake2b(path.read_bytes(), digest_size=16).hexdigest()
        assert file_digest(path) == file_digest(path) == digest
        assert len(recent) == remembered


def test_recorded_digests_stand_for_what_is_used(tmp_path):
    path = tmp_path / "p.sh"
    path.write_text('#ZEN$ RUN "sh p.sh"\n#ZEN$ USE FILE "gone"\n')
    application = replace(scan([str(path)]), recorded_uses={"gone": "ab"})
    assert list(used_digests(application).values()) == ["ab"]


def test_a_program_that_is_not_there_is_an_error_with_its_place(tmp_path):
    path = tmp_path / "p.sh"
    path.write_text('#ZEN$ RUN "sh p.sh"\n#ZEN$ USE PROGRAM "no-such-program"\n')
    with pytest.raises(InputError, match="there is no program 'no-such-program'") as caught:
        used_digests(scan([str(path)]))
    assert caught.value.diagnostics[0].place.line == 2


def test_a_version_command_that_fails_says_how(tmp_path):
    path = tmp_path / "p.sh"
    for command, reason in (("echo one; echo two; exit 3", "exit 3: two"), ("exit 4", "exit 4")):
        path.write_text(f'#ZEN$ RUN "sh p.sh"\n#ZEN$ USE VERSION "{command}"\n')
        with pytest.raises(PlaceError, match=f"cannot be asked: {reason}\n") as caught:
            ask_versions(scan([str(path)]))
        assert caught.value.diagnostics[0].place.line == 2


def test_versions_that_were_recorded_stand_for_commands_that_are_not_asked_again(tmp_path):
    path = tmp_path / "p.sh"
    path.write_text('#ZEN$ RUN "sh p.sh"\n#ZEN$ USE PROGRAM "sh"\n#ZEN$ USE VERSION "echo new"\n')
    application = scan([str(path)])
    recorded = {"echo new": "old", "sh": "x", "echo gone": "y"}
    recalled = recall_versions(application, recorded)
    assert recalled.versions == {"echo new": "old"}
    assert ask_versions(recalled).versions == {"echo new": "old"}
    asked = ask_versions(application)
    assert asked.versions == recall_versions(asked, recorded).versions == {"echo new": "new"}


def test_a_large_file_that_is_used_is_read_once_for_all_commands(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(source, "_WORTH_FILES", 1)
    monkeypatch.setattr(source, "_young_ns", lambda _device: -(10**12))
    (tmp_path / "app").mkdir()
    (tmp_path / "data").write_text("data")
    (tmp_path / "app" / "p.sh").write_text('#ZEN$ RUN "true"\n#ZEN$ USE FILE "../data"\n')
    application = scan(tmp_path / "app")
    first = used_digests(application)
    read = []
    monkeypatch.setattr(source, "read_facts", lambda *words, **_: read.append(words))
    monkeypatch.setattr(identity, "_recent", {})  # as in another process
    assert used_digests(application) == first
    assert read == []
