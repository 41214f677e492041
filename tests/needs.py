"""What a test needs of the machine: absent, it skips the test, but never where everything is promised.

    from needs import needs

    def test_the_solver_converges(tmp_path):
        needs("gfortran", "make")

The same call works in a fixture, and at the top of a module for all of its tests.
"""

import os
import shutil

import pytest


def needs(*programs: str) -> None:
    """Skip unless all *programs* are on the PATH; under CI=true fail, for there they must be."""
    __tracebackhide__ = True
    missing = [program for program in programs if shutil.which(program) is None]
    if not missing:
        return
    reason = f"not on the PATH: {', '.join(missing)}"
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason}; CI=true promises that it is there", pytrace=False)
    pytest.skip(f"needs {' and '.join(programs)}; {reason}", allow_module_level=True)
