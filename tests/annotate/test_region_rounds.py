"""Rounds of regions: threads, recursion, and rounds that are left are counted for what they are."""

import atexit
import importlib.util
import json
import os
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from needs import needs
from zenturio.annotate.lint import lint
from zenturio.annotate.scan import scan
from zenturio.annotate.substitution import Filler

C = """\
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static void burn(double s) {
    struct timespec a, b;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
    do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
    while ((double) (b.tv_sec - a.tv_sec) + 1e-9 * (double) (b.tv_nsec - a.tv_nsec) < s);
}
static void *work(void *x) {
    // ZEN$ CR threads PMETRIC WTIME, CTIME BEGIN
    burn(0.05);
    // ZEN$ END CR
    return x;
}
static int fib(int n) {
    int r = n;
    // ZEN$ CR fib PMETRIC WTIME BEGIN
    if (n > 1) r = fib(n - 1) + fib(n - 2);
    // ZEN$ END CR
    return r;
}
static int left(int n) {
    // ZEN$ CR left PMETRIC WTIME, CTIME BEGIN
    burn(0.01);
    if (n % 2) return 1;
    // ZEN$ END CR
    return 0;
}
int main(void) {
    pthread_t t[4];
    int i;
    for (i = 0; i < 4; i++) pthread_create(t + i, 0, work, 0);
    for (i = 0; i < 4; i++) pthread_join(t[i], 0);
    fib(15);
    for (i = 0; i < 5; i++) left(i);
    for (i = 0; i < 100000; i++) {
        // ZEN$ CR empty PMETRIC WTIME, CTIME BEGIN
        // ZEN$ END CR
    }
    if (fork() == 0) exit(left(2));
    wait(&i);
    // ZEN$ CR open PMETRIC WTIME, CTIME BEGIN
    burn(0.01);
    exit(0);
    // ZEN$ END CR
}
"""

CPP = """
struct Closer { ~Closer() { volatile int x = 0; (void) x; } };
static void thrown() {
    Closer closer;
    // ZEN$ CR thrown PMETRIC CTIME BEGIN
    burn(0.01);
    throw 1;
    // ZEN$ END CR
}
static int caught = [] { for (int i = 0; i < 3; i++) try { thrown(); } catch (int) { } return 1; }();
int zen_used(void) { return caught; }
"""

PYTHON = """\
import os, sys, threading, time
def burn(s):
    begun = time.thread_time()
    while time.thread_time() - begun < s:
        pass
def work():
    # ZEN$ CR threads PMETRIC WTIME, CTIME BEGIN
    burn(0.05)
    # ZEN$ END CR
def fib(n):
    # ZEN$ CR fib PMETRIC WTIME BEGIN
    return n if n < 2 else fib(n - 1) + fib(n - 2)
    # ZEN$ END CR
def left(n):
    # ZEN$ CR left PMETRIC WTIME, CTIME BEGIN
    burn(0.01)
    if n % 2:
        return
    # ZEN$ END CR
def thrown():
    # ZEN$ CR thrown PMETRIC CTIME BEGIN
    burn(0.01)
    raise ValueError
    # ZEN$ END CR
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
fib(10)
for i in range(5): left(i)
for i in range(3):
    try:
        thrown()
    except ValueError:
        pass
for i in range(10000):
    # ZEN$ CR empty PMETRIC WTIME, CTIME BEGIN
    pass
    # ZEN$ END CR
if os.fork() == 0:
    left(2)
    sys.exit()
os.wait()
# ZEN$ CR open PMETRIC WTIME, CTIME BEGIN
burn(0.01)
sys.exit()
# ZEN$ END CR
"""

