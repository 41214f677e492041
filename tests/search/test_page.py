"""docs/engines.md has all engines, set as they can be; ZEN_UPDATE_GOLDENS=1 writes tables anew."""

import os
import re
from pathlib import Path

import pytest

from zenturio.search import describe, names

PAGE = Path(__file__).parents[2] / "docs" / "engines.md"
BEHIND = r"<!-- settings ([\w-]+) -->\n((?:\n?\|.*\n|\nNothing to set\.\n)*)"


def table(engine):
    """The settings of *engine* as Markdown."""
    found = describe(engine).settings
    if not found:
        return "\nNothing to set.\n"
    lines = ["", "| setting | values | default | what it is |", "|---|---|---|---|"]
    for each in found:
        default = f"{each.shown_default}"
        default = default.lower() if isinstance(each.default, bool) else default
        lines.append(f"| `{each.name}` | {values(each)} | {default} | {each.help} |")
    return "\n".join(lines) + "\n"


def values(setting):
    if setting.choices:
        return ", ".join(setting.choices)
    kind = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "text"}
    words = [kind[setting.type]]
    words += [f"from {setting.low:g}"] if setting.low is not None else []
    words += [f"to {setting.high:g}"] if setting.high is not None else []
    return " ".join(words)


def test_the_tables_are_what_can_be_set():
    written = PAGE.read_text(encoding="utf-8")
    wanted = re.sub(BEHIND, lambda m: f"<!-- settings {m[1]} -->\n{table(m[1])}", written)
    if os.environ.get("ZEN_UPDATE_GOLDENS"):
        PAGE.write_text(wanted, encoding="utf-8")
        written = wanted
    assert written == wanted


def test_every_engine_has_a_section_in_order():
    sections = re.findall(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sections == [*names(), "Your own"]


@pytest.mark.parametrize("name", names())
def test_a_section_says_what_for_when_not_and_what_it_costs(name):
    (section,) = re.findall(rf"(?ms)^## {name}\n(.*?)^## ", PAGE.read_text("utf-8"))
    assert re.findall(r"^- (.+?):", section, re.MULTILINE) == ["For", "Not for", "Cost"]
    assert "Waits:" in section
    assert f"<!-- settings {name} -->" in section
    assert ("Several objectives: " in section or name == "nsga2") == describe(name).multi_objective
