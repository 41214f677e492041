"""Which host is best for a job, whether moving is worth it, and the plug-ins that decide it."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from statistics import median
from types import ModuleType
from typing import Any, Protocol

from zenturio import plugins
from zenturio.errors import ExpressionError, InputError, Passage, PluginError
from zenturio.execute.hosts.hosts_file import HostsOptions
from zenturio.execute.wire import MalformedError, read_json
from zenturio.experiment import Experiment
from zenturio.experiment.experiment import value_at
from zenturio.expression import Expression, Value, parse

_BASELINE_ITERATIONS = 3
"""Iterations whose median is what one takes, once there are so many."""
_KEPT_LINES = 1000
"""Lines of a profile that are kept in memory."""


@dataclass
class ProgressProfile:
    """The iterations of one attempt."""

    breaches: int = 1
    """So many iterations in a row tell how fast it is now: one alone may be an accident."""
    seconds: list[float] = field(default_factory=list)
    iteration: int = 0
    of: int | None = None
    lines: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_KEPT_LINES))
    """The last lines, as the program wrote them: an evaluator may look at more than seconds."""
    offset: int = 0
    """Bytes received, so that an attachment continues after them."""

    def update(self, text: str, offset: int) -> None:
        """Lines as they come; what is no line of a profile says nothing."""
        self.offset = offset
        for line in text.splitlines():
            try:
                entry = read_json(line.encode("utf-8", "surrogatepass"))
            except MalformedError:
                continue
            if isinstance(entry, dict):
                self._take(entry)

    def _take(self, entry: dict[str, Any]) -> None:
        self.lines.append(entry)
        seconds, iteration, of = entry.get("seconds"), entry.get("iteration"), entry.get("of")
        if isinstance(seconds, int | float) and 0 <= seconds < float("inf"):
            self.seconds.append(float(seconds))
        self.iteration = (
            iteration
            if isinstance(iteration, int) and iteration is not True
            else self.iteration + 1
        )
        self.of = of if isinstance(of, int) and of > 0 else self.of

    @property
    def usual(self) -> float | None:
        """What an iteration takes here as long as nothing disturbs it."""
        # The last iterations are under suspicion: what is usual is the median of those before them.
        before = self.seconds[: -self.breaches]
        return median(before[:_BASELINE_ITERATIONS]) if before else None

    @property
    def now(self) -> float | None:
        """What each of the last iterations took at least."""
        return min(self.seconds[-self.breaches :], default=None)

    @property
    def left(self) -> int | None:
        """How many iterations are to come, if that is known."""
        return None if self.of is None else max(self.of - self.iteration, 0)

    def broken(self, contract: float) -> bool:
        """Return whether the last iterations took longer by more than that part than is usual."""
        usual, now = self.usual, self.now
        return (
            bool(contract)
            and usual is not None
            and now is not None
            and now > usual * (1 + contract)
        )


HostFacts = Mapping[str, Value]


@dataclass(frozen=True)
class JobRequirements:
    """The requirements of a job: it may be said anew while it runs."""

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
        """Return the requirements in the lines of REQUIRE and RANK that a program wrote."""
        requires: list[Expression] = []
        rank = self.rank
        for line in filter(None, map(str.strip, text.splitlines())):
            word, _, argument = line.partition(" ")
            if word.upper() == "REQUIRE":
                requires.append(parse(Passage.of(argument, "$ZEN_REQUIRE")))
            elif word.upper() == "RANK":
                rank = parse(Passage.of(argument, "$ZEN_REQUIRE"))
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
        """Return the host's rank: the speed, by default."""
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
    """Return the host with the highest rank of those that are as required; the freest of equals.

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
    """Return whether a job ends earlier *rank_there*, by more than the part *gain* of what is left.

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
    # Ranks are taken for speeds: only their ratio counts.
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


class Selector(Protocol):
    """Chooses a host whenever a job waits, or may be better off elsewhere."""

    def __call__(
        self, requirements: JobRequirements, hosts: Sequence[HostFacts], names: Collection[str]
    ) -> int | None:
        """Return which of *hosts*, those that have room; none: the job waits, or stays.

        *names* are all facts that any host has.
        """
        ...


class Evaluator(Protocol):
    """Looks at a job whenever it tells how far it is."""

    def __call__(self, profile: ProgressProfile, options: HostsOptions) -> str:
        """Return why it is too slow where it is; nothing, if it is not."""
        ...


class Ranked:
    """The usual selector: of the hosts that are as REQUIRE wants them, that of the highest RANK."""

    def __call__(
        self, requirements: JobRequirements, hosts: Sequence[HostFacts], names: Collection[str]
    ) -> int | None:
        return best_host(requirements, hosts, names)


class Slowdown:
    """The usual evaluator: iterations longer than those before, by more than the contract."""

    def __call__(self, profile: ProgressProfile, options: HostsOptions) -> str:
        if not profile.broken(options.contract):
            return ""
        return f"an iteration took {profile.now:.3g} s, not {profile.usual:.3g} s"


def load_plugin(name: str) -> Any:
    """Return an instance of the class *name*: an entry point, or ``FILE.py:CLASS``.

    PluginError else.
    """
    path, colon, inside = name.rpartition(":")
    if not colon:
        return plugins.load("stages", name)()
    try:
        return getattr(_import_file(path), inside)()
    except Exception as error:
        raise PluginError(f"{name} does not load: {error}") from error


@cache
def _import_file(path: str) -> ModuleType:
    """Load a file as a module under a private name, because it may be called select.py."""
    name = f"zenturio hosts {path}"
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = module_from_spec(spec)  # dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


def load_selector(name: str) -> Selector:
    """Return the selector *name*.

    What it raises, or chooses and is not there, is told as its fault.
    """
    select = _guard(name, load_plugin(name))

    def chosen(
        requirements: JobRequirements, hosts: Sequence[HostFacts], names: Collection[str]
    ) -> int | None:
        choice = select(requirements, hosts, names)
        if choice is None or (isinstance(choice, int) and 0 <= choice < len(hosts)):
            return choice
        raise PluginError(f"the selector {name} chose {choice!r} of {len(hosts)} hosts")

    return chosen


def load_evaluator(name: str) -> Evaluator:
    """Return the evaluator *name*; what it raises is told as its fault."""
    return _guard(name, load_plugin(name))


def _guard(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except (ExpressionError, PluginError):
            raise
        except Exception as error:
            why = f"{name} failed: {type(error).__name__}: {error}"
            raise PluginError(why, hint="it is named in hosts.toml") from error

    return guarded
