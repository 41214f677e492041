"""What is likely not meant in an annotated program."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import islice, pairwise
from pathlib import Path
from time import time_ns

from zenturio.annotate.dialects.dialect import to_the_letter
from zenturio.annotate.dialects.dialect_registry import UNKNOWN
from zenturio.annotate.file_selection import IGNORE
from zenturio.annotate.model import MEASURED, Annotated, Application, Assignment, Command, Hole
from zenturio.annotate.parameters import (
    constraints,
    elements,
    listed_texts,
    size,
    texts_outside,
    unused,
    unused_seed,
    warning,
)
from zenturio.annotate.patterns import GitIgnore, IgnoreRule, check_pattern
from zenturio.annotate.region_probes import unguarded
from zenturio.annotate.settings_values import SETTINGS, refused_settings, settings_values
from zenturio.annotate.source import SyntaxSpans, without_end
from zenturio.annotate.substitution import (
    ASSIGNMENT,
    Filler,
    Replacement,
    occurrences,
    replacements,
)
from zenturio.errors import Diagnostic, InputError, Passage, Place
from zenturio.expression.syntax_tree import Name
from zenturio.quantities import amount
from zenturio.quantities import size as human_size
from zenturio.space import Continuous, Dependent

LARGE_FILE_BYTES = 2**20
"""Files beyond this size that all experiments share are cloned or linked to, not copied."""
_FOLLOWING = {
    "rsync": "rsync -L",
    "tar": "tar -h",
    "cp": "cp -L",
    "cpio": "cpio -L",
    "find": "find -L",
    "du": "du -L",
    "stat": "stat -L",
}
"""Programs that take a link for what it is, and the option with which they follow it."""
_TAKES_LINKS = re.compile(
    r"(?:^|[\s;&|(])(?:"
    r"(?P<cp>cp\s+(?:-\S+\s+)*-[A-Za-z]*[adPRr](?!\S*L))"
    r"|(?P<tar>tar\s+(?!\S*[xth])-?[A-Za-z]*[cru])"
    r"|(?P<find>find\s+(?!-L)[^;|&]*-type\s+f)"
    r"|(?P<rsync>rsync\b(?![^;|&]*(?:\s-[A-Za-z]*L|--copy-links)))"
    r"|(?P<cpio>cpio\b(?![^;|&]*\s-[A-Za-z]*L))"
    r"|(?P<du>du\s+(?!-\S*[LD]))"
    r"|(?P<stat>stat\s+(?!-\S*L)))"
)

Rule = Callable[[Application], Iterable[Diagnostic]]


def lint(application: Application, *, suggests: bool = True) -> tuple[Diagnostic, ...]:
    """Warnings about what is likely not meant, in the order of their places.

    If it *suggests*, also what a study would be better with: once is enough, not at each run.
    """
    rules = (*RULES, *SUGGESTIONS) if suggests else RULES
    diagnostics = {diagnostic for rule in rules for diagnostic in rule(application)}
    return tuple(sorted(diagnostics, key=_order))


def _order(diagnostic: Diagnostic) -> tuple[str, int, int, str]:
    place = diagnostic.place or Place("", 0, 0)
    return place.file, place.line, place.column, diagnostic.message


# What is in the folder

_LINES = 5
"""Lines for .zenignore that are offered at the most."""
_SKEW = 60 * 10**9
"""Nanoseconds by which clocks may differ that are not worth a word."""
_ENVIRONMENT_MARKS = ("pyvenv.cfg", "conda-meta/history")


def ignored(application: Application) -> Iterator[Diagnostic]:
    """Warn of files that Git ignores: objects, binaries, earlier results, or data."""
    rules = GitIgnore.around(application.root)
    if rules is None:
        return
    used = {use.path for use in application.uses}
    undeclared_paths = [
        file.path
        for file in application.copied
        if not used or Path(file.location).absolute() not in used
    ]
    rule_by_path = dict(_ignored_by(rules, application.root, undeclared_paths))
    if not rule_by_path:
        return
    by_rule: dict[IgnoreRule, list[str]] = {}
    for path, rule in rule_by_path.items():
        by_rule.setdefault(rule, []).append(path)
    first_paths = ", ".join(list(rule_by_path)[:3]) + (", ..." if len(rule_by_path) > 3 else "")
    count = (
        "a file that Git ignores is"
        if len(rule_by_path) == 1
        else f"{len(rule_by_path):,} files that Git ignores are"
    )
    lines = [line for rule, paths in by_rule.items() for line in _lines(rule, paths)]
    yield warning(
        f"{count} part of every experiment: {first_paths}",
        None,
        "a change of such a file makes all results outdated, and a BUILD may use an old output "
        "as if it were new;\nif these files are not inputs, write into "
        f"{application.root / IGNORE}:\n"
        + _indented_lines(lines)
        + f'\nif they are inputs, declare them: ZEN$ USE FILE "{next(iter(rule_by_path))}"',
    )


def _ignored_by(
    rules: GitIgnore, root: Path, paths: Iterable[str]
) -> Iterator[tuple[str, IgnoreRule]]:
    """Yield those of *paths* that Git ignores, and why."""
    parents: dict[str, Path] = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        # A path for each folder, not for each file: there may be a hundred thousand of these.
        parent = parents.get(folder) or parents.setdefault(folder, root / folder)
        rule = rules.rule_in(parent, name)
        if rule is not None:
            yield path, rule


def _lines(rule: IgnoreRule, paths: Iterable[str]) -> list[str]:
    """What leaves *paths* out, as ``.zenignore`` is written."""
    pattern = rule.text.strip().rstrip("/")
    if "/" not in pattern and not set(pattern) & set("\\!#[ "):
        return [pattern]
    return [f"./{path}" for path in paths]


def _indented_lines(lines: list[str]) -> str:
    lines = list(dict.fromkeys(lines))
    remainder = [f"... and {len(lines) - _LINES:,} more"] if len(lines) > _LINES else []
    return "\n".join(f"    {line}" for line in [*lines[:_LINES], *remainder])


def environments(application: Application) -> Iterator[Diagnostic]:
    """Virtual environments: a copy of one does not work, for it holds absolute paths."""
    for path in application.file_paths:
        if not path.endswith(_ENVIRONMENT_MARKS):
            continue
        for mark in _ENVIRONMENT_MARKS:
            if path.endswith(f"/{mark}"):
                folder = path.removesuffix(f"/{mark}")
                yield warning(
                    f"{folder} is a virtual environment: a copy of it in an experiment does not "
                    "work",
                    None,
                    f"write ./{folder} into {application.root / IGNORE}, and write the full "
                    f"paths of its programs: {(application.root / folder).absolute()}/bin/...",
                )


_CMAKE_CACHE = "CMakeCache.txt"
_CMAKE_SOURCE = re.compile(rb"^CMAKE_HOME_DIRECTORY:INTERNAL=(.+)$", re.MULTILINE)
_CMAKE_CACHE_BYTES = 2**20


def cmake_caches(application: Application) -> Iterator[Diagnostic]:
    """Caches of CMake: it refuses one that names another folder than the experiment's own."""
    for path in application.file_paths:
        if path.rpartition("/")[2] != _CMAKE_CACHE:
            continue
        try:
            with (application.root / path).open("rb") as file:
                match = _CMAKE_SOURCE.search(file.read(_CMAKE_CACHE_BYTES))
        except OSError:
            continue
        if match:
            folder = path.rpartition("/")[0]
            left_out = [f"./{folder}"] if folder else [f"./{path}", "./CMakeFiles"]
            yield warning(
                f"{path} belongs to {os.fsdecode(match[1]).strip()}: CMake refuses it in the "
                "folder of an experiment",
                None,
                f"write into {application.root / IGNORE}:\n{_indented_lines(left_out)}",
            )


