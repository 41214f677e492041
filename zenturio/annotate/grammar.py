"""The grammar of directives: from the text behind ZEN to a statement."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePosixPath
from typing import Literal, get_args

from zenturio.annotate.clauses import (
    Clauses,
    Diagnostics,
    DirectiveToken,
    expression_end,
    read_text,
    tokens,
    unclosed,
    unquote,
)
from zenturio.annotate.counter_events import EVENTS, counter_event, counter_metric
from zenturio.annotate.model import (
    MEASURED,
    OBSERVED,
    AfterStatement,
    BaselineFileCheck,
    BuildStatement,
    Command,
    ConstraintStatement,
    Declaration,
    Direction,
    EndStatement,
    Goal,
    Match,
    Metric,
    MetricStatement,
    ObjectiveStatement,
    ObserveStatement,
    OutputStatement,
    Probe,
    RankStatement,
    RegionStatement,
    Repeat,
    RepeatStatement,
    RequireStatement,
    RunStatement,
    Statement,
    Take,
    Until,
    UseKind,
    UseStatement,
    Verification,
    VerifyStatement,
    Way,
    ZipStatement,
)
from zenturio.annotate.patterns import check_pattern, json_steps
from zenturio.annotate.set_reader import NUMBER, read_elements
from zenturio.errors import AnnotationError, Passage, Place, did_you_mean
from zenturio.expression import Expression, Type, Value, parse

_WAYS: dict[str, Way] = {
    "SUBSTITUTE": "substitute",
    "ASSIGN": "assign",
    "ENV": "env",
    "PARAM": "param",
}
_ALWAYS = ("AS", "TYPE", "UNIT", "DEFAULT", "WHEN")
_PLACES = ("IN", "MATCH", "OPTIONAL", "BEGIN")
_EXAMPLES = {
    "METRIC": r'METRIC time FROM stdout REGEX "time = (\S+)"',
    "CR": "CR loop PMETRIC WTIME, CTIME, MAXRSS BEGIN",
}
_BARE = re.compile(r"""[^\s=:"'{}]+(?::(?!=)[^\s=:"'{}]*)*""")
_SIGN = re.compile(r"\s*(:=|==|=|:|)\s*")


@dataclass(frozen=True, slots=True)
class _Content:
    """What stands behind the sign."""

    elements: Passage | None = None
    expression: Expression | None = None
    same: Passage | None = None


def declaration(body: Passage, start: int, keyword: str) -> Declaration:
    """Parse the text after SUBSTITUTE, ASSIGN, ENV or PARAM, from *start* on."""
    diagnostics = Diagnostics()
    target, at = read_target(body, start, keyword)
    match = _SIGN.match(body.text, at)
    sign, at = (match[1], match.end()) if match else ("", at)
    clauses = Clauses(body, keyword, _allowed_clauses(keyword, sign, body, at), diagnostics)
    content = _Content()
    with diagnostics.gather():
        content, end = _content(body, sign, at, clauses, keyword)
        clauses.read(end)
    result = _assemble(keyword, target, content, clauses)
    diagnostics.close()
    return result


def _allowed_clauses(keyword: str, sign: str, body: Passage, at: int) -> tuple[str, ...]:
    """Return the clauses that may follow; those that describe a dimension need a set first."""
    places = _PLACES if keyword == "SUBSTITUTE" else ()
    # The parameter is declared elsewhere, with its clauses.
    if sign == "=" and body.text[at : at + 1] == "@":
        return places
    if sign == ":=":
        return ("AS", "UNIT", *places)
    words = ("WORDS",) if keyword == "PARAM" else ()
    return (*_ALWAYS, *words, *places)


def read_target(body: Passage, start: int, keyword: str) -> tuple[Passage, int]:
    """Return the target: a bare word, or quoted where it holds anything but letters, digits and _.

    A number that SUBSTITUTE replaces is bare as well: ``0.8``, ``1e-3``.
    """
    token = next(tokens(body.text, start), None)
    if token is None or token.text in ("=", ":="):
        raise AnnotationError(
            f"{keyword} needs a name",
            place=body.place(max(start - len(keyword), 0), start),
            hint=f"write {_EXAMPLES.get(keyword, f'{keyword} n = {{ 1, 2, 4 }}')}",
        )
    if token.kind in ("text", "name"):
        text = unquote(body.cut(token.start, token.end))
        if not text.text:
            place = body.place(token.start, token.end)
            hint = "write at least one character between the quotes"
            raise AnnotationError("the name is empty", place=place, hint=hint)
        return text, token.end
    if token.text in "\"'":
        raise unclosed(body, token)
    match = _BARE.match(body.text, token.start)
    end = match.end() if match else token.end
    word = body.text[token.start : end]
    # Only SUBSTITUTE looks for text: the others need a name that something can be called.
    number = keyword == "SUBSTITUTE" and NUMBER.fullmatch(word)
    if not number and re.fullmatch(r"\w+", word) is None:
        raise AnnotationError(
            f"{word} must be quoted",
            place=body.place(token.start, end),
            hint=f'write {keyword} "{word}" = …; letters, digits and _ alone need no quotes',
        )
    return body.cut(token.start, end), end


def _content(
    body: Passage, sign: str, at: int, clauses: Clauses, keyword: str
) -> tuple[_Content, int]:
    """Return the set, the expression or the name of another parameter, and where it ends."""
    character = body.text[at : at + 1]
    if sign == "=" and character == "{":
        end = read_elements(body, at).end
        return _Content(elements=body.cut(at, end)), end
    if sign == "=" and character == "@":
        text, end = clauses.word(at + 1, "@", quoted=False)
        return _Content(same=text), end
    if sign == ":=":
        end = expression_end(body.text, at, clauses.keywords)
        text = body.cut(at, end).strip()
        if text.text:
            return _Content(expression=parse(text)), end
        message, hint = "an expression is missing", "write := 2 * n"
        raise AnnotationError(message, place=body.place(at - len(sign)), hint=hint)
    raise _no_set(body, sign, at, keyword)


def _no_set(body: Passage, sign: str, at: int, keyword: str) -> AnnotationError:
    """Return the diagnostic about what stands in place of a set."""
    sign_end, at = at, min(at, max(len(body.text.rstrip()) - 1, 0))
    if sign in ("", ":", "=="):
        start = body.text.rindex(sign, 0, sign_end) if sign else at
        message = f"{sign} is not an operator here" if sign else "= is missing"
        hint = f"write {keyword} name = {{ … }}; := if it is computed from other parameters"
        place = body.place(start, start + max(len(sign), 1))
        return AnnotationError(message, place=place, hint=hint)
    value_text = body.text[at:].strip() if sign == "=" and body.text[at:].strip("= ") else ""
    call = re.match(r"\w+\([^()]*\)", value_text)
    word = call[0] if call else value_text.split()[0] if value_text else ""
    value = word.rstrip(",") or "1, 2, 4"
    hint = f"write = {{ {value} }}"
    if word.isidentifier():
        hint += (
            f"; = @{word} to use the parameter {word} again; := {word} to compute the value from it"
        )
    end = at + max(len(word), 1)
    return AnnotationError("a set in braces is missing", place=body.place(at, end), hint=hint)


def _assemble(keyword: str, target: Passage, content: _Content, clauses: Clauses) -> Declaration:
    values = clauses.by_keyword
    return Declaration(
        way=_WAYS[keyword],
        target=target,
        name=values["AS"].text if "AS" in values else target,
        elements=content.elements,
        expression=content.expression,
        same=content.same,
        type=clauses.choice("TYPE", get_args(Type)),
        unit=clauses.text("UNIT"),
        default=_default(clauses),
        when=condition(clauses, "WHEN"),
        glob=values["IN"].text if "IN" in values else None,
        match=clauses.choice("MATCH", get_args(Match)) or "word",
        optional="OPTIONAL" in values,
        words="WORDS" in values or None,
        begins="BEGIN" in values,
        places={keyword: clause.place for keyword, clause in values.items()},
    )


def _default(clauses: Clauses) -> str | None:
    clause = clauses.by_keyword.get("DEFAULT")
    return read_text(clause.text).text if clause else None


def condition(clauses: Clauses, keyword: str) -> Expression | None:
    """Return the expression of a clause, if it is there and can be read."""
    clause = clauses.by_keyword.get(keyword)
    if clause is not None:
        with clauses.diagnostics.gather():
            return parse(clause.text)
    return None


_EXTRACTION_CLAUSES = (
    "FROM", "REGEX", "JSON", "CSV", "COLUMN", "WHERE", "SIZE",
    "THOUSANDS", "DECIMAL", "TAKE", "UNIT", "OPTIONAL", "EXACT", "WHEN",
)  # fmt: skip
_FORMULA_CLAUSES = ("UNIT", "OPTIONAL", "EXACT", "WHEN")


def measured(body: Passage, start: int) -> MetricStatement:
    """Parse the text after METRIC."""
    diagnostics = Diagnostics()
    name, at = read_target(body, start, "METRIC")
    if name.text in MEASURED:
        diagnostics.error(
            f"{name.text} is always measured",
            name.place(0, len(name.text)),
            "use it in expressions without declaring it, or choose another name",
        )
    remaining_text = body.text[at:].lstrip()
    formula = None
    if remaining_text.startswith(":="):
        formula, clauses = _formula(body, len(body.text) - len(remaining_text) + 2, diagnostics)
    elif remaining_text.startswith("="):
        sign = len(body.text) - len(remaining_text)
        message, hint = "write a formula after :=, not after =", f"write METRIC {name.text} := ..."
        raise AnnotationError(message, place=body.place(sign, sign + 1), hint=hint)
    else:
        clauses = Clauses(body, "METRIC", _EXTRACTION_CLAUSES, diagnostics).read(at)
        if not diagnostics.errors:
            with diagnostics.gather():
                _check_way(clauses, name)
    metric = _metric(name, formula, clauses)
    diagnostics.close()
    return MetricStatement(name, metric)


def _formula(body: Passage, at: int, diagnostics: Diagnostics) -> tuple[Expression | None, Clauses]:
    end = expression_end(body.text, at, _FORMULA_CLAUSES)
    formula = None
    with diagnostics.gather():
        formula = parse(body.cut(at, end).strip())
    return formula, Clauses(body, "METRIC … :=", _FORMULA_CLAUSES, diagnostics).read(end)


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
        optional="OPTIONAL" in clauses.by_keyword,
        exact="EXACT" in clauses.by_keyword,
        rows=condition(clauses, "WHERE"),
        size="SIZE" in clauses.by_keyword,
        when=condition(clauses, "WHEN"),
        formula=formula,
        place=name.place(0, len(name.text)),
        has_take=take is not None,
        thousands=clauses.text("THOUSANDS") or "",
        decimal=clauses.text("DECIMAL") or "",
    )


