"""Studies to be queried, in each kind of database."""

from contextlib import contextmanager
from dataclasses import replace
from hashlib import blake2b

import pytest

from postgres import grant_reading, postgres, postgres_ready, postgres_url
from zenturio.experiment.experiment import Experiment, Outcome, Recipe
from zenturio.expression import parse
from zenturio.query.catalog import ROW, read_catalog
from zenturio.query.sql_fragments import quote_name, sql
from zenturio.query.sql_writer import write_sql
from zenturio.record import DriverProcess, Field, StudyDefinition
from zenturio.record.open import open_repository

__all__ = ["postgres", "postgres_ready", "postgres_url"]


@pytest.fixture(params=["sqlite", "postgresql"])
def repository(request, tmp_path):
    """An empty repository."""
    place = tmp_path / "zenturio.db"
    url = place if request.param == "sqlite" else request.getfixturevalue("postgres_ready")
    found = open_repository(url)
    grant_reading(found)
    yield found
    found.close()


@contextmanager
def new_repository(request, folder):
    """An empty repository of the kind that *request* names, for a fixture that tests share."""
    if request.param == "sqlite":
        url, server = folder.mktemp("shared") / "zenturio.db", None
    else:
        server = request.getfixturevalue("postgres")
        url = server.ready_url()
    found = open_repository(url)
    grant_reading(found)
    try:
        yield found
    finally:
        found.close()
        if server:
            server.drop_ready(url)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def shared_repository(request, tmp_path_factory):
    """A repository for the tests of a module, which read it and do not change it."""
    with new_repository(request, tmp_path_factory) as found:
        yield found


@pytest.fixture
def sqlite(tmp_path):
    """An empty repository in SQLite."""
    found = open_repository(tmp_path / "zenturio.db")
    yield found
    found.close()


def fill(repository, study, parameters, metrics, rows):
    """A study with a row for each of *rows*: a mapping of all values, ``status`` and ``repeat``.

    Parameters and metrics are mappings of a name to ``type``, ``type unit`` or a field.
    """
    definition = StudyDefinition(_fields(parameters), _fields(metrics))
    repository.open(study, definition)
    lease = repository.acquire_lease(study, DriverProcess.current(), seconds=600)
    results = []
    for number, row in enumerate(rows):
        repeat = row.get("repeat", 1)
        point = {name: row.get(name) for name in parameters}
        digest = blake2b(repr((study, number)).encode(), digest_size=16).hexdigest()
        index = row.get("index", number)
        experiment = Experiment(digest, index, repeat, point, (), (), {}, None, Recipe())
        status = row.get("status", "ok")
        measured = {name: row[name] for name in metrics if row.get(name) is not None}
        cause = row.get("cause", "" if status == "ok" else "exit 3")
        host, started = row.get("host", "kofel"), row.get("started", 1.0)
        outcome = Outcome(digest, status, cause, measured, 1, host, started, started + 1)
        results.append((experiment, replace(outcome, conditions=row.get("conditions"))))
    repository.add_results(study, lease.number, results)
    repository.release_lease(lease)


def _fields(described):
    fields = []
    for name, text in described.items():
        if isinstance(text, Field):
            fields.append(text)
            continue
        kind, _, unit = text.partition(" ")
        fields.append(Field(name, kind or None, unit))
    return tuple(fields)


PARAMETERS = {"n": "int", "threads": "int", "solver": "str"}
METRICS = {"wtime": "real s", "gflops": "real GFLOP/s"}


def matmul():
    """Three sizes, two threads, two solvers, three repeats; one failed, one without gflops."""
    rows = []
    for n in (128, 256, 512):
        for threads in (1, 4):
            for solver in ("cg", "gmres"):
                for repeat in (1, 2, 3):
                    wtime = n / 100 / threads + repeat / 10 + (solver == "gmres")
                    row = {"n": n, "threads": threads, "solver": solver, "repeat": repeat}
                    rows.append(
                        {**row, "index": len(rows) // 3, "wtime": wtime, "gflops": n / wtime}
                    )
    rows[4]["status"] = "failed"
    rows[7]["gflops"] = None
    return rows


def answers(reader, text):
    """What the database says of *text* for each row of the study ``values``."""
    catalog = read_catalog(reader, "values")
    columns = {n: column.fragment(reader.dialect) for n, column in catalog.columns.items()}
    written = write_sql(parse(text), columns, reader.dialect)
    source = f"FROM {quote_name(catalog.view_all)} AS {ROW} ORDER BY {catalog.facts['index'].sql()}"
    column = [row[0] for row in reader.rows(sql(f"SELECT {{}} {source}", written))]
    return [bool(v) if written.type == "bool" and v is not None else v for v in column]