def future(application: Application) -> Iterator[Diagnostic]:
    """Warn of files with times in the future, which a build takes for changed."""
    limit = time_ns() + _SKEW
    late_paths = [file.path for file in application.files if (file.source.mtime or 0) > limit]
    late_paths = sorted(
        [*late_paths, *(file.path for file in application.copied if file.mtime > limit)]
    )
    if late_paths:
        more_files = f" and {len(late_paths) - 1:,} more files" if len(late_paths) > 1 else ""
        yield warning(
            f"{late_paths[0]}{more_files}: the modification time is in the future, so a BUILD "
            "cannot tell which files are newer",
            None,
            f"correct the clock, or the time of the file: touch {late_paths[0]}",
        )


_NEIGHBOURS = 1000
"""Files beside a named one that are looked at, at the most."""
_FILE_NAME = re.compile(r"[\w+-][\w.+-]*\.\w+")
_BARE_FILE_NAME = re.compile(rf"(?<![\w./+-]){_FILE_NAME.pattern}")
_WRITTEN_FILE_NAME = re.compile(
    r"""(?:(?<![=<-])>>?\|?|\btee(?:\s+-a)?\s|(?<![\w-])-o(?:\s|=)?|\bof="""
    r"""|(?<![\w-])--?\w*(?:out|output|log)[\w-]*(?:\s|=))"""
    rf"""\s*["']?(?:[\w.$+{{}}-]*/)*({_FILE_NAME.pattern})"""
)
"""Matches a file behind what makes a shell or a program write one; its group is the name."""


