"""Text of others as it may be shown and kept: without control characters, without secrets.

Names, values, sources and messages come from files that others wrote. An escape sequence in them
could write to the clipboard, hide a line or change what a command seems to be; a bidirectional
sign could make a line read as another one.

For logs and bug reports, secrets are recognised by where they stand (the password of a URL, the
value of a name such as ``api_token``) and by what they are (the value of an environment variable
with such a name). Masking too much is acceptable there; masking too little is not.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import unquote

UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but the tabulator and the line feed, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidirectional signs
    "\u2028\u2029"  # separators, at which some terminals begin a line
    "\ud800-\udfff]"  # halves of pairs: no encoding has them
)
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,500}(?:\x07|\x1b\\)|[@-Z\\^_])")
"""An escape sequence of ECMA-48, such as a colour, or one that sets a title."""
MASK = "********"
_SHORTEST = 4
"""Characters of a value in the environment: a shorter one also stands inside other words."""
_SWITCHES = {"true", "false", "none"}
_WORD = (
    "(?:password|passwd|passphrase|passcode|pwd|secret|token|credential|authorization|cookie"
    "|(?:api|access|private)[-_]?key)"
)
_SECRET_NAME = re.compile(_WORD, re.IGNORECASE)
# Up to the last @: a password that is not percent-encoded may hold one itself.
_URL_PASSWORD = re.compile(r"(://[^\s:/@]*):[^\s'\"]{1,500}@")
_BEARER = re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]{8,}", re.IGNORECASE)
_VALUE = r"""("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[^\s,;&"']+)"""
_NAME = rf"[\w-]{{0,60}}{_WORD}[\w-]{{0,60}}"
_ASSIGNED = re.compile(rf"({_NAME}[\"']?\s*[=:]\s*){_VALUE}", re.IGNORECASE)
_OPTION = re.compile(rf"(--{_NAME}\s+){_VALUE}", re.IGNORECASE)


def visible(text: str) -> str:
    """Return *text* with each character that controls a terminal as its escape."""
    return UNSAFE.sub(_escape, text)


def without_escapes(text: str) -> str:
    """Return *text* without the sequences that colour it in a terminal, or move the cursor."""
    return _SEQUENCE.sub("", text) if "\x1b" in text else text


def visible_in_json(text: str) -> str:
    """Return the JSON *text* with control characters as JSON's own escapes: the same value."""
    return UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def one_line(text: str) -> str:
    """Return *text* as one line: whatever is not printable, a line feed too, is an escape."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


def mask_secrets(text: str) -> str:
    """Return *text* with asterisks in place of passwords, tokens and the like."""
    for secret in secrets_of_environment():
        text = text.replace(secret, MASK)
    text = _URL_PASSWORD.sub(rf"\1:{MASK}@", text)
    text = _BEARER.sub(rf"\1 {MASK}", text)
    text = _ASSIGNED.sub(rf"\1{MASK}", text)
    return _OPTION.sub(rf"\1{MASK}", text)


def is_secret_name(name: str) -> bool:
    """Return whether what is called *name*, a setting or a variable, holds a secret."""
    return name not in ("PWD", "OLDPWD") and _SECRET_NAME.search(name) is not None


def mask_values(value: Any, name: str = "") -> Any:
    """Return a document of JSON or TOML without secrets, all below a secret name included.

    The names below ``users`` are those of people; what they are set to lets them log in.
    """
    hidden = is_secret_name(name) or name == "users"
    if isinstance(value, Mapping):
        return {key: mask_values(part, name if hidden else str(key)) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [mask_values(part, name) for part in value]
    if hidden:
        return MASK
    return mask_secrets(value) if isinstance(value, str) else value


@cache
def secrets_of_environment() -> tuple[str, ...]:
    """Return the secret values in the environment, as it was when first asked for.

    The longest comes first: one may begin with another.
    """
    values = set()
    for name, value in os.environ.items():
        if is_secret_name(name):
            values.add(value)
        elif "://" in value and (match := _URL_PASSWORD.search(value)):
            password = match[0].partition("://")[2].partition(":")[2][:-1]
            values |= {password, unquote(password)}
    telling = (value for value in values - _SWITCHES if len(value) >= _SHORTEST)
    return tuple(sorted(telling, key=len, reverse=True))
