"""Secrets that the driver knows are not in the output that is kept."""

from dataclasses import replace

import pytest

from record.worker import DEFINITION, STUDY
from zenturio import safe_text
from zenturio.experiment.experiment import Log
from zenturio.record import DriverProcess
from zenturio.record.open import open_repository
from zenturio.record.secret_masking import mask_outcomes
from zenturio.testing.experiments import experiment, outcome


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("LICENSE_TOKEN", "t0ken-of-ours")
    monkeypatch.setenv("MOST_TOKENS", "100000")
    safe_text.secrets_of_environment.cache_clear()
    yield
    safe_text.secrets_of_environment.cache_clear()


def kept(repository, printed, *, claimed):
    """What is kept of an experiment that prints so, and fails with it."""
    repository.open(STUDY, DEFINITION)
    lease = repository.acquire_lease(STUDY, DriverProcess.current()).number
    made = experiment(1)
    failed = replace(
        outcome(made), status="failed", cause=f"exit 1: {printed.head.decode()}", stdout=printed,
        stderr=printed,
    )  # fmt: skip
    if claimed:
        attempts = repository.claim(STUDY, lease, [made])
        repository.record(STUDY, lease, [replace(failed, attempt=attempts[made.digest])])
    else:
        repository.add_results(STUDY, lease, [(made, failed)])
    (attempt,) = repository.attempts(made.digest)
    logs = repository.logs(made.digest)
    repository.close()
    return attempt, logs


@pytest.mark.parametrize("claimed", [True, False])
def test_a_token_of_the_environment_is_masked_and_numbers_are_not(tmp_path, claimed):
    printed = b"t0ken-of-ours 100000"
    repository = open_repository(tmp_path / "a.db")
    attempt, logs = kept(repository, Log(printed, b"", len(printed)), claimed=claimed)
    assert logs.stdout.head == logs.stderr.head == b"******** 100000"
    assert attempt.cause == "exit 1: ******** 100000"


def test_a_password_that_begins_a_token_leaves_nothing_of_the_token():
    failed = replace(outcome(experiment(1)), cause="exit 1: t0ken-of-ours t0ken-of")
    (masked,) = mask_outcomes([failed], ("t0ken-of",))
    assert masked.cause == "exit 1: ******** ********"


def test_half_a_token_is_masked_where_the_log_was_cut(tmp_path):
    printed = Log(b"head t0ken-o", b"f-ours tail", 5_000)
    _, logs = kept(open_repository(tmp_path / "a.db"), printed, claimed=False)
    assert (logs.stdout.head, logs.stdout.tail) == (b"head ********", b"******** tail")


@pytest.mark.parametrize(
    "form", ["zen:p%40ss-word@/postgres?", "zen@/postgres?password=p%40ss-word&"]
)
def test_the_password_of_the_database_is_masked(postgres_url, form):
    printed = b"postgresql://zen:p%40ss-word@host and p@ss-word"
    repository = open_repository(postgres_url.replace("zen@/postgres?", form))
    _, logs = kept(repository, Log(printed, b"", len(printed)), claimed=False)
    assert logs.stdout.head == b"postgresql://zen:********@host and ********"
