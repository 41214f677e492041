"""Texts that were to be numbers: with signs, units or quotes, clock times, parts of numbers.

Experiments choose these texts. So no pattern here sees more than `LONGEST` letters of one.
"""

from __future__ import annotations

import re
from math import isfinite

LONGEST = 64
"""Letters of a text that may be a number with something around it."""
_AROUND = re.compile(
    r"""["'(\[<=~\s]*"""
    r"(?P<number>[-+]?\d(?:[\d.,'\xa0\u202f]*\d)?(?:[eE][-+]?\d+)?)"
    # A unit, of bytes, times, shares or what is counted by the second, or a word behind a blank.
    r"(?P<unit>(?:\s*(?:%|[munpfkKMGTPEµ]?(?:i?[Bb]|bits?|s|Hz|J|W|V|A|flops?|FLOPS?)?(?:/s|ps)?"
    r"|secs?|seconds?|min|h|hours?|x|°C)|\s+[^\s\d]\S{0,15})?)"
    r"""[\s"')\]>,;:.]*""",
    re.ASCII,
)
_PLAIN = re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?", re.ASCII)
_GROUPED = re.compile(
    r"[-+]?\d{1,3}(?P<sign>[,'\xa0\u202f])\d{3}((?P=sign)\d{3})*(\.\d+)?", re.ASCII
)
_GROUPED_BY_POINTS = re.compile(r"[-+]?\d{1,3}(?:(?:\.\d{3})+,\d+|(?:\.\d{3}){2,})", re.ASCII)
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+(?:[eE][-+]?\d+)?", re.ASCII)


def number_hint(value: object) -> str:
    """Return how to read a text that is a number with something around it; nothing for others."""
    if not isinstance(value, str) or len(value) > LONGEST:
        return ""
    match = _AROUND.fullmatch(value)
    if match is None:
        return ""
    number = match["number"]
    if _PLAIN.fullmatch(number):
        if number != value:
            digits = r"(\d+)" if number.isdecimal() else r"([-+.\deE]*\d)"
            unit = ", if all have the same unit" if match["unit"].strip() else ""
            return f"capture the number alone, such as {digits}{unit}"
        if isfinite(float(number)):
            return 'it is in quotes; write it without, or add DECIMAL "." to the METRIC'
        return ""
    if grouped := _GROUPED.fullmatch(number):
        digits, signs = rf"([\d.{grouped['sign']}]*\d)", f'THOUSANDS "{grouped["sign"]}"'
    elif _GROUPED_BY_POINTS.fullmatch(number):
        digits, signs = r"([\d.,]*\d)", 'THOUSANDS "." DECIMAL ","'
    elif _DECIMAL_COMMA.fullmatch(number):
        digits, signs = r"(-?[\d,]*\d)", 'DECIMAL ","'
    else:  # a version, an address
        return ""
    hint = f"add {signs} to the METRIC"
    if grouped and _DECIMAL_COMMA.fullmatch(number):
        hint += ', or DECIMAL "," if the comma is a decimal one'
    return hint if number == value else f"capture {digits} and {hint}"


_CLOCK = re.compile(r"\s*[-+]?\d+(?P<minutes>:[0-5]?\d)?:[0-5]\d(?:\.\d*)?\s*", re.ASCII)


def clock_hint(value: object) -> str:
    """Return how to read a clock time as a number of seconds; nothing for other texts."""
    if not isinstance(value, str) or len(value) > LONGEST:
        return ""
    match = _CLOCK.fullmatch(value)
    if match is None:
        return ""
    parts, total = r"(\d+):[\d.]+ for minutes m and \d+:([\d.]+) for seconds s", "60 * m + s"
    if match["minutes"]:
        parts = r"(\d+):\d+:[\d.]+ for hours h, \d+:(\d+):[\d.]+ for minutes m"
        parts += r" and \d+:\d+:([\d.]+) for seconds s"
        total = "3600 * h + 60 * m + s"
    return f"this is a clock time; capture {parts}, each in its own METRIC, and write := {total}"


def describe_text(text: str) -> str:
    """Return what stands where a number is needed, and how to capture a number."""
    shown = repr(text if len(text) <= LONGEST else text[: LONGEST - 3] + "...")
    hint = number_hint(text) or clock_hint(text)
    if not hint and text[:1].isdigit():  # (\d+) would be the beginning of something else
        hint = "the pattern must capture one whole number, and nothing else"
    hint = hint or r"capture a number, such as (\d+) or ([-+.\deE]+)"
    return f"the text {shown}, not a number: {hint}"