def left_beside(application: Application) -> Iterator[Diagnostic]:
    """Warn of files that a single file names, and that its experiments do not get."""
    if not application.paths or any(path.is_dir() for path in application.paths):
        return
    texts = [file.source.text or "" for file in application.files]
    texts += [command.text.text for command in (*application.builds, *application.runs)]
    mentioned_names = {name for text in texts for name in _FILE_NAME.findall(text)}
    mentioned_names |= {text for p in application.space.parameters for text in listed_texts(p)}
    # USE FILE watches a file where it is: who reads it by its bare name still does not find it.
    lines = [line for text in texts for line in text.splitlines() if "ZEN$" not in line]
    bare_names = {name for line in lines for name in _BARE_FILE_NAME.findall(line)}
    written_names = {metric.source.rsplit("/", 1)[-1] for metric in application.metrics}
    written_names |= {name for text in texts for name in _WRITTEN_FILE_NAME.findall(text)}
    inputs = {Path(path).name for path in application.file_paths}
    inputs |= {path.name for path in application.paths}
    used_names = {use.path.name for use in application.uses if use.path is not None}
    outputs = [pattern.rsplit("/", 1)[-1] for pattern in application.outputs]
    for folder in dict.fromkeys(path.parent for path in application.paths):
        with os.scandir(folder) as entries:
            present_names = {e.name for e in islice(entries, _NEIGHBOURS) if e.is_file()}
        absent_names = sorted(
            ((mentioned_names - written_names - used_names) | (bare_names & used_names))
            & present_names - inputs
        )
        absent_names = [
            n for n in absent_names if not any(fnmatchcase(n, pattern) for pattern in outputs)
        ]
        if absent_names:
            files = ", ".join(absent_names[:3]) + (", ..." if len(absent_names) > 3 else "")
            is_declared = absent_names[0] in used_names
            unlike = " (USE FILE copies nothing)" if is_declared else ""
            declare = "" if is_declared else f', and declare it: ZEN$ USE FILE "{absent_names[0]}"'
            yield warning(
                f"the program names {files}, but a study of a single file does not include other "
                f"files{unlike}",
                None,
                f"if the program reads {absent_names[0]}, run the whole folder: "
                f"zen run {shlex.quote(str(folder))}; or write the full path of the file in the "
                f"program{declare}\nif the program writes it, the file there is not needed",
            )


# What is filled in

_OPERATORS = tuple("=,(+-*/%<>&|[")
"""What an operand follows."""
_STRINGS = ("a string", "a character")
_QUOTES = ('"', "'", "`")
_PLAIN_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eEdD][-+]?\d+)?")
_BARE_WORD = re.compile(r"[-+.\w]+")


def fits(application: Application) -> Iterator[Diagnostic]:
    """Texts too long for a line of fixed columns, or that a file's encoding cannot hold."""
    texts = {parameter.name: listed_texts(parameter) for parameter in application.space.parameters}
    for diagnostic in Filler(application).doubts(texts):
        yield replace(diagnostic, severity="warning")


def blanks(application: Application) -> Iterator[Diagnostic]:
    """Warn of a WHEN without DEFAULT whose parameter is an operand: ``q = ;`` if it is false."""
    parameters_without_default = {
        p.name: p for p in application.space.parameters if p.when and p.default is None
    }
    for replacement in replacements(application.files):
        parameter = parameters_without_default.get(replacement.parameter)
        line = _without(replacement) if parameter is not None else ""
        if parameter is not None and line:
            del parameters_without_default[replacement.parameter]
            message = f"if the condition of WHEN is false, {parameter.name} is empty: {line}"
            hint = 'add a value for this case: DEFAULT 0, or DEFAULT "" if empty is intended'
            yield Diagnostic(message, parameter.place, hint, severity="warning")


def _without(replacement: Replacement) -> str:
    """Return the line without a text where an operand is missing then; nothing where none is."""
    if replacement.context == ASSIGNMENT:
        return f"{replacement.target} ="
    line, column = replacement.place.text, replacement.place.column - 1
    text_before, text_behind = line[:column], line[column + len(replacement.target) :]
    if replacement.context != "code" or not text_before.rstrip().endswith(_OPERATORS):
        return ""
    return (text_before + text_behind).strip()


def strings(application: Application) -> Iterator[Diagnostic]:
    """Words that are replaced inside of strings: ``"n = %d"`` is a label, no variable.

    Where no code has the target, one that is the whole of a string is meant, as the mode in
    ``mode = "fast"``.
    """
    directives: dict[Place, list[Replacement]] = {}
    for replacement in replacements(application.files):
        hole = replacement.hole
        if hole and _is_by_default(hole) and _BARE_WORD.fullmatch(replacement.target):
            directives.setdefault(hole.place, []).append(replacement)
    for same_directive in directives.values():
        in_code = any(replacement.context == "code" for replacement in same_directive)
        inside = [
            replacement
            for replacement in same_directive
            if replacement.context in _STRINGS and (in_code or not _is_whole(replacement.place))
        ]
        if inside:
            yield _in_strings(inside, in_code=in_code)