def _source(clauses: Clauses) -> str:
    text = clauses.text("FROM")
    if text is None:
        return ""
    return text.lower() if text.lower() in ("stdout", "stderr") else text


def _check_way(clauses: Clauses, name: Passage) -> None:
    """Exactly one way to find the value, in a place that belongs to the experiment."""
    values = clauses.by_keyword
    chosen = [way for way in ("REGEX", "JSON", "CSV", "SIZE") if way in values]
    if len(chosen) > 1:
        message = f"{chosen[0]} and {chosen[1]} exclude each other"
        raise AnnotationError(message, place=values[chosen[1]].place, hint="remove one of them")
    if "COLUMN" in values and "CSV" not in values:
        place = values["COLUMN"].place
        raise AnnotationError("COLUMN must follow CSV", place=place, hint="write CSV COLUMN time")
    if "CSV" in values and "COLUMN" not in values:
        place = values["CSV"].place
        raise AnnotationError("CSV needs a column", place=place, hint="write CSV COLUMN time")
    if "WHERE" in values and "CSV" not in values:
        hint = "write CSV COLUMN time WHERE n == 100; WHEN is for parameters"
        place = values["WHERE"].place
        raise AnnotationError("WHERE must follow CSV COLUMN", place=place, hint=hint)
    _check_source(clauses, chosen, name)
    _check_signs(clauses, chosen)
    if "JSON" in values:
        json_steps(values["JSON"].text)
    if "REGEX" in values:
        check_pattern(values["REGEX"].text)


