"""From an application and a point to experiments: one for each repeat, each with its seed.

The program is built once for each distinct set of files that BUILD sees: the digest of a build
covers the files and the build's commands. A build does not get the study's ENV variables, so that
points that differ in these share it; what a build is to depend on goes into a file or, as
``{name}``, into its command.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from glob import escape
from math import isfinite

from zenturio.annotate.commands import fill_command
from zenturio.annotate.filler import Filler
from zenturio.annotate.model import Annotated, Application, Command
from zenturio.errors import InputError
from zenturio.experiment.experiment import Build, Experiment, Filed, Recipe, Step
from zenturio.experiment.identity import (
    combined,
    content_digest,
    files_digest,
    framed_digest,
    path_record,
    used_part,
)
from zenturio.experiment.points import Values, value_at
from zenturio.experiment.reading import value_of
from zenturio.experiment.used import used_digests
from zenturio.expression import Value
from zenturio.expression.values import shown
from zenturio.space import Point

_REMEMBERED = 1024
LARGE = 2**20
"""Files beyond so many bytes are named by their original, not carried along."""

_STREAMS = ("stdout", "stderr", "")
_SHORT = 16


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
        seed = application.repeat.seed
        names = [p.name for p in application.space.parameters] + ([seed] if seed else [])
        self._makes = [_Writer(command, names) for command in application.builds]
        self._runs = [_Writer(command, names) for command in application.runs]
        used = {name for writer in (*self._makes, *self._runs) for name in writer.names}
        given = set(application.environment.values())
        seen = self._filler.parameters | given
        self._unseen = [p.name for p in application.space.dimensions if p.name not in seen]
        self._names = sorted((used | given | set(self._unseen)) - {seed})
        self._used = used_digests(application)
        self._used_part = used_part(self._used)
        self._builds: dict[tuple[bytes | str, ...], Build] = {}
        self.recipe = Recipe(
            application.metrics,
            _kept(application),
            application.requires,
            application.rank,
            application.required,
        )

    @property
    def program(self) -> dict[str, str]:
        """What stays the same for every point: a digest of each file, and of the commands.

        Other sets, constraints and metrics make no other program.
        """
        found = {path: framed_digest([text])[:_SHORT] for path, text in self._filler.skeletons}
        unchanged = zip(self._unchanged, self._records, strict=True)
        found |= {filed.path: framed_digest([record])[:_SHORT] for filed, record in unchanged}
        for word, commands in (("BUILD", self._makes), ("RUN", self._runs)):
            found[word] = framed_digest([each.text.encode() for each in commands])[:_SHORT]
        return found | {words: digest[:_SHORT] for words, digest in self._used.items()}

    def experiments(self, point: Point, index: int | None = None) -> tuple[Experiment, ...]:
        """The experiments of *point*, in the order of their repeats; a seed is among the values.

        Its *index* is asked of the space, if it is not given.
        """
        if index is None:
            index = self._space.index(point) if self._space.finite else -1
        texts = {name: point.text(name) for name in self._names}
        repeats = range(1, self._application.repeat.count + 1)
        return tuple([self._experiment(point, index, texts, repeat) for repeat in repeats])

    def _experiment(
        self, point: Point, index: int, texts: Mapping[str, str], repeat: int
    ) -> Experiment:
        seeds = self._application.repeat.texts(repeat)
        values: Mapping[str, Value] = point
        if seeds:
            texts = {**texts, **seeds}
            told = {name: value_of(text.encode()) for name, text in seeds.items()}
            values = Values({**point, **told}, point)
        filled = self._filler.files(point, seeds)
        hashes = [content_digest(f.essence) for f in filled]
        given = zip(filled, hashes, strict=True)
        made = [Filed(f.path, f.mode, f.content, digest=known.hex()) for f, known in given]
        files = (*made, *self._unchanged)
        records = [_record(f.path, f.mode, known) for f, known in zip(filled, hashes, strict=True)]
        whole = files_digest(sorted([*records, *self._records]))
        steps = tuple([writer.step(texts, point) for writer in self._runs])
        build = self._build(whole, files, texts, point) if self._makes else None
        environment = self._application.environment
        variables = {name: texts[parameter] for name, parameter in environment.items()}
        commands = (*build.steps, *steps) if build else steps
        unseen = {name: texts[name] for name in self._unseen}
        return Experiment(
            combined(whole, commands, variables, repeat, unseen, self._used_part),
            index,
            repeat,
            values,
            files,
            steps,
            variables,
            build,
            self.recipe,
        )

    def _build(
        self, whole: bytes, files: tuple[Filed, ...], texts: Mapping[str, str], point: Point
    ) -> Build:
        """The build of these files: the same object for experiments that share it."""
        steps = tuple([writer.step(texts, point) for writer in self._makes])
        key: tuple[bytes | str, ...] = (whole, *[step.command for step in steps])
        build = self._builds.get(key)
        if build is None:
            if len(self._builds) >= _REMEMBERED:
                self._builds.clear()
            digest = combined(whole, steps, {}, 0, used=self._used_part)
            build = self._builds[key] = Build(digest, files, steps)
        return build


def _kept(application: Application) -> tuple[str, ...]:
    """What OUTPUT names, and the files that metrics are read from: so they can be read again."""
    read = (escape(each.source) for each in application.metrics if each.source not in _STREAMS)
    return tuple(dict.fromkeys((*application.outputs, *read)))


class _Writer:
    """Makes steps of one command; what was written is remembered by the texts in it."""

    def __init__(self, command: Command, names: Iterable[str]) -> None:
        self._command = command
        self.text = text = command.text.text
        self.names = [name for name in names if "{" + name + "}" in text]
        self._plain = "{" not in text
        self._known: dict[tuple[str, ...], str] = {}

    def step(self, texts: Mapping[str, str], point: Point) -> Step:
        command = self._command
        return Step(
            command.text.text if self._plain else self._written(texts),
            command.timeout,
            command.retry,
            1 if command.cpus is None else _cpus(command, point),
            command.memory,
        )

    def _written(self, texts: Mapping[str, str]) -> str:
        key = tuple([texts[name] for name in self.names])
        written = self._known.get(key)
        if written is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            written = self._known[key] = fill_command(self._command.text, texts)
        return written


def _filed(file: Annotated) -> Filed:
    source = file.source
    if len(source.content) <= LARGE:
        return Filed(file.path, source.mode, source.content, mtime=source.mtime)
    known = content_digest(source.content).hex()
    return Filed(file.path, source.mode, None, source.path.absolute(), known, source.mtime)


def _record(path: str, mode: int, content: bytes) -> bytes:
    return path_record(path, executable=bool(mode & 0o111)) + content


def _cpus(command: Command, point: Point) -> int:
    """How many CPUs the command wants at this point: a whole number from 1."""
    expression = command.cpus
    assert expression is not None
    value = value_at(expression, point)
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else 0
    if number >= 1 and isfinite(number) and number == int(number):
        return int(number)
    passage = expression.passage
    raise InputError(
        f"CPUS is {shown(value)} where {_chosen(expression.names, point)}",
        place=passage.place(0, len(passage.text)),
        hint="a whole number from 1, such as max(1, threads)",
    )


def _chosen(names: frozenset[str], point: Mapping[str, Value]) -> str:
    return ", ".join(f"{name} = {shown(point[name])}" for name in sorted(names)) or "it is written"
