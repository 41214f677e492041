"""The definition of a study for the repository: parameters, metrics and objectives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from zenturio.annotate.model import MEASURED, Application, ApplicationPaths, Metric, Repeat
from zenturio.errors import NotFoundError
from zenturio.experiment.aggregates import UNTIL
from zenturio.experiment.identity import FORMAT, recall_versions
from zenturio.experiment.provenance import provenance
from zenturio.expression import Type
from zenturio.record import SEED_KIND, SPACES, Field, Repository, StudyDefinition, StudyInfo
from zenturio.record.entities import ALWAYS
from zenturio.space import Parameter, Space
from zenturio.space.space import fingerprint

PROGRAM = "program"
"""The note that says which program a study is of: a digest of each of its parts."""
DIGESTS = "digests"
"""The note of the format of its digests; absent from definitions of format 1."""
METRICS = "metrics"
"""The note that says how each declared metric is found, by its name."""
FORMER_PROGRAM = "former program"
"""The note with the program as format 1 had it, where that is another one: with links followed."""
FUNCTION = "function"
"""The note with the text of a Python function, which its study calls."""
SPACE = "space"
"""The note with the space of the last run of a Python function, as JSON."""
VERSIONS = "versions"
"""The note that holds what the commands of USE VERSION printed."""


@dataclass(frozen=True, slots=True)
class ArchivedVersion:
    """A study of another version of the program: what it is called now, and what changed since."""

    name: str
    changes: tuple[str, ...]
    elsewhere: str = ""
    """The folder that contains it, if it is another one: it may be another program altogether."""


def open_version(
    repository: Repository,
    study: str,
    definition: StudyDefinition,
    before: Mapping[str, Any] | None = None,
) -> ArchivedVersion | None:
    """Open *study*; if another version of its program was run under the name, that is archived.

    So the results of two programs never stand in one table. *before*: its notes, where they were
    read.
    """
    archived = _archived(repository, study, definition.notes, before)
    repository.open(study, definition)
    if archived is not None:
        changes = ", ".join(archived.changes)
        repository.add_event(
            study, "version", f"{changes}; the earlier results are in study {archived.name}"
        )
    return archived


def foresee_version(
    repository: Repository, study: str, notes: Mapping[str, Any]
) -> ArchivedVersion | None:
    """Return what ``open_version`` would archive; nothing is changed."""
    other = _other_version(repository, study, notes)
    return other and replace(other[1], name=f"{study}@{other[0].version}")


def _archived(
    repository: Repository,
    name: str,
    notes: Mapping[str, Any],
    before: Mapping[str, Any] | None,
) -> ArchivedVersion | None:
    other = _other_version(repository, name, notes, before)
    archived = other and repository.archive(other[0])
    return replace(other[1], name=archived.name) if other and archived else None


def _other_version(
    repository: Repository,
    name: str,
    notes: Mapping[str, Any],
    before: Mapping[str, Any] | None = None,
) -> tuple[StudyInfo, ArchivedVersion] | None:
    """The study *name* and what changed since, if it is of another version of the program."""
    if before is not None and (not before or _is_current(before, notes)):
        return None  # there is no such study, or it goes on
    try:
        info = repository.study(name)
        before = before or repository.definition(name).notes
    except NotFoundError:
        return None
    if _is_current(before, notes):
        return None
    root = before.get("root")
    elsewhere = root if root and notes.get("root") not in (None, root) else ""
    return info, ArchivedVersion(name, changes_of(before[PROGRAM], notes[PROGRAM]), elsewhere)


def _is_current(before: Mapping[str, Any], notes: Mapping[str, Any]) -> bool:
    """Whether a study with the notes *before* is of the program of *notes*, or of none known."""
    return before.get(PROGRAM) is None or is_same_program(before, notes)


def with_recorded_versions(
    application: Application, repository: Repository, study: str
) -> Application:
    """*application* with the answers of its version commands as *study* recorded them last."""
    if not any(use.kind == "version" for use in application.uses):
        return application
    versions = repository.notes(study).get(VERSIONS, {})
    return recall_versions(application, versions)


ONCE = Repeat()


def spaces_of(
    before: Mapping[str, Any], notes: Mapping[str, Any], space: Space, repeat: Repeat = ONCE
) -> list[str]:
    """Return the fingerprints of all spaces that a study was run with, *space* included.

    *before* are its notes. A study of another program, which is archived, does not
    count. Other runs of a point make another fingerprint: its experiments differ, too.
    """
    numbers = repeat.numbers
    name = fingerprint(space)
    if numbers != ONCE.numbers:
        name = f"{name}:{numbers.start}:{numbers.stop - 1}"
    if not before or not is_same_program(before, notes):
        return [name]
    return sorted({*before.get(SPACES, ["unknown"]), name})


def is_same_program(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether the notes of two definitions name the same program, whatever format they are of."""
    program = now[PROGRAM]
    if DIGESTS not in before:
        program = now.get(FORMER_PROGRAM, program)
    return bool(before.get(PROGRAM) == program)


