"""The three stages of an attempt: prolog, wrapper, epilog.

Each is a class without arguments, found by its name in the group ``zenturio.stages``, or as
``FILE.py:CLASS``: hosts.toml says which. What a stage cannot do it raises: DroppedError where the
connection is gone (it will be called again), RequestFailedError where it has failed (and may be
tried again), anything else where the study has to end.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar

from zenturio.execute.file_staging import checked_path, content_of, is_small
from zenturio.execute.folder_files import remove_tree
from zenturio.execute.hosts.attempt_journal import AttemptJournal
from zenturio.execute.hosts.connection import (
    PIECE_BYTES,
    STREAM_BYTES,
    Answer,
    DroppedError,
    RequestFailedError,
)
from zenturio.execute.hosts.host_choice import (
    Evaluator,
    Ranked,
    Selector,
    Slowdown,
    load_evaluator,
    load_plugin,
    load_selector,
)
from zenturio.execute.hosts.hosts_file import HostsOptions
from zenturio.execute.hosts.remote_host import RemoteHost
from zenturio.execute.launch_request import (
    allowed_threads,
    observe_request,
    plain_words,
    step_request,
)
from zenturio.execute.local_runner import IDENTITY, judge_run
from zenturio.execute.run_conditions import check_run_facts
from zenturio.execute.wire import MalformedError, short_repr
from zenturio.execute.workspace import REPORT
from zenturio.experiment import Build, Experiment, ExperimentFile, Log, Step
from zenturio.experiment.identity import content_digest
from zenturio.expression import Value, text_of
from zenturio.name_patterns import name_fits

_HOST_FACT = re.compile(r"\{host\.([A-Za-z_]\w*)\}")
_GRACE_SECONDS = 2.0
_MOST_PROCESSES = 4096


@dataclass(frozen=True)
class StageContext:
    """Where an attempt is, and what goes with it."""

    experiment: Experiment
    host: RemoteHost
    token: str
    options: HostsOptions
    scratch: Path
    """A folder here for what comes back."""
    restart: Path
    """Restart files that go there, or come from there."""
    journal: AttemptJournal
    stopped: Callable[[], None]
    """Raises what is to end a stage that waits."""

    def ask(self, do: str, *blobs: bytes, **fields: Any) -> Answer:
        """Ask the host about this attempt."""
        return self.host.ask(do, *blobs, token=self.token, **fields)

    def request(self, steps: tuple[Step, ...], environment: Mapping[str, str]) -> dict[str, Any]:
        """Return what a supervisor is told: to run *steps*."""
        facts = self.host.values()
        cores = int(self.host.facts.get("cores") or 0)
        return {
            "threads": allowed_threads(steps, max(cores // max(self.host.slots, 1), 1)),
            "shared": self.host.slots > 1,
            "slots": (self.host.slots, min(self.experiment.cpus, self.host.slots)),
            "steps": [host_step_request(step, facts) for step in steps],
            "environment": {
                **_host_variables(facts),
                **environment,
                IDENTITY: self.experiment.digest,
            },
            "head": STREAM_BYTES,
            "tail": STREAM_BYTES,
            "grace": _GRACE_SECONDS,
            "processes": _MOST_PROCESSES,
            "exact": True,
        }


def host_step_request(step: Step, facts: Mapping[str, Value]) -> dict[str, Any]:
    """Return a step as a launcher reads it, with the facts of the host filled in."""
    return step_request(replace(step, command=fill_host_facts(step.command, facts, quote=True)))


def fill_host_facts(text: str, facts: Mapping[str, Value], *, quote: bool = False) -> str:
    """Return *text* with ``{host.arch}`` replaced by what it is; what no host has is left alone."""

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in facts:
            return match.group(0)
        fact_text = text_of(facts[name])
        return shlex.quote(fact_text) if quote else fact_text

    return _HOST_FACT.sub(value, text)


def host_pattern(text: str) -> str:
    """Return *text* as a pattern for any host: ``bin/solver.{host.arch}`` is ``bin/solver.*``."""
    return _HOST_FACT.sub("*", text)


def _host_variables(facts: Mapping[str, Value]) -> dict[str, str]:
    """Return what commands may want to know of the host, in their environment."""
    names = ("name", "arch", "cores", "memory", "speed")
    return {f"ZEN_HOST_{n.upper()}": text_of(facts[n]) for n in names if facts.get(n) is not None}


_MOST_IN_MEMORY = 64 * 2**20
"""Bytes of a file that is wanted whole in memory."""
T = TypeVar("T")
CheckCancelled = Callable[[], None]
"""Raises what is to end the waiting."""


def stage_file(
    host: RemoteHost, filed: ExperimentFile, content: bytes | None, stopped: CheckCancelled
) -> str:
    """Return the name under which a shared file is at the host; brought there if it is not."""
    digest = filed.digest if content is None else content_digest(content).hex()
    name = digest + ("x" if filed.mode & 0o111 else "")
    make_once(host, name, lambda: _send_file(host, name, filed, content), stopped)
    return name


def make_once(host: RemoteHost, name: str, make: Callable[[], T], stopped: CheckCancelled) -> T:
    """Return what *make* makes at the host, once for all; who comes later waits for it.

    Where it could not be made the next one tries again.
    """
    while True:
        with host.turn:
            pending = host.making.get(name)
            # Whoever registers the future first makes it; all others wait for that one.
            future: Future[T] = pending or Future()
            host.making[name] = future
        if pending is None:
            return _make_first(host, name, make, future)
        while not pending.done():
            stopped()
            wait((pending,), _POLL_SECONDS)
        if pending.exception() is None:
            return future.result()


def _make_first(host: RemoteHost, name: str, make: Callable[[], T], future: Future[T]) -> T:
    try:
        result = make()
    except BaseException as error:
        # Before those who wait hear of it: one of them begins anew, and must not find this future.
        with host.turn:
            del host.making[name]
        future.set_exception(error)
        raise
    future.set_result(result)
    return result


def _send_file(host: RemoteHost, name: str, filed: ExperimentFile, content: bytes | None) -> None:
    answer, _ = host.ask("missing", digests=[name])
    if not answer["missing"]:
        return
    if content is None:
        content = content_of(filed)
    # An empty file is one empty piece: the host makes a file of the last piece, not of none.
    for offset in range(0, max(len(content), 1), PIECE_BYTES):
        piece = content[offset : offset + PIECE_BYTES]
        last = offset + PIECE_BYTES >= len(content)
        host.ask(
            "put", piece, digest=name, offset=offset, mode=filed.mode, mtime=filed.mtime, last=last
        )


def fetch_file(context: StageContext, path: str, size: int = _MOST_IN_MEMORY) -> bytes:
    """Return the bytes of a file of the attempt; none where it is not there, or no plain file."""
    parts = []
    offset = 0
    with suppress(RequestFailedError):
        while offset < size:
            piece = _read_piece(context, path, offset, min(PIECE_BYTES, size - offset))
            if not piece:
                break
            parts.append(piece)
            offset += len(piece)
    return b"".join(parts)


def fetch_files(context: StageContext, patterns: Iterable[str], target: Path) -> list[str]:
    """Bring the files that match *patterns* to below *target*; their paths."""
    pattern_list = list(patterns)
    if not pattern_list:
        return []
    answer, _ = context.ask("found", patterns=pattern_list)
    files: list[tuple[str, int, int]] = [(path, size, mode) for path, size, mode in answer["files"]]
    _check_files(files, context)
    draft = target.with_name(f"{target.name}.piece")
    for path, size, mode in files:
        place = target / path
        place.parent.mkdir(parents=True, exist_ok=True)
        _receive_file(context, path, size, draft)
        # No setuid and no group or world write bits from a foreign machine.
        draft.chmod(mode & 0o755 | 0o600)  # what others could write to is not believed for long
        os.replace(draft, place)  # noqa: PTH105
    return [path for path, _, _ in files]


def _check_files(files: Sequence[tuple[str, int, int]], context: StageContext) -> None:
    """Refuse files of which one stands in another's place, or that are too large together."""
    paths = {path for path, _, _ in files}
    folders = {str(above) for path in paths for above in PurePosixPath(path).parents}
    if len(paths) < len(files) or paths & folders:
        raise MalformedError(f"two files have the same path: {short_repr(min(paths))}, ...")
    size, most = sum(size for _, size, _ in files), context.options.returns
    if size > most:
        raise RequestFailedError(
            f"the files that come back have {size} B; at most {most:.0f} B may: "
            'allow more in [options] of the file of hosts, such as returns = "20GB"'
        )


