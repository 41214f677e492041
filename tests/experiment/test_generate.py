"""From an application and a point to experiments."""

import gc
import itertools
import json

import pytest

from zenturio.annotate.scan import scan
from zenturio.errors import InputError, PlaceError
from zenturio.execute.file_staging import InputCache, content_of, is_small
from zenturio.execute.folder_files import COPY_LIMIT_BYTES as LARGE
from zenturio.execute.workspace import FolderPlan, StagedFolder, part_files
from zenturio.experiment import (
    ExperimentFile,
    ExperimentGenerator,
    experiment_generator,
    identity,
)
from zenturio.experiment.experiment import files_named
from zenturio.experiment.identity import content_digest

PROGRAM = """\
//ZEN$ SUBSTITUTE NN = { 64, 128 } AS n
//ZEN$ ENV THREADS = { 1, 2 } AS threads
//ZEN$ PARAM unused = { 1, 2 }
//ZEN$ BUILD "cc m.c -o m" TIMEOUT 60s
//ZEN$ RUN "./m {n}" TIMEOUT 5s RETRY 2 CPUS threads MEMORY 1MB
//ZEN$ METRIC gflops FROM stdout REGEX "(.*)"
//ZEN$ OUTPUT "*.dat"
int n = NN;
"""


@pytest.fixture
def generator(tmp_path):
    def make(text=PROGRAM, **others):
        folder = tmp_path / "app"
        folder.mkdir(exist_ok=True)
        (folder / "m.c").write_text(text)
        for name, content in others.items():
            (folder / name).write_bytes(content)
        application = scan([folder])
        return ExperimentGenerator(application), application.space

    return make


def all_of(made):
    generator, space = made
    return [e for i in range(space.size) for e in generator.experiments(space.point(i))]


def test_an_experiment_is_what_the_directives_say(generator):
    made, space = generator(data=b"\0\1")
    (found,) = made.experiments(space.point(6))
    assert dict(found.values) == {"n": 128, "threads": 2, "unused": 1}
    assert (found.index, found.repeat, found.environment) == (6, 1, {"THREADS": "2"})
    assert [(s.command, s.timeout, s.retry, s.cpus, s.memory) for s in found.steps] == [
        ("./m 128", 5, 2, 2, 1_000_000)
    ]
    files = {filed.path: content_of(filed) for filed in found.files}
    assert files["m.c"].endswith(b"int n = 128;\n")
    assert files["data"] == b"\0\1"
    assert found.recipe.outputs == ("*.dat",)
    assert [metric.name for metric in found.recipe.metrics] == ["gflops"]


def test_experiments_differ_where_what_is_run_differs(generator):
    digests = [e.digest for e in all_of(generator())]
    assert len(set(digests)) == len(digests) == 8


def test_points_that_only_formulas_tell_apart_have_outcomes_of_their_own(generator):
    first, second, *_ = all_of(generator())
    assert [e.values["unused"] for e in (first, second)] == [1, 2]
    assert first.files == second.files
    assert first.digest != second.digest


def test_directives_that_come_or_go_leave_experiments_what_they_were(generator):
    before = [e.digest for e in all_of(generator())]
    more = PROGRAM.replace("int n", '//ZEN$ METRIC m FROM stdout REGEX "(m)"\n\nint n', 1)
    more = more.replace("\n\n", "\n") + "//ZEN$ OBSERVE memory\n//ZEN$ OBSERVE perf cycles\n"
    assert [e.digest for e in all_of(generator(more))] == before
    other = PROGRAM.replace("int n = NN;", "long n = NN;")
    assert not set(before) & {e.digest for e in all_of(generator(other))}


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("{ 64, 128 }", "{ 64, 128, 256 }", True),
        ('REGEX "(.*)"', 'REGEX "(.+)"', True),
        ("//ZEN$ OUTPUT", "//ZEN$ CONSTRAINT VALUE n > 64\n//ZEN$ OUTPUT", True),
        ("int n", "long n", False),
        ("cc m.c", "cc -O2 m.c", False),
        ("./m {n}", "./m -v {n}", False),
    ],
)
def test_another_program_is_another_version(generator, old, new, same):
    before, _ = generator()
    after, _ = generator(PROGRAM.replace(old, new))
    assert (after.program == before.program) == same


