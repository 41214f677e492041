"""What a repository knows of a program when a search of it begins."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice

from zenturio.annotate.model import Goal
from zenturio.errors import InputError, SpaceError
from zenturio.experiment import Experiment, ExperimentGenerator, Outcome
from zenturio.experiment.aggregates import mean
from zenturio.experiment.experiment import Kinds
from zenturio.expression import Value
from zenturio.quantities import amount
from zenturio.record import ExperimentState, Repository
from zenturio.record.entities import ColumnRequest
from zenturio.search import Scores
from zenturio.space import Point, Space
from zenturio.study.driver.experiment_states import LOOK_UPS
from zenturio.study.driver.progress import scalars, score, score_of_values
from zenturio.study.driver.search_source import SearchSpec, mean_scores

MOST_KNOWN, MOST_COMPARED = 1000, 5000
"""Known points that a search begins with at the most, and points whose files are filled to see
whether they are known."""
MOST_ADVICE, BEST_ADVICE = 300, 100
"""Results of another version or machine that advise a search at the most, and how many of them are
its best ones; the others are spread over all ranks."""
REPEATS = "/"
"""Before the number of repeats of a known point that has not all of them."""
ABBREVIATED = 16
"""Characters of a digest in the note of a search."""


class KnownPoints:
    """Points of a space whose experiments have outcomes in a repository, from any study of it.

    An experiment's digest stands for the program, its inputs and its environment. So outcomes are
    those of the same program, whatever the study was called.
    """

    def __init__(
        self,
        repository: Repository,
        generator: ExperimentGenerator,
        goals: Sequence[Goal],
        least: int = 1,
    ) -> None:
        """Points count that have *least* repeats or more, without a gap from the first one on."""
        self._repository = repository
        self._generator = generator
        self._goals = goals
        self._least = least

    def collect(
        self, space: Space, kinds: Kinds, frozen: Collection[str] | None = None
    ) -> dict[str, tuple[Point, Scores]]:
        """Return known points and their scores by abbreviated digest, on *kinds* of machine.

        Only those in *frozen*, if it is not None.
        """
        if frozen is not None and not frozen:
            return {}
        expected = frozenset(frozen or ())
        counts = dict(key.partition(REPEATS)[::2] for key in expected)
        known: dict[str, tuple[Point, Scores]] = {}
        points = list(self._candidates(space))
        # Of more points than can be known those are drawn that are nowhere in particular; those of
        # a frozen list may be anywhere.
        random.Random(0).shuffle(points)  # noqa: S311 - not for secrets
        compared, limit = (MOST_COMPARED, MOST_KNOWN) if frozen is None else (None, len(expected))
        candidates = iter(points[:compared])
        while len(known) < limit and (batch := list(islice(candidates, LOOK_UPS))):
            experiments = [tuple(self._generator.experiments(point)) for point in batch]
            digests = [
                digest
                for repeats in experiments
                for experiment in repeats
                for digest in experiment.digests
            ]
            outcomes = self._repository.find_outcomes(digests, kinds=kinds)
            for point, repeats in zip(batch, experiments, strict=True):
                digest = repeats[0].digest[:ABBREVIATED]
                most = counts.get(digest) or len(repeats)
                measured = self._measured(repeats[: int(most)], outcomes)
                is_whole = len(measured) == len(repeats)
                key = digest if is_whole else f"{digest}{REPEATS}{len(measured)}"
                scores = self._scores(measured)
                if scores is not None and (frozen is None or key in expected):
                    known[key] = point, scores
        if frozen is None:
            return known
        return {key: known[key] for key in frozen if key in known}

    def _candidates(self, space: Space) -> Iterator[Point]:
        """Yield points that studies with the same parameters have results of."""
        names = [parameter.name for parameter in space.dimensions]
        seen: set[Point] = set()
        for study in self._repository.studies():
            fields = self._repository.definition(study.name).parameters
            if not {field.name for field in fields}.issuperset(names):
                continue
            for page in self._repository.column_pages(
                study.name, ColumnRequest(names, (), ("ok", "failed", "wrong", "timeout"))
            ):
                columns = [page.parameters[name] for name in names]
                for values in zip(*columns, strict=True):
                    with suppress(SpaceError):
                        point = space.find(dict(zip(names, values, strict=True)))
                        if point not in seen:
                            seen.add(point)
                            yield point

    @staticmethod
    def _measured(
        repeats: Sequence[Experiment], outcomes: Mapping[str, Outcome]
    ) -> list[tuple[Experiment, Outcome]]:
        """Return the first of the *repeats*, as far as they have outcomes."""
        measured = []
        for experiment in repeats:
            matches = [outcomes[digest] for digest in experiment.digests if digest in outcomes]
            if not matches or matches[0].status == "cancelled":
                break
            measured.append((experiment, matches[0]))
        return measured

    def _scores(self, measured: Sequence[tuple[Experiment, Outcome]]) -> Scores | None:
        """Return the mean scores of a point; None if too few of its repeats were measured."""
        if len(measured) < self._least:
            return None
        return mean_scores(
            [
                tuple(score(goal.expression, experiment.values, outcome) for goal in self._goals)
                for experiment, outcome in measured
                if outcome.status == "ok"
            ]
        )


def collect_advice(
    repository: Repository, study: str, space: Space, goal: Goal
) -> tuple[tuple[tuple[Value, ...], float], ...]:
    """Return values and scores of points of *space* in *study*, the best first.

    They are those of the kind of machine that has the most. InputError if *study* has no results
    of this space and *goal*, NotFoundError if there is no such study.
    """
    fields = {field.name for field in repository.definition(study).parameters}
    names = [parameter.name for parameter in space.dimensions]
    if missing := [name for name in names if name not in fields]:
        raise InputError(
            f"--learn-from {study}: it has no parameter {', '.join(missing)}",
            hint="name a study with all parameters of this one",
        )
    measured: defaultdict[int, defaultdict[tuple[Value, ...], list[float]]]
    measured = defaultdict(lambda: defaultdict(list))  # by kind of machine, then by point
    for machine, values, number in _measured(repository, study, names, goal):
        measured[machine][values].append(number)
    largest: Mapping[tuple[Value, ...], list[float]]
    largest = max(measured.values(), key=len, default={})
    scores = {values: mean(repeats) or 0.0 for values, repeats in largest.items()}
    ranked = sorted(scores.items(), key=lambda pair: pair[1], reverse=goal.direction == "maximize")
    advice = [pair for pair in ranked if _is_point(space, dict(zip(names, pair[0], strict=True)))]
    if not advice:
        raise InputError(
            f"--learn-from {study}: none of its results is a point of this space with a number for"
            f" {goal.expression.text}",
            hint=f"see what it has: zen results {study}",
        )
    rest = advice[BEST_ADVICE:]
    step = max(-(-len(rest) // (MOST_ADVICE - BEST_ADVICE)), 1)
    return (*advice[:BEST_ADVICE], *rest[::step])


def _measured(
    repository: Repository, study: str, names: Sequence[str], goal: Goal
) -> Iterator[tuple[int, tuple[Value, ...], float]]:
    """Yield the kind of machine, the values and the score of each result that has a score."""
    needed = goal.expression.names
    states: tuple[ExperimentState, ...] = ("ok",)
    request = ColumnRequest({*names, *needed}, needed, states)
    for page in repository.column_pages(study, request):
        for row, machine in enumerate(page.machines):
            values = {name: column[row] for name, column in page.parameters.items()}
            metrics = {name: column[row] for name, column in page.metrics.items()}
            known = {name: value for name, value in metrics.items() if value is not None}
            number = score_of_values(goal.expression, {**values, **scalars(known)})
            if number is not None:
                yield machine, tuple(values[name] for name in names), number


def _is_point(space: Space, values: Mapping[str, Value]) -> bool:
    try:
        space.find(values)
    except SpaceError:
        return False
    return True


def known_notes(search: SearchSpec, known: Mapping[Point, Scores]) -> tuple[str, ...]:
    """Return what is said of the results that a search begins with."""
    notes = []
    if known:
        verb = "is" if len(known) == 1 else "are"
        notes.append(f"the search starts with {amount(len(known), 'point')} that {verb} known")
    if search.learn_from:
        notes.append(
            f"{amount(len(search.advice), 'point')} of {search.learn_from} advise the search: its"
            " best ones are tried where its ranks agree with the results here"
        )
    return tuple(notes)
