"""From CR in a program to metrics in an outcome: scanned, filled, built, run and measured."""

import sys

import pytest

from needs import needs
from zenturio.annotate.scan import scan
from zenturio.execute.local import Local
from zenturio.experiment import ExperimentGenerator
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
