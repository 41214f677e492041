"""Texts in SQL: names in quotes, tokens, and what stands before a query as WITH."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

TOKEN = re.compile(
    r"""(?P<text>'(?:[^']|'')*')"""
    r"""|(?P<comment>--[^\n]*|/\*.*?\*/)"""
    r"""|(?P<dollar>\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)"""
    r"""|(?P<quoted>"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\])"""
    r"""|(?P<bare>[^\W\d][\w$]*)"""
    r"""|(?P<star>\*)""",
    re.DOTALL,
)
_START = re.compile(
    r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*(WITH\b(?:\s+RECURSIVE\b)?)?", re.DOTALL | re.IGNORECASE
)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def with_parts(text: str, parts: Sequence[str]) -> str:
    """Return *text*, one query, with more common table expressions before its own."""
    if not parts:
        return text
    start = _START.match(text)
    assert start is not None, "it may be empty"
    word, rest, listed = start[1], text[start.end() :], ", ".join(parts)
    return f"{word} {listed}, {rest}" if word else f"WITH {listed} {rest}"


def plain_name(token: re.Match[str]) -> str:
    """Return the name that a token stands for."""
    text = token[0]
    if token["bare"]:
        return text
    closing = {'"': '"', "`": "`", "[": "]"}[text[0]]
    return text[1:-1].replace(closing * 2, closing)


def with_names(text: str, tokens: Iterable[re.Match[str]], names: Mapping[str, str]) -> str:
    """Return *text* with other names for some of its tokens."""
    if not names:
        return text
    parts, end = [], 0
    for token in tokens:
        if (token["quoted"] or token["bare"]) and plain_name(token) in names:
            parts += [text[end : token.start()], quoted(names[plain_name(token)])]
            end = token.end()
    return "".join([*parts, text[end:]])
