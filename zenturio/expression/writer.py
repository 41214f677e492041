"""Writes a syntax tree as text, with as few parentheses as possible."""

from __future__ import annotations

from zenturio.expression.parser import (
    AND,
    ATOM,
    COMPARE,
    CONDITIONAL,
    NOT,
    OR,
    POWER,
    PRODUCT,
    SIGN,
    SUM,
)
from zenturio.expression.scalar_functions import text_of
from zenturio.expression.syntax_tree import (
    Arithmetic,
    Call,
    Compare,
    Conditional,
    Constant,
    Host,
    Index,
    Logic,
    Member,
    Name,
    Negative,
    Node,
    Not,
    Positive,
    Power,
    Within,
)
from zenturio.expression.tokenizer import is_plain_name

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"})


def write(node: Node) -> str:
    """The text that is read back as *node*."""
    return _text(node, CONDITIONAL)


def quoted(name: str) -> str:
    """*name* as it stands in an expression: in backticks, where it needs them."""
    return name if is_plain_name(name) else "`" + name.replace("`", "``") + "`"


def _rank(node: Node) -> int:
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


def _text(node: Node, rank: int) -> str:
    """*node* where only what binds at least as tight as *rank* may stand bare."""
    text = _bare(node)
    return text if _rank(node) >= rank else f"({text})"


def _bare(node: Node) -> str:
    match node:
        case Constant(value):
            return f'"{value.translate(_ESCAPES)}"' if isinstance(value, str) else text_of(value)
        case Name(name):
            return quoted(name)
        case Host(name):
            return "host." + quoted(name)
        case Index(name):
            return f"index({quoted(name)})"
        case Call(function, arguments):
            return f"{function}({_list(arguments)})"
        case _:
            return _operation(node)


def _operation(node: Node) -> str:
    match node:
        case Negative(operand):
            return "-" + _text(operand, SIGN)
        case Positive(operand):
            return "+" + _text(operand, SIGN)
        case Not(operand):
            return "not " + _text(operand, NOT)
        case Power(base, exponent):
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
    raise TypeError(f"{node!r} is no part of an expression")


def _list(nodes: tuple[Node, ...]) -> str:
    return ", ".join(_text(node, CONDITIONAL) for node in nodes)


def _whole(node: Node) -> str:
    # A parenthesis behind 'in' opens a list. Such a tree is never read, only made by replacing
    # names; str() leaves a text as it is.
    text = _text(node, SUM)
    return f"str({_bare(node)})" if text.startswith("(") else text


def _word(negated: bool) -> str:
    return "not in" if negated else "in"
