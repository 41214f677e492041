"""Folders in which one experiment runs after the other: each finds what a new one would hold."""

import mmap
import os
import random
import shutil
import socket
import stat
import tempfile
from pathlib import Path

import pytest

from zenturio.errors import PlaceError, SafetyError
from zenturio.execute import workspace
from zenturio.execute.file_staging import InputCache
from zenturio.execute.folder_files import COPY_LIMIT_BYTES
from zenturio.execute.workspace import FOLDER_MTIME, FolderPlan, StagedFolder, fill_folder
from zenturio.experiment import ExperimentFile
from zenturio.experiment.experiment import empty_folder, link_to
from zenturio.experiment.identity import content_digest

MTIME = 1_600_000_000 * 10**9
FILLED = ExperimentFile("src/main.c", 0o644, b"int n = 1;\n")


@pytest.fixture(params=["disk", "memory"])
def scratch(request, tmp_path):
    """A folder on the file system of temporary files, and one on a tmpfs."""
    if request.param == "disk":
        yield tmp_path
        return
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("there is no tmpfs")
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="zenturio-test-") as name:
        yield Path(name)


def constant(path, content, mode=0o644):
    digest = content_digest(content).hex()
    return ExperimentFile(path, mode, content, digest=digest, mtime=MTIME)


@pytest.fixture
def constants():
    return [
        constant("data", b"0123456789"),
        constant("run", b"#!/bin/sh\n", 0o755),
        constant("src/a.h", b"a"),
        constant("src/deep/b.h", b"b"),
        constant("src/deep/c.h", b"c" * 5000),
        link_to("latest", "src/deep"),
        empty_folder("results"),
    ]


def tree(folder):
    """All that can be told of a folder, but the times of what is filled in."""
    told = {}
    for above, folders, names in os.walk(folder):
        for name in (*folders, *names, "."):
            path = Path(above, name)
            status, key = path.lstat(), os.path.relpath(path, folder)
            kind = stat.S_IFMT(status.st_mode)
            if kind == stat.S_IFLNK:
                told[key] = kind, str(path.readlink())
            elif kind == stat.S_IFDIR:
                told[key] = kind, status.st_mode, status.st_mtime_ns
            else:
                time = status.st_mtime_ns if key != FILLED.path else None
                told[key] = kind, status.st_mode, path.read_bytes(), time, status.st_nlink
    return told


class Slot:
    """A folder that is filled again and again, and how a new one looks."""

    def __init__(self, scratch, constants, filled=(FILLED,)):
        self.scratch, self.plan, self.filled = scratch, FolderPlan(constants), filled
        self.inputs = InputCache(scratch / "inputs")
        self.folder = self.new("slot")
        self.root = Path(self.folder.path)
        self.fresh = tree(self.root)

    def new(self, name):
        path = self.scratch / name
        path.mkdir()
        folder = StagedFolder(str(path))
        folder.fill(self.plan, self.filled, self.inputs)
        return folder

    def fill(self):
        self.folder.fill(self.plan, self.filled, self.inputs)
        return tree(self.root)


@pytest.fixture
def slot(scratch, constants):
    return Slot(scratch, constants)


def put_times_back(path, act):
    before = path.stat()
    act(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def write_in_place(path):
    with path.open("r+b") as file:
        file.write(b"X")


def append(path):
    with path.open("ab") as file:
        file.write(b"Z")


def write_by_mapping(path):
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[0:1] = b"Y"


def write_by_alias(path):
    os.link(path, path.with_name("alias"))
    write_in_place(path.with_name("alias"))
    path.with_name("alias").unlink()


def replace_by_rename(path):
    path.with_name("new").write_bytes(path.read_bytes())
    path.with_name("new").replace(path)


def punch_hole(path):
    with path.open("r+b") as file:
        file.truncate(3)
        file.truncate(10)


WRITES = {
    "in place": write_in_place,
    "append": append,
    "truncate": lambda path: path.write_bytes(b""),
    "same size": lambda path: path.write_bytes(b"x" * path.stat().st_size),
    "mapping": write_by_mapping,
    "rename over": replace_by_rename,
    "unlink and make anew": lambda path: (path.unlink(), path.write_bytes(b"0123456789")),
    "truncate by path": lambda path: os.truncate(path, 4),
    "chmod": lambda path: path.chmod(0o600),
    "times put back": lambda path: put_times_back(path, write_in_place),
    "alias": write_by_alias,
    "descriptor's name": lambda path: Path(f"/proc/self/fd/{os.open(path, os.O_RDONLY)}").write_bytes(
        b"proc"
    ),
    "hole": punch_hole,
    "removed": lambda path: path.unlink(),
}  # fmt: skip


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("name", ["data", "src/deep/c.h"])
def test_a_constant_that_was_written_to_is_put_anew(slot, write, name):
    WRITES[write](slot.root / name)
    assert slot.fill() == slot.fresh


def socket_at(path):
    path.unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(path))


