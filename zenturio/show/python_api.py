"""Studies and tunings in Python and in notebooks: their tables and charts."""

from __future__ import annotations

import argparse
import html
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NoReturn

from zenturio.errors import InputError, ZenError
from zenturio.execute.places import open_place
from zenturio.experiment.function import ExperimentFunction
from zenturio.experiment.function import experiment as as_experiment
from zenturio.files import make_folder, refuse_link, replace_whole
from zenturio.record import MeasurementRound, Repository
from zenturio.record.entities import RowChoice, read_round
from zenturio.record.open import FOLDER, begin_project, open_repository, project_folder
from zenturio.search import Directions, describe
from zenturio.space import Space
from zenturio.study.driver.experiment_source import choose_order, select_points
from zenturio.study.driver.function_study import evaluate
from zenturio.study.driver.progress import RunProgress, RunSummary
from zenturio.study.local_run import run_request
from zenturio.study.study_request import (
    MeasuredPoints,
    PlaceOptions,
    StudyRequest,
    choose_any_machine,
)
from zenturio.study.tuning.tune_engine import CompletedTuning, Tuning
from zenturio.study.tuning.tune_engine import tune as run_tuning
from zenturio.study.tuning.tuning_scenario import TargetFunction, read_ranges

if TYPE_CHECKING:
    import pandas as pd

    from zenturio.query import Comparison, Importances, ResultTable, SettingsRanking
    from zenturio.query.importance import RankedSetting
    from zenturio.query.scaling import Scaling
    from zenturio.query.sensitivity import Sensitivity
    from zenturio.show.chart import Chart
    from zenturio.show.paired_reports import BisectReport, GateReport, HistoryReport, NoiseReport
    from zenturio.show.study_insights import Explanation


Program = str | Path | Sequence[str | Path] | ExperimentFunction | Callable[..., Any]


def run(
    what: Program,
    space: Space | None = None,
    *,
    name: str = "",
    jobs: int | None = None,
    overrides: Sequence[str] = (),
    limit: int | None = None,
    sample: int | None = None,
    seed: int = 0,
    only: str = "missing",
    fail_fast: bool = False,
    go_on: bool = False,
    on: str = "",
    machine: str = "same",
    each_machine: bool = False,
    again: bool = False,
    where: str = "",
    order: str = "blocks",
    observe: Sequence[str] = (),
    db: str | Repository | None = None,
    listener: Callable[[RunProgress], None] = lambda _progress: None,
) -> Study:
    """Run a study to its end and hand it over; what has an outcome already is not run again.

    *what* are annotated files, or a function that is called at each point of *space*: its
    arguments are the parameters, and what it returns are the metrics. *on* names a place, as
    ``zen run --on`` does; without one, files run on this machine, and a function in this process.
    With *machine* ``any`` results that another kind of machine measured count, too. With
    *each_machine* each kind of machine of the place measures everything. With *again* what has
    results is measured again, in a round of its own; of files only points with a result that
    meets the condition *where*, if one is given. *order*: ``blocks``, ``random`` or
    ``sorted``, as for ``zen run``. The run ends at the first failure with *fail_fast*; without
    *go_on*, it also ends if the first eight experiments all fail. *observe*: plug-ins that are told
    of each transition of an experiment, by name.
    """
    any_machine = choose_any_machine(machine)
    if callable(what):
        _check_function_options(where, overrides, only)
        function = what if isinstance(what, ExperimentFunction) else as_experiment(what)
        points = select_points(space or Space(), limit=limit, sample=sample, seed=seed)
        with open_or_use(db, create=True) as repository:
            # Without a place a function runs in this process, where its closure and the debugger
            # work.
            place = open_place(on, project_folder() / FOLDER, jobs) if on else None
            with place or nullcontext():
                summary = evaluate(
                    function, points, repository, name=name, place=place, listener=listener,
                    any_machine=any_machine, each_machine=each_machine, again=again,
                    order=choose_order(order), observers=tuple(observe), fail_fast=fail_fast,
                    go_on=go_on,
                )  # fmt: skip
        return Study(summary.study, db, summary)
    paths = (what,) if isinstance(what, str | Path) else what
    request = StudyRequest(
        tuple(map(str, paths)), tuple(overrides), limit, sample, seed=seed, only=only, name=name,
        on=on or "local", machine=machine, again=again, each_machine=each_machine, jobs=jobs,
        fail_fast=fail_fast, go_on=go_on, order=order, observe=tuple(observe), where=where,
    )  # fmt: skip
    measured: MeasuredPoints | None = None
    if where:
        from zenturio.query import points_measured  # noqa: PLC0415 - most runs ask no results

        measured = points_measured
    summary = run_request(
        request, request.application(), db=db, listener=listener, measured=measured
    )
    return Study(summary.study, db, summary)