def repeated_numbers(application: Application) -> Iterator[Diagnostic]:
    """Warn of a number that is replaced on several lines: they may mean different things."""
    directives: dict[Place, list[Replacement]] = {}
    for replacement in replacements(application.files):
        hole = replacement.hole
        if hole and _is_by_default(hole) and _PLAIN_NUMBER.fullmatch(replacement.target):
            directives.setdefault(hole.place, []).append(replacement)
    for same_directive in directives.values():
        lines = list(dict.fromkeys((r.place.file, r.place.line) for r in same_directive))
        if len(lines) < 2:
            continue
        line_list = ", ".join(
            str(line) if file == lines[0][0] else f"{Path(file).name}:{line}"
            for file, line in lines[:5]
        ) + (", ..." if len(lines) > 5 else "")
        yield Diagnostic(
            f"{same_directive[0].target} is replaced on {len(lines)} lines: {line_list}",
            same_directive[0].hole.place if same_directive[0].hole else same_directive[0].place,
            "to replace only one, put BEGIN after the set and ZEN$ END after that line; MATCH "
            "WORD confirms that all are intended",
            severity="warning",
        )


def _is_by_default(hole: Hole) -> bool:
    """Return whether words are searched only because the directive does not say how."""
    return hole.match == "word" and not hole.is_match_written


def _is_whole(place: Place) -> bool:
    """Return whether quotes stand on both sides."""
    start, line = place.column - 1, place.text
    ends = line[max(start - 1, 0) : start], line[start + place.width : start + place.width + 1]
    return ends[0] == ends[1] and ends[0] in _QUOTES


def _in_strings(inside: list[Replacement], *, in_code: bool) -> Diagnostic:
    first_replacement, other_count = inside[0], len(inside) - 1
    other_strings = (
        f", and in {other_count:,} more string{'s' * (other_count > 1)}" if other_count else ""
    )
    extent = "not only in code" if in_code else "and nowhere in code"
    message = (
        f"{first_replacement.target} is replaced in {first_replacement.context}{other_strings},"
        f" {extent}"
    )
    hint = (
        "MATCH WORD confirms that this is intended; ZEN$ OFF and ZEN$ ON around the line "
        "prevent it; zen check --show lists all places"
    )
    return Diagnostic(message, first_replacement.place, hint, severity="warning")


def overwritten(application: Application) -> Iterator[Diagnostic]:
    """Warn of an ASSIGN whose variable a later line sets again, so that no value has an effect."""
    for file in application.files:
        directives = {n for line in file.lines for n in range(line.first, line.last + 1)}
        for assignment in file.assignments:
            number = _sets_again(file, assignment, directives)
            if number is None:
                continue
            body = assignment.line.body
            message = (
                f"line {number + 1} sets {assignment.target} again, so the values of this "
                "directive have no effect"
            )
            hint = "put the directive after that line"
            place = body.place(0, len(body.text))
            yield Diagnostic(message, place, hint, severity="warning")


_QUIET = re.compile(
    r"\s*(?:(?:import|from|using|library)\b|#include\s*<"
    r"|(?!(?:case|default|else|when|export)\b)[A-Za-z_$@%.][\w \t$.*&<>,-]*"
    r"(?::=|=(?![=~])|<-|:(?![:=]))\s*[^\s({`][^({`]*$)",
    re.IGNORECASE,
)
"""Imports, and settings without a call: they read no variable that they do not name, and no block
begins or ends with them."""
_LOCAL = re.compile(r"\s*\.(?:subckt|ends|control|endc|lib|if|else|alter)", re.IGNORECASE)
"""What begins or ends a part of a file without order in which a name may be another variable."""
_WITHOUT_ORDER = frozenset({"spice"})
"""Languages in which the last value of a name counts for uses before it, too."""
_FOR_ONE_COMMAND = re.compile(r"\s*\w+=[^\s\"'`(;&|]*\s+[^#;&|\s]")
"""Matches ``n=1 ./program``, which sets a variable of a shell for this command alone."""


def _sets_again(file: Annotated, assignment: Assignment, directives: set[int]) -> int | None:
    """Return the line behind the directive that sets its target again before anything reads it.

    Only settings and imports may stand between them: a call or a command may read the target, and
    what begins or ends a block may let the program pass by that line.
    """
    lines, indent = file.source.lines, len(assignment.line.indent)
    used = re.compile(rf"(?<!\w){re.escape(assignment.target)}(?!\w)")
    has_order = file.dialect.name not in _WITHOUT_ORDER
    is_next = True
    for number in range(assignment.line.last + 1, len(lines)):
        text = lines[number]
        if number in directives or not text.strip():
            continue
        depth = len(text) - len(text.lstrip())
        if (is_next or depth == indent) and _sets(file, assignment, text):
            return number
        is_next = False
        if file.dialect.head.match(text) is not None:
            continue
        if depth < indent or _LOCAL.match(text):
            return None
        if has_order and (used.search(text) or not _is_quiet(file, text)):
            return None
    return None


