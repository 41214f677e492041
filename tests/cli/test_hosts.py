"""The verb of hosts, and a study that runs on them, killed and resumed."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from loaded import Program
from zenturio.cli.main import app
from zenturio.errors import ExperimentsFailed, InputError
from zenturio.testing.executor import until

PROGRAM = """
#ZEN$ ASSIGN n = { 1:6 }
#ZEN$ RUN "python3 square.py"
#ZEN$ METRIC square FROM stdout REGEX "square=(\\d+)"
import os, time
open("FOLDER/begun", "a").write("%d\\n" % n)
while n > 3 and os.path.exists("FOLDER/hold"):
    time.sleep(0.02)
print(f"square={n * n}")
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "square.py").write_text(PROGRAM.replace("FOLDER", str(tmp_path)))
    (tmp_path / "hosts.toml").write_text(
        "".join(
            f'[hosts.{name}]\nvia = "sh"\nslots = {slots}\nspeed = {slots}\n'
            f'tags = ["{name}"]\nfolder = "{tmp_path}/{name}"\n'
            for name, slots in (("pegasus", 2), ("babieca", 1))
        )
    )
    return tmp_path


def zen(*words, code=0):
    done = CliRunner().invoke(app, words)
    found = done.exit_code
    if found != code and done.exception is not None and code == 0:
        raise done.exception
    assert found == code, done.output
    return done.output


def facts(*words):
    return json.loads(zen(*words, "--json"))


def test_hosts_are_listed_with_what_they_are(project):
    text = zen("hosts")
    assert text.splitlines()[0].split() == [
        "host", "address", "state", "arch", "cores", "slots", "memory", "speed", "load", "cost",
    ]  # fmt: skip
    first, second = facts("hosts")
    assert (first["host"], first["up"], first["slots"], first["tags"]) == (
        "pegasus", True, 2, "pegasus",
    )  # fmt: skip
    assert second["speed"] == 1
    assert first["memory"] > 0


def test_speeds_are_measured_once_and_anew_if_that_is_wanted(project):
    text = (project / "hosts.toml").read_text().replace("speed = 2\n", "")
    (project / "hosts.toml").write_text(text)
    first = facts("hosts")[0]["speed"]
    assert first > 0
    known = project / ".zenturio" / "places" / "hosts" / "facts.json"
    known.write_text(known.read_text().replace(str(first), "0.125"))
    assert facts("hosts")[0]["speed"] == 0.125
    assert facts("hosts", "--calibrate")[0]["speed"] > 0.125


def test_a_host_that_cannot_be_reached_says_why(project):
    with (project / "hosts.toml").open("a") as file:
        file.write('[hosts.nowhere]\naddress = "127.0.0.1"\nport = 9\n')
    text = zen("hosts")
    assert "nowhere: ssh: connect to host 127.0.0.1 port 9: Connection refused" in text
    (project / "hosts.toml").write_text('[hosts.nowhere]\naddress = "127.0.0.1"\nport = 9\n')
    zen("hosts", code=4)


def test_a_study_runs_on_hosts_and_its_jobs_are_told_and_drawn(project):
    summary = facts("run", "square.py", "--on", "hosts.toml")
    assert (summary["ok"], summary["failed"]) == (6, 0)
    events = facts("hosts", "--events")
    assert {e["host"] for e in events if e["kind"] == "started"} == {"pegasus", "babieca"}
    (one,) = {e["digest"] for e in events if e["kind"] == "ended"} & {events[5]["digest"]} or {
        next(e["digest"] for e in events if e["digest"])
    }
    own = facts("hosts", "--events", "--digest", one)
    assert [e["kind"] for e in own] == ["submitted", "prolog", "started", "epilog", "ended"]
    assert zen("hosts", "--gantt", "jobs.svg").startswith("jobs.svg: ")
    picture = Path("jobs.svg").read_text()
    assert all(f"n={n}" in picture for n in range(1, 7))
    assert not [
        p for p in (project / ".zenturio" / "places" / "hosts").iterdir() if len(p.name) == 32
    ]


def test_a_driver_that_is_killed_resumes_what_runs_on_hosts_and_nothing_runs_twice(project):
    begun, hold = project / "begun", project / "hold"
    hold.touch()
    driver = Program(None, "run", "square.py", "--on", "hosts.toml", cwd=Path.cwd())
    until(lambda: begun.exists() and {"4", "5", "6"} & set(begun.read_text().split()))
    driver.kill()
    driver.communicate()
    hold.unlink()
    summary = facts("run", "square.py", "--on", "hosts.toml")
    assert summary["ok"] + summary["known"] == 6
    assert sorted(begun.read_text().split()) == ["1", "2", "3", "4", "5", "6"]
    rows = facts("results", "square")
    at = rows["columns"].index("square")
    assert sorted(row[at] for row in rows["rows"]) == [1, 4, 9, 16, 25, 36]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no host"),
        ("[hosts.a]\nport = 99999\n", "2:1: port is 99999"),
        ("[hosts.a]\nadress = 'x'\n", "did you mean 'address'"),
        ("[hosts.a]\nvia = 'telnet'\n", "via = 'telnet'"),
        ("[hosts.a]\naddress = '-oProxyCommand=x'\n", "is not an address"),
        ("[hosts.a]\n[options]\ncontract = -1\n", "3:1: contract = -1 is not possible"),
        ("[hosts.a]\n[options]\nthen = 'stpo'\n", "did you mean 'stop'"),
        ("[hosts.a]\n[options]\nrank = 'host.speed +'\n", "rank"),
        ("[hosts.a]\nfacts = { cores = 3 }\n", "a built-in fact of every host"),
        ("hosts = 3\n", "hosts are tables"),
        ("[hosts.a]\nmemory = 'much'\n", "memory is 'much'"),
    ],
)
def test_what_is_wrong_in_the_file_is_told_with_its_place(project, text, said):
    (project / "hosts.toml").write_text(text)
    with pytest.raises(Exception, match=r"(?s)hosts\.toml") as caught:
        zen("hosts")
    assert said in str(caught.value)