def changes_of(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """Return what is new, gone or changed in *after*, by the digests of a program's parts."""
    words = [f"{part} is new" for part in after if part not in before]
    words += [f"{part} is gone" for part in before if part not in after]
    words += [f"{part} changed" for part in after if before.get(part, after[part]) != after[part]]
    return tuple(words)


def define_study(
    application: Application,
    experiments: int,
    program: Mapping[str, str],
    former_program: Mapping[str, str] | None = None,
) -> StudyDefinition:
    """Return the definition of the study of *application*: so many *experiments* of one program."""
    notes = {**_notes(application), "experiments": experiments, PROGRAM: dict(program)}
    metrics = tuple(metric_fields(application.metrics))
    notes[METRICS] = {field.name: field.how for field in metrics}
    if former_program not in (None, program):
        notes[FORMER_PROGRAM] = dict(former_program or {})
    return StudyDefinition(
        parameters=fields_of(application.space, application.repeat),
        metrics=(*measured_fields(), *metrics),
        goals=tuple(
            {"direction": goal.direction, "expression": goal.expression.text}
            for goal in application.goals
        ),
        provenance=provenance(application.root),
        sources=_sources(application),
        notes={**notes, DIGESTS: FORMAT},
    )


def new_metric_notes(study: str, notes: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    """Say which metrics of *notes* are new or found in another way than by the notes *before*.

    Cached results lack these values. Nothing is known of studies that were run before this was
    noted.
    """
    found, found_before = notes.get(METRICS, {}), before.get(METRICS)
    if found_before is None:
        return []
    remarks = []
    if new := [name for name in found if name not in found_before]:
        verb, noun = ("is", "it") if len(new) == 1 else ("are", "them")
        remarks.append(
            f"{', '.join(new)} {verb} new: cached results have no value of {noun}; zen extract"
            f" {study} finds {noun} in the recorded output"
        )
    if changed := [name for name, how in found.items() if found_before.get(name, how) != how]:
        noun = "the definition" if len(changed) == 1 else "the definitions"
        remarks.append(
            f"{noun} of {', '.join(changed)} changed: cached results still have the earlier values;"
            f" zen extract {study} replaces them"
        )
    return remarks


def _sources(application: Application) -> dict[str, bytes]:
    """Return the files that hold directives, or that they fill."""
    filled = {
        file.path: file.source.content for file in application.files if file.lines or file.holes
    }
    return filled | {path: source.content for path, source in application.sides}


def fields_of(space: Space, repeat: Repeat) -> tuple[Field, ...]:
    """Return the parameters of *space* as columns; behind them the seed, which is no dimension."""
    types: dict[str, Type | None] = {p.name: p.domain.type for p in space.dimensions if p.domain}
    fields = []
    for parameter in space.parameters:
        if parameter.derived is not None:
            types[parameter.name] = parameter.derived.check(types)
        fields.append(_parameter(parameter, types[parameter.name]))
    if repeat.seed is not None:
        fields.append(
            Field(repeat.seed, repeat.seeds.type if repeat.seeds else "int", kind=SEED_KIND)
        )
    return tuple(fields)


def measured_fields() -> tuple[Field, ...]:
    """Return the metrics that every experiment has."""
    return tuple(Field(name, None, unit, how=ALWAYS) for name, unit in MEASURED.items())


def _parameter(parameter: Parameter, kind: Type | None) -> Field:
    return Field(parameter.name, kind, parameter.unit, parameter.kind)


def metric_fields(metrics: Sequence[Metric]) -> Iterator[Field]:
    """Yield the declared metrics as columns."""
    exact = exact_metrics(metrics)
    for metric in metrics:
        yield Field(
            metric.name, None, metric.unit, how=extraction_of(metric), exact=metric.name in exact
        )


def exact_metrics(metrics: Iterable[Metric]) -> frozenset[str]:
    """Return metrics declared EXACT, and those computed from exact metrics and parameters only."""
    by_name = {metric.name: metric for metric in metrics}
    inexact = {*MEASURED, *(m.name for m in by_name.values() if not m.exact and not m.formula)}
    size = 0
    while size < len(inexact):
        size = len(inexact)
        inexact |= {
            metric.name
            for metric in by_name.values()
            if metric.formula and not metric.exact and metric.formula.names & inexact
        }
    return frozenset(by_name.keys() - inexact)


def extraction_of(metric: Metric) -> str:
    """Return what measures *metric*, in words that are the same for the same way."""
    if metric.formula is not None:
        return f":= {metric.formula.text}"
    if metric.observed:
        return f"OBSERVE {metric.observed}"
    kinds = {"REGEX": metric.regex, "JSON": metric.json, "CSV COLUMN": metric.column}
    extractions = [f'{kind} "{text}"' for kind, text in kinds.items() if text is not None]
    extractions += ["SIZE"] if metric.size else []
    extractions += [f"WHERE {metric.rows.text}"] if metric.rows is not None else []
    signs = {"THOUSANDS": metric.thousands, "DECIMAL": metric.decimal}
    extractions += [f'{keyword} "{sign}"' for keyword, sign in signs.items() if sign]
    return " ".join(["FROM", metric.source, *extractions, "TAKE", metric.take.upper()])


def _notes(application: Application) -> Mapping[str, Any]:
    origin = application.origin or ApplicationPaths(application.root.absolute(), application.paths)
    return {
        "root": str(origin.root),
        "paths": [str(path) for path in origin.paths],
        "overrides": list(application.overrides),
        "repeat": application.repeat.count,
        "constraints": [constraint.text for constraint in application.space.constraints],
        "runs": [command.text.text for command in application.runs],
        "builds": [command.text.text for command in application.builds],
        "outputs": list(application.outputs),
        **({VERSIONS: dict(application.versions)} if application.versions else {}),
        **repeat_facts(application.repeat),
    }


def repeat_facts(repeat: Repeat) -> Mapping[str, Any]:
    """Return what a REPEAT says besides its number, as JSON has it."""
    notes: dict[str, Any] = {"warmup": repeat.warmup} if repeat.warmup else {}
    if repeat.until is not None:
        until = repeat.until
        notes[UNTIL] = {"metric": until.metric.text, "within": until.within, "least": until.least}
    return notes


# Names that go on meaning the same study after its program was edited
#
# When the program of ``training`` changes, what was measured before goes on as ``training@1``, and
# ``training`` is the new program's. Each version has its number from the beginning: an address that
# says ``training@1`` today finds the same experiments then.


def pinned_name(repository: Repository, study: str) -> str:
    """Return the name under which this version of *study* will always be found."""
    try:
        info = repository.study(study)
    except NotFoundError:
        return study
    return study if base_of(study) is not None else f"{info.name}@{info.version}"


def resolve_name(repository: Repository, name: str) -> str:
    """Return the study that is called *name* now, or was pinned so while it was the present one."""
    try:
        return repository.study(name).name
    except NotFoundError:
        return name


def is_version(name: str, study: str) -> bool:
    """Return whether *name* is *study*, or what it was before its program was edited."""
    return name == study or base_of(name) == study


def base_of(name: str) -> str | None:
    """Return the study of which ``NAME@NUMBER`` is a version; None of any other name."""
    base, sign, number = name.rpartition("@")
    return base if sign and base and number.isascii() and number.isdigit() else None
