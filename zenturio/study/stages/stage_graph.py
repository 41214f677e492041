"""Stages (``AFTER "mesh" ON n``), and how far they have come.

A stage is a study of its own, named as a study of its files is. It is looked for beside the files
that wait for it: a file or folder of that name, or the file with that stem.

Experiments of a stage that agree in all parameters by which stages meet wait for the same ones and
are waited for by the same ones: they are one node here. So a million experiments that depend on a
thousand values are a graph of a thousand nodes, whose priorities are those of pM-S, exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from threading import RLock
from typing import Any, NamedTuple

from zenturio.annotate.file_selection import SIDE, is_study, may_have_directives
from zenturio.annotate.model import After, Application
from zenturio.annotate.scan import scan
from zenturio.errors import AnnotationError, Diagnostic, InputError, SpaceError, did_you_mean
from zenturio.experiment import Experiment, ExperimentGenerator, Outcome
from zenturio.experiment.experiment import SUCCEEDED
from zenturio.experiment.identity import framed_digest, recall_versions
from zenturio.expression.scalar_functions import text_of
from zenturio.space import Continuous, Point, Space, Zip
from zenturio.study.driver.experiment_source import PointSelection, select_points
from zenturio.study.driver.in_flight import ExperimentsAvailable, Inbox

AFTER = "AFTER "
"""Before the name of a stage, among the parts of the program that waits for it."""
DIGEST_DIGITS = 16
"""Hexadecimal digits that are kept of the digest of a program."""
MAX_LISTED = 1000
"""Elements of a set that are listed one by one; of a larger set, its size and its ends."""


@dataclass(frozen=True)
class StageLink:
    """An edge between stages: the earlier one, and the parameters that must agree."""

    stage: int
    on: tuple[str, ...]
    after: After


@dataclass(frozen=True)
class Stage:
    """An application of a pipeline; the stages that it waits for have lower numbers."""

    number: int
    application: Application
    links: tuple[StageLink, ...]
    level: int
    """The length of the longest chain of stages before it."""

    @property
    def name(self) -> str:
        return self.application.name


def stages_of(application: Application) -> tuple[Stage, ...]:
    """Return all stages that *application* waits for, earlier ones first, and itself as the last.

    Raise AnnotationError for a stage that is not there, InputError for two of the same name.
    """
    finder = _StageFinder(application)
    finder.add(application, _path_of(application), ())
    _check_distinct(finder.stages)
    return tuple(finder.stages)


_MOST_LISTED_POINTS = 100_000
"""Points of an earlier stage beyond which a check does not list them."""


def stage_refusals(stages: Sequence[Stage]) -> tuple[Diagnostic, ...]:
    """Return why *stages* cannot run one after the other, as far as a sample of points shows."""
    # Readers of recorded experiments need no session.
    from zenturio.study.driver.study_session import (  # noqa: PLC0415
        check_directives,
        sampled_points,
    )

    diagnostics: dict[object, Diagnostic] = {}
    for stage in stages:
        # That the last one has nothing to run is a warning: its points may be listed, or expanded.
        if stage.application.runs or stage is not stages[-1]:
            with _collected(diagnostics):
                check_directives(stage.application, stage.name)
    earlier = [stages[link.stage].application.space for stage in stages for link in stage.links]
    if any(space.finite and _is_large(space) for space in earlier):
        return tuple(diagnostics.values())
    graph = StageGraph(
        stages, PointSelection(stages[-1].application.space, 0, picked=()), grows=True
    )
    for points in sampled_points(stages[-1].application.space):
        with suppress(InputError):  # of the space itself, which is told of each application
            for number, point in enumerate(points):
                with _collected(diagnostics):
                    graph.request(number, point)
    return tuple(diagnostics.values())


def _is_large(space: Space) -> bool:
    """Whether *space* has more points than a check lists; they need not be counted for it."""
    first = islice(iter(space), _MOST_LISTED_POINTS + 1)
    return sum(1 for _ in first) > _MOST_LISTED_POINTS


@contextmanager
def _collected(diagnostics: dict[object, Diagnostic]) -> Iterator[None]:
    """Add the diagnostics of an error of the block, one for each place."""
    try:
        yield
    except InputError as error:
        for diagnostic in error.diagnostics:
            diagnostics.setdefault(diagnostic.place or diagnostic.message, diagnostic)


def built_on(stages: Sequence[Stage]) -> tuple[dict[str, str], ...]:
    """Return for each stage the digests of the earlier stages that its experiments depend on.

    Where an experiment may wait for several of a stage, the digest covers which points there are.
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
            # More points of an earlier stage are more inputs, so other results, but only for an
            # experiment that waits for several of them.
            if not _is_single(link, earlier):
                texts += _space_texts(earlier)
            parts[f"{AFTER}{earlier.name}"] = framed_digest(text.encode() for text in texts)[
                :DIGEST_DIGITS
            ]
        programs.append(parts)
    return tuple(programs)