def test_hosts_may_be_discovered(project):
    (project / "found.json").write_text(
        json.dumps({"found": {"via": "sh", "slots": 3, "folder": f"{project}/found"}})
    )
    (project / "hosts.toml").write_text('[options]\ndiscover = "cat found.json"\n')
    (host,) = facts("hosts")
    assert (host["host"], host["slots"]) == ("found", 3)


def test_nothing_has_happened_yet(project):
    with pytest.raises(Exception, match="nothing has run on hosts yet"):
        zen("hosts", "--events")


@pytest.mark.slow  # tests/execute/hosts/test_flow.py has loops in the gate
def test_a_workflow_runs_on_hosts_until_it_converged(project):
    tasks = [{"name": name, "work": 0.1} for name in ("start", "step", "end")]
    ends = (("start", "step"), ("step", "start"), ("step", "end"))
    edges = [{"from": a, "to": b} for a, b in ends]
    flow = {"format": "zenturio-workflow", "tasks": tasks, "edges": edges}
    (project / "flow.json").write_text(json.dumps(flow))
    (project / "task.sh").write_text(
        'echo "$1" > $1.dat; ls *.dat; test $1$2 != step2 || echo {\\"converged\\": 1} >> $ZEN_METRICS'
    )
    words = ["--command", "sh task.sh {task} {iteration}", "--file", "task.sh"]
    found = facts("workflow", "run", "flow.json", *words, "--hand-on", "*.dat", "--gantt", "f.svg")
    assert [e["kind"] for e in found["events"]].count("ended") == 5
    assert (project / "f.svg").stat().st_size > 1000
    assert "hybrid: 3 tasks in" in zen("workflow", "run", "flow.json", *words)


def test_a_workflow_runs_on_this_machine_without_a_file_of_hosts(project, monkeypatch):
    (project / "hosts.toml").unlink()
    monkeypatch.setenv("HOME", str(project))
    tasks = [{"name": name, "work": 0.1} for name in ("start", "end")]
    flow = {"tasks": tasks, "edges": [["start", "end"]]}
    (project / "flow.json").write_text(json.dumps(flow))
    words = ["--command", "cat *.dat; echo {task} > {task}.dat", "--hand-on", "*.dat"]
    found = facts("workflow", "run", "flow.json", *words, "--on", "local")
    assert [(task["id"], task["machine"]) for task in found["tasks"]] == [
        ("start", "local"), ("end", "local"),
    ]  # fmt: skip
    # The folder that the run made is the user's own: zen run does not ask who wrote it.
    assert (project / ".zenturio" / "trust-id").exists()
    first, second = found["predictions"]
    assert (first["task"], second["task"]) == ("start", "end")
    # The work by the speed of this machine.
    assert first["predicted"] == second["predicted"] > 0
    assert first["took"] > 0
    text = zen("workflow", "run", "flow.json", *words, "--on", "local")
    assert "predicted s" in text
    assert "times what was predicted (median)" in text
    # What was measured is recorded, and the next plan is made of it.
    assert "plan with these times: --times flow-tasks" in text
    table = facts("results", "flow-tasks")
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
    assert len(rows) == 4
    times = ("--times", "flow-tasks")
    planned = facts("schedule", "flow.json", "--on", "identical:1", *times)["makespan"]
    speed = rows[0]["speed"]
    took = [row["seconds"] * row["speed"] for row in rows]
    assert 0 < min(took) < planned < sum(took)
    found = facts("workflow", "run", "flow.json", *words, "--on", "local", *times, "--record", "t")
    measured = sorted(p["predicted"] * speed for p in found["predictions"])
    assert sum(measured) == pytest.approx(planned)
    assert len(facts("results", "t")["rows"]) == 2


@pytest.mark.parametrize("algorithm", [pytest.param("hybrid", marks=pytest.mark.slow), "heft"])
def test_the_exit_code_of_a_real_task_decides_what_runs_after_it(project, algorithm):
    tasks = [
        {"name": "check", "work": 0.1},
        {"name": "good", "work": 0.1, "when": {"check": 0}},
        {"name": "bad", "work": 0.1, "when": {"check": [3, 4]}},
        {"name": "end", "work": 0.1},
    ]
    ends = (("check", "good"), ("check", "bad"), ("good", "end"), ("bad", "end"))
    flow = {"tasks": tasks, "edges": list(map(list, ends))}
    (project / "flow.json").write_text(json.dumps(flow))
    words = ("workflow", "run", "flow.json", "-a", algorithm, "--command")
    found = facts(*words, "test {task} != check || exit 3")
    assert found["skipped"] == ["good"]
    assert [e["task"] for e in found["events"] if e["kind"] == "ended"] == ["check", "bad", "end"]
    # A code that no task runs with is a failure.
    with pytest.raises(ExperimentsFailed, match="'check'"):
        zen(*words, "test {task} != check || exit 5")


def test_an_algorithm_that_plans_no_single_tasks_is_refused_before_hosts_are_connected(project):
    (project / "hosts.toml").unlink()
    (project / "flow.json").write_text('{"tasks": [{"name": "a", "work": 1}]}')
    with pytest.raises(InputError, match=r"srpt is .*: it does not plan single tasks"):
        zen("workflow", "run", "flow.json", "--command", "true", "-a", "srpt")
