"""
The probe of a region in Fortran: a subroutine behind the end of the file, called before and behind.

A statement of Fortran has 132 columns at most, 72 in fixed form, so that no line holds a probe.
The subroutine is written in columns 7 to 72, which both forms read alike.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from zlib import crc32

from zenturio.annotate.model import Probe, Region

_CHUNK = 30
_SIZE_NEEDS = """\
      integer(i8) :: k
      integer :: v
      character(20) :: g
      character(200) :: l
"""
_SIZE = """\
      k = -1
      g = '/proc/self/status'
      open(newunit=v, file=g, status='old', iostat=s)
      if (s == 0) then
        do while (s == 0)
          read(v, '(a)', iostat=s) l
          if (l(1:6) == 'VmHWM:' .and. s == 0) read(l(7:), *) k
        end do
        close(v)
      end if
"""
_VALUES: dict[Probe, str] = {
    "WTIME": "      write(u, '(es23.15e3)', advance='no') w\n",
    "CTIME": "      write(u, '(es23.15e3)', advance='no') p\n",
    "MAXRSS": """\
      if (k >= 0) write(u, '(i0)', advance='no') k * 1024
      if (k < 0) write(u, '(a)', advance='no') 'null'
""",
}


def calls(region: Region) -> tuple[str, str]:
    """The statements before the region and behind it."""
    name = _name(region)
    return f"call {name}(0)", f"call {name}(1)"


def routine(region: Region, names: Sequence[str]) -> str:
    """The subroutine that they call; *names* are those of the region's metrics."""
    name = _name(region)
    sized = "MAXRSS" in region.probes
    return f"""\
      subroutine {name}(e)
      integer, parameter :: i8 = selected_int_kind(18)
      integer, parameter :: r8 = kind(1d0)
      integer :: e, s, u
      integer(i8) :: c, r
      integer(i8), save :: b = 0
      real(r8) :: t
      real(r8), save :: a = 0, p = 0, w = 0
      character(4096) :: f
{_SIZE_NEEDS if sized else ""}\
      call system_clock(c, r)
      call cpu_time(t)
      if (e == 0) then
        b = c
        a = t
        return
      end if
      w = w + real(c - b, r8) / real(r, r8)
      p = p + t - a
      call get_environment_variable('ZEN_METRICS', f, status=s)
      if (s /= 0) return
{_SIZE if sized else ""}\
      open(newunit=u, file=f, position='append', iostat=s)
      if (s /= 0) return
{"".join(_written(region.probes, names))}\
      write(u, '(a)') '}}'
      close(u)
      end subroutine {name}
"""


def _written(probes: Iterable[Probe], names: Iterable[str]) -> Iterable[str]:
    """Statements that write names and values; long names in parts."""
    opening = "{"
    for probe, name in zip(probes, names, strict=True):
        text = f"{opening}{json.dumps(name)}: "
        for at in range(0, len(text), _CHUNK):
            yield f"      write(u, '(a)', advance='no') '{text[at : at + _CHUNK]}'\n"
        yield _VALUES[probe]
        opening = ", "


def _name(region: Region) -> str:
    """Unlike any other in the program: names have 63 letters at most, and no case."""
    return f"zen_{crc32(region.name.encode()):08x}"
