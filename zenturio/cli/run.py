"""The verbs run, attach and cancel, and the progress line of a run."""

from __future__ import annotations

import shutil
import sys
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from zenturio import log_setup, quantities
from zenturio.cli import options, output, safe_streams
from zenturio.cli.options import Database, Json, TokenFile, Trust, read_token

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zenturio.record import Repository
    from zenturio.study.driver.progress import RunPlan, RunProgress, RunSummary
    from zenturio.study.driver.stop_requests import StopResult
    from zenturio.study.study_request import MeasuredPoints


ENDS = {
    "exhausted": "the engine has no more points to propose",
    "budget": "the budget of points is spent",
    "time": "the time limit is reached",
    "target": "the target is reached",
    "stall": "no improvement within the limit of --stop stall",
}
"""Why a search ended."""


def add_to(app: typer.Typer) -> None:
    """Register the verbs of this module in *app*."""
    app.command(cls=options.DefaultEngineCommand)(run)
    app.command()(attach)
    app.command()(cancel)


def run(
    paths: options.Paths,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            "-j",
            min=1,
            help="Number of experiments that run at once; default: the cores.",
        ),
    ] = None,
    param: options.Overrides = None,
    limit: options.Limit = None,
    sample: options.Sample = None,
    design: options.Design = "",
    search: options.Engine = "",
    budget: options.Budget = "",
    stop: options.Stop = None,
    settings: options.Settings = None,
    learn_from: options.LearnFrom = "",
    ordered: options.Ordered = False,
    confirm: options.Confirm = 0,
    replay: options.Replay = "",
    objective: options.Objective = "",
    seed: options.Seed = 0,
    only: options.Only = "missing",
    fail_fast: Annotated[bool, typer.Option(help="Stop at the first failure.")] = False,
    go_on: Annotated[
        bool,
        typer.Option(
            "--go-on",
            help="Continue even if the first eight experiments all fail.",
        ),
    ] = False,
    join: Annotated[
        bool, typer.Option(help="Share the study with the drivers that run it already.")
    ] = False,
    keep: Annotated[
        str, typer.Option(metavar="always|failed|never", help="Keep the folders of experiments.")
    ] = "failed",
    pin: Annotated[bool, typer.Option(help="Bind each experiment to its own cores.")] = False,
    on: Annotated[
        str,
        typer.Option(
            metavar="PLACE",
            help="Where experiments run: a name of zen places, or dask://host:8786.",
        ),
    ] = "local",
    batch: Annotated[
        str,
        typer.Option(metavar="auto|N", help="Number of short experiments that are sent together."),
    ] = "",
    quiet_machine: Annotated[
        bool,
        typer.Option(
            "--quiet-machine",
            help="Start experiments only while this machine is quiet; stop after 10 minutes of"
            " waiting.",
        ),
    ] = False,
    machine: options.MachineKind = "same",
    each_machine: options.EachMachine = False,
    again: options.Again = False,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="EXPR",
            help="With --again: only points with a result that meets this condition.",
        ),
    ] = None,
    order: options.Order = "blocks",
    observe: options.Observe = None,
    name: options.Name = None,
    dry_run: Annotated[
        bool, typer.Option(help="Show what would be run, without running it.")
    ] = False,
    same: Annotated[bool, typer.Option("--same", hidden=True)] = False,
    trust: options.Trust = False,  # noqa: ARG001 - its callback does it
    work: options.Work = "",
    db: options.Database = None,
    json: options.Json = False,
) -> None:
    """Run the experiments of a study and record their results.

    Experiments that have a result are not run again: to resume a study, repeat the command. On
    another kind of machine, metrics that are not declared EXACT are measured again, and the earlier
    results are kept; --machine any uses the earlier results instead. If a place has several kinds
    of machine, each point runs on any one of them; --each-machine runs each point on every kind.
    --again measures everything in a new round, and results show the newest round unless --round
    names another. An interrupted round is resumed.

    Examples: zen run matmul.c; zen run . -j 4 --only failed; zen run model.py --search
    --budget 500; zen run matmul.c --search ga --set population=50 --set elite=2; zen run matmul.c
    --on dask
    """
    from zenturio.annotate.lint import lint
    from zenturio.study.local_run import job_script, plan_request, run_request
    from zenturio.study.study_request import StudyRequest

    safe_streams.outlive_readers()
    if work and not db:
        db = _database_of_work_folder(begins=not dry_run)
    measured = _measured_points(where)
    request = StudyRequest(
        tuple(paths), tuple(param or ()), limit, sample, search, budget, tuple(stop or ()),
        tuple(settings or ()), objective, seed, only, name or "", on, machine, again,
        each_machine, jobs, fail_fast, go_on, keep, pin, batch, join, order,
        tuple(observe or ()), quiet_machine, design, learn_from, ordered, replay,
        confirm, where or "",
    )  # fmt: skip
    place = request.place_options
    application = request.application()
    if not json:
        warnings = (*application.warnings, *lint(application, suggests=False))
        output.diagnostics(dict.fromkeys(warnings), err=True)
    if dry_run:
        plan = plan_request(request, application, db=db, measured=measured)
        script = job_script(application, request.points(application), place)
        if json:
            output.facts({**_facts_of(plan), "script": script})
        else:
            typer.echo("\n".join(_plan(stage) for stage in (*plan.before, plan)))
            if script:
                typer.echo(f"\nthe script of its jobs:\n\n{script}")
        return
    live = ProgressLine()
    try:
        summary = run_request(
            request,
            application,
            db=db,
            same=same,
            measured=measured,
            planned=lambda plan: None if json else typer.echo(_plan(plan)),
            listener=live,
        )
    finally:
        live.close()
    if not request.search and request.only == "missing":
        summary = _with_what_is_left(summary, db)
    stages = (*summary.before, summary)
    if json:
        output.facts(_summary_facts(summary))
    else:
        for stage in stages:
            _print_summary(stage, db, named=len(stages) > 1)
    # 130 before 3: who pressed Ctrl-C knows of the failures, a script asks why it ended.
    if summary.interrupted:
        raise typer.Exit(130)
    if any(stage.failures for stage in stages):
        raise typer.Exit(3)


