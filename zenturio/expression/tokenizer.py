"""The tokenizer: numbers with units, strings, names and operators, each with its position."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Literal, NamedTuple

from zenturio.errors import ExpressionError, Passage
from zenturio.expression.scalar_functions import BITS, HUGE, LONGEST

Kind = Literal["number", "string", "name", "word", "sign", "end"]


class Token(NamedTuple):
    """A word of an expression: a sign, a keyword in lower case, a name without its backticks.

    *value* is what a number or a string stands for, and 1 for a name that stood in backticks.
    """

    kind: Kind
    text: str
    start: int
    end: int
    value: int | float | str = 0


UNITS: dict[str, Fraction] = {
    **{prefix + "B": Fraction(1000) ** n for n, prefix in enumerate(("", "K", "M", "G", "T", "P"))},
    **{prefix + "iB": Fraction(1024) ** n for n, prefix in enumerate("KMGTP", 1)},
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "min": Fraction(60),
    "h": Fraction(3600),
    "d": Fraction(86400),
}
"""What a unit multiplies by: sizes become bytes, times become seconds."""

KEYWORDS = frozenset(
    word
    for lower in ("and", "or", "not", "in", "if", "else", "true", "false")
    for word in (lower, lower.upper())
) | {"True", "False"}

_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
_SPACE = re.compile(r"[ \t\r\n\f]*")
_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_SIGN = re.compile(r"\*\*|//|==|!=|<=|>=|[-+*/%<>()\[\],.]")
_STRING = re.compile(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\"""", re.DOTALL)
_QUOTED = re.compile(r"`((?:[^`]|``)+)`")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"'}

_FOREIGN = re.compile(
    r"===|!==|<=>|&&|\|\||<>|=<|=>|:=|<<|>>|->|[=!^&|~?:;{}@$#\\≤≥≠≈×÷·−–—²³√∧∨¬∈“”„‘’«»\xa0]"
)
_FOREIGN_ENDS = frozenset("=<>")
"""What a sign must be followed by to be, perhaps, part of a foreign one."""

_INSTEAD = {
    "=": "compare with '=='",
    "===": "compare with '=='",
    "!==": "compare with '!='",
    "<>": "compare with '!='",
    "=<": "write '<='",
    "=>": "write '>='",
    ":=": "compare with '=='; a name is defined by a directive",
    "&&": "write 'and'",
    "&": "write 'and'",
    "∧": "write 'and'",
    "||": "write 'or'",
    "|": "write 'or'",
    "∨": "write 'or'",
    "!": "write 'not'",
    "~": "write 'not'",
    "¬": "write 'not'",
    "^": "a power is written '**'",
    "²": "a power is written '**'",
    "³": "a power is written '**'",
    "√": "write sqrt(...)",
    "<<": "multiply by a power: a * 2 ** n",
    ">>": "divide by a power: a // 2 ** n",
    "?": "write 'a if condition else b'",
    ":": "write 'a if condition else b'",
    "{": "a name stands without braces here; a list is written (1, 2, 4)",
    "}": "a name stands without braces here; a list is written (1, 2, 4)",
    "$": "a name stands without '$' here",
    "≤": "write '<='",
    "≥": "write '>='",
    "≠": "write '!='",
    "×": "write '*'",
    "·": "write '*'",
    "÷": "write '/'",
    "−": "write '-'",
    "–": "write '-'",
    "—": "write '-'",
    "∈": "write 'in'",
    "\xa0": "write a plain blank",
    **dict.fromkeys("“”„‘’«»", "quote with ' or \""),
}


def tokens(passage: Passage) -> list[Token]:
    """All words of *passage* and an end; an ExpressionError where one cannot be read."""
    text = passage.text
    if len(text) > LONGEST:
        raise _refused(
            passage,
            LONGEST,
            len(text),
            f"an expression has at most {LONGEST} characters, this one {len(text)}",
            "give names to its parts: derived parameters (name := ...)",
        )
    found, at = [], _skip(text, 0)
    while at < len(text):
        token = _token(passage, at)
        found.append(token)
        at = _skip(text, token.end)
    found.append(Token("end", "", len(text), len(text)))
    return found


