"""docs/files.md has all kinds of files that are built in; ZEN_UPDATE_GOLDENS=1 writes it anew."""

import os
from pathlib import Path

from zenturio.annotate.dialects import BUILT_IN, UNKNOWN

PAGE = Path(__file__).parents[2] / "docs" / "files.md"
HEAD = """# Kinds of files

The name of a file determines which signs begin its comments and what `ASSIGN` writes, unless the first line of the file names its language (`#!/usr/bin/python3`). If
the table shows no assignment for a kind, use `SUBSTITUTE`. In a file of any other name, each comment sign of the last row begins a
directive. The endings `.m`, `.pl`, `.v`, `.cl`, `.ts`, `.inc`, `.com`, `.lp`, `.gp` (PARI, gnuplot) and `.inp` (Abaqus, CalculiX and others)
belong to several languages: the first line that is not blank determines the kind. If zenturio takes a file for the wrong kind, write the directives
into a file of the same name with `.zen` behind it, such as `beam.inp.zen`. A package can add kinds as entry points of `zenturio.dialects`. [The language](language.md) describes the directives.

| kind | names | comments | `ASSIGN n = { 1 }` writes |
|---|---|---|---|
"""


def page():
    rows = [row(dialect) for dialect in sorted(BUILT_IN, key=lambda dialect: dialect.name)]
    return HEAD + "\n".join([*rows, row(UNKNOWN, "any other text file")]) + "\n"


def row(dialect, names=""):
    files = names or " ".join(map(code, dict.fromkeys((*dialect.endings, *dialect.names))))
    comments = [code(opener) for opener in (*dialect.line, *dialect.column_one) if opener]
    comments += [code(f"{opener} {closer}") for opener, closer in dialect.block]
    assignment = code(dialect.assign("n", "1")) if dialect.form is not None else "none"
    return f"| {dialect.name} | {files} | {' '.join(comments)} | {assignment} |"


def code(text):
    mark = "``" if "`" in text else "`"
    return f"{mark}{text}{mark}".replace("|", "\\|")


def test_the_page_has_all_kinds_of_files():
    if os.environ.get("ZEN_UPDATE_GOLDENS"):
        PAGE.write_text(page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page()
