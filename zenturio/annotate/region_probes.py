"""
What stands around a region that CR names: one line before it, one behind it.

What the region took, in all its rounds together, is appended as a JSON line to the file that
``$ZEN_METRICS`` names; without the variable nothing is kept. A region `loop` with WTIME makes the
metric `loop_wtime`. Names in the lines begin with ``zen_``, nothing has to be included or imported,
and the lines behind keep their numbers.

C, C++, Fortran and Python have clocks for each thread, count what recursion takes once, end a round
that is left otherwise where the language tells of it, and write when the program ends; what they
need for that stands behind the file (region_c, fortran) or in the line before (region_runtime).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from zlib import crc32

from zenturio.annotate.counter_events import SYSCALLS, counter_event, counter_metric
from zenturio.annotate.dialects import Dialect
from zenturio.annotate.model import Annotated, MeasuredRegion, Probe
from zenturio.annotate.source import without_end
from zenturio.errors import Diagnostic, Place
from zenturio.system.platform_detection import SHELL_CLOCKS

_MEANING = 2
"""Another number where probes measure something else: then results are measured anew."""
_RETURN = re.compile(r"(?i)[^!#'\"]*\b(return)\b")
_Reads = Mapping[Probe, str]
_Lines = tuple[str, str]


def metric_names(name: str, probes: Iterable[Probe]) -> tuple[str, ...]:
    """Return the metrics that a region makes: its name with that of each probe."""
    return tuple(f"{name}_{probe.lower()}" for probe in probes)


def probe_lines(region: MeasuredRegion, dialect: Dialect) -> _Lines:
    """Return the code before a region and behind it."""
    write, _ = _LANGUAGES[dialect.name]
    return write(_variable(region), region)


def _variable(region: MeasuredRegion) -> str:
    plain = "".join(c if c.isascii() and c.isalnum() else f"_{ord(c):x}_" for c in region.name)
    return f"zen_{plain}"


def probe_essence(region: MeasuredRegion) -> str:
    """What counts of a probe in the identity of a program."""
    return f"ZEN CR {' '.join((region.name, *region.probes, *region.counters))} {_MEANING}"


def probe_routine(region: MeasuredRegion, dialect: Dialect) -> str:
    """What a region needs behind the end of its file: nothing in most languages."""
    from zenturio.annotate import region_code  # noqa: PLC0415 - most studies have no region

    write = _LANGUAGES[dialect.name][0]
    if write is _fortran:
        return region_code.fortran_routine(region)
    if write is _c:
        return region_code.c_routine(_symbol(_variable(region), region), region, _c_key)
    return ""


def _c_key(name: str) -> str:
    return '\\"' + _ascii(name) + '\\"'


def unprobed(files: Iterable[Annotated]) -> tuple[Diagnostic, ...]:
    """One for each region in a language that lacks one of its probes, or that no metric names."""
    return tuple(
        diagnostic
        for file in files
        for region in file.regions
        for diagnostic in _diagnostics(region, file.dialect)
    )


def unguarded(files: Iterable[Annotated]) -> Iterator[Diagnostic]:
    """Warnings of regions that a RETURN leaves, in languages that cannot tell when it did."""
    for file in files:
        if _LANGUAGES.get(file.dialect.name, (None,))[0] not in (_fortran, _shell):
            continue
        for region in file.regions:
            for number in range(region.begin.last + 1, region.end.first):
                text = without_end(file.source.lines[number])
                match = _RETURN.match(text)
                if match:
                    message = (
                        f"a pass through {region.name} that leaves the region here is measured "
                        "until the next pass begins"
                    )
                    at = match.start(1)
                    place = Place(str(file.source.path), number + 1, at + 1, text, len(match[1]))
                    hint = (
                        "put END CR before this line: in this language, zenturio cannot detect "
                        "that the region is left here"
                    )
                    yield Diagnostic(message, place, hint, severity="warning")


def _diagnostics(region: MeasuredRegion, dialect: Dialect) -> Iterator[Diagnostic]:
    if not re.fullmatch(r"\w+", region.name):
        body = region.begin.body
        message = f"the region's name {region.name!r} is not a word"
        place = body.place(0, len(body.text))
        yield Diagnostic(
            message, place, "use letters, digits and _: the metrics of the region contain its name"
        )
    for probe in region.probes:
        if probe not in _LANGUAGES.get(dialect.name, (None, ()))[1]:
            yield _lacking(region, probe, dialect)
    counts = _LANGUAGES.get(dialect.name, (None,))[0] in (_c, _fortran, _python)
    if region.counters and not counts:
        body = region.begin.body
        message = f"events cannot be counted in regions of {dialect.name}"
        place = body.place(0, len(body.text))
        yield Diagnostic(
            message, place, f"OBSERVE perf {', '.join(region.counters)} counts in the whole run"
        )


def _lacking(region: MeasuredRegion, probe: Probe, dialect: Dialect) -> Diagnostic:
    probes = _LANGUAGES.get(dialect.name, (None, ()))[1]
    message = f"there is no {probe} probe for {dialect.name}"
    at = max(region.begin.body.text.upper().rfind(probe), 0)
    place = region.begin.body.place(at, at + len(probe))
    if dialect.name == "shell":
        message += " on this system, only on Linux"
    hint = (
        f"there is {', '.join(probes)}"
        if probes
        else ("let the program print the value, and read it with a METRIC")
    )
    return Diagnostic(message, place, hint)


def _json(region: MeasuredRegion, number: str, quote: str = '"') -> str:
    """Return the JSON line with *number* in place of every value; names are written in ASCII."""
    parts = (quote + _ascii(name) + f"{quote}: {number}" for name in _names(region))
    return "{" + ", ".join(parts) + "}"


def _ascii(name: str) -> str:
    return "".join(c if c.isascii() else _unicode(c) for c in name)


def _names(region: MeasuredRegion) -> tuple[str, ...]:
    return metric_names(region.name, region.probes)


def _unicode(character: str) -> str:
    """As in JSON within a string of the host, where a backslash is written twice."""
    # JSON escapes beyond the basic plane as two halves, a surrogate pair.
    units = character.encode("utf-16-be").hex()
    return "".join(f"\\\\u{units[i : i + 4]}" for i in range(0, len(units), 4))


def _totals(region: MeasuredRegion, clock: Callable[[int], str], rss: str) -> list[str]:
    """The values of the JSON line: totals of the clocks by number, or the largest size so far."""
    clocks = ("WTIME", "CTIME")
    return [rss if p == "MAXRSS" else clock(clocks.index(p)) for p in region.probes]


@cache
def _runtime() -> str:
    """What regions of Python share, as an expression that no encoding of a file changes."""
    return ascii(files("zenturio.annotate").joinpath("region_runtime.py").read_text("utf-8"))


def _python(v: str, region: MeasuredRegion) -> _Lines:
    """A round is an object in a variable: it ends with the region, or with the frame."""
    modules = "__import__('sys').modules"
    make = (
        f"lambda all, new: (exec({_runtime()}, new.__dict__), all.setdefault('zen_regions', new))"
    )
    begin = (
        f"{v} = None; {modules}.get('zen_regions') or "
        f"({make})({modules}, type(__import__('sys'))('zen_regions')); "
        f"{v} = {modules}['zen_regions'].enter({region.name!a}, {tuple(region.probes)!r}"
        f"{_python_counters(region)})"
    )
    return begin, f"{v} = {v}.leave()"


def _python_counters(region: MeasuredRegion) -> str:
    """What else the runtime is told: names, types and numbers of the events that it counts."""
    if not region.counters:
        return ""
    events = ((counter_metric(name), counter_event(name)) for name in region.counters)
    listed = tuple((name, *event[:2], event.scale) for name, event in events if event)
    return f", {listed!r}, {dict(SYSCALLS)!r}"


def _c(v: str, region: MeasuredRegion) -> _Lines:
    from zenturio.annotate import region_code  # noqa: PLC0415 - most studies have no region

    return region_code.c_lines(_symbol(v, region))


def _symbol(v: str, region: MeasuredRegion) -> str:
    """What several files share, if they measure the same in regions of the same name."""
    counted = f"_{crc32(' '.join(region.counters).encode()):08x}" if region.counters else ""
    return v + "".join(sorted(probe[0].lower() for probe in region.probes)) + counted


def _shell(v: str, region: MeasuredRegion) -> _Lines:
    """Of the shell and, but for the size, of all that it waited for; CTIME is in 1/100 s."""
    reads = SHELL_CLOCKS
    clocks = [p for p in region.probes if p != "MAXRSS"]
    stop = "".join(
        f"{v}_{p[0]}=$((${{{v}_{p[0]}:-0}} + {reads[p]} - {v}_{p[0]}a)); " for p in clocks
    )
    stop += f"{v}_o=0; {v}_m=$((${{{v}_m:-0}} + 1)); "
    is_open = f'[ "${{{v}_o:-0}}" = 1 ]'
    least = (
        f'if [ -z "${{{v}_k:-}}" ]; then {v}_k=1000000000; for zen_i in 1 2 3 4 5; do '
        f"zen_d=$((0 - {reads['WTIME']} + {reads['WTIME']})); "
        f'if [ "$zen_d" -lt "${v}_k" ]; then {v}_k=$zen_d; fi; done; fi; '
    )
    begin = (
        f"{least if 'WTIME' in clocks else ''}"
        f"if {is_open}; then {stop}{v}_u=$((${{{v}_u:-0}} + 1)); fi; {v}_o=1; "
        + "; ".join(f"{v}_{p[0]}a={reads[p]}" for p in clocks)
    )
    spent = f"{v}_W - {v}_m * {v}_k"
    values: Mapping[Probe, tuple[str, str]] = {
        "WTIME": ("%de-9", f"$(({spent} > 0 ? {spent} : 0))"),
        "CTIME": ("%de-2", f"${v}_C"),
        "MAXRSS": ("%d", reads["MAXRSS"]),
    }
    printed = [(name, *values[p]) for name, p in zip(_names(region), region.probes, strict=True)]
    printed += [(f"{region.name}_count", "%d", f"${v}_m")]
    printed += [(f"{region.name}_unfinished", "%d", f"${{{v}_u:-0}}")]
    text = ", ".join(f'"{_ascii(name)}": {form}' for name, form, _ in printed)
    written = " ".join(f'"{value}"' for *_, value in printed)
    end = (
        f"if {is_open}; then {stop}fi; "
        f"printf '{{{text}}}\\n' {written} >> \"${{ZEN_METRICS:-/dev/null}}\""
    )
    return begin, end


def _fortran(_: str, region: MeasuredRegion) -> _Lines:
    from zenturio.annotate import region_code  # noqa: PLC0415 - most studies have no region

    return region_code.fortran_calls(region)


def _javascript(v: str, region: MeasuredRegion) -> _Lines:
    cpu = "(process.cpuUsage().user + process.cpuUsage().system) / 1e6"
    now = f"[performance.now() / 1e3, {cpu}]"
    rss = "process.resourceUsage().maxRSS * 1024"
    values = _totals(region, lambda i: f"globalThis.{v}[{i}]", rss)
    text = _json(region, "@")
    for value in values:
        text = text.replace("@", f"' + ({value}) + '", 1)
    end = (
        f"globalThis.{v} = {now}.map((x, i) => x - globalThis.{v}_a[i] + "
        f"(globalThis.{v} || [0, 0])[i]); "
        "(process.getBuiltinModule ? process.getBuiltinModule('fs') : require('fs'))"
        f".appendFileSync(process.env.ZEN_METRICS || '/dev/null', '{text}\\n');"
    )
    return f"globalThis.{v}_a = {now};", end


def _perl(v: str, region: MeasuredRegion) -> _Lines:
    now = "(Time::HiRes::time(), (times)[0] + (times)[1])"
    values = ", ".join(_totals(region, lambda i: f"$zen::{v}[{i}]", "0"))
    end = (
        f"{{ my @zen_b = {now}; $zen::{v}[$_] += $zen_b[$_] - $zen::{v}_a[$_] for 0, 1; "
        'if (open(my $zen_f, ">>", $ENV{ZEN_METRICS} // "/dev/null")) '
        f"{{ printf $zen_f '{_json(region, '%.9f')}' . \"\\n\", {values}; close $zen_f; }} }}"
    )
    return f"require Time::HiRes; @zen::{v}_a = {now};", end


def _rust(v: str, region: MeasuredRegion) -> _Lines:
    text = _json(region, "@", quote='\\"').replace("{", "{{").replace("}", "}}")
    end = (
        "{ static ZEN_T: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0); "
        f"let zen_d = {v}.elapsed().as_nanos() as u64; "
        "let zen_t = ZEN_T.fetch_add(zen_d, std::sync::atomic::Ordering::Relaxed) + zen_d; "
        'if let Ok(zen_p) = std::env::var("ZEN_METRICS") { if let Ok(mut zen_f) = '
        "std::fs::OpenOptions::new().append(true).create(true).open(zen_p) { "
        f'let _ = std::io::Write::write_all(&mut zen_f, format!("{text}\\n", zen_t as f64 * 1e-9)'
        ".as_bytes()); } } }"
    ).replace("@", "{:.9}")
    return f"let {v} = std::time::Instant::now();", end


def _java(v: str, region: MeasuredRegion) -> _Lines:
    before, _, behind = _json(region, "@", quote='\\"').partition("@")
    end = (
        f'System.setProperty("{v}", "" + (Long.getLong("{v}", 0) + System.nanoTime() - {v})); '
        "try (java.io.FileWriter zen_f = new java.io.FileWriter("
        'System.getenv().getOrDefault("ZEN_METRICS", "/dev/null"), true)) '
        f'{{ zen_f.write("{before}" + Long.getLong("{v}") * 1e-9 + "{behind}\\n"); }} '
        "catch (java.io.IOException zen_e) { }"
    )
    return f"long {v} = System.nanoTime();", end


_ALL: Sequence[Probe] = ("WTIME", "CTIME", "MAXRSS")
_WALL: Sequence[Probe] = ("WTIME",)
_LANGUAGES: Mapping[str, tuple[Callable[[str, MeasuredRegion], _Lines], Sequence[Probe]]] = {
    "python": (_python, _ALL),
    "c": (_c, _ALL),
    "c++": (_c, _ALL),
    "cuda": (_c, _ALL),
    "fortran": (_fortran, _ALL),
    "fixed fortran": (_fortran, _ALL),
    "shell": (_shell, _ALL if SHELL_CLOCKS else ()),
    "javascript": (_javascript, _ALL),
    "perl": (_perl, ("WTIME", "CTIME")),
    "rust": (_rust, _WALL),
    "java": (_java, _WALL),
}