def is_plain_name(name: str) -> bool:
    """Whether *name* can stand without backticks."""
    return name.isidentifier() and name not in KEYWORDS


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _token(passage: Passage, at: int) -> Token:
    text, first = passage.text, passage.text[at]
    if first.isidentifier():
        end = _name_end(text, at)
        word = text[at:end]
        if word in KEYWORDS:
            return Token("word", word.lower(), at, end)
        return Token("name", word, at, end)
    if match := _NUMBER.match(text, at):
        return _number(passage, match)
    if first in "'\"":
        return _string(passage, at)
    if first == "`":
        return _quoted(passage, at)
    sign = _SIGN.match(text, at)
    if sign and text[sign.end() : sign.end() + 1] not in _FOREIGN_ENDS:
        return Token("sign", sign.group(), at, sign.end())
    foreign = _FOREIGN.match(text, at)
    if sign and not (foreign and foreign.end() > sign.end()):
        return Token("sign", sign.group(), at, sign.end())
    shown, end = (foreign.group(), foreign.end()) if foreign else (first, at + 1)
    named = repr(shown) if shown.isprintable() else f"the character U+{ord(first):04X}"
    hint = _INSTEAD.get(shown, "names with other characters stand in backticks: `block-size`")
    raise _refused(passage, at, end, f"{named} means nothing here", hint)


def _name_end(text: str, at: int) -> int:
    match = _NAME.match(text, at)
    end = match.end() if match else at + 1
    while end < len(text) and ("a" + text[end]).isidentifier():
        end += 1
    return end


def _number(passage: Passage, match: re.Match[str]) -> Token:
    """A number, and the unit that touches it."""
    text, start, end = passage.text, match.start(), match.end()
    whole = match.group(2) is None and "." not in match.group()
    digits = match.group()
    stop = end
    while stop < len(text) and ("a" + text[stop]).isidentifier():
        stop += 1
    unit = text[end:stop]
    if unit and unit not in UNITS:
        raise _refused(passage, end, stop, f"unknown unit {unit!r}", _unit_hint(digits, unit))
    if whole and len(digits.lstrip("0")) > BITS * 0.302:
        raise _refused(passage, start, end, f"the number has {len(digits)} digits", _SMALLER)
    if not whole and float(digits) == float("inf"):
        raise _refused(passage, start, end, f"{digits} is too large for a real number", _SMALLER)
    if not unit:
        value = int(digits) if whole else float(digits)
    elif abs(int((match.group(2) or "e0")[1:])) > 400:
        raise _refused(passage, start, end, f"the exponent of {digits} is too far out", _SMALLER)
    else:
        scaled = Fraction(digits) * UNITS[unit]
        value = int(scaled) if scaled.denominator == 1 else float(scaled)
    if isinstance(value, int) and value >= HUGE:
        raise _refused(passage, start, stop, f"the number has more than {BITS} bits", _SMALLER)
    return Token("number", text[start:stop], start, stop, value)


_SMALLER = f"integers have at most {BITS} bits, real numbers are below 1.8e308"


def _unit_hint(digits: str, unit: str) -> str:
    if digits == "0" and unit[0] in "xXoObB" and len(unit) > 1:
        return "numbers are written in decimal"
    if unit.strip("_").isdigit():
        return f"write {digits}{unit.replace('_', '')}, without '_'"
    if near := [known for known in UNITS if known.casefold() == unit.casefold()]:
        return f"did you mean {digits}{near[0]}?"
    return f"units are {' '.join(UNITS)}; a product is written {digits} * {unit}"


def _string(passage: Passage, at: int) -> Token:
    match = _STRING.match(passage.text, at)
    if match is None:
        quote = passage.text[at]
        raise _refused(
            passage, at, at + 1, "the text that begins here does not end", f"close it with {quote}"
        )
    body = match.group(1) if match.group(1) is not None else match.group(2)
    # What is no escape stays as written, so that "\d+" is the pattern that it looks like.
    value = _ESCAPE.sub(lambda found: _ESCAPES.get(found.group(1), found.group()), body)
    return Token("string", match.group(), at, match.end(), value)


def _quoted(passage: Passage, at: int) -> Token:
    match = _QUOTED.match(passage.text, at)
    if match is None:
        raise _refused(
            passage, at, at + 1, "the name that begins here does not end", "close it with `"
        )
    return Token("name", match.group(1).replace("``", "`"), at, match.end(), 1)


def _refused(passage: Passage, start: int, end: int, message: str, hint: str) -> ExpressionError:
    return ExpressionError(message, place=passage.place(start, end), hint=hint)