def _receive_file(context: StageContext, path: str, size: int, draft: Path) -> None:
    with draft.open("wb") as file:
        for offset in range(0, size, PIECE_BYTES):
            length = min(PIECE_BYTES, size - offset)
            piece = _read_piece(context, path, offset, length)
            file.write(piece)
            if len(piece) < length:  # it is shorter by now: a program that runs writes to it
                break


def _read_piece(context: StageContext, path: str, offset: int, length: int) -> bytes:
    _, (piece,) = context.ask("read", path=path, offset=offset, length=length)
    if len(piece) > length:
        raise MalformedError(f"{len(piece)} bytes came instead of {length}")
    return piece


def fetch_restart_files(context: StageContext) -> None:
    """Bring the restart files here, all of them or none: those of before stay then."""
    if not context.options.restart:
        return
    draft = context.restart.with_name("restart.draft")
    remove_tree(str(draft))
    try:
        if fetch_files(context, context.options.restart, draft):
            remove_tree(str(context.restart))
            draft.rename(context.restart)
    except (DroppedError, RequestFailedError):
        remove_tree(str(draft))


LARGE_BYTES = 2**20
"""Files beyond so many bytes are staged once for each host, and shared."""


def prepare_folder(
    context: StageContext,
    files: Iterable[ExperimentFile],
    build: str | None,
    *,
    builds: bool = False,
) -> None:
    """Fill the attempt's folder with *files*, those of a build, and those to go on from.

    *builds*: what runs there makes a build.
    """
    small: dict[str, tuple[int, int | None, bytes]] = {}
    shared: list[list[Any]] = []
    for filed in files:
        path = checked_path(filed.path)
        content, original = filed.content, filed.original
        if original is not None and (is_small(filed) or not filed.digest):
            content = content_of(filed)
        if content is not None and len(content) <= LARGE_BYTES:
            small[path] = (filed.mode, filed.mtime, content)
        else:
            name = stage_file(context.host, filed, content, context.stopped)
            shared.append([path, filed.mode, filed.mtime, name])
    restart_files = _files_below(context.restart)
    for path in restart_files:
        source = context.restart / path
        small[path] = (source.stat().st_mode & 0o777, None, source.read_bytes())
    context.ask(
        "prepare",
        *[content for _, _, content in small.values()],
        files=[[path, mode, mtime] for path, (mode, mtime, _) in small.items()],
        # A restart file stands in the place of the program's own, however large that is.
        shared=[entry for entry in shared if entry[0] not in small],
        build=build,
        over=restart_files,
        builds=builds,
    )


