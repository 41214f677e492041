"""Code that measures a region: its statements in C, C++ and Fortran.

The guard is a variable with the attribute ``cleanup`` of GCC and Clang, so that a round ends with
its block, too: by ``return``, ``break``, ``goto``, or an exception of C++. The functions are weak:
regions of the same name in several files are one. They are bound to Linux's C library under other
names, so that no header is needed, and none is in the way.

A statement of Fortran has 132 columns at most, 72 in fixed form, so that no line holds a probe.
The subroutines are written in columns 7 to 72, which both forms read alike. Fortran has nothing
that runs when a block is left: a round that was left by RETURN or CYCLE ends when the next one
begins, which is told from recursion by where the stack stands, or with the program.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from zlib import crc32

from zenturio.annotate.model import MeasuredRegion, Probe

_C_CODE = """
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


def c_lines(name: str) -> tuple[str, str]:
    """The code before a region and behind it; *name* begins all names in it."""
    begin = (
        f'extern void {name}_a(char *) __asm__("{name}_enter"); '
        f'extern void {name}_b(char *) __asm__("{name}_leave"); '
        f"char {name}_guard __attribute__((cleanup({name}_b))); {name}_a(&{name}_guard);"
    )
    return begin, f"{name}_b(&{name}_guard);"


def c_routine(name: str, region: MeasuredRegion, key: Callable[[str], str]) -> str:
    """What stands behind the file; *key* writes a metric's name within a text of C."""
    values = {
        "WTIME": (("wtime", "%.9f", "all.span"), ("wtime_sum", "%.9f", "all.wall")),
        "CTIME": (("ctime", "%.9f", "all.cpu"),),
        "MAXRSS": (("maxrss", "%.0f", "all.size"),),
    }
    printed = [value for probe in region.probes for value in values[probe]]
    printed += [("count", "%ld", "all.count"), ("unfinished", "%ld", "all.unfinished")]
    text = ", ".join(f"{key(f'{region.name}_{n}')}: {form}" for n, form, _ in printed)
    code = _C_CODE.replace("@TEXT", "{" + text + "}")
    code = code.replace("@VALUES", "".join(f", {value}" for _, _, value in printed))
    # A probe that is not asked for must cost nothing: its lines are left out, not skipped.
    for probe, mark in (("CTIME", "@CPU"), ("MAXRSS", "@SIZE")):
        if probe in region.probes:
            code = code.replace(mark, "")
        else:
            kept = [line for line in code.split("\n") if mark not in line]
            code = "\n".join(kept)
    return code.replace("@", name)


