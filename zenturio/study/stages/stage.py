"""Stages: applications that wait for each other's experiments (``AFTER "mesh" ON n``).

A stage is a study of its own, named as a study of its files is. It is looked for beside the files
that wait for it: a file or folder of that name, or the file with that stem.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from zenturio.annotate.file_selection import SIDE, is_study
from zenturio.annotate.model import After, Application
from zenturio.annotate.scan import scan
from zenturio.errors import AnnotationError, InputError, did_you_mean
from zenturio.experiment import ExperimentGenerator
from zenturio.experiment.identity import framed_digest
from zenturio.space import Zip

AFTER = "AFTER "
"""Before the name of a stage, among the parts of the program that waits for it."""
SHORT = 16
"""Digits of a digest."""
TOLD = 1000
"""Elements of a set that are told one by one at the most."""


@dataclass(frozen=True)
class StageLink:
    """What a stage waits for: the number of another one, and the parameters that must agree."""

    stage: int
    on: tuple[str, ...]
    after: After


@dataclass(frozen=True)
class Stage:
    """An application in a row of several; stages that it waits for have lower numbers."""

    number: int
    application: Application
    links: tuple[StageLink, ...]
    level: int
    """How many stages are before it, at the longest."""

    @property
    def name(self) -> str:
        return self.application.name


def stages_of(application: Application) -> tuple[Stage, ...]:
    """All stages that *application* waits for, and itself as the last; earlier ones come first."""
    finder = _StageFinder()
    finder.add(application, _home(application), ())
    _apart(finder.stages)
    return tuple(finder.stages)


def built_on(stages: Sequence[Stage]) -> tuple[dict[str, str], ...]:
    """Of each stage, a digest of each one before it that its experiments depend on.

    Where several experiments of a stage may be waited for together, it counts which there are.
    """
    programs: list[dict[str, str]] = []
    for stage in stages:
        parts: dict[str, str] = {}
        for link in stage.links:
            earlier = stages[link.stage].application
            # As format 1 of the digests has it: otherwise studies of before would be archived.
            program = ExperimentGenerator(earlier, former_digests=True).former_program
            texts = [f"{k}={v}" for k, v in program.items()]
            texts += [f"{k}={v}" for k, v in programs[link.stage].items()]
            if not _is_single(link, earlier):
                texts += _extent(earlier)
            parts[f"{AFTER}{earlier.name}"] = framed_digest(text.encode() for text in texts)[:SHORT]
        programs.append(parts)
    return tuple(programs)


def _is_single(link: StageLink, earlier: Application) -> bool:
    """Whether no more than one experiment agrees in the parameters of *link*."""
    names = {parameter.name for parameter in earlier.space.dimensions}
    return earlier.repeat.count == 1 and names <= set(link.on)


def _extent(application: Application) -> list[str]:
    """Which points there are, as far as that is told in short."""
    space, texts = application.space, [str(application.repeat.count)]
    for parameter in space.dimensions:
        domain = parameter.domain
        size = domain.size if domain is not None else 0
        shown = range(size) if size <= TOLD else (0, size - 1)
        texts += [parameter.name, str(size)]
        texts += [domain.text(i) for i in shown] if domain is not None else []
    for constraint in space.constraints:
        texts += constraint.names if isinstance(constraint, Zip) else [constraint.text]
    return texts


def _home(application: Application) -> Path:
    """What stands for an application: its file, or its folder."""
    return application.paths[0] if len(application.paths) == 1 else application.root.absolute()


@dataclass
class _StageFinder:
    """Reads stages, each once, those first that others wait for."""

    stages: list[Stage] = field(default_factory=list)
    _known: dict[Path, int] = field(default_factory=dict)

    def add(self, application: Application, home: Path, waiting: Sequence[tuple[Path, str]]) -> int:
        """The number of a stage; *waiting* are those that wait for it, the last one first."""
        chain = ((home, application.name), *waiting)
        links = tuple(self._link(after, home, chain) for after in application.after)
        for link in links:
            _check_names(link.after, self.stages[link.stage].application)
            _check_room(link.after, self.stages[link.stage].name, application)
        level = max((self.stages[link.stage].level + 1 for link in links), default=0)
        number = len(self.stages)
        self.stages.append(Stage(number, application, links, level))
        self._known[home.resolve()] = number
        return number

    def _link(self, after: After, home: Path, chain: Sequence[tuple[Path, str]]) -> StageLink:
        path = _beside(after, home)
        for number, (other, _) in enumerate(chain):
            if other.resolve() == path.resolve():
                names = [name for _, name in reversed(chain[: number + 1])]
                circle = " after ".join([*names, names[0]])
                raise AnnotationError(
                    f"stages wait for each other: {circle}",
                    place=after.place,
                    hint="one of them must be first",
                )
        stage = self._known.get(path.resolve())
        number = self.add(scan(path), path, chain) if stage is None else stage
        return StageLink(number, after.on, after)


def _beside(after: After, home: Path) -> Path:
    """The file or folder that *after* names, beside *home*."""
    exact = home.parent / after.stage
    if exact.exists():
        return exact
    others = [
        path
        for path in sorted(home.parent.iterdir())
        if not path.name.startswith(".") and not path.name.endswith(SIDE) and path.is_file()
    ]
    matches = [path for path in others if path.stem == after.stage]
    if len(matches) == 1:
        return matches[0]
    if matches:
        names_of_matches = ", ".join(path.name for path in matches)
        raise AnnotationError(
            f"AFTER {after.stage!r} may be {names_of_matches}",
            place=after.place,
            hint=f'write which one: AFTER "{matches[0].name}"',
        )
    names = [each.stem if each.is_file() else each.name for each in home.parent.iterdir()]
    raise AnnotationError(
        f"there is no stage {after.stage!r} beside {home.name}",
        place=after.place,
        hint=did_you_mean(after.stage, [n for n in names if n != home.stem and not is_study(n)]),
    )


def _check_names(after: After, earlier: Application) -> None:
    names = [parameter.name for parameter in earlier.space.parameters]
    for name in after.on:
        if name not in names:
            raise AnnotationError(
                f"stage {earlier.name} has no parameter {name}",
                place=after.place,
                hint=did_you_mean(name, names),
            )


def _check_room(after: After, name: str, later: Application) -> None:
    """What comes from a stage must not be where a file of the application is."""
    for file in later.files:
        if file.path.split("/")[0] in (name, f"{name}.csv"):
            raise AnnotationError(
                f"the files of stage {name} come into {name}/, where {file.path} is already",
                place=after.place,
                hint="rename one of them",
            )


def _apart(stages: Sequence[Stage]) -> None:
    """InputError where two stages would be the same study."""
    names: Mapping[str, Stage] = {}
    for stage in stages:
        if stage.name in names:
            raise InputError(
                f"two stages are named {stage.name!r}", hint="rename the file of one of them"
            )
        names = {**names, stage.name: stage}
