"""Scan annotated files, present ones or those that a repository stores, into an application."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TypeVar

from zenturio import trust
from zenturio.annotate.clauses import Diagnostics
from zenturio.annotate.commands import fill_command
from zenturio.annotate.counter_events import counter_event, counter_metric
from zenturio.annotate.dialects import UNKNOWN
from zenturio.annotate.file_selection import find_files
from zenturio.annotate.grammar import FEWEST_REPEATS, KEYWORDS, read
from zenturio.annotate.model import (
    MEASURED,
    After,
    AfterStatement,
    Application,
    BuildStatement,
    ConstraintStatement,
    CopiedFile,
    Declaration,
    ElementSource,
    Goal,
    Metric,
    MetricStatement,
    ObjectiveStatement,
    ObserveStatement,
    OutputStatement,
    RankStatement,
    RegionStatement,
    Repeat,
    RepeatStatement,
    RequireStatement,
    RunStatement,
    Use,
    UseStatement,
    Verification,
    VerifyStatement,
    ZipStatement,
)
from zenturio.annotate.parameters import (
    Declared,
    NameTable,
    Parameters,
    added,
    in_order,
    known_names,
    merge,
    read_overrides,
)
from zenturio.annotate.region_probes import metric_names, unprobed
from zenturio.annotate.set_reader import file_names
from zenturio.annotate.source import FileDigests
from zenturio.annotate.substitution import diagnostics as absent_targets
from zenturio.annotate.targets import (
    AnnotatedFileReader,
    ParsedFile,
    Targets,
    open_copied,
    used_path,
)
from zenturio.errors import (
    AnnotationError,
    Diagnostic,
    InputError,
    Passage,
    Place,
    SafetyError,
    did_you_mean,
)
from zenturio.expression import Expression, Type, parse
from zenturio.space import Space
from zenturio.space.domain import Continuous, Domain
from zenturio.space.parameter import Dependent, Parameter, Zip

# Assembly: from parsed files to an application; everything that concerns several directives


def check_parameters(names: NameTable, dimensions: Mapping[str, Parameter]) -> None:
    """Derived values, conditions and bounds, each behind what it needs."""
    needs = {name: parameter.needs for name, parameter in dimensions.items()}
    places = {name: parameter.place for name, parameter in dimensions.items()}
    order, circular = in_order(needs, places, names.diagnostics)
    for name in order:
        parameter = dimensions[name]
        # Its circle is a diagnostic already; checking it would only repeat that.
        if name in circular:
            continue
        if parameter.derived is not None:
            names.parameters[name] = names.check(parameter.derived, "a derived value")
        if parameter.when is not None:
            names.truth(parameter.when, "WHEN")
        if isinstance(parameter.domain, Dependent):
            for bound in parameter.domain.bounds:
                names.number(bound, "a bound")


def check_formulas(names: NameTable, metrics: Mapping[str, Metric]) -> None:
    formulas: dict[str, Expression] = {
        name: metric.formula for name, metric in metrics.items() if metric.formula is not None
    }
    needs = {name: formula.names for name, formula in formulas.items()}
    places = {name: metrics[name].place for name in formulas}
    order, circular = in_order(needs, places, names.diagnostics)
    for name in order:
        if name not in circular:
            names.metrics[name] = names.check(formulas[name], "a metric", metrics=True)
    for metric in metrics.values():
        if metric.when is not None:
            names.truth(metric.when, "WHEN")


def seed_of(parameter: Parameter, repeated: RepeatStatement) -> Domain:
    """Return the elements of a seed: one whole number to count from, or one for each run."""
    assert repeated.seed is not None, "only a named seed can have elements"
    place = repeated.seed.place(0, len(repeated.seed.text))
    domain = parameter.domain
    if domain is None or isinstance(domain, Continuous | Dependent) or parameter.when is not None:
        raise _wrong(f"{parameter.name} has no fixed elements, so it cannot be a seed", place)
    count = repeated.repeat.count
    if domain.size == 1 and domain.type != "int" and count > 1:
        message = f"the only element of {parameter.name} is {domain.text(0)}, no whole number"
        raise _wrong(message, place)
    if 1 < domain.size < count:
        message = f"{parameter.name} has {domain.size} elements for {count} runs"
        raise _wrong(message, place)
    return domain


def _wrong(message: str, place: Place) -> AnnotationError:
    hint = "write one whole number to count from, such as { 1 }, or an element for each run"
    return AnnotationError(message, place=place, hint=hint)


S = TypeVar("S")


@dataclass
class Assembly:
    """One walk from statements to an application; every step adds its diagnostics."""

    documents: Sequence[ParsedFile]
    copied: Sequence[CopiedFile]
    overrides: Mapping[str, Declaration]
    diagnostics: Diagnostics
    confined: bool = False
    """Whether nothing may be read outside of the root."""

    def statements_of(self, kind: type[S]) -> Iterator[S]:
        """Yield the statements of one kind, file by file, line by line."""
        for document in self.documents:
            for written in document.written:
                if isinstance(written.statement, kind):
                    yield written.statement

    def application(self, name: str, root: Path) -> Application | None:
        """Return the application, if nothing is wrong with it."""
        self.check_files_outside(root)
        parameters = self.parameters()
        repeated = self.once(RepeatStatement, "REPEAT", lambda statement: statement.place)
        repeat, dimensions = self.seed(repeated, parameters)
        targets = self.targets(parameters, repeat)
        metrics = self.metrics(parameters)
        names = self.names(dimensions, metrics, repeat)
        self.check_expressions(names, dimensions, metrics)
        after = self.after(names)
        space = self.space(dimensions, names)
        aim = self.once(ObjectiveStatement, "OBJECTIVE", lambda statement: statement.place)
        rank = self.once(RankStatement, "RANK", lambda statement: statement.place)
        # All steps ran before this: a user sees every mistake at once, not one for each try.
        if space is None or self.diagnostics.errors:
            return None
        return Application(
            name=name,
            root=root,
            files=targets.annotated(),
            space=space,
            copied=targets.remaining(),
            environment=targets.environment,
            builds=tuple(statement.command for statement in self.statements_of(BuildStatement)),
            runs=tuple(statement.command for statement in self.statements_of(RunStatement)),
            metrics=tuple(metrics.values()),
            goals=aim.goals if aim else (),
            verifications=tuple(s.verification for s in self.statements_of(VerifyStatement)),
            repeat=repeat,
            requires=tuple(
                statement.expression for statement in self.statements_of(RequireStatement)
            ),
            rank=rank.expression if rank else None,
            outputs=tuple(
                dict.fromkeys(
                    g for statement in self.statements_of(OutputStatement) for g in statement.globs
                )
            ),
            required=tuple(
                dict.fromkeys(
                    g
                    for e in self.statements_of(OutputStatement)
                    if not e.optional
                    for g in e.globs
                )
            ),
            after=after,
            uses=tuple(self.uses()),
            element_sources=tuple(
                ElementSource(document.base, name.text, is_pattern)
                for document, name, is_pattern in self.element_names()
            ),
        )

    def uses(self) -> Iterator[Use]:
        """Return the declarations of USE, each once."""
        declared: set[tuple[str, str, Path | None]] = set()
        for document in self.documents:
            for written in document.written:
                if not isinstance(written.statement, UseStatement):
                    continue
                kind = written.statement.kind
                for text in written.statement.texts:
                    path = used_path(document, text) if kind == "file" else None
                    if (kind, text.text, path) not in declared:
                        declared.add((kind, text.text, path))
                        yield Use(kind, text.text, text.place(0, len(text.text)), path)

    def parameters(self) -> Parameters:
        declared = (
            Declared(written.statement, document.base)
            for document in self.documents
            for written in document.written
            if isinstance(written.statement, Declaration)
        )
        return merge(declared, self.overrides, self.diagnostics)

    def element_names(self) -> Iterator[tuple[ParsedFile, Passage, bool]]:
        """Yield the files and patterns that sets name, and the file that each stands in."""
        for document in self.documents:
            for written in document.written:
                if isinstance(written.statement, Declaration) and written.statement.elements:
                    for name, is_pattern in file_names(written.statement.elements):
                        yield document, name, is_pattern

    def check_files_outside(self, root: Path) -> None:
        """Warn of files outside of *root* from which elements are taken.

        Their content is shown and written into files, and a program may come from somebody else:
        so SafetyError where the user does not let it read what lies outside of the project, too.
        """
        project = _project_of(root)
        foreign: dict[str, str] = {}
        for document, name, _ in self.element_names():
            path = (document.base / name.text).resolve()
            if path.is_relative_to(root.resolve()):
                continue
            message = f"elements are read from {name.text}, outside of {root}"
            place = name.place(0, len(name.text))
            if self.confined:
                raise SafetyError(message, place=place, hint="copy the file into the folder")
            self.diagnostics.warn(message, place, "run it only if that is intended")
            if not path.is_relative_to(project):
                foreign[f"{place}: elements from a file"] = str(path)
        trust.require_reading(foreign)

    def once(self, kind: type[S], keyword: str, place: Callable[[S], Place]) -> S | None:
        """Return the only statement of its kind; a second one is an error that names the first."""
        first: S | None = None
        for statement in self.statements_of(kind):
            if first is not None:
                message = f"{keyword} is already declared at {place(first)}"
                self.diagnostics.error(message, place(statement), "remove one of them")
            first = first or statement
        return first

    def seed(
        self, repeated: RepeatStatement | None, parameters: Parameters
    ) -> tuple[Repeat, dict[str, Parameter]]:
        """Return how often each point runs, and the parameters that are not its seed."""
        if repeated is None:
            return Repeat(), parameters.by_name
        repeat, name = self.enough(repeated), repeated.repeat.seed
        declared = parameters.by_name.get(name) if name is not None else None
        if declared is not None:
            with self.diagnostics.gather():
                repeat = replace(repeat, seeds=seed_of(declared, repeated))
        return repeat, {k: v for k, v in parameters.by_name.items() if k != name}

    def enough(self, repeated: RepeatStatement) -> Repeat:
        """Return the repeats with at least as many as an interval of the median needs."""
        repeat, until = repeated.repeat, repeated.repeat.until
        if until is None or until.least >= FEWEST_REPEATS:
            return repeat
        message = f"each point must run at least {FEWEST_REPEATS} times, not {until.least}"
        hint = "fewer values give no 95% interval of the median"
        self.diagnostics.warn(message, repeated.place, hint)
        until = replace(until, least=FEWEST_REPEATS)
        return replace(repeat, count=max(repeat.count, FEWEST_REPEATS), until=until)

    def targets(self, parameters: Parameters, repeat: Repeat) -> Targets:
        """Return the replacements; a target that is found nowhere is a diagnostic."""
        files = [document for document in self.documents if document.kind == "file"]
        seed = {repeat.seed} if repeat.seed is not None else set()
        copied = {file.path: file for file in self.copied}
        targets = Targets(files, copied, self.diagnostics, known_names(parameters) | seed)
        for document in self.documents:
            targets.add(document)
        annotated = targets.annotated()
        self.diagnostics.errors += (*absent_targets(annotated), *unprobed(annotated))
        self.check_regions()
        return targets

    def check_regions(self) -> None:
        seen: dict[str, Place] = {}
        for probed in self.statements_of(RegionStatement):
            place = probed.name.place(0, len(probed.name.text))
            if probed.name.text in seen:
                message = f"the region {probed.name.text} is already declared at "
                hint = "rename one of them"
                self.diagnostics.error(message + str(seen[probed.name.text]), place, hint)
            seen.setdefault(probed.name.text, place)

    def metrics(self, parameters: Parameters) -> dict[str, Metric]:
        metrics: dict[str, Metric] = {}
        searched = [measured.metric for measured in self.statements_of(MetricStatement)]
        observed = [
            m for statement in self.statements_of(ObserveStatement) for m in statement.metrics
        ]
        for metric in (*searched, *observed):
            name = metric.name
            if name in metrics:
                message = f"the metric {name} is already declared at {metrics[name].place}"
                hint = "remove one of them" if metric.observed else "rename one of them"
                self.diagnostics.error(message, metric.place, hint)
            metrics.setdefault(name, metric)
        self.add_instructions_per_cycle(metrics, parameters)
        for metric in self.regional():
            self.add_regional(metric, metrics)
        for name, metric in metrics.items():
            if name in known_names(parameters):
                declared = parameters.by_name.get(name)
                where = f" at {declared.place}" if declared else ""
                message = f"{name} is a parameter{where}, so a metric cannot have the same name"
                self.diagnostics.error(message, metric.place, "rename one of them")
        return metrics

    def add_instructions_per_cycle(
        self, metrics: dict[str, Metric], parameters: Parameters
    ) -> None:
        """Add ipc where both of its counters are observed, and nothing else has its name."""
        counters = [metrics.get(name) for name in ("instructions", "cycles")]
        if all(metric is not None and metric.observed for metric in counters):
            place = counters[0].place if counters[0] else None
            if "ipc" not in metrics and "ipc" not in known_names(parameters):
                formula = parse("instructions / cycles")
                metrics["ipc"] = Metric("ipc", optional=True, formula=formula, place=place)

    def regional(self) -> Iterator[Metric]:
        """Yield the metrics that the probes of regions report, each under a name of its own."""
        for probed in self.statements_of(RegionStatement):
            place = probed.name.place(0, len(probed.name.text))
            names = metric_names(probed.name.text, probed.probes)
            for name, probe in zip(names, probed.probes, strict=True):
                yield Metric(name, unit=MEASURED[probe.lower()], place=place)
            for event in probed.counters:
                counted = counter_event(event)
                yield Metric(
                    f"{probed.name.text}_{counter_metric(event)}",
                    unit=counted.unit if counted else "",
                    optional=True,
                    place=place,
                    observed=f"region {event}",
                )
            yield Metric(f"{probed.name.text}_count", optional=True, place=place)

    def add_regional(self, metric: Metric, metrics: dict[str, Metric]) -> None:
        """A METRIC of the same name may say more of it, but not find it somewhere else."""
        declared = metrics.setdefault(metric.name, metric)
        if declared.source or declared.formula is not None:
            message = f"the region's {metric.name} is already declared at {declared.place}"
            self.diagnostics.error(message, metric.place, "rename one of them")

    def names(
        self, dimensions: Mapping[str, Parameter], metrics: Mapping[str, Metric], repeat: Repeat
    ) -> NameTable:
        """What expressions may name, with types that are known without looking at any."""
        declarations = list(self.statements_of(Declaration))
        unlisted = (Continuous, Dependent, type(None))
        names = NameTable(self.diagnostics, seed=repeat.seed)
        # A directive that cannot be read may have declared any of its words: no diagnostic about
        # these.
        words = {word for document in self.documents for word in document.failed}
        names.words = words - {repeat.seed}
        names.declared = {d.name.text for d in declarations if not d.same} - {repeat.seed}
        names.metrics = {name: _TYPES[name] for name in MEASURED} | dict.fromkeys(metrics)
        names.lists = {name for name, metric in metrics.items() if metric.take == "all"}
        called = {d.target.text: (d.same or d.name).text for d in declarations}
        names.renamed = {target: name for target, name in called.items() if target != name}
        for name, parameter in dimensions.items():
            names.parameters[name] = parameter.domain.type if parameter.domain else None
            if isinstance(parameter.domain, unlisted):
                names.unplaced.add(name)
        return names

    def check_expressions(
        self, names: NameTable, dimensions: Mapping[str, Parameter], metrics: Mapping[str, Metric]
    ) -> None:
        check_parameters(names, dimensions)
        check_formulas(names, metrics)
        for keep in self.statements_of(ConstraintStatement):
            names.truth(keep.expression, "a constraint")
        for require in self.statements_of(RequireStatement):
            names.truth(require.expression, "REQUIRE", host=True)
        for rank in self.statements_of(RankStatement):
            names.number(rank.expression, "RANK", host=True)
        for repeated in self.statements_of(RepeatStatement):
            if repeated.repeat.until is not None:
                names.number(repeated.repeat.until.metric, "UNTIL", metrics=True)
        commands = [step.command for step in self.statements_of(BuildStatement)]
        commands += [step.command for step in self.statements_of(RunStatement)]
        verifications = [s.verification for s in self.statements_of(VerifyStatement)]
        commands += [each.command for each in verifications if each.command is not None]
        self.check_baselines(verifications, dimensions)
        for each in verifications:
            if each.expression is not None:
                names.truth(each.expression, "VERIFY", metrics=True)
        names_in_order = dict.fromkeys([*dimensions, *filter(None, [names.seed])], "1")
        for command in commands:
            with self.diagnostics.gather():
                fill_command(command.text, names_in_order)
            if command.cpus is not None:
                names.number(command.cpus, "CPUS")
        for aim in self.statements_of(ObjectiveStatement):
            for goal in aim.goals:
                names.number(goal.expression, "an objective", metrics=True)

    def check_baselines(
        self, verifications: Sequence[Verification], dimensions: Mapping[str, Parameter]
    ) -> None:
        """A baseline is named by parameters that vary."""
        for same in (verification.same for verification in verifications):
            for name in same.where if same is not None else ():
                if name not in dimensions or dimensions[name].derived is not None:
                    assert same is not None, "it has names"
                    place = same.path.place(0, len(same.path.text))
                    hint = did_you_mean(name, dimensions)
                    self.diagnostics.error(f"no parameter is named {name}", place, hint)

    def after(self, names: NameTable) -> tuple[After, ...]:
        programs = []
        for waits in self.statements_of(AfterStatement):
            for program in waits.on:
                if not names.may_be(program.text):
                    place = program.place(0, len(program.text))
                    hint = did_you_mean(program.text, names.parameters)
                    self.diagnostics.error(f"no parameter is named {program.text}", place, hint)
            place = waits.stage.place(0, len(waits.stage.text))
            programs.append(After(waits.stage.text, tuple(name.text for name in waits.on), place))
        return tuple(programs)

    def space(self, dimensions: Mapping[str, Parameter], names: NameTable) -> Space | None:
        """Return the space, if all that it is made of is right."""
        constraints: list[Expression | Zip] = []
        for document in self.documents:
            for written in document.written:
                match written.statement:
                    case ConstraintStatement(expression=expression):
                        constraints.append(expression)
                    case ZipStatement() as together:
                        self.check_together(together, dimensions, names)
                        together_names = tuple(name.text for name in together.names)
                        constraints.append(Zip(together_names, together.place))
                    case _:
                        pass
        # Constraints of a program with mistakes would name what is missing, a second time.
        if not self.diagnostics.errors:
            with self.diagnostics.gather():
                return Space(tuple(dimensions.values()), tuple(constraints))
        return None

    def check_together(
        self, together: ZipStatement, dimensions: Mapping[str, Parameter], names: NameTable
    ) -> None:
        """Names that vary together: declared, listed, each once, and equally many."""
        sizes: dict[str, int] = {}
        before = len(self.diagnostics.errors)
        for name in together.names:
            place, text = name.place(0, len(name.text)), name.text
            if text in sizes:
                self.diagnostics.error(f"{text} stands twice", place, "remove one of them")
            elif text == names.seed:
                message = f"{text} is the seed, not a dimension"
                self.diagnostics.error(message, place, "leave it away")
            elif text in names.unplaced:
                message = f"{text} has no listed elements, so it cannot vary together with others"
                self.diagnostics.error(message, place, "write the condition: CONSTRAINT VALUE …")
            elif text in dimensions:
                domain = dimensions[text].domain
                sizes[text] = domain.size if domain else 0
            elif not names.may_be(text):
                hint = did_you_mean(text, dimensions)
                self.diagnostics.error(f"no parameter is named {text}", place, hint)
            else:
                return
        if len(set(sizes.values())) > 1 and len(self.diagnostics.errors) == before:
            lengths = ", ".join(f"{name} has {size}" for name, size in sizes.items())
            message = f"the sets differ in length: {lengths} elements"
            hint = "give all of them the same number of elements"
            self.diagnostics.error(message, together.place, hint)


# Scans

_TYPES: dict[str, Type] = {"wtime": "real", "ctime": "real", "maxrss": "int", "exit": "int"}


def _project_of(root: Path) -> Path:
    """Return the project that a program in *root* belongs to: its own folder, or one above it."""
    for folder in (root.resolve(), *root.resolve().parents):
        # Only a folder of the user's own: anybody can put a .zenturio into /tmp, and widen the
        # project.
        if (folder / ".zenturio").is_dir() and trust.is_own(folder):
            return folder
    return root.resolve()


def scan(
    paths: Sequence[str | Path] | str | Path,
    *,
    overrides: Sequence[str] = (),
    follow_links: bool = False,
    confined: bool = False,
) -> Application:
    """Return the application of these files and folders; AnnotationError with all diagnostics.

    Each of *overrides*, as ``n = { 1, 2 }``, gives a parameter another set, or adds one. With
    *follow_links* symbolic links are what they lead to. With *confined* it is a SafetyError to take
    elements from a file outside of the folder.
    """
    diagnostics = Diagnostics()
    named = [paths] if isinstance(paths, str | Path) else list(paths)
    if not named:
        raise AnnotationError("no file is named", hint="name an annotated file, or its folder")
    selection = find_files(named, diagnostics, follow_links=follow_links)
    digests = FileDigests(selection.root, sorted(os.path.realpath(path) for path in named))
    reader = AnnotatedFileReader(digests, diagnostics)
    documents = [*reader.files(selection.files), *reader.beside(selection.sides)]
    declared = _declared(documents)
    declared_outputs = [
        member for member in selection.outputs if member.path.absolute() in declared
    ]
    # A file that zenturio wrote is no part of the program, unless a directive declares it.
    documents += reader.files([*declared_outputs])
    digests.save()
    # By name, not by the order of reading: it decides which of two declarations is the first.
    documents.sort(key=lambda document: document.name)
    for document in documents:
        _check_side(document, diagnostics)
    if not diagnostics.errors and not any(document.written for document in documents):
        diagnostics.errors.append(_silent(named, documents, reader.copied))
    overridden = read_overrides(overrides, diagnostics)
    assembly = Assembly(documents, reader.copied, overridden, diagnostics, confined)
    application = assembly.application(selection.name, selection.root)
    diagnostics.close()
    assert application is not None, "what is not an application has diagnostics"
    warnings = (*diagnostics.warnings, *(added(application) if overrides else ()))
    return replace(
        application,
        sides=tuple((d.name, d.source) for d in documents if d.kind != "file"),
        overrides=tuple(overrides),
        paths=tuple(Path(path).absolute() for path in named),
        links=tuple(
            (link.name, link.text) for link in sorted(selection.links, key=lambda x: x.name)
        ),
        folders=tuple(selection.folders),
        left_out=tuple(
            member.name for member in selection.outputs if member not in declared_outputs
        ),
        warnings=warnings,
    )


def scan_following(application: Application) -> Application | None:
    """Return *application* with its links followed, as format 1 of the digests has it.

    None if that is another program: directives behind a link would be read twice.
    """
    has_links = application.links or any("/.bin/" in path for path in application.file_paths)
    if not has_links:
        return application
    try:
        application_following = scan(
            application.paths, overrides=application.overrides, follow_links=True
        )
    except AnnotationError:
        return None
    if _what_it_does(application_following) != _what_it_does(
        application
    ):  # a directive was read through a link
        return None
    return replace(application_following, versions=application.versions)


def _what_it_does(application: Application) -> tuple[object, ...]:
    """Parameters, commands and variables: what directives in a file behind a link add to."""
    return (
        [parameter.name for parameter in application.space.parameters],
        [command.text.text for command in (*application.builds, *application.runs)],
        dict(application.environment),
        application.repeat.count,
    )


def _declared(documents: Iterable[ParsedFile]) -> set[Path]:
    """Return the files that USE FILE names: inputs, whoever wrote them."""
    return {
        used_path(document, text)
        for document in documents
        for written in document.written
        if isinstance(written.statement, UseStatement) and written.statement.kind == "file"
        for text in written.statement.texts
    }


def _check_side(document: ParsedFile, diagnostics: Diagnostics) -> None:
    """A side file is there for its directives: one without any is a mistake."""
    if document.kind == "file" or document.lines:
        return
    texts = enumerate(document.source.lines, 1)
    number, text = next(((n, t.rstrip()) for n, t in texts if t.strip()), (0, ""))
    if number:
        place = Place(str(document.source.path), number, 1, text, len(text))
        hint = f"write ZEN$ {text.strip()}" if text.split()[0].upper() in KEYWORDS else "ZEN$ …"
        diagnostics.error("each directive must begin with ZEN$ in this file, too", place, hint)


def _silent(
    named: Sequence[str | Path], documents: Sequence[ParsedFile], copied: Sequence[CopiedFile]
) -> Diagnostic:
    """Return the diagnostic about files that say nothing."""
    where = ", ".join(map(str, named))
    texts = (d for d in chain(documents, map(open_copied, copied)) if d.source.text is not None)
    first = next(texts, None)
    if first is None:
        hint = "write directives for a file that cannot contain comments into NAME.zen beside it"
        return Diagnostic(f"{where}: there are no directives", hint=hint)
    openers = first.dialect.openers or ("#",)
    opener = next((o for o in ("//", "#", "!") if o in openers), openers[0])
    closer = first.dialect.closers.get(opener, "")
    example = f"{opener} ZEN$ PARAM n = {{ 1, 2, 4 }} {closer}".rstrip()
    hint = f"write {example}"
    if first.dialect is UNKNOWN:
        side = f"{first.source.path}.zen"
        hint += f"; if {opener} begins no comment there, ZEN$ … into {side} beside the file"
    return Diagnostic(f"{where}: there are no directives", hint=hint)


def scan_kept(sources: Mapping[str, bytes], overrides: Sequence[str] = ()) -> Application:
    """Return the application of these files by path; InputError where they make none."""
    if not sources:
        raise InputError("the study has no annotated files")
    with tempfile.TemporaryDirectory(prefix="zenturio-") as name:
        folder = Path(name) / "study"
        for path, content in sources.items():
            write_source(folder, path, content)
        return scan(folder, overrides=overrides)


def write_source(folder: Path, path: str, content: bytes) -> None:
    """Write the file *path* below *folder*; InputError where a database has made up the path."""
    target = folder / path
    try:
        is_inside = target.resolve().is_relative_to(folder.resolve())
        if is_inside:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    except ValueError:  # a NUL in it
        is_inside = False
    except OSError as error:
        if error.errno not in _NO_PATH:
            raise
        is_inside = False
    if not is_inside:
        raise InputError(f"{path[:100]!r} is not a path inside a study")


_NO_PATH = {errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST}


_KEYWORD = "OBJECTIVE "


def read_goals(
    text: str, application: Application, origin: str = "--objective"
) -> tuple[Goal, ...]:
    """Return the goals that ``MINIMIZE expr, MAXIMIZE expr`` says of *application*."""
    metrics = [metric.name for metric in application.metrics]
    parameters = [parameter.name for parameter in application.space.parameters]
    return goals_of(text, [*MEASURED, *metrics, *parameters], origin)


def goals_of(text: str, names: Iterable[str], origin: str = "--objective") -> tuple[Goal, ...]:
    """Return the goals that ``MINIMIZE expr, MAXIMIZE expr`` says of what has these *names*."""
    aim = read(Passage.of(_KEYWORD + text, origin))
    assert isinstance(aim, ObjectiveStatement), "an OBJECTIVE is an aim"
    known_names = dict.fromkeys(names)
    for goal in aim.goals:
        goal.expression.check(known_names)
    return aim.goals
