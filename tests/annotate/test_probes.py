"""The lines around regions: real compilers and interpreters take them, and metrics come out."""

import json
import os
import subprocess
import sys

import pytest

from needs import needs
from zenturio.annotate.counter_events import EVENTS, SYSCALLS, counter_event
from zenturio.annotate.region_probes import metric_names, probe_lines, unprobed
from zenturio.annotate.scan import scan
from zenturio.annotate.substitution import Filler
from zenturio.errors import AnnotationError

PYTHON = """\
import time
def f():
    for _ in range(2):
        # ZEN$ CR Größe PMETRIC WTIME, CTIME, MAXRSS
        # ZEN$& BEGIN
        time.sleep(0.01)
        # ZEN$ END CR
f()
"""

C = """\
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <sys/resource.h>
#include <unistd.h>
int main(void) {
    int i;
    for (i = 0; i < 2; i++) {
        // ZEN$ CR a PMETRIC WTIME, CTIME, MAXRSS BEGIN
        usleep(5000);
        // ZEN$ CR Größe PMETRIC WTIME, CTIME, MAXRSS BEGIN
        usleep(10000);
        // ZEN$ END CR Größe
        // ZEN$ END CR a
    }
    return 0;
}
"""

SHELL = """\
for i in 1 2; do
  # ZEN$ CR Größe PMETRIC WTIME BEGIN
  sleep 0.01
  # ZEN$ END CR
done
"""

JAVASCRIPT = """\
for (let i = 0; i < 2; i++) {
  // ZEN$ CR Größe PMETRIC WTIME, CTIME, MAXRSS BEGIN
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
  // ZEN$ END CR
}
"""

PERL = """\
use strict; use warnings;
for my $i (1, 2) {
    # ZEN$ CR Größe PMETRIC WTIME, CTIME BEGIN
    select(undef, undef, undef, 0.01);
    # ZEN$ END CR
}
"""

RUST = """\
fn main() {
    for _ in 0..2 {
        // ZEN$ CR Größe PMETRIC WTIME BEGIN
        std::thread::sleep(std::time::Duration::from_millis(10));
        // ZEN$ END CR
    }
}
"""

JAVA = """\
class A {
    public static void main(String[] a) throws Exception {
        for (int i = 0; i < 2; i++) {
            // ZEN$ CR Größe PMETRIC WTIME BEGIN
            Thread.sleep(10);
            // ZEN$ END CR
        }
    }
}
"""

FORTRAN = """\
module m
contains
  subroutine work()
    integer :: i
    do i = 1, 2
      ! ZEN$ CR Größe PMETRIC WTIME, CTIME, MAXRSS BEGIN
      call execute_command_line('sleep 0.01')
      ! ZEN$ END CR
    end do
  end subroutine
end module
program a
  use m
  implicit none
  ! ZEN$ CR all_of_it_in_a_region_with_a_name_that_is_rather_long PMETRIC WTIME
  ! ZEN$& BEGIN
  call work()
  ! ZEN$ END CR
end program
"""

FIXED = """\
      PROGRAM A
C ZEN$ CR Größe PMETRIC WTIME, MAXRSS, CTIME BEGIN
      CALL EXECUTE_COMMAND_LINE('sleep 0.02')
C ZEN$ END CR
      END
"""

SHELL_ALL = """\
set -eu
for i in 1 2; do
  # ZEN$ CR Größe PMETRIC MAXRSS, CTIME, WTIME BEGIN
  sleep 0.01
  # ZEN$ END CR
done
"""

_STRICT = ["-Wall", "-Wextra", "-Werror"]
CASES = [
    ("A.f90", FORTRAN, [["gfortran", "-std=f2008", *_STRICT, "A.f90", "-o", "a"], ["./a"]]),
    ("A.f", FIXED, [["gfortran", *_STRICT, "A.f", "-o", "a"], ["./a"]]),
    ("all.sh", SHELL_ALL, [["/bin/sh", "all.sh"]]),
    ("A.py", PYTHON, [[sys.executable, "-W", "error", "A.py"]]),
    ("A.c", C, [["gcc", "-std=gnu99", "-Wall", "-Werror", "-O2", "A.c", "-o", "a"], ["./a"]]),
    ("A.cpp", C, [["g++", "-Wall", "-Werror", "-O2", "A.cpp", "-o", "a"], ["./a"]]),
    ("A.sh", SHELL, [["/bin/sh", "A.sh"]]),
    ("A.js", JAVASCRIPT, [["node", "A.js"]]),
    ("A.mjs", JAVASCRIPT, [["node", "A.mjs"]]),
    ("A.pl", PERL, [["perl", "A.pl"]]),
    ("A.rs", RUST, [["rustc", "A.rs", "-o", "a"], ["./a"]]),
    ("A.java", JAVA, [["java", "-Dfile.encoding=UTF-8", "A.java"]]),
]


