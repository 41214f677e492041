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
import re
from collections.abc import Callable, Iterable, Sequence
from zlib import crc32

from zenturio.annotate.counter_events import SYSCALLS, counter_event, counter_metric
from zenturio.annotate.model import MeasuredRegion, Probe

_C_MACHINES = {
    "__x86_64__": "x86_64", "__aarch64__": "aarch64", "__riscv": "riscv64",
    "__loongarch__": "loongarch64", "__powerpc64__": "ppc64le", "__s390x__": "s390x",
    "__i386__": "i686", "__arm__": "armv7l",
}  # fmt: skip
"""What compilers define on a machine, and how the system calls it."""
# In _C_CODE ``@`` becomes the prefix of a region's names; lines with ``@HW``, ``@CPU`` or ``@SIZE``
# stay only if counters, processor time or size are measured.
# - begin and end nest: only the outermost pair of a thread counts (``depth``). ``span`` is the time
#   in which at least one thread is inside, ``wall`` the sum over threads.
# - A fork has copies of all variables: a process id that differs resets them (``_renew``), and the
#   lock with them, which a thread of the parent may have held.
# - Counters are opened by perf_event_open (``@NR``); format 3 also reads for how long each was
#   enabled and running, to scale those that took turns. Flags 0x60 leave out kernel and hypervisor,
#   which perf_event_paranoid = 2 asks for; 8 is PERF_FLAG_FD_CLOEXEC.
# - ``_report`` runs at the exit of the process: ten times it measures 100 empty regions, and takes
#   the least cost of a pair of probes off the sums.
_C_CODE = """
/* ZEN: what the region took; see "Regions" in zenturio's documentation of the language. */
struct @_all {
    int lock, pid, written;
    long active, count, spans, unfinished;
    double since, span, wall, cpu, size;
};
struct @_own {
    long depth;
    char *guard;
    double wall, cpu;
    @HWint pid, fd[@N];
    @HWdouble at[@N];
};
@HWstruct @_sums { double counted[@N]; int usable[@N]; unsigned key; int keyed; };
@HWextern long @_syscall(long, ...) __asm__("syscall");
@HWextern long @_read(int, void *, unsigned long) __asm__("read");
@HWextern int @_close(int) __asm__("close");
@HWextern int @_key(unsigned *, void (*)(void *)) __asm__("pthread_key_create")
@HW    __attribute__((weak));
@HWextern int @_set(unsigned, const void *) __asm__("pthread_setspecific") __attribute__((weak));
@HWextern struct @_sums @_total __attribute__((weak));
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
@HWstruct @_sums @_total;
@HWstatic void @_shut(void *own) {
@HW    int i;
@HW    if (((struct @_own *) own)->pid)
@HW        for (i = 0; i < @N; i++) @_close(((struct @_own *) own)->fd[i]);
@HW    ((struct @_own *) own)->pid = 0;
@HW}
@HWstatic void @_open(int pid) {
@HW    static const struct { unsigned type; __UINT64_TYPE__ config; } events[] = { @EVENTS };
@HW    struct {
@HW        unsigned type, size;
@HW        __UINT64_TYPE__ config, period, sample, format, flags;
@HW        unsigned wakeup, breakpoint;
@HW        __UINT64_TYPE__ address;
@HW    } e;
@HW    int i;
@HW    if (@_mine.pid) @_shut(&@_mine);
@HW    for (i = 0; i < @N; i++) {
@HW        e.type = events[i].type;
@HW        e.size = 64;
@HW        e.config = events[i].config;
@HW        e.format = 3;
@HW        e.period = e.sample = e.flags = e.address = 0;
@HW        e.wakeup = e.breakpoint = 0;
@HW        @_mine.fd[i] = (int) @_syscall(@NR, &e, 0L, -1L, -1L, 8L);
@HW        e.flags = 0x60;
@HW        if (@_mine.fd[i] < 0) @_mine.fd[i] = (int) @_syscall(@NR, &e, 0L, -1L, -1L, 8L);
@HW        @_total.usable[i] = @_mine.fd[i] < 0 ? -1 : @_total.usable[i] ? @_total.usable[i] : 1;
@HW    }
@HW    if (!@_total.keyed && @_key) @_total.keyed = @_key(&@_total.key, @_shut) ? -1 : 1;
@HW    if (@_total.keyed == 1 && @_set) @_set(@_total.key, &@_mine);
@HW    @_mine.pid = pid;
@HW}
@HWstatic double @_counted(int i) {
@HW    __UINT64_TYPE__ of[3];
@HW    if (@_mine.fd[i] < 0 || @_read(@_mine.fd[i], of, 24) != 24 || !of[2]) return 0;
@HW    if (of[2] == of[1]) return (double) of[0];
@HW    return (double) of[0] * ((double) of[1] / (double) of[2]);
@HW}
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
        @HWfor (int i = 0; i < @N; i++) @_total.counted[i] = 0;
    }
    @_give();
}
void @_begin(char *guard) {
    int pid = @_getpid();
    @HWint i;
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
    @HWif (@_mine.pid != pid) @_open(pid);
    if (@_state.active++ == 0) @_state.since = @_now(1);
    @_give();
    @HWfor (i = 0; i < @N; i++) @_mine.at[i] = @_counted(i);
    @CPU@_mine.cpu = @_now(3);
    @_mine.wall = @_now(1);
}
void @_end(char *guard) {
    double wall = @_now(1), cpu = 0;
    @HWdouble now[@N];
    @HWint i;
    @CPUcpu = @_now(3);
    if (!*guard) return;
    *guard = 0;
    if (@_mine.depth <= 0 || --@_mine.depth > 0) return;
    @HWfor (i = 0; i < @N; i++) now[i] = @_counted(i);
    @_take();
    @HWfor (i = 0; i < @N; i++) @_total.counted[i] += now[i] - @_mine.at[i];
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
    @HWdouble sum[@N], former[@N], least[@N];
    @HWint k;
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
    @HWfor (k = 0; k < @N; k++) { sum[k] = @_total.counted[k]; least[k] = 1e18; }
    for (i = 0; i < 10; i++) {
        before = @_state;
        @HWfor (k = 0; k < @N; k++) former[k] = @_total.counted[k];
        for (j = 0; j < 100; j++) { @_begin(&guard); @_end(&guard); }
        part = (@_state.span - before.span) / 100;
        if (part < span) span = part;
        part = (@_state.wall - before.wall) / 100;
        if (part < wall) wall = part;
        part = (@_state.cpu - before.cpu) / 100;
        if (part < cpu) cpu = part;
        @HWfor (k = 0; k < @N; k++) {
        @HW    part = (@_total.counted[k] - former[k]) / 100;
        @HW    if (part < least[k]) least[k] = part;
        @HW}
    }
    all.span -= (double) all.spans * span;
    all.wall -= (double) all.count * wall;
    all.cpu -= (double) all.count * cpu;
    if (all.span < 0) all.span = 0;
    if (all.wall < all.span) all.wall = all.span;
    if (all.cpu < 0) all.cpu = 0;
    file = @_fopen(name, "a");
    if (!file) return;
    @_fprintf(file, "@TEXT"@VALUES);
    @HWfor (k = 0; k < @N; k++) {
    @HW    static const char *const names[] = { @NAMES };
    @HW    static const double scales[] = { @SCALES };
    @HW    sum[k] -= (double) all.count * least[k];
    @HW    if (@_total.usable[k] > 0)
    @HW        @_fprintf(file, ", \\"%s\\": %.9g", names[k], sum[k] > 0 ? sum[k] * scales[k] : 0);
    @HW}
    @_fprintf(file, "}\\n");
    @_fclose(file);
}
"""


