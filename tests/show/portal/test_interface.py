"""Whatever is asked of the portal: it answers, and never by a mistake of its own."""

import pytest
from hypothesis import HealthCheck, given, settings

from zenturio.query.result_table import STREAMED_FORMATS
from zenturio.show.portal.server import ROUTES

TABLE = ("name", "where", "state", "sort", "column", "after", "before")
CHART = ("study", "kind", "x", "y", "z", "color", "facet", "agg", "errors", "log", "axes", "where",
         "objective", "rows")  # fmt: skip
GIVEN = {
    "/": (),
    "/live": (),
    "/static/{name}": ("v",),
    "/study": TABLE,
    "/study/found": TABLE,
    "/study/failures": ("name",),
    "/study/parameters": ("name",),
    "/experiment/{digest}": ("study", "attempt"),
    "/experiment/{digest}/said": ("study",),
    "/experiment/{digest}/files": ("study",),
    "/experiment/{digest}/log/{stream}": ("attempt",),
    "/experiment/{digest}/file/{number}": ("attempt",),
    "/compare": ("of", "study", "metric"),
    "/sql": ("query",),
    "/download": (*TABLE, "query", "format", "spreadsheet"),
    "/run": (),
    "/run/runs": (),
    "/run/plan": ("path", "limit", "jobs"),
    "/run/start": (),
    "/run/{what}": (),
    "/login": (),
    "/chart": CHART,
    "/chart/figure": (*CHART, "dark", "narrow"),
    "/chart/rows": (*CHART, "number"),
    "/chart/file.{format}": CHART,
}
"""What an address may be given beside its path; any other one what a chart may."""
LIKELY = {
    "name": ("matmul", "stencil", "hello"),
    "where": ("n > 128", "status == 'failed'", "`n` in (1, 2)", "n >", "1"),
    "state": ("ok", "failed"),
    "sort": ("-gflops", "n", "status"),
    "column": ("gflops", "host"),
    "query": ("SELECT 1", "SELECT * FROM study_matmul", "DROP TABLE studies"),
    "format": (*STREAMED_FORMATS, "svg", "html"),
    "study": ("matmul", "stencil", "hello"),
    "color": ("solver", "threads"),
    "facet": ("solver",),
    "agg": ("mean", "max"),
    "errors": ("std", "none"),
    "log": ("x", "y"),
    "kind": ("line", "pie", "surface", "box"),
    "x": ("n", "threads"),
    "y": ("gflops", "wtime"),
    "before": ("end",),
    "stream": ("stdout", "stderr"),
    "what": ("pause", "stop", "resume"),
    "number": ("0", "1"),
}
"""Values with which more is reached than with any text."""


def _path(route):
    return route.path.replace(":int", "").replace(":path", "")


def _schema(portal):
    digests = [record.digest for record in portal.service.portal.repository.records("hello")]
    likely = {**LIKELY, "digest": digests, "of": digests, "after": digests}
    paths = {}
    for path in dict.fromkeys([*GIVEN, *map(_path, ROUTES)]):
        more = GIVEN.get(path, CHART)
        inside = [part[1:-1] for part in path.split("/") if part[:1] == "{"]
        parameters = [
            {"name": name, "in": where, "required": where == "path",
             "schema": {"anyOf": [{"enum": list(likely.get(name, ("x",)))}, {"type": "string"}]}}
            for where, names in (("path", inside), ("query", more))
            for name in names
        ]  # fmt: skip
        posted = path.startswith("/run/") and path not in ("/run/runs", "/run/plan")
        method = "post" if posted else "get"
        paths[path] = {
            method: {"parameters": parameters, "responses": {"default": {"description": ""}}}
        }
    del paths["/live"]  # which never ends
    return {"openapi": "3.1.0", "info": {"title": "portal", "version": "1"}, "paths": paths}


@pytest.fixture(scope="module")
def operations(portal):
    import schemathesis  # a second for each process that collects tests

    schema = schemathesis.openapi.from_dict(_schema(portal))
    schema.config.update(base_url=portal.address)
    return [found.ok() for found in schema.get_all_operations()]


@pytest.mark.parametrize("times", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_whatever_is_asked_is_answered_and_never_by_a_mistake(portal, operations, times):
    """Each address some or some dozens of times, with likely and with unlikely values."""
    codes = set()
    for operation in operations:
        drawn = operation.path.startswith(("/chart", "/schedule"))

        @settings(
            max_examples=times * (4 if drawn else 10), deadline=None, database=None, derandomize=True,
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(case=operation.as_strategy())
        def asked(case):
            answer = case.call(
                session=portal.known, headers={"Origin": portal.address},
                allow_redirects=False,
            )  # fmt: skip
            codes.add(answer.status_code)
            assert answer.status_code < 500, (case.as_curl_command(), answer.text[:500])
            assert answer.headers["content-security-policy"]

        asked()
    assert {200, 400, 404} <= codes
