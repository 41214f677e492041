"""serve, submit, queue and cancel, as users of a lab's machine have them."""

import json
import os
import pwd
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
import requests

from cli.conftest import zen
from loaded import Program
from needs import needs
from zenturio.record.open import open_repository
from zenturio.show.portal.access import PasswordHash, hash_secret
from zenturio.study.service.service_config import ServiceConfig
from zenturio.testing.executor import until

ZEN = [sys.executable, "-c", "from zenturio.cli import main; main()"]
STUDY = """\
#!/bin/sh
#ZEN$ PARAM n = {{ 1:{count} }}
#ZEN$ RUN "sh {name}.sh {{n}}"
#ZEN$ METRIC square FROM stdout REGEX "square (\\d+)"
sleep {seconds}
echo "square $(($1 * $1))"
"""


def write(folder, name, count, seconds):
    text = STUDY.format(name=name, count=count, seconds=seconds)
    (folder / f"{name}.sh").write_text(text)


@pytest.fixture
def lab(tmp_path):
    (tmp_path / ".zenturio").mkdir()
    write(tmp_path, "quick", 4, 0)
    write(tmp_path, "slow", 3, 60)
    return tmp_path


class Serving:
    """``zen serve`` while a test runs."""

    def __init__(self, folder, *options):
        self.folder = folder
        self.process = Program(None, "serve", "-j", 2, "--port", 0, *options, cwd=folder)
        self.first = self.process.stdout.readline()
        self.link = self.process.stdout.readline().partition(": ")[2].strip()

    def until(self, study, turn, **more):
        """Waits until the study is as it is to be; looked at without a process each time."""
        repository = open_repository(str(self.folder / ".zenturio" / "zenturio.db"))
        while True:
            found = {each.study: each for each in repository.submissions()}[study]
            if found.turn == turn and more.items() <= found.progress.items():
                repository.close()
                return
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(0.05)

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.communicate()


def answers(link):
    """Whether somebody listens there."""
    try:
        requests.get(link.partition("?")[0] + "login")
    except requests.RequestException:
        return False
    return True


@pytest.fixture
def serving(lab):
    found = []

    def start(*options):
        found.append(Serving(lab, *options))
        return found[-1]

    yield start
    for each in found:
        each.process.kill()
        each.process.communicate()


def test_a_check_says_what_a_service_would_be_and_starts_none(lab):
    open_repository(str(lab / ".zenturio" / "zenturio.db")).close()
    (lab / "zenturio.toml").write_text('[serve]\npolicy = "srpt"\n')
    lines = zen("serve", "--check", "-j", "3", cwd=lab).out.splitlines()
    assert f"project: {lab}" in lines
    assert "policy: srpt" in lines
    assert "place local: 3 slots" in lines
    assert "no service runs here" in lines
    assert not (lab / ".zenturio" / "serve.lock").exists()
    (lab / "zenturio.toml").write_text('[serve]\npolicy = "srtp"\n')
    assert "did you mean srpt" in zen("serve", "--check", cwd=lab, code=2).err.replace("'", "")
    (lab / "zenturio.toml").write_text('[serve]\nhost = "0.0.0.0"\n')
    zen("serve", "--check", cwd=lab, code=6)


def test_a_check_before_the_first_start_says_that_the_service_creates_the_database(lab):
    lines = zen("serve", "--check", cwd=lab).out.splitlines()
    database = lab / ".zenturio" / "zenturio.db"
    assert f"database: {database} does not exist yet; the service creates it" in lines
    assert not database.exists()


def test_the_token_for_metrics_and_its_hash_belong_together(lab):
    lines = zen("serve", "--metrics-token", cwd=lab).out.splitlines()
    token = lines[0].partition("credentials: ")[2].split()[0]
    assert f'"{hash_secret(token)}"' in lines[1]


def test_systemd_takes_the_unit_files_of_the_page(tmp_path):
    needs("systemd-analyze")
    page = (Path(__file__).parents[2] / "docs" / "operate.md").read_text()
    units = re.findall(r"`/etc/systemd/system/(\S+)`[^\n]*\n\n```ini\n(.*?)```", page, re.DOTALL)
    assert [name for name, _ in units] == ["zenturio.service", "zenturio-runas.service"]
    for name, text in units:
        # The programs and the folder of the page are not on this machine.
        text = re.sub(r"^(ExecStart(?:Pre)?=)\S+", r"\1/bin/true", text, flags=re.MULTILINE)
        text = text.replace("/srv/lab/project", "/tmp").replace("User=lab", "User=root")
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", *sorted(tmp_path.iterdir())],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    ours = [line for line in done.stderr.splitlines() if "zenturio" in line]
    assert (done.returncode, ours) == (0, []), done.stderr


