"""Symbolic links: those that stay inside are made again, others are followed or left out."""

import pytest

from zenturio.annotate.scan import scan, scan_following
from zenturio.experiment import ExperimentGenerator

RUN = '# ZEN$ RUN "sh a.sh"\n# ZEN$ SUBSTITUTE N = { 1, 2 }\necho N\n'


@pytest.fixture
def folder(tmp_path):
    """An application with two folders, and one that is no part of it."""
    root = tmp_path / "app"
    for name, text in {
        "a.sh": RUN, "conf/a": "a", "conf/deep/b": "b", "deep/c": "c", ".hidden/d": "d",
        "node_modules/pkg/cli.js": "1",
    }.items():  # fmt: skip
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "outside").write_text("x")
    return root


def link(folder, name, text):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("latest", "conf/a"),
        ("cfg", "conf"),
        ("cfg", "./conf/"),
        ("deep/up", "../conf/deep/b"),
        ("deep/self", "."),
        ("whole", "."),
        ("node_modules/.bin/cli", "../pkg/cli.js"),
    ],
)
def test_a_link_to_what_is_in_the_application_is_made_again(folder, name, text):
    before = scan(folder).file_paths
    link(folder, name, text)
    found = scan(folder)
    assert found.links == ((name, text),)
    assert found.file_paths == before
    assert found.warnings == ()


def test_links_through_links_are_made_again(folder):
    link(folder, "b", "c/a")
    link(folder, "c", "conf")
    link(folder, "d", "c")
    assert scan(folder).links == (("b", "c/a"), ("c", "conf"), ("d", "c"))


@pytest.mark.parametrize(
    ("text", "there"),
    [
        ("{app}/conf", ["new/a", "new/deep/b"]),  # it would lead to the original
        ("../app/conf/a", ["new"]),  # nothing is around an experiment's folder
        (".hidden", ["new/d"]),  # its target is no part of the application
    ],
)
def test_a_link_that_cannot_be_made_again_is_what_it_leads_to(folder, text, there):
    before = set(scan(folder).file_paths)
    link(folder, "new", text.format(app=folder))
    found = scan(folder)
    assert found.links == ()
    assert sorted(set(found.file_paths) - before) == there


def test_what_links_to_a_followed_link_is_made_again(folder):
    link(folder, "a-link", "followed/a")
    link(folder, "followed", folder / "conf")
    assert scan(folder).links == (("a-link", "followed/a"),)


@pytest.mark.parametrize(
    ("text", "reason"),
    [("../outside", "leads out of"), ("nothing", "leads nowhere"), ("one", "leads nowhere")],
)
def test_a_link_that_leads_out_or_nowhere_is_left_out(folder, text, reason):
    link(folder, "one", text)
    link(folder, "other", "one")
    found = scan(folder)
    assert found.links == ()
    assert all(reason in warning.message for warning in found.warnings)
    assert len(found.warnings) == 2


def test_patterns_to_ignore_hold_behind_a_followed_link(folder):
    (folder / ".zenignore").write_text("deep\n")
    link(folder, "new", folder / "conf")
    names = set(scan(folder).file_paths)
    assert "new/a" in names
    assert "new/deep/b" not in names


def test_empty_folders_are_named(folder):
    for name in ("empty/inner", "logs", "__pycache__"):
        (folder / name).mkdir(parents=True)
    (folder / "logs" / ".keep").touch()
    assert scan(folder).folders == ("empty/inner", "logs")


def digests(folder):
    application = scan(folder)
    generator = ExperimentGenerator(application, former_digests=True)
    found = generator.experiments(application.space.point(0))[0]
    return found.digest, found.former


def test_the_text_of_a_link_is_part_of_the_identity_and_empty_folders_are_not(folder):
    link(folder, "cfg", "conf/deep")
    before = digests(folder)
    (folder / "empty").mkdir()
    assert digests(folder) == before
    (folder / "cfg").unlink()
    link(folder, "cfg", "conf/../conf/deep")
    assert digests(folder)[0] != before[0]
    assert digests(folder)[1] == before[1]  # followed, it holds the same


def test_former_digests_are_those_of_what_links_lead_to(folder):
    link(folder, "cfg", "conf")
    link(folder, "node_modules/.bin/cli", "../pkg/cli.js")
    _, former = digests(folder)
    followed = scan_following(scan(folder))
    assert "cfg/a" in followed.file_paths
    for name in ("cfg", "node_modules/.bin/cli"):
        (folder / name).unlink()
    (folder / "cfg" / "deep").mkdir(parents=True)
    (folder / "cfg" / "a").write_text("a")
    (folder / "cfg" / "deep" / "b").write_text("b")
    assert digests(folder)[1] == former