def _check_signs(clauses: Clauses, chosen: Sequence[str]) -> None:
    """Check THOUSANDS and DECIMAL: two different single characters."""
    signs = {k: clauses.by_keyword[k] for k in ("THOUSANDS", "DECIMAL") if k in clauses.by_keyword}
    for keyword, clause in signs.items():
        place, sign = clause.place, clause.text.text
        if not chosen or chosen == ["SIZE"]:
            hint = f'write FROM stdout REGEX "rate: ([\\d,]*\\d)" {keyword} ","'
            message = f"{keyword} must follow REGEX, JSON or CSV COLUMN"
            raise AnnotationError(message, place=place, hint=hint)
        if len(sign) != 1 or sign.isalnum() or sign in "+-":
            hint = f'write {keyword} ",": 1,560 is 1560 with THOUSANDS, and 1.56 with DECIMAL'
            message = f"{keyword} must be one sign, not {sign!r}"
            raise AnnotationError(message, place=clause.value_place, hint=hint)
    thousands = signs.get("THOUSANDS")
    decimal = signs["DECIMAL"].text.text if "DECIMAL" in signs else "."
    if thousands is not None and thousands.text.text == decimal:
        message = f"{decimal!r} cannot be the sign of thousands and the decimal sign"
        hint = """write THOUSANDS "." DECIMAL ",", or THOUSANDS "," for 1,560.5"""
        raise AnnotationError(message, place=thousands.value_place, hint=hint)


def _check_source(clauses: Clauses, chosen: Sequence[str], name: Passage) -> None:
    source = clauses.by_keyword.get("FROM")
    if chosen and source is None:
        hint = 'write FROM stdout, FROM stderr or FROM "results.json" before it'
        raise AnnotationError(
            "FROM is missing", place=clauses.by_keyword[chosen[0]].place, hint=hint
        )
    if source is None:
        return
    if not chosen:
        message = f"METRIC {name.text} does not say how to find its value in {source.text.text}"
        hint = r'write REGEX "time = (\S+)", JSON "$.time", CSV COLUMN time or SIZE'
        raise AnnotationError(message, place=source.value_place, hint=hint)
    check_inside(source.text, "FROM")


def check_inside(path: Passage, keyword: str) -> None:
    """Check that a path or a pattern stays in the folder: relative, and without ``..``."""
    # A backslash parts folders on other systems; refused everywhere, it is safe everywhere.
    parts = PurePosixPath(path.text.replace("\\", "/")).parts
    outside = not parts or parts[0] == "/" or ".." in parts
    if outside:
        message = f"{keyword} does not name a file" if not parts else f"{path.text} is outside"
        place = path.place(0, len(path.text))
        hint = "write a path in the experiment's own folder, such as results/run.csv"
        raise AnnotationError(message, place=place, hint=hint)