def test_a_program_submits_with_the_token_of_a_user(lab, serving):
    file, setting = zen("serve", "--token", "nightly", cwd=lab).out.splitlines()
    (lab / "token").write_text(file.partition(":")[2])
    (lab / "token").chmod(0o600)
    (lab / "zenturio.toml").write_text(f"[serve.users]\n{setting.partition(':')[2].strip()}\n")
    service = serving()
    assert "serving" in service.first
    told = zen("submit", "slow.sh", "--token-file", "token", "--json", cwd=lab)
    assert (told.facts["user"], told.facts["verified"]) == ("nightly", True)
    zen("cancel", "1", "--token-file", "token", cwd=lab)
    assert zen("queue", "--json", cwd=lab).facts[0]["cause"] == "by nightly"
    (lab / "token").write_text("another")
    assert (
        "no user has this token"
        in zen("submit", "quick.sh", "--token-file", "token", cwd=lab, code=6).err
    )


def test_a_day_at_a_lab(lab, serving):
    service = serving("--policy", "srpt")
    assert service.first == f"serving {lab}: slots 2 on local; policy srpt\n"

    assert zen("queue", cwd=lab).out == "nothing was submitted yet: zen submit PATH\n"
    told = zen("submit", "quick.sh", cwd=lab)
    assert re.fullmatch(r"1: quick of \S+ waits\n", told.out)
    assert told.err == ""
    service.until("quick", "done")
    (quick,) = zen("queue", "--json", cwd=lab).facts
    assert (quick["done"], quick["total"]) == (4, 4)
    assert quick["slowdown"] > 0

    zen("submit", "slow.sh", "--limit", "2", cwd=lab)
    service.until("slow", "running", lent=2)
    shown = zen("queue", cwd=lab).out.splitlines()
    assert shown[0].split() == [
        "number", "user", "study", "turn", "done", "slots", "slowdown", "submitted",
    ]  # fmt: skip
    assert shown[2].split()[2:6] == ["slow", "running", "0/2", "2"]

    refused = zen("serve", "--port", "0", cwd=lab, code=5)
    assert f"process {service.process.pid}" in refused.err
    again = zen("submit", "slow.sh", cwd=lab, code=5)
    assert "in the queue already: number 2" in again.err

    browser = requests.Session()
    assert "slow" in browser.get(service.link).text
    page = browser.get(service.link.partition("?")[0] + "queue").text
    assert "Logged in as the owner of this service" in page
    assert "0 of 2" in page
    browser.close()

    assert "slow of" in zen("cancel", "slow", cwd=lab).out
    service.until("slow", "cancelled")
    assert zen("status", "slow", "--json", cwd=lab).facts["running"] == 0
    assert "2: slow" in zen("cancel", "2", cwd=lab).out

    out, err = service.stop()
    assert service.process.returncode == 0, err
    assert "1: quick of" in out


@pytest.mark.slow
def test_tasks_of_several_workflows_run_by_the_policy_of_the_service(lab, serving):
    (lab / "task.sh").write_text(
        'test "$1" != end || grep -q "b 2" */out.dat || exit 3; echo "$1" > out.dat'
    )
    for name in ("one", "two"):
        tasks = [{"name": "a"}, {"name": "b 2"}, {"name": "end"}]
        flow = {"name": name, "tasks": tasks, "edges": [["a", "end"], ["b 2", "end"]]}
        (lab / f"{name}.json").write_text(json.dumps(flow))
        told = zen(
            "workflow", "annotate", f"{name}.json", "--command", "sh task.sh '{task}'",
            "--file", "task.sh", "--hand-on", "out.dat", "-o", f"{name}-run", cwd=lab,
        )  # fmt: skip
        assert f"zen submit {name}-run/{name}-all" in told.out
    service = serving("--policy", "srpt")
    for name in ("one", "two"):
        zen("submit", f"{name}-run/{name}-all", cwd=lab)
    for name in ("one", "two"):
        service.until(f"{name}-all", "done")
        assert zen("status", f"{name}-end", "--json", cwd=lab).facts["ok"] == 1


def test_nobody_submits_or_cancels_in_the_name_of_another(lab, monkeypatch):
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "somebody-else")
    user = pwd.getpwuid(os.getuid()).pw_name
    assert zen("submit", "quick.sh", "--json", cwd=lab).facts["user"] == user
    zen("cancel", "1", cwd=lab)
    (submission,) = zen("queue", "--json", cwd=lab).facts
    assert submission["cause"] == f"by {user}"