def _measured_points(where: str | None) -> MeasuredPoints | None:
    """Return what finds the points whose results meet ``--where``; None without a condition."""
    if where is None:
        return None
    if not where.strip():  # as of a variable of the shell that is not set
        from zenturio.errors import InputError

        raise InputError("--where is empty", hint="leave it out to measure all points again")
    from zenturio.query import points_measured

    return points_measured


def _database_of_work_folder(*, begins: bool) -> str:
    """Return the database of --work, so that hints name it; the folder becomes the user's own."""
    from zenturio.record.open import begin_project, locate

    if begins:
        begin_project()
    return str(locate())


def _plan(plan: RunPlan) -> str:
    if plan.is_as_needed:
        return f"{_before(plan)}study {plan.study}: each experiment when the search first needs it"
    repeats = f" x {plan.repeats} repeats" if plan.repeats > 1 else ""
    if plan.least is not None:
        repeats = f" x {plan.least} to {plan.repeats} repeats {plan.until}"
    repeats += f" and {plan.warmup} to warm up" if plan.warmup else ""
    repeats += f" x {plan.kinds} kinds of machine" if plan.kinds > 1 else ""
    number_cached = f"{plan.cached:,}" if plan.cached else "none"
    cached = f"{number_cached} cached" if plan.looked_at else "cached ones are skipped"
    if plan.looked_at and (plan.looked_at < plan.experiments or plan.engine):
        cached = f"{number_cached} of the first {plan.looked_at:,} cached"
        if plan.looked_at == 1:
            cached = f"the first is {'cached' if plan.cached else 'not cached'}"
    points = quantities.amount(plan.points, "point")
    work = f"{points}{repeats}, {quantities.amount(plan.experiments, 'experiment')}"
    if plan.least is not None and not plan.engine:
        work = f"{points}{repeats}, at most {quantities.amount(plan.experiments, 'experiment')}"
    if plan.engine:
        most = f"at most {work}" if plan.points else "any number of points"
        work = f"search by {plan.engine}, {most}"
    slots = f"; {plan.slots} at a time" if plan.slots else ""
    remarks = "".join(f"\n{remark}" for remark in plan.remarks)
    return f"{_before(plan)}study {plan.study}: {work}, {cached}{slots}{remarks}"


def _before(plan: RunPlan) -> str:
    """Return what becomes of the results of an earlier program with this name, if any."""
    if plan.archived is None:
        return ""
    name, changes, elsewhere = plan.archived.name, plan.archived.changes, plan.archived.elsewhere
    differs = f"is not that of {elsewhere}" if elsewhere else "has changed"
    will_be = "is now" if plan.slots else "will be"
    line = f"the program {differs} ({_few(changes)}): the earlier study {will_be} {name}\n"
    return line + ("to keep both apart, run one with --name NAME\n" if elsewhere else "")


def _few(words: tuple[str, ...], most: int = 4) -> str:
    more = [f"{len(words) - most} more"] if len(words) > most else []
    return ", ".join([*words[:most], *more])


