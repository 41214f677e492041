"""Every program of the gallery runs as it stands, spans what its README says, and so do its points."""

import csv
import itertools
import json
import math
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from needs import needs
from record.reference import ReferenceRepository
from zenturio.annotate.commands import fill_command
from zenturio.annotate.model import CopiedFile
from zenturio.annotate.scan import scan
from zenturio.annotate.substitution import Filler
from zenturio.execute.local import Local
from zenturio.study.driver.experiment_source import select_points
from zenturio.study.driver.slot_pool import SlotPool
from zenturio.study.driver.study_session import StudySession
from zenturio.study.stages.pipeline import Pipeline

GALLERY = Path(__file__).parents[2] / "annotations"
README = (GALLERY / "README.md").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Program:
    """What is known of one program without reading its directives."""

    size: int
    tools: tuple[str, ...]
    as_it_is: dict[str, str] = field(default_factory=dict)
    """What stands in the source where its commands name a parameter."""
    after: str = ""
    """The program before it, whose files it reads."""


PROGRAMS = {
    "advection": Program(4 * (5 + 4 + 4), ("python3",)),
    "annealing": Program(4 * 3 * 3 - 3, ("python3",), {"seed": "1"}),
    "autocorr": Program(5 * (4 + 8 + 16 + 32), ("lua5.4",)),
    "entropy": Program(2 * (3 * 4 + 2), ("perl",), {"order": "2", "text": "texts/english.txt"}),
    "filter": Program(4 + 5 + 6 + 6 + 6, ("python3",)),
    "gemm": Program(
        12288,
        ("python3",),
        {"MWG": "64", "NWG": "64", "KWG": "16", "MDIMC": "16", "NDIMC": "16", "MDIMA": "16"}
        | {"NDIMB": "16", "VWM": "2", "VWN": "2", "SA": "1", "SB": "1"},
    ),
    "heat77": Program(3 * 3, ("gfortran",)),
    "matmul": Program(3 * 3 + 2, ("cc",)),
    "montecarlo": Program(3 * 4 + 2 + 1, ("bash", "awk", "xargs"), {"darts": "40000"}),
    "orbits": Program(1 + 3 * 3 * 2, ("gcc", "make")),
    "poisson": Program(10 + 10 + 5, ("gfortran",)),
    "predators": Program((1 + 4 * 3) * 4, ("python3",)),
    "rainfall": Program(3 * (2 + 2 + 1), ("sqlite3",)),
    "roads": Program(3 * 2, ("python3",)),
    "routes": Program(3 * 2 * 5, ("python3",), after="roads"),
    "sieve": Program((5 + 4) * 4, ("rustc",), {"level": "3", "n": "10000000"}),
    "sorting": Program(
        4 * 5 + 4 * 5 + 3 * 4 + 2,
        ("cc",),
        {"algorithm": "quick", "count": "100000", "cutoff": "16", "ratio": "2.25", "bits": "8"},
    ),
    "trees": Program(
        2 * (4 + 3 + 3), ("javac", "java"), {"collector": "Serial", "heap": "64", "depth": "14"}
    ),
    "tuning": Program(4 * 4 * 3 * 5 * 2 * 3 * 2, ("python3",), {"seed": "1"}),
    "wave": Program(3 * (3 + 4), ("g++", "make")),
    "weblog": Program(3 * 3 * 2 + 3, ("sh", "awk", "sort", "uniq")),
    "wien2k": Program(300**21, ("python3",)),
}
WORDS = {"plan"}
LONG = {"sieve", "trees", "tuning", "wave"}
every_program = pytest.mark.parametrize("name", PROGRAMS)


@pytest.fixture(scope="module")
def application():
    """The applications of the gallery by name; each is scanned once."""
    known = {}

    def of(name):
        if name not in known:
            known[name] = scan([GALLERY / name])
        return known[name]

    return of


@pytest.fixture
def original(tmp_path):
    """Copies of the programs as they stand, to build and run them in."""
    return lambda name: Path(shutil.copytree(GALLERY / name, tmp_path / name))