def test_files_that_can_be_executed_and_links_are_parts_of_the_version(generator, tmp_path):
    versions = [generator(tool=b"#!/bin/sh", other=b"")[0].program]
    folder = tmp_path / "app"
    (folder / "tool").chmod(0o755)
    versions.append(generator()[0].program)
    for target in ("tool", "other"):
        (folder / "link").unlink(missing_ok=True)
        (folder / "link").symlink_to(target)
        versions.append(generator()[0].program)
    assert len({json.dumps(each, sort_keys=True) for each in versions}) == len(versions)


def test_the_document_of_a_program_names_each_file_with_its_content(generator):
    program = all_of(generator(data=b"0 1"))[0].program
    constants = json.loads(program.document())["constants"]
    assert constants == {"data": ["file", content_digest(b"0 1").hex()]}


def test_the_files_of_metrics_are_kept(generator):
    text = PROGRAM + '//ZEN$ METRIC x FROM "out/[x].json" JSON "$.x"\n'
    made, _ = generator(text)
    assert made.recipe.outputs == ("*.dat", "out/[[]x].json")


def test_a_build_is_shared_by_experiments_that_see_the_same_files(generator):
    experiments = all_of(generator())
    builds = {e.build.digest: e.build for e in experiments}
    assert len(builds) == 2
    assert all(e.build is builds[e.build.digest] for e in experiments)
    build = experiments[0].build
    assert [(s.command, s.timeout) for s in build.steps] == [("cc m.c -o m", 60)]
    assert build.files == experiments[0].files


def test_a_build_may_depend_on_a_value_by_its_command(generator):
    text = PROGRAM.replace("cc m.c", "cc -DT={threads} m.c")
    experiments = all_of(generator(text))
    assert {e.build.steps[0].command for e in experiments} == {
        "cc -DT=1 m.c -o m",
        "cc -DT=2 m.c -o m",
    }
    assert len({e.build.digest for e in experiments}) == 4


