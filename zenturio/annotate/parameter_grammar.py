"""The grammar of SUBSTITUTE, ASSIGN, ENV and PARAM."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import get_args

from zenturio.annotate.clauses import Clauses, expression_end
from zenturio.annotate.diagnostics import Diagnostics
from zenturio.annotate.directive_tokens import tokens, unclosed, unquote
from zenturio.annotate.model import Match
from zenturio.annotate.set_syntax import NUMBER, read_elements
from zenturio.annotate.statements import Declaration, Way
from zenturio.annotate.value_syntax import read_text
from zenturio.errors import AnnotationError, Passage
from zenturio.expression import Expression, Type, parse

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
    """What stands behind SUBSTITUTE, ASSIGN, ENV or PARAM from *start* on."""
    diagnostics = Diagnostics()
    target, at = read_target(body, start, keyword)
    found = _SIGN.match(body.text, at)
    sign, at = (found[1], found.end()) if found else ("", at)
    clauses = Clauses(body, keyword, _known(keyword, sign, body, at), diagnostics)
    content = _Content()
    with diagnostics.gather():
        content, end = _content(body, sign, at, clauses, keyword)
        clauses.read(end)
    result = _assemble(keyword, target, content, clauses)
    diagnostics.close()
    return result


def _known(keyword: str, sign: str, body: Passage, at: int) -> tuple[str, ...]:
    """The clauses that may follow; those that describe a dimension need a set before them."""
    places = _PLACES if keyword == "SUBSTITUTE" else ()
    if sign == "=" and body.text[at : at + 1] == "@":
        return places
    if sign == ":=":
        return ("AS", "UNIT", *places)
    return (*_ALWAYS, *places)


def read_target(body: Passage, start: int, keyword: str) -> tuple[Passage, int]:
    """The target: a bare word, or quoted where it holds anything but letters, digits and _.

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
            hint = "at least one letter between the quotes"
            raise AnnotationError("the name is empty", place=place, hint=hint)
        return text, token.end
    if token.text in "\"'":
        raise unclosed(body, token)
    found = _BARE.match(body.text, token.start)
    end = found.end() if found else token.end
    bare = body.text[token.start : end]
    number = keyword == "SUBSTITUTE" and NUMBER.fullmatch(bare)
    if not number and re.fullmatch(r"\w+", bare) is None:
        raise AnnotationError(
            f"{bare} has to be quoted",
            place=body.place(token.start, end),
            hint=f'write {keyword} "{bare}" = …; letters, digits and _ alone need no quotes',
        )
    return body.cut(token.start, end), end


def _content(
    body: Passage, sign: str, at: int, clauses: Clauses, keyword: str
) -> tuple[_Content, int]:
    """The set, the expression or the name of another parameter, and where it ends."""
    first = body.text[at : at + 1]
    if sign == "=" and first == "{":
        end = read_elements(body, at).end
        return _Content(elements=body.cut(at, end)), end
    if sign == "=" and first == "@":
        text, end = clauses.word(at + 1, "@", quoted=False)
        return _Content(same=text), end
    if sign == ":=":
        end = expression_end(body.text, at, clauses.known)
        text = body.cut(at, end).strip()
        if text.text:
            return _Content(expression=parse(text)), end
        message, hint = "the expression is missing", "write := 2 * n"
        raise AnnotationError(message, place=body.place(at - len(sign)), hint=hint)
    raise _no_set(body, sign, at, keyword)


def _no_set(body: Passage, sign: str, at: int, keyword: str) -> AnnotationError:
    """The diagnostic about what stands in place of a set."""
    behind, at = at, min(at, max(len(body.text.rstrip()) - 1, 0))
    if sign in ("", ":", "=="):
        start = body.text.rindex(sign, 0, behind) if sign else at
        message = f"{sign} is no sign here" if sign else "= is missing"
        hint = f"write {keyword} name = {{ … }}; := if it is computed from other parameters"
        place = body.place(start, start + max(len(sign), 1))
        return AnnotationError(message, place=place, hint=hint)
    written = body.text[at:].strip() if sign == "=" and body.text[at:].strip("= ") else ""
    call = re.match(r"\w+\([^()]*\)", written)
    word = call[0] if call else written.split()[0] if written else ""
    value = word.rstrip(",") or "1, 2, 4"
    hint = f"write = {{ {value} }}"
    if word.isidentifier():
        hint += f"; = @{word} for the same dimension as {word}; := {word} to compute it"
    end = at + max(len(word), 1)
    return AnnotationError("a set in braces is missing", place=body.place(at, end), hint=hint)


def _assemble(keyword: str, target: Passage, content: _Content, clauses: Clauses) -> Declaration:
    found = clauses.found
    return Declaration(
        way=_WAYS[keyword],
        target=target,
        name=found["AS"].text if "AS" in found else target,
        elements=content.elements,
        expression=content.expression,
        same=content.same,
        type=clauses.choice("TYPE", get_args(Type)),
        unit=clauses.text("UNIT"),
        default=_default(clauses),
        when=condition(clauses, "WHEN"),
        glob=found["IN"].text if "IN" in found else None,
        match=clauses.choice("MATCH", get_args(Match)) or "word",
        optional="OPTIONAL" in found,
        begins="BEGIN" in found,
        places={keyword: clause.place for keyword, clause in found.items()},
    )


def _default(clauses: Clauses) -> str | None:
    clause = clauses.found.get("DEFAULT")
    return read_text(clause.text).text if clause else None


def condition(clauses: Clauses, keyword: str) -> Expression | None:
    """The expression of a clause, if it is there and can be read."""
    clause = clauses.found.get(keyword)
    if clause is not None:
        with clauses.diagnostics.gather():
            return parse(clause.text)
    return None
