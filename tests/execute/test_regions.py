"""From CR in a program to metrics in an outcome: scanned, filled, built, run and measured."""

import sys

import pytest

from needs import needs
from zenturio.annotate.scan import scan
from zenturio.execute.local import Local
from zenturio.experiment import ExperimentGenerator, Missing
from zenturio.testing.executor import outcome

C = """\
//ZEN$ BUILD "{cc} {name} -o p"
//ZEN$ RUN "./p"
//ZEN$ METRIC rest := wtime - work_wtime
#include <unistd.h>
int main(void) {{
    for (int i = 0; i < 3; i++) {{
        //ZEN$ CR work PMETRIC WTIME, CTIME, MAXRSS BEGIN
        usleep(10000);
        //ZEN$ END CR
    }}
    usleep(20000);
    return 0;
}}
"""

FORTRAN = """\
!ZEN$ BUILD "gfortran a.f90 -o p"
!ZEN$ RUN "./p"
!ZEN$ METRIC rest := wtime - work_wtime
program a
  integer :: i
  do i = 1, 3
    !ZEN$ CR work PMETRIC WTIME, CTIME, MAXRSS BEGIN
    call execute_command_line('sleep 0.01')
    !ZEN$ END CR
  end do
  call execute_command_line('sleep 0.02')
end program
"""

PYTHON = """\
#ZEN$ RUN "{python} a.py"
#ZEN$ METRIC rest := wtime - work_wtime
import time
for _ in range(3):
    #ZEN$ CR work PMETRIC WTIME, CTIME, MAXRSS BEGIN
    time.sleep(0.01)
    #ZEN$ END CR
time.sleep(0.02)
"""

SHELL = """\
#ZEN$ RUN "sh a.sh"
#ZEN$ METRIC rest := wtime - work_wtime
for i in 1 2 3; do
    #ZEN$ CR work PMETRIC WTIME, CTIME, MAXRSS BEGIN
    sleep 0.01
    #ZEN$ END CR
done
sleep 0.02
"""


@pytest.mark.parametrize(
    ("name", "text", "program"),
    [
        ("a.c", C.format(cc="gcc -Wall -Werror", name="a.c"), "gcc"),
        ("a.cpp", C.format(cc="g++ -Wall -Werror", name="a.cpp"), "g++"),
        ("a.f90", FORTRAN, "gfortran"),
        ("a.py", PYTHON.format(python=sys.executable), "python3"),
        ("a.sh", SHELL, "sh"),
    ],
)
def test_a_region_is_measured(tmp_path, name, text, program):
    needs(program)
    source = tmp_path / name
    source.write_text(text)
    application = scan([source])
    (made,) = ExperimentGenerator(application).experiments(application.space.point(0))
    with Local(tmp_path / "zen", 1) as place:
        found = outcome(place, made)
    assert (found.status, found.cause) == ("ok", "")
    assert 0.03 <= found.metrics["work_wtime"] < found.metrics["wtime"]
    assert found.metrics["rest"] >= 0.02
    assert 0 <= found.metrics["work_ctime"] <= found.metrics["ctime"] + 0.01
    assert 500_000 < found.metrics["work_maxrss"] < 50_000_000


# Each of three rounds writes to 1,024 pages that nobody has touched; one in a thread of its own.

COUNTED_C = """\
//ZEN$ BUILD "{cc} -Wall -Wextra -Werror {name} -o p -pthread"
//ZEN$ RUN "./p"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static void *work(void *x) {{
    for (int k = 0; k < 1024; k++) {{
        volatile char *page;
        //ZEN$ CR wörk PMETRIC WTIME, PAGE_FAULTS, INSTRUCTIONS, TASK_CLOCK BEGIN
        page = (char *) mmap(0, 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        *page = 1;
        //ZEN$ END CR
        page = (char *) mmap(0, 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        *page = 1;
    }}
    return x;
}}
int main(void) {{
    pthread_t thread;
    work(0);
    if (fork() == 0) {{ work(0); _exit(0); }}
    wait(0);
    work(0);
    pthread_create(&thread, 0, work, 0);
    pthread_join(thread, 0);
    return 0;
}}
"""