def c_lines(name: str) -> tuple[str, str]:
    """Return the code before a region and behind it; *name* begins all names in it."""
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
    code = _with_counters(region, key) if region.counters else _C_CODE
    code = code.replace("@TEXT", "{" + text)
    code = code.replace("@VALUES", "".join(f", {value}" for _, _, value in printed))
    # A probe that is not asked for must cost nothing: its lines are left out, not skipped.
    measured = {"@CPU": "CTIME" in region.probes, "@SIZE": "MAXRSS" in region.probes}
    for mark, is_asked in (*measured.items(), ("@HW", bool(region.counters))):
        if is_asked:
            code = code.replace(mark, "")
        else:
            kept = [line for line in code.split("\n") if mark not in line]
            code = "\n".join(kept)
    return code.replace("@", name)


def _with_counters(region: MeasuredRegion, key: Callable[[str], str]) -> str:
    """Return the code of C that counts events, too; each thread has counters of its own."""
    events = [event for name in region.counters if (event := counter_event(name)) is not None]
    names = (
        key(metric).removeprefix('\\"').removesuffix('\\"') for metric in _counter_names(region)
    )
    numbers = "\n".join(
        f"#{'elif' if at else 'if'} defined {macro}\n#define @NR {SYSCALLS[machine]}L"
        for at, (macro, machine) in enumerate(_C_MACHINES.items())
    )
    parts = {
        "@EVENTS": ", ".join(f"{{ {event.type}, {event.config}u }}" for event in events),
        "@NAMES": ", ".join(f'"{name}"' for name in names),
        "@SCALES": ", ".join(f"{event.scale!r}" for event in events),
        "@N": str(len(events)),
    }
    code = f"\n{numbers}\n#else\n#define @NR -1L\n#endif{_C_CODE}"
    for mark, text in parts.items():
        code = re.sub(rf"{mark}(?![A-Z])", text.replace("\\", r"\\"), code)
    return code


