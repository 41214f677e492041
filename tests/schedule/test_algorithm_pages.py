"""docs/algorithms.md has what each algorithm says of itself; ZEN_UPDATE_GOLDENS=1 writes it anew.

What stands before the first algorithm of a kind is written by hand, and kept.
"""

import os
import re
import statistics
from pathlib import Path

import pytest

from schedule import examples
from zenturio.errors import PluginError
from zenturio.schedule.algorithm import describe, make, names
from zenturio.schedule.generators.generator import generate
from zenturio.schedule.model.problem import Problem

PAGE = Path(__file__).parents[2] / "docs" / "algorithms.md"
OURS = {"anneal", "cp-sat", "ga", "hybrid"}
"""Made for this program, or no more than a model."""
ANCESTRY = re.compile(r"\b(19|20)\d\d\b|Folklore")


def known():
    found = []
    for name in names():
        try:
            found.append(describe(name))
        except PluginError:  # an extra that is not installed
            continue
    return found


def section(found):
    text = f"### {found.name}\n\n{found.about}\n\n{found.more}\n"
    if found.settings:
        rows = [f"| {s.name} | {shown(s)} | {s.help} |" for s in found.settings]
        text += "\n" + "\n".join(["| setting | default | |", "| --- | --- | --- |", *rows]) + "\n"
    return text


def shown(setting):
    default = setting.shown_default
    return str(default).lower() if isinstance(default, bool) else default


def page(old):
    head, *parts = re.split(r"^(?=## )", old, flags=re.MULTILINE)
    kinds = {part.split()[1]: part.partition("\n### ")[0].strip() for part in parts}
    algorithms = known()
    missing = {each.kind for each in algorithms} - kinds.keys()
    assert not missing, f"docs/algorithms.md has no part '## {missing}'"
    text = head
    for kind, words in kinds.items():
        sections = [section(each) for each in algorithms if each.kind == kind]
        text += "\n".join([words + "\n", *sections]) + "\n"
    return text.rstrip() + "\n"


def test_each_algorithm_has_a_section_with_what_it_says_of_itself():
    old = PAGE.read_text(encoding="utf-8")
    if os.environ.get("ZEN_UPDATE_GOLDENS"):
        PAGE.write_text(page(old), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page(old)


@pytest.mark.parametrize(
    "found", [each for each in known() if each.kind != "online"], ids=lambda each: each.name
)
def test_it_says_what_it_costs_and_where_it_comes_from(found):
    assert "Cost:" in found.more
    assert found.name in OURS or ANCESTRY.search(found.more)


def test_the_table_has_what_comes_out():
    rows = re.findall(
        r"^\| ([a-z-]+) \| (\d+) \| (\d+) \| ([\d.]+)% \|$", PAGE.read_text(), re.MULTILINE
    )
    made = [generate("sweep", {}, seed) for seed in range(10)]
    sweeps = [Problem.of(each.workflow, each.platform) for each in made]
    shuffled = [make("shuffle").plan(problem).makespan for problem in sweeps]
    assert len(rows) > 10
    for name, *numbers in rows:
        ends = [make(name).plan(problem).makespan for problem in sweeps]
        ase = statistics.mean(end / other for end, other in zip(ends, shuffled, strict=True))
        worked = (examples.topcuoglu(), examples.arabnejad())
        found = [f"{make(name).plan(problem).makespan:g}" for problem in worked]
        assert [name, *numbers] == [name, *found, f"{100 * ase:.1f}"]