def suits_host(path: str, context: StageContext) -> bool:
    """Return whether a file is for this host: of the variants of a file, only its own."""
    facts = context.host.values()
    for variant in context.options.variants:
        if name_fits(path, host_pattern(variant)):
            return name_fits(path, fill_host_facts(variant, facts))
    return True


def _files_below(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    paths = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sorted(path.relative_to(folder).as_posix() for path in paths)


KEPT_BYTES = 2**16
"""Of each stream, so many bytes at its beginning and at its end are recorded."""


def reply_logs(sizes: Sequence[int], blobs: Sequence[bytes]) -> tuple[Log, Log]:
    """Return both streams, from the sizes and the four parts of a reply."""
    out_head, out_tail, err_head, err_tail = blobs
    return _joined_log(out_head, out_tail, sizes[0]), _joined_log(err_head, err_tail, sizes[1])


def _joined_log(head: bytes, tail: bytes, size: int) -> Log:
    # Nothing was left out between them: then it is one text, in which a pattern may match across.
    if tail and len(head) + len(tail) == size:
        return Log(head + tail, b"", size)
    return Log(head, tail, size)


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


def _wait_for_end(context: StageContext, events: SimpleQueue[tuple[str, dict[str, Any]]]) -> None:
    while True:
        context.stopped()
        try:
            kind, event = events.get(timeout=_POLL_SECONDS)
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


@dataclass(frozen=True)
class FinishedAttempt:
    """What an attempt left: how it ended, what it said, and its files, in a folder here."""

    facts: dict[str, Any]
    stdout: Log
    stderr: Log
    folder: Path
    reported: bytes
    spoilt: bool
    fault: str = ""
    """What the experiment did to its folder there, as ``its folder was deleted``."""
    machine: Mapping[str, Any] | None = None
    """What the host is, as it told behind the run; see this_machine."""
    is_build_idle: bool = False
    """Whether the build that it used left every file as it was."""


class Prolog(Protocol):
    """Prepares the host: the folder and all files of the experiment."""

    def __call__(self, context: StageContext) -> None: ...


class Wrapper(Protocol):
    """Starts the experiment; it is called again where nobody knows whether it did."""

    def __call__(self, context: StageContext) -> None: ...


class Epilog(Protocol):
    """Brings home what the experiment left; the host is cleaned behind it."""

    def __call__(self, context: StageContext) -> FinishedAttempt: ...


@dataclass(frozen=True)
class Stages:
    """The stages of a place, and what decides for its jobs."""

    prolog: Prolog
    wrapper: Wrapper
    epilog: Epilog
    selector: Selector = field(default_factory=Ranked)
    evaluator: Evaluator = field(default_factory=Slowdown)

    @staticmethod
    def of(options: HostsOptions) -> Stages:
        """Return those that *options* name."""
        return Stages(
            load_plugin(options.prolog),
            load_plugin(options.wrapper),
            load_plugin(options.epilog),
            load_selector(options.selector),
            load_evaluator(options.evaluator),
        )


class Staging:
    """The usual prolog: shared files once for each host, all others with the experiment."""

    def __call__(self, context: StageContext) -> None:
        experiment = context.experiment
        files = [f for f in experiment.files if suits_host(f.path, context)]
        prepare_folder(context, files, ensure_built(context))


class Starting:
    """The usual wrapper: the experiment's commands, in its environment."""

    def __call__(self, context: StageContext) -> None:
        experiment = context.experiment
        request = context.request(experiment.steps, experiment.environment)
        request["verifying"] = len(experiment.recipe.verifiers)
        request["observe"] = observe_request(experiment.recipe)
        context.ask("start", request=request)


class Returning:
    """The usual epilog: streams, metrics, and the files that OUTPUT names."""

    def __call__(self, context: StageContext) -> FinishedAttempt:
        answer, blobs = context.ask("reply")
        check_run_facts(answer["reply"], len(context.experiment.steps))
        remove_tree(str(context.scratch))
        context.scratch.mkdir(parents=True)
        fetch_files(context, context.experiment.recipe.outputs, context.scratch)
        logs = reply_logs(answer["reply"]["sizes"], blobs)
        reported = fetch_file(context, REPORT)
        spoilt, fault = answer["spoilt"], answer["fault"]
        reply, machine, idle = answer["reply"], answer["machine"], answer["idle"]
        return FinishedAttempt(
            reply, *logs, context.scratch, reported, spoilt, fault, machine, idle
        )
