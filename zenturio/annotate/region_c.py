"""
The probe of a region in C and C++: a guard in the region's block, and functions behind the file.

The guard is a variable with the attribute ``cleanup`` of GCC and Clang, so that a round ends with
its block, too: by ``return``, ``break``, ``goto``, or an exception of C++. The functions are weak:
regions of the same name in several files are one. They are bound to Linux's C library under other
names, so that no header is needed, and none is in the way.
"""

from __future__ import annotations

from collections.abc import Callable

from zenturio.annotate.model import Region

_CODE = """
/* ZEN: what the region took; see "Regions" in zenturio's documentation of the language. */
struct @_all {
    int lock, pid, written;
    long active, count, spans, unfinished;
    double since, span, wall, cpu, size;
};
struct @_own { long depth; char *guard; double wall, cpu; };
extern int @_clock(int, void *) __asm__("clock_gettime");
extern int @_usage(int, void *) __asm__("getrusage");
extern int @_getpid(void) __asm__("getpid");
extern int @_yield(void) __asm__("sched_yield");
extern char *@_getenv(const char *) __asm__("getenv");
extern void *@_fopen(const char *, const char *) __asm__("fopen");
extern int @_fprintf(void *, const char *, ...) __asm__("fprintf");
extern int @_fclose(void *) __asm__("fclose");
extern struct @_all @_state __attribute__((weak));
extern __thread struct @_own @_mine __attribute__((weak));
extern void @_begin(char *) __asm__("@_enter") __attribute__((weak));
extern void @_end(char *) __asm__("@_leave") __attribute__((weak));
struct @_all @_state;
__thread struct @_own @_mine;
static double @_now(int which) {
    struct { long s, n; } t;
    t.s = t.n = 0;
    @_clock(which, &t);
    return (double) t.s + 1e-9 * (double) t.n;
}
static void @_take(void) { while (__sync_lock_test_and_set(&@_state.lock, 1)) @_yield(); }
static void @_give(void) { __sync_lock_release(&@_state.lock); }
static void @_renew(int pid) {
    struct @_all none = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
    if (@_state.pid) @_state.lock = 0;
    @_take();
    if (@_state.pid != pid) {
        none.lock = 1;
        none.pid = pid;
        @_state = none;
        @_mine.depth = 0;
    }
    @_give();
}
void @_begin(char *guard) {
    int pid = @_getpid();
    *guard = 1;
    if (@_state.pid != pid) @_renew(pid);
    if (@_mine.depth > 0 && guard == @_mine.guard) {
        char left = 1;
        @_mine.depth = 1;
        @_state.unfinished++;
        @_end(&left);
    }
    if (@_mine.depth++ > 0) return;
    @_mine.guard = guard;
    @_take();
    if (@_state.active++ == 0) @_state.since = @_now(1);
    @_give();
    @CPU@_mine.cpu = @_now(3);
    @_mine.wall = @_now(1);
}
void @_end(char *guard) {
    double wall = @_now(1), cpu = 0;
    @CPUcpu = @_now(3);
    if (!*guard) return;
    *guard = 0;
    if (@_mine.depth <= 0 || --@_mine.depth > 0) return;
    @_take();
    @_state.wall += wall - @_mine.wall;
    @_state.cpu += cpu - @_mine.cpu;
    @_state.count++;
    if (--@_state.active == 0) {
        @_state.span += wall - @_state.since;
        @_state.spans++;
    }
    @SIZE{ long used[36]; @_usage(0, used); @_state.size = 1024.0 * (double) used[4]; }
    @_give();
}
static void @_report(void) __attribute__((destructor));
static void @_report(void) {
    struct @_all all, before;
    double span = 1, wall = 1, cpu = 1, part;
    int i, j;
    char guard = 1;
    void *file;
    char *name = @_getenv("ZEN_METRICS");
    if (!name || @_state.pid != @_getpid() || @_state.written++) return;
    if (@_mine.depth > 0) {
        @_mine.depth = 1;
        @_state.unfinished++;
        @_end(&guard);
    }
    all = @_state;
    all.unfinished += all.active;
    if (all.active) all.span += @_now(1) - all.since;
    for (i = 0; i < 10; i++) {
        before = @_state;
        for (j = 0; j < 100; j++) { @_begin(&guard); @_end(&guard); }
        part = (@_state.span - before.span) / 100;
        if (part < span) span = part;
        part = (@_state.wall - before.wall) / 100;
        if (part < wall) wall = part;
        part = (@_state.cpu - before.cpu) / 100;
        if (part < cpu) cpu = part;
    }
    all.span -= (double) all.spans * span;
    all.wall -= (double) all.count * wall;
    all.cpu -= (double) all.count * cpu;
    if (all.span < 0) all.span = 0;
    if (all.wall < all.span) all.wall = all.span;
    if (all.cpu < 0) all.cpu = 0;
    file = @_fopen(name, "a");
    if (!file) return;
    @_fprintf(file, "@TEXT\\n"@VALUES);
    @_fclose(file);
}
"""


def lines(name: str) -> tuple[str, str]:
    """The code before a region and behind it; *name* begins all names in it."""
    begin = (
        f'extern void {name}_a(char *) __asm__("{name}_enter"); '
        f'extern void {name}_b(char *) __asm__("{name}_leave"); '
        f"char {name}_guard __attribute__((cleanup({name}_b))); {name}_a(&{name}_guard);"
    )
    return begin, f"{name}_b(&{name}_guard);"


def routine(name: str, region: Region, key: Callable[[str], str]) -> str:
    """What stands behind the file; *key* writes a metric's name within a text of C."""
    values = {
        "WTIME": (("wtime", "%.9f", "all.span"), ("wtime_sum", "%.9f", "all.wall")),
        "CTIME": (("ctime", "%.9f", "all.cpu"),),
        "MAXRSS": (("maxrss", "%.0f", "all.size"),),
    }
    told = [each for probe in region.probes for each in values[probe]]
    told += [("count", "%ld", "all.count"), ("unfinished", "%ld", "all.unfinished")]
    text = ", ".join(f"{key(f'{region.name}_{n}')}: {form}" for n, form, _ in told)
    code = _CODE.replace("@TEXT", "{" + text + "}")
    code = code.replace("@VALUES", "".join(f", {value}" for _, _, value in told))
    for probe, mark in (("CTIME", "@CPU"), ("MAXRSS", "@SIZE")):
        if probe in region.probes:
            code = code.replace(mark, "")
        else:
            kept = [line for line in code.split("\n") if mark not in line]
            code = "\n".join(kept)
    return code.replace("@", name)