@pytest.mark.parametrize(("name", "program", "commands"), CASES, ids=[c[0] for c in CASES])
def test_a_region_tells_what_all_its_rounds_took(name, program, commands, tmp_path):
    needs(commands[0][0])
    source = tmp_path / name
    source.write_text(program)
    found = scan([source])
    (result,) = Filler(found).files(found.space.point(0))
    lines = result.content.splitlines()
    assert [i for i, line in enumerate(lines) if b"ZEN$" in line] == []
    assert [b"PROGRAM" in line.upper() for line in lines][: program.count("\n")] == [
        "PROGRAM" in line.upper() for line in program.splitlines()
    ]
    if source.suffix not in (".f", ".f90", ".c", ".cpp"):  # whose routines stand behind the end
        assert len(lines) == program.count("\n")
    source.write_bytes(result.content)
    metrics = tmp_path / "metrics.jsonl"
    for command in commands:
        quiet = {k: v for k, v in os.environ.items() if k != "ZEN_METRICS"}
        subprocess.run(command, cwd=tmp_path, env=quiet, check=True, capture_output=True)
    assert not metrics.exists()
    surroundings = os.environ | {"ZEN_METRICS": str(metrics)}
    subprocess.run(commands[-1], cwd=tmp_path, env=surroundings, check=True, capture_output=True)
    told = {}
    for line in metrics.read_text().splitlines():
        told |= json.loads(line)
    (annotated,) = found.files
    regions = {r.name: r for r in annotated.regions}
    assert set(told) >= {n for r in regions.values() for n in metric_names(r.name, r.probes)}
    rounds = 1 if name == "A.f" else 2
    assert told.get("Größe_count", rounds) == rounds
    assert told.get("Größe_unfinished", 0) == 0
    assert told["Größe_wtime"] >= 0.019  # without what an empty round takes
    assert told.get("a_wtime", told["Größe_wtime"] + 0.01) >= told["Größe_wtime"] + 0.01
    assert told.get("Größe_ctime", 0) >= 0
    assert told.get("Größe_maxrss", 1e6) > 500_000


def test_what_a_language_lacks_is_a_diagnostic(tmp_path):
    source = tmp_path / "a.rs"
    source.write_text("//ZEN$ CR a PMETRIC WTIME, CTIME BEGIN\n//ZEN$ END CR\n")
    (annotated,) = _regions(source)
    (diagnostic,) = unprobed([annotated])
    assert diagnostic.message == "there is no CTIME probe for rust"
    assert (diagnostic.place.column, diagnostic.hint) == (28, "there is WTIME")


def test_a_language_without_probes_and_a_region_without_a_word_are_diagnostics(tmp_path):
    source = tmp_path / "a.tex"
    source.write_text('% ZEN$ CR "a b" PMETRIC WTIME BEGIN\n% ZEN$ END CR\n')
    (annotated,) = _regions(source)
    messages = [c.message for c in unprobed([annotated])]
    assert messages == ["the region's name 'a b' is not a word", "there is no WTIME probe for tex"]


def _regions(path):
    """The annotated file, scanned as far as its regions."""
    from zenturio.annotate.dialects import dialect_of
    from zenturio.annotate.directive_lines import find
    from zenturio.annotate.grammar import read
    from zenturio.annotate.model import Annotated, MeasuredRegion
    from zenturio.annotate.source import Source

    source = Source.read(path)
    dialect = dialect_of(path)
    begin, end = find(source, dialect).lines
    statement = read(begin.body)
    region = MeasuredRegion(statement.name.text, statement.probes, begin, end)
    yield Annotated(source, path.name, dialect, (begin, end), regions=(region,))


def test_a_metric_of_a_region_is_known_to_expressions_and_has_its_unit(tmp_path):
    source = tmp_path / "a.py"
    source.write_text(PYTHON + "# ZEN$ OBJECTIVE MINIMIZE Größe_wtime / Größe_maxrss\n")
    units = {metric.name: metric.unit for metric in scan([source]).metrics}
    names = {"Größe_wtime": "s", "Größe_ctime": "s", "Größe_maxrss": "B", "Größe_count": ""}
    assert units == names
    with source.open("a") as file:
        file.write('# ZEN$ METRIC Größe_wtime FROM stdout REGEX "(.*)"\n')
    with pytest.raises(
        AnnotationError, match=r"the region's Größe_wtime is already declared at .*a.py:10"
    ):
        scan([source])


def test_names_of_regions_do_not_meet_in_the_code():
    from zenturio.annotate.dialects import named
    from zenturio.annotate.model import MeasuredRegion

    lines = {
        probe_lines(MeasuredRegion(n, ("WTIME",), None, None), named("c"))
        for n in ("ä", "_e4_", "a_")
    }
    assert len({begin for begin, _ in lines}) == 3


def test_events_have_the_numbers_of_the_kernel():
    """As linux/perf_event.h and the tables of system calls have them."""
    hardware = [
        "cycles",
        "instructions",
        "cache-references",
        "cache-misses",
        "branches",
        "branch-misses",
        "bus-cycles",
        "stalled-cycles-frontend",
        "stalled-cycles-backend",
        "ref-cycles",
    ]
    expected = {name: (0, number, "", 1) for number, name in enumerate(hardware)}
    software = ["page-faults", "context-switches", "cpu-migrations", "minor-faults", "major-faults"]
    expected |= {"task-clock": (1, 1, "s", 1e-9)}
    expected |= {name: (1, number, "", 1) for number, name in enumerate(software, 2)}
    caches = ((0, "L1-dcache"), (1, "L1-icache"), (2, "LLC"), (3, "dTLB"), (4, "iTLB"), (6, "node"))
    operations = (
        ("loads", "load-misses"),
        ("stores", "store-misses"),
        ("prefetches", "prefetch-misses"),
    )
    for cache, name in caches:
        for operation, words in enumerate(operations):
            for result, word in enumerate(words):
                number = cache + 256 * operation + 65536 * result
                expected[f"{name}-{word}"] = (3, number, "", 1)
    assert expected == EVENTS
    assert counter_event("r1f") == (4, 0x1F, "", 1)
    assert counter_event("r" + "f" * 17) is None
    assert {
        "x86_64": 298, "i686": 336, "armv7l": 364, "ppc64le": 319, "s390x": 331,
        **dict.fromkeys(("aarch64", "riscv64", "loongarch64"), 241),
    } == SYSCALLS  # fmt: skip