def test_what_was_submitted_while_none_served_is_run_by_the_next(lab, serving):
    told = zen("submit", "quick.sh", "--json", cwd=lab)
    assert told.facts["turn"] == "waiting"
    hint = zen("submit", "quick.sh", "--name", "other", cwd=lab)
    assert "no service is running: zen serve" in hint.err
    first = serving()
    first.process.send_signal(signal.SIGKILL)
    first.process.communicate()
    until(lambda: not answers(first.link))  # its pages end with it
    zen("submit", "slow.sh", cwd=lab)
    killed = serving()
    killed.until("slow", "running", lent=2)
    killed.process.send_signal(signal.SIGKILL)
    killed.process.communicate()
    line = next(line for line in zen("queue", cwd=lab).out.splitlines() if " slow " in line)
    assert "stopped" in line
    assert "the next zen serve resumes it" in line
    status = zen("status", "slow", cwd=lab).out
    assert "interrupted" in status
    assert "to resume: zen serve (it is in the queue)" in status
    assert "n=" not in status  # nothing runs
    zen("cancel", "slow", cwd=lab)
    assert "to resume: zen run slow.sh" in zen("status", "slow", cwd=lab).out
    service = serving()
    service.until("quick", "done")
    service.until("other", "done")
    _, err = service.stop(signal.SIGINT)
    assert service.process.returncode == 0, err


def test_beyond_this_machine_it_is_refused_unless_users_are_named(lab, serving):
    refused = zen("serve", "--host", "0.0.0.0", "--port", "0", cwd=lab, code=6)
    assert "nobody would have to log in" in refused.err
    assert "[serve.users]" in refused.err
    kept = subprocess.run(
        [*ZEN, "serve", "--hash"], cwd=lab, input="secret\n", capture_output=True, text=True,
        check=True,
    ).stdout.strip()  # fmt: skip
    assert PasswordHash.parse(kept).matches("secret")
    (lab / "zenturio.toml").write_text(
        f'[serve]\nhost = "0.0.0.0"\n[serve.users]\nalice = {{ password = "{kept}" }}\n'
    )
    service = serving()
    port = re.search(r":(\d+)/", service.link)[1]
    answer = requests.get(f"http://127.0.0.1:{port}/queue")
    assert answer.url.endswith("/login?next=%2Fqueue")


def test_a_secret_for_a_proxy_is_made_with_both_lines_that_need_it(lab):
    proxy, ours = zen("serve", "--proxy-secret", cwd=lab).out.splitlines()
    secret = re.fullmatch(r'nginx: +proxy_set_header X-Zenturio-Proxy "(\S{40,})";', proxy)[1]
    kept = re.fullmatch(r'zenturio.toml: +(proxy_secret = "(.*)")', ours)
    assert kept[2] == hash_secret(secret)
    (lab / "zenturio.toml").write_text(f'[serve]\nheader = "X-Remote-User"\n{kept[1]}\n')
    assert ServiceConfig.of(lab).proxy_secret == hash_secret(secret)
    (lab / "zenturio.toml").write_text('[serve]\nheader = "X-Remote-User"\n')
    assert "zen serve --proxy-secret" in zen("serve", "--port", "0", cwd=lab, code=2).err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--policy", "srtp"], "did you mean 'srpt'"),
        (["--on", "moon"], "no place is named 'moon'"),
    ],
)
def test_what_is_wrong_is_told_at_once(lab, options, said):
    assert said in zen("serve", "--port", "0", *options, cwd=lab, code=2).err


def test_what_is_wrong_with_a_study_is_told_to_who_submits_it(lab):
    (lab / "quick.sh").write_text("#ZEN$ PARAM n = { 1:2\n")
    told = zen("submit", "quick.sh", cwd=lab, code=2)
    assert "quick.sh:1:" in told.err


IDLE = 1200


@pytest.fixture
def descriptors():
    """A service that is started has 1,024; and what gives the test as many as its own ends take."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < IDLE + 300:
        pytest.skip(f"a process may have {hard} descriptors here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    yield lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, IDLE + 300), hard))
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.slow
def test_idle_connections_leave_pages_and_studies_working(lab, serving, descriptors):
    write(lab, "many", 40, 0)
    service = serving()
    descriptors()
    host, _, port = service.link.split("/")[2].partition(":")
    with ExitStack() as stack:
        for number in range(IDLE):
            line = stack.enter_context(socket.create_connection((host, int(port)), 60))
            if number % 3:
                line.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n"[: number % 40])
        assert requests.get(service.link).status_code == 200
        zen("submit", "many.sh", cwd=lab)
        service.until("many", "done")
        assert requests.get(service.link.partition("?")[0] + "login").ok is False
    repository = open_repository(str(lab / ".zenturio" / "zenturio.db"))
    assert repository.count_states("many")["ok"] == 40
    repository.close()
    out, err = service.stop()
    assert service.process.returncode == 0, err
    assert "started anew" not in out
