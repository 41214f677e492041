"""Studies are started, paused, resumed and stopped from the portal, where that is allowed."""

import json
import os
import signal

import pytest

from show.portal.running_portal import served
from zenturio.errors import ZenError
from zenturio.record.open import FOLDER, open_repository
from zenturio.show.portal.state import PortalSettings, _signature
from zenturio.testing.executor import until

SLOW = """\
#!/bin/sh
#ZEN$ PARAM n = {1:6}
#ZEN$ RUN "sh slow.sh {n}" TIMEOUT 60s
echo "$1" >> "$COUNTED"
sleep 0.3
"""


@pytest.fixture
def allowed(tmp_path, monkeypatch):
    """A portal of a folder with an annotated file, from which it may be run."""
    (tmp_path / FOLDER).mkdir()
    (tmp_path / "slow.sh").write_text(SLOW)
    (tmp_path / "plain.txt").write_text("no directives\n")
    (tmp_path / ".hidden.sh").write_text(SLOW)
    monkeypatch.setenv("COUNTED", str(tmp_path / "counted"))
    settings = PortalSettings(str(tmp_path / FOLDER / "zenturio.db"), tmp_path, allow_run=True)
    with served(settings) as found:
        yield found
        runs = found.service.portal.runs
        for run in runs.list_runs():
            if run.is_alive:
                os.kill(run.pid, signal.SIGKILL)
        until(lambda: not any(run.is_alive for run in runs.list_runs()) and not runs._children)


def _post(portal, path, /, **form):
    own = {"Origin": portal.address}
    return portal.known.post(portal.address + path, data=form, headers=own)


def _counts(folder):
    try:
        repository = open_repository(folder / FOLDER / "zenturio.db", create=False)
    except ZenError:
        return {}
    try:
        return repository.count_states("slow") if repository.studies() else {}
    finally:
        repository.close()


def test_a_study_is_planned_started_paused_and_resumed(allowed, tmp_path):
    page = allowed.page("/run")
    assert "slow.sh" in page
    assert "plain.txt" not in page
    assert ".hidden.sh" not in page
    assert "No plan yet" in allowed.page("/run/plan", path="slow.sh", jobs="1")
    plan = _post(allowed, "/run/plan", path="slow.sh", jobs="1").text
    assert "study slow" in plan
    assert "zen run --jobs=1 -- slow.sh" in plan
    assert not _counts(tmp_path), "a plan writes nothing"

    assert _post(allowed, "/run/start", path="slow.sh", jobs="1", study="slow").status_code == 200
    runs = allowed.service.portal.runs
    (run,) = runs.list_runs()
    until(lambda: _counts(tmp_path).get("ok", 0) >= 1)
    assert os.getsid(run.pid) == run.pid, "it goes on when the portal ends"
    assert "pause" in allowed.page("/run/runs")
    assert _post(allowed, "/run/pause", run=run.key).status_code == 200
    until(lambda: not runs.list_runs()[0].is_alive)
    after = _counts(tmp_path)
    assert 1 <= after["ok"] < 6
    assert after["running"] == after["failed"] == after["cancelled"] == 0

    assert _post(allowed, "/run/pause", run=run.key).status_code == 409
    assert _post(allowed, "/run/resume", run=run.key).status_code == 200
    until(lambda: _counts(tmp_path)["ok"] == 6)
    assert sorted((tmp_path / "counted").read_text().split()) == list("123456")
    until(lambda: not any(each.is_alive for each in runs.list_runs()))


def test_a_study_that_is_stopped_kills_what_it_has_begun(allowed, tmp_path):
    (tmp_path / "slow.sh").write_text(SLOW.replace("sleep 0.3", "sleep 50"))
    _post(allowed, "/run/start", path="slow.sh", jobs="1", study="slow")
    runs = allowed.service.portal.runs
    until(lambda: (tmp_path / "counted").exists())
    assert _post(allowed, "/run/stop", run=runs.list_runs()[0].key).status_code == 200
    until(lambda: not runs.list_runs()[0].is_alive)
    assert _counts(tmp_path)["ok"] == 0
    assert "stopped" in runs.output_tail(runs.list_runs()[0])


def test_a_run_is_found_again_by_a_portal_that_was_started_anew(allowed, tmp_path):
    (tmp_path / "slow.sh").write_text(SLOW.replace("sleep 0.3", "sleep 50"))
    _post(allowed, "/run/start", path="slow.sh", jobs="1", study="slow")
    until(lambda: (tmp_path / "counted").exists())
    with served(allowed.service.portal.settings) as second:
        (run,) = second.service.portal.runs.list_runs()
        assert run.is_alive
        _post(second, "/run/stop", run=run.key)
        until(lambda: not run.is_alive)


