"""What would be run, written down: a folder for each experiment, and a manifest of them all."""

import json
import os

import pytest

from zenturio.annotate.file_selection import IGNORE
from zenturio.annotate.scan import scan
from zenturio.errors import ConflictError, Interrupted, PlaceError
from zenturio.experiment import ExperimentGenerator
from zenturio.study import experiment_export
from zenturio.study.driver.experiment_source import select_points
from zenturio.study.experiment_export import DRAFT, MANIFEST, expand

PROGRAM = """\
#ZEN$ SUBSTITUTE NN = { 1, 2 } AS n
#ZEN$ ENV MODE = { fast, exact } AS mode
#ZEN$ BUILD "make"
#ZEN$ RUN "sh in/a.sh {n}"
echo NN
"""


@pytest.fixture
def application(tmp_path):
    folder = tmp_path / "app"
    (folder / "in" / "empty").mkdir(parents=True)
    (folder / "in" / "a.sh").write_text(PROGRAM)
    (folder / "in" / "a.sh").chmod(0o755)
    (folder / "data").write_bytes(b"\0\1")
    os.utime(folder / "data", ns=(10**18, 10**18))
    (folder / "tool").write_text("x")
    (folder / "tool").chmod(0o750)
    (folder / "link").symlink_to("data")
    return scan([folder])


def written(application, out, **options):
    return expand(application, select_points(application.space, **options), out)


def manifest(out):
    return [json.loads(line) for line in (out / MANIFEST).read_text().splitlines()]


def test_each_experiment_has_a_folder_with_its_files(application, tmp_path):
    out = tmp_path / "some" / "out"
    assert written(application, out) == 4
    lines = manifest(out)
    points = [(line["parameters"]["n"], line["parameters"]["mode"]) for line in lines]
    assert points == [(1, "fast"), (1, "exact"), (2, "fast"), (2, "exact")]
    assert [line["index"] for line in lines] == [0, 1, 2, 3]
    assert [line["environment"] for line in lines[:2]] == [{"MODE": "fast"}, {"MODE": "exact"}]
    assert lines[3]["commands"] == ["make", "sh in/a.sh 2"]
    assert all(line["path"] == line["digest"] and "repeat" not in line for line in lines)
    assert {path.name for path in out.iterdir()} == {
        MANIFEST, IGNORE, *(line["digest"] for line in lines),
    }  # fmt: skip
    folder = out / lines[3]["path"]
    assert (folder / "in" / "a.sh").read_text().endswith("echo 2\n")
    filled = (folder / "in" / "a.sh").stat().st_mtime_ns
    assert filled > (folder / "data").stat().st_mtime_ns == 10**18
    assert (folder / "data").read_bytes() == b"\0\1"
    assert (folder / "data").stat().st_mtime_ns == 10**18
    assert (folder / "in" / "a.sh").stat().st_mtime_ns > 10**18
    assert (folder / "tool").stat().st_mode & 0o777 == 0o750
    assert (folder / "in" / "a.sh").stat().st_mode & 0o777 == 0o755
    assert (folder / "link").readlink().name == "data"
    assert (folder / "in" / "empty").is_dir()


def test_repeats_are_lines_of_their_own(tmp_path):
    (tmp_path / "a.sh").write_text('#ZEN$ REPEAT 2 SEED s\n#ZEN$ RUN "sh a.sh {s}"\n')
    assert written(scan([tmp_path / "a.sh"]), tmp_path / "out") == 2
    assert [line["repeat"] for line in manifest(tmp_path / "out")] == [1, 2]


def test_points_that_are_selected_keep_their_numbers(application, tmp_path):
    assert written(application, tmp_path / "out", index=2) == 1
    assert [line["index"] for line in manifest(tmp_path / "out")] == [2]


def test_what_is_there_is_left_alone_and_the_rest_is_added(application, tmp_path):
    out = tmp_path / "out"
    written(application, out, limit=1)
    (first,) = manifest(out)
    (out / first["path"] / "mine").touch()
    left = out / f".{first['digest'][:-1]}x"
    left.mkdir()
    steps = []
    assert expand(application, select_points(application.space), out, lambda: steps.append(1)) == 4
    assert (out / first["path"] / "mine").exists()
    assert len(manifest(out)) == len(steps) == 4


def test_a_draft_of_a_folder_is_made_anew(application, tmp_path):
    out = tmp_path / "out"
    written(application, out, limit=1)
    (line,) = manifest(out)
    (out / line["path"]).rename(out / f".{line['digest']}")
    (out / f".{line['digest']}" / "half").touch()
    assert written(application, out, limit=1) == 1
    assert not (out / line["path"] / "half").exists()
    assert (out / line["path"] / "data").exists()


def test_a_folder_with_other_files_is_not_written_into(application, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    with pytest.raises(ConflictError, match="contains other files, and no manifest"):
        written(application, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]
    with pytest.raises(PlaceError, match="cannot make the folder"):
        written(application, tmp_path / "app" / "data")


def test_what_stops_it_leaves_no_manifest_and_the_same_call_goes_on(application, tmp_path):
    out = tmp_path / "out"

    def stop():
        if len(list(out.glob("[0-9a-f]*"))) == 2:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match=f"stopped: 2 experiments are in {out}"):
        expand(application, select_points(application.space), out, stop)
    assert (out / DRAFT).exists()
    assert not (out / MANIFEST).exists()
    assert written(application, out) == 4
    assert not (out / DRAFT).exists()


@pytest.mark.parametrize(("number", "hint"), [(28, "free disk space"), (13, "")])
def test_a_disk_that_is_full_is_told(application, tmp_path, monkeypatch, number, hint):
    def write(_experiment, _out):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(experiment_export, "_write", write)
    with pytest.raises(PlaceError, match=f": {os.strerror(number)}") as caught:
        written(application, tmp_path / "out")
    assert caught.value.diagnostics[0].hint.startswith(hint)
    assert bool(caught.value.diagnostics[0].hint) == bool(hint)


def test_large_files_are_copied_from_where_they_are(application, tmp_path):
    (tmp_path / "app" / "large").write_bytes(bytes(2**21))
    application = scan([tmp_path / "app"])
    generator = ExperimentGenerator(application)
    (experiment,) = generator.experiments(application.space.point(0))
    assert {f.path for f in experiment.files if f.content is None and f.kind == "file"} >= {"large"}
    written(application, tmp_path / "out", limit=1)
    (line,) = manifest(tmp_path / "out")
    assert (tmp_path / "out" / line["path"] / "large").stat().st_size == 2**21
