"""Files of artifacts are kept by their content, and go with the project."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from unittest import mock

import pytest

from loaded import Program
from record import leaving
from record.leaving import DEFINITION, STUDY, contents, drive, left
from zenturio import failpoints
from zenturio.errors import ConflictError, PlaceError
from zenturio.execute import file_staging
from zenturio.experiment import INCOMING
from zenturio.experiment.experiment import Artifact
from zenturio.log_setup import work_progress
from zenturio.record import (
    DriverProcess,
    artifact_store,
    consistency_check,
    maintenance,
)
from zenturio.record.artifact_store import ArtifactStore, has_content, object_path
from zenturio.record.open import open_repository
from zenturio.system import file_systems
from zenturio.testing.executor import until
from zenturio.testing.experiments import dead_driver, experiment, outcome

COUNT = 7
POINTS = ("collected", "linked", "synced", "recorded", "cleared")


@pytest.fixture
def home(tmp_path):
    return tmp_path / "project" / ".zenturio"


def opened(home):
    return contextlib.closing(open_repository(home / "zenturio.db"))


def files(home):
    """All files of the store beside its lock."""
    store = home / "store"
    return sorted(str(p.relative_to(store)) for p in store.rglob("*") if p.is_file())[:-1]


def files_in(folder):
    return sorted(str(path) for path in folder.rglob("*") if path.is_file())


EXPECTED = [contents(index) for index in range(COUNT)]
"""The files of each experiment, to the byte."""


def stored_contents(home):
    """Return the files of each experiment; all are in the store, and nothing is left to commit."""
    with opened(home) as repository:
        artifacts = [repository.artifacts(experiment(index).digest) for index in range(COUNT)]
        objects = home / "store" / "objects"
        assert all(a.kept.is_relative_to(objects) for of in artifacts for a in of)
        stored = [{a.path: a.kept.read_bytes() for a in of} for of in artifacts]
    assert maintenance.check_repository(home / "zenturio.db", contents=True) == ()
    return stored


def test_equal_contents_are_kept_once_and_nothing_waits_after_the_commit(home):
    home.parent.mkdir()
    drive(home, COUNT, 3)
    assert stored_contents(home) == EXPECTED
    assert len(files(home)) == COUNT + (COUNT + 1) // 2
    assert list((home / INCOMING).iterdir()) == []


def test_the_store_has_the_failpoints_that_are_tried_here():
    names = {name for name in failpoints.names() if name.startswith("store.")}
    assert names == {f"store.{point}" for point in (*POINTS, "removed")}


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("time_", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_a_driver_that_is_killed_loses_no_file_and_leaves_no_row_without_one(home, point, time_):
    home.parent.mkdir()
    environment = os.environ | {
        "PYTHONPATH": str(Path(leaving.__file__).parents[1]),
        "ZENTURIO_FAILPOINT": f"store.{point}:{time_}",
    }
    driver = Program(
        Path(leaving.__file__), home, COUNT, 2, cwd=Path.cwd(), environment=environment
    )
    out, err = driver.communicate()
    assert driver.returncode == -signal.SIGKILL, err
    assert maintenance.check_repository(home / "zenturio.db", contents=True) == ()
    with opened(home) as repository:
        for line in out.splitlines():
            assert len(repository.artifacts(line.split()[1])) == 2
    drive(home, COUNT, 2)
    assert stored_contents(home) == EXPECTED
    with opened(home) as repository:
        maintenance.collect_garbage(repository, really=True, young=-1)
    assert stored_contents(home) == EXPECTED
    assert len(files(home)) == COUNT + (COUNT + 1) // 2
    assert list((home / INCOMING).iterdir()) == []


def test_a_late_attempt_replaces_no_file_of_the_accepted_one(home):
    home.mkdir(parents=True)
    of = experiment(1)
    with opened(home) as repository:
        repository.open(STUDY, DEFINITION)
        late = repository.acquire_lease(STUDY, dead_driver())
        first = repository.claim(STUDY, late.number, [of])[of.digest]
        outcome_of_late = left(home, of, first, {"f": b"late", "only-late": b"x"})
        heir = repository.acquire_lease(STUDY, DriverProcess.current())
        second = repository.claim(STUDY, heir.number, [of])[of.digest]
        assert repository.record(STUDY, heir.number, [left(home, of, second, {"f": b"accepted"})])
        assert not repository.record(STUDY, late.number, [outcome_of_late])
        (kept,) = repository.artifacts(of.digest)
        assert (kept.path, kept.kept.read_bytes()) == ("f", b"accepted")
        was = {a.path: a.kept.read_bytes() for a in repository.artifacts(of.digest, first)}
        assert was == {"f": b"late", "only-late": b"x"}
    assert maintenance.check_repository(home / "zenturio.db", contents=True) == ()


def _lease_if_free(repository):
    with contextlib.suppress(ConflictError):
        return repository.acquire_lease(STUDY, DriverProcess.current())


def test_a_driver_that_was_stopped_past_its_lease_replaces_no_file(home):
    home.mkdir(parents=True)
    late = subprocess.Popen(
        [sys.executable, leaving.__file__, str(home), "1", "0"],
        env=os.environ | {"PYTHONPATH": str(Path(leaving.__file__).parents[1])},
        stdout=subprocess.PIPE,
        text=True,
    )
    os.waitid(os.P_PID, late.pid, os.WSTOPPED | os.WNOWAIT)
    of = experiment(0)
    with opened(home) as repository:
        # A lease expires by the clock of the database, which no test can turn.
        lease = until(lambda: _lease_if_free(repository))
        claims = repository.claim(STUDY, lease.number, [of])
        done = left(home, of, claims[of.digest], {"own": b"accepted", "same": b"accepted"})
        assert repository.record(STUDY, lease.number, [done]) == {of.digest}
        late.send_signal(signal.SIGCONT)
        out, _ = late.communicate()
        assert (out, late.returncode) == ("accepted\n", 0)
        kept = repository.artifacts(of.digest)
        assert {a.path: a.kept.read_bytes() for a in kept} == dict.fromkeys(
            ("own", "same"), b"accepted"
        )
        states = [attempt.state for attempt in repository.attempts(of.digest)]
        assert sorted(states) == ["ok", "superseded"]
    assert maintenance.check_repository(home / "zenturio.db", contents=True) == ()


def test_a_commit_that_failed_is_tried_again_with_the_same_files(home, monkeypatch):
    home.mkdir(parents=True)
    of = experiment(1)
    with opened(home) as repository:
        repository.open(STUDY, DEFINITION)
        lease = repository.acquire_lease(STUDY, DriverProcess.current())
        repository.claim(STUDY, lease.number, [of])
        done = left(home, of)
        with monkeypatch.context() as away:
            away.setattr(repository._database, "repeat", mock.Mock(side_effect=PlaceError("away")))
            with pytest.raises(PlaceError, match="away"):
                repository.record(STUDY, lease.number, [done])
        assert repository.record(STUDY, lease.number, [done]) == {of.digest}
        kept = repository.artifacts(of.digest)
        assert {a.path: a.kept.read_bytes() for a in kept} == contents(1)


def test_the_permissions_of_a_file_are_told_though_its_content_is_kept_once(home, tmp_path):
    home.mkdir(parents=True)
    of = experiment(1)
    (tmp_path / "out").mkdir()
    for name, mode in (("program", 0o755), ("text", 0o640)):
        (tmp_path / "out" / name).write_bytes(b"same")
        (tmp_path / "out" / name).chmod(mode)
    artifacts = file_staging.collect_outputs(
        str(tmp_path / "out"), ["*"], home / INCOMING, of.digest, move=False
    )
    with opened(home) as repository:
        repository.open(STUDY, DEFINITION)
        lease = repository.acquire_lease(STUDY, DriverProcess.current())
        repository.add_results(
            STUDY, lease.number, [(of, replace(outcome(of), artifacts=artifacts))]
        )
        one, two = repository.artifacts(of.digest)
        assert (one.mode, two.mode, one.kept) == (0o755, 0o640, two.kept)
        assert one.kept.stat().st_mode & 0o222 == 0


def test_a_file_with_a_second_name_is_copied_so_that_nobody_can_write_to_it(home, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "f").write_bytes(b"as it was")
    os.link(tmp_path / "out" / "f", tmp_path / "second-name")
    (kept,) = file_staging.collect_outputs(
        str(tmp_path / "out"), ["*"], home / INCOMING, experiment(1).digest, move=True
    )
    (tmp_path / "second-name").write_bytes(b"written over")
    assert kept.kept.read_bytes() == b"as it was"


def test_what_is_removed_is_told_and_leaves_no_empty_folder(home, tmp_path):
    home.parent.mkdir()
    drive(home, 2, 1)
    with opened(home) as repository:
        store = repository.store
        objects = store.root / "objects"
        first, *others = files_in(objects)
        (tmp_path / "foreign").write_bytes(b"of others")
        with store.alone():
            missing = str(Path(first).with_name("never-there"))
            assert store.remove([first, str(tmp_path / "foreign"), missing]) == (first,)
            assert files_in(objects) == others
            assert all(any(folder.iterdir()) for folder in objects.iterdir())
            assert store.remove(others) == tuple(others)
    assert (tmp_path / "foreign").read_bytes() == b"of others"
    assert not objects.exists() or list(objects.iterdir()) == []


def test_an_object_that_is_not_whole_is_replaced(home):
    home.parent.mkdir()
    drive(home, 1, 1)
    with opened(home) as repository:
        kept = {a.path: a for a in repository.artifacts(experiment(0).digest)}["same"]
    kept.kept.chmod(0o600)
    kept.kept.write_bytes(b"\0" * kept.size)
    (wrong,) = maintenance.check_repository(home / "zenturio.db", contents=True)
    assert "left same, whose content has changed" in wrong.message
    kept.kept.unlink()
    kept.kept.mkdir()
    (wrong,) = maintenance.check_repository(home / "zenturio.db")
    assert "left same, which is no longer a file" in wrong.message
    kept.kept.rmdir()
    (wrong,) = maintenance.check_repository(home / "zenturio.db")
    assert "left same, which is not there (No such file or directory)" in wrong.message
    drive(home, 2, 1)
    assert maintenance.check_repository(home / "zenturio.db", contents=True) == ()


def test_what_is_missing_or_of_another_size_is_told(home):
    home.parent.mkdir()
    drive(home, 30, 30)
    objects = [path for path in (home / "store" / "objects").rglob("*") if path.is_file()]
    for path in objects:
        path.unlink()
    messages = [fault.message for fault in maintenance.check_repository(home / "zenturio.db")]
    assert len(messages) == 21
    assert "left a/own, which is not there (No such file or directory): " in messages[0]
    assert "40 more artifacts are missing" in messages[-1]
    # Only the first faults are shown one by one, so one of them has to be the short file.
    (shown,) = [path for path in objects if path.name in messages[0]]
    shown.write_bytes(b"short")
    messages = [fault.message for fault in maintenance.check_repository(home / "zenturio.db")]
    assert "left a/own, which has 5 bytes, and had" in messages[0]


@pytest.mark.parametrize("move", [shutil.move, lambda a, b: shutil.copytree(a, b, symlinks=True)])
def test_a_project_that_is_moved_or_copied_has_its_files(home, tmp_path, move):
    home.parent.mkdir()
    drive(home, COUNT, 3)
    move(home.parent, tmp_path / "other")
    assert stored_contents(tmp_path / "other" / ".zenturio") == EXPECTED


def test_a_copy_that_is_pruned_leaves_the_original_as_it_was(home, tmp_path):
    home.parent.mkdir()
    drive(home, COUNT, 3)
    before = files(home)
    copy = tmp_path / "copy" / ".zenturio"
    shutil.copytree(home.parent, copy.parent)
    with opened(copy) as repository:
        removal = maintenance.prune_study(repository, STUDY)
    assert (len(removal.artifacts), removal.foreign) == (len(before), ())
    assert files(copy) == []
    assert files(home) == before
    assert stored_contents(home) == EXPECTED


def _old_style(home, root):
    """Files of before the store, whose rows name them by their paths."""
    of = experiment(1)
    path = root / "outputs" / of.digest / "sub" / "f"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"of before")
    kept = Artifact("sub/f", 9, "0" * 64, path)
    with opened(home) as repository:
        repository.open(STUDY, DEFINITION)
        lease = repository.acquire_lease(STUDY, DriverProcess.current())
        repository.add_results(STUDY, lease.number, [(of, replace(outcome(of), artifacts=(kept,)))])
        repository.release_lease(lease)
    return of.digest


def test_files_of_before_are_found_in_a_copy(home, tmp_path):
    home.mkdir(parents=True)
    digest = _old_style(home, home)
    copy = tmp_path / "copy" / ".zenturio"
    shutil.copytree(home.parent, copy.parent)
    with opened(copy) as repository:
        (kept,) = repository.artifacts(digest)
        assert kept.kept == copy / "outputs" / digest / "sub" / "f"
        maintenance.prune_study(repository, STUDY)
    assert (home / "outputs" / digest / "sub" / "f").read_bytes() == b"of before"


def test_a_copy_without_the_files_of_before_reads_the_original_and_removes_nothing(home, tmp_path):
    home.mkdir(parents=True)
    digest = _old_style(home, home)
    copy = tmp_path / "copy" / ".zenturio"
    shutil.copytree(home.parent, copy.parent)
    shutil.rmtree(copy / "outputs")
    with opened(copy) as repository:
        (kept,) = repository.artifacts(digest)
        assert kept.kept.read_bytes() == b"of before"
        removal = maintenance.prune_study(repository, STUDY)
    assert (removal.artifacts, removal.foreign) == ((), (str(kept.kept),))
    assert kept.kept.read_bytes() == b"of before"


def test_a_hostile_database_makes_nobody_remove_a_file_outside_the_project(home, tmp_path):
    home.mkdir(parents=True)
    digest = _old_style(home, home)
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "f").write_bytes(b"mine")
    (home / "outputs" / "link").symlink_to(victim)
    (home / "store").mkdir(exist_ok=True)
    (home / "store" / "objects").symlink_to(victim)
    (home / INCOMING).symlink_to(victim)
    (victim / "00").mkdir()
    (victim / "00" / ("0" * 62)).write_bytes(b"mine")
    named = [
        str(victim / "f"), f"{home}/outputs/../../../victim/f", f"{home}/outputs/link/f",
        f"store:644:{victim}", "store:644", f"store:644:{home}/store", "store:99999999999",
        "../../victim/f", "/", "", "store:x",
    ]  # fmt: skip
    for kept in named:
        with opened(home) as repository:
            repository._database.write(
                lambda t, kept=kept: t.sql("UPDATE contents SET foreign_path = ?", (kept,))
            )
            repository.artifacts(digest)
            assert maintenance.preview_pruning(repository, STUDY).artifacts == ()
    with opened(home) as repository:
        assert maintenance.prune_study(repository, STUDY).artifacts == ()
        maintenance.collect_garbage(repository, really=True, young=-1)
    assert (victim / "f").read_bytes() == (victim / "00" / ("0" * 62)).read_bytes() == b"mine"


def test_a_database_elsewhere_keeps_its_files_when_the_projects_own_are_removed(
    home, tmp_path, monkeypatch
):
    home.mkdir(parents=True)
    monkeypatch.chdir(home.parent)
    drive(home, COUNT, 3)
    elsewhere = tmp_path / "elsewhere.db"
    of = experiment(1)
    with contextlib.closing(open_repository(elsewhere)) as other:
        other.open(STUDY, DEFINITION)
        lease = other.acquire_lease(STUDY, DriverProcess.current())
        other.add_results(STUDY, lease.number, [(of, left(home, of))])
        other.release_lease(lease)
        with opened(home) as repository:
            maintenance.prune_study(repository, STUDY)
            maintenance.collect_garbage(repository, really=True, young=-1)
        kept = other.artifacts(of.digest)
        assert {a.path: a.kept.read_bytes() for a in kept} == contents(1)
        monkeypatch.chdir(tmp_path)
        assert {a.path: a.kept.read_bytes() for a in other.artifacts(of.digest)} == contents(1)
    monkeypatch.chdir(home.parent)
    elsewhere.unlink()
    with opened(home) as repository:
        maintenance.collect_garbage(repository, really=True, young=-1)
    assert [name for name in files(home) if name.startswith("objects")] == []


def test_what_others_have_too_stays_when_a_study_goes(home):
    home.mkdir(parents=True)
    with opened(home) as repository:
        for name, index in (("s", 1), ("t", 2)):
            of = experiment(index)
            repository.open(name, DEFINITION)
            lease = repository.acquire_lease(name, DriverProcess.current())
            done = left(home, of, files={"own": name.encode(), "same": b"same"})
            repository.add_results(name, lease.number, [(of, done)])
            repository.release_lease(lease)
        assert len(maintenance.prune_study(repository, "s").artifacts) == 1
        kept = repository.artifacts(experiment(2).digest)
        assert {a.path: a.kept.read_bytes() for a in kept} == {"own": b"t", "same": b"same"}


def test_who_removes_waits_for_who_publishes(home):
    home.mkdir(parents=True)
    of, order = experiment(1), []
    store = ArtifactStore(home)

    def collect():
        with store.alone():
            order.append("alone")

    with store.publishing([left(home, of)]):
        thread = threading.Thread(target=collect)
        thread.start()
        time.sleep(0.05)
        order.append("committed")
    thread.join()
    assert order == ["committed", "alone"]


def test_what_is_young_is_not_garbage(home):
    home.mkdir(parents=True)
    with opened(home) as repository:
        done = left(home, experiment(1))
        with contextlib.suppress(ZeroDivisionError), repository.store.publishing([done]):
            raise ZeroDivisionError
        assert maintenance.collect_garbage(repository, really=True) == maintenance.Garbage(
            (), (), 0
        )
        assert len(files(home)) == 4
        garbage = maintenance.collect_garbage(repository, really=True, young=-1)
    assert (len(garbage.objects), len(garbage.folders)) == (2, 1)
    assert files(home) == []


def test_where_the_system_cannot_sync_a_whole_file_system_each_file_is_synced(home, monkeypatch):
    home.mkdir(parents=True)
    synced = []
    monkeypatch.setattr(file_systems, "_syncfs", lambda: None)
    monkeypatch.setattr(file_systems, "sync_path", synced.append)
    with ArtifactStore(home).publishing([left(home, experiment(1))]) as (published,):
        own = {object_path(home / "store", a.sha256) for a in published.artifacts}
        assert own < set(synced)
        assert {path.parent for path in own} | {home / "store"} < set(synced)


def test_a_sync_that_was_slow_is_not_asked_for_again(home, monkeypatch):
    home.mkdir(parents=True)
    (home / "f").touch()
    calls = []
    monkeypatch.setattr(file_systems, "_slow", set())
    monkeypatch.setattr(file_systems, "SLOWEST_SYNC", -1.0)
    monkeypatch.setattr(file_systems, "_syncfs", lambda: calls.append)
    for _ in range(2):
        file_systems.sync_files(home, [home / "f"])
    assert len(calls) == 1


def test_what_was_set_apart_long_ago_is_swept_and_no_link_is_followed(tmp_path):
    incoming = tmp_path / INCOMING
    victim = tmp_path / "victim"
    victim.mkdir()
    (tmp_path / "other" / "store").mkdir(parents=True)
    (tmp_path / "other" / INCOMING).symlink_to(incoming)
    folders = [file_staging.attempt_folder(incoming, experiment(1).digest) for _ in range(2)]
    (incoming / "link").symlink_to(victim)
    long_ago = time.time() - file_staging.STALE_SECONDS - 1
    os.utime(folders[0], (long_ago, long_ago))
    os.utime(victim, (long_ago, long_ago))
    os.utime(incoming / "link", (long_ago, long_ago), follow_symlinks=False)
    file_staging.remove_stale(tmp_path / "other" / INCOMING)
    assert folders[0].exists()
    file_staging.remove_stale(incoming)
    assert [f.exists() for f in (*folders, victim)] == [False, True, True]


def test_a_content_that_is_no_hash_names_no_path():
    for text in ("", "../" * 20, "A" * 64, "0" * 63, "0" * 64 + "\n"):
        assert object_path(Path("/r"), text) == Path("/r/objects/00/no-such-content")
    assert Path("store") == artifact_store.STORE


def test_a_file_system_that_cannot_be_synced_is_an_error():
    sync = file_systems._syncfs()
    if sync is None:
        pytest.skip("this system has no syncfs")
    with pytest.raises(OSError, match="Bad file descriptor"):
        sync(-1)


def test_where_there_are_no_links_a_file_is_copied_into_the_store(home, monkeypatch):
    def refuse(*_arguments, **_options):
        raise OSError("no links here")

    home.parent.mkdir()
    monkeypatch.setattr(os, "link", refuse)
    drive(home, COUNT, 3)
    assert stored_contents(home) == EXPECTED
    with opened(home) as repository:
        kept = [a.kept for a in repository.artifacts(experiment(0).digest)]
    assert {path.stat().st_mode & 0o777 for path in kept} == {0o444}
    assert [path for path in (home / "store").rglob(".*") if path.name != ".lock"] == []


def test_a_row_that_names_the_store_already_keeps_its_name_and_says_its_permissions(home):
    store = ArtifactStore(home)
    for mode in (0o755, 0o640):
        row = Artifact("f", 1, "0" * 64, Path(artifact_store.in_store(mode)), 0)
        assert store.adopt(row, "1" * 32) == replace(row, mode=mode)


def test_a_content_that_many_artifacts_have_is_read_once_by_a_check(home, monkeypatch):
    home.parent.mkdir()
    drive(home, COUNT, 3)
    reads = []
    is_whole = consistency_check.has_content

    def count(path, *facts):
        reads.append(path)
        return is_whole(path, *facts)

    monkeypatch.setattr(consistency_check, "has_content", count)
    assert maintenance.check_repository(home / "zenturio.db", contents=True) == ()
    assert len(reads) == len(set(reads)) > COUNT


def test_a_folder_of_objects_is_made_once_however_many_files_go_into_it(tmp_path, monkeypatch):
    made = []
    make = artifact_store.make_object_folder
    monkeypatch.setattr(
        artifact_store, "make_object_folder", lambda path: made.append(path.parent) or make(path)
    )
    digest = experiment(0).digest
    (tmp_path / "out").mkdir()
    for number in range(600):
        (tmp_path / "out" / str(number)).write_text(str(number))
    home = tmp_path / "project" / ".zenturio"
    home.mkdir(parents=True)
    waiting = file_staging.collect_outputs(
        str(tmp_path), ["out/*"], home / INCOMING, digest, move=False
    )
    many = replace(outcome(experiment(0)), artifacts=waiting)
    with ArtifactStore(home).publishing([many]) as (published,):
        assert len(published.artifacts) == 600
    assert len(made) == len(set(made)) <= 256
    kept = (home / "store" / "objects").glob("*/*")
    assert sorted(int(path.read_text()) for path in kept) == list(range(600))


def test_a_file_has_its_content_if_size_and_bytes_are_those_that_were_recorded(tmp_path):
    path = tmp_path / "out"
    path.write_bytes(b"kept")
    before, digest = open_files(), sha256(b"kept").hexdigest()
    assert has_content(path, 4, digest)
    assert has_content(path, 5, digest) is False
    assert not has_content(path, 4, "0" * 64)
    assert has_content(tmp_path / "gone", 4, digest) is False
    assert open_files() == before


def test_a_store_that_is_not_there_is_not_the_projects_own(home):
    assert ArtifactStore(home)._is_own(home / "store")
    assert ArtifactStore(home)._is_own(home / "elsewhere") is False


def open_files():
    return len([*Path("/proc/self/fd").iterdir()])


def test_each_folder_is_opened_once_however_many_files_are_asked_for(home, monkeypatch):
    home.parent.mkdir()
    drive(home, COUNT, 3)
    opened_folders = []
    open_below, before = artifact_store._open_below, open_files()
    monkeypatch.setattr(
        artifact_store,
        "_open_below",
        lambda project, folder: opened_folders.append(folder) or open_below(project, folder),
    )
    paths = [
        f"{place}{suffix}" for place in files_in(home / "store/objects") for suffix in ("", "x")
    ]
    assert ArtifactStore(home).owned(paths) == paths[::2]
    assert sorted(set(opened_folders)) == opened_folders < paths
    assert open_files() == before


def test_a_check_of_artifacts_tells_how_much_of_them_was_read(home):
    home.parent.mkdir()
    drive(home, COUNT, 3)
    told = []
    token = work_progress.set(lambda *step: told.append(step))
    try:
        assert maintenance.check_repository(home / "zenturio.db", contents=True) == ()
    finally:
        work_progress.reset(token)
    labels, done, totals = zip(*told, strict=True)
    assert {*labels} == {"reading artifacts"}
    assert [*done] == sorted(done)
    assert {*totals} == {done[-1]}
    assert len({*done}) > 2 * COUNT
