"""Hints for syntax errors: what is wrong with a token, and what would be right."""

from __future__ import annotations

from zenturio.expression.scalar_functions import FUNCTIONS, INDEX, SIGNATURES, clipped
from zenturio.expression.tokenizer import UNITS, Token

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
    if told := _BEHIND.get(token[:2]):
        return told
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
    if told := _INSTEAD_OF_A_VALUE.get(token[:2]):
        return told
    hint = "write a number, a text or a name there"
    if token.kind == "word":
        hint += f"; a parameter that is called {token.text} stands in backticks: `{token.text}`"
    return f"a value is missing before {token.text}", hint
