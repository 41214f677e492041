"""
Exceptions that zenturio raises, and the places in files that their messages show.

`Place` and `Passage` locate texts in files, a `Diagnostic` is a message with its place and hint,
and each exception has the exit code of the command line.

* ZenError
  + InputError           wrong input; carries every diagnostic that was found             exit 2
    - ExpressionError    an expression cannot be read, checked or evaluated
    - AnnotationError    a directive is wrong, or a file does not hold what it says
    - SpaceError         a parameter, a set or a constraint is impossible
    - NotFoundError      a name, study or digest that does not exist; suggests near ones
  + ExperimentsFailed    the run ended, and some experiments did not succeed             exit 3
  + PlaceError           a machine, a service, a disk or a plug-in is not as needed      exit 4
    - RecordError        the repository is missing, newer, locked or damaged
    - PluginError        a plug-in is claimed twice or does not load
  + ConflictError        another process or user holds what is needed                    exit 5
  + SafetyError          refused, because it would endanger something                    exit 6
  + Interrupted          the user stopped it                                             exit 130
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeVar


@dataclass(frozen=True, slots=True)
class Place:
    """A position in a file: line and column, both from 1, and the text of the line."""

    file: str
    line: int
    column: int
    text: str = ""
    width: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Passage:
    """A text taken from files, with the position of each character.

    ``pieces`` are (offset in the text, place of that offset), ascending: a directive over several
    lines is one passage of several pieces.
    """

    text: str
    pieces: tuple[tuple[int, Place], ...] = ()

    @staticmethod
    def of(text: str | Passage, file: str = "<text>") -> Passage:
        """Return *text* itself if it is a passage, else a passage that is all of *file*."""
        if isinstance(text, Passage):
            return text
        pieces, offset = [], 0
        for number, line in enumerate(text.split("\n"), 1):
            pieces.append((offset, Place(file, number, 1, line)))
            offset += len(line) + 1
        return Passage(text, tuple(pieces))

    def place(self, start: int, end: int | None = None) -> Place:
        """Return the place of [*start*, *end*); without *end*, of one character."""
        at = max(bisect_right(self.pieces, start, key=lambda piece: piece[0]) - 1, 0)
        offset, place = self.pieces[at] if self.pieces else (0, Place("<text>", 1, 1, self.text))
        width = 1 if end is None else max(end - start, 1)
        column = place.column + start - offset
        room = max(len(place.text) - column + 1, 1)
        return Place(place.file, place.line, column, place.text, min(width, room))

    def cut(self, start: int, end: int) -> Passage:
        """Return the part [*start*, *end*), which keeps its places."""
        inside = [(o - start, p) for o, p in self.pieces if start < o < end]
        return Passage(self.text[start:end], ((0, self.place(start)), *inside))

    def strip(self) -> Passage:
        """Return the passage without white space at its ends."""
        start = len(self.text) - len(self.text.lstrip())
        return self.cut(start, max(start, len(self.text.rstrip())))

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """An error or a warning: message, place and hint."""

    message: str
    place: Place | None = None
    hint: str = ""
    severity: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        head = f"{self.place}: " if self.place else ""
        mark = "warning: " if self.severity == "warning" else ""
        lines = [f"{head}{mark}{self.message}"]
        if self.place and self.place.text:
            lines += _excerpt(self.place)
        if self.hint:
            lines += ["  " + line for line in self.hint.splitlines()]
        return "\n".join(lines)


def _excerpt(place: Place, widest: int = 100) -> list[str]:
    """Return the line, with carets under the place; of a long line only the part around it."""
    first = max(0, place.column - 1 - widest * 2 // 3) if len(place.text) > widest else 0
    shown = place.text[first : first + widest]
    before = shown[: place.column - 1 - first]
    pad = "".join("\t" if c == "\t" else " " for c in before)
    carets = "^" * max(1, min(place.width, len(shown) - len(before)))
    prefix = "..." if first else ""
    suffix = "..." if len(place.text) > first + widest else ""
    return [f"    {prefix}{shown}{suffix}", f"    {' ' * len(prefix)}{pad}{carets}"]


class ZenError(Exception):
    """Base of every error that a caller may want to catch."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, place: Place | None = None, hint: str = "") -> None:
        super().__init__(message)
        self.diagnostics: tuple[Diagnostic, ...] = (Diagnostic(message, place, hint),)

    def __str__(self) -> str:
        return "\n".join(map(str, self.diagnostics))


