"""Parse formulas: tokens, grammar and the hints of syntax errors."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from typing import Literal, NamedTuple

from zenturio.errors import ExpressionError, Passage, did_you_mean
from zenturio.expression.scalar_functions import (
    BITS,
    ELSEWHERE,
    FUNCTIONS,
    HUGE,
    INDEX,
    LONGEST,
    SIGNATURES,
    clipped,
)
from zenturio.expression.syntax_tree import (
    Arithmetic,
    Call,
    Compare,
    Conditional,
    Constant,
    HostAttribute,
    Index,
    Logic,
    Member,
    Name,
    Negative,
    Not,
    OperatorStep,
    Positive,
    Power,
    SyntaxNode,
    Within,
    children,
)

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
    """Return all words of *passage* and an end; an ExpressionError where one cannot be read."""
    text = passage.text
    if len(text) > LONGEST:
        raise _refused(
            passage,
            LONGEST,
            len(text),
            f"an expression has at most {LONGEST} characters, this one {len(text)}",
            "give names to its parts: derived parameters (name := ...)",
        )
    read_tokens, at = [], _skip(text, 0)
    while at < len(text):
        token = _token(passage, at)
        read_tokens.append(token)
        at = _skip(text, token.end)
    read_tokens.append(Token("end", "", len(text), len(text)))
    return read_tokens


def is_plain_name(name: str) -> bool:
    """Return whether *name* can stand without backticks."""
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
    # The fast path; before = < > the sign may be half of another language's operator.
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
    # Unicode letters and digits behind the ASCII ones: "a" before it lets a digit continue.
    while end < len(text) and ("a" + text[end]).isidentifier():
        end += 1
    return end


def _number(passage: Passage, match: re.Match[str]) -> Token:
    """Return a number, and the unit that touches it."""
    text, start, end = passage.text, match.start(), match.end()
    whole = match.group(2) is None and "." not in match.group()
    digits = match.group()
    stop = end
    while stop < len(text) and ("a" + text[stop]).isidentifier():
        stop += 1
    unit = text[end:stop]
    if unit and unit not in UNITS:
        raise _refused(passage, end, stop, f"unknown unit {unit!r}", _unit_hint(digits, unit))
    # log10(2) is 0.301: counted before int(), whose time grows with the square of the digits.
    if whole and len(digits.lstrip("0")) > BITS * 0.302:
        raise _refused(passage, start, end, f"the number has {len(digits)} digits", _SMALLER)
    if not whole and float(digits) == float("inf"):
        raise _refused(passage, start, end, f"{digits} is too large for a real number", _SMALLER)
    if not unit:
        value = int(digits) if whole else float(digits)
    # Fraction("1e999999999") would compute that power.
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
    if near := [known_unit for known_unit in UNITS if known_unit.casefold() == unit.casefold()]:
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
    value = _ESCAPE.sub(lambda escape: _ESCAPES.get(escape.group(1), escape.group()), body)
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


Told = tuple[str, str]

_NO_ATTRIBUTES = ("there are no attributes here", "nothing but host. has attributes: host.memory")

_BEHIND: dict[tuple[str, str], Told] = {
    ("sign", "."): _NO_ATTRIBUTES,
    ("sign", "("): ("this cannot be called", "write an operator, such as '*', before '('"),
    ("sign", "["): ("there are no parts to be taken here", "a list stands behind 'in'"),
    ("sign", ","): ("a list cannot stand here", "a list stands behind 'in': n in (1, 2)"),
    ("word", "else"): ("this 'else' has no 'if'", "write 'a if condition else b'"),
}

_INSTEAD_OF_A_VALUE: dict[tuple[str, str], Told] = {
    ("end", ""): ("the expression is empty", "write one, such as n > 0"),
    ("sign", "["): ("a list cannot stand here", "a list stands behind 'in': n in [1, 2]"),
    ("sign", "."): _NO_ATTRIBUTES,
}


def unexpected(token: Token, last: Token, closer: str) -> Told:
    """*token* follows a complete value that ends with *last*; *closer* would end what is open."""
    if message := _BEHIND.get(token[:2]):
        return message
    if token.kind == "sign" and token.text in ")]":
        if closer and closer != token.text:
            return f"{token.text!r} closes nothing here", f"{closer!r} is expected"
        return f"{token.text!r} closes nothing", "remove it, or open it before"
    hint = "write an operator, such as '*' or 'and', between them"
    if last.kind == "name" and last.text in FUNCTIONS:
        hint = f"write {SIGNATURES[last.text].form if last.text in SIGNATURES else INDEX}"
    if last.kind == "number" and token.text in UNITS:
        hint = f"write {last.text}{token.text}, without a blank"
    return f"an operator is missing before {clipped(token.text)}", hint


def missing(token: Token) -> Told:
    """*token* stands where a value should."""
    if message := _INSTEAD_OF_A_VALUE.get(token[:2]):
        return message
    hint = "write a number, a text or a name there"
    if token.kind == "word":
        hint += f"; a parameter that is called {token.text} stands in backticks: `{token.text}`"
    return f"a value is missing before {token.text}", hint


DEEPEST = 100
"""How many levels a tree may have, and how many operands may be open while it is read."""

CONDITIONAL, OR, AND, NOT, COMPARE, SUM, PRODUCT, SIGN, POWER, ATOM = range(1, 11)
"""Ranks of operators: the higher binds tighter."""

RANKS = {
    "if": CONDITIONAL,
    "or": OR,
    "and": AND,
    "**": POWER,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "in", "not"), COMPARE),
    **dict.fromkeys("+-", SUM),
    **dict.fromkeys(("*", "/", "//", "%"), PRODUCT),
}

CLOSING = {"(": ")", "[": "]"}
_SIMPLER = "give names to its parts: derived parameters (name := ...)"


def read(passage: Passage) -> SyntaxNode:
    """The tree of *passage*; an ExpressionError at the first word that cannot stand there."""
    parser = _Parser(passage)
    node = parser.expression(CONDITIONAL)
    if parser.token.kind != "end":
        raise parser.rest_refused()
    deepest, depth = depth_of(node)
    if depth > DEEPEST:
        place = passage.place(deepest.start, deepest.end)
        raise ExpressionError(
            f"the expression is nested more than {DEEPEST} deep", place=place, hint=_SIMPLER
        )
    return node


def depth_of(node: SyntaxNode) -> tuple[SyntaxNode, int]:
    """Return a node of the lowest level, and how many levels there are; without recursion."""
    deepest, depth, stack = node, 1, [(node, 1)]
    while stack:
        node, level = stack.pop()
        if level > depth:
            deepest, depth = node, level
        stack.extend((child, level + 1) for child in children(node))
    return deepest, depth


class _Parser:
    def __init__(self, passage: Passage) -> None:
        self.passage = passage
        self.words = tokens(passage)
        self.at = 0
        self.depth = 0
        self.open: list[Token] = []

    @property
    def token(self) -> Token:
        return self.words[self.at]

    def take(self) -> Token:
        self.at += 1
        return self.words[self.at - 1]

    def expression(self, rank: int) -> SyntaxNode:
        """An operand, and every operator behind it that binds at least as tight as *rank*."""
        self.depth += 1
        # Before RecursionError, which knows no place in the text.
        if self.depth > DEEPEST:
            raise self.refused(
                self.token, f"the expression is nested more than {DEEPEST} deep", _SIMPLER
            )
        node = self._operand(rank)
        while True:
            token = self.token
            token_rank = RANKS.get(token.text, 0) if token.kind in ("sign", "word") else 0
            if token_rank < rank or not token_rank:
                break
            node = self._operation(node, token, token_rank)
        self.depth -= 1
        return node

    def _operand(self, rank: int) -> SyntaxNode:
        token = self.take()
        match token.kind, token.text:
            case "name", _:
                return self._named(token)
            case "number" | "string", _:
                return Constant(token.value, start=token.start, end=token.end)
            case "sign", "(":
                return self._parenthesised(token)
            case "sign", "-" | "+":
                # Below a power, as in Python: -2 ** 2 is -4.
                operand = self.expression(SIGN)
                sign = Negative if token.text == "-" else Positive
                return sign(operand, start=token.start, end=operand.end)
            case "word", "true" | "false":
                return Constant(token.text == "true", start=token.start, end=token.end)
            case "word", "not" if rank <= NOT:
                operand = self.expression(NOT)
                return Not(operand, start=token.start, end=operand.end)
            case "word", "not":
                message = "'not' binds too loosely to stand here"
                raise self.refused(token, message, "write (not ...)")
        raise self._operand_refused(token)

    def _parenthesised(self, opener: Token) -> SyntaxNode:
        self.open.append(opener)
        if self.token.text == ")" and self.token.kind == "sign":
            raise self.refused(
                self.token, "nothing stands between the parentheses", "write a value there"
            )
        node = self.expression(CONDITIONAL)
        if self.token.text == "," and self.token.kind == "sign":
            hint = "a list stands behind 'in': n in (1, 2, 4)"
            raise self.refused(self.token, "a list cannot stand here", hint)
        # The parentheses belong to the place that a diagnostic shows, not to the tree.
        return replace(node, start=opener.start, end=self._close(opener))

    def _operation(self, first: SyntaxNode, token: Token, rank: int) -> SyntaxNode:
        match rank:
            case 1:
                return self._conditional(first)
            case 2 | 3:
                return self._logic(first, token.text, rank)
            case 5:
                return self._comparison(first)
            case 9:
                self.take()
                # To the right, with its own sign: 2 ** -1, and 2 ** 3 ** 2 is 2 ** 9.
                right = self.expression(SIGN)
                return Power(first, right, start=first.start, end=right.end)
            case _:
                steps = self._steps(rank)
                return Arithmetic(first, steps, start=first.start, end=steps[-1].end)

    def _conditional(self, then: SyntaxNode) -> SyntaxNode:
        word = self.take()
        condition = self.expression(OR)
        # Without `else` the value would be NULL somewhere, unsaid.
        if (self.token.kind, self.token.text) == ("word", "is"):
            hint = "compare with == or !=; what is computed from NULL is NULL"
            raise self.refused(self.token, "there is no 'is' in expressions", hint)
        if (self.token.kind, self.token.text) != ("word", "else"):
            raise self.refused(word, "this 'if' has no 'else'", "write 'a if condition else b'")
        self.take()
        # To the right, so that `a if p else b if q else c` needs no parentheses.
        other = self.expression(CONDITIONAL)
        return Conditional(then, condition, other, start=then.start, end=other.end)

    def _logic(self, first: SyntaxNode, operator: str, rank: int) -> SyntaxNode:
        operands = [first]
        while (self.token.kind, self.token.text) == ("word", operator):
            self.take()
            operands.append(self.expression(rank + 1))
        return Logic(operator, tuple(operands), start=first.start, end=operands[-1].end)

    def _steps(self, rank: int) -> tuple[OperatorStep, ...]:
        """Return every operator of this *rank* that follows, with its right side."""
        steps = []
        while self.token.kind == "sign" and RANKS.get(self.token.text) == rank:
            sign = self.take()
            operand = self.expression(rank + 1)
            steps.append(OperatorStep(sign.text, operand, start=sign.start, end=operand.end))
        return tuple(steps)

    def _comparison(self, first: SyntaxNode) -> SyntaxNode:
        if self.token.kind == "sign":
            steps = self._steps(COMPARE)
            self._refuse_mixed()
            return Compare(first, steps, start=first.start, end=steps[-1].end)
        negated = self.token.text == "not"
        word = self.take()
        if negated and (self.token.kind, self.token.text) != ("word", "in"):
            raise self.refused(
                word, "an operator is missing before 'not'", "write 'not in' or 'and not'"
            )
        if negated:
            self.take()
        opener = self.token
        if opener.kind == "sign" and opener.text in "([":
            self.take()
            options, end = self._items(opener)
            if not options:
                raise self.refused(opener, "the list is empty", "put at least one value into it")
            self._refuse_mixed()
            return Member(first, options, negated, start=first.start, end=end)
        whole = self.expression(COMPARE + 1)
        self._refuse_mixed()
        return Within(first, whole, negated, start=first.start, end=whole.end)

    def _refuse_mixed(self) -> None:
        """``a < b in c`` would be read as a chain in Python; nobody means it."""
        token = self.token
        if token.kind in ("sign", "word") and RANKS.get(token.text) == COMPARE:
            hint = "put parentheses around one of the comparisons"
            raise self.refused(token, f"{token.text!r} cannot follow a comparison here", hint)

    def _named(self, name: Token) -> SyntaxNode:
        token = self.token
        if token.kind == "sign" and token.text == "(":
            return self._call(name)
        if name.text == "host" and not name.value and token.kind == "sign" and token.text == ".":
            self.take()
            attribute = self.take()
            if attribute.kind != "name":
                raise self.refused(
                    attribute,
                    "a name is missing behind 'host.'",
                    "such as host.memory or host.cpus",
                )
            return HostAttribute(attribute.text, start=name.start, end=attribute.end)
        return Name(name.text, start=name.start, end=name.end)

    def _call(self, name: Token) -> SyntaxNode:
        if name.text not in FUNCTIONS:
            hint = ELSEWHERE.get(name.text) or did_you_mean(name.text, FUNCTIONS)
            # did_you_mean() lists some names where none is near; all functions are a better list.
            if hint.startswith("there"):
                hint = "functions are " + " ".join(sorted(FUNCTIONS))
            raise self.refused(name, f"unknown function {clipped(name.text)!r}", hint)
        arguments, end = self._items(self.take())
        if name.text == "index":
            match arguments:
                case (Name(parameter),):
                    return Index(parameter, start=name.start, end=end)
            raise self.refused(name, "'index' takes the name of a parameter", INDEX)
        signature = SIGNATURES[name.text]
        too_many = signature.most is not None and len(arguments) > signature.most
        if too_many or len(arguments) < signature.fewest:
            count = f"{len(arguments)} argument{'s' * (len(arguments) != 1)}"
            raise self.refused(
                name, f"{name.text!r} cannot take {count}", f"write {signature.form}"
            )
        return Call(name.text, arguments, start=name.start, end=end)

    def _items(self, opener: Token) -> tuple[tuple[SyntaxNode, ...], int]:
        """Values with commas between them, up to what closes *opener*; and where that ends."""
        self.open.append(opener)
        items: list[SyntaxNode] = []
        closer = CLOSING[opener.text]
        while not (self.token.kind == "sign" and self.token.text == closer):
            items.append(self.expression(CONDITIONAL))
            if not (self.token.kind == "sign" and self.token.text == ","):
                break
            self.take()
        return tuple(items), self._close(opener)

    def _close(self, opener: Token) -> int:
        closer = CLOSING[opener.text]
        token = self.token
        if token.kind == "sign" and token.text == closer:
            self.open.pop()
            return self.take().end
        if token.kind != "end":
            raise self.rest_refused()
        raise self.refused(opener, f"this {opener.text!r} is never closed", f"add {closer!r}")

    def rest_refused(self) -> ExpressionError:
        """Something follows a complete value."""
        opener = self.open[-1].text if self.open else ""
        message = unexpected(self.token, self.words[self.at - 1], CLOSING.get(opener, ""))
        return self.refused(self.token, *message)

    def _operand_refused(self, token: Token) -> ExpressionError:
        """Return the error that a value is missing at *token*."""
        if token.kind != "end" or len(self.words) == 1:
            return self.refused(token, *missing(token))
        last = self.words[-2]
        message = f"a value is missing behind {last.text}"
        return self.refused(last, message, "the expression ends too early")

    def refused(self, token: Token, message: str, hint: str) -> ExpressionError:
        place = self.passage.place(token.start, max(token.end, token.start + 1))
        return ExpressionError(message, place=place, hint=hint)