FORTRAN = """\
program a
  implicit none
  integer :: i
  !$omp parallel do num_threads(4)
  do i = 1, 4
    ! ZEN$ CR threads PMETRIC WTIME, CTIME BEGIN
    call burn(0.05d0)
    ! ZEN$ END CR
  end do
  print *, fib(15)
  do i = 1, 100000
    ! ZEN$ CR empty PMETRIC WTIME, CTIME BEGIN
    ! ZEN$ END CR
  end do
  do i = 1, 5
    ! ZEN$ CR left PMETRIC WTIME, CTIME BEGIN
    call burn(0.01d0)
    if (mod(i, 2) == 0) cycle
    ! ZEN$ END CR
  end do
  ! ZEN$ CR open PMETRIC WTIME, CTIME BEGIN
  call burn(0.01d0)
  stop
  ! ZEN$ END CR
contains
  recursive integer function fib(n) result(r)
    integer, intent(in) :: n
    ! ZEN$ CR fib PMETRIC WTIME BEGIN
    r = n
    if (n > 1) r = fib(n - 1) + fib(n - 2)
    ! ZEN$ END CR
  end function
  subroutine burn(s)
    use, intrinsic :: iso_c_binding
    real(8), intent(in) :: s
    interface
      function clock(k, d) bind(c, name='clock_gettime')
        import :: c_int, c_long
        integer(c_int) :: clock
        integer(c_int), value :: k
        integer(c_long) :: d(2)
      end function
    end interface
    integer(c_long) :: a(2), b(2)
    integer(c_int) :: f
    f = clock(3_c_int, a)
    do
      f = clock(3_c_int, b)
      if (real(b(1) - a(1), 8) + 1d-9 * real(b(2) - a(2), 8) >= s) exit
    end do
  end subroutine
end program
"""

_WARNINGS = ["-Wall", "-Wextra", "-Werror", "-pthread"]
CASES = [
    ("a.c", C, [["gcc", "-O2", *_WARNINGS, "a.c", "-o", "a"], ["./a"]]),
    ("a.cpp", C + CPP, [["g++", "-O2", *_WARNINGS, "a.cpp", "-o", "a"], ["./a"]]),
    ("a.f90", FORTRAN, [["gfortran", "-fopenmp", "-Wall", "-Wextra", "a.f90", "-o", "a"], ["./a"]]),
    ("a.py", PYTHON, [[sys.executable, "-W", "error", "a.py"]]),
]


def measured(folder, name, program, commands):
    """What the regions of a program have reported, when it has ended."""
    needs(commands[0][0])
    (folder / name).write_text(program)
    found = scan([folder / name])
    (result,) = Filler(found).files(found.space.point(0))
    (folder / name).write_bytes(result.content)
    environment = os.environ | {"ZEN_METRICS": str(folder / "metrics")}
    for command in commands:
        subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
    lines = (folder / "metrics").read_text().splitlines()
    told = {}
    for line in lines:
        told |= json.loads(line)
    return told, len(lines)


@pytest.mark.parametrize(("name", "program", "commands"), CASES, ids=[c[0] for c in CASES])
def test_rounds_are_counted_for_what_they_are(name, program, commands, tmp_path):
    told, lines = measured(tmp_path, name, program, commands)
    assert told["threads_count"] == 4
    assert 0.19 <= told["threads_ctime"] < 0.5  # four threads of 0.05 s each, not of all together
    assert 0.049 <= told["threads_wtime"] <= told["threads_wtime_sum"]
    assert told["threads_wtime_sum"] >= told["threads_ctime"]
    assert (told["fib_count"], told["fib_unfinished"]) == (1, 0)
    assert told["left_count"] == 5
    assert 0.049 <= told["left_ctime"] < 0.2
    assert told["left_wtime"] >= 0.049
    assert told["empty_count"] in (10_000, 100_000)
    assert told["empty_ctime"] < 0.5e-6 * told["empty_count"]
    assert (told["open_count"], told["open_unfinished"]) == (1, 1)
    assert told["open_ctime"] >= 0.009
    if "thrown" in program:
        assert (told["thrown_count"], told["thrown_unfinished"]) == (3, 0)
        assert 0.029 <= told["thrown_ctime"] < 0.2
    regions = program.count(" BEGIN")
    assert lines <= regions + 1  # one line for each when the program ends, and one of its child