def _is_quiet(file: Annotated, line: str) -> bool:
    for_one = file.dialect.name == "shell" and _FOR_ONE_COMMAND.match(line)
    return not for_one and _QUIET.match(without_end(line)) is not None


def _sets(file: Annotated, assignment: Assignment, line: str) -> bool:
    """Whether a line gives the target another value, and does not use the one that it has."""
    if file.dialect.name == "shell" and _FOR_ONE_COMMAND.match(line):
        return False
    target = re.escape(assignment.target)
    name = rf"[$]?(?<!\w){target}(?!\w)"
    match = re.match(
        rf"\s*(?:(?:\w[\w ]*[ \t*&])?{name}\s*(?:=(?![=~])|:=|<-)|{name}\s*:(?![:=]))",
        without_end(line),
    ) or _as_written(file, assignment).match(line)
    return match is not None and not re.search(rf"(?<!\w){target}(?!\w)", line[match.end() :])


def _as_written(file: Annotated, assignment: Assignment) -> re.Pattern[str]:
    """Matches the beginning of a line such as the directive writes: ``.param c =``."""
    words = re.findall(r"\w+|[^\w\s]", file.dialect.around(assignment.target)[0])
    text = re.escape(words[0]) if words else "(?!)"
    for before, word in pairwise(words):
        is_name = before[-1].isalnum() and word[0].isalnum()
        text += (r"\s+" if is_name else r"\s*") + re.escape(word)
    return re.compile(rf"\s*{text}(?![\w=])" if text[-1:].isalnum() else rf"\s*{text}(?!=)")


def unlike(application: Application) -> Iterator[Diagnostic]:
    """Warn of an ASSIGN in a file of an unknown kind that sets its variables in another way."""
    for file in application.files:
        if file.dialect is not UNKNOWN:
            continue
        directives = {n for line in file.lines for n in range(line.first, line.last + 1)}
        for assignment in file.assignments:
            target = re.escape(assignment.target)
            lines = [
                (number, text.strip())
                for number, text in enumerate(file.source.lines, 1)
                if number - 1 not in directives and re.search(rf"(?<!\w){target}(?!\w)", text)
            ]
            assignment_pattern = re.compile(rf"{target}\s*=(?!=)(?!.*[;$]$)")
            if not lines or any(assignment_pattern.match(text) for _, text in lines):
                continue
            number, text = lines[0]
            body = assignment.line.body
            written_line = (
                file.dialect.assign(assignment.target, "...").removesuffix("...").rstrip()
            )
            yield warning(
                f'line {number} has "{text[:60]}", and the directive writes a line '
                f'"{written_line} ..."',
                body.place(0, len(body.text)),
                "if the file does not read such a line, replace the present value instead: ZEN$ "
                "SUBSTITUTE",
            )


_WORD_OF_TEXT = re.compile(r"(?=.*[^\W\d])[\w./+-][\w./+ -]*")
"""A text that is no call, formula or quoted text; but it may be the name of a variable."""
_CODE_WORD = re.compile(r"[^\W\d]\w*")
_LITERALS = frozenset({"none", "null", "nil", "nullptr", "true", "false", "inf", "nan"})
_CLOSING = {"[": "]", "(": ")", "{": "}"}
_MOST_QUOTED = 4
"""Elements that a hint writes with their quotes."""


def unquoted(application: Application) -> Iterator[Diagnostic]:
    """Warn of an ASSIGN of bare words to a variable that holds a quoted text, or a list of some."""
    parameters = {parameter.name: parameter for parameter in application.space.parameters}
    for file in application.files:
        # A word of a shell or a makefile needs no quotes, and gets those that it needs.
        is_code = file.dialect.quote is to_the_letter and file.dialect.verbatim
        if not is_code or file.dialect.name in SETTINGS:
            continue
        for assignment in file.assignments:
            parameter = parameters.get(assignment.parameter)
            texts = listed_texts(parameter) if parameter is not None else ()
            words = [text for text in texts if _WORD_OF_TEXT.fullmatch(text)]
            if words and (number := _quoted_line(file, assignment)) is not None:
                variables = _code_words(file)
                bare_words = [word for word in words if not _may_be_code(word, variables)]
                if bare_words:
                    yield _unquoted(file, assignment, texts, bare_words[0], number)


def _quoted_line(file: Annotated, assignment: Assignment) -> int | None:
    """Return the nearest line above, or else below, in which the target is a text in quotes."""
    pattern, lines = _quoted_text(assignment), file.source.lines
    above = range(assignment.line.first - 1, -1, -1)
    below = range(assignment.line.last + 1, len(lines))
    return next((number for number in (*above, *below) if pattern.search(lines[number])), None)