_EVENTS_BY_METRIC = {counter_metric(event): event for event in EVENTS}


def probed(body: Passage, start: int) -> RegionStatement:
    """Parse the text after CR: ``name PMETRIC WTIME,CTIME BEGIN``."""
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
        if keyword not in clauses.by_keyword and not diagnostics.errors:
            diagnostics.error(f"{keyword} is missing", place, hint)
    chosen: list[Probe] = []
    names = clauses.by_keyword["PMETRIC"].names if "PMETRIC" in clauses.by_keyword else ()
    counters: list[str] = []
    for word in names:
        counted = _EVENTS_BY_METRIC.get(counter_metric(word.text))
        if counted is not None:
            counters.append(counted)
            continue
        probe = clauses.chosen("PMETRIC", word, get_args(Probe), _EVENTS_BY_METRIC)
        if probe is not None and probe not in chosen:
            chosen.append(probe)
    diagnostics.close()
    return RegionStatement(name, tuple(chosen), tuple(dict.fromkeys(counters)))


_LIMITS = ("TIMEOUT", "RETRY", "CPUS", "MEMORY")
_AMOUNT = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([A-Za-z]*)")
_UNITS = {
    "TIMEOUT": ("", "ns", "us", "ms", "s", "min", "h", "d"),
    "MEMORY": ("", "B", *(prefix + unit for prefix in "KMGTP" for unit in ("B", "iB"))),
}
LONGEST_COMMAND = 10_000
"""A command has at most so many characters."""


def command(body: Passage, token: DirectiveToken, limits: tuple[str, ...] | None = None) -> Command:
    """Return ``"cmd"`` and its limits, if not all may stand here only *limits*."""
    keyword = token.upper()
    text, at = quoted_text(body, token, f'{keyword} "./program {{n}}"')
    if len(text.text) > LONGEST_COMMAND:
        place = text.place(0, len(text.text))
        message = f"a command has at most {LONGEST_COMMAND:,} characters"
        raise AnnotationError(message, place=place, hint="put it into a script, and run the script")
    diagnostics = Diagnostics()
    clauses = Clauses(body, keyword, limits or _LIMITS, diagnostics).read(at)
    command = Command(
        text=text,
        timeout=_amount(clauses, "TIMEOUT"),
        retry=_count(clauses, "RETRY"),
        cpus=condition(clauses, "CPUS"),
        memory=_bytes(clauses),
    )
    diagnostics.close()
    return command


def quoted_text(body: Passage, token: DirectiveToken, example: str) -> tuple[Passage, int]:
    """Return the quoted text behind *token*, and where it ends."""
    token_behind = next(tokens(body.text, token.end), None)
    if token_behind is None or token_behind.kind != "text":
        if token_behind is not None and token_behind.text in "\"'":
            raise unclosed(body, token_behind)
        start, end = (
            (token_behind.start, _bare_end(body, token_behind))
            if token_behind
            else (token.start, token.end)
        )
        keyword = token.upper()
        hint = f'write {keyword} "{body.text[start:end]}"' if token_behind else f"write {example}"
        raise AnnotationError(
            f"{keyword} needs a quoted text", place=body.place(start, end), hint=hint
        )
    text = unquote(body.cut(token_behind.start, token_behind.end))
    if not text.text.strip():
        place = body.place(token_behind.start, token_behind.end)
        message = f"the quoted text of {token.upper()} is empty"
        raise AnnotationError(message, place=place, hint=f"write {example}")
    return text, token_behind.end


def _bare_end(body: Passage, token: DirectiveToken) -> int:
    """Return where a text without quotes ends: before the first clause, or with the directive."""
    clauses = (t.start for t in tokens(body.text, token.end) if t.upper() in (*_LIMITS, "ON"))
    return len(body.text[: next(clauses, len(body.text))].rstrip())


def _amount(clauses: Clauses, keyword: Literal["TIMEOUT", "MEMORY"]) -> float | None:
    """Return a number with a unit, above zero: seconds or bytes."""
    clause = clauses.by_keyword.get(keyword)
    if clause is None:
        return None
    match = _AMOUNT.fullmatch(clause.text.text)
    example = "TIMEOUT 30s, 10min or 2h" if keyword == "TIMEOUT" else "MEMORY 512MB or 4GiB"
    if match and match[1] in _UNITS[keyword]:
        # The expression language knows the units, and a unit there touches its number.
        value = parse(re.sub(r"\s", "", clause.text.text)).value({})
        if isinstance(value, int | float) and 0 < value < 2**62:
            return float(value)
    message = f"{clause.text.text} is not a {'time' if keyword == 'TIMEOUT' else 'size'}"
    clauses.diagnostics.error(message, clause.value_place, f"write {example}")
    return None


def _bytes(clauses: Clauses) -> int | None:
    amount = _amount(clauses, "MEMORY")
    return None if amount is None else max(int(amount), 1)


