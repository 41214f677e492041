"""Which host is best for a job, and whether it is worth to move there: pure decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from zenturio.errors import ExpressionError, InputError, Passage
from zenturio.execute.hosts.progress_profile import ProgressProfile
from zenturio.experiment import Experiment
from zenturio.experiment.experiment import value_at
from zenturio.expression import Expression, Value, parse

HostFacts = Mapping[str, Value]


@dataclass(frozen=True)
class JobRequirements:
    """What a job asks of a host: it may be said anew while it runs."""

    requires: tuple[Expression, ...] = ()
    rank: Expression | None = None
    values: Mapping[str, Value] = field(default_factory=dict)

    @staticmethod
    def of(
        experiment: Experiment, require: Expression | None = None, rank: Expression | None = None
    ) -> JobRequirements:
        """Return those of its directives.

        *require* of every job, *rank* of those that have none.
        """
        recipe = experiment.recipe
        additional = (require,) if require is not None else ()
        return JobRequirements(
            (*recipe.requires, *additional), recipe.rank or rank, experiment.values
        )

    def replaced_by(self, text: str) -> JobRequirements:
        """As the program writes it: lines of REQUIRE and RANK, which replace what was said."""
        requires: list[Expression] = []
        rank = self.rank
        for line in filter(None, map(str.strip, text.splitlines())):
            word, _, rest = line.partition(" ")
            if word.upper() == "REQUIRE":
                requires.append(parse(Passage.of(rest, "$ZEN_REQUIRE")))
            elif word.upper() == "RANK":
                rank = parse(Passage.of(rest, "$ZEN_REQUIRE"))
            elif not line.startswith("#"):
                raise InputError(f"{line!r}", hint="write REQUIRE or RANK, and an expression")
        return replace(self, requires=tuple(requires), rank=rank)

    def is_met_by(self, facts: HostFacts, names: Iterable[str] = ()) -> bool:
        """Return whether a host is as it is required.

        Names that only others have are NULL there.
        """
        return all(
            self._holds(expression, _with_nulls(facts, names)) for expression in self.requires
        )

    def score(self, facts: HostFacts, names: Iterable[str] = ()) -> float:
        """Return the host's rank: the speed, where nobody says what is better."""
        if self.rank is None:
            rank = facts.get("speed")
        else:
            rank = value_at(self.rank, self.values, host=_with_nulls(facts, names))
        if isinstance(rank, str) and self.rank is not None:
            message = f"a rank is a number, but this is {rank!r:.40}"
            raise _requirement_error(self.rank, message, "the higher, the better: RANK host.speed")
        return float(rank) if isinstance(rank, int | float) else float("-inf")

    def _holds(self, require: Expression, facts: HostFacts) -> bool:
        value = value_at(require, self.values, host=facts)
        if value is None or isinstance(value, bool):
            return bool(value)
        message = f"a requirement is true or false, but this is {value!r:.40}"
        raise _requirement_error(require, message, "compare it with something, such as '... > 0'")


def _requirement_error(expression: Expression, message: str, hint: str) -> ExpressionError:
    place = expression.passage.place(0, len(expression.text))
    return ExpressionError(message, place=place, hint=hint)


def _with_nulls(facts: HostFacts, names: Iterable[str]) -> HostFacts:
    return {**dict.fromkeys(names), **facts}


def best_host(
    requirements: JobRequirements, hosts: Sequence[HostFacts], names: Iterable[str] = ()
) -> int | None:
    """The host with the highest rank of those that are as required; the freest of equals.

    One of which something cannot be computed (its load is 0, and somebody divides) is none of them;
    ExpressionError where that is so for all.
    """
    names = list(names)
    scores: dict[int, tuple[float, float, int]] = {}
    faults = []
    for i, facts in enumerate(hosts):
        try:
            if requirements.is_met_by(facts, names):
                scores[i] = (
                    requirements.score(facts, names),
                    _number_or_zero(facts.get("free")),
                    -i,
                )
        except ExpressionError as error:
            faults.append(error)
    if faults and len(faults) == len(hosts):
        raise faults[0]
    return max(scores, key=scores.__getitem__, default=None)


def worth_moving(
    profile: ProgressProfile,
    rank_here: float,
    rank_there: float,
    *,
    move: float,
    gain: float,
    anew: bool,
) -> bool:
    """Whether a job ends earlier *rank_there*, by more than the part *gain* of what is left.

    *rank_here* and *rank_there* are ranks, taken for speeds: an iteration that is usual here takes
    here / there of it there. *move* is what moving costs, in seconds; *anew*: it begins again.
    """
    iterations_left, usual_seconds, seconds_now = (
        profile.left,
        profile.usual or profile.now,
        profile.now,
    )
    if (
        iterations_left is None
        or usual_seconds is None
        or seconds_now is None
        or rank_here <= 0
        or rank_there <= 0
    ):
        return False
    seconds_staying = iterations_left * seconds_now
    seconds_moving = move + (
        (profile.of or iterations_left) if anew else iterations_left
    ) * usual_seconds * (rank_here / rank_there)
    return seconds_staying - seconds_moving > gain * seconds_staying


def explain_mismatch(
    requirements: JobRequirements, hosts: Mapping[str, HostFacts], names: Iterable[str]
) -> str:
    """Return why no host is as required, in words: what each lacks."""
    all_names = list(names)
    lines = []
    for name, facts in hosts.items():
        for expression in requirements.requires:
            try:
                if requirements._holds(expression, _with_nulls(facts, all_names)):  # noqa: SLF001 - of the same class
                    continue
            except ExpressionError as error:
                raise error from None
            actual = ", ".join(f"host.{n} = {facts.get(n)}" for n in sorted(expression.host_names))
            lines.append(f"{name}: {actual or expression.text}")
            break
    return "\n".join(lines)


def _number_or_zero(value: Value | None) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