def _quoted_text(assignment: Assignment) -> re.Pattern[str]:
    """Matches ``move: str = "``, ``char *move[] = {"``; the bracket and the quote are groups."""
    target = re.escape(assignment.target)
    return re.compile(
        rf"(?<!\w){target}(?!\w)[^=\n\"']*(?::=|=(?!=)|<-)\s*((?:c\(|[\[({{])\s*)?([\"'])"
    )


def _code_words(file: Annotated) -> set[str]:
    """Return the names in a file, outside of its strings, comments and directives."""
    text = file.source.text or ""
    spans = SyntaxSpans(text, file.dialect)
    return {m[0] for m in _CODE_WORD.finditer(text) if spans.at(m.start()) is None}


def _may_be_code(word: str, variables: set[str]) -> bool:
    """Whether the language may know the word: a variable of the file, or a literal such as None."""
    return _is_literal(word) or any(m[0] in variables for m in _CODE_WORD.finditer(word))


def _is_literal(word: str) -> bool:
    return bool(_PLAIN_NUMBER.fullmatch(word)) or word.lower() in _LITERALS


def _unquoted(
    file: Annotated, assignment: Assignment, texts: Sequence[str], bare_word: str, number: int
) -> Diagnostic:
    quoted = _quoted_text(assignment).search(file.source.lines[number])
    assert quoted is not None, "the line was found by this pattern"
    opening, quote = (quoted[1] or "").strip(), quoted[2]
    closing = _CLOSING[opening[-1]] if opening else ""
    around = "'" if quote == '"' else '"'
    # One of the words is surely a text: then the others are, too, though the file has their names.
    elements = [
        f"{around}{opening}{quote}{text}{quote}{closing}{around}"
        if _WORD_OF_TEXT.fullmatch(text) and not _is_literal(text)
        else f"{around}{text}{around}"
        if quote in text
        else text
        for text in texts
    ]
    set_text = ", ".join(elements[:_MOST_QUOTED]) + (", ..." if len(texts) > _MOST_QUOTED else "")
    line = file.dialect.assign(assignment.target, bare_word)
    message = (
        f"this writes {line}, but line {number + 1} has a list of quoted texts"
        if opening
        else f"this writes {line}, without the quotes that line {number + 1} has"
    )
    missing_marks = "lists" if opening else "the quotes"
    hint = f"write {missing_marks} in the set: ASSIGN {assignment.target} = {{ {set_text} }}"
    body = assignment.line.body
    return warning(message, body.place(0, len(body.text)), hint)


# What directives say

_BRACES = re.compile(r"(?<![\${])\{([^\W\d]\w*)\}")
_VARIABLE = re.compile(r"\$\{?([^\W\d]\w*)\}?")
# Comments that something reads all the same: a batch system, a compiler, the kernel.
_ACTIVE_COMMENT = re.compile(
    r"#(?:SBATCH|PBS|BSUB|OAR|MSUB|COBALT|PJM|flux:|\$|!|pragma)|!(?:\$|dir\$|dec\$)|[cC]\$|//(?:go:|#|@)",
    re.IGNORECASE,
)
_SHELL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def no_run(application: Application) -> Iterator[Diagnostic]:
    """Without RUN there is nothing to do."""
    if not application.runs:
        message = f"{application.name}: there is no RUN directive, so zen run has nothing to run"
        yield warning(message, None, 'write ZEN$ RUN "./program"')


def regions_left(application: Application) -> Iterator[Diagnostic]:
    """Warn of a region that a RETURN leaves, in a language that cannot tell when."""
    yield from unguarded(application.files)


def comments_only(application: Application) -> Iterator[Diagnostic]:
    """Warn of a SUBSTITUTE that changes nothing but comments."""
    in_code: dict[Place, bool] = {}
    targets: dict[Place, str] = {}
    for file in application.files:
        if not file.holes or not (file.dialect.line or file.dialect.block):
            continue
        spans = SyntaxSpans(file.source.text or "", file.dialect)
        for occurrence in occurrences(file):
            span = spans.at(occurrence.start)
            place = occurrence.hole.place
            targets[place] = occurrence.hole.target
            idle = (
                span
                and span.comment
                and not _ACTIVE_COMMENT.match(file.source.text or "", span.start)
            )
            in_code[place] = in_code.get(place, False) or not idle
    for place, code in in_code.items():
        if not code:
            message = (
                f"{targets[place]} occurs only in comments: the program is the same for every value"
            )
            yield warning(message, place, "check the target's spelling and its scope")


