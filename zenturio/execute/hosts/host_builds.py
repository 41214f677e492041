"""Programs that are built once for each host, and shared by all experiments there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import Any

from zenturio.execute.command_line import plain_words
from zenturio.execute.hosts.attempt_folder import prepare_folder
from zenturio.execute.hosts.connection import DroppedError
from zenturio.execute.hosts.file_transfer import make_once
from zenturio.execute.hosts.reply_logs import reply_logs
from zenturio.execute.hosts.stage_context import StageContext
from zenturio.execute.run_facts import check_run_facts
from zenturio.execute.run_verdict import judge_run
from zenturio.experiment import Build, Log, Step

_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class HostBuildFailure:
    """Why there is no build; remembered as long as the driver lives."""

    cause: str
    exit: int | None
    stdout: Log
    stderr: Log


class HostBuildError(Exception):
    """An experiment cannot run, for its program could not be built."""

    def __init__(self, broken: HostBuildFailure) -> None:
        super().__init__(broken.cause)
        self.broken = broken


def ensure_built(context: StageContext) -> str | None:
    """Return the digest of the experiment's build, which is at the host when this returns."""
    build = context.experiment.build
    if build is None:
        return None
    failure = make_once(
        context.host, f"build {build.digest}", lambda: _build(context, build), context.stopped
    )
    if failure is not None:
        raise HostBuildError(failure)
    return build.digest


def _build(context: StageContext, build: Build) -> HostBuildFailure | None:
    answer, _ = context.host.ask("built", digest=build.digest)
    if answer["built"]:
        return None
    with context.journal.building(build.digest) as token:
        build_context = replace(context, token=token, restart=context.scratch / "none")
        events: SimpleQueue[tuple[str, dict[str, Any]]] = SimpleQueue()
        context.host.listen(token, lambda kind, event: events.put((kind, event)))
        try:
            prepare_folder(build_context, build.files, None, builds=True)
            build_context.ask("start", request=build_context.request(build.steps, {}))
            _wait_for_end(context, events)
            broken = _judge_build(build_context, build.steps)
            if broken is None:
                build_context.ask("built", digest=build.digest)
            return broken
        finally:
            context.host.discard(token)


def _wait_for_end(context: StageContext, heard: SimpleQueue[tuple[str, dict[str, Any]]]) -> None:
    while True:
        context.stopped()
        try:
            kind, event = heard.get(timeout=_POLL_SECONDS)
        except Empty:
            continue
        if kind in ("dropped", "back") or (kind == "over" and event["state"] != "ended"):
            raise DroppedError
        if kind == "over":
            return


def _judge_build(context: StageContext, steps: tuple[Step, ...]) -> HostBuildFailure | None:
    answer, blobs = context.ask("reply")
    facts = answer["reply"]
    check_run_facts(facts, len(steps))
    step = steps[facts["step"]] if steps else Step("")
    stdout, stderr = reply_logs(facts["sizes"], blobs)
    shell = plain_words(step.command) is None
    status, cause = judge_run(facts, step, shell=shell, stderr=stderr)
    if status == "ok":
        return None
    return HostBuildFailure(f"build failed: {cause}", facts["status"], stdout, stderr)
