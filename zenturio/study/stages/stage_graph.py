"""Stages (``AFTER "mesh" ON n``), and how far they have come.

A stage is a study of its own, named as a study of its files is. It is looked for beside the files
that wait for it: a file or folder of that name, or the file with that stem.

Experiments of a stage that agree in all parameters by which stages meet wait for the same ones and
are waited for by the same ones: they are one node here. So a million experiments that meet in a
thousand values are a graph of a thousand nodes, whose priorities are those of pM-S, exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from threading import RLock
from typing import Any, NamedTuple

from zenturio.annotate.file_selection import SIDE, is_study, may_have_directives
from zenturio.annotate.model import After, Application
from zenturio.annotate.scan import scan
from zenturio.errors import AnnotationError, InputError, did_you_mean
from zenturio.experiment import Experiment, ExperimentGenerator, Outcome
from zenturio.experiment.identity import framed_digest
from zenturio.expression.scalar_functions import text_of
from zenturio.space import Point, Zip
from zenturio.study.driver.in_flight import Inbox, SourceChanged
from zenturio.study.point_selection import PointSelection, select_points

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
    """Return whether no more than one experiment agrees in the parameters of *link*."""
    names = {parameter.name for parameter in earlier.space.dimensions}
    return earlier.repeat.count == 1 and names <= set(link.on)


def _extent(application: Application) -> list[str]:
    """Return which points there are, as far as that is told in short."""
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
    """Return what stands for an application: its file, or its folder."""
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
    """Return the file or folder that *after* names, beside *home*.

    A compiled program is often named like its source: a file of the exact name is a stage only if
    it has directives, or if no file with that stem has.
    """
    exact = home.parent / after.stage
    if exact.is_dir() or (exact.exists() and may_have_directives(exact)):
        return exact
    others = [
        path
        for path in sorted(home.parent.iterdir())
        if not path.name.startswith(".") and not path.name.endswith(SIDE) and path.is_file()
    ]
    matches = [path for path in others if path.stem == after.stage and path != exact]
    matches = [path for path in matches if may_have_directives(path)] or matches
    if exact.exists() and not any(map(may_have_directives, matches)):
        return exact
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


Key = tuple[Any, ...]
NumberedPoint = tuple[int, Point]
"""A point, with its number in the space."""


class StageNode(NamedTuple):
    """The experiments of a stage that meet others alike."""

    stage: int
    key: Key


class FinishedExperiment(NamedTuple):
    """An experiment that succeeded, as those that wait for it need to know it."""

    number: int
    repeat: int
    digest: str
    values: Mapping[str, Any]
    attempt: int
    """Of several results the one that counts here: another kind of machine may have its own."""
    former: str = ""
    """Its digest in the format before, if there may be results under such."""


@dataclass
class _State:
    points: list[NumberedPoint] = field(default_factory=list)
    left: int = 0
    """Experiments that have not succeeded yet."""
    waits: int = 0
    """Nodes that it waits for and that are not done."""
    rank: int = 0
    lost: bool = False
    """Something that it waits for failed, or does not come."""
    done: list[FinishedExperiment] = field(default_factory=list)


class StageGraph:
    """The nodes of all stages, and how they stand; may be asked and told from any thread."""

    def __init__(self, stages: Sequence[Stage], chosen: PointSelection) -> None:
        """*chosen* are the points of the last stage; of the others those that it needs."""
        self.stages = tuple(stages)
        self._lock = RLock()
        self._names = [self._meeting(stage) for stage in stages]
        self._states: dict[StageNode, _State] = {}
        self._fresh: list[list[StageNode]] = [[] for _ in stages]
        self._raised: list[set[StageNode]] = [set() for _ in stages]
        self._inboxes: list[Inbox] = [SimpleQueue() for _ in stages]
        self._coming = [0] * len(stages)
        """Of each stage, how many nodes wait and may still get all that they wait for."""
        self._after: dict[StageNode, list[StageNode]] = {}
        self._before: dict[StageNode, list[tuple[StageLink, list[StageNode]]]] = {}
        for stage in reversed(self.stages):
            last = stage is self.stages[-1]
            self._enter(stage, chosen if last else select_points(stage.application.space))
        self._join()

    def points(self, stage: int) -> PointSelection:
        """Return those of a stage that are to be run."""
        mine = (s.points for node, s in self._states.items() if node.stage == stage)
        picked = tuple(point for points in mine for _, point in points)
        return PointSelection(self.stages[stage].application.space, len(picked), picked=picked)

    def fresh(self, stage: int) -> list[tuple[StageNode, list[NumberedPoint]]]:
        """Return what became ready since this was asked last; none waits for anything any more."""
        with self._lock:
            nodes, self._fresh[stage] = self._fresh[stage], []
            return [(node, self._states[node].points) for node in nodes]

    def raised(self, stage: int) -> set[StageNode]:
        """Return what became more urgent since this was asked last."""
        with self._lock:
            nodes, self._raised[stage] = self._raised[stage], set()
            return nodes

    def pending(self, stage: int) -> bool:
        """Return whether more may become ready."""
        with self._lock:
            return bool(self._fresh[stage]) or self._coming[stage] > 0

    def blocked(self, stage: int) -> int:
        """Return how many points of a stage never get their inputs."""
        with self._lock:
            mine = (state for node, state in self._states.items() if node.stage == stage)
            return sum(len(state.points) for state in mine if state.lost and state.waits)

    def rank(self, node: StageNode) -> int:
        """Return the lower, the more urgent."""
        return self._states[node].rank

    def urgency(self, stage: int) -> Callable[[Experiment], tuple[int, ...]]:
        """Return the order of pM-S: by layer, then by rank, then by number."""
        level = self.stages[stage].level

        def of(experiment: Experiment) -> tuple[int, ...]:
            rank = self.rank(self.node(stage, experiment.values))
            return level, rank, experiment.index, experiment.repeat

        return of

    def inputs(self, node: StageNode) -> Iterator[tuple[StageLink, list[FinishedExperiment], bool]]:
        """What *node* waited for, stage by stage, and whether that is one experiment by design."""
        for link, nodes in self._before.get(node, ()):
            earlier = self.stages[link.stage].application
            finished = [done for each in nodes for done in self._states[each].done]
            count = sum(len(self._states[each].points) for each in nodes)
            yield link, sorted(finished, key=lambda d: d[:2]), count * earlier.repeat.count == 1

    def complete(self, stage: int, experiment: Experiment, outcome: Outcome) -> None:
        """An experiment has its outcome for good."""
        node = self.node(stage, experiment.values)
        with self._lock:
            state = self._states.get(node)
            if state is None:
                return
            for waiting in self._awaited_with(node):
                self._states[waiting].rank -= 1
                self._raised[waiting.stage].add(waiting)
            if outcome.status != "ok":
                self._lose(node)
                return
            facts = FinishedExperiment(
                experiment.index,
                experiment.repeat,
                outcome.digest,
                experiment.values,
                outcome.attempt,
                experiment.former,
            )
            state.done.append(facts)
            state.left -= 1
            if not state.left:
                self._open(node)

    def _awaited_with(self, node: StageNode) -> set[StageNode]:
        """Return the unfinished ancestors of the children of *node*: step 5 of pM-S.

        T. Ma, R. Buyya, SBAC-PAD 2005, section III-B; `zenturio.schedule` has it for tasks.
        """
        pending, ancestors = list(self._children(node)), set[StageNode]()
        while pending:
            for parent in self._parents(pending.pop()):
                if parent not in ancestors and not self._is_done(parent):
                    ancestors.add(parent)
                    pending.append(parent)
        return ancestors

    def close(self, stage: int) -> None:
        """Nothing more comes of that stage."""
        with self._lock:
            for node, state in self._states.items():
                if node.stage == stage and state.left:
                    self._lose(node)

    def listen(self, stage: int, inbox: Inbox) -> None:
        """Tell *inbox* when an experiment of the stage has become ready, or never will."""
        with self._lock:
            self._inboxes[stage] = inbox
        inbox.put(SourceChanged())

    def node(self, stage: int, values: Mapping[str, Any]) -> StageNode:
        return StageNode(stage, tuple(values[name] for name in self._names[stage]))

    def _meeting(self, stage: Stage) -> tuple[str, ...]:
        """Return the parameters by which a stage meets others, before it or behind it."""
        later = (link for other in self.stages for link in other.links)
        names = [n for link in later if link.stage == stage.number for n in link.on]
        return tuple(dict.fromkeys([*names, *(n for link in stage.links for n in link.on)]))

    def _enter(self, stage: Stage, points: PointSelection) -> None:
        """The nodes of a stage that later ones need; the later ones are there already."""
        wanted = self._wanted(stage.number)
        repeats = stage.application.repeat.count
        for number, point in points.numbered():
            if wanted is not None and not any(
                tuple(point[name] for name in on) in keys for on, keys in wanted
            ):
                continue
            state = self._states.setdefault(self.node(stage.number, point), _State())
            state.points.append((number, point))
            state.left += repeats

    def _wanted(self, stage: int) -> list[tuple[tuple[str, ...], set[Key]]] | None:
        """By which names and values later stages ask for experiments of this one."""
        if stage == len(self.stages) - 1:
            return None
        points = []
        for later in self.stages:
            for link in later.links:
                if link.stage == stage:
                    nodes = [node for node in self._states if node.stage == later.number]
                    points.append((link.on, {self._cut(node, link.on) for node in nodes}))
        return points

    def _join(self) -> None:
        for stage in self.stages:
            for link in stage.links:
                earlier: dict[Key, list[StageNode]] = {}
                for node in self._states:
                    if node.stage == link.stage:
                        earlier.setdefault(self._cut(node, link.on), []).append(node)
                for node in [n for n in self._states if n.stage == stage.number]:
                    self._link(node, link, earlier.get(self._cut(node, link.on), []))
        for node, state in self._states.items():
            if state.waits:
                self._coming[node.stage] += 1
            else:
                self._fresh[node.stage].append(node)

    def _link(self, node: StageNode, link: StageLink, parents: list[StageNode]) -> None:
        if not parents:
            where = ", ".join(
                f"{name} = {text_of(value)}"
                for name, value in zip(link.on, self._cut(node, link.on), strict=True)
            )
            name = self.stages[link.stage].name
            raise AnnotationError(
                f"stage {name} has no experiment where {where or 'anything is'}",
                place=link.after.place,
                hint=f"let {name} have it, or take it out here with a CONSTRAINT",
            )
        self._before.setdefault(node, []).append((link, parents))
        self._states[node].waits += len(parents)
        for parent in parents:
            self._after.setdefault(parent, []).append(node)

    def _cut(self, node: StageNode, names: Sequence[str]) -> Key:
        at = self._names[node.stage]
        return tuple(node.key[at.index(name)] for name in names)

    def _children(self, node: StageNode) -> list[StageNode]:
        return self._after.get(node, [])

    def _parents(self, node: StageNode) -> list[StageNode]:
        return [parent for _, parents in self._before.get(node, ()) for parent in parents]

    def _is_done(self, node: StageNode) -> bool:
        return not self._states[node].left

    def _open(self, node: StageNode) -> None:
        """Its children wait for one thing less."""
        for child in self._children(node):
            state = self._states[child]
            state.waits -= 1
            if not state.waits and not state.lost:
                self._coming[child.stage] -= 1
                self._fresh[child.stage].append(child)
                self._inboxes[child.stage].put(SourceChanged())

    def _lose(self, node: StageNode) -> None:
        """What waits for it, and for that, will not be run."""
        ahead = [node]
        while ahead:
            for child in self._children(ahead.pop()):
                if not self._states[child].lost:
                    self._states[child].lost = True
                    self._coming[child.stage] -= 1
                    ahead.append(child)
                    self._inboxes[child.stage].put(SourceChanged())