def _print_summary(summary: RunSummary, db: str | None, *, named: bool = False) -> None:
    from zenturio.cli import output

    ran = summary.ok + summary.failed
    words = [f"{ran:,} run in {quantities.duration(summary.seconds)}", f"{summary.ok:,} ok"]
    if summary.failed:
        wrong = f" ({summary.wrong:,} with a wrong result)" if summary.wrong else ""
        words.append(f"{summary.failed:,} failed{wrong}")
    if summary.cached:
        words.append(f"{summary.cached:,} cached")
    if summary.blocked:
        words.append(f"{summary.blocked:,} not run because experiments that they need failed")
    if unfinished := summary.unfinished - summary.blocked - summary.skipped:
        words.append(f"{unfinished:,} left: repeat the command to continue")
    if summary.skipped:
        words.append(f"{summary.skipped:,} without a result, which --only missing runs")
    typer.echo(f"{summary.study}: " * named + ", ".join(words))
    if summary.alone:
        typer.echo(
            f"{summary.alone:,} experiments need more CPUs than there are slots, and ran alone"
        )
    if summary.stops:
        typer.echo(f"repeats: {_stops(summary.stops)}")
    if summary.ended:
        typer.echo(f"the search stopped: {ENDS[summary.ended]}")
    if summary.best is not None:
        text = _best_of_points(summary, db) if summary.best.repeat is not None else ""
        typer.echo(text or output.best_text(summary.best, summary.study, db))
    if summary.expected is not None:
        typer.echo(output.expected_text(summary.expected))
    output.print_failures(summary.failures, summary.study, db)
    for command in _commands_after_failures(summary, db):
        typer.echo(command)
    typer.echo(f"results: {output.command_to_type('results', summary.study, db=db)}")


def _with_what_is_left(summary: RunSummary, db: str | None) -> RunSummary:
    """Return *summary* with all cached experiments of the plan counted.

    A run that ended early has looked only at a part of them.
    """
    if not summary.unfinished or summary.before or summary.blocked or summary.round:
        return summary
    from dataclasses import replace

    from zenturio.cli.status_and_logs import MOST_COUNTED, with_unplanned_counts
    from zenturio.study.overview import study_status

    (status,) = with_unplanned_counts(db, [study_status(db, summary.study)], MOST_COUNTED)
    if status.unplanned is None or status.planned != summary.total or len(status.machines) > 1:
        return summary
    left = min(status.left + status.counts.get("cancelled", 0), summary.unfinished)
    cached = summary.cached + summary.unfinished - left
    return replace(summary, cached=cached, unfinished=left)


def _commands_after_failures(summary: RunSummary, db: str | None) -> Iterator[str]:
    from zenturio.experiment.experiment import NOT_NUMBERS, missing_names

    causes = [failure.cause for failure in summary.failures]
    if any(map(missing_names, causes)):
        extract = output.command_to_type("extract", summary.study, db=db)
        yield f"after a change of METRIC, measure the kept output again: {extract}"
    if not all(cause.startswith(NOT_NUMBERS) for cause in causes):
        yield f"run the failed experiments again: {output.command_for_failed()}"


def _best_of_points(summary: RunSummary, db: str | None) -> str:
    """Return which point is the best by all of its repeats, as zen best ranks them.

    The best single repeat may be a lucky one. Nothing for an objective that the study has not, and
    where several kinds of machine have results, of which this run may not use all.
    """
    from zenturio.cli import output
    from zenturio.query.excluded_points import digests_outside
    from zenturio.study.best_points import best
    from zenturio.study.overview import opened_repository

    with opened_repository(db) as repository:
        goals = repository.definition(summary.study).goals
        goal = summary.best.goal if summary.best is not None else ""
        if [each["expression"] for each in goals] != [goal]:
            return ""
        without = digests_outside(repository, summary.study)
        ranking = best(repository, summary.study, 1, without=without)
    if not ranking.points or len(ranking.machines) > 1:
        return ""
    (point,) = ranking.points
    what = f"{ranking.aggregates[goal]} of {quantities.amount(point.used, 'repeat')}"
    values = output.values_text(point.values)
    return f"best: {goal} = {output.number(point.scores[goal], 6)} at {values} ({what})"


def _stops(stops: Mapping[str, int]) -> str:
    """Return why points needed no more repeats, the frequent reasons first."""
    from zenturio.experiment.aggregates import STOPS

    ordered = sorted(stops.items(), key=lambda stop: -stop[1])
    return "; ".join(
        f"{quantities.amount(count, 'point')} {STOPS[reason]}" for reason, count in ordered
    )


