"""
The probe of a region in Fortran: subroutines behind the end of the file, called before and behind.

A statement of Fortran has 132 columns at most, 72 in fixed form, so that no line holds a probe.
The subroutines are written in columns 7 to 72, which both forms read alike. Fortran has nothing
that runs when a block is left: a round that was left by RETURN or CYCLE ends when the next one
begins, which is told from recursion by where the stack stands, or with the program.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from zlib import crc32

from zenturio.annotate.model import Probe, Region

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
_CODE = """\
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


def calls(region: Region) -> tuple[str, str]:
    """The statements before the region and behind it."""
    name = _name(region)
    return f"call {name}(0)", f"call {name}(1)"


def routine(region: Region) -> str:
    """The subroutines that they call."""
    timed, sized = "CTIME" in region.probes, "MAXRSS" in region.probes
    values = [each for probe in region.probes for each in _VALUES[probe]]
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
    code = _CODE
    for mark, text in parts.items():
        code = code.replace(mark, text)
    return code.replace("@", _name(region))


def _written(region: str, values: Sequence[tuple[str, str]]) -> Iterable[str]:
    """Statements that write names and values; long names in parts."""
    opening = "{"
    for name, statement in values:
        text = f"{opening}{json.dumps(f'{region}_{name}')}: "
        for at in range(0, len(text), _CHUNK):
            yield f"      write(u, '(a)', advance='no') '{text[at : at + _CHUNK]}'\n"
        yield statement
        opening = ", "


def _name(region: Region) -> str:
    """Unlike any other in the program: names have 63 letters at most, and no case."""
    return f"zen_{crc32(region.name.encode()):08x}"