def _check_function_options(where: str, overrides: Sequence[str], only: str) -> None:
    """Raise InputError if options are named that choose or change what annotated files declare."""
    if where:
        raise InputError("where chooses points of files", hint="of a function: choose its space")
    if overrides:
        raise InputError(
            f"overrides={list(overrides)!r} changes parameters of files",
            hint="of a function: change its space",
        )
    if only != "missing":
        raise InputError(
            f"only={only!r} chooses experiments of files",
            hint="of a function: what has no result runs; again=True runs everything",
        )


@dataclass(frozen=True)
class Study:
    """A study of a repository: its answers as tables and charts."""

    name: str
    db: str | Repository | None = None
    """A repository, a path or a URL; the project's, if none is given."""
    summary: RunSummary | None = None
    """How its run ended, where this comes from one."""

    def frame(
        self,
        where: str | None = None,
        *,
        everything: bool = False,
        machine: str = "",
        round: int | str = "",  # noqa: A002 - as the column is called
    ) -> pd.DataFrame:
        """Return the experiments that succeeded and meet *where*, as a table of pandas.

        *machine*: only those that this kind of machine measured, by its label or a part of it.
        *round*: those of that round, or of ``all``; the newest of each, if none is named.
        """
        from zenturio.query import study_frame  # noqa: PLC0415 - pandas takes its time

        with open_or_use(self.db) as repository:
            rows = RowChoice(machine, read_round(str(round)))
            return study_frame(repository, self.name, where=where, everything=everything, rows=rows)

    def results(self, **options: Any) -> ResultTable:
        """What ``zen results`` shows; *options* are the arguments of `zenturio.query.results`."""
        from zenturio.query import results  # noqa: PLC0415

        with open_or_use(self.db) as repository:
            return results(repository, self.name, **options)

    def compare(
        self,
        other: Study | None = None,
        metric: str = "",
        *,
        on: Sequence[str] = (),
        where: tuple[str | None, str | None] = (None, None),
        round: tuple[int | str, int | str] = ("", ""),  # noqa: A002 - as the column is called
        run: bool = False,
        commit: str = "",
        repeat: str = "8:50",
        limit: int | None = None,
        budget: str = "",
        settle: bool = False,
    ) -> Comparison:
        """Compare *other* with this study, as ``zen compare`` does; without it two parts of this.

        *where* and *round* choose the results of this study and of *other*; *metric* is that of
        the objective unless it is named. With *run* both are run next to each other first, *other*
        being the version that is judged; with a *commit* this study is, against the files of that
        commit. *repeat* are the least and the largest number of blocks; no block begins after the
        *budget*, such as 10min. With *settle* each version runs once, uncounted, before each run
        that counts.
        """
        if run:
            return self._run_comparison(other, metric, commit, repeat, limit, budget, settle=settle)
        from zenturio.query import compare_studies  # noqa: PLC0415 - pandas takes its time
        from zenturio.query.select_results import default_metric  # noqa: PLC0415

        name = self.name if other is None else other.name
        first, second = (RowChoice("", read_round(str(number))) for number in round)
        with open_or_use(self.db) as repository:
            metric = metric or default_metric(repository.definition(self.name))
            return compare_studies(
                repository, self.name, name, metric,
                on=on, where=where, rows=(first, second),
            )  # fmt: skip

    def _run_comparison(
        self,
        other: Study | None,
        metric: str,
        commit: str,
        repeat: str,
        limit: int | None,
        budget: str,
        *,
        settle: bool,
    ) -> Comparison:
        from zenturio.query import compare_studies  # noqa: PLC0415 - pandas takes its time
        from zenturio.query.comparison import MARGIN  # noqa: PLC0415
        from zenturio.study.paired import compare_and_gate  # noqa: PLC0415 - it loads what runs

        plan, seconds = compare_and_gate.read_blocks(repeat), compare_and_gate.read_time(budget)
        options = compare_and_gate.PairedOptions(
            metric, limit=limit, plan=plan, seconds=seconds, settle=settle
        )
        names = [self.name, *([other.name] if other else [])]
        with open_or_use(self.db, create=True) as repository:
            versions = compare_and_gate.compared_versions(
                repository, names, [commit] if commit else [], options
            )
            study = compare_and_gate.run_comparison(repository, versions, options, MARGIN).study
            return compare_studies(repository, study.name, study.name, study.metric)

    def gate(
        self,
        baseline: str,
        metric: str = "",
        *,
        worse: float = 0.05,
        repeat: str = "8:50",
        limit: int | None = None,
        budget: str = "",
        settle: bool = False,
    ) -> GateReport:
        """Run this study's files next to *baseline*, and judge them as ``zen gate`` does.

        *baseline* is a commit, a branch or ``NAME@NUMBER``; no block begins after the *budget*,
        such as 10min; *settle* as for `compare`. The report's ``state`` is ``worse``, ``no worse``
        or ``unclear``.
        """
        from zenturio.show.paired_reports import GateReport  # noqa: PLC0415 - it loads what runs
        from zenturio.study.paired import compare_and_gate  # noqa: PLC0415

        plan, seconds = compare_and_gate.read_blocks(repeat), compare_and_gate.read_time(budget)
        options = compare_and_gate.PairedOptions(
            metric, limit=limit, plan=plan, seconds=seconds, settle=settle
        )
        with open_or_use(self.db, create=True) as repository:
            versions = compare_and_gate.gated_versions(repository, self.name, baseline, options)
            return GateReport.of(compare_and_gate.run_gate(repository, versions, options, worse))

    def noise(self, metric: str = "", *, repeat: int = 20, limit: int | None = None) -> NoiseReport:
        """Run this study's files next to themselves, as ``zen noise`` does.

        The report's ``table`` says which differences 5, 10, 20 and 50 blocks would detect.
        """
        from zenturio.show.paired_reports import NoiseReport  # noqa: PLC0415 - it loads what runs
        from zenturio.study.paired import compare_and_gate  # noqa: PLC0415

        options = compare_and_gate.PairedOptions(
            metric, limit=limit, plan=compare_and_gate.read_blocks(f"{repeat}")
        )
        with open_or_use(self.db, create=True) as repository:
            return NoiseReport(compare_and_gate.run_noise(repository, self.name, options))

    def history(
        self,
        metric: str = "",
        *,
        commits: int = 20,
        last: str = "HEAD",
        reference: str = "",
        repeat: int = 5,
        limit: int | None = None,
        confirm: bool = False,
    ) -> HistoryReport:
        """Measure the newest *commits* that touch this study's files, as ``zen history`` does.

        Each runs beside one *reference*, in *repeat* blocks. With *confirm* each change is measured
        again. The report has a ``table``, a ``chart`` and the ``changes`` by commit.
        """
        from zenturio.show import paired_reports  # noqa: PLC0415 - it loads what runs
        from zenturio.study.paired import compare_and_gate  # noqa: PLC0415
        from zenturio.study.paired.bisect_and_history import run_history  # noqa: PLC0415

        options = compare_and_gate.PairedOptions(
            metric, limit=limit, plan=compare_and_gate.read_blocks(f"{repeat}")
        )
        with open_or_use(self.db, create=True) as repository:
            run = run_history(
                repository, self.name, options, commits=commits, last=last, reference=reference
            )
            confirmed = None
            if confirm:
                confirmed = paired_reports.confirm_changes(repository, self.name, run, options)
            return paired_reports.HistoryReport(run, confirmed)

    def bisect(
        self,
        good: str,
        bad: str = "HEAD",
        metric: str = "",
        *,
        most: int = 600,
        limit: int | None = None,
        budget: str = "",
    ) -> BisectReport:
        """Find the first commit behind *good* that differs from it, as ``zen bisect`` does.

        *most* runs at each point at the most; no block begins after the *budget*, such as 1h. The
        report's ``state`` is ``found``, ``no difference``, ``no value`` or ``open``, and
        ``commits`` has those that are meant.
        """
        from zenturio.show.paired_reports import BisectReport  # noqa: PLC0415 - it loads what runs
        from zenturio.study.paired import compare_and_gate  # noqa: PLC0415
        from zenturio.study.paired.bisect_and_history import run_bisect  # noqa: PLC0415

        options = compare_and_gate.PairedOptions(
            metric, limit=limit, seconds=compare_and_gate.read_time(budget)
        )
        with open_or_use(self.db, create=True) as repository:
            run = run_bisect(repository, self.name, good, bad, options, most_runs=most)
            return BisectReport(run)

    def scaling(
        self,
        over: str,
        metric: str = "wtime",
        *,
        by: Sequence[str] | None = None,
        weak: str = "",
        rate: bool | None = None,
        where: str | None = None,
        machine: str = "",
        round: int | str = "",  # noqa: A002 - as the column is called
    ) -> Scaling:
        """Return speedups, efficiencies and laws over threads, as ``zen scaling`` shows them.

        *rate*: whether more of the *metric* is better; None: if the objective maximizes it.
        """
        from zenturio.query.scaling import study_scaling  # noqa: PLC0415 - pandas takes its time

        with open_or_use(self.db) as repository:
            return study_scaling(
                repository, self.name, over, metric, by=by, weak=weak, is_rate=rate, where=where,
                rows=RowChoice(machine, read_round(str(round))),
            )  # fmt: skip

    def sensitivity(
        self,
        metric: str = "",
        *,
        design: str = "",
        seed: int | None = None,
        machine: str = "",
        round: int | str = "",  # noqa: A002 - as the column is called
    ) -> Sensitivity:
        """Return how much *metric* depends on each parameter, as ``zen sensitivity`` shows it."""
        from zenturio.query.sensitivity import study_sensitivity  # noqa: PLC0415 - loads pandas
        from zenturio.study.last_options import read_design  # noqa: PLC0415

        with open_or_use(self.db) as repository:
            chosen = read_design(self.name, repository.definition(self.name).notes, design, seed)
            rows = RowChoice(machine, read_round(str(round)))
            return study_sensitivity(repository, self.name, chosen, metric, rows=rows)

    def best(
        self,
        count: int = 1,
        objective: str = "",
        *,
        aggregate: str = "",
        where: str | None = None,
        outside: bool = False,
        machine: str = "",
        round: int | str = "",  # noqa: A002 - as the column is called
    ) -> pd.DataFrame:
        """Return the *count* best points as ``zen best`` shows them, a row for each.

        Behind parameters and scores stand the facts of ``zen best --json``; one whose name a
        parameter or a score has gets an underscore. Scores are the median of a point's repeats for
        times, the mean for others, or what *aggregate* names. With *where*, only experiments that
        meet this condition count. Raise InputError if *count* is 0.
        """
        if count < 1:
            raise InputError(f"the {count} best points", hint="1 or more")
        import pandas as pd  # noqa: PLC0415 - loads slowly

        from zenturio.query.aggregates import check_aggregate, exact_aggregate  # noqa: PLC0415
        from zenturio.query.excluded_points import digests_outside  # noqa: PLC0415
        from zenturio.query.statistics import student  # noqa: PLC0415
        from zenturio.query.study_table import numbers_where  # noqa: PLC0415
        from zenturio.study.best_points import RepeatAggregate, best  # noqa: PLC0415

        kind = None
        if aggregate:
            check_aggregate(aggregate)
            kind = RepeatAggregate(aggregate, exact_aggregate(aggregate))
        with open_or_use(self.db) as repository:
            rows = RowChoice(machine, read_round(str(round)))
            without = frozenset() if outside else digests_outside(repository, self.name)
            ranking = best(
                repository, self.name, count, objective, without=without, rows=rows, aggregate=kind,
                only=numbers_where(repository, self.name, where, rows),
            )  # fmt: skip
        records = []
        for facts in ranking.facts(student):
            row = {**facts.pop("parameters"), **facts.pop("scores")}
            records.append(row | {name + "_" * (name in row): facts[name] for name in facts})
        return pd.DataFrame(records)

    def explain(
        self,
        objective: str = "",
        *,
        where: str | None = None,
        outside: bool = False,
        machine: str = "",
        round: int | str = "",  # noqa: A002 - as the column is called
    ) -> Explanation:
        """Return which parameters matter and what to try next, as ``zen explain`` shows it.

        With *where*, only experiments that meet this condition count.
        Its chart is ``plot("dependence")``.
        """
        from zenturio.show.study_insights import explain  # noqa: PLC0415 - loads pandas

        with open_or_use(self.db) as repository:
            rows = RowChoice(machine, read_round(str(round)))
            return explain(
                repository, self.name, objective, where=where, outside=outside, rows=rows
            )

    def plot(self, kind: str = "line", *, where: str | None = None, **options: Any) -> Chart:
        """Return the chart that ``zen plot`` draws; notebooks display it, ``zen.save`` writes it.

        *options* are the fields of `ChartQuery`. The kinds of a search show the study's objective,
        or *y*, or an *objective* (``MINIMIZE expr``).
        """
        from zenturio.show.charts.chart_query import ChartQuery  # noqa: PLC0415 - loads pandas
        from zenturio.show.charts.study_charts import draw_chart  # noqa: PLC0415

        query = ChartQuery.of(studies=self.name, kind=kind, where=where, **options)
        with open_or_use(self.db) as repository:
            return draw_chart(repository, query).chart

    def rounds(self) -> tuple[MeasurementRound, ...]:
        """Return the rounds of the study, oldest first: when they were begun, and by whom."""
        with open_or_use(self.db) as repository:
            return repository.rounds(self.name)

    def equate(self, version: int, *, undo: bool = False) -> int:
        """What ``zen equate NAME@version`` does; how many results were accepted, or removed."""
        from zenturio.study import equate as equating  # noqa: PLC0415 - it loads what runs
        from zenturio.study.recorded_definition import base_of  # noqa: PLC0415

        name = f"{base_of(self.name) or self.name}@{version}"
        with open_or_use(self.db) as repository:
            if undo:
                return equating.undo_equate(repository, name)
            return equating.equate(repository, name).accepted

    def _repr_html_(self) -> str:
        with open_or_use(self.db) as repository:
            counts = repository.count_states(self.name)
        text = ", ".join(f"{count:,} {state}" for state, count in counts.items() if count)
        head = f"<p><b>study {html.escape(self.name)}</b>: {text or 'nothing was run'}</p>"
        return head + self.results(limit=10)._repr_html_()


