"""The files of a submitted study travel by content, and are the same program where they arrive."""

import json
from contextlib import chdir
from dataclasses import replace

import pytest

from zenturio.errors import InputError, PlaceError, SafetyError, ZenError
from zenturio.experiment import ExperimentGenerator
from zenturio.study.driver.experiment_source import select_points
from zenturio.study.service import submitted_program
from zenturio.study.service.submitted_program import (
    SubmittedFolders,
    SubmittedProgram,
    collect_program,
)
from zenturio.study.study_request import StudyRequest

STUDY = """\
#!/bin/sh
#ZEN$ PARAM n = {elements}
#ZEN$ RUN "sh solve.sh {{n}}"
#ZEN$ METRIC square FROM stdout REGEX "square (\\d+)"
{more}
echo "square $(($1 * $1))"
"""


@pytest.fixture
def home(tmp_path):
    """A folder of somebody who submits, apart from that of the service."""
    folder = tmp_path / "home"
    folder.mkdir()
    with chdir(folder):
        yield folder


def write(home, name="solve.sh", elements="{ 1:3 }", more=""):
    (home / name).write_text(STUDY.format(elements=elements, more=more))
    return StudyRequest((str(home / name),))


def collected(request):
    return collect_program(request, request.application())


def arrived(tmp_path, request, *, ask_anew=True):
    """The application as a service has it, when the folder of who submitted it is gone."""
    program, contents = collected(request)
    facts = json.loads(json.dumps(program.facts()))
    moved = tmp_path / "moved away"
    (tmp_path / "home").rename(moved)
    try:
        folders = SubmittedFolders(tmp_path / ".zenturio")
        root = folders.write(1, SubmittedProgram.read(facts), contents.__getitem__)
        return SubmittedProgram.read(facts).application(request, root, ask_anew=ask_anew)
    finally:
        moved.rename(tmp_path / "home")


def identities(application):
    generator = ExperimentGenerator(application)
    numbered = select_points(application.space).numbered()
    return [generator.experiment(point, 1, index=index).digest for index, point in numbered]


def names(folder):
    return [path.name for path in folder.iterdir()]


def check_same(tmp_path, request):
    before = request.application()
    after = arrived(tmp_path, request)
    assert after.name == before.name
    assert identities(after) == identities(before)
    return after


def test_a_file_alone_is_the_same_program_elsewhere(tmp_path, home):
    after = check_same(tmp_path, write(home))
    assert (after.origin.root, after.origin.paths) == (home, (home / "solve.sh",))


def test_a_folder_with_links_modes_and_empty_folders_is_the_same_program(tmp_path, home):
    program = home / "mesh"
    (program / "data" / "empty").mkdir(parents=True)
    write(program, more="cat data/input.bin > /dev/null")
    (program / "data" / "input.bin").write_bytes(b"\0\1")
    (program / "data" / "again").symlink_to("input.bin")
    (program / "tool").write_text("#!/bin/sh\n")
    (program / "tool").chmod(0o755)
    (program / "ignored.txt").write_text("4\n")
    (program / ".zenignore").write_text("ignored.txt\n")
    after = check_same(tmp_path, StudyRequest((str(program),)))
    assert after.name == "mesh"
    assert after.links == (("data/again", "input.bin"),)
    assert after.folders == ("data/empty",)


def test_files_that_elements_are_read_from_travel_with_a_file(tmp_path, home):
    (home / "sizes.txt").write_text("10\n20\n")
    (home / "inputs").mkdir()
    for name in "ab":
        (home / "inputs" / f"{name}.dat").write_text(name)
    more = '#ZEN$ PARAM f = { GLOB("inputs/*.dat") }'
    check_same(tmp_path, write(home, elements='{ LINES("sizes.txt") }', more=more))


