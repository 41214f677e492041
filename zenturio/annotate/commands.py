"""Commands of BUILD and RUN: how values are filled into them, and which programs they start.

``{name}`` stands for a value wherever the shell would read a word: bare, in ``'...'``, in ``"..."``
and in ``$(...)`` within them. ``${...}`` and ``{...}`` around anything that is no parameter are the
shell's own and stay; ``{{`` and ``}}`` are braces. Where no quoting would be safe (backticks,
``$'...'``, here-documents, arithmetic unless the value is a number) a value is refused.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from bisect import bisect_left
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from zenturio.annotate.model import Application
from zenturio.errors import AnnotationError, Passage

# Without "=", which makes an assignment of a first word, and "~" and braces, which expand.
_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+,-]+", re.ASCII)
_OPTION = re.compile(r"-[A-Za-z0-9_./:@%+,-]*[A-Za-z_./]", re.ASCII)
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?", re.ASCII)
_CASE = re.compile(r"case\b")
_VARIABLE = re.compile(r"\$(?:\w*|[@*#?$!-])\Z", re.ASCII)
_RESERVED = frozenset(
    {"if", "then", "else", "elif", "fi", "do", "done", "case", "esac", "while"}
    | {"until", "for", "in", "function", "select", "time", "coproc"}
)
_WORD_END = " \t\n;&|()<>"


def fill_command(
    command: Passage | str, texts: Mapping[str, str], words: Container[str] = ()
) -> str:
    """Return the command with each ``{name}`` of *texts* as its text, quoted for where it stands.

    The text of a name in *words* is several words, or none, where the shell reads words.
    """
    return _CommandFilling(Passage.of(command, "<command>"), texts, words).run()


@dataclass(slots=True)
class _Level:
    """What the shell is reading: bare words, ``"``, ``(`` within ``$(``, or ``((``."""

    kind: str
    depth: int = 0