def names_in_commands(application: Application) -> Iterator[Diagnostic]:
    """Warn of ``{word}`` that is nearly a parameter, and ``$word`` that the shell does not know."""
    parameters = {parameter.name for parameter in application.space.parameters}
    parameters |= {application.repeat.seed} if application.repeat.seed else set()
    for command in (*application.builds, *application.runs):
        yield from _near_names(command, parameters)
        yield from _shell_names(command, parameters - set(application.environment))


def _near_names(command: Command, parameters: set[str]) -> Iterator[Diagnostic]:
    for match in _BRACES.finditer(command.text.text):
        # Only near names: braces are the shell's own, too, as in {a,b}.
        close_names = get_close_matches(match[1], parameters, n=1, cutoff=0.7)
        if match[1] not in parameters and close_names:
            message = f"{match[0]} is not a parameter, so it is not replaced"
            place = command.text.place(match.start(), match.end())
            yield warning(message, place, f"did you mean {{{close_names[0]}}}?")


def _shell_names(command: Command, parameters: set[str]) -> Iterator[Diagnostic]:
    assigned = set(re.findall(r"\b(\w+)=|\bfor (\w+) in|\bread (\w+)", command.text.text))
    shell_names = {name for names in assigned for name in names}
    for match in _VARIABLE.finditer(command.text.text):
        if match[1] in parameters and match[1] not in shell_names:
            message = f"{match[0]} is a variable of the shell, not the parameter {match[1]}"
            place = command.text.place(match.start(), match.end())
            hint = f"write {{{match[1]}}}, or set the variable: ENV {match[1]} = …"
            yield warning(message, place, hint)


def linked_files(application: Application) -> Iterator[Diagnostic]:
    """Commands that take a symbolic link for what it is, beside files that may be such links."""
    large = [file for file in application.copied if file.size > LARGE_FILE_BYTES]
    if not large:
        return
    first = large[0]
    others = f", and {amount(len(large) - 1, 'more file')}" if len(large) > 1 else ""
    for command in (*application.builds, *application.runs):
        for match in _TAKES_LINKS.finditer(command.text.text):
            program = next(name for name, text in match.groupdict().items() if text)
            message = (
                f"{program} takes a symbolic link for what it is, and {first.path}"
                f" ({human_size(first.size)}{others}) may be one in the folders of experiments"
            )
            hint = f"write {_FOLLOWING[program]}, or copy the file first: cp {first.path} COPY"
            yield warning(message, command.text.place(match.start(), match.end()), hint)


def environment(application: Application) -> Iterator[Diagnostic]:
    """Variables that a shell cannot name."""
    places = {parameter.name: parameter.place for parameter in application.space.parameters}
    for name, parameter in application.environment.items():
        if not _SHELL_NAME.fullmatch(name):
            message = f"shells cannot read a variable with the name {name}"
            yield warning(
                message, places.get(parameter), "use letters, digits and _, and no digit first"
            )


def objectives(application: Application) -> Iterator[Diagnostic]:
    """Scores that may be missing, or that no measurement changes."""
    metrics = {metric.name: metric for metric in application.metrics}
    for goal in application.goals:
        names = goal.expression.names
        place = _passage_place(goal.expression.passage)
        for name in sorted(names):
            if name in goal.expression.optional_names:
                continue
            if name in metrics and metrics[name].optional:
                message = f"{name} is OPTIONAL: an experiment without it has no score"
                hint = f"write coalesce({name}, NUMBER) for such a case, or remove OPTIONAL"
                if metrics[name].observed:
                    message = (
                        f"{name} is NULL on machines that cannot count it: experiments have no "
                        "score there"
                    )
                    hint = "zen places check NAME shows what a place can measure"
                yield warning(message, place, hint)
        if names <= {parameter.name for parameter in application.space.parameters}:
            message = "this objective depends on no metric: its value is known before anything runs"
            yield warning(message, place, "name a metric, such as wtime")


def verification(application: Application) -> Iterator[Diagnostic]:
    """Warn of an objective that is a time, where nothing says that the results are right."""
    if application.verifications:
        return
    for goal in application.goals:
        if goal.direction == "minimize" and goal.expression.names & {"wtime", "ctime"}:
            message = "the fastest point may compute wrong results: no VERIFY checks them"
            hint = 'write VERIFY error <= 1e-6, or a command that compares: VERIFY "./compare"'
            yield warning(message, _passage_place(goal.expression.passage), hint)


def unnamed_formula(application: Application) -> Iterator[Diagnostic]:
    """Warn of an objective that is a formula: it is no column of results and charts."""
    for goal in application.goals:
        formula = goal.expression.text
        if not isinstance(goal.expression.node, Name):
            yield warning(
                f"the objective {formula} is a formula: results and charts have no column for it",
                _passage_place(goal.expression.passage),
                f"write METRIC cost := {formula} and OBJECTIVE {goal.direction.upper()} cost, with"
                " a name of your choice",
            )