@contextmanager
def open_or_use(db: str | Repository | None, *, create: bool = False) -> Iterator[Repository]:
    """The repository itself, or the one at that place, which is closed behind."""
    if db is not None and not isinstance(db, str):
        yield db
        return
    repository = open_repository(db, create=create)
    try:
        yield repository
    finally:
        repository.close()


def import_optuna(
    url: str, study: str = "", *, name: str = "", db: str | Repository | None = None
) -> Study:
    """Import the trials of Optuna's *study* at *url*, as ``zen import optuna`` does."""
    from zenturio.study import optuna_import  # noqa: PLC0415 - few need it

    with open_or_use(db, create=True) as repository:
        return Study(optuna_import.import_optuna(repository, url, study, name).study, db)


PRECISION_METRIC = "precision"
COST_METRICS = ("visited", "needed")


@dataclass(frozen=True)
class TuningResult:
    """What a tuning found; all that it tried is an ordinary study."""

    tuned: CompletedTuning
    study: Study

    @cached_property
    def table(self) -> pd.DataFrame:
        """A row for each search that counts: of one kind of machine, where several have some."""
        table = self.study.frame()
        machine = self.tuned.machine
        # Times of different machines must not be mixed; with one kind there is nothing to choose.
        if machine not in table.attrs["machines"]:
            return table
        return self.study.frame(machine=machine)

    @property
    def has_solution(self) -> bool:
        """Whether a search found one; else nothing can be recommended."""
        return self.tuned.tuning.optimum is not None and not self.table.empty

    def frame(self) -> pd.DataFrame:
        """Return a row for each search: the settings, the seed, and what it came to."""
        return self.table.copy()

    @cached_property
    def recommendation(self) -> SettingsRanking:
        """All settings, the best first, with those that cannot be told from it."""
        from zenturio.query import recommend  # noqa: PLC0415 - pandas takes its time

        return recommend(self.table, PRECISION_METRIC, COST_METRICS, self.swept or self.names)

    @property
    def recommended(self) -> RankedSetting:
        """The setting whose precision is best, and how sure that is."""
        return self.recommendation.best

    @cached_property
    def importances(self) -> Importances | None:
        """How much of the differences in precision goes with each setting; none if none varies."""
        from zenturio.query import importances  # noqa: PLC0415

        return importances(self.table, PRECISION_METRIC, self.swept) if self.swept else None

    @property
    def names(self) -> tuple[str, ...]:
        """The settings that the tuning names."""
        return tuple(self.tuned.tuning.ranges.sets)

    @cached_property
    def swept(self) -> tuple[str, ...]:
        """Those that have several values."""
        table = self.table
        return tuple(name for name in self.names if table[name].nunique(dropna=False) > 1)


