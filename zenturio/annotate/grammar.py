"""The grammar of directives: ``read`` parses one directive into a statement."""

from __future__ import annotations

import re
from collections.abc import Callable

from zenturio.annotate.clauses import Clauses
from zenturio.annotate.command_grammar import command, quoted_text
from zenturio.annotate.diagnostics import Diagnostics
from zenturio.annotate.directive_tokens import DirectiveToken, tokens, unquote
from zenturio.annotate.metric_grammar import check_inside, measured, probed
from zenturio.annotate.model import Direction, Goal, UseKind
from zenturio.annotate.parameter_grammar import declaration
from zenturio.annotate.set_syntax import NUMBER
from zenturio.annotate.statements import (
    AfterStatement,
    BuildStatement,
    ConstraintStatement,
    EndStatement,
    ObjectiveStatement,
    OutputStatement,
    RankStatement,
    RepeatStatement,
    RequireStatement,
    RunStatement,
    Statement,
    UseStatement,
    ZipStatement,
)
from zenturio.errors import AnnotationError, Passage, did_you_mean
from zenturio.expression import Expression, parse

LONGEST = 100_000
"""A directive has at most so many characters: enough for thousands of elements."""

_MOST_REPEATS = 10**9


def read(body: Passage) -> Statement:
    """The statement that *body* (what stands behind ``ZEN$``) makes; AnnotationError if none."""
    if len(body.text) > LONGEST:
        message = f"a directive has at most {LONGEST:,} characters, this one {len(body.text):,}"
        hint = 'LINES("file") takes the elements of a set from a file'
        raise AnnotationError(message, place=body.place(0, LONGEST), hint=hint)
    token = next(tokens(body.text), None)
    if token is None:
        hint = "write a directive behind ZEN$, as PARAM n = { 1, 2, 4 }"
        raise AnnotationError("the directive is empty", place=body.place(0), hint=hint)
    reader = _READERS.get(token.upper())
    if reader is None:
        place = body.place(token.start, token.end)
        hint = did_you_mean(token.text.upper(), KEYWORDS)
        raise AnnotationError(f"{token.text} is no directive", place=place, hint=hint)
    return reader(body, token)


def _whole(body: Passage, token: DirectiveToken, example: str) -> Expression:
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
        return ConstraintStatement(_whole(body, kind, "CONSTRAINT VALUE n * threads <= 2048"))
    if kind.upper() == "INDEX":
        return _together(body, kind)
    raise AnnotationError(
        "CONSTRAINT is followed by VALUE or INDEX",
        place=body.place(kind.start, kind.end),
        hint="write CONSTRAINT VALUE n <= 4 for a condition, CONSTRAINT INDEX a == b for a zip",
    )


def _together(body: Passage, token: DirectiveToken) -> Statement:
    """``a == b == c``: names only."""
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
        found = re.compile(r"\s*(==|$)").match(body.text, name.end)
        if not found:
            behind = next(tokens(body.text, name.end))
            place = body.place(behind.start, behind.end)
            raise AnnotationError(f"{behind.text} is not expected here", place=place, hint=hint)
        at = found.end()
        if not found[1]:
            break
    place = body.place(token.start, len(body.text.rstrip()))
    if len(names) < 2:
        raise AnnotationError("INDEX needs two names at least", place=place, hint=hint)
    return ZipStatement(tuple(names), place)


def _repeat(body: Passage, token: DirectiveToken) -> Statement:
    found = re.compile(r"\s*(\S+)").match(body.text, token.end)
    word = found[1] if found else ""
    count = int(word) if re.fullmatch(r"[0-9]{1,10}", word) else 0
    end = found.end() if found else token.end
    if not 0 < count <= _MOST_REPEATS:
        start = end - len(word) if word else token.start
        hint = "write REPEAT 30, or REPEAT 30 SEED seed; 1 is the least"
        message = f"REPEAT {word} is no number of runs" if word else "REPEAT needs a number"
        raise AnnotationError(message, place=body.place(start, end), hint=hint)
    diagnostics = Diagnostics()
    clauses = Clauses(body, "REPEAT", ("SEED",), diagnostics).read(end)
    diagnostics.close()
    seed = clauses.found["SEED"].text if "SEED" in clauses.found else None
    return RepeatStatement(count, seed, body.place(token.start, end))