_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS",
            "NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "RAYON_NUM_THREADS")  # fmt: skip
"""Variables that say how many threads a library starts."""


def threads(application: Application) -> Iterator[Diagnostic]:
    """Warn of a variable that sets more threads than the CPUS of the commands.

    An experiment without CPUS takes one slot, so several of them at a time share the cores.
    """
    commands = (*application.runs, *application.builds)
    declared = [command.cpus for command in commands if command.cpus is not None]
    if not application.runs or any(cpus.names for cpus in declared):
        return
    counts = [cpus.value({}) for cpus in declared]
    slots = int(max((n for n in counts if isinstance(n, int | float)), default=1))
    domains = {p.name: p.domain for p in application.space.dimensions}
    for variable, value in _thread_counts(application):
        domain = domains.get(value)
        if domain is None:
            thread_count = int(value) if value.isdecimal() else 0
        elif isinstance(domain, Continuous | Dependent) or domain.type != "int":
            continue
        else:
            numbers = (domain.value(at) for at in range(min(domain.size, _MOST_NUMBERS)))
            thread_count = max((number for number in numbers if isinstance(number, int)), default=0)
        if thread_count > slots:
            slots_taken = amount(slots, "slot") if declared else "one slot"
            message = f"each experiment takes {slots_taken}, and {variable} is up to {thread_count}"
            hint = (
                f"write RUN ... CPUS {value}, so that simultaneous experiments do not share cores"
            )
            yield warning(message, _passage_place(application.runs[0].text), hint)
            return


def _thread_counts(application: Application) -> Iterator[tuple[str, str]]:
    """Yield the variables of `_THREADS` that are set, each with a parameter's name or a number."""
    for variable in _THREADS:
        if (name := application.environment.get(variable)) is not None:
            yield variable, name
    assignment = re.compile(rf"\b({'|'.join(_THREADS)})=(?:\{{(\w+)\}}|(\d+))(?![\w{{])")
    for command in application.runs:
        for match in assignment.finditer(command.text.text):
            yield match[1], match[2] or match[3]


_MOST_NUMBERS = 1000
"""Elements of a set that are looked at."""


def baselines(application: Application) -> Iterator[Diagnostic]:
    """Warn of a VERIFY SAME whose baseline is not known, or is the point itself."""
    for same_file in application.same_files:
        # Most studies compare no files.
        from zenturio.annotate.parameters import own_values  # noqa: PLC0415 - see above

        place = same_file.path.place(0, len(same_file.path.text))
        values = own_values(application)
        names = [parameter.name for parameter in application.space.dimensions]
        if names and not values and not same_file.where:
            message = (
                "each point is compared with itself, because no file contains a value of "
                f"{names[0]}"
            )
            yield warning(message, place, f"name the baseline: AS BASELINE WHERE {names[0]} == ...")
        for name, value in values.items():
            if value is None and name not in same_file.where:
                message = f"no value of {name} in the files is an element of its set"
                hint = f"name the baseline: AS BASELINE WHERE {name} == ..."
                yield warning(message, place, hint)


def exactness(application: Application) -> Iterator[Diagnostic]:
    """Warn of a metric declared EXACT that is computed from metrics that differ in each run."""
    for metric in application.metrics:
        if metric.exact and metric.formula is not None:
            for name in sorted(metric.formula.names & MEASURED.keys() - {"exit"}):
                message = f"{metric.name} is declared EXACT, but {name} differs by machine"
                yield warning(message, metric.place, "remove EXACT")


def patterns(application: Application) -> Iterator[Diagnostic]:
    """Warn of a regular expression with several groups, of which one is taken."""
    for metric in application.metrics:
        if metric.regex is None:
            continue
        try:
            pattern = check_pattern(Passage.of(metric.regex))
        except InputError:  # a pattern that a Python program put in
            continue
        if pattern.groups > 1 and metric.name not in pattern.groupindex:
            message = f"the pattern of {metric.name} has {pattern.groups} groups; "
            hint = f"write (?:…) for the others, or (?P<{metric.name}>…) for the one to use"
            yield warning(message + "the first one is used", metric.place, hint)


def _passage_place(passage: Passage) -> Place:
    return passage.place(0, len(passage.text))


RULES: tuple[Rule, ...] = (
    no_run,
    comments_only,
    names_in_commands,
    linked_files,
    environment,
    objectives,
    exactness,
    baselines,
    threads,
    patterns,
    unused,
    unused_seed,
    elements,
    constraints,
    texts_outside,
    size,
    fits,
    regions_left,
    strings,
    repeated_numbers,
    blanks,
    overwritten,
    unlike,
    unquoted,
    refused_settings,
    settings_values,
    left_beside,
    ignored,
    environments,
    cmake_caches,
    future,
)
SUGGESTIONS: tuple[Rule, ...] = (verification, unnamed_formula)