def _is_single(link: StageLink, earlier: Application) -> bool:
    """Return whether no more than one experiment agrees in the parameters of *link*."""
    names = {parameter.name for parameter in earlier.space.dimensions}
    return earlier.repeat.count == 1 and names <= set(link.on)


def _space_texts(application: Application) -> list[str]:
    """Return what identifies the points of *application*, without listing a large space."""
    space, repeat = application.space, application.repeat
    # How many repeats results ask for is an outcome, as the bytes of files are.
    texts = [str(repeat.count), *([repeat.until.text] if repeat.until else [])]
    for parameter in space.dimensions:
        domain = parameter.domain
        if isinstance(domain, Continuous):
            texts += [parameter.name, str(domain)]
            continue
        size = domain.size if domain is not None else 0
        indices = range(size) if size <= MAX_LISTED else (0, size - 1)
        texts += [parameter.name, str(size)]
        texts += [domain.text(i) for i in indices] if domain is not None else []
    for constraint in space.constraints:
        texts += constraint.names if isinstance(constraint, Zip) else [constraint.text]
    return texts


def _path_of(application: Application) -> Path:
    """Return the file of an application, or its folder where it has several files."""
    return application.paths[0] if len(application.paths) == 1 else application.root.absolute()


@dataclass
class _StageFinder:
    """Reads each stage once, after the stages that it waits for."""

    last: Application
    stages: list[Stage] = field(default_factory=list)
    _numbers: dict[Path, int] = field(default_factory=dict)

    def add(self, application: Application, home: Path, waiting: Sequence[tuple[Path, str]]) -> int:
        """Add a stage and those before it; return its number.

        *waiting* is the chain of stages that led here, the nearest first.
        """
        chain = ((home, application.name), *waiting)
        links = tuple(self._link(after, home, chain) for after in application.after)
        for link in links:
            _check_names(link.after, self.stages[link.stage].application)
            _check_room(link.after, self.stages[link.stage].name, application)
        level = max((self.stages[link.stage].level + 1 for link in links), default=0)
        number = len(self.stages)
        self.stages.append(Stage(number, application, links, level))
        self._numbers[home.resolve()] = number
        return number

    def _scan(self, path: Path) -> Application:
        """Read an earlier stage; what was recorded of uses holds for all stages."""
        application = replace(scan(path), recorded_uses=self.last.recorded_uses)
        return recall_versions(application, self.last.versions)

    def _link(self, after: After, home: Path, chain: Sequence[tuple[Path, str]]) -> StageLink:
        path = _beside(after, home)
        for number, (ancestor, _) in enumerate(chain):
            if ancestor.resolve() == path.resolve():
                names = [name for _, name in reversed(chain[: number + 1])]
                circle = " after ".join([*names, names[0]])
                raise AnnotationError(
                    f"stages wait for each other: {circle}",
                    place=after.place,
                    hint="one of them must be first",
                )
        stage = self._numbers.get(path.resolve())
        number = self.add(self._scan(path), path, chain) if stage is None else stage
        return StageLink(number, after.on, after)


def _beside(after: After, home: Path) -> Path:
    """Return the file or folder that *after* names, beside *home*.

    A compiled program is often named like its source: a file of the exact name is a stage only if
    it has directives, or if no file with that stem has.
    """
    exact = home.parent / after.stage
    if exact.is_dir() or (exact.exists() and may_have_directives(exact)):
        return exact
    siblings = [
        path
        for path in sorted(home.parent.iterdir())
        if not path.name.startswith(".") and not path.name.endswith(SIDE) and path.is_file()
    ]
    matches = [path for path in siblings if path.stem == after.stage and path != exact]
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
    names = [path.stem if path.is_file() else path.name for path in home.parent.iterdir()]
    raise AnnotationError(
        f"there is no stage {after.stage!r} beside {home.name}",
        place=after.place,
        hint=did_you_mean(after.stage, [n for n in names if n != home.stem and not is_study(n)]),
    )