def tune(
    space: Space,
    objective: Callable[..., Any],
    goals: str = "minimize",
    engine: str = "ga",
    *,
    settings: Mapping[str, Any] | str = "",
    repeats: int = 30,
    budget: int | str | None = None,
    optimum: float | None = None,
    sample: int | None = None,
    seed: int = 1,
    jobs: int | None = None,
    name: str = "",
    machine: str = "same",
    go_on: bool = False,
    db: str | Repository | None = None,
    listener: Callable[[RunProgress], None] = lambda _progress: None,
) -> TuningResult:
    """Try the *settings* of an *engine* on searches of *space*, and say which are best.

    *objective* is a function of a point, or a compiled one of a row of genes, as ``search`` takes
    it. Each combination of settings is tried *repeats* times, with seeds of its own; *settings*
    are sets by name (``{"population": [50, 100], "elite": "0:4"}``). What was searched before is
    not searched again, unless another kind of machine did: these count with *machine* ``any``.
    Without *go_on*, it ends if the first eight searches all fail.
    """
    (direction,) = Directions(goals).names
    called = str(getattr(objective, "__name__", type(objective).__name__))
    module = getattr(objective, "__module__", None) or "__main__"
    target = TargetFunction(objective, space, direction, called, f"{module}:{called}")
    written = [settings] if isinstance(settings, str) else settings
    ranges = read_ranges(describe(engine), written)
    spent = "" if budget is None else str(budget)
    tuning = Tuning(target, engine, ranges, repeats, spent, seed, optimum, name)
    with open_or_use(db, create=True) as repository:
        tuned = run_tuning(
            tuning, repository, sample=sample, place=PlaceOptions(jobs), listener=listener,
            any_machine=choose_any_machine(machine), go_on=go_on,
        )  # fmt: skip
    return TuningResult(tuned, Study(tuning.study, db, tuned.summary))