class _CommandFilling:
    """One walk over a command, as the shell reads it."""

    def __init__(self, command: Passage, texts: Mapping[str, str], words: Container[str]) -> None:
        self.command = command
        self.words = words
        self.text = command.text
        self.texts = texts
        self.at = 0
        self.out: list[str] = []
        self.levels = [_Level("bare")]
        self.braces = 0
        self.names = _names(command.text, texts)
        self.ordered = sorted(self.names)
        # `{{` is a brace only if some `}}` follows: otherwise it is the shell's own.
        self.last_doubled = command.text.rfind("}}")

    def run(self) -> str:
        while self.at < len(self.text):
            if not self._brace():
                match self.levels[-1].kind:
                    case "double":
                        self._double()
                    case "arithmetic":
                        self._arithmetic()
                    case _:
                        self._bare()
        return "".join(self.out)

    def _take(self, count: int) -> None:
        """Copy the next *count* characters."""
        self.out.append(self.text[self.at : self.at + count])
        self.at += count

    def _starts(self, prefix: str) -> bool:
        return self.text.startswith(prefix, self.at)

    def _brace(self) -> bool:
        """Return a value, a doubled brace or ``${...}`` if one begins here."""
        if self._starts("${"):
            self._take(self._end_of_expansion() - self.at)
        elif self._starts("{{") and self.last_doubled >= self.at:
            self.braces += 1
            self._write("{", 2)
        elif self._starts("}}") and self.braces:
            self.braces -= 1
            self._write("}", 2)
        elif name := self._name():
            self._write(self._quoted(name), len(name) + 2)
        else:
            return False
        return True

    def _write(self, text: str, width: int) -> None:
        self.out.append(text)
        self.at += width

    def _name(self) -> str:
        """Return the parameter whose ``{name}`` stands here, or nothing."""
        return self.names.get(self.at, "")

    def _end_of_expansion(self) -> int:
        """Behind ``${...}``; shells differ in what quotes within it mean to what follows."""
        depth, end = 0, len(self.text)
        for i in range(self.at, len(self.text)):
            depth += {"{": 1, "}": -1}.get(self.text[i], 0)
            if self.text[i] == "}" and depth == 0:
                end = i + 1
                break
        if re.search(r"['\"`\\]|\$\(", self.text[self.at : end]):
            self._refuse_behind(end, "${...} with quotes in it")
        return end

    def _bare(self) -> None:
        character = self.text[self.at]
        if character == "\\":
            self._take(2)
        elif character == "'":
            self._single()
        elif character == '"':
            self.levels.append(_Level("double"))
            self._take(1)
        elif character == "#" and self._begins_word():
            self._take(self._find("\n") - self.at)
        elif self._is_case():
            self._refuse_behind(self.at, "case within $(...)")
            self._take(1)
        elif self._starts("<<") and not self._starts("<<<"):
            self._here_document()
        elif character == "(" and self._starts("(("):
            self.levels.append(_Level("arithmetic"))
            self._take(2)
        elif character in "()":
            self._parenthesis(character)
        else:
            self._expansion()

    def _double(self) -> None:
        if self.text[self.at] == "\\":
            self._take(2)
        elif self.text[self.at] == '"':
            self.levels.pop()
            self._take(1)
        else:
            self._expansion()

    def _arithmetic(self) -> None:
        level = self.levels[-1]
        if self._starts("))") and level.depth == 0:
            self.levels.pop()
            self._take(2)
            return
        level.depth += {"(": 1, ")": -1}.get(self.text[self.at], 0)
        self._expansion()

    def _expansion(self) -> None:
        """``$(...)``, ``$((...))``, backticks, ``$'...'``, or one plain character."""
        if self._starts("$(("):
            self.levels.append(_Level("arithmetic"))
            self._take(3)
        elif self._starts("$("):
            self.levels.append(_Level("substitution"))
            self._take(2)
        elif self._starts("`"):
            self._refused_until("`", 1, "backticks", "write $(...)")
        elif self._starts("$["):
            self._refused_until("]", 2, "$[...]", "write $((...))")
        elif self._starts("$'") and self.levels[-1].kind != "double":
            self._refused_until("'", 2, "$'...'", "write '...'")
        else:
            self._take(1)

    def _single(self) -> None:
        """Everything up to the next quote, in which only values and braces mean something."""
        self._take(1)
        while self.at < len(self.text) and not self._starts("'"):
            if self._starts("${"):
                self._take(2)
            elif not self._starts("{{") and (name := self._name()):
                self._write(self._safe(name).replace("'", "'\"'\"'"), len(name) + 2)
            elif not self._brace():
                self._take(1)
        self._take(1)

    def _parenthesis(self, character: str) -> None:
        """``$(`` ends at the ``)`` that no ``(`` within it belongs to."""
        level = self.levels[-1]
        if level.kind == "substitution" and character == ")" and level.depth == 0:
            self.levels.pop()
        else:
            level.depth += 1 if character == "(" else -1
        self._take(1)

    def _here_document(self) -> None:
        """The rest of the line is parsed as before; values in the lines below cannot be quoted."""
        self._refuse_behind(self._find("\n"), "a here-document", "pass it as an argument")
        self._take(2)

    def _is_case(self) -> bool:
        """Return whether the ``)`` of a pattern will look like the end of ``$(``."""
        inside = self.levels[-1].kind == "substitution" and self._begins_word()
        return inside and _CASE.match(self.text, self.at) is not None

    def _refuse_behind(self, start: int, where: str, hint: str = "set a variable before") -> None:
        """Refuse values from *start* on: what the shell makes of their place is not certain."""
        if (at := self._next_name(start)) is not None:
            raise self._refused(at, where, hint)

    def _refused_until(self, closer: str, start: int, where: str, hint: str) -> None:
        """Copy a quotation in which no value may stand."""
        end = self.at + start
        while end < len(self.text) and not self.text.startswith(closer, end):
            end += 2 if self.text[end] == "\\" else 1
        at = self._next_name(self.at)
        # Shells that do not know $'...' read its backslashes otherwise, and so all that follows.
        unsure = closer == "'" and "\\" in self.text[self.at : end]
        if at is not None and (at < end or unsure):
            raise self._refused(at, where, hint)
        self._take(end + 1 - self.at)

    def _next_name(self, start: int) -> int | None:
        behind = bisect_left(self.ordered, start)
        return self.ordered[behind] if behind < len(self.ordered) else None

    def _refused(self, at: int, where: str, hint: str) -> AnnotationError:
        name = self.names[at]
        place = self.command.place(at, at + len(name) + 2)
        return AnnotationError(f"{{{name}}} cannot be quoted in {where}", place=place, hint=hint)

    def _quoted(self, name: str) -> str:
        text, level = self._safe(name), self.levels[-1]
        if level.kind == "arithmetic":
            if not _NUMBER.fullmatch(text):
                raise self._refused(self.at, f"arithmetic, being {text!r}", "take a number")
            return text
        if name in self.words and level.kind != "double":
            return self._as_words(name, text)
        behind = self.text[self.at + len(name) + 2 : self.at + len(name) + 3]
        is_plain = _PLAIN.fullmatch(text) and not _VARIABLE.search("".join(self.out[-99:]))
        if level.kind == "double":
            # Leave the double quotes, quote singly, and enter them again: within them $ and `
            # would expand.
            return text if is_plain else '"' + _single_quoted(text) + '"'
        # A bare `then` is syntax, and `2>` redirects a stream.
        is_word = text not in _RESERVED and not (text.isdigit() and behind in {"<", ">"})
        return text if is_plain and is_word else _single_quoted(text)

    def _as_words(self, name: str, text: str) -> str:
        """Return the words of the text, as a shell would read them if nothing in them expanded."""
        try:
            words = shlex.split(text)
        except ValueError:
            place = self.command.place(self.at, self.at + len(name) + 2)
            message = f"{{{name}}} is {text!r}, whose quotes are not closed"
            hint = (
                "WORDS reads it as a shell would: close the quotes, or write \\' for a single one"
            )
            raise AnnotationError(message, place=place, hint=hint) from None
        # Numbers and keywords are quoted too: `2>` redirects a stream, and a bare `then` is syntax.
        return " ".join(word if _OPTION.fullmatch(word) else _single_quoted(word) for word in words)

    def _safe(self, name: str) -> str:
        """Return the text, which no command can take if it holds a NUL."""
        if "\0" in (text := self.texts[name]):
            place = self.command.place(self.at, self.at + len(name) + 2)
            message = f"{{{name}}} holds a NUL byte, which no program's argument can"
            raise AnnotationError(message, place=place, hint="leave it out, or put it in a file")
        return text

    def _find(self, text: str) -> int:
        place = self.text.find(text, self.at)
        return place if place >= 0 else len(self.text)

    def _begins_word(self) -> bool:
        return self.at == 0 or self.text[self.at - 1] in _WORD_END