_CHUNK = 30
_CLOCK = """\
        function zen_clock(k, d) bind(c, name='clock_gettime')
        import :: c_int, c_long
        integer(c_int) :: zen_clock
        integer(c_int), value :: k
        integer(c_long) :: d(2)
        end function
"""
_USAGE = """\
        function zen_usage(k, d) bind(c, name='getrusage')
        import :: c_int, c_long
        integer(c_int) :: zen_usage
        integer(c_int), value :: k
        integer(c_long) :: d(36)
        end function
"""
_READ_CPU = """\
      p = 0
      y = zen_clock(3_c_int, d)
      if (y == 0) p = real(d(1), r8) + 1d-9 * real(d(2), r8)
      if (y /= 0) call cpu_time(p)
"""
_READ_SIZE = """\
        y = zen_usage(0_c_int, k)
        if (y == 0) z = k(5) * 1024
"""
_FORTRAN_CODE = """\
      subroutine @(e)
      use, intrinsic :: iso_c_binding, only: c_int, c_long, c_loc
      use, intrinsic :: iso_c_binding, only: c_funptr, c_funloc
      use, intrinsic :: iso_c_binding, only: c_intptr_t
      implicit none
      integer, parameter :: i8 = selected_int_kind(18)
      integer, parameter :: r8 = kind(1d0)
      integer, intent(in) :: e
      interface
@INTERFACES        function zen_exit(f) bind(c, name='atexit')
        import :: c_int, c_funptr
        integer(c_int) :: zen_exit
        type(c_funptr), value :: f
        end function
        subroutine @_report() bind(c)
        end subroutine
      end interface
      integer(c_int), target :: here
      integer(c_intptr_t) :: h
      integer(c_int) :: y
@LOCALS      integer(i8) :: c, r
      real(r8) :: w, p
      logical :: last
      integer :: u, f
      character(4096) :: path
      integer, save :: n = 0
      integer(c_intptr_t), save :: g = 0
      real(r8), save :: a = 0, b = 0
!$omp threadprivate(n, g, a, b)
      integer, save :: i = 0
      integer(i8), save :: m = 0, q = 0, x = 0, j = 0
      real(r8), save :: o = 0, s = 0, t = 0, v = 0
      integer(i8), save :: m1 = 0, j1 = 0
      real(r8), save :: s1 = 0, t1 = 0, v1 = 0
      real(r8), save :: s2 = 0, t2 = 0, v2 = 0
      real(r8), save :: s3 = 1, t3 = 1, v3 = 1
      call system_clock(c, r)
      w = real(c, r8) / real(r, r8)
@CPU      here = 0
      h = transfer(c_loc(here), h)
      last = n == 1 .and. e == 1
      if (e == 0 .and. n > 0) last = h >= g
      if (e == 2) last = n > 0
      if (last) then
!$omp critical (@_k)
        t = t + w - a
        v = v + p - b
        m = m + 1
        q = q - 1
        if (q == 0) s = s + w - o
        if (q == 0) j = j + 1
        if (e /= 1) x = x + 1
@SIZE!$omp end critical (@_k)
        n = 0
      else if (e == 1 .and. n > 0) then
        n = n - 1
      end if
      if (e == 0) then
        n = n + 1
        if (n > 1) return
        g = h
!$omp critical (@_k)
        if (i == 0) then
          y = zen_exit(c_funloc(@_report))
          i = 1 + int(y)
        end if
        q = q + 1
        if (q == 1) o = w
!$omp end critical (@_k)
        a = w
        b = p
      end if
      if (e == 2) then
        m1 = m
        j1 = j
        s1 = s
        t1 = t
        v1 = v
        if (q > 0) s1 = s1 + w - o
        x = x + q
      else if (e == 3) then
        s2 = s
        t2 = t
        v2 = v
      else if (e == 4) then
        s3 = min(s3, (s - s2) / 20)
        t3 = min(t3, (t - t2) / 20)
        v3 = min(v3, (v - v2) / 20)
      end if
      if (e /= 5) return
      s1 = max(s1 - real(j1, r8) * s3, 0d0)
      t1 = max(t1 - real(m1, r8) * t3, s1)
      v1 = max(v1 - real(m1, r8) * v3, 0d0)
      call get_environment_variable('ZEN_METRICS', path, status=f)
      if (f /= 0) return
      open(newunit=u, file=path, position='append', iostat=f)
      if (f /= 0) return
@VALUES      write(u, '(a)') '}'
      close(u)
      end subroutine @
      subroutine @_report() bind(c)
      integer :: i, j
      call @(2)
      do i = 1, 10
        call @(3)
        do j = 1, 20
          call @(0)
          call @(1)
        end do
        call @(4)
      end do
      call @(5)
      end subroutine @_report
"""
_REAL = "      write(u, '(es23.15e3)', advance='no') {}\n"
_WHOLE = "      write(u, '(i0)', advance='no') {}\n"
_VALUES: dict[Probe, tuple[tuple[str, str], ...]] = {
    "WTIME": (("wtime", _REAL.format("s1")), ("wtime_sum", _REAL.format("t1"))),
    "CTIME": (("ctime", _REAL.format("v1")),),
    "MAXRSS": (
        (
            "maxrss",
            (
                "      if (z >= 0) write(u, '(i0)', advance='no') z\n"
                "      if (z < 0) write(u, '(a)', advance='no') 'null'\n"
            ),
        ),
    ),
}
_COUNTS = (("count", _WHOLE.format("m1")), ("unfinished", _WHOLE.format("x")))


def fortran_calls(region: MeasuredRegion) -> tuple[str, str]:
    """The statements before the region and behind it."""
    name = _name(region)
    return f"call {name}(0)", f"call {name}(1)"


def fortran_routine(region: MeasuredRegion) -> str:
    """The subroutines that they call."""
    timed, sized = "CTIME" in region.probes, "MAXRSS" in region.probes
    values = [value for probe in region.probes for value in _VALUES[probe]]
    d, k = (
        "      integer(c_long) :: d(2)\n",
        "      integer(c_long) :: k(36)\n      integer(i8), save :: z = -1\n",
    )
    parts = {
        "@INTERFACES": _CLOCK * timed + _USAGE * sized,
        "@LOCALS": d * timed + k * sized,
        "@CPU": _READ_CPU if timed else "      p = 0\n",
        "@SIZE": _READ_SIZE * sized,
        "@VALUES": "".join(_written(region.name, (*values, *_COUNTS))),
    }
    code = _FORTRAN_CODE
    for mark, text in parts.items():
        code = code.replace(mark, text)
    return code.replace("@", _name(region))


def _written(region: str, values: Sequence[tuple[str, str]]) -> Iterable[str]:
    """Statements that write names and values; long names in parts."""
    opening = "{"
    for name, statement in values:
        text = f"{opening}{json.dumps(f'{region}_{name}')}: "
        # Fixed form ends at column 72, so a long name is written in parts.
        for at in range(0, len(text), _CHUNK):
            yield f"      write(u, '(a)', advance='no') '{text[at : at + _CHUNK]}'\n"
        yield statement
        opening = ", "


def _name(region: MeasuredRegion) -> str:
    """Unlike any other in the program: names have 63 letters at most, and no case."""
    return f"zen_{crc32(region.name.encode()):08x}"
