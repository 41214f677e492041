"""What an experiment that failed has said, in words that are the same for the same fault."""

from __future__ import annotations

import re

from zenturio.experiment.experiment import Log

_LONGEST = 120
_SEARCHED = 2**16
_SHOWN = 4000
_TRACEBACK = "Traceback (most recent call last):"
_PANIC = re.compile(r"(?m)^(?:panic|fatal error): .*(?=(?:\n.*)*?\ngoroutine \d)")
# Lines that follow every fault of a kind, and so tell none from another.
_NOISE = re.compile(
    r"""(?x)
      \W* $                                             # rules, carets
    | \s* \d* \s* \| .*                                 # the source line that a compiler shows
    | (?:g|b|c|n)?make (?:\[\d+\])? : \s (?:\*\*\*\s\[.*|.*\sdirectory\s.*)
    | ninja:\ build\ stopped.* | collect2:.* | compilation\ terminated\.
    | \d+\ (?:error|warning)s?\b.*\ generated\. | exit\ status\ \d+
    | (?:\S+:\s)* (?:line\s\d+:\s)? \s* (?:\d+\s)?      # a shell reports a signal
      (?:Segmentation\ fault|Aborted|Killed|Terminated|Bus\ error|Floating\ point\ exception
        |Illegal\ instruction|Hangup|Alarm\ clock) (?:\s\(core\ dumped\))? (?:\s{2,}.*)? $
    | \#\d+\s.* | Error\ termination\..* | Backtrace\ for\ this\ error:.*   # gfortran
    | \s+at\s.* | \s*\.\.\.\s\d+\ more | Node\.js\ v\d.*                    # Java, JavaScript
    | note:\ .*                                                             # Rust
    | (?:srun|slurmstepd):\ .* | (?:mpirun|mpiexec|prterun)\ .*
    | Command\ exited\ with\ non-zero\ status.*
    """
)
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_FOLDERS = re.compile(r"(?<![\w.])/(?:[^\s:'\"<>|,;()/]*/)+")
_NUMBER = re.compile(
    r"\b0x[0-9a-fA-F]+\b|\b(?=[a-f]*\d)[0-9a-f]{8,}\b|(?<!\w)\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
)


def explained(cause: str, stderr: Log) -> str:
    """*cause* (``exit 1``) with the last line of *stderr* that says something.

    Numbers in it are ``#`` and folders are left out, so that experiments fail alike whose points,
    steps and addresses differ: ``exit 1: FloatingPointError: overflow in step #``.
    """
    line = _alike(_last_line(_text(stderr)))
    return f"{cause}: {line}" if line else cause


def log_end(stderr: Log, stdout: Log, lines: int) -> tuple[str, str]:
    """The last *lines* of what an experiment said, of stderr if it said anything there.

    The name of the stream is told with it; both are empty where it said nothing.
    """
    for stream, log in (("stderr", stderr), ("stdout", stdout)):
        said = _text(log).rstrip()[-_SHOWN:]
        if said:
            return stream, "\n".join(said.split("\n")[-lines:])
    return "", ""


def _text(log: Log) -> str:
    return (log.tail or log.head)[-_SEARCHED:].decode("utf-8", "backslashreplace")


def _last_line(text: str) -> str:
    """The line that names the fault, if there is one."""
    panic = _PANIC.search(text)
    if panic:
        return panic[0]
    _, traceback, behind = text.rpartition(_TRACEBACK)
    lines = (behind if traceback else text).splitlines()
    if traceback:  # the exception stands behind its frames, which are indented
        return next((line for line in lines if line[:1].strip()), "")
    return next((line for line in reversed(lines) if not _NOISE.match(line)), "")


def _alike(line: str) -> str:
    line = _FOLDERS.sub("", _COLOUR.sub("", line))
    line = " ".join("".join(c if c.isprintable() else " " for c in line).split())
    line = _NUMBER.sub("#", line)
    return line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."
