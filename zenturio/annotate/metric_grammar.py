"""The grammar of METRIC and CR: what is measured, and where."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import get_args

from zenturio.annotate.clauses import Clauses, expression_end
from zenturio.annotate.diagnostics import Diagnostics
from zenturio.annotate.jsonpath import json_steps
from zenturio.annotate.model import MEASURED, Metric, Probe, Take
from zenturio.annotate.parameter_grammar import read_target
from zenturio.annotate.regular_expressions import check_pattern
from zenturio.annotate.statements import MetricStatement, RegionStatement
from zenturio.errors import AnnotationError, Passage
from zenturio.expression import Expression, parse

_FOUND = ("FROM", "REGEX", "JSON", "CSV", "COLUMN", "TAKE", "UNIT", "OPTIONAL", "EXACT")
_COMPUTED = ("UNIT", "OPTIONAL", "EXACT")


def measured(body: Passage, start: int) -> MetricStatement:
    """What stands behind METRIC."""
    diagnostics = Diagnostics()
    name, at = read_target(body, start, "METRIC")
    if name.text in MEASURED:
        diagnostics.error(
            f"{name.text} is measured without asking",
            name.place(0, len(name.text)),
            "use it in expressions as it is, or take another name",
        )
    rest = body.text[at:].lstrip()
    formula = None
    if rest.startswith(":="):
        formula, clauses = _formula(body, len(body.text) - len(rest) + 2, diagnostics)
    elif rest.startswith("="):
        sign = len(body.text) - len(rest)
        message, hint = "what is computed stands behind :=", f"write METRIC {name.text} := ..."
        raise AnnotationError(message, place=body.place(sign, sign + 1), hint=hint)
    else:
        clauses = Clauses(body, "METRIC", _FOUND, diagnostics).read(at)
        if not diagnostics.errors:
            with diagnostics.gather():
                _check_way(clauses, name)
    metric = _metric(name, formula, clauses)
    diagnostics.close()
    return MetricStatement(name, metric)


def _formula(body: Passage, at: int, diagnostics: Diagnostics) -> tuple[Expression | None, Clauses]:
    end = expression_end(body.text, at, _COMPUTED)
    formula = None
    with diagnostics.gather():
        formula = parse(body.cut(at, end).strip())
    return formula, Clauses(body, "METRIC … :=", _COMPUTED, diagnostics).read(end)


def _metric(name: Passage, formula: Expression | None, clauses: Clauses) -> Metric:
    column = clauses.text("COLUMN")
    take = clauses.choice("TAKE", get_args(Take))
    return Metric(
        name=name.text,
        source=_source(clauses),
        regex=clauses.text("REGEX"),
        json=clauses.text("JSON"),
        column=column,
        take=take or "last",
        unit=clauses.text("UNIT") or "",
        optional="OPTIONAL" in clauses.found,
        exact="EXACT" in clauses.found,
        formula=formula,
        place=name.place(0, len(name.text)),
    )


def _source(clauses: Clauses) -> str:
    text = clauses.text("FROM")
    if text is None:
        return ""
    return text.lower() if text.lower() in ("stdout", "stderr") else text


def _check_way(clauses: Clauses, name: Passage) -> None:
    """Exactly one way to find the value, in a place that belongs to the experiment."""
    found = clauses.found
    ways = [way for way in ("REGEX", "JSON", "CSV") if way in found]
    if len(ways) > 1:
        message = f"{ways[0]} and {ways[1]} do not go together"
        raise AnnotationError(message, place=found[ways[1]].place, hint="leave one of them")
    if "COLUMN" in found and "CSV" not in found:
        place = found["COLUMN"].place
        raise AnnotationError("COLUMN stands behind CSV", place=place, hint="write CSV COLUMN time")
    if "CSV" in found and "COLUMN" not in found:
        place = found["CSV"].place
        raise AnnotationError("CSV needs a column", place=place, hint="write CSV COLUMN time")
    _check_source(clauses, ways, name)
    if "JSON" in found:
        json_steps(found["JSON"].text)
    if "REGEX" in found:
        check_pattern(found["REGEX"].text)


def _check_source(clauses: Clauses, ways: Sequence[str], name: Passage) -> None:
    source = clauses.found.get("FROM")
    if ways and source is None:
        hint = 'write FROM stdout, FROM stderr or FROM "results.json" before it'
        raise AnnotationError("FROM is missing", place=clauses.found[ways[0]].place, hint=hint)
    if source is None:
        return
    if not ways:
        message = f"METRIC {name.text} does not say how it is found in {source.text.text}"
        hint = r'write REGEX "time = (\S+)", JSON "$.time" or CSV COLUMN time'
        raise AnnotationError(message, place=source.value_place, hint=hint)
    check_inside(source.text, "FROM")


def check_inside(path: Passage, keyword: str) -> None:
    """A path or a pattern stays in the experiment's folder: relative, and without ``..``."""
    parts = PurePosixPath(path.text.replace("\\", "/")).parts
    outside = not parts or parts[0] == "/" or ".." in parts
    if outside:
        message = f"{keyword} names no file" if not parts else f"{path.text} is outside"
        place = path.place(0, len(path.text))
        hint = "a path in the experiment's own folder, as results/run.csv"
        raise AnnotationError(message, place=place, hint=hint)


def probed(body: Passage, start: int) -> RegionStatement:
    """What stands behind CR: ``name PMETRIC WTIME,CTIME BEGIN``."""
    diagnostics = Diagnostics()
    name, at = read_target(body, start, "CR")
    if name.text.upper() == "PMETRIC" and "PMETRIC" not in body.text[at:].upper():
        place = name.place(0, len(name.text))
        hint = "write CR loop PMETRIC WTIME, CTIME, MAXRSS BEGIN"
        raise AnnotationError("CR needs a name before PMETRIC", place=place, hint=hint)
    clauses = Clauses(body, "CR", ("PMETRIC", "BEGIN"), diagnostics).read(at)
    place = name.place(0, len(name.text))
    hint = f"write CR {name.text} PMETRIC WTIME, CTIME, MAXRSS BEGIN, and END CR behind the region"
    for keyword in ("PMETRIC", "BEGIN"):
        if keyword not in clauses.found and not diagnostics.errors:
            diagnostics.error(f"{keyword} is missing", place, hint)
    chosen: list[Probe] = []
    names = clauses.found["PMETRIC"].names if "PMETRIC" in clauses.found else ()
    for word in names:
        probe = clauses.chosen("PMETRIC", word, get_args(Probe))
        if probe is not None and probe not in chosen:
            chosen.append(probe)
    diagnostics.close()
    return RegionStatement(name, tuple(chosen))
