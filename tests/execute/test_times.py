"""Times of files: what is filled in is newer than what is copied, so that a build builds it."""

import os
import time

import pytest

from needs import needs
from zenturio.annotate.scan import scan
from zenturio.execute.local import Local
from zenturio.execute.local_runner import unchanged_sources
from zenturio.experiment import ExperimentGenerator, experiment_generator
from zenturio.experiment.experiment import UnchangedFiles

MAKEFILE = "p: p.c\n\tcc -o p p.c\n\techo made >> log\n"
PROGRAM = """\
//ZEN$ SUBSTITUTE 7 = { 1, 2, 3 } AS n
//ZEN$ BUILD "make"
//ZEN$ RUN "make -s && ./p && cat log"
#include <stdio.h>
int main(void) { printf("%d\\n", 7); return 0; }
"""


def outcomes(folder, work, **others):
    application = scan(folder)
    generator, space = ExperimentGenerator(application), application.space
    made = [e for i in range(space.size) for e in generator.experiments(space.point(i))]
    place = Local(work, **others)
    try:
        return [future.result() for future in [place.submit(each) for each in made]]
    finally:
        place.close()


def said(found):
    assert [each.status for each in found] == ["ok"] * len(found), found
    return [each.stdout.head.decode().split() for each in found]


@pytest.fixture
def compiled(tmp_path):
    """A folder that holds a compiled program, made this very moment."""
    needs("cc")
    needs("make")
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "p.c").write_text(PROGRAM)
    (folder / "Makefile").write_text(MAKEFILE)
    os.system(f"make -s -C {folder}")
    (folder / "log").unlink()
    return folder


def test_a_program_that_was_compiled_before_is_compiled_for_each_point(compiled, tmp_path):
    found = outcomes(compiled, tmp_path / "work")
    assert said(found) == [["1", "made"], ["2", "made"], ["3", "made"]]
    assert {each.remark for each in found} == {""}


@pytest.mark.parametrize("seconds", [-1000, 3600])
def test_it_is_so_whenever_the_program_was_compiled(compiled, tmp_path, seconds):
    when = time.time() + seconds
    os.utime(compiled / "p", (when, when))
    assert said(outcomes(compiled, tmp_path / "work")) == [
        ["1", "made"],
        ["2", "made"],
        ["3", "made"],
    ]


def test_a_build_that_is_used_again_has_its_times(compiled, tmp_path):
    outcomes(compiled, tmp_path / "work")
    assert said(outcomes(compiled, tmp_path / "work")) == [
        ["1", "made"],
        ["2", "made"],
        ["3", "made"],
    ]


def test_inputs_keep_their_own_times_small_and_large(tmp_path):
    folder = tmp_path / "app"
    folder.mkdir()
    command = "stat -L -c %Y small large filled.sh"
    (folder / "filled.sh").write_text(
        f'# ZEN$ SUBSTITUTE N = {{ 1, 2 }}\n# ZEN$ RUN "{command}"\n: N\n'
    )
    (folder / "small").write_text("x")
    (folder / "large").write_bytes(b"x" * (2**20 + 1))
    os.utime(folder / "small", (1000, 1000))
    os.utime(folder / "large", (2000, 2000))
    began = int(time.time())
    for small, large, filled in said(outcomes(folder, tmp_path / "work", jobs=1)):
        assert (small, large) == ("1000", "2000")
        assert int(filled) >= began
    os.utime(folder / "large", (3000, 3000))  # the same content, touched
    assert [each[1] for each in said(outcomes(folder, tmp_path / "work"))] == ["3000"] * 2


def test_a_build_that_leaves_every_file_as_it_was_says_what_to_do(compiled, tmp_path):
    text = PROGRAM.replace('BUILD "make"', 'BUILD "true"').replace(
        "make -s && ./p && cat log", "./p"
    )
    (compiled / "p.c").write_text(text)
    for _ in range(2):  # made, and found on disk
        found = outcomes(compiled, tmp_path / "work")
        assert said(found) == [["7"]] * 3
        assert all("BUILD changed no file" in each.remark for each in found)


def test_a_build_that_only_rewrites_a_file_does_something(compiled, tmp_path):
    (compiled / "p.c").write_text(PROGRAM.replace('BUILD "make"', 'BUILD "touch p.c"'))
    assert {each.remark for each in outcomes(compiled, tmp_path / "work")} == {""}


def test_a_folder_that_is_used_again_has_new_times(tmp_path):
    folder = tmp_path / "app"
    folder.mkdir()
    script = (
        '# ZEN$ SUBSTITUTE N = { 1, 2, 3 }\n# ZEN$ RUN "sh a.sh"\ntest old -ot a.sh && echo N\n'
    )
    (folder / "a.sh").write_text(script)
    (folder / "old").write_text("x")
    assert said(outcomes(folder, tmp_path / "work", jobs=1)) == [["1"], ["2"], ["3"]]


def test_a_metric_of_a_file_that_the_run_left_as_it_was_is_told(tmp_path):
    folder = tmp_path / "p"
    folder.mkdir()
    (folder / "old.txt").write_text("x 3")
    (folder / "new.txt").write_text("x 3")
    (folder / "p.sh").write_text(
        "#ZEN$ ASSIGN n = { 1 }\nn=1\necho x 3 > new.txt\n"
        '#ZEN$ RUN "sh p.sh"\n'
        '#ZEN$ METRIC x FROM "new.txt" REGEX "x (.*)"\n'
        '#ZEN$ METRIC y FROM "old.txt" REGEX "x (.*)"\n'
        '#ZEN$ METRIC z FROM "p.sh" REGEX "n=(.*)"\n'
    )
    (outcome,) = outcomes(folder, tmp_path / "work")
    assert outcome.status == "ok"
    assert outcome.remark.startswith("old.txt is a file of the application, and no RUN changed it")
    assert outcome.remark.count("no RUN changed it") == 1


def test_files_of_metrics_are_looked_for_once_among_very_many(tmp_path, monkeypatch):
    for number in range(50):
        (tmp_path / f"data{number}.txt").write_text("x")
    (tmp_path / "study.zen").write_text(
        'ZEN$ PARAM n = { 1:3 }\nZEN$ RUN "true {n}"\nZEN$ METRIC y FROM "data7.txt" REGEX "(x)"\n'
    )
    application, calls = scan(tmp_path), []
    monkeypatch.setattr(experiment_generator, "_MOST_HELD", 10)
    generator = ExperimentGenerator(application)
    make = UnchangedFiles.__getitem__
    monkeypatch.setattr(UnchangedFiles, "__getitem__", lambda *at: calls.append(at) or make(*at))
    for point in application.space:
        (experiment,) = generator.experiments(point, 0)
        assert unchanged_sources(experiment, str(tmp_path)) == ["data7.txt"]
    assert len(calls) == 1
