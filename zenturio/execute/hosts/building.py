"""Programs that are built once for each host, and shared by all experiments there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import Any

from zenturio.execute.hosts.connection import DroppedError
from zenturio.execute.hosts.logs import logs_of
from zenturio.execute.hosts.moving import once
from zenturio.execute.hosts.preparing import prepare
from zenturio.execute.hosts.site import Site
from zenturio.execute.run_facts import check_run_facts
from zenturio.execute.verdict import verdict
from zenturio.execute.words import words
from zenturio.experiment import Build, Log, Step

_LOOK = 0.2


@dataclass(frozen=True)
class Broken:
    """Why there is no build; remembered as long as the driver lives."""

    cause: str
    exit: int | None
    stdout: Log
    stderr: Log


class UnbuiltError(Exception):
    """An experiment cannot run, for its program could not be built."""

    def __init__(self, broken: Broken) -> None:
        super().__init__(broken.cause)
        self.broken = broken


def built(site: Site) -> str | None:
    """The digest of the experiment's build, which is at the host when this returns."""
    build = site.experiment.build
    if build is None:
        return None
    found = once(site.host, f"build {build.digest}", lambda: _made(site, build), site.stopped)
    if found is not None:
        raise UnbuiltError(found)
    return build.digest


def _made(site: Site, build: Build) -> Broken | None:
    told, _ = site.host.ask("built", digest=build.digest)
    if told["built"]:
        return None
    with site.journal.building(build.digest) as token:
        place = replace(site, token=token, restart=site.scratch / "none")
        heard: SimpleQueue[tuple[str, dict[str, Any]]] = SimpleQueue()
        site.host.listen(token, lambda kind, event: heard.put((kind, event)))
        try:
            prepare(place, build.files, None, builds=True)
            place.ask("start", request=place.request(build.steps, {}))
            _wait(site, heard)
            broken = _judged(place, build.steps)
            if broken is None:
                place.ask("built", digest=build.digest)
            return broken
        finally:
            site.host.discard(token)


def _wait(site: Site, heard: SimpleQueue[tuple[str, dict[str, Any]]]) -> None:
    while True:
        site.stopped()
        try:
            kind, event = heard.get(timeout=_LOOK)
        except Empty:
            continue
        if kind in ("dropped", "back") or (kind == "over" and event["state"] != "ended"):
            raise DroppedError
        if kind == "over":
            return


def _judged(place: Site, steps: tuple[Step, ...]) -> Broken | None:
    told, blobs = place.ask("reply")
    facts = told["reply"]
    check_run_facts(facts, len(steps))
    step = steps[facts["step"]] if steps else Step("")
    stdout, stderr = logs_of(facts["sizes"], blobs)
    shell = words(step.command) is None
    status, cause = verdict(facts, step, shell=shell, stderr=stderr)
    if status == "ok":
        return None
    return Broken(f"build failed: {cause}", facts["status"], stdout, stderr)