def _count(clauses: Clauses, keyword: str) -> int:
    clause = clauses.by_keyword.get(keyword)
    if clause is None:
        return 0
    if re.fullmatch(r"[0-9]{1,6}", clause.text.text):
        return int(clause.text.text)
    message = f"{clause.text.text} is not a valid count"
    clauses.diagnostics.error(message, clause.value_place, f"write {keyword} 2")
    return 0


LONGEST_DIRECTIVE = 100_000
"""A directive has at most so many characters: enough for thousands of elements."""

_MOST_REPEATS = 10**9
FEWEST_REPEATS = 6
"""Fewer values have no interval of the median that holds it with 95%."""


def read(body: Passage) -> Statement:
    """Return the statement in *body*, the text after ``ZEN$``; AnnotationError if invalid."""
    if len(body.text) > LONGEST_DIRECTIVE:
        message = (
            f"a directive has at most {LONGEST_DIRECTIVE:,} characters, this one {len(body.text):,}"
        )
        hint = 'LINES("file") reads the elements of a set from a file'
        raise AnnotationError(message, place=body.place(0, LONGEST_DIRECTIVE), hint=hint)
    token = next(tokens(body.text), None)
    if token is None:
        hint = "write a directive after ZEN$, such as PARAM n = { 1, 2, 4 }"
        raise AnnotationError("the directive is empty", place=body.place(0), hint=hint)
    reader = _READERS.get(token.upper())
    if reader is None:
        place = body.place(token.start, token.end)
        hint = did_you_mean(token.text.upper(), KEYWORDS)
        raise AnnotationError(f"{token.text} is not a directive", place=place, hint=hint)
    return reader(body, token)


def _expression_after(body: Passage, token: DirectiveToken, example: str) -> Expression:
    """Everything behind the keyword as one expression."""
    text = body.cut(token.end, len(body.text)).strip()
    if not text.text:
        place = body.place(token.start, token.end)
        message = f"{token.text} needs an expression"
        raise AnnotationError(message, place=place, hint=f"write {example}")
    return parse(text)


def _constraint(body: Passage, token: DirectiveToken) -> Statement:
    kind = next(tokens(body.text, token.end), token)
    if kind.upper() == "VALUE":
        return ConstraintStatement(
            _expression_after(body, kind, "CONSTRAINT VALUE n * threads <= 2048")
        )
    if kind.upper() == "INDEX":
        return _together(body, kind)
    raise AnnotationError(
        "CONSTRAINT must be followed by VALUE or INDEX",
        place=body.place(kind.start, kind.end),
        hint="write CONSTRAINT VALUE n <= 4 for a condition, CONSTRAINT INDEX a == b for a zip",
    )


def _together(body: Passage, token: DirectiveToken) -> Statement:
    """Return ``a == b == c``: names only."""
    names: list[Passage] = []
    hint = "write CONSTRAINT INDEX a == b: names of parameters with == between them"
    at = token.end
    while True:
        name = next(tokens(body.text, at), None)
        if name is None or name.kind == "sign":
            start, end = (name.start, name.end) if name else (token.start, token.end)
            raise AnnotationError("a name is missing", place=body.place(start, end), hint=hint)
        text = body.cut(name.start, name.end)
        names.append(text if name.kind == "word" else unquote(text))
        match = re.compile(r"\s*(==|$)").match(body.text, name.end)
        if not match:
            unexpected_token = next(tokens(body.text, name.end))
            place = body.place(unexpected_token.start, unexpected_token.end)
            raise AnnotationError(
                f"{unexpected_token.text} is not expected here", place=place, hint=hint
            )
        at = match.end()
        if not match[1]:
            break
    place = body.place(token.start, len(body.text.rstrip()))
    if len(names) < 2:
        raise AnnotationError("INDEX needs at least two names", place=place, hint=hint)
    return ZipStatement(tuple(names), place)


def _repeat(body: Passage, token: DirectiveToken) -> Statement:
    """Return ``30 SEED seed``, or ``6:50 UNTIL wtime WITHIN 2% WARMUP 1``."""
    match = re.compile(r"\s*(\S+)").match(body.text, token.end)
    word = match[1] if match else ""
    numbers = re.fullmatch(r"(?:([0-9]{1,10}):)?([0-9]{1,10})", word)
    least_repeats, most_repeats = (int(numbers[1] or 0), int(numbers[2])) if numbers else (0, 0)
    end = match.end() if match else token.end
    place = body.place(end - len(word) if word else token.start, end)
    if not max(least_repeats, 1) <= most_repeats <= _MOST_REPEATS or (
        numbers and numbers[1] and not least_repeats
    ):
        hint = "write REPEAT 30, or REPEAT 6:50 UNTIL wtime WITHIN 2%; the minimum is 1"
        message = f"REPEAT {word} is not a number of runs" if word else "REPEAT needs a number"
        raise AnnotationError(message, place=place, hint=hint)
    diagnostics = Diagnostics()
    clauses = Clauses(body, "REPEAT", ("UNTIL", "WITHIN", "WARMUP", "SEED"), diagnostics).read(end)
    metric, within = condition(clauses, "UNTIL"), _share(clauses)
    until = None
    if metric is not None and within is not None:
        until = Until(metric, within, least_repeats or FEWEST_REPEATS)
    if not diagnostics.errors:
        _check_until(clauses, word, place)
    warmup = _count(clauses, "WARMUP")
    diagnostics.close()
    seed = clauses.by_keyword["SEED"].text if "SEED" in clauses.by_keyword else None
    repeat = Repeat(most_repeats, seed.text if seed else None, until=until, warmup=warmup)
    return RepeatStatement(repeat, seed, body.place(token.start, end))