def _names(text: str, values: Mapping[str, str]) -> dict[int, str]:
    """Return where a ``{name}`` stands, and which; in one walk, however many braces there are."""
    names: dict[int, str] = {}
    start, end = text.find("{"), -1
    longest = max(map(len, values), default=0) if start >= 0 else 0
    while start >= 0:
        if end < start:
            end = text.find("}", start)
        if end < 0:
            break
        # The length first: thousands of open braces would each copy the rest of the command.
        if end - start <= longest + 1 and text[start + 1 : end] in values:
            names[start] = text[start + 1 : end]
        start = text.find("{", start + 1)
    return names


def _single_quoted(text: str) -> str:
    return "'" + text.replace("'", "'\"'\"'") + "'"


BUILTINS = frozenset(
    {".", ":", "[", "alias", "bg", "break", "builtin", "caller", "case", "cd", "command"}
    | {"continue", "coproc", "declare", "do", "done", "echo", "elif", "else", "enable", "esac"}
    | {"eval", "exec", "exit", "export", "false", "fc", "fg", "fi", "for", "function", "getopts"}
    | {"hash", "help", "history", "if", "in", "jobs", "kill", "let", "local", "logout", "mapfile"}
    | {"newgrp", "popd", "printf", "pushd", "pwd", "read", "readonly", "return", "select", "set"}
    | {"shift", "shopt", "source", "stop", "suspend", "test", "then", "time", "times", "trap"}
    | {"true", "type", "typeset", "ulimit", "umask", "unalias", "unset", "until", "wait", "while"}
)
"""First words of a command that a shell itself understands."""
_PLATFORM = frozenset({"sh", "bash", "dash", "env"})
"""What runs other programs, and says nothing about what is measured."""
_FIRST = re.compile(r"\s*(?:[A-Za-z_]\w*=[^\s'\"$`{]*\s+)*([A-Za-z0-9_./+-]+)(?=[\s;&|]|$)")


def outside_programs(application: Application) -> dict[str, Path]:
    """Return the first words of BUILD and RUN that are programs outside the folder, with paths."""
    programs = {}
    for word in dict.fromkeys(_first_words(application)):
        path = find_program(word, application.root)
        if path is not None and not _is_inside(path, application.root):
            programs[word] = path
    return programs


def undeclared_programs(application: Application) -> dict[str, Path]:
    """Those of them that no ``USE PROGRAM`` names: what they hold is recorded as provenance."""
    declared = {use.text for use in application.uses if use.kind == "program"}
    programs = outside_programs(application)
    return {word: path for word, path in programs.items() if word not in declared}


def unversioned_programs(application: Application) -> dict[str, Path]:
    """Return those of them whose version no ``USE VERSION`` asks for either."""
    asked = {use.text.split(maxsplit=1)[0] for use in application.uses if use.kind == "version"}
    programs = undeclared_programs(application)
    return {word: path for word, path in programs.items() if word not in asked}


def find_program(word: str, root: Path) -> Path | None:
    """Return the executable that *word* means in *root*: a path, or a name on the PATH."""
    if "/" in word:
        path = Path(os.path.abspath(root), word)  # noqa: PTH100 - links stay what they are
        return path if path.is_file() and os.access(path, os.X_OK) else None
    named = shutil.which(word)
    return None if named is None else Path(named)


def _first_words(application: Application) -> Iterator[str]:
    for command in (*application.builds, *application.runs):
        match = _FIRST.match(command.text.text)
        if match and match[1] not in BUILTINS and match[1] not in _PLATFORM:
            yield match[1]


def _is_inside(path: Path, root: Path) -> bool:
    real, folder = Path(os.path.realpath(path)), Path(os.path.realpath(root))
    return real.is_relative_to(folder)
