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
        """Those of its directives; *require* of every job, *rank* of those that have none."""
        recipe = experiment.recipe
        more = (require,) if require is not None else ()
        return JobRequirements((*recipe.requires, *more), recipe.rank or rank, experiment.values)

    def anew(self, text: str) -> JobRequirements:
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

    def met(self, facts: HostFacts, known: Iterable[str] = ()) -> bool:
        """Whether a host is as it is required; names that only others have are NULL there."""
        return all(self._holds(each, _with_nulls(facts, known)) for each in self.requires)

    def score(self, facts: HostFacts, known: Iterable[str] = ()) -> float:
        """The host's rank: the speed, where nobody says what is better."""
        if self.rank is None:
            found = facts.get("speed")
        else:
            found = value_at(self.rank, self.values, host=_with_nulls(facts, known))
        if isinstance(found, str) and self.rank is not None:
            message = f"a rank is a number, but this is {found!r:.40}"
            raise _requirement_error(self.rank, message, "the higher, the better: RANK host.speed")
        return float(found) if isinstance(found, int | float) else float("-inf")

    def _holds(self, require: Expression, facts: HostFacts) -> bool:
        value = value_at(require, self.values, host=facts)
        if value is None or isinstance(value, bool):
            return bool(value)
        message = f"a requirement is true or false, but this is {value!r:.40}"
        raise _requirement_error(require, message, "compare it with something, such as '... > 0'")


def _requirement_error(asked: Expression, message: str, hint: str) -> ExpressionError:
    place = asked.passage.place(0, len(asked.text))
    return ExpressionError(message, place=place, hint=hint)


def _with_nulls(facts: HostFacts, known: Iterable[str]) -> HostFacts:
    return {**dict.fromkeys(known), **facts}


def best_host(
    wants: JobRequirements, hosts: Sequence[HostFacts], known: Iterable[str] = ()
) -> int | None:
    """The host with the highest rank of those that are as required; the freest of equals.

    One of which something cannot be computed (its load is 0, and somebody divides) is none of them;
    ExpressionError where that is so for all.
    """
    names = list(known)
    scores: dict[int, tuple[float, float, int]] = {}
    faults = []
    for i, facts in enumerate(hosts):
        try:
            if wants.met(facts, names):
                scores[i] = (wants.score(facts, names), _number_or_zero(facts.get("free")), -i)
        except ExpressionError as error:
            faults.append(error)
    if faults and len(faults) == len(hosts):
        raise faults[0]
    return max(scores, key=scores.__getitem__, default=None)


def worth_moving(
    profile: ProgressProfile, here: float, there: float, *, move: float, gain: float, anew: bool
) -> bool:
    """Whether a job ends earlier *there*, by more than the part *gain* of what is left.

    *here* and *there* are ranks, taken for speeds: an iteration that is usual here takes
    here / there of it there. *move* is what moving costs, in seconds; *anew*: it begins again.
    """
    left, usual, now = profile.left, profile.usual or profile.now, profile.now
    if left is None or usual is None or now is None or here <= 0 or there <= 0:
        return False
    stays = left * now
    goes = move + ((profile.of or left) if anew else left) * usual * (here / there)
    return stays - goes > gain * stays


def explain_mismatch(
    wants: JobRequirements, hosts: Mapping[str, HostFacts], known: Iterable[str]
) -> str:
    """Why no host is as required, in words: what each lacks."""
    names = list(known)
    lines = []
    for name, facts in hosts.items():
        for each in wants.requires:
            try:
                if wants._holds(each, _with_nulls(facts, names)):  # noqa: SLF001 - of the same class
                    continue
            except ExpressionError as error:
                raise error from None
            asked = ", ".join(f"host.{n} = {facts.get(n)}" for n in sorted(each.host_names))
            lines.append(f"{name}: {asked or each.text}")
            break
    return "\n".join(lines)


def _number_or_zero(value: Value | None) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