class RegionRuntime:
    """What is written into files of Python, with clocks that the test turns."""

    def __init__(self, monkeypatch, folder):
        self.wall, self.cpu, self.tick = 0.0, 0.0, 0.0
        self.metrics, self.finalized = folder / "metrics", []
        monkeypatch.setenv("ZEN_METRICS", str(self.metrics))
        monkeypatch.setattr(atexit, "register", self.finalized.append)
        monkeypatch.setattr(os, "register_at_fork", lambda **_: None)
        spec = importlib.util.find_spec("zenturio.annotate.region_runtime")
        self.module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.module)
        self.module.time = SimpleNamespace(perf_counter=self.read, thread_time=lambda: self.cpu)
        self.module.resource = SimpleNamespace(
            RUSAGE_SELF=0, getrusage=lambda who: SimpleNamespace(ru_maxrss=7 + who)
        )
        util = SimpleNamespace(Finalize=lambda *call, **options: self.finalized.append(call))
        self.module.sys = SimpleNamespace(platform="linux", modules={"multiprocessing.util": util})

    def read(self):
        self.wall += self.tick
        return self.wall

    def enter(self, *probes, **options):
        return self.module.enter("r", probes, **options)

    def passes(self, wall, cpu=0.0):
        self.wall += wall
        self.cpu += cpu

    def report(self):
        """What is reported of the region, without its name; nothing if no line is written."""
        self.module.report()
        assert not self.module.regions
        lines = self.metrics.read_text().splitlines() if self.metrics.exists() else []
        assert len(lines) <= 1
        return {
            name.removeprefix("r_"): value
            for each in lines
            for name, value in json.loads(each).items()
        }


@pytest.fixture
def runtime(monkeypatch, tmp_path):
    return RegionRuntime(monkeypatch, tmp_path)


def test_rounds_within_a_round_are_part_of_it_and_others_add_up(runtime):
    outer = runtime.enter("WTIME", "CTIME", "MAXRSS")
    runtime.passes(3, 1)
    inner = runtime.enter("WTIME", "CTIME", "MAXRSS")
    runtime.passes(2, 1)
    inner.leave()
    runtime.passes(1, 0.5)
    for _ in range(2):  # the variable of a round that is over goes away as well
        outer.leave()
    runtime.passes(100, 100)
    runtime.enter("WTIME", "CTIME", "MAXRSS").leave()
    unfinished = runtime.enter("WTIME", "CTIME", "MAXRSS")
    runtime.passes(5, 0.25)
    assert runtime.report() == {
        "wtime": 11, "wtime_sum": 11, "ctime": 2.75, "maxrss": 7 * 1024, "count": 3, "unfinished": 1,
    }  # fmt: skip
    assert runtime.finalized[0] == runtime.module.report
    assert runtime.finalized[1] == (None, runtime.module.report)
    unfinished.leave()


def test_rounds_of_threads_overlap_and_one_that_never_ends_is_counted(runtime):
    held = []

    def work(wall, ends):
        held.append(runtime.enter("WTIME"))
        runtime.passes(wall)
        if ends:
            held[-1].leave()

    def in_thread(*arguments):
        thread = threading.Thread(target=work, args=arguments)
        thread.start()
        thread.join()

    mine = runtime.enter("WTIME")
    runtime.passes(1)
    in_thread(2, True)
    runtime.passes(1)
    mine.leave()
    runtime.passes(50)
    in_thread(3, False)
    told = runtime.report()
    assert told == {"wtime": 4 + 3, "wtime_sum": 7, "count": 2, "unfinished": 1}


