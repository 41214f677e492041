"""From an application and a point to experiments: one for each repeat, each with its seed.

The program is built once for each distinct set of files that BUILD sees: the digest of a build
covers the files and the build's commands. A build does not get the study's ENV variables, so that
points that differ in these share it; what a build is to depend on goes into a file or, as
``{name}``, into its command.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from zenturio.annotate.commands import fill_command
from zenturio.annotate.fill import Filler
from zenturio.annotate.model import Annotated, Application, Command
from zenturio.errors import InputError
from zenturio.experiment.experiment import Build, Experiment, Filed, Recipe, Step
from zenturio.experiment.identity import combined, content_digest, files_digest, path_record
from zenturio.expression import Value
from zenturio.expression.values import shown
from zenturio.space import Point

LARGE = 2**20
"""Files beyond so many bytes are named by their original, not carried along."""


class Generator:
    """Makes the experiments of one application; unchanged files are hashed once."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._filler = Filler(application)
        unchanged = [
            (_filed(file), content_digest(file.source.content)) for file in self._filler.unchanged
        ]
        self._unchanged = tuple(filed for filed, _ in unchanged)
        self._records = [_record(filed.path, filed.mode, content) for filed, content in unchanged]
        self._space = application.space
        self._names = _names_in(application)
        self.recipe = Recipe(
            application.metrics, application.outputs, application.requires, application.rank
        )

    def experiments(self, point: Point) -> tuple[Experiment, ...]:
        """The experiments of *point*, in the order of their repeats."""
        index = self._index(point)
        texts = {name: point.text(name) for name in self._names}
        repeats = range(1, self._application.repeat.count + 1)
        return tuple(self._experiment(point, index, texts, repeat) for repeat in repeats)

    def _index(self, point: Point) -> int:
        return self._space.index(point) if self._space.finite else -1

    def _experiment(
        self, point: Point, index: int, texts: Mapping[str, str], repeat: int
    ) -> Experiment:
        application = self._application
        seeds = application.repeat.texts(repeat)
        if seeds:
            texts = {**texts, **seeds}
        filled = self._filler.files(point, seeds)
        files = (*(Filed(f.path, f.mode, f.content) for f in filled), *self._unchanged)
        records = [_record(f.path, f.mode, content_digest(f.content)) for f in filled]
        whole = files_digest(sorted([*records, *self._records]))
        steps = tuple([_step(command, texts, point) for command in application.runs])
        build = self._build(whole, files, texts, point)
        variables = {name: texts[given] for name, given in application.environment.items()}
        commands = (*build.steps, *steps) if build else steps
        return Experiment(
            combined(whole, commands, variables, repeat),
            index,
            repeat,
            point,
            files,
            steps,
            variables,
            build,
            self.recipe,
        )

    def _build(
        self, whole: bytes, files: tuple[Filed, ...], texts: Mapping[str, str], point: Point
    ) -> Build | None:
        if not self._application.builds:
            return None
        steps = tuple([_step(command, texts, point) for command in self._application.builds])
        return Build(combined(whole, steps, {}, 0), files, steps)


def _filed(file: Annotated) -> Filed:
    source = file.source
    if len(source.content) <= LARGE:
        return Filed(file.path, source.mode, source.content)
    known = content_digest(source.content).hex()
    return Filed(file.path, source.mode, None, source.path.absolute(), known)


def _record(path: str, mode: int, content: bytes) -> bytes:
    return path_record(path, executable=bool(mode & 0o111)) + content


def _names_in(application: Application) -> tuple[str, ...]:
    """The parameters whose texts commands or the environment may need."""
    used = set(application.environment.values())
    commands = [c.text.text for c in (*application.builds, *application.runs)]
    for parameter in application.space.parameters:
        if any("{" + parameter.name + "}" in command for command in commands):
            used.add(parameter.name)
    if application.repeat.seed is not None:
        used.discard(application.repeat.seed)
    return tuple(sorted(used))


def _step(command: Command, texts: Mapping[str, str], point: Point) -> Step:
    text = command.text.text
    return Step(
        fill_command(command.text, texts) if "{" in text else text,
        command.timeout,
        command.retry,
        1 if command.cpus is None else _cpus(command, point),
        command.memory,
    )


def _cpus(command: Command, point: Point) -> int:
    """How many CPUs the command wants at this point: a whole number from 1."""
    expression = command.cpus
    assert expression is not None
    value = expression.value(point, _positions(point) if expression.indexed else None)
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 1:
        if isfinite(value) and value == int(value):
            return int(value)
    passage = expression.passage
    raise InputError(
        f"CPUS is {shown(value)} where {_chosen(expression.names, point)}",
        place=passage.place(0, len(passage.text)),
        cure="a whole number from 1, such as max(1, threads)",
    )


def _chosen(names: frozenset[str], point: Mapping[str, Value]) -> str:
    return ", ".join(f"{name} = {shown(point[name])}" for name in sorted(names)) or "it is written"


def _positions(point: Point) -> dict[str, int]:
    return {name: at for name, at in point.positions.items() if isinstance(at, int)}