def _check_names(after: After, earlier: Application) -> None:
    """Raise AnnotationError where *after* names a parameter that *earlier* does not have."""
    names = [parameter.name for parameter in earlier.space.parameters]
    for name in after.on:
        if name not in names:
            raise AnnotationError(
                f"stage {earlier.name} has no parameter {name}",
                place=after.place,
                hint=did_you_mean(name, names),
            )


def _check_room(after: After, name: str, later: Application) -> None:
    """Raise AnnotationError where a file of *later* is in the way of the files of stage *name*."""
    for path in (*later.file_paths, *(link for link, _ in later.links)):
        if path.split("/")[0] in (name, f"{name}.csv"):
            raise AnnotationError(
                f"the files of stage {name} come into {name}/, where {path} is already",
                place=after.place,
                hint="rename one of them",
            )


def _check_distinct(stages: Sequence[Stage]) -> None:
    """Raise InputError if two stages would be the same study."""
    names: set[str] = set()
    for stage in stages:
        if stage.name in names:
            raise InputError(
                f"two stages are named {stage.name!r}", hint="rename the file of one of them"
            )
        names.add(stage.name)


Key = tuple[Any, ...]
NumberedPoint = tuple[int, Point]
"""A point, with its number in the space."""


class ExperimentGroup(NamedTuple):
    """The experiments of a stage that have the same values of the parameters in *key*."""

    stage: int
    key: Key


class FinishedExperiment(NamedTuple):
    """An experiment that succeeded, with what the later stages need of it."""

    number: int
    repeat: int
    digest: str
    values: Mapping[str, Any]
    attempt: int
    """The attempt whose files are used: another kind of machine may have results of its own."""
    former: str = ""
    """Its digest in the previous format, if there may be results under that."""


@dataclass
class _NodeState:
    points: list[NumberedPoint] = field(default_factory=list)
    unfinished: int = 0
    """Experiments that have not succeeded yet; a node with a failed one never gets to 0."""
    unfinished_parents: int = 0
    rank: int = 0
    """Priority of pM-S, lower first; see `_awaited_with` for when it falls."""
    is_lost: bool = False
    """Whether a node that it waits for failed, or was not run."""
    has_failed: bool = False
    """Whether one of its own experiments failed, or is not run."""
    finished: list[FinishedExperiment] = field(default_factory=list)


