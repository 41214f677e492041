"""
Signs that a host, not the experiment, is the reason why a run failed; and a test of a host.

A sign proves nothing: the same command may be missing everywhere. So the experiment runs elsewhere,
and the host is charged with the fault only when that went better.
"""

from __future__ import annotations

import secrets
import shlex
import time
from typing import Any, Protocol

from zenturio.execute.command_line import plain_words, step_request
from zenturio.execute.hosts.connection import Answer, RefusedError
from zenturio.execute.run_facts import check_run_facts
from zenturio.experiment import Log, Step

LEAST_DISK = 2**20
"""A disk with fewer bytes is full."""
_DISK_FULL = (b"No space left on device", b"Disk quota exceeded")
_NOT_FOUND_CODES = (126, 127)
"""What a shell says of a command that it does not find, or may not execute."""
_SHOWN_CHARACTERS = 200
_CONTENT = b"read by a probe\n" * 4096
_PROBE_SECONDS = 30.0
_PAUSE_SECONDS = 0.05


class ProbedHost(Protocol):
    """What a probe asks of a host."""

    def ask(self, do: str, *blobs: bytes, **fields: Any) -> Answer: ...

    def discard(self, token: str) -> None: ...


def fault_sign(stop: str, exit_status: int, why: str, stderr: Log) -> str:
    """Return why a failure may be the host's, in words.

    Nothing where it is the program's own.
    """
    if stop == "unstartable":
        return f"a command cannot be started: {why}"
    if stop or not exit_status:
        return ""
    output = stderr.head + stderr.tail
    # The command may be missing everywhere: a suspicion, which another host confirms or not.
    if exit_status in _NOT_FOUND_CODES:
        return f"a command is not there: {_last_line(output) or f'exit {exit_status}'}"
    for text in _DISK_FULL:
        if text in output:
            return text.decode().lower()
    return ""


def _last_line(output: bytes) -> str:
    lines = output.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][-_SHOWN_CHARACTERS:] if lines else ""


def needed_program(step: Step) -> str:
    """Return the command that a step needs from its host; nothing where it brings it along."""
    first = (plain_words(step.command) or [""])[0]
    return "" if "/" in first else first


def probe_host(host: ProbedHost, needed: str) -> str:
    """Why *host* cannot run a small job that writes a file and finds *needed*; nothing if it can.

    DroppedError where there is no connection.
    """
    command = "cat probe.txt > copy.txt"
    if needed:
        command += f" && command -v -- {shlex.quote(needed)}"
    token = f"{secrets.token_hex(16)}-p{secrets.token_hex(4)}"
    try:
        files = [["probe.txt", 0o644, None]]
        empty: dict[str, Any] = {"shared": [], "build": None, "over": [], "builds": False}
        host.ask("prepare", _CONTENT, token=token, files=files, **empty)
        host.ask("start", token=token, request=_probe_request(command))
        end = time.monotonic() + _PROBE_SECONDS
        while (state := host.ask("state", token=token)[0]["state"]) == "running":
            if time.monotonic() > end:
                return "a probe does not end"
            time.sleep(_PAUSE_SECONDS)
        if state != "ended":
            return f"a probe is {state}"
        answer, blobs = host.ask("reply", token=token)
        facts = answer["reply"]
        check_run_facts(facts, 1)
        if facts["stop"] or facts["status"]:
            return fault_sign(facts["stop"], facts["status"], facts["why"], Log(blobs[2])) or (
                f"a probe ends with {facts['status']}: {_last_line(blobs[2])}"
            )
    except RefusedError as error:
        return str(error)
    finally:
        host.discard(token)
    return ""


def _probe_request(command: str) -> dict[str, Any]:
    return {
        "steps": [step_request(Step(command, timeout=_PROBE_SECONDS))],
        "environment": {},
        "head": 4096,
        "tail": 4096,
        "grace": 1.0,
        "processes": 100,
        "exact": False,
    }