def _check_until(clauses: Clauses, word: str, place: Place) -> None:
    """UNTIL and WITHIN stand together, and behind two numbers."""
    pair = "UNTIL", "WITHIN"
    written_keywords = [keyword for keyword in pair if keyword in clauses.by_keyword]
    hint = f"write REPEAT {word if ':' in word else f'6:{word}'} UNTIL wtime WITHIN 2%"
    if len(written_keywords) == 1:
        (absent,) = set(pair) - set(written_keywords)
        clauses.diagnostics.error(
            f"{absent} is missing", clauses.by_keyword[written_keywords[0]].place, hint
        )
    elif ":" in word and not written_keywords:
        message = f"REPEAT {word} does not say when to stop repeating"
        clauses.diagnostics.error(message, place, hint)


def _share(clauses: Clauses) -> float | None:
    """Return the share of WITHIN, as ``2%`` or ``0.02``: above 0 and below 1."""
    clause = clauses.by_keyword.get("WITHIN")
    if clause is None:
        return None
    number, percent, _ = clause.text.text.partition("%")
    if NUMBER.fullmatch(number) and clause.text.text in (number, number + percent):
        share = float(number) / 100 if percent else float(number)
        if 0 < share < 1:
            return share
    message = f"{clause.text.text} is not a percentage of the median"
    clauses.diagnostics.error(message, clause.value_place, "write WITHIN 2%")
    return None


def _objective(body: Passage, token: DirectiveToken) -> Statement:
    """Return ``MINIMIZE expr, MAXIMIZE expr``."""
    diagnostics = Diagnostics()
    goals: list[Goal] = []
    at = token.end
    while at <= len(body.text):
        end = _comma(body.text, at)
        with diagnostics.gather():
            goals.append(_goal(body, at, end))
        at = end + 1
    diagnostics.close()
    return ObjectiveStatement(tuple(goals), body.place(token.start, token.end))


def _goal(body: Passage, start: int, end: int) -> Goal:
    word = next(tokens(body.text[:end], start), None)
    directions: tuple[Direction, ...] = ("minimize", "maximize")
    for direction in directions:
        if word is not None and word.upper() == direction.upper():
            return Goal(direction, _expression_after(body.cut(0, end), word, f"{word.text} time"))
    error_start, error_end = (word.start, word.end) if word else (start, start + 1)
    suggestion = did_you_mean(word.text.upper(), ["MINIMIZE", "MAXIMIZE"]) if word else ""
    raise AnnotationError(
        "each part of an OBJECTIVE must begin with MINIMIZE or MAXIMIZE",
        place=body.place(min(error_start, len(body.text) - 1), error_end),
        hint=suggestion
        if suggestion.startswith("did")
        else "write OBJECTIVE MINIMIZE time, MAXIMIZE gflops",
    )


def _comma(text: str, start: int) -> int:
    """Return where the next comma outside brackets stands, or the end."""
    depth = 0
    for token in tokens(text, start):
        if token.kind == "sign":
            depth += (token.text in "([") - (token.text in ")]")
            if token.text == "," and depth == 0:
                return token.start
    return len(text)


def _verify(body: Passage, token: DirectiveToken) -> Statement:
    """``error <= 1e-6``, ``"./compare out.dat" TIMEOUT 10s``, or ``SAME "out.dat" AS BASELINE``."""
    words = list(islice(tokens(body.text, token.end), 2))
    limits = ("TIMEOUT", "MEMORY")
    # No expression has a text right behind a name.
    if len(words) == 2 and words[0].upper() == "SAME" and words[1].kind == "text":
        return VerifyStatement(Verification(same=_same_file(body, words[0])))
    # Behind a text of an expression there is a sign.
    if words and words[0].kind == "text" and all(w.upper() in limits for w in words[1:]):
        return VerifyStatement(Verification(command=command(body, token, limits)))
    example = 'VERIFY error <= 1e-6, or VERIFY "./compare out.dat"'
    return VerifyStatement(Verification(expression=_expression_after(body, token, example)))


_PERF_EXAMPLE = "OBSERVE perf instructions, cycles, cache-misses"
_OBSERVE_EXAMPLE = f"{_PERF_EXAMPLE}, or OBSERVE memory, io"