COUNTED_FORTRAN = """\
!ZEN$ BUILD "gfortran -Wall -Werror a.f90 -o p"
!ZEN$ RUN "./p"
program a
  use, intrinsic :: iso_c_binding
  implicit none
  interface
    type(c_ptr) function map(a, n, p, f, d, o) bind(c, name='mmap')
      import :: c_ptr, c_size_t, c_int
      type(c_ptr), value :: a
      integer(c_size_t), value :: n, o
      integer(c_int), value :: p, f, d
    end function
  end interface
  integer(8), pointer :: x(:)
  integer :: i, k
  do i = 1, 3
    !ZEN$ CR wörk PMETRIC WTIME, PAGE_FAULTS, INSTRUCTIONS, TASK_CLOCK BEGIN
    call c_f_pointer(map(c_null_ptr, 4194304_c_size_t, 3, 34, -1, 0_c_size_t), x, [524288])
    do k = 1, 524288, 512
      x(k) = i
    end do
    !ZEN$ END CR
    call c_f_pointer(map(c_null_ptr, 4194304_c_size_t, 3, 34, -1, 0_c_size_t), x, [524288])
    x(1:524288:512) = i
  end do
end program
"""

COUNTED_FIXED = """\
C ZEN$ BUILD "gfortran -Wall -Werror a.f -o p"
C ZEN$ RUN "./p"
      program a
      integer i
C ZEN$ CR "wörk" PMETRIC PAGE_FAULTS, INSTRUCTIONS, TASK_CLOCK BEGIN
      i = 3
C ZEN$ END CR
      print *, i
      end program
"""

COUNTED_PYTHON = """\
#ZEN$ RUN "{python} a.py"
import mmap, os, threading
def touch():
    for _ in range(16):
        area = mmap.mmap(-1, 1 << 18)
        for k in range(0, 1 << 18, 4096): area[k] = 1
def work():
    #ZEN$ CR wörk PMETRIC WTIME, PAGE_FAULTS, INSTRUCTIONS, TASK_CLOCK BEGIN
    touch()
    #ZEN$ END CR
    touch()
work()
if os.fork() == 0:
    work()
    os._exit(0)
os.wait()
work()
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


@pytest.mark.parametrize(
    ("name", "text", "program", "faults"),
    [
        ("a.c", COUNTED_C.format(cc="gcc", name="a.c"), "gcc", 3072),
        ("a.cpp", COUNTED_C.format(cc="g++", name="a.cpp"), "g++", 3072),
        ("a.f90", COUNTED_FORTRAN, "gfortran", 3072),
        ("a.f", COUNTED_FIXED, "gfortran", 0),
        ("a.py", COUNTED_PYTHON.format(python=sys.executable), "python3", 3072),
    ],
)
def test_events_are_counted_between_the_probes_alone(tmp_path, name, text, program, faults):
    needs(program)
    (tmp_path / name).write_text(text)
    application = scan([tmp_path / name])
    (made,) = ExperimentGenerator(application).experiments(application.space.point(0))
    with Local(tmp_path / "zen", 1) as place:
        metrics = (found := outcome(place, made)).metrics
    assert (found.status, found.cause) == ("ok", "")
    # What an empty round counts is taken off; the first one loads what later ones have already.
    assert faults <= metrics["wörk_page_faults"] <= faults + 60
    assert 0 <= metrics["wörk_task_clock"] <= metrics["ctime"] + 0.01
    if isinstance(metrics["wörk_instructions"], Missing):
        assert "processor" in metrics["wörk_instructions"].why or "perf" in (
            metrics["wörk_instructions"].why
        )
        assert metrics["wörk_instructions"].why in found.remark
    assert "wörk_page_faults" not in found.remark


def test_a_region_that_a_program_never_enters_has_no_counts_and_says_so(tmp_path):
    region = "    #ZEN$ CR work PMETRIC PAGE_FAULTS BEGIN\n    pass\n    #ZEN$ END CR\n"
    (tmp_path / "a.py").write_text(f'#ZEN$ RUN "{sys.executable} a.py"\nif 0:\n{region}')
    application = scan([tmp_path / "a.py"])
    (made,) = ExperimentGenerator(application).experiments(application.space.point(0))
    with Local(tmp_path / "zen", 1) as place:
        found = outcome(place, made)
    assert found.status == "ok"
    assert "did not go through the region" in found.metrics["work_page_faults"].why
