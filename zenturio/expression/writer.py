"""Write formulas as text, with names replaced by formulas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import NoReturn

from zenturio.errors import ExpressionError, Passage
from zenturio.expression.parser import (
    AND,
    ATOM,
    COMPARE,
    CONDITIONAL,
    DEEPEST,
    NOT,
    OR,
    POWER,
    PRODUCT,
    SIGN,
    SUM,
    depth_of,
    is_plain_name,
)
from zenturio.expression.scalar_functions import LONGEST, text_of
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
    Positive,
    Power,
    SyntaxNode,
    Within,
    rebuilt,
    walk,
)


def replaced(
    node: SyntaxNode, definitions: Mapping[str, SyntaxNode], passage: Passage
) -> SyntaxNode:
    """Return *node* with every name in *definitions* written out; itself if there is none."""
    return _Replacement(definitions, passage).top(node)


class _Replacement:
    def __init__(self, definitions: Mapping[str, SyntaxNode], passage: Passage) -> None:
        self.definitions = definitions
        self.passage = passage
        self.known: dict[str, SyntaxNode] = {}
        self.open: list[str] = []

    def top(self, node: SyntaxNode) -> SyntaxNode:
        used = {part.name: part for part in walk(node) if isinstance(part, Name)}
        for name, where in used.items():
            if name in self.definitions:
                self._define(name, where)
        return self._written(node, node)

    def _define(self, name: str, where: SyntaxNode) -> None:
        """Writes out the definition of *name* once; *where* is what a diagnostic points to."""
        if name in self.known:
            return
        if name in self.open:
            circle = " -> ".join([*self.open[self.open.index(name) :], name])
            self._refuse(where, f"{name!r} is defined by itself: {circle}", "break the circle")
        if len(self.open) > DEEPEST:
            self._refuse(where, f"more than {DEEPEST} definitions lead from one to the next")
        self.open.append(name)
        definition = self.definitions[name]
        for part in walk(definition):
            if isinstance(part, Name) and part.name in self.definitions:
                self._define(part.name, where)
        self.known[name] = self._written(definition, where)
        self.open.pop()

    def _written(self, node: SyntaxNode, where: SyntaxNode) -> SyntaxNode:
        """*node* with known names replaced; definitions that double each other are refused."""
        if not any(isinstance(part, Name) and part.name in self.known for part in walk(node)):
            return node
        result = _put(node, self.known)
        # Definitions that double each other grow exponentially: the count stops at the limit.
        if sum(1 for _ in islice(walk(result), LONGEST + 1)) > LONGEST:
            self._refuse(where, f"written out, this has more than {LONGEST} parts")
        if depth_of(result)[1] > DEEPEST:
            self._refuse(where, f"written out, this is nested more than {DEEPEST} deep")
        return result

    def _refuse(
        self, where: SyntaxNode, message: str, hint: str = "define fewer by others"
    ) -> NoReturn:
        place = self.passage.place(where.start, where.end)
        raise ExpressionError(message, place=place, hint=hint)


def _put(node: SyntaxNode, replacements: Mapping[str, SyntaxNode]) -> SyntaxNode:
    """What is put in for a name stands, for any later diagnostic, where the name stood."""
    if isinstance(node, Name) and node.name in replacements:
        return _moved(replacements[node.name], node)
    return rebuilt(node, lambda part: _put(part, replacements))


def _moved(node: SyntaxNode, where: SyntaxNode) -> SyntaxNode:
    moved = rebuilt(node, lambda part: _moved(part, where))
    if isinstance(moved, Arithmetic | Compare):
        steps = (replace(step, start=where.start, end=where.end) for step in moved.steps)
        moved = replace(moved, steps=tuple(steps))
    return replace(moved, start=where.start, end=where.end)


_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"})


def write(node: SyntaxNode) -> str:
    """Return the text that is read back as *node*."""
    return _text(node, CONDITIONAL)


def quoted(name: str) -> str:
    """Return *name* as it stands in an expression: in backticks, where it needs them."""
    return name if is_plain_name(name) else "`" + name.replace("`", "``") + "`"


def _rank(node: SyntaxNode) -> int:
    match node:
        case Conditional():
            return CONDITIONAL
        case Logic(operator):
            return AND if operator == "and" else OR
        case Not():
            return NOT
        case Compare() | Member() | Within():
            return COMPARE
        case Arithmetic(_, steps):
            return SUM if steps[0].operator in "+-" else PRODUCT
        case Negative() | Positive():
            return SIGN
        case Power():
            return POWER
    return ATOM


def _text(node: SyntaxNode, rank: int) -> str:
    """*node* where only what binds at least as tight as *rank* may stand bare."""
    text = _bare(node)
    return text if _rank(node) >= rank else f"({text})"


def _bare(node: SyntaxNode) -> str:
    match node:
        case Constant(value):
            return f'"{value.translate(_ESCAPES)}"' if isinstance(value, str) else text_of(value)
        case Name(name):
            return quoted(name)
        case HostAttribute(name):
            return "host." + quoted(name)
        case Index(name):
            return f"index({quoted(name)})"
        case Call(function, arguments):
            return f"{function}({_list(arguments)})"
        case _:
            return _operation(node)


def _operation(node: SyntaxNode) -> str:
    match node:
        case Negative(operand):
            return "-" + _text(operand, SIGN)
        case Positive(operand):
            return "+" + _text(operand, SIGN)
        case Not(operand):
            return "not " + _text(operand, NOT)
        case Power(base, exponent):
            # A power as base needs parentheses, because ** binds to the right.
            return f"{_text(base, ATOM)} ** {_text(exponent, SIGN)}"
        case Arithmetic(first, steps) | Compare(first, steps):
            rank = _rank(node) + 1
            rest = (f" {step.operator} {_text(step.operand, rank)}" for step in steps)
            return _text(first, rank) + "".join(rest)
        case Member(item, options, negated):
            return f"{_text(item, SUM)} {_word(negated)} ({_list(options)})"
        case Within(part, whole, negated):
            return f"{_text(part, SUM)} {_word(negated)} {_whole(whole)}"
        case Logic(operator, operands):
            rank = _rank(node) + 1
            return f" {operator} ".join(_text(operand, rank) for operand in operands)
        case Conditional(then, condition, other):
            return f"{_text(then, OR)} if {_text(condition, OR)} else {_text(other, CONDITIONAL)}"
    raise TypeError(f"{node!r} is not part of an expression")


def _list(nodes: tuple[SyntaxNode, ...]) -> str:
    return ", ".join(_text(node, CONDITIONAL) for node in nodes)


def _whole(node: SyntaxNode) -> str:
    # A parenthesis behind 'in' opens a list. Such a tree is never read, only made by replacing
    # names; str() leaves a text as it is.
    text = _text(node, SUM)
    return f"str({_bare(node)})" if text.startswith("(") else text


def _word(negated: bool) -> str:
    return "not in" if negated else "in"
