"""What the gallery's programs become: their spaces, and three of their points, letter by letter.

ZEN_UPDATE_GOLDENS=1 pytest tests/annotations rewrites what is expected; read the difference.
"""

import difflib
import os
from pathlib import Path

import pytest

from zenturio.annotate.commands import fill_command
from zenturio.annotate.scan import scan
from zenturio.annotate.substitution import Filler
from zenturio.space import Dependent

GALLERY = Path(__file__).parents[2] / "annotations"
GOLDEN = Path(__file__).parent / "golden"
NAMES = sorted(path.name for path in GALLERY.iterdir() if path.is_dir())
WIDEST = 12


@pytest.fixture(scope="module", params=NAMES)
def study(request):
    return scan([GALLERY / request.param])


def golden(path, text):
    """What *path* holds; *text* is written there first if that is wished."""
    if os.environ.get("ZEN_UPDATE_GOLDENS"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.is_file(), f"{path} is missing: ZEN_UPDATE_GOLDENS=1 writes it"
    return path.read_text(encoding="utf-8")


def values(domain):
    """The elements of a set, those in the middle left out where they are many."""
    shown = [domain.text(i) for i in range(min(domain.size, WIDEST))]
    if domain.size > WIDEST:
        shown[WIDEST // 2 :] = ["...", domain.text(domain.size - 1)]
    return ", ".join(repr(text) for text in shown).replace("'...'", "...")


def describe(parameter):
    kind = f"{parameter.name} ({parameter.kind}"
    if parameter.derived is not None:
        return f"{kind}) := {parameter.derived.text}"
    when = f" when {parameter.when.text}, else {parameter.default}" if parameter.when else ""
    unit = f" {parameter.unit}" if parameter.unit else ""
    domain = parameter.domain
    if isinstance(domain, Dependent):
        first, last, stride = (
            getattr(b, "text", b) for b in (domain.first, domain.last, domain.stride)
        )
        return f"{kind}, {domain.type}){unit}: from {first} to {last} by {stride}{when}"
    return f"{kind}, {domain.type}) {domain.size} values{unit}: {values(domain)}{when}"


def outline(study):
    """The space, and what is measured in it."""
    space = study.space
    lines = [f"{study.name}: {space.size} points of {space.cartesian}"]
    lines += [describe(parameter) for parameter in space.parameters]
    lines += [f"constraint {getattr(each, 'text', each)}" for each in space.constraints]
    lines += [f"metric {metric.name} [{metric.unit}]" for metric in study.metrics]
    lines += [f"{goal.direction} {goal.expression.text}" for goal in study.goals]
    return "".join(f"{line}\n" for line in lines)


def expansion(study, index):
    """One point: its values, environment and commands, and how its files differ from the source."""
    point = study.space.point(index)
    seed = {study.repeat.seed: "1"} if study.repeat.seed else {}
    texts = {p.name: point.text(p.name) for p in study.space.parameters} | seed
    lines = [f"point {index} of {study.space.size}\n"]
    lines += [f"{name} = {text}\n" for name, text in texts.items()]
    lines += [f"${key} = {texts[name]}\n" for key, name in study.environment.items()]
    lines += [f"build {fill_command(each.text, texts)}\n" for each in study.builds]
    lines += [f"run {fill_command(each.text, texts)}\n" for each in study.runs]
    before = {file.path: file.source.content.decode() for file in study.files}
    for filled in Filler(study).files(point, seed):
        old, new = before[filled.path].splitlines(True), filled.content.decode().splitlines(True)
        lines += difflib.unified_diff(old, new, filled.path, f"{filled.path} filled", n=0)
    return "".join(lines)


def test_the_space_is_the_expected_one(study):
    text = outline(study)
    assert text == golden(GOLDEN / study.name / "space.txt", text)


@pytest.mark.parametrize("which", ["first", "middle", "last"])
def test_a_point_becomes_the_expected_files(study, which):
    index = {"first": 0, "middle": study.space.size // 2, "last": study.space.size - 1}[which]
    text = expansion(study, index)
    assert text == golden(GOLDEN / study.name / f"{which}.txt", text)


def test_nothing_is_expected_of_programs_that_are_gone():
    assert sorted(path.name for path in GOLDEN.iterdir()) == NAMES
