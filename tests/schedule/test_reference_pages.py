"""Pages have the metrics of plans and the generators; ZEN_UPDATE_GOLDENS=1 writes them anew."""

import os
import re
from pathlib import Path

import pytest

from schedule import examples
from zenturio.schedule.algorithm import make
from zenturio.schedule.generators.generator import describe, names
from zenturio.schedule.model.metrics import METRICS, metrics

DOCS = Path(__file__).parents[2] / "docs"
GENERATORS = """# Generators of workflows

This page lists the settings of each generator; `zen workflow generators NAME` prints them, too. Every command that reads a workflow accepts the name of a generator, with settings after a
colon: `zen schedule wien2k:kpoints=50`. `zen workflow generate` writes the workflow to a file. The same settings and seed make the same workflow.
[Workflows](workflows.md#generators) explains what the generators are for.
"""
TABLE = re.compile(r"^\| metric \|.*\n(?:\|.*\n)+", re.MULTILINE)


def generators() -> str:
    parts = [GENERATORS]
    for name in names():
        found = describe(name)
        rows = [f"| `{s.name}` | {_type(s)} | {_default(s)} | {s.help} |" for s in found.settings]
        table = "\n".join(["| setting | type | default | meaning |", "|---|---|---|---|", *rows])
        parts.append(f"## {name}\n\n{found.about}\n\n{table if rows else 'No settings.'}\n")
    return "\n".join(parts)


def _type(setting) -> str:
    parts = [("from", setting.low), ("to", setting.high)]
    return " ".join(
        [setting.type, *(f"{word} {bound:g}" for word, bound in parts if bound is not None)]
    )


def _default(setting) -> str:
    default = setting.shown_default
    return f"`{str(default).lower() if isinstance(default, bool) else default}`" * (default != "")


def metrics_table() -> str:
    rows = [
        f"| `{metric.name}` | {metric.unit} | {metric.direction} | {metric.definition} |"
        for metric in METRICS.values()
    ]
    head = ["| metric | unit | better | definition |", "|---|---|---|---|"]
    return "\n".join([*head, *rows]).replace("minimize", "less").replace("maximize", "more") + "\n"


def in_page(name: str, made) -> None:
    path = DOCS / name
    if os.environ.get("ZEN_UPDATE_GOLDENS"):
        path.write_text(made(path.read_text("utf-8") if path.exists() else ""), encoding="utf-8")
    text = path.read_text("utf-8")
    assert text == made(text)


def test_the_page_has_all_generators_with_their_settings():
    in_page("generators.md", lambda _old: generators())


def test_the_page_has_all_metrics_of_plans_with_their_definitions():
    in_page("workflows.md", lambda old: TABLE.sub(lambda _table: metrics_table(), old, count=1))


@pytest.mark.parametrize(
    "name", ["speedup", "efficiency", "overhead", "loss_of_parallelism", "throughput"]
)
def test_a_definition_that_is_a_formula_gives_the_value(name):
    values = metrics(make("heft").plan(examples.topcuoglu()))
    known = {"T": values["makespan"], "S": values["sequential"], "p": values["processors"]}
    formula = METRICS[name].definition.partition(";")[0].replace("p T", "p * T")
    assert eval(formula, {}, known | values) == pytest.approx(values[name])