def _facts_of(stage: RunPlan | RunSummary) -> dict[str, Any]:
    """Return all fields, and those of the stages before; the key ``known`` is a promise."""
    from dataclasses import asdict

    facts = {"known" if key == "cached" else key: item for key, item in asdict(stage).items()}
    return {**facts, "before": tuple(map(_facts_of, stage.before))}


def _summary_facts(summary: RunSummary) -> dict[str, Any]:
    facts = _facts_of(summary)
    for stage in (facts, *facts["before"]):
        for failure in stage["failures"]:
            failure["values"] = dict(failure["values"])
    return facts


BAR = 24
OFTEN = 0.1
SELDOM = 10.0


class ProgressLine:
    """Hears of every step and shows as much of it as can be read."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._moves = safe_streams.is_moving(self._stream)
        self._next = monotonic() + (0.0 if self._moves else SELDOM)
        self._shown = False
        log_setup.set_progress_eraser(self._erase if self._moves else None)

    def __call__(self, progress: RunProgress) -> None:
        for remark in progress.remarks:
            self._remark(remark)
        # Not each of thousands of steps a second is drawn; remarks above are, for they are said
        # once.
        if monotonic() < self._next:
            return
        self._next = monotonic() + (OFTEN if self._moves else SELDOM)
        words = progress_line(progress)
        if self._moves:
            # A line that fills the terminal would wrap, and \r returns to its last row only.
            width = shutil.get_terminal_size().columns - 1
            bar = _bar(progress.done, progress.total)
            safe_streams.clear_line(self._stream)
            self._stream.write(f"{bar} {words}"[:width])
        else:
            self._stream.write(words + "\n")
        self._stream.flush()
        self._shown = True

    def _remark(self, words: str) -> None:
        """Print a line above the progress line."""
        self._erase()
        self._stream.write(words + "\n")
        self._stream.flush()

    def close(self) -> None:
        """Take the moving line away; what comes next begins on a clean one."""
        self._erase()
        log_setup.set_progress_eraser(None)

    def _erase(self) -> None:
        if self._moves and self._shown:
            safe_streams.clear_line(self._stream)
            self._stream.flush()


def progress_line(progress: RunProgress) -> str:
    """Return the progress in one line, the most important facts first."""
    parts = [f"running {progress.done:,}/{progress.total:,}"]
    if progress.failed:
        parts.append(f"{progress.failed:,} failed")
    is_last = "the last " if progress.only_last_run else ""
    parts.append(f"{is_last}{progress.running} in flight")
    if progress.rate > 0:
        parts.append(f"{quantities.rate(progress.rate)}")
    if progress.seconds_left is not None and progress.done < progress.total:
        parts.append(f"{quantities.duration(progress.seconds_left)} left")
    if progress.last is not None:
        parts.append(f"{progress.goal} {output.number(progress.last)}{_best(progress)}")
    return " · ".join(parts)


def _best(progress: RunProgress) -> str:
    """Return the best so far and where, last of all: on a narrow terminal it is cut."""
    best = progress.best
    return f", best {output.number(best.value)} at {output.values_text(best.at)}" if best else ""


def _bar(done: int, total: int) -> str:
    full = BAR * done // total if total else BAR
    return "█" * full + "░" * (BAR - full)


def attach(
    study: Annotated[str, typer.Argument(help="Study to resume.")],
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            "-j",
            min=1,
            help="Number of experiments that run at once; default: as last time.",
        ),
    ] = None,
    on: Annotated[
        str | None,
        typer.Option(metavar="PLACE", help="Where experiments run; default: as last time."),
    ] = None,
    db: Database = None,
    trust: Trust = False,  # noqa: ARG001 - its callback does it
    json: Json = False,
) -> None:
    """Resume a study whose driver died, by its name.

    Uses the place and the options of the last run. On places where jobs outlive their driver
    (Slurm, hosts), running jobs are picked up and finished ones are recorded. Exits with 5 if the
    study still has a driver.

    Examples: zen attach matmul; zen attach matmul -j 8
    """
    from zenturio.study.last_options import recall_options
    from zenturio.study.overview import opened_repository

    with opened_repository(db, finds_unique=False) as repository:
        repository.study(study)
        options = recall_options(study, repository.definition(study).notes)
    overrides = {"jobs": jobs, "on": on}
    # Options of this command line count more than those of the last run.
    options |= {name: value for name, value in overrides.items() if value is not None}
    run(**options, name=study, same=True, db=db, json=json)


def cancel(
    target: Annotated[
        str,
        typer.Argument(
            metavar="STUDY|DIGEST|NUMBER", help="Study, experiment, or number in the queue."
        ),
    ],
    token_file: TokenFile = None,
    db: Database = None,
    json: Json = False,
) -> None:
    """Cancel a study, a queued submission or one experiment.

    The drivers of the study kill their experiments and exit; queued jobs of dead drivers are
    cancelled. Recorded results are kept, and zen attach resumes the study. A cancelled experiment
    is recorded as cancelled; zen run --only failed runs it again.

    Examples: zen cancel matmul; zen cancel 5c37b9d7
    """
    from zenturio.study.overview import opened_repository

    with opened_repository(db, finds_unique=False) as repository:
        if _cancel_submission(repository, target, json, read_token(token_file)):
            return
        if target in {summary.name for summary in repository.studies()}:
            _cancel_study(repository, target, json)
        else:
            _cancel_experiment(repository, target, json)


def _cancel_submission(repository: Repository, target: str, json: bool, token: str) -> bool:
    """Cancel the submissions that *target* names, if any; return whether there were some."""
    from zenturio.study.service import submission_client
    from zenturio.study.service.submission_socket import ServiceClient

    matches = submission_client.submissions_of(repository, target) or tuple(
        submission for submission in repository.submissions() if str(submission.number) == target
    )
    user = repository.current_user()
    is_admin = bool(matches) and (repository.is_queue_admin() or _is_named_admin(user))
    service = ServiceClient.of(repository, token) if matches else None
    if service is not None:
        for submission in matches:
            service.cancel(submission.number)
        numbers = {submission.number for submission in matches}
        cancelled = [s for s in repository.submissions() if s.number in numbers]
    else:
        cancelled = [
            submission_client.cancel_submission(
                repository, submission.number, user, is_admin=is_admin
            )
            for submission in matches
        ]
    if json and cancelled:
        output.facts([{"number": s.number, "study": s.study, "turn": s.turn} for s in cancelled])
        return True
    for submission in cancelled:
        typer.echo(
            f"{submission.number}: {submission.study} of {submission.user} is {submission.turn};"
            " its results are kept"
        )
    return bool(cancelled)


def _is_named_admin(user: str) -> bool:
    """Return whether [serve.users] of zenturio.toml says so."""
    from zenturio.record.open import project_folder
    from zenturio.study.service.service_config import ServiceConfig

    users = ServiceConfig.of(project_folder()).users
    return user in users and users[user].role == "admin"


def _cancel_study(repository: Repository, study: str, json: bool) -> None:
    from zenturio.study.driver.stop_requests import stop_study

    result = stop_study(repository, study)
    if json:
        output.facts(_stop_facts(result))
        return
    for lease in result.stopped:
        typer.echo(f"{study}: process {lease.pid} on {lease.host} was stopped")
    for lease in result.told:
        typer.echo(
            f"{study}: process {lease.pid} on {lease.host} will stop at its next heartbeat,"
            f" within {lease.seconds / 3:.0f} s"
        )
    if result.jobs:
        typer.echo(f"{study}: {result.jobs:,} queued experiments of a dead driver were cancelled")
    if not (result.stopped or result.told or result.jobs):
        typer.echo(f"{study}: nothing is running")


def _stop_facts(result: StopResult) -> dict[str, Any]:
    def drivers(leases: Any) -> list[dict[str, Any]]:
        return [{"host": lease.host, "pid": lease.pid} for lease in leases]

    return {
        "study": result.study,
        "stopped": drivers(result.stopped),
        "told": drivers(result.told),
        "jobs": result.jobs,
    }


def _cancel_experiment(repository: Repository, digits: str, json: bool) -> None:
    from zenturio.errors import InputError, NotFoundError, did_you_mean
    from zenturio.study.driver.stop_requests import stop_experiment
    from zenturio.study.overview import find_experiment

    try:
        details = find_experiment(repository, digits)
    except (InputError, NotFoundError) as error:
        names = [summary.name for summary in repository.studies()]
        raise NotFoundError(
            f"{digits!r} is neither a study nor an experiment: {error.diagnostics[0].message}",
            hint=did_you_mean(digits, names),
        ) from error
    digest = details.record.digest
    state = stop_experiment(repository, details.study, digest)
    if json:
        output.facts({"digest": digest, "study": details.study, "state": state})
        return
    words = {
        "cancelled": "is cancelled",
        "missing": "is not running; zen run starts it again",
    }
    typer.echo(
        f"{digest[:12]} of {details.study} {words.get(state, f'has finished already: {state}')}"
    )
