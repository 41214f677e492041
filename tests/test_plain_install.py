"""Without the packages of extras, every plug-in of ours still loads: they are imported where used."""

import subprocess
import sys

OPTIONAL = (
    "cmaes", "dask", "dask_jobqueue", "distributed", "numba", "optuna", "ortools", "psycopg",
    "pyarrow", "scipy", "starlette", "uvicorn",
)  # fmt: skip

LOAD_ALL = f"""
import sys
from importlib.metadata import distribution

sys.modules.update(dict.fromkeys({OPTIONAL!r}))  # importing one of them is an ImportError now
for point in distribution("zenturio").entry_points:
    try:
        point.load()
    except Exception as error:
        print(point.group, point.name, type(error).__name__, error)
"""


def test_every_entry_point_loads_without_the_packages_of_extras():
    done = subprocess.run(
        [sys.executable, "-c", LOAD_ALL], capture_output=True, text=True, check=True
    )
    assert done.stdout == ""