def build_and_run(application, folder, texts, environment):
    """All commands in *folder*: what they print, together."""
    surroundings = os.environ | environment | {"ZEN_METRICS": str(folder / "metrics.jsonl")}
    stdout = stderr = ""
    for command in (*application.builds, *application.runs):
        line = fill_command(command.text, texts)
        done = subprocess.run(
            ["/bin/sh", "-c", line],
            cwd=folder,
            env=surroundings,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        stdout, stderr = stdout + done.stdout, stderr + done.stderr
    return stdout, stderr


def run_before(name, folder):
    """The files that the program before it keeps, where the program *name* reads them."""
    before = PROGRAMS[name].after
    if before:
        shutil.copytree(GALLERY / before, folder / before)
        build_and_run(scan([GALLERY / before]), folder / before, PROGRAMS[before].as_it_is, {})


def look_up(metric, folder, stdout, stderr):
    """All that a metric's own words find, by the simplest means; regions report themselves."""
    if not metric.source:
        lines = (folder / "metrics.jsonl").read_text().splitlines()
        return [told[metric.name] for told in map(json.loads, lines) if metric.name in told]
    printed = {"stdout": stdout, "stderr": stderr}
    text = printed.get(metric.source) or (folder / metric.source).read_text()
    if metric.regex is not None:
        return re.findall(metric.regex, text)
    if metric.column is not None:
        return [row[metric.column] for row in csv.DictReader(text.splitlines())]
    value = json.loads(text)
    for key in metric.json.removeprefix("$.").split("."):
        value = value[key]
    return [value]


def measure(application, folder, stdout, stderr, *, probed=True):
    """The last value of each metric that is looked for; a missing one fails the test.

    A program that is not filled has no probes around its regions.
    """
    values = {}
    for metric in application.metrics:
        if metric.formula is None and (metric.source or probed):
            found = look_up(metric, folder, stdout, stderr)
            assert found, f"{metric.name} is not in\n{stdout}\n{stderr}"
            is_word = metric.name in WORDS or metric.take == "count"
            values[metric.name] = found[-1] if is_word else float(found[-1])
    return values


def test_every_program_is_known_here():
    assert set(PROGRAMS) == {path.name for path in GALLERY.iterdir() if path.is_dir()}


def test_the_readme_tells_of_every_program_and_its_points():
    rows = re.findall(r"^\| \[(\w+)\]\(\1\) \|.*\| ([\d,]+|300\^21) \|", README, re.MULTILINE)
    told = {name: 300**21 if "^" in size else int(size.replace(",", "")) for name, size in rows}
    assert told == {name: program.size for name, program in PROGRAMS.items()}
    assert [name for name, _ in rows] == list(dict.fromkeys(name for name, _ in rows))


@every_program
def test_a_program_spans_exactly_its_points(name, application):
    assert application(name).space.size == PROGRAMS[name].size


@every_program
def test_a_program_is_annotated_without_warnings(name, application):
    assert application(name).warnings == ()
    assert application(name).runs
    assert application(name).metrics


@pytest.mark.parametrize(
    "name",
    # What takes long to build or to run does so once in the gate, at another point, below.
    [pytest.param(n, marks=[pytest.mark.slow] if n in LONG else []) for n in PROGRAMS],
)
def test_a_program_runs_as_it_is(name, application, original):
    needs(*PROGRAMS[name].tools)
    folder = original(name)
    run_before(name, folder)
    printed = build_and_run(application(name), folder, PROGRAMS[name].as_it_is, {})
    found = measure(application(name), folder, *printed, probed=False)
    looked_for = [m.name for m in application(name).metrics if m.formula is None and m.source]
    assert list(found) == looked_for


@every_program
def test_another_point_builds_runs_and_yields_its_metrics(name, application, tmp_path):
    needs(*PROGRAMS[name].tools)
    study = application(name)
    point = study.space.point(study.space.size * 2 // 3)
    seed = {study.repeat.seed: "2"} if study.repeat.seed else {}
    write(Filler(study), point, seed, tmp_path)
    run_before(name, tmp_path)

    texts = {parameter.name: point.text(parameter.name) for parameter in study.space.parameters}
    environment = {key: texts[parameter] for key, parameter in study.environment.items()}
    printed = build_and_run(study, tmp_path, texts | seed, environment)

    values = dict(point) | measure(study, tmp_path, *printed)
    for metric in study.metrics:
        if metric.formula is not None:
            values[metric.name] = metric.formula.value(values)
            assert math.isfinite(values[metric.name])
    for goal in study.goals:
        assert math.isfinite(goal.expression.value(values))


def write(filler, point, seed, folder):
    """The files of *point*, and those that are the same for all."""
    for filled in filler.files(point, seed):
        path = folder / filled.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(filled.content)
        path.chmod(filled.mode)
    for file in filler.unchanged:
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content_of(file))


def content_of(file):
    return Path(file.location).read_bytes() if isinstance(file, CopiedFile) else file.source.content


@pytest.mark.parametrize("name", ["annealing", pytest.param("tuning", marks=pytest.mark.slow)])
def test_a_seed_decides_what_a_run_prints(name, application, original):
    folder = original(name)
    one, again, two = (
        build_and_run(application(name), folder, {"seed": seed}, {})[0] for seed in "112"
    )
    assert one == again != two


def test_the_tuning_study_is_that_of_the_paper(application):
    """The settings of section 6, thirty runs of each."""
    study = application("tuning")
    texts = {p.name: list(p.domain.texts()) for p in study.space.dimensions}
    assert texts == {
        "population": ["50", "100", "150", "200"],
        "crossover": ["0.4", "0.6", "0.8", "1.0"],
        "mutation": ["0.001", "0.01", "0.1"],
        "generations": ["100", "200", "300", "400", "500"],
        "steady_state": ["10%", "20%"],
        "scaling": ["1", "1.5", "2"],
        "elitist": ["yes", "no"],
    }
    assert study.space.cartesian == study.space.size == 2880
    assert study.repeat.count == 30


def test_the_hosts_of_ten_k_points_are_not_mixed_up(application):
    """lapw1_host1 is no part of lapw1_host10, and the mixer runs where lapw0 ran."""
    study = application("wien2k")
    point = study.space.point(100 * 300**20 + 299)
    (filled,) = Filler(study).files(point)
    hosts = re.findall(r'job\("(\w+)", "(\w+)"', filled.content.decode())
    expected = dict.fromkeys((name for name, _ in hosts), "machine1")
    expected |= {"lapw0": "machine101", "mixer": "machine101", "lapw2_10": "machine300"}
    assert dict(hosts) == expected
    assert len(hosts) == 22


def test_foxes_and_rabbits_append_json_lines_to_the_metrics_file(application, original):
    folder = original("predators")
    build_and_run(application("predators"), folder, {}, {})
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert {name for line in lines for name in line} == {
        f"{animal}_{extreme}" for animal in ("rabbits", "foxes") for extreme in ("max", "min")
    }


def test_routes_are_looked_for_on_the_map_that_was_drawn_for_them(application, tmp_path):
    study, repository = application("routes"), ReferenceRepository()
    pipeline = Pipeline(StudySession(study, select_points(study.space, limit=5), repository))
    with Local(tmp_path, 2) as place:
        summary = pipeline.run(SlotPool(place))
    assert [each.ok for each in (*summary.before, summary)] == [1, 5]
    found = {r.values["weight"]: r.outcome.metrics for r in repository.records("routes")}
    looked, lengths = ([found[w][m] for w in sorted(found)] for m in ("looked", "length"))
    assert looked == sorted(looked, reverse=True)
    assert lengths == sorted(lengths)
    assert lengths[0] == lengths[2], "A* finds what Dijkstra's algorithm finds"


def test_the_constraints_of_gemm_keep_what_plain_loops_keep(application):
    """The naive twin walks through all 165,888 combinations."""
    powers = {first: [2**i for i in range(first, last + 1)] for first, last in [(0, 3), (3, 5)]}
    tiles, threads, vectors = [16, 32, 64, 128], powers[3], powers[0]
    kept = set()
    for point in itertools.product(
        tiles, tiles, [16, 32], *[threads] * 4, *[vectors] * 2, [0, 1], [0, 1]
    ):
        mwg, nwg, kwg, mdimc, ndimc, mdima, ndimb, vwm, vwn, sa, sb = point
        group = mdimc * ndimc
        if (
            mwg % (mdimc * vwm) == nwg % (ndimc * vwn) == 0
            and mwg % (mdima * vwm) == nwg % (ndimb * vwn) == 0
            and group % mdima == group % ndimb == 0
            and kwg % (group // mdima) == kwg % (group // ndimb) == 0
            and 64 <= group <= 512
            and 4 * kwg * (sa * mwg + sb * nwg) <= 16384
            and (sa == 1 or mdima == mdimc)
            and (sb == 1 or ndimb == ndimc)
        ):
            kept.add(point)
    space = application("gemm").space
    columns = space.columns()
    rows = zip(*(columns[each.name].tolist() for each in space.dimensions), strict=True)
    assert set(rows) == kept
