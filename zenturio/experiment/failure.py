"""What an experiment that failed has said, in words that are the same for the same fault."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from zenturio.errors import InputError
from zenturio.experiment.experiment import Log, Missing, Series

if TYPE_CHECKING:
    from zenturio.experiment.experiment import MetricValue
    from zenturio.regular_expressions import Pattern

_LONGEST = 120
_SEARCHED = 2**16
_SHOWN = 4000
_TRACEBACK = "Traceback (most recent call last):"
_PANICS = ("panic: ", "fatal error: ")
# Lines that follow every fault of a kind, and so tell none from another.
_NOISE = (
    r"\s*\d*\s*\|",  # the source line that a compiler shows
    r"(?:g|b|c|n)?make(?:\[\d+\])?:\s(?:\*\*\*\s\[|.*\sdirectory\s)",
    r"ninja: build stopped|collect2:|compilation terminated\.",
    r"\d+ (?:error|warning)s?\b.* generated\.|exit status \d",
    # A shell reports a signal.
    (
        r"(?:\S+:\s)*(?:line\s\d+:\s)?\s*(?:\d+\s)?"
        r"(?:Segmentation fault|Aborted|Killed|Terminated|Bus error|Floating point exception"
        r"|Illegal instruction|Hangup|Alarm clock)(?:\s\(core dumped\))?(?:\s{2,}.*)?$"
    ),
    r"#\d+\s|Error termination\.|Backtrace for this error:",  # gfortran
    r"\s+at\s|\s*\.\.\.\s\d+ more|Node\.js v\d",  # Java, JavaScript
    r"note: ",  # Rust
    r"(?:srun|slurmstepd):\s|(?:mpirun|mpiexec|prterun)\s",
    r"Command exited with non-zero status",
)
_COLOUR = r"\x1b\[[0-9;]*[A-Za-z]"
_FOLDERS = r"""(^|[^\pL\pN_.])/(?:[^\s:'"<>|,;()/]*/)+"""
_NUMBER = (
    r"(^|[^\pL\pN_])"
    r"(?:0x[0-9a-fA-F]+\b|([0-9a-f]{8,})\b|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
)


@cache
def _compiled(pattern: str) -> Pattern:
    """In bounded time, for experiments choose the text."""
    from zenturio.regular_expressions import compile_pattern  # noqa: PLC0415 - failures need it

    return compile_pattern(pattern)


def describe_failure(cause: str, stderr: Log) -> str:
    """*cause* (``exit 1``) with the last line of *stderr* that says something.

    Numbers in it are ``#`` and folders are left out, so that experiments fail alike whose points,
    steps and addresses differ: ``exit 1: FloatingPointError: overflow in step #``.
    """
    try:
        line = _alike(_last_line(_text(stderr)))
    except InputError:  # a line that was made to take long says nothing
        line = ""
    return f"{cause}: {line}" if line else cause


def log_end(stderr: Log, stdout: Log, lines: int) -> tuple[str, str]:
    """The last *lines* of what an experiment said, of stderr if it said anything there.

    The name of the stream is told with it; both are empty where it said nothing.
    """
    for stream, log in (("stderr", stderr), ("stdout", stdout)):
        text = _text(log).rstrip()[-_SHOWN:]
        if text:
            return stream, "\n".join(text.split("\n")[-lines:])
    return "", ""


MISSING = "metric missing: "
"""How the cause begins where a program ended well and a metric was not found."""


def missing_names(cause: str) -> list[str]:
    """Return the metrics that *cause* says are missing."""
    names = cause.removeprefix(MISSING)
    return names.split(", ") if names != cause else []


def missing_reasons(cause: str, metrics: Mapping[str, MetricValue]) -> tuple[str, ...]:
    """What metrics that *cause* names are, or why they were not found; else nothing."""
    if cause.startswith("VERIFY ") and not cause.startswith('VERIFY "'):
        named = dict.fromkeys(_compiled(r"[\pL\pN_]+").findall(cause))
        measured = {name: metrics[name] for name in named if name in metrics}
        return tuple(
            f"{name} is {value!r}"
            for name, value in measured.items()
            if not isinstance(value, Missing | Series)
        )
    values = {name: metrics.get(name) for name in missing_names(cause)}
    return tuple(f"{n}: {value.why}" for n, value in values.items() if isinstance(value, Missing))


def _text(log: Log) -> str:
    return (log.tail or log.head)[-_SEARCHED:].decode("utf-8", "backslashreplace")


def _last_line(text: str) -> str:
    """The line that names the fault, if there is one."""
    panic = _panic(text)
    if panic:
        return panic
    _, traceback, behind = text.rpartition(_TRACEBACK)
    lines = (behind if traceback else text).splitlines()
    if traceback:  # the exception stands behind its frames, which are indented
        return next((line for line in lines if line[:1].strip()), "")
    return next((line for line in reversed(lines) if not _is_noise(line)), "")


def _panic(text: str) -> str:
    """What Go says before it lists its goroutines."""
    lines = text.split("\n")
    last = max((n for n, line in enumerate(lines) if line.startswith("goroutine ")), default=0)
    return next((line for line in lines[:last] if line.startswith(_PANICS)), "")


def _is_noise(line: str) -> bool:
    if not any(c.isalnum() for c in line):  # rules, carets
        return True
    return _compiled("|".join(_NOISE)).match(line) is not None


def _alike(line: str) -> str:
    line = _compiled(_FOLDERS).sub(r"\1", _compiled(_COLOUR).sub("", line))
    line = " ".join("".join(c if c.isprintable() else " " for c in line).split())
    line = _compiled(_NUMBER).sub(_hidden, line)
    return line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."


def _hidden(number: Any) -> str:
    """A sign for a number; what looks like a digest without any digit is a word."""
    word = number[2]
    is_word = word is not None and not any(c.isdigit() for c in word)
    return str(number[0]) if is_word else f"{number[1]}#"
