"""What ASSIGN writes below a line that sets the same name, where that is likely not meant."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from zenturio.annotate.dialects.dialect_registry import UNKNOWN
from zenturio.annotate.model import Annotated, Application, Assignment
from zenturio.annotate.parameters import listed_texts, warning
from zenturio.annotate.source import without_end
from zenturio.errors import Diagnostic

_MOST_TEXTS = 100
"""Texts of a parameter that are tried in a file."""
_MOST_WRITTEN = 4
"""Elements that a hint writes."""

SETTINGS = frozenset({"toml", "yaml", "ini", "settings", UNKNOWN.name})
"""The dialects whose values are judged here: they have no variables, and no calls."""

_TEXT, _LIST, _BOOLEAN, _NUMBER, _OTHER = "a text", "a list", "a boolean", "a number", "other"
_FORMER_BOOLEAN = "a boolean or a text, depending on its version"
_INVALID = "invalid"
_UNQUOTED = "a text without quotes"


class _Setting(NamedTuple):
    """A line of a file that also sets the target of an assignment."""

    number: int
    kind: str
    value: str


def settings_values(application: Application) -> Iterator[Diagnostic]:
    """An ASSIGN that makes its file invalid, or whose values are not what the file has there."""
    parameters = {parameter.name: parameter for parameter in application.space.parameters}
    for file in application.files:
        if file.dialect.name not in SETTINGS:
            continue
        for assignment in file.assignments:
            parameter = parameters.get(assignment.parameter)
            texts = listed_texts(parameter)[:_MOST_TEXTS] if parameter is not None else ()
            doubts = _DOUBTS.get(file.dialect.name, _list_doubts)
            body = assignment.line.body
            for message, hint in doubts(file, assignment, texts):
                yield warning(message, body.place(0, len(body.text)), hint)


# A second setting, which a language refuses or may ignore

_ONCE = frozenset({"gromacs", "ini", "jsonc", "nix", "settings", "terraform", "vasp", "yaml"})
"""Dialects of files whose readers may refuse a key that is set twice, or take the first value.

