"""Where the experiments of a run come from: points, selected and in order (see `search_source`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import chain, count, islice, product
from time import monotonic
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar, get_args, runtime_checkable

from zenturio.errors import InputError, did_you_mean
from zenturio.experiment import Experiment, ExperimentGenerator, Outcome
from zenturio.experiment.aggregates import StopReason
from zenturio.experiment.experiment import RunPosition, own_files
from zenturio.record import Lease, Repository
from zenturio.space.point import PointBlock
from zenturio.study.driver.experiment_states import Proposed

if TYPE_CHECKING:
    from zenturio.space import Point, Space
    from zenturio.study.driver.cached_points import CachedPoints, LoadCachedPoints


# Order: in blocks, at random, or sorted
#
# Whatever disturbs a machine lasts for a while. If the repeats of a point ran one after the other,
# a slow minute would look like an effect of its parameters; the same is true of points in the order
# of their values. So each *block* runs every point once, in an order drawn at random (R. A. Fisher,
# The Design of Experiments, 1935, on randomised blocks).
#
# Points are taken in windows, so that a space need not be counted and all drivers of a study, which
# share its seed, go through the same order.

OrderKind = Literal["blocks", "random", "sorted"]
ORDERS: tuple[OrderKind, ...] = get_args(OrderKind)
WINDOW = 2048
"""Points that are shuffled together, at most."""
PAIRS = 65_536
"""Pairs of a point and a repeat that ``random`` shuffles together, about."""

Item = TypeVar("Item")


@dataclass(frozen=True)
class RunOrder:
    """An order of points and repeats; the same *seed* gives the same order."""

    kind: OrderKind = "sorted"
    seed: str = ""

    @classmethod
    def drawn(
        cls, kind: OrderKind, repository: Repository, lease: Lease, round_: int | None = None
    ) -> RunOrder:
        """Return the order of the newest round of a study: the same one for each driver.

        *round_*: the one that was begun, or taken up, since the *lease* on the study was acquired.
        """
        if kind == "sorted":
            return cls(kind)
        seed = lease.order_seed if round_ is None else ""
        return cls(kind, seed or repository.order_seed(lease.study))

    def arrange(
        self, points: Iterable[Item], repeats: int
    ) -> Iterator[tuple[Item, int, RunPosition]]:
        """Yield each of *points* with each repeat, from 1, and where it stands in the order."""
        source = iter(points)
        for window in count():
            batch = list(islice(source, WINDOW))
            if not batch:
                return
            for at, repeat, position in self.arrange_window(window, len(batch), repeats):
                yield batch[at], repeat, position

    def arrange_window(
        self, window: int, size: int, repeats: int
    ) -> Iterator[tuple[int, int, RunPosition]]:
        """Yield the same of one window, of *size* points by their numbers in it.

        All windows but the last have WINDOW points.
        """
        if self.kind == "sorted":
            places = product(range(size), range(1, repeats + 1))
            for turn, (at, repeat) in enumerate(places, window * WINDOW * repeats + 1):
                yield at, repeat, RunPosition("sorted", 1, turn)
            return
        for first, count_of_repeats in self._blocks(size, repeats):
            # Blocks of later windows go on counting: each has a number of its own.
            block = window * repeats + first
            for turn, place in enumerate(self._shuffled(size * count_of_repeats, block), 1):
                repeat, at = divmod(place, size)
                yield at, first + repeat, RunPosition(self.kind, block, turn)

    def key(self, number: int, repeat: int) -> tuple[float, ...]:
        """Return what sorts experiments that become ready one after the other.

        *number* is that of the point in its space.
        """
        if self.kind == "sorted":
            return number, repeat
        draw = self._draw(repeat, number)
        return (repeat, draw) if self.kind == "blocks" else (draw,)

    def places(self, size: int, block: int) -> list[int]:
        """Return the places 0 to *size* - 1 of a block in their order."""
        return list(range(size)) if self.kind == "sorted" else self._shuffled(size, block)

    def _shuffled(self, size: int, block: int) -> list[int]:
        return sorted(range(size), key=lambda item: self._draw(block, item))

    def _draw(self, block: int, item: int) -> int:
        """Return a number that is drawn by the seed: the same on every machine and version."""
        text = f"{self.seed}/{block}/{item}"
        return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")

    def _blocks(self, points: int, repeats: int) -> Iterator[tuple[int, int]]:
        """Yield the first repeat of each block of a window, and how many it has."""
        size = max(1, PAIRS // points) if self.kind == "random" else 1
        for first in range(1, repeats + 1, size):
            yield first, min(size, repeats + 1 - first)


def choose_order(text: str) -> OrderKind:
    """Return the order that ``--order`` names."""
    for kind in ORDERS:
        if kind == text:
            return kind
    raise InputError(
        f"--order {text}: neither blocks, random nor sorted", hint=did_you_mean(text, ORDERS)
    )


# Selection: all points, the first ones, some drawn at random, or one

MANY = 1_000_000
"""Running more points than this requires an explicit request."""


@dataclass(frozen=True)
class PointSelection:
    """Points of a space in their order, and how many they are (at most, where that is unknown)."""

    space: Space
    count: int
    limit: int | None = None
    picked: tuple[Point, ...] | None = None

    @classmethod
    def none(cls, space: Space) -> PointSelection:
        """No point, of a space of any kind: a search asks for its own."""
        return cls(space, 0, picked=())

    def numbered(self) -> Iterator[tuple[int, Point]]:
        """Yield each point with its number in the space; -1 where the space is not counted."""
        if self.picked is None:
            return enumerate(self)
        return ((self.space.number(point), point) for point in self.picked)

    def blocks(self, size: int) -> Iterator[PointBlock]:
        """Yield the points *size* at a time; the last ones may be fewer."""
        if self.picked is None:
            yield from self.space.blocks(size, self.limit)
            return
        for start in range(0, len(self.picked), size):
            points = self.picked[start : start + size]
            yield PointBlock(len(points), points.__iter__)

    def __iter__(self) -> Iterator[Point]:
        if self.picked is not None:
            return iter(self.picked)
        return islice(iter(self.space), self.limit)


def select_points(
    space: Space,
    *,
    limit: int | None = None,
    sample: int | None = None,
    seed: int = 0,
    index: int | None = None,
    design: str = "",
) -> PointSelection:
    """Return the points that the options name; an error where the whole would never end."""
    if sum(option is not None for option in (limit, sample, index, design or None)) > 1:
        raise InputError(
            "--limit, --sample, --design and --index exclude each other",
            hint="give only one of them",
        )
    if design:
        from zenturio.search.designs import Design  # noqa: PLC0415 - most runs have none

        points = tuple(dict.fromkeys(Design.read(design, seed).points(space)))
        return PointSelection(space, len(points), picked=points)
    if sample is not None:
        picked = tuple(space.sample(sample, seed))
        return PointSelection(space, len(picked), picked=picked)
    if not space.finite:
        raise InputError(
            "the space is continuous: it has no first point and no last",
            hint="draw some of its points: --sample 100; search it: --search --budget 100",
        )
    if index is not None:
        if index >= space.size:
            raise InputError(
                f"--index {index}: there are only {space.size} points",
                hint=f"they are numbered from 0 to {space.size - 1}",
            )
        return PointSelection(space, 1, picked=(space.point(index),))
    if limit is None:
        _refuse_too_many(space)
    if limit is None:
        return PointSelection(space, space.size)
    # The first points can be walked without knowing how many there are.
    return PointSelection(space, min(limit, space.size) if space.is_counted else limit, limit=limit)


def _refuse_too_many(space: Space) -> None:
    """Refuse a space of more than MANY points; where that is certain anyway, without counting."""
    least = 0 if space.is_counted else space.at_least()
    if least > MANY:
        digits = max(0, len(str(least)) - 3)
        number, all_of_them = f"more than {least // 10**digits * 10**digits:,}", "N"
    else:
        number, all_of_them = f"{space.size:,}", str(space.size)
    if least > MANY or space.size > MANY:
        raise InputError(
            f"{number} points are too many to run",
            hint="take the first ones (--limit 1000), draw some (--sample 1000), or confirm that "
            f"you want all: --limit {all_of_them}",
        )


# Sources

HELD = 32 * 2**20
"""Bytes of filled files that are held at the most for those that wait."""
SPELL = 0.5
"""Seconds that are spent at the most on making experiments while others wait to be recorded."""


class ExperimentSource(Protocol):
    """Yields the experiments to run, and receives their outcomes."""

    def __iter__(self) -> Iterator[Experiment | None]:
        """Yield the experiments that are ready; a later call yields those that became ready since.

        None means that no experiment is ready yet but more will come: the driver does other work.
        """
        ...

    @property
    def over(self) -> bool:
        """Whether nothing more comes when what is out has landed."""
        ...

    @property
    def expecting(self) -> bool:
        """Whether more may come although nothing of this source is out."""
        ...

    @property
    def total(self) -> int:
        """How many there are in all, as far as it can be known now."""
        ...

    @property
    def ahead(self) -> int:
        """How many may be made before there is room for them."""
        ...

    def complete(self, experiment: Experiment, outcome: Outcome) -> None:
        """Note that the outcome of an experiment is final."""
        ...


@runtime_checkable
class SkipsCached(Protocol):
    """A source that need not make experiments of points that are cached."""

    def skip_cached(self, load: LoadCachedPoints) -> None:
        """Skip what *load* returns, which is called once, before anything is skipped."""
        ...


@runtime_checkable
class JudgesOutcomes(Protocol):
    """A source that has a say in what an outcome is."""

    def judge(self, experiment: Experiment, outcome: Outcome) -> Outcome:
        """Return what *outcome* is in view of others; it is not recorded yet."""
        ...


@runtime_checkable
class TracksArrivalOrder(Protocol):
    """A source whose experiments depend on the order in which outcomes arrive."""

    def arrived(self, experiment: Experiment) -> RunPosition | None:
        """Return where an outcome stands among all, which is recorded with it.

        Called in the order of `complete`, and before it; again where that could not be recorded.
        """
        ...


@runtime_checkable
class RunsAsNeeded(Protocol):
    """A source for which results say how often a point runs."""

    @property
    def stops(self) -> Mapping[StopReason, int]:
        """How many points needed no more runs, by the reason."""
        ...


class Proposals:
    """Experiments of a source, taken in batches that are not too many, too large, or too slow."""

    def __init__(self, source: ExperimentSource) -> None:
        self._source = source
        self._made: list[Experiment] = []

    def make(self, count: int) -> Proposed:
        """Take *count* experiments, or as many as the source likes to make ahead.

        What was made before the source raised an error belongs to the next batch.
        """
        size = 0
        counted: set[int] = set()
        end = monotonic() + SPELL
        most = max(count, self._source.ahead)
        for experiment in self._source:
            if experiment is None:
                if monotonic() > end:
                    return Proposed(self._take(), exhausted=False, over=False)
                continue
            self._made.append(experiment)
            for filed in own_files(experiment.files):
                if filed.content is not None and id(filed.content) not in counted:
                    counted.add(id(filed.content))  # many experiments share what is not filled
                    size += len(filed.content)
            if len(self._made) >= most or size > HELD or monotonic() > end:
                return Proposed(self._take(), exhausted=False, over=False)
        return Proposed(self._take(), exhausted=True, over=self._source.over)

    def _take(self) -> list[Experiment]:
        proposals, self._made = self._made, []
        return proposals


class PointsInOrder:
    """Experiments in a given order, each made when it is asked for."""

    over = True
    expecting = False
    ahead = WINDOW

    def __init__(self, experiments: Iterator[Experiment | None], total: int) -> None:
        self.total = total
        self._experiments = experiments

    def __iter__(self) -> Iterator[Experiment | None]:
        return self._experiments

    def complete(self, experiment: Experiment, outcome: Outcome) -> None:
        """Do nothing: an exhaustive run does not depend on outcomes."""


class ArrangedPoints(PointsInOrder):
    """The repeats of points in the order of a run: sorted, until `arrange` names another one."""

    def __init__(
        self, points: PointSelection, generator: ExperimentGenerator, repeats: int, total: int
    ) -> None:
        super().__init__(self._arranged(RunOrder()), total)
        self._windows = enumerate(points.blocks(WINDOW))
        self._generator = generator
        self._repeats = repeats
        self._first: list[tuple[int, PointBlock]] = []
        self._tried: list[Experiment] = []
        self._load: LoadCachedPoints | None = None

    def try_first(self) -> Iterable[Experiment]:
        """Return the experiments of the first points, made now; they come in their turn, too."""
        self._first = list(islice(self._windows, 1))
        for _, block in self._first:
            self._tried = [self._generator.experiment(point, 1) for point in block.points]
        return self._tried

    def arrange(self, order: RunOrder) -> None:
        """Go through the points in *order* from now on."""
        self._experiments = self._arranged(order)

    def skip_cached(self, load: LoadCachedPoints) -> None:
        """Make no experiments of points that are cached, as far as *load* returns them.

        Those of the first window are made and looked up all the same: the place learns of them.
        """
        self._load = load

    def _arranged(self, order: RunOrder) -> Iterator[Experiment | None]:
        cached: CachedPoints | None = None
        for window, block in chain(self._first, self._windows):
            if window == 1 and self._load:
                cached = self._load(self._generator.identity)
            skipped = cached and [
                cached.take(self._generator.keys(block, repeat))
                for repeat in range(1, self._repeats + 1)
            ]
            if skipped and all(mask.all() for mask in skipped):
                yield None
                continue
            for at, repeat, position in order.arrange_window(window, len(block), self._repeats):
                if skipped and skipped[repeat - 1][at]:
                    continue
                if repeat == 1 and window == 0 and self._tried:
                    yield replace(self._tried[at], position=position)
                else:
                    yield self._generator.experiment(block.points[at], repeat, position)
            self._tried = []