@pytest.mark.parametrize(
    "form",
    [
        {"path": "plain.txt"}, {"path": "../slow.sh"}, {"path": "/etc/passwd"}, {"path": "--db=x"},
        {"path": ".hidden.sh"}, {}, {"path": "slow.sh", "limit": "-1"},
        {"path": "slow.sh", "jobs": "1 --db=/tmp/x"}, {"path": "slow.sh", "seed": "٣"},
    ],
    ids=str,
)  # fmt: skip
def test_only_files_that_were_found_are_run_and_options_are_what_they_seem(allowed, form):
    assert _post(allowed, "/run/start", **form).status_code == 400
    assert allowed.get("/run/plan", params=form).status_code == 400
    assert _post(allowed, "/run/plan", **form).status_code == 400
    assert allowed.service.portal.runs.list_runs() == []


def test_what_cannot_be_run_is_said_with_its_place(allowed, tmp_path):
    (tmp_path / "slow.sh").write_text(SLOW.replace("{1:6}", "{1:6:0}"))
    answer = _post(allowed, "/run/plan", path="slow.sh")
    assert answer.status_code == 400
    assert "slow.sh:2:" in answer.text


def test_modules_of_the_project_are_not_taken_for_ours(allowed, tmp_path):
    """A folder may hold a typer.py, honestly or not: nothing that we start imports it."""
    for name in ("typer", "zenturio", "json", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text("open('imported', 'w')\n")
    assert "study slow" in _post(allowed, "/run/plan", path="slow.sh").text
    assert _post(allowed, "/run/start", path="slow.sh", limit="1", study="slow").status_code == 200
    until(lambda: _counts(tmp_path).get("ok") == 1)
    assert not (tmp_path / "imported").exists()


def test_following_a_link_plans_nothing(allowed, tmp_path):
    (tmp_path / "slow.sh").write_text(SLOW.replace("{1:6}", "{1:6:0}"))
    assert "No plan yet" in allowed.page("/run/plan", path="slow.sh")


def test_a_portal_that_may_not_run_runs_nothing(portal, project):
    for path in ("/run", "/run/runs", "/run/plan?path=hello.sh"):
        assert portal.get(path).status_code == 403
    for path in ("plan", "start", "pause", "stop", "resume"):
        assert _post(portal, f"/run/{path}", path="hello.sh", run="x").status_code == 403
    assert "/run" not in portal.page("/")


def record(key, *arguments, signed=True):
    """What a portal keeps of a run that has the number of this process."""
    facts = {
        "key": key, "study": "slow", "arguments": ["run", *arguments, "--", "slow.sh"],
        "pid": os.getpid(), "born": "another boot/1/2", "began": 1.0,
    }  # fmt: skip
    text = json.dumps(facts)
    return f"{_signature(text) if signed else '0' * 32}\n{text}"


def test_runs_that_came_with_a_project_are_neither_shown_nor_resumed(allowed, tmp_path):
    kept = allowed.service.portal.runs._records
    kept.mkdir(parents=True)
    (tmp_path / "secret.log").write_text("the secret")
    (kept / "1-abcdef.json").write_text(record("1-abcdef", "--trust", signed=False))
    (kept / "2-abcdef.json").write_text(record("../../secret"))
    os.mkfifo(kept / "3-abcdef.json")
    (kept / "4-abcdef.json").symlink_to("/dev/zero")
    assert allowed.service.portal.runs.list_runs() == []
    assert _post(allowed, "/run/resume", run="1-abcdef").status_code == 404
    assert "the secret" not in allowed.page("/run")
    assert len(list(kept.iterdir())) == 4


def test_a_number_that_another_process_has_got_is_left_alone(allowed):
    runs = allowed.service.portal.runs
    kept = runs._records
    kept.mkdir(parents=True)
    (kept / "1-abcdef.json").write_text(record("1-abcdef"))
    (kept / "0-broken.json").write_text("{")
    assert [run.key for run in runs.list_runs()] == ["1-abcdef"]
    assert _post(allowed, "/run/stop", run="1-abcdef").status_code == 409
    assert _post(allowed, "/run/kill", run="1-abcdef").status_code == 404
    assert _post(allowed, "/run/stop", run="2-abcdef").status_code == 404


def test_what_an_experiment_says_is_read_while_it_runs(allowed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slow.sh").write_text(SLOW.replace("sleep 0.3", "echo so far; sleep 50"))
    _post(allowed, "/run/start", path="slow.sh", jobs="1", study="slow")
    until(lambda: (tmp_path / "counted").exists())
    until(lambda: _counts(tmp_path).get("running"))
    repository = allowed.service.portal.repository
    digest = next(repository.records("slow", states=["running"])).digest
    assert "every 2s" in allowed.page(f"/experiment/{digest}")
    until(lambda: "so far\n" in allowed.page(f"/experiment/{digest}/said"))
    runs = allowed.service.portal.runs
    _post(allowed, "/run/stop", run=runs.list_runs()[0].key)
    until(lambda: not runs.list_runs()[0].is_alive)
