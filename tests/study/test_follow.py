"""What was seen of a stream, and what is still to be said of it."""

from contextlib import closing
from pathlib import Path
from threading import Thread

from hypothesis import given
from hypothesis import strategies as st

from record.reference import ReferenceRepository
from zenturio.execute import workspace
from zenturio.execute.spawn import live_log_paths
from zenturio.experiment import Log
from zenturio.record import DriverProcess, StudyDefinition
from zenturio.record.open import open_repository
from zenturio.study import log_follower
from zenturio.study.log_follower import FileTail, _goes_on, log_after
from zenturio.testing.executor import until
from zenturio.testing.experiments import (
    DEFINITION,
    A,
    dead_driver,
    driven,
    experiment,
    outcome,
)

LOGS = st.tuples(st.binary(max_size=40), st.integers(1, 12), st.integers(1, 12))


def kept(content, head, tail):
    """As the streams of a run keep it."""
    if len(content) <= head:
        return Log(content, b"", len(content))
    return Log(content[:head], content[max(head, len(content) - tail) :], len(content))


@given(LOGS, st.integers(0, 40))
def test_nothing_is_said_twice_and_what_is_lacking_is_counted(log, seen):
    content, head, tail = log
    seen = min(seen, len(content))
    said = b"".join(log_after(kept(content, head, tail), seen))
    before, found, after = said.partition(b"\n[... ")
    if not found:
        assert before == content[seen:]
        return
    missing, _, rest = after.partition(b" bytes were not kept ...]\n")
    assert content[seen:].startswith(before)
    assert content.endswith(rest)
    assert len(before) + int(missing) + len(rest) == len(content) - seen


def test_a_tail_reads_what_is_new_and_the_rest_of_what_was_taken_away(tmp_path):
    path = tmp_path / "a.stdout"
    tail = FileTail()
    assert tail.read(str(path)) == b""
    path.write_bytes(b"one ")
    assert tail.read(str(path)) == b"one "
    with path.open("ab") as file:
        file.write(b"two")
    path.unlink()
    assert tail.rest() == b"two"
    assert tail.seen == 7
    (tmp_path / "b.stdout").write_bytes(b"anew")
    assert tail.read(str(tmp_path / "b.stdout")) == b"anew"
    assert tail.seen == 4
    tail.close()


def test_nobody_waits_for_an_experiment_whose_driver_was_killed():
    repository = ReferenceRepository()
    repository.open("s", DEFINITION)
    dead = repository.acquire_lease("s", dead_driver(), join=True)
    repository.claim("s", dead.number, [A])
    assert not _goes_on(repository, "s", A.digest)
    driven(repository)
    assert _goes_on(repository, "s", A.digest)


def test_what_an_experiment_says_is_handed_over_while_it_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(log_follower, "POLL", 0.001)
    one = experiment(0)
    session = tmp_path / ".zenturio" / "work" / f"{workspace._SESSION}x"
    (session / one.digest).mkdir(parents=True)
    out, err = (Path(path) for path in live_log_paths(str(session / one.digest)))
    with closing(open_repository(tmp_path / "a.db")) as repository:
        repository.open("s", StudyDefinition((), ()))
        lease = repository.acquire_lease("s", DriverProcess.current())
        claims = repository.claim("s", lease.number, [one])
        said, answers = [], []

        def follow():
            with closing(open_repository(tmp_path / "a.db")) as own:
                answers.append(log_follower.follow_log(own, "s", one.digest, put))

        def put(number, part):
            said.append((number, part))

        thread = Thread(target=follow)
        thread.start()
        out.write_bytes(b"first\n")
        until(lambda: said)
        err.write_bytes(b"oops\n")
        until(lambda: len(said) == 2)
        heard = []
        log_follower.log_so_far(one.digest, lambda number, part: heard.append((number, part)))
        assert heard == [(0, b"first\n"), (1, b"oops\n")]
        repository.record("s", lease.number, [outcome(one, attempt=claims[one.digest])])
        thread.join()
    assert said == [(0, b"first\n"), (1, b"oops\n")]
    assert answers == [(6, 5)]