def _observe(body: Passage, token: DirectiveToken) -> Statement:
    """Return ``perf instructions, cycles``, or other observers: ``memory, io``."""
    first_token = next(tokens(body.text, token.end), None)
    if first_token is not None and first_token.text.lower() == "perf":
        if not body.text[first_token.end :].strip():
            place = body.place(first_token.start, first_token.end)
            raise AnnotationError("perf needs events", place=place, hint=f"write {_PERF_EXAMPLE}")
        return ObserveStatement(
            tuple(_counter_metric(event) for event in _comma_parts(body, first_token.end))
        )
    diagnostics = Diagnostics()
    metrics: list[Metric] = []
    for word in _comma_parts(body, token.end):
        name, place = word.text.lower(), word.place(0, max(len(word.text), 1))
        if not name or name.split()[0] == "perf":
            message = "perf needs its own OBSERVE directive" if name else "OBSERVE needs a name"
            diagnostics.error(message, place, f"write {_OBSERVE_EXAMPLE}")
        elif name not in OBSERVED:
            message = f"{word.text} is not an observer"
            diagnostics.error(message, place, did_you_mean(name, OBSERVED))
        else:
            metrics += [
                Metric(metric, unit=unit, optional=True, place=place, observed=name)
                for metric, unit in OBSERVED[name].items()
            ]
    diagnostics.close()
    return ObserveStatement(tuple(metrics))


def _comma_parts(body: Passage, start: int) -> list[Passage]:
    """Return the parts of *body* from *start* on, between commas."""
    parts: list[Passage] = []
    for text in body.text[start:].split(","):
        parts.append(body.cut(start, start + len(text)).strip())
        start += len(text) + 1
    return parts


_NO_EVENT = "an event is missing"


def _counter_metric(event: Passage) -> Metric:
    """Return the metric of an event that perf counts."""
    place = event.place(0, max(len(event.text), 1))
    counter = counter_event(event.text)
    if counter is None:
        suggestion = did_you_mean(event.text, EVENTS) if event.text else ""
        hint = "perf list prints the names; write other events by number, such as r01c2"
        message = f"{event.text} is not an event that can be counted" if event.text else _NO_EVENT
        chosen_hint = suggestion if suggestion.startswith("did") else hint
        raise AnnotationError(message, place=place, hint=chosen_hint)
    name = counter_metric(event.text)
    observed = f"perf {event.text}"
    return Metric(name, unit=counter.unit, optional=True, place=place, observed=observed)


def _same_file(body: Passage, token: DirectiveToken) -> BaselineFileCheck:
    """Return ``SAME "out.dat" WITHIN 1e-9 AS BASELINE WHERE threads == 1``."""
    example = 'VERIFY SAME "out.dat" WITHIN 1e-9 AS BASELINE'
    path, at = quoted_text(body, token, example)
    check_inside(path, "SAME")
    diagnostics = Diagnostics()
    clauses = Clauses(body, "VERIFY SAME", ("WITHIN", "AS", "WHERE"), diagnostics).read(at)
    baseline = clauses.by_keyword.get("AS")
    if not diagnostics.errors and (baseline is None or baseline.text.text.upper() != "BASELINE"):
        place = baseline.value_place if baseline else path.place(0, len(path.text))
        diagnostics.error("AS BASELINE is missing", place, f"write {example}")
    within, baseline_values = _tolerance(clauses), _named_values(clauses)
    diagnostics.close()
    return BaselineFileCheck(path, within, baseline_values)


def _tolerance(clauses: Clauses) -> float:
    clause = clauses.by_keyword.get("WITHIN")
    if clause is None:
        return 0.0
    if NUMBER.fullmatch(clause.text.text) and 0 <= float(clause.text.text) < 1:
        return float(clause.text.text)
    message = f"{clause.text.text} is not a tolerance for numbers"
    clauses.diagnostics.error(message, clause.value_place, "write WITHIN 1e-9")
    return 0.0


_EQUALITY = re.compile(r"\s*(\w+|`(?:[^`]|``)+`)\s*==\s*(\S.*?)\s*")


def _named_values(clauses: Clauses) -> dict[str, Value]:
    """Return the values of ``threads == 1 and solver == 'cg'``."""
    clause = clauses.by_keyword.get("WHERE")
    values: dict[str, Value] = {}
    for term in re.split(r"\s+and\s+", clause.text.text) if clause else ():
        match = _EQUALITY.fullmatch(term)
        with clauses.diagnostics.gather():
            value = parse(match[2]) if match else None
        if match is None or value is None or value.names:
            assert clause is not None, "it has terms"
            message = f"{term.strip()} does not name a value"
            hint = "write WHERE threads == 1 and solver == 'cg'"
            clauses.diagnostics.error(message, clause.value_place, hint)
        else:
            name = match[1].strip("`").replace("``", "`")
            values[name] = value.value({})
    return values


def _output(body: Passage, token: DirectiveToken) -> Statement:
    globs: list[str] = []
    before = token
    while True:
        text, at = quoted_text(body, before, 'OUTPUT "results/*.csv"')
        check_inside(text, "OUTPUT")
        globs.append(text.text)
        comma = next(tokens(body.text, at), None)
        if comma is None or comma.upper() == "OPTIONAL":
            diagnostics = Diagnostics()
            clauses = Clauses(body, "OUTPUT", ("OPTIONAL",), diagnostics).read(at)
            diagnostics.close()
            return OutputStatement(tuple(globs), "OPTIONAL" in clauses.by_keyword)
        if comma.text != ",":
            place = body.place(comma.start, comma.end)
            hint = 'write OUTPUT "a.csv", "b.csv" with commas between, OPTIONAL after the last'
            raise AnnotationError(f"{comma.text} is not expected here", place=place, hint=hint)
        # As if the keyword stood at the comma, so that a diagnostic about what follows points
        # there.
        before = DirectiveToken("word", "OUTPUT", comma.start, comma.end)