def test_what_looking_at_the_clock_takes_is_taken_off(runtime):
    runtime.tick = 0.125
    for _ in range(6):
        runtime.enter("WTIME").leave()
    begun = runtime.enter("WTIME")
    runtime.passes(20)
    begun.leave()
    told = runtime.report()
    assert (told["wtime"], told["wtime_sum"], told["count"]) == (20, 20, 7)


def test_a_child_has_no_rounds_of_its_parent_and_nobody_needs_to_listen(runtime, monkeypatch):
    begun = runtime.enter("WTIME")
    runtime.module.renew()
    assert runtime.report() == {}
    begun = runtime.enter("WTIME")
    begun.leave()
    monkeypatch.delenv("ZEN_METRICS")
    assert runtime.report() == {}


def test_events_that_cannot_be_counted_are_left_out(runtime):
    runtime.enter("WTIME", events=(("cycles", 0, 0, 1.0),), calls={}).leave()
    assert runtime.report() == {"wtime": 0, "wtime_sum": 0, "count": 1, "unfinished": 0}


def test_a_region_in_a_header_that_several_files_include_is_one(tmp_path):
    needs("gcc")
    region = "// ZEN$ CR both PMETRIC WTIME BEGIN\n// ZEN$ END CR\n"
    (tmp_path / "a.h").write_text(f"static inline void a(void) {{\n{region}}}\n")
    (tmp_path / "a.c").write_text(
        '#include "a.h"\nvoid b(void);\nint main(void) { a(); b(); return 0; }\n'
    )
    (tmp_path / "b.c").write_text('#include "a.h"\nvoid b(void);\nvoid b(void) { a(); }\n')
    found = scan([tmp_path / "a.h"])
    (result,) = Filler(found).files(found.space.point(0))
    (tmp_path / "a.h").write_bytes(result.content)
    command = ["gcc", "-Wall", "-Wextra", "-Werror", "a.c", "b.c", "-o", "a"]
    subprocess.run(command, cwd=tmp_path, check=True)
    environment = {"ZEN_METRICS": str(tmp_path / "metrics")}
    subprocess.run(["./a"], cwd=tmp_path, env=environment, check=True)
    (line,) = (tmp_path / "metrics").read_text().splitlines()
    assert json.loads(line)["both_count"] == 2


SHELL = """\
set -eu
work() {
  # ZEN$ CR left PMETRIC WTIME, CTIME BEGIN
  if [ $(($1 % 2)) = 1 ]; then return; fi
  # ZEN$ END CR
}
for i in 0 1 2 3 4; do work $i; done
"""


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_round_of_a_shell_that_is_left_ends_with_the_next_one(tmp_path, shell):
    told, _ = measured(tmp_path, "a.sh", SHELL, [[shell, "a.sh"]])
    assert (told["left_count"], told["left_unfinished"]) == (5, 2)
    assert told["left_wtime"] >= 0


def test_leaving_a_region_is_warned_of_where_nothing_tells_when_that_was(tmp_path):
    (tmp_path / "a.sh").write_text(SHELL)
    (tmp_path / "a.c").write_text(C)
    (warning,) = [
        w for w in lint(scan([tmp_path / "a.sh"])) if "that leaves the region here" in w.message
    ]
    assert (warning.place.line, warning.place.column) == (4, 32)
    assert not [
        w for w in lint(scan([tmp_path / "a.c"])) if "that leaves the region here" in w.message
    ]


def test_the_code_of_a_probe_is_no_part_of_a_programs_identity(tmp_path):
    for name, program in (("a.c", C), ("a.py", PYTHON), ("a.f90", FORTRAN), ("a.sh", SHELL)):
        (tmp_path / name).write_text(program)
        (filled,) = Filler(found := scan([tmp_path / name])).files(found.space.point(0))
        assert b"ZEN CR left WTIME CTIME 2\n" in filled.essence
        assert b"zen_" in filled.content
        assert b"zen_" not in filled.essence
