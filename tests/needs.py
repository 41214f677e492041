"""What a test needs of the machine: absent, it skips the test, but never where everything is promised.

    from needs import needs

    def test_the_solver_converges(tmp_path):
        needs("gfortran", "make")

The same call works in a fixture, and at the top of a module for all of its tests.
"""

import os
import shutil

import pytest

GROUPS = {
    program: group
    for group, programs in {
        "Slurm": "munged slurmctld slurmd sbatch squeue scancel scontrol srun",
        "Grid Engine": "qsub qstat qconf sge_qmaster sge_execd",
        "PostgreSQL": "initdb pg_ctl postgres",
        "hosts over SSH": "ssh sshd /usr/sbin/sshd",
        "pages in a browser": "chromium",
        "programs in C, C++ and Fortran": "cc gcc g++ gfortran make",
        "several mpirun at a time": "mpirun.openmpi mpirun.mpich",
        "programs in other languages": "javac java lua5.4 node perl rustc",
    }.items()
    for program in programs.split()
}
"""What tests are about that need a program; ``make system`` installs all of these."""
_MISSING = "not on the PATH: "


def needs(*programs: str) -> None:
    """Skip unless all *programs* are on the PATH; under CI=true fail, for there they must be."""
    __tracebackhide__ = True
    missing = [program for program in programs if shutil.which(program) is None]
    if not missing:
        return
    reason = f"{_MISSING}{', '.join(missing)}"
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason}; CI=true promises that it is there", pytrace=False)
    pytest.skip(f"needs {' and '.join(programs)}; {reason}", allow_module_level=True)


def missing_programs(reason: str) -> list[str]:
    """The programs that a test was skipped for, of the *reason* that ``needs`` gave."""
    names = reason.partition(_MISSING)[2]
    return names.split(", ") if names else []
