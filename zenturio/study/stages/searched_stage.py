"""The search of a stage: what it waits for runs when a point first needs it, and once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zenturio.annotate.model import Goal, Repeat
from zenturio.experiment import Experiment, ExperimentGenerator, Outcome
from zenturio.experiment.experiment import RunPosition
from zenturio.record import Repository
from zenturio.space import Point
from zenturio.study.driver.cached_points import LoadCachedPoints
from zenturio.study.driver.search_source import SearchSource, SearchSpec
from zenturio.study.stages.stage_graph import ExperimentGroup, StageGraph
from zenturio.study.stages.stage_inputs import InputReader


class SearchedStage(SearchSource):
    """The last stage's experiments, as a search asks for them and when their inputs are there.

    A point whose inputs cannot be made, because an earlier experiment failed, failed for the
    search. It has no outcome: nothing of it was run, and so no recorded place in the order of
    arrival. It counts when all points that were proposed before it have, which other runs of the
    search can tell, too.
    """

    def __init__(
        self,
        graph: StageGraph,
        repository: Repository,
        search: SearchSpec,
        goals: Sequence[Goal],
        generator: ExperimentGenerator,
        repeat: Repeat,
        planned: int,
    ) -> None:
        space = graph.stages[-1].application.space
        shared = tuple(link.on for link in graph.stages[-1].links if link.on)
        loop = search.loop(space, goals, shared=shared)
        super().__init__(loop, goals, generator, repeat, planned, search.lag(space))
        self._graph = graph
        self._reader = InputReader(graph, repository)
        self._slots = max(search.slots, 1)
        self._held: list[tuple[Experiment, ExperimentGroup]] = []
        """Experiments that wait for their inputs."""
        self._without_inputs: list[Experiment] = []
        """Experiments whose inputs cannot be made, and which do not count yet."""
        self._nodes: dict[Point, ExperimentGroup] = {}
        """Of the points that were asked for."""
        self._own: dict[str, Experiment] = {}
        """Experiments without their inputs, by the digests that they have with them."""
        self._digests: dict[int, str] = {}
        """The other way round, by their identity."""

    @property
    def expecting(self) -> bool:  # type: ignore[override] # not a constant here
        return bool(self._held or self._without_inputs)

    @property
    def over(self) -> bool:
        return super().over and not self._held and not self._without_inputs

    def skip_cached(self, load: LoadCachedPoints) -> None:
        """Look up each experiment: its inputs are a part of what names it."""

    def __iter__(self) -> Iterator[Experiment | None]:
        yield from self._released()
        if len(self._held) >= self._slots:
            return
        for experiment in super().__iter__():
            if experiment is None:
                yield None
                continue
            point = self.point_of(experiment)
            if point not in self._nodes:
                self._nodes[point] = self._graph.request(len(self._nodes), point)
            self._held.append((experiment, self._nodes[point]))
            yield from self._released()
            if len(self._held) >= self._slots:
                return

    def arrived(self, experiment: Experiment) -> RunPosition | None:
        own = self._own.get(experiment.digest)
        return None if own is None else super().arrived(own)

    def complete(self, experiment: Experiment, outcome: Outcome) -> None:
        own = self._own.pop(experiment.digest, None)
        if own is not None:
            super().complete(own, outcome)
            self._count_without_inputs()

    def _digest_of(self, experiment: Experiment) -> str:
        return self._digests.get(id(experiment), "")

    def _is_first(self, experiment: Experiment) -> bool:
        return id(experiment) not in self._digests or super()._is_first(experiment)

    def _add(self, experiment: Experiment) -> None:
        # Before their inputs are there, experiments of several points may be equal.
        self._ready.append(experiment)
        self._made_count += 1

    def _complete(self, experiment: Experiment, outcome: Outcome) -> None:
        super()._complete(experiment, outcome)
        self._digests.pop(id(experiment), None)

    def _count_without_inputs(self) -> None:
        """Tell the search of points that have no inputs and whose turn it is."""
        while self._without_inputs and not self.loop.is_over:
            first = min(self._without_inputs, key=self._run)
            lowest = min(pending.numbers[0] for pending in self._pending_points.values())
            if self.arrivals is not None and self._run(first)[0] > lowest + 1:
                return
            self._without_inputs.remove(first)
            super().complete(first, Outcome(first.digest, "failed"))

    def _released(self) -> Iterator[Experiment]:
        """Yield experiments whose inputs are there; tell the search of those that never run."""
        while (experiment := self._take_ready()) is not None:
            yield experiment

    def _take_ready(self) -> Experiment | None:
        if self.loop.is_over:  # by a rule that ends it early
            self._held.clear()
            self._without_inputs.clear()
        for waiting in list(self._held):
            experiment, node = waiting
            is_ready = self._graph.is_ready(node)
            if is_ready:
                self._held.remove(waiting)
                ready = self._reader.attach(experiment, node)
                self._digests[id(experiment)] = ready.digest
                if self._is_run(experiment):
                    self._own[ready.digest] = experiment
                    return ready
                self._made_count -= 1
            if is_ready is None:
                self._held.remove(waiting)
                self._without_inputs.append(experiment)
                self._count_without_inputs()
        return None