ACTS = {
    "swap": lambda root: (
        (root / "data").rename(root / "x"), (root / "run").rename(root / "data"),
        (root / "x").rename(root / "run")),
    "link to each other": lambda root: (
        (root / "data").unlink(), (root / "data").symlink_to("run")),
    "hard link to each other": lambda root: (
        (root / "data").unlink(), os.link(root / "src/a.h", root / "data")),
    "folder becomes a file": lambda root: (
        shutil.rmtree(root / "src"), (root / "src").write_text("no folder")),
    "folder becomes a link": lambda root: (
        (root / "src").rename(root / "elsewhere"), (root / "src").symlink_to("elsewhere")),
    "file becomes a folder": lambda root: (
        (root / "data").unlink(), (root / "data").mkdir(), (root / "data/x").write_text("x")),
    "filled becomes a folder": lambda root: (
        (root / FILLED.path).unlink(), (root / FILLED.path).mkdir()),
    "filled becomes a link": lambda root: (
        (root / FILLED.path).unlink(), (root / FILLED.path).symlink_to("../data")),
    "filled becomes a pipe": lambda root: (
        (root / FILLED.path).unlink(), os.mkfifo(root / FILLED.path)),
    "filled gets an alias": lambda root: os.link(root / FILLED.path, root / "alias"),
    "folders without rights": lambda root: [
        path.chmod(0) for path in (root / "src/deep", root / "src", root)],
    "setuid": lambda root: (root / "run").chmod(0o4755),
    "pipe": lambda root: ((root / "data").unlink(), os.mkfifo(root / "data")),
    "name that is not UTF-8": lambda root: Path(os.fsdecode(os.fsencode(root) + b"/\xff\xfe")).touch(),
    "many files": lambda root: [(root / "results" / str(n)).touch() for n in range(200)],
    "tree": lambda root: ((root / "out/a/b").mkdir(parents=True), (root / "out/a/b").chmod(0)),
    "report": lambda root: (root / ".zen-metrics").write_text("x"),
    "all removed": lambda root: [
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        for path in [*root.iterdir()]],
    "link elsewhere": lambda root: (
        (root / "latest").unlink(), (root / "latest").symlink_to("../decoy")),
    "folder linked to a decoy": lambda root: (
        shutil.rmtree(root / "src"), (root / "src").symlink_to("../decoy")),
    "hidden removal": lambda root: (
        (root / "results/x").touch(), (root / "results/x").unlink(), (root / "src/a.h").unlink()),
    "socket": lambda root: socket_at(root / "data"),
}  # fmt: skip


@pytest.mark.parametrize("act", ACTS)
def test_whatever_an_experiment_did_the_next_one_finds_a_new_folder(slot, act):
    decoy = slot.scratch / "decoy"
    decoy.mkdir()
    (decoy / "a.h").write_text("of somebody else")
    before = tree(decoy)
    ACTS[act](slot.root)
    assert slot.fill() == slot.fresh
    assert tree(decoy) == before


def test_a_thousand_hostile_acts_leave_no_trace(slot):
    chance = random.Random(7)
    decoy = slot.scratch / "decoy"
    decoy.mkdir()
    (decoy / "a.h").write_text("of somebody else")
    for _ in range(150):
        made = []
        for act in chance.choices([*ACTS], k=chance.randint(0, 4)):
            made.append(act)
            try:
                ACTS[act](slot.root)
            except OSError:  # one act may make another impossible
                continue
        before = tree(decoy)  # the acts themselves may reach it
        assert slot.fill() == slot.fresh, made
        assert tree(decoy) == before


def test_a_folder_in_which_nothing_changed_is_only_compared(slot, monkeypatch):
    slot.fill()
    counts = {"lstat": 0, "open": 0, "listdir": 0, "unlink": 0, "utime": 0}
    for name in counts:
        call = getattr(os, name)

        def counted(*arguments, name=name, call=call, **options):
            counts[name] += 1
            return call(*arguments, **options)

        monkeypatch.setattr(workspace.os, name, counted)
    slot.folder.fill(slot.plan, slot.filled, slot.inputs)
    monkeypatch.undo()
    assert counts["lstat"] <= len(slot.plan.paths) + len(slot.plan.folders) + 20
    # The filled file is written in place: opened, and given its time.
    assert (counts["open"], counts["listdir"], counts["unlink"], counts["utime"]) == (1, 0, 0, 1)


