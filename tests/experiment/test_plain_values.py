"""Experiments, files and attempts as values: what they are, and what does not tell two apart."""

import stat
from pathlib import Path

from zenturio.experiment import (
    Artifact,
    Experiment,
    ExperimentFile,
    HostDetails,
    MachineKind,
    Recipe,
    Step,
)
from zenturio.experiment.experiment import (
    Build,
    ExperimentValues,
    FileList,
    ProgramIdentity,
    empty_folder,
    link_to,
    positions_of,
)
from zenturio.experiment.identity import content_digest, content_hash, kind_of_mode
from zenturio.space import Space

DIGEST, FORMER = "ab" * 16, "cd" * 16


def experiment(*steps, build=None, **more):
    return Experiment(DIGEST, 0, 1, {}, (), steps, {}, build, Recipe(), **more)


def test_a_link_and_a_folder_are_no_files():
    link, folder = link_to("a", "b"), empty_folder("c")
    assert (link.kind, link.content, stat.S_IMODE(link.mode)) == ("link", b"b", 0o777)
    assert (folder.kind, folder.content, stat.S_IMODE(folder.mode)) == ("folder", b"", 0o755)
    assert ExperimentFile("d", 0o644, b"").kind == "file"


def test_a_file_that_anybody_may_execute_is_executable():
    kinds = {mode: kind_of_mode(mode) for mode in (0o644, 0o744, 0o654, 0o645)}
    assert kinds == {0o644: "file", 0o744: "executable", 0o654: "executable", 0o645: "executable"}


def test_names_of_an_experiment_beside_its_digest_do_not_tell_it_apart():
    program = ProgramIdentity("ef" * 16, 2, lambda: "{}")
    named = experiment(program=program, key=b"key", former=FORMER)
    assert named == experiment()
    assert repr(named) == repr(experiment())


def test_what_was_asked_of_a_file_before_does_not_tell_it_apart():
    file = ExperimentFile("a", 0o644, b"x")
    assert file == ExperimentFile("a", 0o644, b"x", size=1, stamp=b"stamp")
    assert file != ExperimentFile("a", 0o755, b"x")


def test_equal_lists_of_files_have_one_hash_wherever_their_files_come_from():
    one, other = ExperimentFile("a", 0o644, b"x"), ExperimentFile("b", 0o644, b"y")
    assert {FileList([one], [other]), FileList((one,), (other,))} == {FileList([one], [other])}
    assert FileList([one], [other]) != FileList([one], [one])


def test_an_experiment_may_be_known_by_its_former_digest():
    assert experiment().digests == (DIGEST,)
    assert experiment(former=FORMER).digests == (DIGEST, FORMER)


def test_an_experiment_asks_for_what_the_largest_of_its_commands_asks_for():
    assert (experiment().cpus, experiment().memory) == (1, 0)
    assert (experiment(Step("a")).cpus, experiment(Step("a")).memory) == (1, 0)
    build = Build(DIGEST, (), (Step("make", cpus=4, memory=10),))
    wide = experiment(Step("a", cpus=2, memory=30), Step("b", cpus=3), build=build)
    assert (wide.cpus, wide.memory) == (4, 30)


def test_values_that_are_no_point_remember_where_those_of_the_point_stand():
    point = Space(n=[10, 20], m=["a", "b"]).point(3)
    for where in (point, point.positions):
        values = ExperimentValues({**point, "seed": 7}, where)
        assert positions_of(values, frozenset({"n", "seed"})) == {"n": 1}
    assert positions_of({"n": 10}, frozenset({"n"})) == {}


def test_what_is_not_said_of_a_file_or_a_host_is_plain_or_unknown():
    assert Artifact("a", 0, "", Path("b")).mode == 0o644
    assert (HostDetails().memory, MachineKind().cores) == (0, 0)
    assert ExperimentFile("a", 0o644).size == -1


def test_content_that_is_hashed_in_pieces_has_the_digest_of_all_of_it():
    pieces = content_hash()
    for piece in (b"one", b"two"):
        pieces.update(piece)
    assert pieces.digest() == content_digest(b"onetwo")