def _counter_names(region: MeasuredRegion) -> list[str]:
    return [f"{region.name}_{counter_metric(event)}" for event in region.counters]


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
_SYSCALL = """\
        function zen_call(k, e, a, b, c, d) bind(c, name='syscall')
        import :: c_long
        integer(c_long) :: zen_call, e(8)
        integer(c_long), value :: k, a, b, c, d
        end function
        function zen_read(k, e, n) bind(c, name='read')
        import :: c_int, c_long
        integer(c_long) :: zen_read, e(3)
        integer(c_int), value :: k
        integer(c_long), value :: n
        end function
        function zen_name(b) bind(c, name='uname')
        import :: c_int, c_char
        integer(c_int) :: zen_name
        character(1, c_char) :: b(390)
        end function
        function zen_pid() bind(c, name='getpid')
        import :: c_int
        integer(c_int) :: zen_pid
        end function
"""
_COUNTER_LOCALS = """\
      integer(c_long) :: ev(8), zz(3), kk, mm(3)
      real(r8) :: hq
      integer(c_int) :: zp
      character(1, c_char) :: un(390)
      integer :: zi
      real(r8) :: hn(@N)
      integer(c_int), save :: hf(@N) = -1, hp = 0
      real(r8), save :: hb(@N) = 0
!$omp threadprivate(hf, hp, hb)
      integer(c_long), save :: nr = -1
      integer, save :: hu(@N) = 1
      real(r8), save :: hs(@N) = 0, h1(@N) = 0, h2(@N) = 0
      real(r8), save :: h3(@N) = 1d18
"""
_OPEN_COUNTERS = """\
      zp = zen_pid()
      mm = (/ 0, -1, 8 /)
      if (hp /= zp) then
        hp = zp
!$omp critical (@_k)
        if (nr < 0) then
          un = ' '
          y = zen_name(un)
@MACHINES        end if
        do zi = 1, @N
          ev = 0
@TYPES          ev(5) = 3
          kk = zen_call(nr, ev, mm(1), mm(2), mm(2), mm(3))
          ev(6) = 96
          if (kk < 0) kk = zen_call(nr, ev, mm(1), mm(2), mm(2), mm(3))
          hf(zi) = int(kk, c_int)
          if (kk < 0) hu(zi) = 0
        end do
!$omp end critical (@_k)
      end if
      do zi = 1, @N
        hn(zi) = 0
        zz = 0
        if (hf(zi) >= 0) kk = zen_read(hf(zi), zz, 24_c_long)
        if (zz(3) > 0) hn(zi) = real(zz(1), r8)
        if (zz(3) > 0) hq = real(zz(2), r8) / real(zz(3), r8)
        if (zz(3) > 0 .and. zz(3) < zz(2)) hn(zi) = hn(zi) * hq
      end do
"""
_FORTRAN_CODE = """\
      subroutine @(e)
      use, intrinsic :: iso_c_binding, only: c_int, c_long, c_loc
      use, intrinsic :: iso_c_binding, only: c_funptr, c_funloc
      use, intrinsic :: iso_c_binding, only: c_intptr_t
@USE      implicit none
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
@CPU@COUNT      here = 0
      h = transfer(c_loc(here), h)
      last = n == 1 .and. e == 1
      if (e == 0 .and. n > 0) last = h >= g
      if (e == 2) last = n > 0
      if (last) then
!$omp critical (@_k)
        t = t + w - a
        v = v + p - b
@ADD        m = m + 1
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
@BASE      end if
      if (e == 2) then
        m1 = m
        j1 = j
        s1 = s
        t1 = t
        v1 = v
@TOTAL        if (q > 0) s1 = s1 + w - o
        x = x + q
      else if (e == 3) then
        s2 = s
        t2 = t
        v2 = v
@FORMER      else if (e == 4) then
        s3 = min(s3, (s - s2) / 20)
        t3 = min(t3, (t - t2) / 20)
        v3 = min(v3, (v - v2) / 20)
@LEAST      end if
      if (e /= 5) return
      s1 = max(s1 - real(j1, r8) * s3, 0d0)
      t1 = max(t1 - real(m1, r8) * t3, s1)
      v1 = max(v1 - real(m1, r8) * v3, 0d0)
      call get_environment_variable('ZEN_METRICS', path, status=f)
      if (f /= 0) return
      open(newunit=u, file=path, position='append', iostat=f)
      if (f /= 0) return
@VALUES@PRINTED      write(u, '(a)') '}'
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
    """Return the statements before the region and behind it."""
    name = _name(region)
    return f"call {name}(0)", f"call {name}(1)"


def fortran_routine(region: MeasuredRegion) -> str:
    """Return the subroutines that they call."""
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
    counting = _fortran_counters(region)
    parts["@INTERFACES"] += counting.pop("@INTERFACES")
    parts["@LOCALS"] += counting.pop("@LOCALS")
    parts |= counting
    code = _FORTRAN_CODE
    for mark, text in parts.items():
        code = code.replace(mark, text)
    return code.replace("@", _name(region))


def _fortran_counters(region: MeasuredRegion) -> dict[str, str]:
    """What counts events, for each mark in the code: nothing where none are asked for."""
    marks = {
        "@INTERFACES": _SYSCALL,
        "@LOCALS": _COUNTER_LOCALS,
        "@USE": "      use, intrinsic :: iso_c_binding, only: c_char\n",
        "@COUNT": _OPEN_COUNTERS,
        "@ADD": "        hs = hs + hn - hb\n",
        "@BASE": "        hb = hn\n",
        "@TOTAL": "        h1 = hs\n",
        "@FORMER": "        h2 = hs\n",
        "@LEAST": "        h3 = min(h3, (hs - h2) / 20)\n",
        "@PRINTED": "",
    }
    if not region.counters:
        return dict.fromkeys(marks, "")
    events = [event for name in region.counters if (event := counter_event(name)) is not None]
    types, counted = "", ""
    for at, (event, metric) in enumerate(zip(events, _counter_names(region), strict=True), 1):
        # Type and size of the structure share a word; the low half comes first.
        word = event.type | 64 << 32
        types += f"          if (zi == {at}) ev(1) = {word}_c_long\n"
        types += f"          if (zi == {at}) ev(2) = {event.config}_c_long\n"
        value = f"h1({at}) - real(m1, r8) * h3({at})"
        counted += f"      if (hu({at}) == 1) then\n      hq = max({value}, 0d0)\n"
        statement = _REAL.format(f"hq * {event.scale:.1e}".replace("e", "d"))
        counted += "".join(_named_value(f", {json.dumps(metric)}: ", statement))
        counted += "      end if\n"
    machines = "".join(
        "          if (all(un(261:263) == (/ "
        + ", ".join(f"'{letter}'" for letter in machine[:3])
        + f" /))) nr = {number}\n"
        for machine, number in SYSCALLS.items()
    )
    marks["@PRINTED"] = counted
    marks["@COUNT"] = marks["@COUNT"].replace("@TYPES", types).replace("@MACHINES", machines)
    return {mark: text.replace("@N", str(len(events))) for mark, text in marks.items()}


def _named_value(opening: str, statement: str) -> Iterable[str]:
    """Statements that write a name in parts, for fixed form ends at column 72; and its value."""
    for at in range(0, len(opening), _CHUNK):
        yield f"      write(u, '(a)', advance='no') '{opening[at : at + _CHUNK]}'\n"
    yield statement


def _written(region: str, values: Sequence[tuple[str, str]]) -> Iterable[str]:
    """Statements that write names and values; long names in parts."""
    opening = "{"
    for name, statement in values:
        yield from _named_value(f"{opening}{json.dumps(f'{region}_{name}')}: ", statement)
        opening = ", "


def _name(region: MeasuredRegion) -> str:
    """Unlike any other in the program: names have 63 letters at most, and no case."""
    return f"zen_{crc32(region.name.encode()):08x}"