def _objective(body: Passage, token: DirectiveToken) -> Statement:
    """``MINIMIZE expr, MAXIMIZE expr``."""
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
            return Goal(direction, _whole(body.cut(0, end), word, f"{word.text} time"))
    first, last = (word.start, word.end) if word else (start, start + 1)
    near = did_you_mean(word.text.upper(), ["MINIMIZE", "MAXIMIZE"]) if word else ""
    raise AnnotationError(
        "a part of an OBJECTIVE begins with MINIMIZE or MAXIMIZE",
        place=body.place(min(first, len(body.text) - 1), last),
        hint=near if near.startswith("did") else "write OBJECTIVE MINIMIZE time, MAXIMIZE gflops",
    )


def _comma(text: str, start: int) -> int:
    """Where the next comma outside brackets stands, or the end."""
    depth = 0
    for token in tokens(text, start):
        if token.kind == "sign":
            depth += (token.text in "([") - (token.text in ")]")
            if token.text == "," and depth == 0:
                return token.start
    return len(text)


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
            return OutputStatement(tuple(globs), "OPTIONAL" in clauses.found)
        if comma.text != ",":
            place = body.place(comma.start, comma.end)
            hint = (
                'write OUTPUT "a.csv", "b.csv" with a comma between two, OPTIONAL behind the last'
            )
            raise AnnotationError(f"{comma.text} is not expected here", place=place, hint=hint)
        before = DirectiveToken("word", "OUTPUT", comma.start, comma.end)


def _use(body: Passage, token: DirectiveToken) -> Statement:
    """``PROGRAM "sim", "gcc"``, ``FILE "../data"``, ``VERSION "gcc --version"``."""
    word = next(tokens(body.text, token.end), None)
    kinds: tuple[UseKind, ...] = ("program", "file", "version")
    kind = next((each for each in kinds if word and word.upper() == each.upper()), None)
    if word is None or kind is None:
        place = body.place(*((word.start, word.end) if word else (token.start, token.end)))
        hint = 'write USE PROGRAM "sim", USE FILE "../data/mesh.bin" or USE VERSION "gcc --version"'
        near = did_you_mean(word.text.upper(), ["PROGRAM", "FILE", "VERSION"]) if word else ""
        message = "USE is followed by PROGRAM, FILE or VERSION"
        raise AnnotationError(message, place=place, hint=near if near.startswith("did") else hint)
    texts: list[Passage] = []
    before = word
    while True:
        text, at = quoted_text(body, before, f'USE {word.upper()} "{_USED[kind]}"')
        texts.append(text)
        comma = next(tokens(body.text, at), None)
        if comma is None:
            return UseStatement(kind, tuple(texts))
        if comma.text != ",":
            place = body.place(comma.start, comma.end)
            hint = f'write USE {word.upper()} "a", "b" with a comma between two'
            raise AnnotationError(f"{comma.text} is not expected here", place=place, hint=hint)
        before = DirectiveToken("word", word.text, comma.start, comma.end)


_USED: dict[UseKind, str] = {
    "program": "sim",
    "file": "../data/mesh.bin",
    "version": "cc --version",
}


def _after(body: Passage, token: DirectiveToken) -> Statement:
    stage, at = quoted_text(body, token, 'AFTER "mesh" ON n')
    diagnostics = Diagnostics()
    clauses = Clauses(body, "AFTER", ("ON",), diagnostics).read(at)
    diagnostics.close()
    return AfterStatement(stage, clauses.found["ON"].names if "ON" in clauses.found else ())


def _end(body: Passage, token: DirectiveToken) -> Statement:
    """``END``, ``END target``, ``END CR``, ``END CR name``."""
    rest = list(tokens(body.text, token.end))
    region = bool(rest) and rest[0].upper() == "CR"
    names = rest[1:] if region else rest
    place = body.place(token.start, len(body.text.rstrip()))
    number = body.cut(token.end, len(body.text)).strip()
    if NUMBER.fullmatch(number.text):
        return EndStatement(number, region, place)
    if len(names) > 1 or any(name.kind == "sign" for name in names):
        behind = names[0] if names[0].kind == "sign" else names[1]
        raise AnnotationError(
            f"{behind.text} is not expected here",
            place=body.place(behind.start, behind.end),
            hint="write END, or END and the target; quote a target that is not one word",
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
        _whole(body, token, "REQUIRE host.memory >= 2GB")
    ),
    "RANK": lambda body, token: RankStatement(
        _whole(body, token, "RANK host.mhz"), body.place(token.start, token.end)
    ),
    "REPEAT": _repeat,
    "METRIC": lambda body, token: measured(body, token.end),
    "CR": lambda body, token: probed(body, token.end),
    "OBJECTIVE": _objective,
    "OUTPUT": _output,
    "USE": _use,
    "AFTER": _after,
}
KEYWORDS = tuple(_READERS)