def test_an_ignored_file_that_elements_are_read_from_stays_no_part_of_the_program(tmp_path, home):
    (home / "sizes.txt").write_text("10\n20\n")
    (home / ".zenignore").write_text("sizes.txt\n")
    write(home, elements='{ LINES("sizes.txt") }')
    after = check_same(tmp_path, StudyRequest((str(home),)))
    assert after.file_paths == ["solve.sh"]


def test_earlier_stages_travel_too(tmp_path, home):
    write(home, "mesh.sh")
    check_same(tmp_path, write(home, more='#ZEN$ AFTER "mesh" ON n'))


def test_what_a_program_uses_is_what_it_was_when_it_was_submitted(tmp_path, home):
    (tmp_path / "model.bin").write_bytes(b"weights")
    more = '#ZEN$ USE FILE "../model.bin"\n#ZEN$ USE VERSION "cat ../answer"'
    request = write(home, more=more)
    (tmp_path / "answer").write_text("7.2")
    digests = identities(replace(request.application(), versions={"cat ../answer": "7.2"}))
    program, contents = collected(request)
    (tmp_path / "model.bin").write_bytes(b"other weights")
    root = SubmittedFolders(tmp_path / ".zenturio").write(1, program, contents.__getitem__)
    assert identities(program.application(request, root, ask_anew=False)) == digests


def test_edited_files_are_other_contents_and_the_same_ones_travel_once(home):
    request = write(home)
    first, contents = collected(request)
    for name in ("a.txt", "b.txt"):
        (home / name).write_text("the same")
    assert len(collected(StudyRequest((str(home),)))[1]) == len(contents) + 1
    write(home, elements="{ 1:4 }")
    assert collected(request)[0].contents != first.contents


def test_elements_outside_of_the_folder_are_refused_when_it_is_submitted(
    tmp_path, home, monkeypatch
):
    monkeypatch.setenv("ZENTURIO_TRUST", "1")
    (tmp_path / "sizes.txt").write_text("10\n")
    with pytest.raises(InputError, match="outside of what is submitted"):
        collected(write(home, elements='{ LINES("../sizes.txt") }'))


@pytest.mark.parametrize(
    ("elements", "reason"),
    [("{ 1:4 }", "a file changed meanwhile"), ("{ 4:1 }", "4:1 goes down, but without a stride")],
)
def test_a_program_that_was_edited_while_it_is_submitted_is_refused(home, elements, reason):
    request = write(home)
    application = request.application()
    write(home, elements=elements)
    with pytest.raises(InputError, match=f"without its folder it is another program: {reason}"):
        collect_program(request, application)


def test_too_many_bytes_are_refused_with_a_hint(home, monkeypatch):
    monkeypatch.setattr("zenturio.study.service.submitted_program.LARGEST_BYTES", 10)
    with pytest.raises(InputError, match="more than 0 MiB") as caught:
        collected(write(home))
    assert "absolute paths" in str(caught.value)


# A request of others is not believed.


@pytest.mark.parametrize(
    "change",
    [
        {"files": [["../x", 0o644, 0, "0" * 64]]},
        {"files": [["/etc/x", 0o644, 0, "0" * 64]]},
        {"files": [["x", 0o4755, 0, "0" * 64]]},
        {"files": [["x", 0o644, 0, "../" * 20]]},
        {"name": "../service"},
        {"name": "a/b"},
        {"paths": ["../../zenturio.toml"]},
        {"paths": []},
        {"folders": ["a/../../b"]},
        {"links": [["../x", "y"]]},
        {"more": 1},
        {"uses": {"x": "no digest"}},
        {"uses": {"x": "a" * 129}},
        {"files": [["x", -1, 0, "0" * 64]]},
        {"files": [["x", 0o1000, 0, "0" * 64]]},
        {"files": [["x", 0o644, -(2**63) - 1, "0" * 64]]},
        {"paths": ["x"] * 4097},
        {"versions": {"x" * (2**16 + 1): ""}},
        {"versions": {"x": "x" * (2**17 + 1)}},
    ],
)
def test_what_no_program_can_be_is_refused(home, change):
    program, _ = collected(write(home))
    files = [["x", mode, -(2**63), "0" * 64] for mode in (0, 0o777)]
    versions = {"x" * 2**16: "x" * 2**17}
    largest = {"files": files, "paths": ["x"] * 4096, "versions": versions}
    submitted_program._check_facts({**program.facts(), **largest}, "it")
    with pytest.raises(SafetyError, match="malformed"):
        SubmittedProgram.read({**program.facts(), **change})
    with pytest.raises(SafetyError):
        SubmittedProgram.read([])


