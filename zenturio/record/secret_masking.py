"""Masking of secrets: a secret in all its spellings, texts, bytes and output without it."""

from __future__ import annotations

import html
import json
import math
import re
import shlex
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache, cached_property
from typing import Any
from urllib.parse import quote, quote_plus

from zenturio.errors import InputError
from zenturio.experiment.experiment import Log, Outcome
from zenturio.record import codec
from zenturio.safe_text import secrets_of_environment

MASK = "********"
"""Stands in the place of a secret, and does not tell how long that was."""
SHORTEST = 6
"""Characters of a secret: what is shorter also stands in words that are none."""
_CUT = 4
"""So many characters of a secret are taken away where a log was cut off within it."""
_PIECE = 2**20
"""Bytes of a file that are held in memory at a time."""
_ENTIRE = frozenset(("int", "real"))
"""The codec writes numbers as texts under these keys."""
_PARAMETER = "param:"
_ESCAPED = "base64:"


class Secret:
    """A secret in all its encodings: plain, and as escaped in JSON, shells and URLs."""

    def __init__(self, text: str) -> None:
        """Raise InputError if *text* is too short to be told from others, or cannot be stored."""
        if len(text) < SHORTEST:
            raise InputError(
                f"a secret of {len(text)} characters would be replaced inside of other words, too",
                hint=f"name at least {SHORTEST} characters, together with the text around it",
            )
        if not text.strip("* \t\n") or "\0" in text:
            raise InputError(
                "this is not a secret: it has only asterisks and blanks, or it has NUL"
            )
        self._text = text
        spellings = [text]
        for spelled in (text, *_in_json(text)):
            spellings += [spelled, *_in_json(spelled)]
        shell = shlex.quote(text)
        # Inside of a longer word in quotes, too.
        spellings.append(shell[1:-1] if shell != text else text)
        spellings += [repr(text)[1:-1], quote(text, safe=""), quote(text), quote_plus(text)]
        spellings += [html.escape(text), text.replace("'", "''"), text.replace('"', '""')]
        self.spellings = tuple(sorted(set(spellings), key=len, reverse=True))
        self.encoded = tuple(s.encode(errors="surrogateescape") for s in self.spellings)
        self._pattern = re.compile("|".join(map(re.escape, self.spellings)))
        self._bytes = re.compile(b"|".join(map(re.escape, self.encoded)))

    @cached_property
    def numbers(self) -> tuple[float, ...]:
        """The number that it reads as: asterisks are none, so values stay that are equal to it."""
        try:
            return (int(self._text),)
        except ValueError:
            pass
        try:
            number = float(self._text)
        except ValueError:
            return ()
        return (number,) if math.isfinite(number) else ()

    def is_in(self, data: Any) -> bool:
        """Return whether *data*, bytes or a file that is mapped into memory, has it."""
        return any(data.find(spelled) >= 0 for spelled in self.encoded)

    def pieces(self, data: Any) -> Iterator[bytes]:
        """Yield *data* without the secret, in parts that are not large."""
        end = 0
        for match in self._bytes.finditer(data):
            yield from _cut_up(data, end, match.start())
            yield MASK.encode()
            end = match.end()
        yield from _cut_up(data, end, len(data))

    def data(self, data: bytes) -> bytes:
        """Return *data* without the secret."""
        return self._bytes.sub(MASK.encode(), data)

    def text(self, text: str) -> str:
        """Return *text*, as the database holds it, without the secret."""
        if text.startswith(_ESCAPED):
            plain = codec.unescape(text)
            without = self._pattern.sub(MASK, plain)
            return text if without == plain else codec.escape(without)
        return self._pattern.sub(MASK, text)

    def document(self, text: str) -> str:
        """Return the same of a JSON document, which stays one: numbers in it are left alone."""
        try:
            read = json.loads(text)
        except (ValueError, RecursionError):
            return self.text(text)
        layout: tuple[str, str] = (",", ":") if '": ' not in text else (", ", ": ")
        ascii_only = text.isascii()

        def written(value: Any) -> str:
            return json.dumps(value, ensure_ascii=ascii_only, separators=layout)

        without = self._without(read)
        return text if written(without) == written(read) else written(without)

    def log(self, head: bytes, tail: bytes, size: int) -> tuple[bytes, bytes, int]:
        """Return both parts of a log without the secret, even if the cut went through it.

        *size* is what the whole log had, and becomes what it would have.
        """
        if tail and size == len(head) + len(tail):
            before, after = self.data(head + tail), b""
        else:
            before, after = self.data(head), self.data(tail)
        if tail and after:
            before, after = self._cut(before, after)
        shorter = len(head) + len(tail) - len(before) - len(after)
        return before, after, size - shorter

    def _cut(self, before: bytes, after: bytes) -> tuple[bytes, bytes]:
        """Without what is left of the secret at the end of *before* and the start of *after*."""
        for spelled in self.encoded:
            for length in range(len(spelled) - 1, _CUT - 1, -1):
                if before.endswith(spelled[:length]):
                    before = before[:-length] + MASK.encode()
                if after.startswith(spelled[-length:]):
                    after = MASK.encode() + after[length:]
        return before, after

    def _without(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._without(element) for element in value]
        if isinstance(value, dict):
            if len(value) == 1 and value.keys() <= _ENTIRE:
                return value
            return {self._key(key): self._without(element) for key, element in value.items()}
        return value

    def _key(self, key: str) -> str:
        if key == self._text and re.fullmatch("[a-z_]+", key):
            return key  # it may well be a word of our own
        if key.startswith(_PARAMETER):
            return _PARAMETER + self.text(key.removeprefix(_PARAMETER))
        return self.text(key)


