"""A study is opened, leased, planned, driven, and given back, whatever happens meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from zenturio.annotate.grammar import FEWEST_REPEATS
from zenturio.annotate.model import MEASURED, Application, Goal, Until
from zenturio.errors import Diagnostic, ExpressionError, InputError, NotFoundError
from zenturio.execute.executor import Executor, ScreensExperiments, machines_of
from zenturio.execute.machines import check_requirements
from zenturio.experiment import Experiment, ExperimentGenerator, MachineKind, Outcome
from zenturio.experiment.experiment import SUCCEEDED, Kinds, value_at
from zenturio.experiment.identity import ask_versions
from zenturio.expression import Expression, Value, parse, text_of
from zenturio.failpoints import Failpoint
from zenturio.record import SPACES, ExperimentRecord, Repository, StudyDefinition
from zenturio.record.entities import EXPERIMENT_STATES
from zenturio.space import Continuous, Dependent, Point, Space
from zenturio.study.driver.experiment_source import (
    ArrangedPoints,
    ExperimentSource,
    OrderKind,
    PointSelection,
    RunOrder,
    RunsAsNeeded,
)
from zenturio.study.driver.experiment_states import LOOK_UPS
from zenturio.study.driver.measurement_plan import (
    EACH_MACHINE,
    PointsAsNeeded,
    PointsWithinBudget,
    SequentialDrivers,
    kinds_apart,
    observing,
)
from zenturio.study.driver.progress import (
    PROGRAMS,
    ExecutableChanges,
    ResultChecks,
    RunPlan,
    RunProgress,
    RunSummary,
    changed_program_notes,
    is_exact,
    machines_with_results,
    other_machine_notes,
    round_begins,
    round_goes_on,
)
from zenturio.study.driver.study_driver import (
    AnyExecutor,
    DriverSettings,
    ProgressListener,
    StudyDriver,
)
from zenturio.study.driver.study_records import OnlyState, UnrecordedOutcomes, leased
from zenturio.study.last_options import RUN, SEARCH
from zenturio.study.recorded_definition import (
    ArchivedVersion,
    define_study,
    foresee_version,
    new_metric_notes,
    open_version,
    spaces_of,
    with_recorded_versions,
)

if TYPE_CHECKING:
    from zenturio.search import Scores
    from zenturio.study.driver.search_source import SearchSpec


# Refusals: what would stop a run at some points (formulas, bounds, CPUS, texts that do not fit)
#
# Experiments are made as a run makes them, and thrown away. `zen check` tries a bounded part of the
# space: its first points, and those where one parameter has its first or last element. A run tries
# its own first points before it opens a study, so that one that is refused leaves none behind.

TRIED = 2048
"""Points that are tried at the most, from the first one: as many as a run makes at once."""
_ENDS = 256
"""Parameters whose first and last elements are tried."""
_GUESSES = (1.7, 1000.3)
"""What metrics may be, when nothing has been measured."""
_GUESSED_AT = 256
"""Points at which formulas of metrics are tried."""
_SHOWN = 20
"""Points that are refused, after which no more are tried."""


def refusals(application: Application) -> tuple[Diagnostic, ...]:
    """Return what would stop a run of *application* at points of its space, each fault once."""
    diagnostics: dict[object, Diagnostic] = {}
    for error in islice(_errors(application), _SHOWN):
        for diagnostic in error.diagnostics:
            diagnostics.setdefault(diagnostic.place or diagnostic.message, diagnostic)
    return tuple(diagnostics.values())


def _errors(application: Application) -> Iterator[InputError]:
    try:
        # Data need not be hashed for it: no point differs in them.
        generator = ExperimentGenerator(replace(application, copied=()))
    except InputError as error:
        yield error
        return
    for points in sampled_points(application.space):
        try:
            for point in points:
                try:
                    for experiment in generator.experiments(point, 0):
                        check_requirements(experiment)
                except InputError as error:
                    yield error
        except InputError as error:  # the space itself: a constraint, a bound, a condition
            yield error


def check_directives(application: Application, study: str) -> None:
    """InputError where the directives of a study can never be run."""
    if not application.runs:
        raise InputError(f"{study} has no RUN directive", hint='write ZEN$ RUN "./program"')
    if application.after and application.same_files:
        raise InputError(
            f"{study} waits for another stage, so it cannot have VERIFY SAME",
            hint='compare by a command: VERIFY "./compare out.dat"',
        )


def doubtful_formulas(application: Application) -> Iterator[Diagnostic]:
    """Warnings of formulas that have no value at some points, whatever is measured there.

    Metrics are guessed, twice; a formula that fails at every point may only be guessed wrongly.
    """
    names = [*MEASURED, *(metric.name for metric in application.metrics)]
    guesses = [dict.fromkeys(names, guess) for guess in _GUESSES]
    formulas = {m.name: m.formula for m in application.metrics if m.formula is not None}
    formulas |= {f"objective {goal.expression.text}": goal.expression for goal in application.goals}
    try:
        points = list(islice(_first_points(application.space), _GUESSED_AT)) if formulas else []
    except InputError:  # which is told as an error
        return
    for name, formula in formulas.items():
        faults = [_fault(formula, point, guesses) for point in points]
        first_fault = next((n for n, fault in enumerate(faults) if fault), None)
        if first_fault is None or all(faults):
            continue
        values = ", ".join(
            f"{n} = {text_of(points[first_fault][n])}" for n in _chosen(formula, points)
        )
        yield Diagnostic(
            f"{name} has no value where {values}: {faults[first_fault]}",
            formula.passage.place(0, len(formula.passage.text)),
            "define it for these points, too: x if condition else y; or exclude them: CONSTRAINT",
            severity="warning",
        )


def _fault(formula: Expression, point: Point, guesses: Iterable[Mapping[str, Value]]) -> str:
    """Why *formula* has no value at *point* for any of the *guesses*; nothing if it has one."""
    reason = ""
    for guess in guesses:
        try:
            value_at(formula, {**point, **guess}, point=point)
        except ExpressionError as error:
            reason = error.diagnostics[0].message
        else:
            return ""
    return reason


def _chosen(formula: Expression, points: Sequence[Point]) -> list[str]:
    return sorted(name for name in formula.names if name in points[0])


def refuse(experiments: Iterable[Experiment], place: Executor) -> None:
    """Raise why one of *experiments* can never run at *place*, if that knows."""
    if isinstance(place, ScreensExperiments):
        for experiment in experiments:
            refusal = place.refusal(experiment)
            if refusal is not None:
                raise refusal


def sampled_points(space: Space) -> tuple[Iterator[Point], Iterator[Point]]:
    """Return the first points of *space*, and those at the ends of its parameters."""
    return _first_points(space), _ends(space)


def _first_points(space: Space) -> Iterator[Point]:
    return islice(iter(space), TRIED) if space.finite else iter(space.sample(1, 0))


def _ends(space: Space) -> Iterator[Point]:
    """Valid points at which one dimension has its first or last element, and the others too."""
    end_values = {}
    for parameter in space.dimensions:
        domain = parameter.domain
        if parameter.when is not None or isinstance(domain, Continuous | Dependent | None):
            return  # which elements there are depends on others
        end_values[parameter.name] = domain.value(0), domain.value(domain.size - 1)
    for low, high in ((0, 1), (1, 0)):
        for name in islice(end_values, _ENDS):
            yield from _valid(
                space, {n: e[high if n == name else low] for n, e in end_values.items()}
            )


def _valid(space: Space, values: dict[str, Any]) -> Iterator[Point]:
    try:
        yield space.find(values)
    except InputError as error:
        if "constraint" not in str(error) and "vary together" not in str(error):
            raise


# The session

OPENED = Failpoint("study.opened")
DRIVEN = Failpoint("study.driven")
UNARRANGED = RunOrder()
FEW_POINTS = 10_000
"""A search of so many points may end without a budget."""
ENDLESS = "no --budget: the search goes on until all points were tried, or until Ctrl-C"


@dataclass(frozen=True)
class StudySession:
    """A study that is to be run: its points, its repository, and how.

    `run` opens it, takes its lease, drives it, and gives the lease back, whatever happens.
    """

    application: Application
    points: PointSelection
    repository: Repository
    name: str = ""
    only: frozenset[OnlyState] = frozenset({"missing"})
    join: bool = False
    settings: DriverSettings = field(default_factory=DriverSettings)
    search: SearchSpec | None = None
    """How points are searched for; all of *points*, if they are not."""
    objectives: tuple[Goal, ...] = ()
    """Goals that are given instead of the application's."""
    order: OrderKind = "blocks"
    """In which order points and repeats run; a search has its own."""
    source: Callable[[ExperimentGenerator, RunOrder], ExperimentSource] | None = None
    """Where experiments come from, if they are not simply those of *points*."""
    built_on: Mapping[str, str] = field(default_factory=dict)
    """What the program is besides its own files: the stages before it."""
    program: Mapping[str, str] | None = None
    """What the program is instead of its own files: the versions of a comparison."""
    more_notes: Mapping[str, Any] = field(default_factory=dict)
    """Notes of the definition besides the usual ones; anything JSON."""
    known: Mapping[Point, Scores] = field(default_factory=dict)
    """Scores of points that a search learns from before it proposes any."""
    is_resumed: bool = False
    """Whether these were collected, and the search is what an earlier run began, if one did."""
    remembered: Mapping[str, Any] = field(default_factory=dict)
    """What it takes to go on from the study's name alone; anything JSON."""
    same: bool = False
    """Whether it must be the program that was run before: else it is an error."""
    seconds: float | None = None
    """How long points are run at the most, if they are not searched for."""

    @property
    def goals(self) -> tuple[Goal, ...]:
        return self.objectives or self.application.goals

    @property
    def study(self) -> str:
        return self.name or self.application.name

    @property
    def planned(self) -> int:
        """How many points there are to be, as far as it can be known."""
        return self.search.planned(self.points.space) if self.search else self.points.count

    @property
    def experiments(self) -> int:
        return self.planned * len(self.application.repeat.numbers)

    def check(self) -> None:
        """InputError where there is nothing that could be run."""
        check_directives(self.application, self.study)
        if self.settings.each_machine and self.settings.any_machine:
            raise InputError(
                "--each-machine and --machine any contradict each other",
                hint="leave one of them out",
            )
        if self.search is None:
            if self.seconds is not None and (self.settings.each_machine or self.application.after):
                raise InputError(
                    "--budget is the time of one study on one kind of machine at a time",
                    hint="leave out --budget, or run the stages or the kinds one by one",
                )
            return
        if self.settings.each_machine:
            raise InputError(
                "--each-machine: a search uses one score for each point, not one for each kind "
                "of machine",
                hint="search at a place for each kind of machine: --on PLACE",
            )
        if self.join:
            raise InputError("a search has one driver", hint="--join without --search")
        self.search.loop(self.application.space, self.goals)
        if self.search.confirm and (self.application.repeat.count > 1 or self.application.after):
            raise InputError(
                "--confirm: the points of this search have repeats, or wait for another stage",
                hint="leave it out: with REPEAT the points that may be the best run most often",
            )

    def foresee(self, kinds: Kinds = None) -> RunPlan:
        """What a run would do on *kinds* of machine; nothing is written, and nothing is run."""
        self.check()
        session = self._resumed(1, self.counting_kinds(kinds))
        if session != self:
            return session.foresee(kinds)
        if self.settings.each_machine and kinds is None:
            return replace(self.plan(0, 0, 0), remarks=(EACH_MACHINE,))
        generator = self._generator(
            with_recorded_versions(self.application, self.repository, self.study)
        )
        source = self._source(generator)
        cached_count = looked_at = 0
        counted_kinds = kinds if self.settings.each_machine else self.counting_kinds(kinds)
        round_, notes = self._next_round(generator, counted_kinds)
        before = self.repository.notes(self.study)
        programs, changed = ExecutableChanges.of(self.application, before), Counter[str]()
        kinds = counted_kinds
        machines_elsewhere = Counter[MachineKind]()
        # A source whose points may suffice goes on with what is cached, as a run would.
        while batch := list(islice(filter(None, source), LOOK_UPS)):
            looked_at += len(batch)
            digests = [digest for experiment in batch for digest in experiment.digests]
            outcomes = self._outcomes(digests, kinds, round_)
            for experiment in batch:
                cached = (digest for digest in experiment.digests if digest in outcomes)
                if (digest := next(cached, None)) is not None:
                    cached_count += 1
                    if self.application.repeat.until is not None:
                        source.complete(experiment, outcomes[digest])
            if kinds is not None and round_ is None:
                unmeasured = [digest for digest in digests if digest not in outcomes]
                machines_elsewhere += machines_with_results(self.repository, unmeasured)
            for outcome in outcomes.values():
                changed.update(programs.changed_since(outcome))
            if self.search is not None:  # what comes next depends on what comes of these
                break
        archived = foresee_version(self.repository, self.study, self._defined(generator).notes)
        remarks = (
            *notes,
            *self._search_notes(),
            *changed_program_notes(changed),
            *other_machine_notes(machines_elsewhere),
        )
        return replace(self.plan(looked_at, cached_count, 0, archived), remarks=remarks)

    def _resumed(self, slots: int, kinds: Kinds) -> StudySession:
        """Return this session with its search as an earlier run began it, or as it begins now.

        That is for so many *slots*, and with the points that are known on *kinds* of machine.
        """
        if self.search is None or self.source is not None or self.is_resumed:
            return self
        # A run without a search does not load the engines.
        from zenturio.study.driver.search_source import (  # noqa: PLC0415 - see above
            RecordedPoints,
            collect_advice,
            first_repeats,
        )

        repeat = self.application.repeat
        # The first repeats of a point run at a time, and fewer points fill the slots.
        points = -(-slots // first_repeats(repeat))
        application = with_recorded_versions(self.application, self.repository, self.study)
        generator = self._generator(application)
        # Another version of the program begins a search of its own.
        notes = self._defined(generator).notes
        is_new = foresee_version(self.repository, self.study, notes) is not None
        previous_notes = {} if is_new else self.repository.notes(self.study)
        search = self.search if self.search.replay else self.search.resumed(previous_notes, points)
        if search.learn_from and search.known is None:
            advice = collect_advice(
                self.repository, search.learn_from, application.space, self.goals[0]
            )
            search = replace(search, advice=advice)
        recorded_points: Mapping[str, tuple[Point, Scores]] = {}
        # What is to be measured again is not known, nor how many repeats results ask for.
        is_counted = repeat.until is None and not repeat.warmup
        if is_counted and not self.settings.again and self.only == {"missing"}:
            least_repeats = first_repeats(repeat) if len(self.goals) == 1 else repeat.count
            recorded_points = RecordedPoints(
                self.repository, generator, self.goals, least_repeats
            ).collect(application.space, kinds, search.known)
        frozen = search.known
        if frozen and search.replay and len(recorded_points) < len(frozen):
            raise InputError(
                f"--replay {search.replay}: it started with {len(frozen):,} known points, of which"
                f" {len(recorded_points):,} are results of this program on this kind of machine",
                hint="replay it where they were measured; or leave out --replay",
            )
        search = replace(search, known=frozen or tuple(recorded_points))
        return replace(self, search=search, known=dict(recorded_points.values()), is_resumed=True)

    def _search_notes(self) -> tuple[str, ...]:
        """Return what is said of the results that a search begins with, and of its end."""
        if self.search is None:
            return ()
        if self.search.is_endless and not 0 < self.planned <= FEW_POINTS:
            return (*self._start_notes(), ENDLESS)
        return self._start_notes()

    def _start_notes(self) -> tuple[str, ...]:
        """Return what is said of the results that a search begins with, and of those it keeps."""
        if self.search is None:
            return ()
        from zenturio.study.driver.search_source import (  # noqa: PLC0415 - see above
            known_notes,
            memory_notes,
        )

        thinned = memory_notes(self.search, self.application.space, self.goals)
        return (*known_notes(self.search, self.known), *thinned)

    def _outcomes(self, digests: list[str], kinds: Kinds, round_: int | None) -> dict[str, Outcome]:
        """Return what is cached of a batch; nothing of a round that has not begun."""
        if round_ is None:
            return self.repository.find_outcomes(digests, kinds=kinds)
        try:
            outcomes = self.repository.find_outcomes(digests, self.study, kinds, round_)
        except NotFoundError:
            outcomes = {}
        if "missing" in self.only:
            return outcomes
        before = self.repository.find_outcomes(digests, self.study, kinds)
        return {d: o for d, o in before.items() if o.status in SUCCEEDED} | outcomes

    def _next_round(
        self, generator: ExperimentGenerator, kinds: Kinds
    ) -> tuple[int | None, tuple[str, ...]]:
        """The round that a run would measure in, if it measures again, and what is said of it."""
        if not self.settings.again:
            return None, ()
        try:
            newest = self.repository.rounds(self.study)[-1]
            counts = self.repository.count_results(self.study)
            if self.only == {"failed"}:
                counts = tuple(count for count in counts if count.status not in SUCCEEDED)
                if counts and not newest.is_open and not self._has_failures(generator, kinds):
                    counts = ()
            if not counts:
                return None, ()  # there is nothing to be measured again
        except NotFoundError:
            return None, ()
        if newest.is_open or self.same:
            return newest.number, (round_goes_on(newest.number),)
        return newest.number + 1, (round_begins(newest.number + 1),)

    def _has_failures(self, generator: ExperimentGenerator, kinds: Kinds) -> bool:
        """Return whether the newest result of one of these experiments is not ok."""
        walk = self._walk(generator)
        if walk is None:  # what runs is not known beforehand
            return True
        failed = self._newest_failures(kinds)
        if self.points.picked is None and any(self._is_of_space(generator, f) for f in failed):
            return True
        digests = {record.digest for record in failed}
        # Rare: a failure of another space, or of a sample. The walk asks the repository nothing.
        return bool(digests) and any(
            experiment.digest in digests for experiment in walk if experiment is not None
        )

    def _newest_failures(self, kinds: Kinds) -> list[ExperimentRecord]:
        """Return the failed records of the study whose newest result, of *kinds*, they are."""
        states = {*EXPERIMENT_STATES} - {"missing", "running", *SUCCEEDED}
        records = (r for r in self.repository.records(self.study, states=states) if r.newest)
        failed: list[ExperimentRecord] = []
        while batch := list(islice(records, LOOK_UPS)):
            digests = [record.digest for record in batch]
            outcomes = self.repository.find_outcomes(digests, self.study, kinds)
            failed += (
                record
                for record in batch
                if record.digest in outcomes and outcomes[record.digest].status not in SUCCEEDED
            )
        return failed

    def _is_of_space(self, generator: ExperimentGenerator, record: ExperimentRecord) -> bool:
        """Return whether *record* is of the point that has its number, and is one to be run."""
        if not 0 <= record.index < self.points.count:
            return False
        point = self.application.space.point(record.index)
        experiments = generator.experiments(point, record.index)
        return any(experiment.digest == record.digest for experiment in experiments)

    def _begin_round(
        self, generator: ExperimentGenerator, kinds: Kinds
    ) -> tuple[int | None, tuple[str, ...]]:
        """Return the round in which all is measured again, if it is, and what is said of it."""
        expected, notes = self._next_round(generator, kinds)
        if expected is None and self.program is not None:
            # Versions are equal in what another study ran of them, too; that ran at another time.
            return self.repository.rounds(self.study)[-1].number, notes
        if expected is None or self.same:  # who goes on where somebody left off begins nothing
            return expected, notes
        return self.repository.begin_round(self.study), notes

    def _kinds_at(self, place: AnyExecutor) -> Kinds:
        """Return the kinds of machine whose results count as cached at *place* now."""
        kinds = machines_of(place)
        return kinds if self.settings.each_machine else self.counting_kinds(kinds)

    def counting_kinds(self, kinds: Kinds) -> Kinds:
        """Return those whose results count as cached at a place of *kinds* of machine."""
        if self.settings.any_machine or is_exact(self.application, self.goals):
            return None
        return kinds

    def _unrecorded(self, round_: int | None) -> UnrecordedOutcomes | None:
        """Return the outcomes that an earlier run could not record; none where all is run anew."""
        if "failed" in self.only:
            return None
        return UnrecordedOutcomes.of(self.repository, self.study, round_)

    def run(
        self,
        executor: Executor,
        planned: Callable[[RunPlan], None] = lambda _plan: None,
        listener: Callable[[RunProgress], None] = lambda _progress: None,
        begun: Callable[[StudyDriver], None] = lambda _run: None,
    ) -> RunSummary:
        """Run what has no outcome yet; *planned* hears first what that will be.

        *begun* is handed the run before: who has it may stop it.
        """
        self.check()
        session = self._resumed(executor.slots, self._kinds_at(executor))
        if session != self:
            return session.run(executor, planned, listener, begun)
        places = kinds_apart(executor) if self.settings.each_machine else (executor,)
        application = ask_versions(self.application)
        if application.versions != self.application.versions:
            session = replace(self, application=application)
            return session.run(executor, planned, listener, begun)
        generator = self._generator(application)
        walk = self._walk(generator)
        refuse(walk.try_first() if walk else (), executor)
        previous_notes = self.repository.notes(self.study)
        programs = ExecutableChanges.of(self.application, previous_notes)
        definition = self._definition(generator, programs, previous_notes)
        archived = open_version(self.repository, self.study, definition, previous_notes)
        OPENED()
        # The study is opened before its lease is taken: a driver that is killed in between leaves
        # a study without results, which the next one opens again.
        # A search has the order of its engine.
        order_kind = "sorted" if self.search is not None else self.order
        with (
            leased(
                self.repository,
                self.study,
                self.settings.lease,
                join=self.join,
                draws_seed=order_kind != "sorted",
            ) as lease,
            observing(self.settings.observers, self.study) as observers,
        ):
            round_, round_notes = self._begin_round(generator, self._kinds_at(executor))
            order = RunOrder.drawn(order_kind, self.repository, lease, round_)
            source = walk or self._source(generator, order)
            if walk:
                walk.arrange(order)
            if self.search is not None:
                # A run without a search does not load the engines.
                from zenturio.study.driver.search_source import (  # noqa: PLC0415
                    SearchSource,
                )

                if isinstance(source, SearchSource):
                    kinds = self._kinds_at(executor)
                    source.arrivals = self.search.arrivals(
                        self.repository, self.study, round_, kinds
                    )
            sources = [source, *(self._source(generator, order) for _ in places[1:])]
            remaining_sources = iter(sources)

            def driver(place: AnyExecutor, listener: ProgressListener) -> StudyDriver:
                return StudyDriver(
                    self.study,
                    lease,
                    self.repository,
                    place,
                    self._verified(next(remaining_sources), generator),
                    only=self.only,
                    goals=self.goals,
                    settings=self.settings,
                    listener=listener,
                    programs=programs,
                    kinds=partial(self._kinds_at, place),
                    round_=round_,
                    observers=observers,
                    unrecorded=self._unrecorded(round_),
                    checks=ResultChecks(self.application),
                )

            runs = SequentialDrivers(places, driver, self.experiments, listener)
            for run in runs.drivers:
                begun(run)
            looked_at, cached_count = runs.look_ahead()
            plan = self.plan(looked_at, cached_count, executor.slots, archived, len(places))
            notes = (*round_notes, *self._search_notes())
            if cached_count and archived is None:
                notes += tuple(new_metric_notes(self.study, definition.notes, previous_notes))
            if not self.settings.each_machine:
                notes += runs.other_machine_notes()
            planned(replace(plan, remarks=notes))
            summary = replace(runs.drive(), notes=notes, round=round_)
            # A round that was interrupted stays open: the next run goes on with it.
            is_spent = isinstance(source, PointsWithinBudget) and source.is_spent
            if round_ is not None and runs.has_completed and not is_spent:
                self.repository.end_round(self.study, round_)
            DRIVEN()
            return self._concluded(summary, sources, definition)

    def _generator(self, application: Application) -> ExperimentGenerator:
        former = self.repository.has_former_digests()
        # What is to be compared may be named for this run alone.
        application = replace(application, goals=self.objectives or application.goals)
        return ExperimentGenerator(application, former_digests=former)

    def _defined(self, generator: ExperimentGenerator) -> StudyDefinition:
        if self.program is not None:
            return define_study(self.application, self.experiments, self.program)
        programs = ({**p, **self.built_on} for p in (generator.program, generator.former_program))
        return define_study(self.application, self.experiments, *programs)

    def _definition(
        self,
        generator: ExperimentGenerator,
        programs: ExecutableChanges,
        before: Mapping[str, Any],
    ) -> StudyDefinition:
        definition = self._defined(generator)
        changed = (
            foresee_version(self.repository, self.study, definition.notes) if self.same else None
        )
        if changed is not None:
            raise InputError(
                f"the program of {self.study} has changed: {', '.join(changed.changes)}",
                hint="undo the change, or start anew: zen run",
            )
        application = self.application
        spaces = spaces_of(before, definition.notes, application.space, application.repeat)
        search = self.search.note() if self.search else before.get(SEARCH)
        notes = {
            **definition.notes,
            **({SEARCH: search} if search else {}),
            **self.more_notes,
            RUN: dict(self.remembered),
            PROGRAMS: programs.notes(),
            SPACES: spaces,
        }
        return replace(definition, notes=notes)

    def _concluded(
        self,
        summary: RunSummary,
        sources: Sequence[ExperimentSource],
        definition: StudyDefinition,
    ) -> RunSummary:
        """Return the result of the run; one that ended early has no experiments left."""
        stops = Counter[str]()
        for source in sources:
            if isinstance(source, RunsAsNeeded):
                stops.update(source.stops)
        if self.search is not None:
            # A run without a search does not load the engines.
            from zenturio.study.driver.search_source import (  # noqa: PLC0415
                SearchSource,
                left_order,
            )

            (source,) = sources
            if not isinstance(source, SearchSource):  # points that come from elsewhere, of a stage
                return summary
            summary = replace(summary, ended=source.ended, best=source.best)
            if not is_exact(self.application, self.goals):
                summary = replace(summary, expected=source.expected)
            if source.arrivals is not None and source.arrivals.left_at is not None:
                summary = replace(summary, notes=(*summary.notes, left_order(source.arrivals)))
        # Repeats may suffice early, and versions are measured until they are told apart.
        is_over = bool(stops) and not summary.unfinished and len(sources) == 1
        is_over |= self.program is not None and sources[0].over
        total = sources[0].total  # without baselines that run besides
        if (summary.ended or is_over) and total != self.experiments:
            notes = {**definition.notes, "experiments": total}
            self.repository.open(self.study, replace(definition, notes=notes))
        return replace(summary, stops=dict(stops))

    def _verified(
        self, source: ExperimentSource, generator: ExperimentGenerator
    ) -> ExperimentSource:
        """Return *source* so that its results are compared with those of baselines."""
        if self.source is not None or not self.application.same_files:
            return source
        # Most studies compare nothing.
        from zenturio.study.driver.baselines import ComparedWithBaselines  # noqa: PLC0415

        artifacts = self.repository.artifacts
        return ComparedWithBaselines(source, self.application, generator, artifacts)

    def _widest_first(self) -> Until:
        """Return by what the time of a run is shared where REPEAT does not say it."""
        metric = self.goals[0].expression if self.goals else parse("wtime")
        return Until(metric, 0.0, min(self.application.repeat.count, FEWEST_REPEATS))

    def _walk(self, generator: ExperimentGenerator) -> ArrangedPoints | PointsAsNeeded | None:
        """The points in their order, if they are not searched for and come from nowhere else."""
        if self.search is not None or self.source is not None:
            return None
        repeat = self.application.repeat
        if self.seconds is not None and repeat.until is None:
            repeat = replace(repeat, until=self._widest_first())
        if "missing" not in self.only:  # what has no result is not run, so nothing waits for it
            repeat = replace(repeat, until=None)
        if self.seconds is not None:
            return PointsWithinBudget(
                self.points, generator, repeat, self.experiments, self.seconds
            )
        if repeat.until is None and not repeat.warmup:
            return ArrangedPoints(self.points, generator, repeat.count, self.experiments)
        return PointsAsNeeded(self.points, generator, repeat, self.experiments)

    def _source(
        self, generator: ExperimentGenerator, order: RunOrder = UNARRANGED
    ) -> ExperimentSource:
        """Return the points in *order*, or those that a search asks for."""
        if self.source is not None:
            return self.source(generator, order)
        walk = self._walk(generator)
        if walk is not None:
            walk.arrange(order)
            return walk
        assert self.search is not None, "what is not walked is searched"
        from zenturio.study.driver.search_source import (  # noqa: PLC0415 - see above
            SearchSource,
        )

        space, goals = self.application.space, self.goals
        loop = self.search.loop(space, goals, self.known)
        repeat = self.application.repeat
        lag = self.search.lag(space)
        return SearchSource(
            loop, goals, generator, repeat, self.experiments, lag,
            confirmation=self.search.confirmation(goals),
        )  # fmt: skip

    def plan(
        self,
        looked_at: int,
        cached: int,
        slots: int,
        archived: ArchivedVersion | None = None,
        kinds: int = 1,
    ) -> RunPlan:
        """Return what is going to be done, when *cached* of the first *looked_at* are.

        On each of so many *kinds* of machine.
        """
        until = self.application.repeat.until
        return RunPlan(
            self.study,
            self.planned,
            self.application.repeat.count,
            self.experiments * kinds,
            cached,
            looked_at,
            slots,
            archived,
            self.search.engine if self.search else "",
            kinds=kinds,
            least=until.least if until else None,
            until=until.text if until else "",
            warmup=self.application.repeat.warmup,
        )