def _use(body: Passage, token: DirectiveToken) -> Statement:
    """Return ``PROGRAM "sim", "gcc"``, ``FILE "../data"``, ``VERSION "gcc --version"``."""
    word = next(tokens(body.text, token.end), None)
    kinds: tuple[UseKind, ...] = ("program", "file", "version")
    kind = next((use_kind for use_kind in kinds if word and word.upper() == use_kind.upper()), None)
    if word is None or kind is None:
        place = body.place(*((word.start, word.end) if word else (token.start, token.end)))
        hint = 'write USE PROGRAM "sim", USE FILE "../data/mesh.bin" or USE VERSION "gcc --version"'
        suggestion = did_you_mean(word.text.upper(), ["PROGRAM", "FILE", "VERSION"]) if word else ""
        message = "USE must be followed by PROGRAM, FILE or VERSION"
        raise AnnotationError(
            message, place=place, hint=suggestion if suggestion.startswith("did") else hint
        )
    texts: list[Passage] = []
    previous_token = word
    while True:
        text, at = quoted_text(body, previous_token, f'USE {word.upper()} "{_USE_EXAMPLES[kind]}"')
        texts.append(text)
        comma = next(tokens(body.text, at), None)
        if comma is None:
            return UseStatement(kind, tuple(texts))
        if comma.text != ",":
            place = body.place(comma.start, comma.end)
            hint = f'write USE {word.upper()} "a", "b" with commas between the texts'
            raise AnnotationError(f"{comma.text} is not expected here", place=place, hint=hint)
        previous_token = DirectiveToken("word", word.text, comma.start, comma.end)


_USE_EXAMPLES: dict[UseKind, str] = {
    "program": "sim",
    "file": "../data/mesh.bin",
    "version": "cc --version",
}


def _after(body: Passage, token: DirectiveToken) -> Statement:
    stage, at = quoted_text(body, token, 'AFTER "mesh" ON n')
    diagnostics = Diagnostics()
    clauses = Clauses(body, "AFTER", ("ON",), diagnostics).read(at)
    diagnostics.close()
    return AfterStatement(
        stage, clauses.by_keyword["ON"].names if "ON" in clauses.by_keyword else ()
    )


def _end(body: Passage, token: DirectiveToken) -> Statement:
    """Return ``END``, ``END target``, ``END CR``, ``END CR name``."""
    following_tokens = list(tokens(body.text, token.end))
    region = bool(following_tokens) and following_tokens[0].upper() == "CR"
    names = following_tokens[1:] if region else following_tokens
    place = body.place(token.start, len(body.text.rstrip()))
    number = body.cut(token.end, len(body.text)).strip()
    # The target of a SUBSTITUTE may be a number, which is several tokens: 0.8, -1.
    if NUMBER.fullmatch(number.text):
        return EndStatement(number, region, place)
    if len(names) > 1 or any(name.kind == "sign" for name in names):
        unexpected_token = names[0] if names[0].kind == "sign" else names[1]
        raise AnnotationError(
            f"{unexpected_token.text} is not expected here",
            place=body.place(unexpected_token.start, unexpected_token.end),
            hint="write END, or END and the target; put quotes around a target that is not a "
            "single word",
        )
    if not names:
        return EndStatement(None, region, place)
    text = body.cut(names[0].start, names[0].end)
    return EndStatement(text if names[0].kind == "word" else unquote(text), region, place)


_READERS: dict[str, Callable[[Passage, DirectiveToken], Statement]] = {
    **{
        keyword: lambda body, token: declaration(body, token.end, token.upper())
        for keyword in ("SUBSTITUTE", "ASSIGN", "ENV", "PARAM")
    },
    "END": _end,
    "CONSTRAINT": _constraint,
    "BUILD": lambda body, token: BuildStatement(command(body, token)),
    "RUN": lambda body, token: RunStatement(command(body, token)),
    "REQUIRE": lambda body, token: RequireStatement(
        _expression_after(body, token, "REQUIRE host.memory >= 2GB")
    ),
    "RANK": lambda body, token: RankStatement(
        _expression_after(body, token, "RANK host.mhz"), body.place(token.start, token.end)
    ),
    "REPEAT": _repeat,
    "METRIC": lambda body, token: measured(body, token.end),
    "CR": lambda body, token: probed(body, token.end),
    "OBJECTIVE": _objective,
    "VERIFY": _verify,
    "OBSERVE": _observe,
    "OUTPUT": _output,
    "USE": _use,
    "AFTER": _after,
}
KEYWORDS = tuple(_READERS)