class InputError(ZenError):
    exit_code = 2

    @classmethod
    def all(cls, diagnostics: Iterable[Diagnostic]) -> InputError:
        """Return one error with all *diagnostics*, sorted by place."""
        ordered = tuple(sorted(set(diagnostics), key=_order))
        error = cls(ordered[0].message)
        error.diagnostics = ordered
        return error


def _order(diagnostic: Diagnostic) -> tuple[str, int, int, str]:
    place = diagnostic.place
    where = (place.file, place.line, place.column) if place else ("", 0, 0)
    return (*where, diagnostic.message)


class ExpressionError(InputError):
    """An expression cannot be read, checked or evaluated."""

    row: int | None = None
    """The row (from 0) that could not be evaluated, if many rows were at once."""


class AnnotationError(InputError):
    """A directive is wrong, or a file does not hold what it says."""


class SpaceError(InputError):
    """A parameter, a set or a constraint is impossible."""


class NotFoundError(InputError):
    """A name, study or digest that does not exist."""


class ExperimentsFailed(ZenError):
    """The run ended, and some experiments did not succeed."""

    exit_code = 3


class PlaceError(ZenError):
    """A machine, a service, a disk or a plug-in is not as it is needed."""

    exit_code = 4


class RecordError(PlaceError):
    """The repository is missing, newer, locked or damaged."""


class PluginError(PlaceError):
    """A plug-in is claimed twice or does not load."""


class ConflictError(ZenError):
    """Another process or user holds what is needed."""

    exit_code = 5


class SafetyError(ZenError):
    """Refused, because it would endanger something."""

    exit_code = 6


class Interrupted(ZenError):
    """The user stopped it."""

    exit_code = 130


_Error = TypeVar("_Error", bound=InputError)


def unknown_name(
    kind: str,
    name: str,
    known: Iterable[str],
    error: type[_Error] = NotFoundError,  # type: ignore[assignment] # the default of a type variable
    place: Place | None = None,
) -> _Error:
    """Return an *error*: no *kind* has this *name*; its hint is the nearest of the *known* ones."""
    return error(f"no {kind} is named {name!r}", place=place, hint=did_you_mean(name, known))


_SHOWN = 20
"""Names that a hint lists."""
_LONGEST_NAME = 1000
"""The longest name, in characters, for which similar ones are looked up."""


def did_you_mean(name: str, known: Iterable[str], *, in_order: bool = False) -> str:
    """Return ``did you mean 'threads'?`` for the nearest of the *known* names, or list them.

    *in_order* lists them in the given order instead of sorted.
    """
    # Names from a file may be of any length, and comparing two takes time of len x len.
    names = list(dict.fromkeys(n for n in known if len(n) <= _LONGEST_NAME))
    if not in_order:
        names.sort()
    folded = {n.casefold(): n for n in reversed(names)}
    import difflib  # noqa: PLC0415 - experiments are run without

    sought = name.casefold() if len(name) <= _LONGEST_NAME else ""
    near = difflib.get_close_matches(sought, folded, n=2, cutoff=0.6)
    if near:
        return "did you mean " + " or ".join(repr(folded[n]) for n in near) + "?"
    if not names:
        return "there is none"
    shown = ", ".join(names[:_SHOWN]) + (
        f", ... ({len(names)} in all)" if len(names) > _SHOWN else ""
    )
    return f"there is: {shown}"
