"""The portal as a command: it prints a link, answers, and ends when it is told to."""

import os
import re
import signal
import subprocess
import sys

import pytest
import requests

from cli.conftest import zen


@pytest.fixture
def portal(tmp_path):
    """The process, and its link."""
    command = [sys.executable, "-c", "from zenturio.cli import main; main()", "portal"]
    environment = {**os.environ, "ZENTURIO_PORTAL_PASSWORD": "its own"}
    running = subprocess.Popen(
        [*command, "--no-browser"], cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        said = [running.stdout.readline() for _ in range(2)]
        yield running, said
    finally:
        running.kill()
        running.wait()
        running.stdout.close()


def test_it_prints_a_link_that_opens_it_and_ends_with_ctrl_c(portal, tmp_path):
    running, (place, link) = portal
    assert str(tmp_path) in place
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=\S+\n", link)
    with requests.Session() as browser:
        page = browser.get(link.strip())
        assert "No study has been run yet" in page.text
        stream = browser.get(page.url + "live", stream=True)
        assert stream.status_code == 200
        running.send_signal(signal.SIGINT)
        assert running.wait() == 130
        stream.close()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_it_does_not_listen_to_others_who_would_not_be_asked(tmp_path, host):
    told = zen("portal", "--host", host, "--no-browser", cwd=tmp_path, code=6)
    assert "nobody would have to log in" in told.err
    assert told.out == ""


def test_a_port_that_is_taken_is_said_with_what_to_do(portal, tmp_path):
    port = re.search(r":(\d+)/", portal[1][1])[1]
    told = zen("portal", "--port", port, "--no-browser", cwd=tmp_path, code=4)
    assert "another --port" in told.err


def test_what_it_needs_and_lacks_is_named(tmp_path):
    hidden = "import sys; sys.modules['uvicorn'] = None; from zenturio.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", hidden, "portal"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 4
    assert "[portal]'" in done.stderr