# ``%%zen``: an annotated program in a notebook cell, run as a study
#
# ``%load_ext zenturio`` brings it. ``%%zen first.py`` keeps the cell as ``first.py`` below the
# project's ``.zenturio/cells`` and runs that; the cell's value is the study.

CELLS_FOLDER = "cells"
UPDATE_SECONDS = 0.25
"""Seconds between two checks how far a run is."""
_FILE_NAME = re.compile(r"\w[\w.-]{0,63}")


def load_ipython_extension(shell: Any) -> None:
    """What ``%load_ext zenturio`` does."""
    shell.register_magic_function(lambda line, cell: cell_magic(shell, line, cell), "cell", "zen")


def cell_magic(shell: Any, line: str, cell: str) -> Study:
    """Run the *cell* as a study; a mistake is told in words, without a traceback."""
    from IPython.core.error import UsageError  # noqa: PLC0415 - there where a shell is
    from IPython.display import DisplayHandle  # noqa: PLC0415

    handle: Any = DisplayHandle()  # type: ignore[no-untyped-call] # IPython says no types
    handle.display({"text/plain": "..."}, raw=True)
    try:
        options = _parse_line(line)
        path = write_cell_file(options.file, cell)
        study = run(
            path,
            name=options.name,
            jobs=options.jobs,
            overrides=options.set,
            limit=options.limit,
            sample=options.sample,
            seed=options.seed,
            only=options.only,
            listener=_progress_display(handle),
        )
    except ZenError as error:
        handle.update({"text/plain": ""}, raw=True)
        raise UsageError(str(error)) from None
    summary = study.summary
    assert summary is not None, "a study that was run knows how that ended"
    handle.update({"text/plain": _summary_text(study)}, raw=True)
    if options.as_:
        shell.user_ns[options.as_] = study
    return study