class StageGraph:
    """The nodes of all stages, and which of them are ready. Thread-safe."""

    def __init__(
        self, stages: Sequence[Stage], chosen: PointSelection, *, grows: bool = False
    ) -> None:
        """Run the points *chosen* of the last stage, and of earlier ones those that these need.

        If it *grows*, `request` adds further points of the last stage until that is closed.
        """
        self.stages = tuple(stages)
        self.grows = grows
        self._closed: set[int] = set()
        self._by_key: dict[StageLink, dict[Key, dict[ExperimentGroup, list[NumberedPoint]]]] = {}
        """The nodes that a link may lead to, as far as they were looked for."""
        self._lock = RLock()
        self._key_names = [self._key_names_of(stage) for stage in stages]
        self._states: dict[ExperimentGroup, _NodeState] = {}
        self._fresh: list[list[ExperimentGroup]] = [[] for _ in stages]
        self._raised: list[set[ExperimentGroup]] = [set() for _ in stages]
        self._inboxes: list[Inbox] = [SimpleQueue() for _ in stages]
        self._coming = [0] * len(stages)
        """For each stage, the nodes that wait and may still get all their inputs."""
        self._after: dict[ExperimentGroup, list[ExperimentGroup]] = {}
        self._before: dict[ExperimentGroup, list[tuple[StageLink, list[ExperimentGroup]]]] = {}
        # From the last to the first: a stage has only the points that later ones wait for.
        for stage in reversed(self.stages):
            last = stage is self.stages[-1]
            if last or not grows:
                self._add_nodes(stage, chosen if last else select_points(stage.application.space))
        self._link_nodes()

    def points(self, stage: int) -> PointSelection:
        """Return the points of *stage* that are to be run."""
        numbered = (s.points for node, s in self._states.items() if node.stage == stage)
        picked = tuple(point for points in numbered for _, point in points)
        return PointSelection(self.stages[stage].application.space, len(picked), picked=picked)

    def fresh(self, stage: int) -> list[tuple[ExperimentGroup, list[NumberedPoint]]]:
        """Return the nodes that became ready since the last call, with their points."""
        with self._lock:
            nodes, self._fresh[stage] = self._fresh[stage], []
            return [(node, self._states[node].points) for node in nodes]

    def raised(self, stage: int) -> set[ExperimentGroup]:
        """Return the nodes that became more urgent since the last call."""
        with self._lock:
            nodes, self._raised[stage] = self._raised[stage], set()
            return nodes

    def pending(self, stage: int) -> bool:
        """Return whether more nodes of *stage* may become ready."""
        with self._lock:
            return bool(self._fresh[stage]) or self._coming[stage] > 0 or self.grows

    def request(self, number: int, point: Point) -> ExperimentGroup:
        """Add a *point* of the last stage, and what it waits for; return its node.

        AnnotationError if an earlier stage has no experiment that agrees with it.
        """
        with self._lock:
            node = self.node(len(self.stages) - 1, point)
            self._grow(node, [(number, point)])
            return node

    def is_ready(self, node: ExperimentGroup) -> bool | None:
        """Return whether *node* has all its inputs; None if it never gets them."""
        with self._lock:
            state = self._states[node]
            return None if state.is_lost else not state.unfinished_parents

    def _grow(self, node: ExperimentGroup, points: list[NumberedPoint]) -> None:
        """Add *points* of *node*, and the node itself and its ancestors where they are new."""
        stage = self.stages[node.stage]
        is_new = node not in self._states
        state = self._states.setdefault(node, _NodeState())
        state.points += points
        state.unfinished += len(points) * len(stage.application.repeat.numbers)
        if not is_new:
            return
        for link in stage.links:
            parents = self._awaited_nodes(link, node)
            for parent, parent_points in parents.items():
                if parent not in self._states:
                    self._grow(parent, parent_points)
            self._link(node, link, list(parents))
            parent_states = [self._states[parent] for parent in parents]
            state.unfinished_parents -= sum(not parent.unfinished for parent in parent_states)
            state.is_lost |= any(parent.is_lost or parent.has_failed for parent in parent_states)
        state.has_failed = node.stage in self._closed
        if not state.is_lost:
            if state.unfinished_parents:
                self._coming[node.stage] += 1
            else:
                self._fresh[node.stage].append(node)
            self._inboxes[node.stage].put(ExperimentsAvailable())

    def _awaited_nodes(
        self, link: StageLink, node: ExperimentGroup
    ) -> dict[ExperimentGroup, list[NumberedPoint]]:
        """Return the nodes of the earlier stage of *link* that *node* waits for."""
        earlier = self.stages[link.stage].application
        values = self._cut(node, link.on)
        if earlier.space.finite:
            return self._linked(link).get(values, {})
        names = [parameter.name for parameter in earlier.space.dimensions]
        if missing := [name for name in names if name not in link.on]:
            raise AnnotationError(
                f"stage {earlier.name} has a continuous parameter, so its points cannot be listed",
                place=link.after.place,
                hint=f"name all of its parameters: ON {', '.join((*link.on, *missing))}",
            )
        agreed = dict(zip(link.on, values, strict=True))
        try:
            point = earlier.space.find({name: agreed[name] for name in names})
        except SpaceError:
            return {}
        parent = self.node(link.stage, point)
        is_agreed = self._cut(parent, link.on) == values  # what is derived may be another value
        return {parent: [(earlier.space.number(point), point)]} if is_agreed else {}

    def _linked(self, link: StageLink) -> dict[Key, dict[ExperimentGroup, list[NumberedPoint]]]:
        """Return the nodes of the earlier stage of *link* by the values that must agree."""
        if link not in self._by_key:
            nodes: dict[Key, dict[ExperimentGroup, list[NumberedPoint]]] = {}
            for numbered in select_points(self.stages[link.stage].application.space).numbered():
                node = self.node(link.stage, numbered[1])
                same = nodes.setdefault(self._cut(node, link.on), {})
                same.setdefault(node, []).append(numbered)
            self._by_key[link] = nodes
        return self._by_key[link]

    def blocked(self, stage: int) -> int:
        """Return how many points of *stage* never get their inputs."""
        with self._lock:
            states = (state for node, state in self._states.items() if node.stage == stage)
            return sum(len(s.points) for s in states if s.is_lost and s.unfinished_parents)

    def rank(self, node: ExperimentGroup) -> int:
        """Return the rank of *node*: lower ranks run first."""
        return self._states[node].rank

    def urgency(self, stage: int) -> Callable[[Experiment], tuple[int, ...]]:
        """Return the sort key of pM-S: by layer, then by rank, then as the run has it."""
        level = self.stages[stage].level

        def sort_key(experiment: Experiment) -> tuple[int, ...]:
            rank = self.rank(self.node(stage, experiment.values))
            position = experiment.position
            if position is None:
                return level, rank, experiment.index, experiment.repeat
            return level, rank, position.block, position.turn

        return sort_key

    def inputs(
        self, node: ExperimentGroup
    ) -> Iterator[tuple[StageLink, list[FinishedExperiment], bool]]:
        """Yield what *node* waited for by link, and whether that can only be one experiment."""
        for link, nodes in self._before.get(node, ()):
            earlier = self.stages[link.stage].application
            finished = [f for parent in nodes for f in self._states[parent].finished]
            count = sum(len(self._states[parent].points) for parent in nodes)
            # By number and repeat: the inputs must not depend on which experiment ended first.
            yield link, sorted(finished, key=lambda f: f[:2]), count * earlier.repeat.count == 1

    def complete(
        self, stage: int, experiment: Experiment, outcome: Outcome, spared: int = 0
    ) -> None:
        """Take in the last outcome of *experiment*; its children may become ready, or lost.

        *spared* is how many of the most repeats its point turned out not to need.
        """
        node = self.node(stage, experiment.values)
        with self._lock:
            state = self._states.get(node)
            if state is None:  # no later stage waits for it
                return
            # Also after a failure: ranks follow what has ended, whether or not it succeeded.
            for waiting in self._awaited_with(node):
                self._states[waiting].rank -= 1
                self._raised[waiting.stage].add(waiting)
            # Later stages do without the files of runs that warm up, so without these runs.
            if outcome.status in SUCCEEDED or experiment.repeat < 1:
                state.unfinished -= 1
            else:
                self._lose(node)
            state.unfinished -= spared
            if outcome.status == "ok":
                facts = FinishedExperiment(
                    experiment.index,
                    experiment.repeat,
                    outcome.digest,
                    experiment.values,
                    outcome.attempt,
                    experiment.former,
                )
                state.finished.append(facts)
            if not state.unfinished:
                self._release_children(node)

    def _awaited_with(self, node: ExperimentGroup) -> set[ExperimentGroup]:
        """Return the unfinished ancestors of the children of *node*: step 5 of pM-S.

        T. Ma, R. Buyya, SBAC-PAD 2005, section III-B; `zenturio.schedule` has it for tasks.
        """
        pending, ancestors = list(self._children(node)), set[ExperimentGroup]()
        while pending:
            for parent in self._parents(pending.pop()):
                if parent not in ancestors and not self._is_done(parent):
                    ancestors.add(parent)
                    pending.append(parent)
        return ancestors

    def close(self, stage: int) -> None:
        """Give up what waits for unfinished experiments of *stage*, which has ended."""
        with self._lock:
            self._closed.add(stage)
            if stage == len(self.stages) - 1 and self.grows:
                self.grows = False
                for inbox in self._inboxes:
                    inbox.put(ExperimentsAvailable())
            for node, state in self._states.items():
                if node.stage == stage and state.unfinished:
                    self._lose(node)

    def listen(self, stage: int, inbox: Inbox) -> None:
        """Put `ExperimentsAvailable` into *inbox* when a node of *stage* is ready, or lost."""
        with self._lock:
            self._inboxes[stage] = inbox
        # Nodes may have become ready before the driver listened.
        inbox.put(ExperimentsAvailable())

    def node(self, stage: int, values: Mapping[str, Any]) -> ExperimentGroup:
        """Return the node of the experiments of *stage* with these *values*."""
        return ExperimentGroup(stage, tuple(values[name] for name in self._key_names[stage]))

    def _key_names_of(self, stage: Stage) -> tuple[str, ...]:
        """Return the parameters in which *stage* must agree with any earlier or later one."""
        later = (link for waiting in self.stages for link in waiting.links)
        names = [n for link in later if link.stage == stage.number for n in link.on]
        return tuple(dict.fromkeys([*names, *(n for link in stage.links for n in link.on)]))

    def _add_nodes(self, stage: Stage, points: PointSelection) -> None:
        """Add the nodes of *stage* that later stages need, whose nodes are there already."""
        needed = self._needed_keys(stage.number)
        repeats = len(stage.application.repeat.numbers)
        for number, point in points.numbered():
            if needed is not None and not any(
                tuple(point[name] for name in on) in keys for on, keys in needed
            ):
                continue
            state = self._states.setdefault(self.node(stage.number, point), _NodeState())
            state.points.append((number, point))
            state.unfinished += repeats

    def _needed_keys(self, stage: int) -> list[tuple[tuple[str, ...], set[Key]]] | None:
        """Return by which names and values later stages wait for *stage*; None for the last."""
        if stage == len(self.stages) - 1:
            return None
        needed = []
        for later in self.stages:
            for link in later.links:
                if link.stage == stage:
                    nodes = [node for node in self._states if node.stage == later.number]
                    needed.append((link.on, {self._cut(node, link.on) for node in nodes}))
        return needed

    def _link_nodes(self) -> None:
        """Connect all nodes with those that they wait for; those without any are ready."""
        for stage in self.stages:
            for link in stage.links:
                # By the parameters of this link only: a node of the earlier stage may have more.
                earlier: dict[Key, list[ExperimentGroup]] = {}
                for node in self._states:
                    if node.stage == link.stage:
                        earlier.setdefault(self._cut(node, link.on), []).append(node)
                for node in [n for n in self._states if n.stage == stage.number]:
                    self._link(node, link, earlier.get(self._cut(node, link.on), []))
        for node, state in self._states.items():
            if state.unfinished_parents:
                self._coming[node.stage] += 1
            else:
                self._fresh[node.stage].append(node)

    def _link(self, node: ExperimentGroup, link: StageLink, parents: list[ExperimentGroup]) -> None:
        if not parents:
            where = ", ".join(
                f"{name} = {text_of(value)}"
                for name, value in zip(link.on, self._cut(node, link.on), strict=True)
            )
            name = self.stages[link.stage].name
            raise AnnotationError(
                f"stage {name} has no experiment where {where or 'anything is'}",
                place=link.after.place,
                hint=f"add this point to {name}, or exclude it here with a CONSTRAINT",
            )
        self._before.setdefault(node, []).append((link, parents))
        self._states[node].unfinished_parents += len(parents)
        for parent in parents:
            self._after.setdefault(parent, []).append(node)

    def _cut(self, node: ExperimentGroup, names: Sequence[str]) -> Key:
        """Return the values of the parameters *names* in the key of *node*."""
        key_names = self._key_names[node.stage]
        return tuple(node.key[key_names.index(name)] for name in names)

    def _children(self, node: ExperimentGroup) -> list[ExperimentGroup]:
        return self._after.get(node, [])

    def _parents(self, node: ExperimentGroup) -> list[ExperimentGroup]:
        return [parent for _, parents in self._before.get(node, ()) for parent in parents]

    def _is_done(self, node: ExperimentGroup) -> bool:
        return not self._states[node].unfinished

    def _release_children(self, node: ExperimentGroup) -> None:
        """Let the children of *node*, which is done, wait for one parent less."""
        for child in self._children(node):
            state = self._states[child]
            state.unfinished_parents -= 1
            if not state.unfinished_parents and not state.is_lost:
                self._coming[child.stage] -= 1
                self._fresh[child.stage].append(child)
                self._inboxes[child.stage].put(ExperimentsAvailable())

    def _lose(self, node: ExperimentGroup) -> None:
        """Mark all descendants of *node* as lost: they never get their inputs."""
        self._states[node].has_failed = True
        pending = [node]
        while pending:
            for child in self._children(pending.pop()):
                # Counted once, though it may be reached over several parents.
                if not self._states[child].is_lost:
                    self._states[child].is_lost = True
                    self._coming[child.stage] -= 1
                    pending.append(child)
                    self._inboxes[child.stage].put(ExperimentsAvailable())