CHANGES = {
    "the code": (PROGRAM.replace("int n", "long n"), True),
    "a build": (PROGRAM.replace("cc m.c", "cc -O3 m.c"), True),
    "a run": (PROGRAM.replace("./m {n}", "./m -v {n}"), True),
    "a metric": (PROGRAM.replace('"(.*)"', '"(.+)"'), False),
    "a timeout": (PROGRAM.replace("5s", "6s"), False),
    "an output": (PROGRAM.replace("*.dat", "*.txt"), False),
    "a set": (PROGRAM.replace("{ 64, 128 }", "{ 64, 256 }"), False),
    "a name": (PROGRAM.replace("threads", "workers"), False),
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_edit_makes_another_experiment_if_it_changes_what_is_run(generator, change):
    text, differs = CHANGES[change]
    before = all_of(generator())[0].digest
    assert (all_of(generator(text))[0].digest != before) is differs


def test_every_unchanged_file_counts(generator):
    digests = {
        all_of(generator(**others))[0].digest
        for others in ({}, {"data": b"1"}, {"data": b"2"}, {"data": b"1", "more": b""})
    }
    assert len(digests) == 4


def test_the_same_application_has_the_same_digests_anywhere(generator, tmp_path):
    here = [e.digest for e in all_of(generator())]
    (tmp_path / "app").rename(tmp_path / "there")
    application = scan([tmp_path / "there"])
    assert [e.digest for e in all_of((ExperimentGenerator(application), application.space))] == here


def test_files_that_nothing_is_filled_into_are_named_and_not_held(generator):
    large = bytes(LARGE + 1)
    (found, *_) = all_of(generator(big=large, small=large[1:]))
    files = {filed.path: filed for filed in found.files}
    assert files["small"].content is files["big"].content is None
    assert [content_of(files[name]) for name in ("small", "big")] == [large[1:], large]
    assert [is_small(files[name]) for name in ("small", "big")] == [True, False]


def test_an_original_that_changed_since_the_scan_is_refused(generator, tmp_path):
    (found, *_) = all_of(generator(data=b"before"))
    (filed,) = (filed for filed in found.files if filed.path == "data")
    (tmp_path / "app" / "data").write_bytes(b"behind")
    with pytest.raises(PlaceError, match="data has changed since the study began"):
        content_of(filed)


def test_a_large_file_counts_by_its_content(generator):
    one, two = (all_of(generator(big=bytes(LARGE) + end))[0].digest for end in (b"1", b"2"))
    assert one != two


REPEATED = """\
//ZEN$ REPEAT 3 SEED seed
//ZEN$ SUBSTITUTE NN = { 1, 2 } AS n
//ZEN$ RUN "./m {seed}"
int n = NN;
"""


def test_repeats_have_seeds_of_their_own(generator):
    experiments = all_of(generator(REPEATED))
    assert [(e.repeat, e.steps[0].command) for e in experiments[:3]] == [
        (1, "./m 1"),
        (2, "./m 2"),
        (3, "./m 3"),
    ]
    assert [dict(e.values) for e in experiments[3:5]] == [{"n": 2, "seed": 1}, {"n": 2, "seed": 2}]
    assert len({e.digest for e in experiments}) == 6


def test_the_keys_of_all_repeats_of_a_point_are_those_of_its_experiments(generator):
    made, space = generator(REPEATED)
    assert list(made.repeats) == [1, 2, 3]
    point = space.point(1)
    assert made.keys_of(point) == [each.key for each in made.experiments(point)]


def test_a_seed_that_is_declared_counts_from_its_element(generator):
    text = REPEATED + "//ZEN$ ENV SEED = { 40 } AS seed\n"
    experiments = all_of(generator(text))
    assert [e.environment for e in experiments[:3]] == [{"SEED": f"{n}"} for n in (40, 41, 42)]


def test_repeats_without_a_seed_are_experiments_of_their_own(generator):
    experiments = all_of(generator(REPEATED.replace(" SEED seed", "").replace("{seed}", "")))
    assert len({e.digest for e in experiments}) == 6
    assert experiments[0].files == experiments[1].files


@pytest.mark.parametrize(
    ("cpus", "message"),
    [
        ("n / 128", "CPUS is real 0.5 where n = int 64"),
        ("threads - 1", "CPUS is int 0 where threads = int 1"),
        ("0.5", "CPUS is real 0.5 where it is written"),
        ("1 / 3", "CPUS is real 0.3333333333333333 where it is written"),
        ("sometimes", "CPUS is NULL where sometimes = NULL"),
    ],
)
def test_cpus_that_are_no_whole_number_are_refused_with_the_values(generator, cpus, message):
    text = PROGRAM + "//ZEN$ PARAM sometimes = { 2 } WHEN n > 64\n"
    made = generator(text.replace("CPUS threads", f"CPUS {cpus}"))
    with pytest.raises(InputError, match="CPUS is ") as caught:
        all_of(made)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.place.line == 5
    assert diagnostic.place.text[diagnostic.place.column - 1 :].startswith(cpus.split()[0])
    assert "max(1, threads)" in diagnostic.hint
    assert diagnostic.message == message


def test_cpus_may_be_computed(generator):
    experiments = all_of(generator(PROGRAM.replace("CPUS threads", "CPUS max(1, threads // 2)")))
    assert {e.steps[0].cpus for e in experiments} == {1}


def test_no_value_becomes_part_of_a_path(generator):
    text = PROGRAM.replace("{ 64, 128 }", "{ ../x, /etc/x, 'a b' }")
    for each in all_of(generator(text)):
        assert [filed.path for filed in each.files] == ["m.c"]


def test_a_generator_makes_the_same_again(generator):
    made, space = generator()
    first, second = (
        list(itertools.chain(*(made.experiments(space.point(i)) for i in range(8))))
        for _ in range(2)
    )
    assert first == second


def test_what_is_remembered_of_a_long_sweep_has_an_end(generator, monkeypatch):
    text = PROGRAM.replace("{ 64, 128 }", "{ 1:9 }").replace("cc m.c", "cc -DN={n} m.c")
    expected = [each.digest for each in all_of(generator(text))]
    keys = [each.key for each in all_of(generator(text))]
    monkeypatch.setattr(experiment_generator, "_REMEMBERED", 3)
    monkeypatch.setattr(identity, "_REMEMBERED", 3)
    made, space = generator(text)
    memories = (made._builds, made._keys._terms, made._makes[0]._known, made._runs[0]._known)
    sizes = set()
    for number in range(space.size):
        (found,) = made.experiments(space.point(number))
        assert (found.digest, found.key) == (expected[number], keys[number])
        sizes |= {len(memory) for memory in memories}
    assert sizes == {1, 2, 3}


def test_recorded_digests_of_files_stand_for_the_files(generator):
    made, space = generator(PROGRAM + '//ZEN$ USE PROGRAM "sh"\n', data=b"0 1")
    expected = [(each.digest, each.program.digest) for each in all_of((made, space))]
    files = {path: (mode, content) for path, mode, content in made.hashed}
    used = made._used

    def digests(files, used):
        recorded = ExperimentGenerator(made._application, recorded=(files, used))
        return [(each.digest, each.program.digest) for each in all_of((recorded, space))]

    assert digests(files, used) == expected
    assert not set(digests({"data": (0o644, bytes(16))}, used)) & set(expected)
    assert not set(digests(files, dict.fromkeys(used, "ab" * 16))) & set(expected)


def test_the_program_as_the_former_format_had_it_follows_links(generator, tmp_path):
    generator(data=b"0 1")
    folder = tmp_path / "app"

    def programs():
        plain = ExperimentGenerator(scan([folder]))
        made = ExperimentGenerator(scan([folder]), former_digests=True)
        assert plain.former_program == plain.program == made.program
        return made.program, made.former_program

    program, former = programs()
    assert former == program
    (folder / "link").symlink_to("data")
    program, former = programs()
    assert former.keys() == program.keys()
    assert {name for name in program if former[name] != program[name]} == {"link"}
    (folder / "link").unlink()
    (folder / "link").write_bytes(b"0 1")
    assert programs()[0] == former


def test_of_very_many_files_no_object_is_held(tmp_path, monkeypatch):
    for i in range(50):
        (tmp_path / f"file{i:02}").write_text(f"{i}")
    (tmp_path / "run.sh").write_text('#ZEN$ SUBSTITUTE N = { 1, 2 }\n#ZEN$ RUN "sh run.sh"\nN\n')
    application = scan([tmp_path])

    def made_experiment():
        return ExperimentGenerator(application).experiments(application.space.point(1))[0]

    held = made_experiment()
    monkeypatch.setattr(experiment_generator, "_MOST_HELD", 49)
    listed = made_experiment()
    folders = [tmp_path / "held", tmp_path / "listed"]
    inputs = InputCache(tmp_path / "inputs")
    for folder, experiment in zip(folders, (held, listed), strict=True):
        folder.mkdir()
        constants, filled = part_files(experiment.files)
        slot, plan = StagedFolder(str(folder)), FolderPlan(constants)
        slot.fill(plan, filled, inputs)
        slot.fill(plan, filled, inputs)
    assert [*listed.files] == [*held.files]
    assert listed.files[1:5] == [*held.files[1:5]]
    assert [*listed.files.common[2:4]] == [*held.files[3:5]]
    assert (listed.files == object()) is False
    some = frozenset(["run.sh", "file07", "file03"])
    named = files_named(listed.files, some)
    assert [file.path for file in named] == ["run.sh", "file03", "file07"]
    assert named == files_named(listed.files, some) == files_named(held.files, some)
    assert (listed.digest, listed.program.document()) == (held.digest, held.program.document())
    contents = [{p.name: p.read_text() for p in folder.iterdir()} for folder in folders]
    assert contents[0] == contents[1]
    assert len(contents[0]) == 51
    # Beside the experiment that holds them, the one that lists them has its own file alone.
    del constants, filled, plan, experiment, named
    listed.files.common._named.clear()
    objects = [o for o in gc.get_objects() if type(o) is ExperimentFile]
    assert len([o for o in objects if str(o.original).startswith(f"{tmp_path}/file")]) == 50