def write_cell_file(name: str, cell: str) -> Path:
    """Return the cell as a file of the project, for programs are files."""
    if not _FILE_NAME.fullmatch(name):
        raise InputError(
            f"no cell can be called {name!r}", hint="a name without folders, such as first.py"
        )
    path = make_folder(begin_project(), CELLS_FOLDER) / name
    refuse_link(path)
    replace_whole(path, [cell.encode()])
    # Its RUN may start the file itself.
    path.chmod(0o755)
    return path


class _LineParser(argparse.ArgumentParser):
    """The rest of the line behind ``%%zen``."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"%%zen: {message}", hint=self.format_usage().strip())


def _parse_line(line: str) -> argparse.Namespace:
    """What is said beside the name of the file: some of the options of ``zen run``."""
    parser = _LineParser("%%zen", add_help=False, exit_on_error=False)
    parser.add_argument("file", nargs="?", default="cell.py")
    parser.add_argument("--as", dest="as_", metavar="NAME", default="")
    parser.add_argument("--name", default="")
    parser.add_argument("--jobs", "-j", type=int)
    parser.add_argument("--set", action="append", default=[], metavar="'n = {1:3}'")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="missing")
    try:
        return parser.parse_args(_split_words(line))
    except argparse.ArgumentError as error:
        parser.error(str(error))


def _split_words(line: str) -> Sequence[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise InputError(f"%%zen {line}: {error}") from None


def _progress_display(handle: Any) -> Callable[[RunProgress], None]:
    """Tells below the cell how far it is, now and then."""
    last_shown = [0.0]

    def tell(progress: RunProgress) -> None:
        if monotonic() - last_shown[0] >= UPDATE_SECONDS:
            last_shown[0] = monotonic()
            failed = f", {progress.failed:,} failed" if progress.failed else ""
            text = f"{progress.done:,} of {progress.total:,}{failed}"
            handle.update({"text/plain": text}, raw=True)

    return tell


def _summary_text(study: Study) -> str:
    summary = study.summary
    assert summary is not None
    causes = "; ".join(f"{failure.count:,} x {failure.text}" for failure in summary.failures)
    failed = f", {summary.failed:,} failed ({causes})" if summary.failed else ""
    return f"{study.name}: {summary.ok:,} run, {summary.cached:,} cached{failed}"
