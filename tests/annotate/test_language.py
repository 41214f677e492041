"""Every example of the language's reference is read as the reference says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from zenturio.annotate.clauses import SHAPES
from zenturio.annotate.grammar import KEYWORDS, declaration, read
from zenturio.annotate.lint import lint
from zenturio.annotate.scan import scan
from zenturio.annotate.set_reader import read_set
from zenturio.errors import Passage

REFERENCE = Path(__file__).parents[2] / "docs" / "language.md"
TEXT = REFERENCE.read_text()
CELL = re.compile(r"`([^`]*)`")


def section(title):
    return TEXT.split(f"\n## {title}\n")[1].split("\n## ")[0]


def rows(title):
    """The rows of the tables of a section, as lists of cells."""
    table = (line for line in section(title).splitlines() if line.startswith("| "))
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table]


DIRECTIVES = [
    line
    for block in re.findall(r"```zen\n(.*?)```", TEXT, re.DOTALL)
    for line in block.splitlines()
]
SETS = [(row[0], row[1]) for row in rows("Sets") if row[0] != "set"]
TYPED = [row for row in rows("Clauses") if row[0].startswith("`{")]


@pytest.mark.parametrize("directive", DIRECTIVES)
def test_each_example_is_a_directive(directive):
    assert read(Passage.of(directive)) is not None


@pytest.mark.parametrize(("written", "elements"), SETS)
def test_each_set_has_the_elements_that_the_table_says(written, elements):
    expected = [""] * elements.startswith("`` ") + CELL.findall(elements.removeprefix("`` "))
    found = read_set(Passage.of(written.strip("`")), Path())
    assert list(found.texts()) == expected


@pytest.mark.parametrize(("written", "texts", "values"), TYPED)
def test_each_text_has_the_value_that_the_table_says(written, texts, values):
    made = declaration(Passage.of(f"PARAM n = {written.strip('`')}"), 5, "PARAM")
    found = read_set(made.elements, Path(), made.type)
    assert list(found.texts()) == CELL.findall(texts)
    if not values.startswith("the texts"):
        shown = ", ".join(str(found.value(i)) for i in range(found.size)).lower()
        assert values.startswith(shown)


def test_the_first_example_has_as_many_experiments_as_it_says(tmp_path):
    file = tmp_path / "matmul.c"
    file.write_text(re.search(r"```c\n(.*?)```", TEXT, re.DOTALL)[1] + 'char *h = "host";\n')
    application = scan(file)
    assert f"{application.space.size} experiments" in TEXT
    assert lint(application) == ()


def test_every_keyword_is_in_the_reference():
    missing = [word for word in (*KEYWORDS, *SHAPES) if not re.search(rf"\b{word}\b", TEXT)]
    assert missing == []


def test_every_link_leads_to_a_section():
    links = re.findall(r"\]\(#([^)]+)\)", TEXT)
    titles = re.findall(r"^##+ (.+)$", TEXT, re.MULTILINE)
    known = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
    assert set(links) <= known