def test_constants_keep_their_times_and_filled_files_are_newer_than_all(slot):
    times = {path: os.lstat(slot.root / path).st_mtime_ns for path in ("data", "src/a.h")}
    assert times == {"data": MTIME, "src/a.h": MTIME}
    assert (slot.root / "src").stat().st_mtime_ns == FOLDER_MTIME
    assert (slot.root / FILLED.path).stat().st_mtime_ns > MTIME


def test_a_constant_of_a_time_to_come_is_older_than_what_is_filled_in(scratch):
    late = ExperimentFile("late", 0o644, b"", mtime=MTIME * 3)
    slot = Slot(scratch, [late])
    filled = (slot.root / FILLED.path).stat().st_mtime_ns
    assert (slot.root / "late").stat().st_mtime_ns < filled


def test_another_plan_keeps_what_both_have(scratch, constants):
    slot = Slot(scratch, constants)
    inode = (slot.root / "data").stat().st_ino
    other = [c for c in constants if c.path not in ("run", "src/a.h", "latest")]
    other.append(constant("src/deep/b.h", b"another"))
    slot.plan = FolderPlan([*{c.path: c for c in other}.values()])
    Path(slot.folder.path, "left").touch()
    assert slot.fill() == tree(slot.new("fresh").path)
    assert (slot.root / "data").stat().st_ino == inode


def test_files_of_the_experiment_before_are_removed(scratch, constants):
    slot = Slot(scratch, constants, (FILLED, ExperimentFile("extra/of/one", 0o644, b"1")))
    slot.filled = (FILLED,)
    assert slot.fill() == tree(slot.new("fresh").path)
    assert not (slot.root / "extra").exists()


def test_a_folder_under_another_name_is_the_same(slot):
    slot.folder.rename(str(slot.scratch / "other"))
    slot.root = slot.scratch / "other"
    assert slot.fill() == slot.fresh
    (slot.root / "left").touch()
    slot.folder.rename(str(slot.scratch / "third"))
    slot.root = slot.scratch / "third"
    assert slot.fill() == slot.fresh


@pytest.fixture
def large(scratch):
    original = scratch / "original"
    original.write_bytes(b"x" * (COPY_LIMIT_BYTES + 1))
    digest = content_digest(original.read_bytes()).hex()
    return ExperimentFile("mesh", 0o644, None, original, digest, MTIME)


def test_a_large_input_that_was_written_to_is_noticed_and_made_again(scratch, large):
    slot = Slot(scratch, [large])
    for shared in slot.folder.shared:  # none where the file system clones
        before = shared.path.stat()
        shared.path.chmod(0o644)
        write_in_place(shared.path)
        os.utime(shared.path, ns=(before.st_atime_ns, before.st_mtime_ns))
        shared.path.chmod(0o444)
        assert shared.is_spoilt()
    assert slot.fill() == slot.fresh
    assert (slot.root / "mesh").read_bytes() == large.original.read_bytes()


def test_a_large_input_whose_mode_alone_changed_is_not_spoilt(scratch, large):
    slot = Slot(scratch, [large])
    for shared in slot.folder.shared:
        shared.path.chmod(0o666)
        assert not shared.is_spoilt()
        assert stat.S_IMODE(shared.path.stat().st_mode) == 0o444
    assert slot.fill() == slot.fresh


def test_a_large_input_is_copied_piece_by_piece_and_checked(scratch, large):
    large.original.write_bytes(b"y" * (COPY_LIMIT_BYTES + 1))
    with pytest.raises(PlaceError, match="has changed since the study began"):
        Slot(scratch, [large])
    assert not [*(scratch / "inputs").iterdir()], "no draft is left"


def test_a_path_out_of_the_folder_is_refused(scratch):
    for path in ("../x", "/x", "a/../../x"):
        with pytest.raises(SafetyError):
            Slot(scratch / path.replace("/", "_"), [constant(path, b"")])


def test_a_folder_is_filled_once(scratch, constants):
    folder = scratch / "once"
    folder.mkdir()
    fill_folder(StagedFolder(str(folder)), [*constants, FILLED], InputCache(scratch / "inputs"))
    assert tree(folder) == tree(Slot(scratch, constants).root)