In a Fortran namelist the last value counts.
"""
_C = r"(?:const|constexpr|constinit)\b(?!.*\*(?!\s*const\b))|#\s*define\b"
_CONSTANTS = {
    "ada": r":\s*constant\b",
    **dict.fromkeys(("c", "c++", "cuda", "objective-c", "shader"), _C),
    "c#": r"(?:const|readonly)\b",
    "d": r"(?:const|immutable|enum)\b",
    "dart": r"(?:const|final)\b",
    **dict.fromkeys(("fortran", "fixed fortran"), r"(?i:parameter)\b"),
    "go": r"const\b",
    "java": r"final\b",
    "javascript": r"const\b",
    **dict.fromkeys(("kotlin", "scala"), r"val\b"),
    "modelica": r"(?:parameter|constant)\b",
    "php": r"const\b",
    "rust": r"const\b|static\s+(?!mut\b)|let\s+(?!mut\b)",
    "swift": r"let\b",
    "verilog": r"(?:parameter|localparam|specparam|`define)\b",
    "vhdl": r"(?i:constant)\b",
    "zig": r"const\b",
}
"""By its dialect, what the line of a constant has beside the name and its value."""
_SECTION = re.compile(r"\s*(?:\[.*\]|<.*>|---.*)\s*")
"""Matches a line at which a section of settings begins."""


def refused_settings(application: Application) -> Iterator[Diagnostic]:
    """An ASSIGN below a line that sets its name, where the language allows one such line."""
    for file in application.files:
        if file.dialect.name in _ONCE:
            line_above, why = _key_above, "some programs refuse or ignore a key that is set twice"
        elif file.dialect.name in _CONSTANTS:
            line_above, why = _constant_above, "a constant cannot be assigned again"
        else:
            continue
        for assignment in file.assignments:
            number = line_above(file, assignment)
            if number is not None:
                body, name = assignment.line.body, assignment.target
                message = f"line {number + 1} sets {name}, too, and {why}"
                yield warning(message, body.place(0, len(body.text)), _replaced(number))


def _replaced(number: int) -> str:
    """The hint to replace the value in line *number* instead."""
    return f"write ZEN$ SUBSTITUTE before line {number + 1} instead: it replaces the value there"


def _lines_above(file: Annotated, assignment: Assignment) -> Iterator[tuple[int, str]]:
    """The lines above an assignment whose block it is in, the nearest first."""
    depth = len(assignment.line.indent)
    for number in range(assignment.line.first - 1, -1, -1):
        line = without_end(file.source.lines[number])
        indent = len(line) - len(line.lstrip())
        if line.strip() and indent <= depth and file.dialect.head.match(line) is None:
            yield number, line
            depth = indent


def _key_above(file: Annotated, assignment: Assignment) -> int | None:
    key = re.compile(rf"{assignment.line.indent}([\"']?){re.escape(assignment.target)}\1\s*[=:]")
    blocks = 0
    for number, line in _lines_above(file, assignment):
        if line.lstrip().startswith(("}", "]")):
            blocks += 1
        elif line.rstrip().endswith(("{", "[")):
            blocks -= 1
        elif not blocks and key.match(line):
            return number
        if blocks < 0 or _SECTION.fullmatch(line):
            return None
    return None


def _constant_above(file: Annotated, assignment: Assignment) -> int | None:
    constant = re.compile(_CONSTANTS[file.dialect.name])
    name = rf"(?<![\w.]){re.escape(assignment.target)}(?!\w)"
    # A type may stand before the name, or behind it, and the value of a macro has no sign.
    sets = re.compile(
        rf"{name}\s*(?::?=(?!=)|:(?!:)|\[.*=|\S+\s*=)|define\s+{name}|\w[\s*&]+{name}"
    )
    for number, line in _lines_above(file, assignment):
        if sets.search(line):
            return number if constant.search(line) and not _is_unset(line) else None
    return None


def _is_unset(line: str) -> bool:
    """Whether a line declares a constant without its value, which a later line may set."""
    return "=" not in line and "define" not in line


def _value_doubts(
    file: Annotated,
    assignment: Assignment,
    kinds: dict[str, str],
    present: _Setting | None,
) -> Iterator[tuple[str, str]]:
    """A message and a hint for the first text, by *kinds*, that is not as the *present* value."""
    expected = present.kind if present else ""
    unlike = [text for text, kind in kinds.items() if _is_unlike(kind, expected)]
    if not unlike:
        return
    if expected == _LIST:
        what = "lists"
        elements = [f"[{_item(t, kinds[t])}]" if t in unlike else t for t in kinds]
    elif expected == _BOOLEAN or {text.lower() for text in unlike} <= {"true", "false"}:
        what, elements = "true and false", ["true", "false"]
    else:
        what = "quotes"
        elements = [_in_quotes(text) if text in unlike else text for text in kinds]
    first, language = unlike[0], file.dialect.name.upper()
    written = file.dialect.assign(assignment.target, first)
    has = f", but line {present.number + 1} has {expected}" if present else ""
    if kinds[first] == _INVALID:
        message = f"this writes {written}, which {language} cannot read as a value"
    elif kinds[first] == _OTHER:
        message = f"this writes {written}, which {language} does not read as one text"
    elif expected == _LIST:
        message = f"this writes {written}{has}"
    else:
        message = f"this writes {written}, which {language} reads as {kinds[first]}{has}"
    more = ["..."] if len(elements) > _MOST_WRITTEN else []
    elements = [*map(_element, elements[:_MOST_WRITTEN]), *more]
    yield (
        message,
        f"write {what} in the set: ASSIGN {assignment.target} = {{ {', '.join(elements)} }}",
    )


def _is_unlike(kind: str, expected: str) -> bool:
    if kind in {_INVALID, _OTHER}:
        return True
    if expected == _LIST:
        return kind not in {_LIST, "null"}
    if expected == _BOOLEAN:
        return kind == _FORMER_BOOLEAN
    return expected == _TEXT and kind != _TEXT


def _item(text: str, kind: str) -> str:
    """Return *text* as an item of a list."""
    return _in_quotes(text) if kind in {_INVALID, _OTHER, _FORMER_BOOLEAN, _UNQUOTED} else text


def _in_quotes(text: str) -> str:
    """*text* between the quotes of TOML and YAML."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _element(text: str) -> str:
    """Return *text* as an element of a set, which takes it to the letter."""
    if re.fullmatch(r"[\w.+-]+", text):
        return text
    quote = "'" if '"' in text else '"'
    return f"{quote}{text}{quote}"


def _present(
    file: Annotated, assignment: Assignment, separator: str, kind_of: Callable[[int, str], str]
) -> _Setting | None:
    """Return the nearest line above, or else below, that sets the target at the same indent."""
    directives = {n for line in file.lines for n in range(line.first, line.last + 1)}
    above = range(assignment.line.first - 1, -1, -1)
    below = range(assignment.line.last + 1, len(file.source.lines))
    key = re.compile(
        rf"{assignment.line.indent}([\"']?){re.escape(assignment.target)}\1\s*{separator}(.*)"
    )
    for number in (*above, *below):
        match = key.match(without_end(file.source.lines[number]))
        if match is not None and number not in directives:
            value = match[2].strip()
            return _Setting(number, kind_of(number, value), value)
    return None


