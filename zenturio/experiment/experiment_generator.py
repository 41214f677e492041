"""From an application and a point to experiments: one for each repeat, each with its seed.

The program is built once for each distinct set of files that BUILD sees: the digest of a build
covers the files and the build's commands. A build does not get the study's ENV variables, so that
points that differ in these share it; what a build is to depend on goes into a file or, as
``{name}``, into its command.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from glob import escape
from heapq import merge
from io import StringIO
from math import isfinite
from pathlib import Path

import numpy as np

from zenturio.annotate.commands import fill_command
from zenturio.annotate.model import Annotated, Application, Command
from zenturio.annotate.scan import scan_following
from zenturio.annotate.substitution import Filled, Filler
from zenturio.errors import InputError
from zenturio.experiment import identity
from zenturio.experiment.experiment import (
    WRITING,
    Build,
    Experiment,
    ExperimentFile,
    ExperimentValues,
    FileList,
    ProgramIdentity,
    Recipe,
    RunPosition,
    Step,
    UnchangedFiles,
    empty_folder,
    link_to,
    value_at,
)
from zenturio.experiment.identity import (
    FORMAT,
    FileTrie,
    Hashed,
    PointKeys,
    Term,
    combined_digest,
    content_digest,
    framed_digest,
    kind_of_mode,
    path_record,
    used_digests,
    used_part,
    value_term,
)
from zenturio.experiment.metrics import parse_value
from zenturio.expression import Expression, Value
from zenturio.expression.scalar_functions import shown
from zenturio.space import Point, Space
from zenturio.space.domain import Column
from zenturio.space.point import CodedTexts, PointBlock

_REMEMBERED = 1024
_MOST_HELD = 1000
"""Files without directives that each experiment has as objects; of more they are made one by one,
which costs a microsecond each time."""
RecordedParts = tuple[Mapping[str, tuple[int, bytes]], Mapping[str, str]]
"""Mode and digest of each file by path, and the digests of what is used."""

_LARGEST_TABLE = 2**17
"""Sets of more elements have no table of terms: a study meets few of them."""
KeyColumns = tuple[Column, Column]
"""The two halves of keys, as unsigned integers of 64 bits."""

_STREAMS = ("stdout", "stderr", "")
_SHORT = 16


class ExperimentGenerator:
    """Makes the experiments of one application; unchanged files are hashed once."""

    def __init__(
        self,
        application: Application,
        *,
        former_digests: bool = False,
        recorded: RecordedParts | None = None,
    ) -> None:
        """With *former_digests* experiments have those of the format before, too.

        *recorded* stands for the files that are the same for every point, and for what is used.
        """
        self._application = application
        self._filler = Filler(application)
        self._copied = application.copied if recorded is None else ()
        originals = UnchangedFiles(self._copied, str(Path.cwd()))
        self._common = originals if len(originals) > _MOST_HELD else None
        """Files that are too many to be held."""
        held = _unchanged(application, self._filler, recorded)
        self._hashed: list[Hashed] = [
            (f.path, f.mode, bytes.fromhex(f.digest) or content_digest(f.content or b""))
            for f in held
        ]
        """Of those that are held whatever their number, besides empty folders, which have none."""
        self._unchanged = (
            *held,
            *(() if self._common else originals),
            *map(empty_folder, application.folders),
        )
        self._trie = FileTrie(self._records, [skeleton.path for skeleton in self._filler.skeletons])
        self._space = application.space
        seed = application.repeat.seed
        names = [p.name for p in application.space.parameters] + ([seed] if seed else [])
        words = frozenset(p.name for p in application.space.parameters if p.words)
        self._makes = [_StepWriter(command, names, words) for command in application.builds]
        self._runs = [_StepWriter(command, names, words) for command in application.runs]
        verifications = application.verifications
        self._verifiers = [_StepWriter(v.command, names, words) for v in verifications if v.command]
        variables = set(application.environment.values())
        visible = self._filler.parameters | variables
        # What neither files nor environment show must enter the digest itself: see
        # `combined_digest`.
        self._unseen = [p.name for p in application.space.dimensions if p.name not in visible]
        self._used = used_digests(application) if recorded is None else dict(recorded[1])
        self._build_part = used_part({n: d for n, d in self._used.items() if not is_verified(n)})
        # Another verification is another experiment: its result was judged in another way.
        texts = (verification.text for verification in verifications)
        self._used |= {text: framed_digest([text.encode()]) for text in texts}
        self._used_part = used_part(self._used)
        self._builds: dict[tuple[bytes | str, ...], Build] = {}
        self._keys = PointKeys()
        self._key_columns = _KeyTables(self._keys, [p.name for p in application.space.parameters])
        self._conditional = any(p.when is not None for p in application.space.parameters)
        self._followed = self._following() if former_digests else None
        self._former = identity.Format1Files(self._followed.hashed) if self._followed else None
        self.recipe = Recipe(
            application.metrics,
            _kept(application),
            application.requires,
            application.rank,
            (*application.required, *_compared(application)),
            tuple(v.expression for v in verifications if v.expression is not None),
            tuple(v.text for v in verifications if v.command is not None),
            compared_numbers(application),
        )

    @property
    def program(self) -> dict[str, str]:
        """What stays the same for every point: a digest of each file, and of the commands.

        Other sets, constraints and metrics make no other program.
        """
        digests = {s.path: framed_digest([s.content])[:_SHORT] for s in self._filler.skeletons}
        digests |= {path: _part(path, mode, content) for path, mode, content in self.hashed}
        for word, commands in (("BUILD", self._makes), ("RUN", self._runs)):
            digests[word] = framed_digest([command.text.encode() for command in commands])[:_SHORT]
        return digests | {words: digest[:_SHORT] for words, digest in self._used.items()}

    @property
    def former_program(self) -> dict[str, str]:
        """The same in format 1, with links followed; unchanged without *former_digests*."""
        followed = self._followed
        return self.program if followed is None or followed is self else followed.program

    def _following(self) -> ExperimentGenerator | None:
        """Return the generator of the same files with links followed; None where they make none."""
        application = scan_following(self._application)
        if application is None or application is self._application:
            return None if application is None else self
        return ExperimentGenerator(application)

    @property
    def _records(self) -> Iterator[bytes]:
        """What the files and links that are the same for every point add to the trie."""
        return (
            identity.file_record(path, kind_of_mode(mode), content)
            for path, mode, content in self.hashed
        )

    def filled(self, point: Point, seeds: Mapping[str, str]) -> list[tuple[Filled, bytes]]:
        """Return the files that are filled, and of each the digest of what counts."""
        filled = self._filler.files(point, seeds)
        return [(file, content_digest(file.essence)) for file in filled]

    @property
    def repeats(self) -> range:
        """The numbers of the experiments of each point."""
        return self._application.repeat.numbers

    @property
    def hashed(self) -> Iterator[Hashed]:
        """Path, mode and digest of each file and link that is the same for every point."""
        yield from self._hashed
        for file in self._copied:
            yield file.path, file.mode, file.digest

    @cached_property
    def identity(self) -> ProgramIdentity:
        """Everything of the digests but the points."""
        constants = json.dumps(FileTrie(self._records).root().hex())
        digest = framed_digest(["".join(self._facts([constants])).encode()])
        return ProgramIdentity(digest, FORMAT, self._document, _writing(self._space))

    def _document(self) -> str:
        writing = _writing(self._space)
        more = f", {json.dumps(WRITING)}: {json.dumps(writing)}" if writing else ""
        # Written piece by piece: there may be a hundred thousand files.
        text = StringIO()
        text.writelines(self._facts(self._listed(), more))
        return text.getvalue()

    def _listed(self) -> Iterator[str]:
        """Yield the files and links that are the same for every point, as JSON."""
        yield "{"
        copied = ((file.path, file.mode, file.digest) for file in self._copied)
        for number, (path, mode, content) in enumerate(merge(sorted(self._hashed), copied)):
            head = ", " if number else ""
            yield f'{head}{json.dumps(path)}: ["{kind_of_mode(mode)}", "{content.hex()}"]'
        yield "}"

    def _facts(self, constants: Iterable[str], more: str = "") -> Iterator[str]:
        """Yield the parts as pieces of JSON.

        *constants*, the files that are the same for every point, and *more* behind all are JSON.
        """
        application = self._application
        facts = {
            "format": FORMAT,
            "filled": {
                s.path: [
                    kind_of_mode(s.mode),
                    content_digest(s.content).hex(),
                    s.parameters,
                ]
                for s in self._filler.skeletons
            },
            "builds": [writer.text for writer in self._makes],
            "runs": [writer.text for writer in self._runs],
            "environment": dict(application.environment),
            "used": self._used,
            "unseen": self._unseen,
            "seed": application.repeat.seed,
        }
        for number, name in enumerate(sorted([*facts, "constants"])):
            yield f"{', ' if number else '{'}{json.dumps(name)}: "
            if name == "constants":
                yield from constants
            else:
                yield json.dumps(facts[name], sort_keys=True)
        yield f"{more}}}"

    def experiments(self, point: Point, index: int | None = None) -> tuple[Experiment, ...]:
        """The experiments of *point*, in the order of their repeats; a seed is among the values.

        Its *index*, if not given, is its number in the space, -1 where the space is not counted.
        """
        if index is None:
            index = self._space.number(point)
        key = self._key(point)
        numbers = self._application.repeat.numbers
        return tuple([self._experiment(point, index, point.texts, key, r) for r in numbers])

    def experiment(
        self,
        point: Point,
        repeat: int,
        position: RunPosition | None = None,
        *,
        index: int | None = None,
    ) -> Experiment:
        """The experiment of *point* that is its *repeat*-th, from 1; up to 0 it does not count.

        *position*: where it stands in the order of a run. *index*: as in `experiments`.
        """
        if index is None:
            index = self._space.number(point)
        key = self._key(point)
        return self._experiment(point, index, point.texts, key, repeat, position)

    def keys(self, block: PointBlock, repeat: int) -> KeyColumns:
        """Return the keys of one repeat of each point, as `Experiment.key` has them."""
        first, second = self._key_columns.sums(block, self._texts_of)
        more = self._keys.sum({"": str(repeat), **self._application.repeat.texts(repeat)})
        return first + np.uint64(more[0]), second + np.uint64(more[1])

    def keys_of(self, point: Point) -> list[bytes]:
        """Return the keys of all repeats of *point*."""
        key, repeat = self._key(point), self._application.repeat
        numbers = range(1, repeat.count + 1)
        return [self._keys.key(key, number, repeat.texts(number)) for number in numbers]

    def _texts_of(self, point: Point, names: Iterable[str]) -> dict[str, str | None]:
        """Return the texts of *names* as the key has them: None while a parameter is inactive."""
        if self._conditional:
            return {n: None if point[n] is None else point.text(n) for n in names}
        return {n: point.text(n) for n in names}

    def _key(self, point: Point) -> Term:
        texts: Mapping[str, str | None] = point.texts
        if self._conditional:
            texts = {n: None if point[n] is None else text for n, text in texts.items()}
        return self._keys.sum(texts)

    def _experiment(
        self,
        point: Point,
        index: int,
        texts: Mapping[str, str],
        key: Term,
        repeat: int,
        position: RunPosition | None = None,
    ) -> Experiment:
        seeds = self._application.repeat.texts(repeat)
        values: Mapping[str, Value] = point
        if seeds:
            texts = {**texts, **seeds}
            seed_values = {name: parse_value(text.encode()) for name, text in seeds.items()}
            values = ExperimentValues({**point, **seed_values}, point)
        pairs = self.filled(point, seeds)
        files: Sequence[ExperimentFile] = (
            *[ExperimentFile(f.path, f.mode, f.content, digest=h.hex()) for f, h in pairs],
            *self._unchanged,
        )
        if self._common is not None:
            files = FileList(files, self._common)
        records = [identity.file_record(f.path, kind_of_mode(f.mode), h) for f, h in pairs]
        whole = self._trie.root(records)
        steps = tuple([writer.step(texts, point) for writer in self._runs])
        verifying = tuple([writer.step(texts, point) for writer in self._verifiers])
        build = self._build(whole, files, texts, point) if self._makes else None
        variables = {n: texts[parameter] for n, parameter in self._application.environment.items()}
        commands = (*build.steps, *steps) if build else steps
        unseen = {name: texts[name] for name in self._unseen}
        parts = commands, variables, repeat, unseen, self._used_part
        former_digest = ""
        if self._former and self._followed:
            same = self._followed is self
            before = pairs if same else self._followed.filled(point, seeds)
            former_files = self._former.digest([(f.path, f.mode, h) for f, h in before])
            former_digest = combined_digest(former_files, *parts, version=identity.FORMER_FORMAT)
        return Experiment(
            combined_digest(whole, *parts),
            index,
            repeat,
            values,
            files,
            (*steps, *verifying),
            variables,
            build,
            self.recipe,
            self.identity,
            self._keys.key(key, repeat, seeds),
            former_digest,
            position,
        )

    def _build(
        self,
        whole: bytes,
        files: Sequence[ExperimentFile],
        texts: Mapping[str, str],
        point: Point,
    ) -> Build:
        """Return the build of these files: the same object for experiments that share it."""
        steps = tuple([writer.step(texts, point) for writer in self._makes])
        # Commands of a build may name parameters: then the same files are built once for each text.
        key: tuple[bytes | str, ...] = (whole, *[step.command for step in steps])
        build = self._builds.get(key)
        if build is None:
            if len(self._builds) >= _REMEMBERED:
                self._builds.clear()
            digest = combined_digest(whole, steps, {}, 0, used=self._build_part)
            build = self._builds[key] = Build(digest, files, steps)
        return build


def _writing(space: Space) -> str:
    """Return as JSON what beside texts decides what a point writes; nothing if nothing does."""
    words = sorted(p.name for p in space.parameters if p.words)
    defaults = {p.name: p.default for p in space.parameters if p.when is not None and p.default}
    return json.dumps([words, defaults], sort_keys=True) if words or defaults else ""


class _KeyTables:
    """Sums of terms of whole columns of points: a look-up and an addition for each parameter."""

    def __init__(self, keys: PointKeys, names: Sequence[str]) -> None:
        self._keys = keys
        self._names = names
        self._tables: dict[str, KeyColumns] = {}

    def sums(
        self,
        block: PointBlock,
        texts_of: Callable[[Point, Iterable[str]], Mapping[str, str | None]],
    ) -> KeyColumns:
        first, second = (np.zeros(len(block), dtype=np.uint64) for _ in range(2))
        uncoded = [name for name in self._names if name not in block.coded]
        if uncoded:  # their texts depend on other parameters
            sums = [self._keys.sum(texts_of(point, uncoded)) for point in block.points]
            first, second = (np.array(part, dtype=np.uint64) for part in zip(*sums, strict=True))
        for name, (codes, texts) in block.coded.items():
            terms = self._terms(name, codes, texts)
            first, second = first + terms[0], second + terms[1]
        return first, second

    def _terms(self, name: str, codes: Column, texts: CodedTexts) -> KeyColumns:
        if len(texts) <= _LARGEST_TABLE:
            if name not in self._tables:
                self._tables[name] = _columns_of_terms(
                    name, map(texts.__getitem__, range(len(texts)))
                )
            table = self._tables[name]
            return table[0].take(codes), table[1].take(codes)
        present, places = np.unique(codes, return_inverse=True)
        table = _columns_of_terms(name, map(texts.__getitem__, present.tolist()))
        return table[0].take(places), table[1].take(places)


def _columns_of_terms(name: str, texts: Iterable[str | None]) -> KeyColumns:
    first, second = zip(*(value_term(name, text) for text in texts), strict=True)
    return np.array(first, dtype=np.uint64), np.array(second, dtype=np.uint64)


def is_verified(words: str) -> bool:
    """Return whether a part of an identity is a VERIFY, of which builds know nothing."""
    return words.startswith("VERIFY ")


def _kept(application: Application) -> tuple[str, ...]:
    """What OUTPUT names, and the files that metrics are read from: so they can be read again."""
    read = (
        escape(metric.source) for metric in application.metrics if metric.source not in _STREAMS
    )
    return tuple(dict.fromkeys((*application.outputs, *read, *_compared(application))))


def compared_numbers(application: Application) -> tuple[Expression, ...]:
    """Return what is compared between experiments: objectives, and what repeats wait for."""
    until = application.repeat.until
    goals = (goal.expression for goal in application.goals)
    return (*goals, *((until.metric,) if until is not None else ()))


def _compared(application: Application) -> tuple[str, ...]:
    """Return the files that are compared with those of baselines, as patterns."""
    return tuple(escape(same.path.text) for same in application.same_files)


class _StepWriter:
    """Makes steps of one command; what was written is remembered by the texts in it."""

    def __init__(self, command: Command, names: Iterable[str], words: frozenset[str]) -> None:
        self._command = command
        self._words = words
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
            None if command.cpus is None else _cpus(command, point),
            command.memory,
        )

    def _written(self, texts: Mapping[str, str]) -> str:
        key = tuple([texts[name] for name in self.names])
        written = self._known.get(key)
        if written is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            written = self._known[key] = fill_command(self._command.text, texts, self._words)
        return written


def _unchanged(
    application: Application, filler: Filler, recorded: RecordedParts | None
) -> list[ExperimentFile]:
    """Return what is the same for every point, but for files without directives: files, links."""
    if recorded is not None:
        return [
            ExperimentFile(path, mode, b"", digest=content.hex())
            for path, (mode, content) in recorded[0].items()
        ]
    files = [
        ExperimentFile(f.path, f.source.mode, f.source.content, mtime=f.source.mtime)
        for f in filler.unchanged
        if isinstance(f, Annotated)
    ]
    return [*files, *(link_to(path, text) for path, text in application.links)]


def _part(path: str, mode: int, content: bytes) -> str:
    """What tells a file or link that is the same for every point from another one."""
    if stat.S_ISLNK(mode):
        return framed_digest([b"link", content])[:_SHORT]
    head = path_record(path, executable=kind_of_mode(mode) == "executable")
    return framed_digest([head + content])[:_SHORT]


def _cpus(command: Command, point: Point) -> int:
    """Return how many CPUs the command wants at this point: a whole number from 1."""
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