@pytest.mark.parametrize(
    "links",
    [
        [["out", "/etc"]],
        [["out", "../../../.."]],
        [["a", "b/.."], ["b", "../.."]],
        [["deep/up", "../.."], ["out", "deep/up/../x"]],
    ],
)
def test_links_out_of_the_folder_are_refused(tmp_path, home, links):
    program, contents = collected(write(home))
    hostile = SubmittedProgram.read({**program.facts(), "links": links})
    with pytest.raises(SafetyError, match="leads out of its folder"):
        SubmittedFolders(tmp_path / ".zenturio").write(1, hostile, contents.__getitem__)


def test_nothing_is_written_through_a_link(tmp_path, home):
    outside = tmp_path / "outside"
    outside.mkdir()
    program, contents = collected(write(home))
    for links in ([["a", str(outside)], ["a/x", "y"]], [["solve.sh/x", "y"]]):
        hostile = SubmittedProgram.read({**program.facts(), "links": links})
        with pytest.raises((SafetyError, PlaceError)):
            SubmittedFolders(tmp_path / ".zenturio").write(1, hostile, contents.__getitem__)
    assert list(outside.iterdir()) == []


def test_a_program_reads_nothing_of_the_service(tmp_path, home, monkeypatch):
    monkeypatch.setenv("ZENTURIO_TRUST", "1")
    (tmp_path / "secret.txt").write_text("1234\n")
    program, contents = collected(write(home))
    folders = SubmittedFolders(tmp_path / ".zenturio")
    for more, elements in (
        ("", '{ LINES("../../../../secret.txt") }'),
        ("", '{ GLOB("../../../../*") }'),
        (f'#ZEN$ USE FILE "{tmp_path}/secret.txt"', "{ 1:2 }"),
    ):
        text = STUDY.format(elements=elements, more=more).encode()
        root = folders.write(1, program, lambda _sha, text=text: text)
        with pytest.raises(SafetyError):
            program.application(StudyRequest(("x",)), root)
    root = folders.write(1, program, contents.__getitem__)
    (root / "solve.sh").chmod(0o600)
    (root / "solve.sh").write_text(STUDY.format(elements="{ 1 }", more='#ZEN$ USE VERSION "id"'))
    with pytest.raises(SafetyError, match="USE VERSION"):
        program.application(StudyRequest(("x",)), root, ask_anew=False)


def test_a_folder_that_is_a_link_is_not_followed(tmp_path, home):
    program, contents = collected(write(home))
    (tmp_path / "outside").mkdir()
    (tmp_path / ".zenturio").mkdir()
    (tmp_path / ".zenturio" / "submitted").symlink_to(tmp_path / "outside")
    with pytest.raises(ZenError):
        SubmittedFolders(tmp_path / ".zenturio").write(1, program, contents.__getitem__)
    assert list((tmp_path / "outside").iterdir()) == []


def test_folders_of_submissions_are_written_anew_and_removed(tmp_path, home):
    program, contents = collected(write(home))
    folders = SubmittedFolders(tmp_path / ".zenturio")
    root = folders.write(7, program, contents.__getitem__)
    (root / "planted").write_text("")
    assert folders.write(7, program, contents.__getitem__) == root
    assert names(root) == ["solve.sh"]
    folders.write(8, program, contents.__getitem__)
    folders.remove(7)
    assert names(tmp_path / ".zenturio" / "submitted") == ["8"]
    folders.clear()
    assert names(tmp_path / ".zenturio" / "submitted") == []