# Formats in which only the brackets of a list are known


def _list_doubts(
    file: Annotated, assignment: Assignment, texts: Sequence[str]
) -> Iterator[tuple[str, str]]:
    def kind_of(value: str) -> str:
        return _LIST if value.startswith("[") else _TEXT

    present = _present(file, assignment, "[=:]", lambda _, value: kind_of(value))
    if present is not None and present.kind == _LIST:
        has_quotes = re.match(r"\[\s*[\"']", present.value)
        kinds = {text: kind_of(text) for text in texts}
        if has_quotes:
            bare = re.compile(r"(?![\[\"'])(?=.*[^\W\d]).*")
            kinds = {t: _UNQUOTED if bare.fullmatch(t) else kind for t, kind in kinds.items()}
        yield from _value_doubts(file, assignment, kinds, present)


# TOML, which Python reads


def _toml_doubts(
    file: Annotated, assignment: Assignment, texts: Sequence[str]
) -> Iterator[tuple[str, str]]:
    lines = [without_end(line) for line in file.source.lines]
    # Not judged: a template, or a file that is wrong before it is filled.
    if not _is_toml(lines):
        return
    present = _present(file, assignment, "=", lambda _, value: _toml_kind(value))
    target, line = assignment.target, assignment.line
    lines[line.first] = line.indent + file.dialect.assign(target, "0")
    if present is not None and not _is_toml(lines):
        number = present.number + 1
        yield (
            f"line {number} sets {target}, too, and TOML refuses a key that is set twice",
            _replaced(present.number),
        )
    kinds = {text: _toml_kind(text) for text in texts}
    yield from _value_doubts(file, assignment, kinds, present)


def _is_toml(lines: Sequence[str]) -> bool:
    import tomllib  # noqa: PLC0415 - few studies have such files

    try:
        tomllib.loads("\n".join(lines))
    except tomllib.TOMLDecodeError:
        return False
    return True


def _toml_kind(value: str) -> str:
    import tomllib  # noqa: PLC0415 - see above

    try:
        read = tomllib.loads(f"x = {value}")["x"]
    except tomllib.TOMLDecodeError:
        # A list may go on in the next line.
        return _LIST if value.startswith("[") else _INVALID
    kinds = {str: _TEXT, bool: _BOOLEAN, int: _NUMBER, float: _NUMBER, list: _LIST}
    return kinds.get(type(read), "a table" if isinstance(read, dict) else "a time")


# YAML, as programs read values of a line: by version 1.1 or 1.2

_YAML_KINDS = {
    _BOOLEAN: re.compile(r"true|True|TRUE|false|False|FALSE"),
    _FORMER_BOOLEAN: re.compile(r"y|Y|n|N|yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF"),
    "null": re.compile(r"~|null|Null|NULL|"),
    _NUMBER: re.compile(
        r"[-+]?(?:\d[\d_]*(?:\.[\d_]*)?|\.\d+)(?:[eE][-+]?\d+)?|0x[\da-fA-F]+|0o[0-7]+"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
    ),
    _TEXT: re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^']|'')*'"),
    _LIST: re.compile(r"\[.*\]"),
    "a mapping": re.compile(r"\{.*\}"),
    # Anchors, tags and blocks are written by who means them.
    "marked": re.compile(r"[&*!|>].*"),
}
_NOT_PLAIN = re.compile(r"[-?:](?:\s|$)|[,\[\]{}#'\"%@`]|.*(?::(?:\s|$)|\s#)")
"""What cannot begin a text without quotes, or what ends it early."""


def _yaml_kind(value: str) -> str:
    for kind, pattern in _YAML_KINDS.items():
        if pattern.fullmatch(value):
            return kind
    return _OTHER if _NOT_PLAIN.match(value) else _TEXT


def _yaml_doubts(
    file: Annotated, assignment: Assignment, texts: Sequence[str]
) -> Iterator[tuple[str, str]]:
    def kind_of(number: int, value: str) -> str:
        value = re.sub(r"(?:^|\s)#[^'\"]*$", "", value).strip()
        following = (line.strip() for line in file.source.lines[number + 1 :])
        item = next((line for line in following if line and not line.startswith("#")), "")
        if not value and re.match(r"-(\s|$)", item):
            return _LIST
        return _LIST if value.startswith("[") else _yaml_kind(value)

    present = _present(file, assignment, ":(?=\\s|$)", kind_of)
    yield from _value_doubts(file, assignment, {text: _yaml_kind(text) for text in texts}, present)


_DOUBTS = {"toml": _toml_doubts, "yaml": _yaml_doubts}
