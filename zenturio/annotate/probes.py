"""
What stands around a region that CR names: one line before it, one behind it.

The line behind appends what the region has taken so far, in all its rounds together, as a JSON line
to the file that ``$ZEN_METRICS`` names; without the variable nothing is kept. A region `loop` with
WTIME makes the metric `loop_wtime`. Names in the lines begin with ``zen_``, nothing has to be
included or imported, and the lines behind keep their numbers. In C and C++ the functions of Linux's
C library are bound under other names: no header is needed, and none is in the way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from zenturio.annotate import fortran
from zenturio.annotate.dialects import Dialect
from zenturio.annotate.model import Annotated, Probe, Region
from zenturio.errors import Complaint

_Reads = Mapping[Probe, str]
_Lines = tuple[str, str]


def metric_names(name: str, probes: Iterable[Probe]) -> tuple[str, ...]:
    """The metrics that a region makes: its name with that of each probe."""
    return tuple(f"{name}_{probe.lower()}" for probe in probes)


def probe_lines(region: Region, dialect: Dialect) -> _Lines:
    """The code before a region and behind it."""
    write, _ = _LANGUAGES[dialect.name]
    plain = "".join(c if c.isascii() and c.isalnum() else f"_{ord(c):x}_" for c in region.name)
    return write(f"zen_{plain}", region)


def probe_routine(region: Region, dialect: Dialect) -> str:
    """What a region needs behind the end of its file: nothing in most languages."""
    if _LANGUAGES[dialect.name][0] is not _fortran:
        return ""
    return fortran.routine(region, metric_names(region.name, region.probes))


def unprobed(files: Iterable[Annotated]) -> tuple[Complaint, ...]:
    """One for each region in a language that lacks one of its probes, or that no metric names."""
    return tuple(
        complaint
        for file in files
        for region in file.regions
        for complaint in _complaints(region, file.dialect)
    )


def _complaints(region: Region, dialect: Dialect) -> Iterator[Complaint]:
    if not re.fullmatch(r"\w+", region.name):
        body = region.begin.body
        message = f"the region's name {region.name!r} is no word"
        place = body.place(0, len(body.text))
        yield Complaint(message, place, "letters, digits and _: its metrics are named after it")
    for probe in region.probes:
        if probe not in _LANGUAGES.get(dialect.name, (None, ()))[1]:
            yield _lacking(region, probe, dialect)


def _lacking(region: Region, probe: Probe, dialect: Dialect) -> Complaint:
    known = _LANGUAGES.get(dialect.name, (None, ()))[1]
    message = f"there is no {probe} probe for {dialect.name}"
    at = max(region.begin.body.text.upper().rfind(probe), 0)
    place = region.begin.body.place(at, at + len(probe))
    cure = f"there is {', '.join(known)}" if known else "let the program print it, for a METRIC"
    return Complaint(message, place, cure)


def _json(region: Region, number: str, quote: str = '"') -> str:
    """The JSON line with *number* in place of every value; names are written in ASCII."""
    parts = (
        quote + "".join(c if c.isascii() else _unicode(c) for c in name) + f"{quote}: {number}"
        for name in metric_names(region.name, region.probes)
    )
    return "{" + ", ".join(parts) + "}"


def _unicode(character: str) -> str:
    """As in JSON within a string of the host, where a backslash is written twice."""
    units = character.encode("utf-16-be").hex()
    return "".join(f"\\\\u{units[i : i + 4]}" for i in range(0, len(units), 4))


def _totals(region: Region, clock: Callable[[int], str], rss: str) -> list[str]:
    """The values of the JSON line: totals of the clocks by number, or the largest size so far."""
    clocks = ("WTIME", "CTIME")
    return [rss if p == "MAXRSS" else clock(clocks.index(p)) for p in region.probes]


def _python(v: str, region: Region) -> _Lines:
    now = "[__import__('time').perf_counter(), __import__('time').process_time()]"
    kept = "__import__('time').__dict__"
    factor = "(1 if __import__('sys').platform == 'darwin' else 1024)"
    rss = f"__import__('resource').getrusage(0).ru_maxrss * {factor}"
    values = ", ".join(_totals(region, lambda i: f"{v}[{i}]", rss))
    end = (
        f"{v} = [b - a + c for a, b, c in zip({v}, {now}, {kept}.get('{v}', [0, 0]))]; "
        f"{kept}['{v}'] = {v}; "
        "zen_f = open(__import__('os').environ.get('ZEN_METRICS', __import__('os').devnull), 'a'); "
        f"zen_f.write('{_json(region, '%r')}\\n' % ({values},)); zen_f.close()"
    )
    return f"{v} = {now}", end


def _c(v: str, region: Region) -> _Lines:
    rss = "zen_u[4] * 1024.0"
    values = ", ".join(_totals(region, lambda i: f"zen_t[{i}]", rss))
    text = _json(region, "%.9f", quote='\\"')
    clock = 'extern int zen_clock(int, void *) __asm__("clock_gettime"); '
    begin = f"struct {{ long s, n; }} {v}[2]; {clock}zen_clock(1, {v}); zen_clock(2, {v} + 1);"
    end = (
        "{ struct { long s, n; } zen_b[2]; static double zen_t[2]; long zen_u[36]; int zen_i; "
        f"void *zen_f; {clock}"
        'extern int zen_usage(int, void *) __asm__("getrusage"); '
        'extern char *zen_getenv(const char *) __asm__("getenv"); '
        'extern void *zen_fopen(const char *, const char *) __asm__("fopen"); '
        'extern int zen_fprintf(void *, const char *, ...) __asm__("fprintf"); '
        'extern int zen_fclose(void *) __asm__("fclose"); '
        "zen_clock(1, zen_b); zen_clock(2, zen_b + 1); zen_usage(0, zen_u); "
        "for (zen_i = 0; zen_i < 2; zen_i++) zen_t[zen_i] += "
        f"zen_b[zen_i].s - {v}[zen_i].s + 1e-9 * (zen_b[zen_i].n - {v}[zen_i].n); "
        'zen_f = zen_getenv("ZEN_METRICS") ? zen_fopen(zen_getenv("ZEN_METRICS"), "a") : 0; '
        f'if (zen_f) {{ zen_fprintf(zen_f, "{text}\\n", {values}); zen_fclose(zen_f); }} }}'
    )
    return begin, end


def _shell(v: str, region: Region) -> _Lines:
    """Of the shell and, but for the size, of all that it waited for; times in /proc are 1/100 s."""
    reads: Mapping[Probe, str] = {
        "WTIME": "$(date +%s%N)",
        "CTIME": "$(awk '{sub(/.*[)] /, x); print $12 + $13 + $14 + $15}' /proc/$$/stat)",
        "MAXRSS": "$(awk '/VmHWM/ {print $2 * 1024}' /proc/$$/status)",
    }
    text = _json(region, "%s")
    units: Mapping[Probe, str] = {"WTIME": "%de-9", "CTIME": "%de-2", "MAXRSS": "%d"}
    for probe in region.probes:
        text = text.replace("%s", units[probe], 1)
    clocks = [p for p in region.probes if p != "MAXRSS"]
    begin = "; ".join(f"{v}_{p[0]}a={reads[p]}" for p in clocks)
    sums = "".join(
        f"{v}_{p[0]}=$((${{{v}_{p[0]}:-0}} + {reads[p]} - {v}_{p[0]}a)); " for p in clocks
    )
    values = " ".join(f'"${v}_{p[0]}"' if p in clocks else f'"{reads[p]}"' for p in region.probes)
    end = f"{sums}printf '{text}\\n' {values} >> \"${{ZEN_METRICS:-/dev/null}}\""
    return begin or ":", end


def _fortran(_: str, region: Region) -> _Lines:
    return fortran.calls(region)


def _javascript(v: str, region: Region) -> _Lines:
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


def _perl(v: str, region: Region) -> _Lines:
    now = "(Time::HiRes::time(), (times)[0] + (times)[1])"
    values = ", ".join(_totals(region, lambda i: f"$zen::{v}[{i}]", "0"))
    end = (
        f"{{ my @zen_b = {now}; $zen::{v}[$_] += $zen_b[$_] - $zen::{v}_a[$_] for 0, 1; "
        'if (open(my $zen_f, ">>", $ENV{ZEN_METRICS} // "/dev/null")) '
        f"{{ printf $zen_f '{_json(region, '%.9f')}' . \"\\n\", {values}; close $zen_f; }} }}"
    )
    return f"require Time::HiRes; @zen::{v}_a = {now};", end


def _rust(v: str, region: Region) -> _Lines:
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


def _java(v: str, region: Region) -> _Lines:
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
_LANGUAGES: Mapping[str, tuple[Callable[[str, Region], _Lines], Sequence[Probe]]] = {
    "python": (_python, _ALL),
    "c": (_c, _ALL),
    "c++": (_c, _ALL),
    "cuda": (_c, _ALL),
    "fortran": (_fortran, _ALL),
    "fixed fortran": (_fortran, _ALL),
    "shell": (_shell, _ALL),
    "javascript": (_javascript, _ALL),
    "perl": (_perl, ("WTIME", "CTIME")),
    "rust": (_rust, _WALL),
    "java": (_java, _WALL),
}
