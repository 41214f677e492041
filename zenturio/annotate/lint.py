"""Warnings about directives that are valid but probably mistakes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches

from zenturio.annotate.hole_search import occurrences
from zenturio.annotate.lint_files import environments, future, ignored
from zenturio.annotate.lint_fill import blanks, fits, overwritten, strings
from zenturio.annotate.lint_space import constraints, elements, size, unused
from zenturio.annotate.model import MEASURED, Application, Command
from zenturio.annotate.region_probes import unguarded
from zenturio.annotate.regular_expressions import check_pattern
from zenturio.annotate.spans import Spans
from zenturio.errors import Diagnostic, InputError, Passage, Place

_BRACES = re.compile(r"(?<![\${])\{([^\W\d]\w*)\}")
_VARIABLE = re.compile(r"\$\{?([^\W\d]\w*)\}?")
# Comments that something reads all the same: a batch system, a compiler, the kernel.
_READ = re.compile(
    r"#(?:SBATCH|PBS|BSUB|OAR|MSUB|COBALT|PJM|flux:|\$|!|pragma)|!(?:\$|dir\$|dec\$)|[cC]\$|//(?:go:|#|@)",
    re.IGNORECASE,
)
_SHELL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)

Rule = Callable[[Application], Iterable[Diagnostic]]


def lint(application: Application) -> tuple[Diagnostic, ...]:
    """Warnings about what is likely not meant, in the order of their places."""
    found = {diagnostic for rule in RULES for diagnostic in rule(application)}
    return tuple(sorted(found, key=_order))


def _order(diagnostic: Diagnostic) -> tuple[str, int, int, str]:
    place = diagnostic.place or Place("", 0, 0)
    return place.file, place.line, place.column, diagnostic.message


def warning(message: str, place: Place | None, hint: str) -> Diagnostic:
    return Diagnostic(message, place, hint, severity="warning")


def no_run(application: Application) -> Iterator[Diagnostic]:
    """Without RUN there is nothing to do."""
    if not application.runs:
        message = f"{application.name}: there is no RUN, so nothing would be run"
        yield warning(message, None, 'write ZEN$ RUN "./program"')


def regions_left(application: Application) -> Iterator[Diagnostic]:
    """A region that a RETURN leaves, in a language that cannot tell when."""
    yield from unguarded(application.files)


def comments_only(application: Application) -> Iterator[Diagnostic]:
    """A SUBSTITUTE that changes nothing but comments."""
    in_code: dict[Place, bool] = {}
    targets: dict[Place, str] = {}
    for file in application.files:
        if not file.holes or not (file.dialect.line or file.dialect.block):
            continue
        spans = Spans(file.source.text or "", file.dialect)
        for occurrence in occurrences(file):
            span = spans.at(occurrence.start)
            place = occurrence.hole.place
            targets[place] = occurrence.hole.target
            idle = span and span.comment and not _READ.match(file.source.text or "", span.start)
            in_code[place] = in_code.get(place, False) or not idle
    for place, code in in_code.items():
        if not code:
            message = f"{targets[place]} stands in comments only: every value runs the same program"
            yield warning(message, place, "check the target's spelling and its scope")


def names_in_commands(application: Application) -> Iterator[Diagnostic]:
    """``{word}`` that is nearly a parameter, and ``$word`` that the shell does not know."""
    known = {parameter.name for parameter in application.space.parameters}
    known |= {application.repeat.seed} if application.repeat.seed else set()
    for command in (*application.builds, *application.runs):
        yield from _near_names(command, known)
        yield from _shell_names(command, known - set(application.environment))


def _near_names(command: Command, known: set[str]) -> Iterator[Diagnostic]:
    for found in _BRACES.finditer(command.text.text):
        near = get_close_matches(found[1], known, n=1, cutoff=0.7)
        if found[1] not in known and near:
            message = f"{found[0]} is no parameter, so it stays as it is"
            place = command.text.place(found.start(), found.end())
            yield warning(message, place, f"did you mean {{{near[0]}}}?")


def _shell_names(command: Command, known: set[str]) -> Iterator[Diagnostic]:
    assigned = set(re.findall(r"\b(\w+)=|\bfor (\w+) in|\bread (\w+)", command.text.text))
    own = {name for names in assigned for name in names}
    for found in _VARIABLE.finditer(command.text.text):
        if found[1] in known and found[1] not in own:
            message = f"{found[0]} is a variable of the shell, not the parameter {found[1]}"
            place = command.text.place(found.start(), found.end())
            hint = f"write {{{found[1]}}}, or set the variable: ENV {found[1]} = …"
            yield warning(message, place, hint)


def environment(application: Application) -> Iterator[Diagnostic]:
    """Variables that a shell cannot name."""
    places = {parameter.name: parameter.place for parameter in application.space.parameters}
    for name, parameter in application.environment.items():
        if not _SHELL_NAME.fullmatch(name):
            message = f"no shell can name the variable {name}"
            yield warning(message, places.get(parameter), "letters, digits and _, no digit first")


def objectives(application: Application) -> Iterator[Diagnostic]:
    """Scores that may be missing, or that no measurement changes."""
    metrics = {metric.name: metric for metric in application.metrics}
    for goal in application.goals:
        names = goal.expression.names
        place = _whole(goal.expression.passage)
        for name in sorted(names):
            if name in metrics and metrics[name].optional:
                message = f"{name} is OPTIONAL: an experiment without it has no score"
                yield warning(message, place, "leave OPTIONAL away, or say what NULL scores")
        if names <= {parameter.name for parameter in application.space.parameters}:
            message = "this objective depends on no metric: it is known before anything is run"
            yield warning(message, place, "name what is measured, as wtime")


def exactness(application: Application) -> Iterator[Diagnostic]:
    """A metric declared EXACT that is computed from what each machine measures anew."""
    for metric in application.metrics:
        if metric.exact and metric.formula is not None:
            for name in sorted(metric.formula.names & MEASURED.keys() - {"exit"}):
                message = f"{metric.name} is declared EXACT, but {name} differs by machine"
                yield warning(message, metric.place, "leave EXACT away")


def patterns(application: Application) -> Iterator[Diagnostic]:
    """A regular expression with several groups, of which one is taken."""
    for metric in application.metrics:
        if metric.regex is None:
            continue
        try:
            pattern = check_pattern(Passage.of(metric.regex))
        except InputError:  # a pattern that a Python program put in
            continue
        if pattern.groups > 1 and metric.name not in pattern.groupindex:
            message = f"the pattern of {metric.name} has {pattern.groups} groups; "
            hint = f"write (?:…) for the others, or (?P<{metric.name}>…) for the one that counts"
            yield warning(message + "the first one counts", metric.place, hint)


def _whole(passage: Passage) -> Place:
    return passage.place(0, len(passage.text))


RULES: tuple[Rule, ...] = (
    no_run,
    comments_only,
    names_in_commands,
    environment,
    objectives,
    exactness,
    patterns,
    unused,
    elements,
    constraints,
    size,
    fits,
    regions_left,
    strings,
    blanks,
    overwritten,
    ignored,
    environments,
    future,
)