def _cut_up(data: Any, start: int, end: int) -> Iterator[bytes]:
    for at in range(start, end, _PIECE):
        yield data[at : min(at + _PIECE, end)]


def _in_json(text: str) -> list[str]:
    """Return *text* inside of a string of JSON."""
    return [json.dumps(text, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)]


# Masking in the output of experiments, before it is stored
#
# Experiments inherit the environment of their driver, and print what they like. Known are the
# passwords of the database and the values of variables that are named like secrets; what an
# experiment knows from elsewhere, ``zen redact`` removes.


def mask_outcomes(
    outcomes: Iterable[Outcome], database_secrets: tuple[str, ...]
) -> Iterable[Outcome]:
    """Return *outcomes* with asterisks for secrets in their output and causes.

    The secrets are prepared once for a process; an outcome without one is passed on as it is.
    """
    secrets = _known_secrets((*database_secrets, *secrets_of_environment()))
    return (_masked(outcome, secrets) for outcome in outcomes) if secrets else outcomes


@cache
def _known_secrets(texts: tuple[str, ...]) -> tuple[Secret, ...]:
    secrets = []
    # The longest first: the password may begin a token, whose end would stay readable then.
    for text in sorted(set(texts), key=lambda text: (-len(text), text)):
        # A short one would be masked in words, a number in numbers: TOKENS=100000 is no secret.
        with suppress(InputError):
            if not (secret := Secret(text)).numbers:
                secrets.append(secret)
    return tuple(secrets)


def _masked(outcome: Outcome, secrets: tuple[Secret, ...]) -> Outcome:
    for secret in secrets:
        stdout, stderr = _masked_log(outcome.stdout, secret), _masked_log(outcome.stderr, secret)
        cause = secret.text(outcome.cause) if outcome.cause else outcome.cause
        if (stdout, stderr, cause) != (outcome.stdout, outcome.stderr, outcome.cause):
            outcome = replace(outcome, stdout=stdout, stderr=stderr, cause=cause)
    return outcome


def _masked_log(log: Log, secret: Secret) -> Log:
    # The cut between head and tail may go through a secret; else looking is faster than replacing.
    if log.tail or secret.is_in(log.head):
        return Log(*secret.log(log.head, log.tail, log.size))
    return log