_BEGINS_NUMBER = re.compile(rb"[-+]?\d+(?:[,']\d{3})*(?:[.,]\d*)?")
_BEFORE = re.compile(
    rb"(?:(?<![\w\x80-\xff)\]%-])-)?"  # a minus behind a word or a number is a hyphen or a range
    rb"(?:(?<![\d.,:'])\d[\d.,:']*)?\Z"
)
_GOES_ON = re.compile(
    rb"(?:\d|(?:[,']|\xc2\xa0|\xe2\x80\xaf)(?=\d{3}(?!\d))|,(?=\d+(?!\d|[,.:]\d))"
    rb"|\.(?=\d)|:(?=\d\d(?!\d))"
    rb"|[eE](?=[-+]?\d+(?!\w))|[dD](?=[-+]\d)|(?<=[eEdD])[-+](?=\d))+"
)
"""The rest of a number: more digits, thousands, a fraction, an exponent, or a clock time."""
_PAIR = re.compile(rb"[-+]?\d+,\d+")
_BRACKETS = (b"()", b"[]", b"{}", b"<>")


def longer_number(
    content: bytes, start: int, end: int, *, before: bool, behind: bool
) -> tuple[int, int] | None:
    """Return the bounds of the number of which the one from *start* to *end* is a part.

    More of it is looked for *before* and *behind* it; None if it is whole.
    """
    raw = content[start:end]
    if len(raw) > LONGEST or not _BEGINS_NUMBER.fullmatch(raw):
        return None
    first, last = start, end
    if before and (match := _BEFORE.search(content[max(start - LONGEST, 0) : start])):
        first -= len(match[0])
    if behind and (match := _GOES_ON.match(content[end : end + LONGEST])):
        last += len(match[0])
    whole = content[first:last]
    # (3,5) is a pair, or a place in a plane.
    is_enclosed = content[max(first - 1, 0) : first] + content[last : last + 1] in _BRACKETS
    return None if whole == raw or (is_enclosed and _PAIR.fullmatch(whole)) else (first, last)


_SIMPLE_GROUP = re.compile(r"(?<!\\)\((?!\?)[^()]*\)")
_WILDCARD = re.compile(r"(?<!\\)(?P<any>\.|\\[SD]|\[\^[^\]]*\])(?P<times>[*+])(?P<lazy>\??)\Z")


def _simple_group(pattern: str) -> re.Match[str] | None:
    return _SIMPLE_GROUP.search(pattern) if pattern.count("(") == 1 else None


def is_behind_wildcard(pattern: str) -> bool:
    """Return whether what stands before the only group of *pattern* matches whatever comes."""
    group = _simple_group(pattern)
    return group is not None and _WILDCARD.search(pattern[: group.start()]) is not None


def with_group(pattern: str, group: str, letter: str = "") -> str:
    """Return *pattern* with *group* in place of its only group; *group* alone if it has others.

    A wildcard before it leaves all to it that is behind the *letter* in front of the number.
    """
    only = _simple_group(pattern)
    if only is None:
        return group
    before = pattern[: only.start()]
    wildcard = _WILDCARD.search(before)
    if wildcard is not None and not wildcard["lazy"]:
        shown = letter if letter in "-=:,;/" else re.escape(letter)
        before += (r"\s" if letter.isspace() else shown) if letter else "?"
    return before + group + pattern[only.end() :]


def is_written_with(text: str, thousands: str, decimal: str) -> bool:
    """Return whether *text*, of any length, is a number with these signs; *thousands* may be none.

    The last group has three digits, the others two or three: 12,34,567 is a number in India.
    """
    body = _without_sign(text).casefold()
    if body in ("nan", "inf", "infinity"):
        return True
    for letter in "ed":
        mantissa, exponent_sign, exponent = body.partition(letter)
        if exponent_sign:
            if not _is_digits(_without_sign(exponent)):
                return False
            body = mantissa
            break
    whole, _, part = body.partition(decimal)
    groups = whole.split(thousands) if thousands else [whole]
    if part and not _is_digits(part):
        return False
    if len(groups) == 1:
        return not whole or _is_digits(whole)
    sizes = [len(group) for group in groups]
    fits = sizes[0] in (1, 2, 3) and sizes[-1] == 3 and all(2 <= size <= 3 for size in sizes[1:])
    return fits and all(map(_is_digits, groups))


def _without_sign(text: str) -> str:
    return text[1:] if text[:1] in ("+", "-") else text


def _is_digits(text: str) -> bool:
    return text.isascii() and text.isdecimal()
