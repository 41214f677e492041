"""Replays of job logs, beside a simulator that shares no code with them."""

import gzip
import random

import numpy as np
import pytest

from tests.schedule.recorded import recorded
from zenturio.cli.main import app
from zenturio.errors import InputError
from zenturio.schedule.algorithm import make
from zenturio.schedule.cluster.flexible import FlexibleSettings, replay_flexible
from zenturio.schedule.cluster.replay import JobLog, is_job_log, read_job_log, replay
from zenturio.schedule.commands import replay_log

POLICIES = ("fifo", "easy", "conservative", "fair-share", "priority")


def log_of(jobs, size=0):
    """Jobs as (submit, run, estimate, processors), or with a user at the end."""
    columns = np.array([(*job, 0)[:5] for job in jobs], np.float64).T
    return JobLog("log", columns[0], columns[1], columns[2], columns[3].astype(int),
                  columns[4].astype(int), size)  # fmt: skip


def starts(policy, jobs, size):
    return replay(log_of(jobs), make(policy), policy, size).start.tolist()


# At 0: one job of 3 processors until 10; a job of 3 can start at 10, one of 4 at 20, and a long one
# of one processor fits beside the first two.
CASE = [(0, 10, 10, 3), (1, 10, 10, 3), (2, 5, 5, 4), (3, 30, 30, 1)]


def test_easy_lets_a_long_job_delay_the_second_in_the_queue_and_conservative_does_not():
    assert starts("fifo", CASE, 4) == [0, 10, 20, 25]
    assert starts("easy", CASE, 4) == [0, 10, 33, 3]
    assert starts("conservative", CASE, 4) == [0, 10, 20, 25]


def test_a_short_job_overtakes_under_both_kinds_of_backfilling():
    jobs = [*CASE[:3], (3, 6, 6, 1)]
    for policy in ("easy", "conservative"):
        assert starts(policy, jobs, 4) == [0, 10, 20, 3]


def test_those_who_used_least_come_first_under_fair_share():
    jobs = [(0, 100, 100, 4, 1), (1, 10, 10, 4, 1), (2, 10, 10, 4, 2)]
    assert starts("fair-share", jobs, 4) == [0, 110, 100]
    assert starts("easy", jobs, 4) == [0, 100, 110]


@pytest.mark.parametrize(
    ("by", "order"),
    [("shortest", [2, 3, 1]), ("longest", [1, 3, 2]), ("narrowest", [3, 1, 2]),
     ("widest", [1, 2, 3]), ("smallest", [2, 3, 1])],
)  # fmt: skip
def test_priorities_are_by_length_or_width(by, order):
    log = log_of([(0, 9, 9, 4), (1, 8, 8, 4), (1, 2, 2, 4), (1, 4, 4, 3)])
    begun = replay(log, make(f"priority:by={by}"), "", 4).start
    assert sorted((1, 2, 3), key=lambda job: begun[job]) == order


def naive(policy, jobs, size):
    """Event by event, with lists that are built anew each time."""
    begun, ended = {}, set()
    waiting = list(range(len(jobs)))
    while len(begun) < len(jobs):
        events = [jobs[job][0] for job in waiting]
        events += [begun[job] + jobs[job][1] for job in begun if job not in ended]
        now = min(event for event in events if event > naive.last)
        naive.last = now
        ended |= {job for job in begun if begun[job] + jobs[job][1] <= now}
        running = {job: begun[job] + jobs[job][2] for job in begun if job not in ended}
        queue = [job for job in waiting if jobs[job][0] <= now]
        for job in allowed(policy, jobs, size, now, running, queue):
            begun[job] = now
            waiting.remove(job)
    return [begun[job] for job in range(len(jobs))]


def allowed(policy, jobs, size, now, running, queue):
    def free_between(begin, end, taken):
        """Usage only rises where something begins."""
        moments = {begin, *(start for start, _, _ in taken if begin < start < end)}
        return min(
            size - sum(width for start, stop, width in taken if start <= moment < stop)
            for moment in moments
        )

    taken = [(now, end, jobs[job][3]) for job, end in running.items()]
    chosen, blocked = [], 0
    for job in queue:
        length, width = jobs[job][2], jobs[job][3]
        begin = min(
            moment
            for moment in (now, *(stop for _, stop, _ in taken))
            if free_between(moment, moment + length, taken) >= width
        )
        if begin == now:
            chosen.append(job)
            taken.append((begin, begin + length, width))
        elif policy == "fifo":
            break
        elif policy == "conservative" or not blocked:
            # EASY: only the first that does not fit has a reservation.
            blocked += 1
            taken.append((begin, begin + length, width))
    return chosen


def random_jobs(seed, count=40, size=8):
    chance = random.Random(seed)
    jobs, now = [], 0
    for _ in range(count):
        now += chance.choice([0, 1, 2, 5])
        run = chance.randint(1, 30)
        jobs.append((now, run, run + chance.choice([0, 0, 3, 40]), chance.randint(1, size)))
    return jobs


@pytest.mark.parametrize("policy", ["fifo", "easy", "conservative"])
def test_replays_agree_with_the_independent_simulator(policy):
    for seed in range(40):
        jobs = random_jobs(seed)
        naive.last = -1.0
        assert starts(policy, jobs, 8) == naive(policy, jobs, 8), seed


@pytest.mark.parametrize("policy", POLICIES)
def test_no_policy_uses_more_processors_than_there_are(policy):
    jobs = [(*job, index % 3) for index, job in enumerate(random_jobs(7, 300))]
    result = replay(log_of(jobs), make(policy), policy, 8)
    assert (result.wait >= 0).all()
    for moment in result.start:
        busy = (result.start <= moment) & (moment < result.end)
        assert result.log.processors[busy].sum() <= 8
    assert 0 < result.metrics["utilisation"] <= 1


def test_metrics_are_those_counted_by_hand():
    result = replay(log_of([(0, 100, 100, 2), (0, 1, 1, 2)]), make("fifo"), "fifo", 2)
    metrics = result.metrics
    assert (metrics["makespan"], metrics["utilisation"]) == (101, 1.0)
    assert (metrics["wait_mean"], metrics["wait_max"]) == (50, 100)
    assert metrics["slowdown_mean"] == (1 + 101) / 2
    # A job of 1 s counts as one of 10 s.
    assert metrics["bounded_slowdown_mean"] == (1 + 10.1) / 2


SWF = """; MaxProcs: 4
1 0 -1 10 3 -1 -1 3 10 -1 1 7 1 -1 -1 -1 -1 -1
2 1 -1 10 3 -1 -1 3 -1 -1 1 7 1 -1 -1 -1 -1 -1
3 2 -1 -1 4 -1 -1 4 5 -1 0 7 1 -1 -1 -1 -1 -1
"""


@pytest.mark.parametrize("name", ["log.swf", "log.swf.gz"])
def test_a_log_has_jobs_sizes_and_estimates(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress(SWF.encode()) if name.endswith("gz") else SWF.encode())
    log = read_job_log(path)
    assert (len(log), log.size, log.skipped) == (2, 4, 1)
    assert log.estimate.tolist() == [10, 10]
    assert log.user.tolist() == [7, 7]


def test_a_table_of_jobs_is_a_log(tmp_path):
    path = tmp_path / "ours.jobs.csv"
    path.write_text("submit,run,processors,user\n5,10,2,ann\n0,3,1,bob\n")
    log = read_job_log(path)
    assert log.submit.tolist() == [0, 5]
    assert log.user.tolist() == [1, 0]
    (result,) = replay_log(str(path), "identical:2", "easy", {})
    assert result.start.tolist() == [0, 5]


@pytest.mark.parametrize(
    ("text", "on", "algorithm", "message"),
    [
        ("submit,run\n", "", "easy", "no column 'processors'"),
        ("submit,run,processors\n1,x,3\n", "", "easy", "jobs.csv:2: not a job of numbers"),
        ("submit,run,processors\n", "", "easy", "no job that ran"),
        ("submit,run,processors\n1,2,3\n", "", "easy", "has no header MaxProcs"),
        ("submit,run,processors\n1,2,3\n", "identical:2", "easy", "a job needs 3 processors"),
        ("submit,run,processors\n1,2,3\n", "identical:3", "heft", "heft is static"),
    ],
)
def test_what_cannot_be_replayed_is_refused(tmp_path, text, on, algorithm, message):
    path = tmp_path / "wrong.jobs.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        replay_log(str(path), on, algorithm, {})


def test_a_policy_that_starts_too_much_is_refused():
    class Greedy:
        def start(self, cluster):
            return list(cluster.queue)

        def ended(self, cluster, job, started):
            pass

    with pytest.raises(InputError, match="greedy started a job that does not fit, at 1 s"):
        replay(log_of(CASE), Greedy(), "greedy", 4)


def test_the_command_compares_policies_and_writes_jobs(tmp_path, capsys):
    from typer.testing import CliRunner

    path = tmp_path / "log.swf"
    path.write_text(SWF)
    runner = CliRunner()
    compared = runner.invoke(app, ["simulate", str(path)])
    assert compared.exit_code == 0, compared.output
    assert all(policy in compared.output for policy in POLICIES)
    out = tmp_path / "jobs.csv"
    only = runner.invoke(app, ["simulate", str(path), "--algorithm", "easy", "-o", str(out)])
    assert only.exit_code == 0, only.output
    assert out.read_text().splitlines()[1:] == ["0,0,10,3,7", "1,10,20,3,7"]
    assert is_job_log([str(path)])


def test_the_log_of_nasa_hardly_waits_because_its_submissions_are_its_starts():
    log = read_job_log(recorded("swf/NASA-iPSC-1993-3.1-cln.swf.gz")[0])
    assert (len(log), log.size) == (18066, 128)
    for policy in ("fifo", "easy", "conservative"):
        result = replay(log, make(policy), policy)
        assert np.mean(result.wait > 0) < 0.01
        assert result.metrics["utilisation"] == pytest.approx(0.466, abs=0.001)


def test_easy_and_the_independent_simulator_agree_on_a_part_of_the_log_of_nasa():
    log = read_job_log(recorded("swf/NASA-iPSC-1993-3.1-cln.swf.gz")[0])
    columns = (log.submit, log.run, log.estimate, log.processors)
    # Submitted four times as fast, so that jobs wait.
    jobs = [
        (submit // 4, *rest) for submit, *rest in zip(*(c.tolist() for c in columns), strict=True)
    ]
    naive.last = -1.0
    assert starts("easy", jobs[2000:2400], 128) == naive("easy", jobs[2000:2400], 128)


def flexible(name, jobs, size, **settings):
    rows = [(*job, 0) for job in jobs]
    return replay_flexible(log_of(rows), make(name, settings), name, size)


def test_jobs_that_may_not_change_run_as_under_fifo():
    for seed in range(5):
        jobs = random_jobs(seed)
        for name in ("moldable-jobs", "malleable-jobs"):
            result = flexible(name, jobs, 8, shrink=1, grow=1)
            assert result.start.tolist() == pytest.approx(starts("fifo", jobs, 8)), (seed, name)


def test_a_moldable_job_takes_what_is_free_when_it_starts_and_keeps_it():
    # Each asks for 4 of 8 processors, for 60 s; without a serial part.
    jobs = [(0, 60, 60, 4), (10, 60, 60, 4), (10, 60, 60, 4)]
    result = flexible("moldable-jobs", jobs, 8, shrink=0.5, grow=2, serial=0)
    # The first takes all 8 and ends at 30; the others share what it leaves.
    assert result.start.tolist() == [0, 30, 30]
    assert result.end.tolist() == [30, 90, 90]
    assert result.metrics["utilisation"] == 1
    # Amdahl's law: 4 processors take 0.5 + 0.5 / 4, 8 take 0.5 + 0.5 / 8.
    serial = flexible("moldable-jobs", jobs[:1], 8, serial=0.5)
    assert serial.end.tolist() == [pytest.approx(60 * (0.5 + 0.5 / 8) / (0.5 + 0.5 / 4))]


def test_malleable_jobs_shrink_for_those_that_come_and_grow_when_others_end():
    jobs = [(0, 60, 60, 4), (10, 15, 15, 4)]
    result = flexible("malleable-jobs", jobs, 8, shrink=0.25, grow=2, serial=0)
    # Alone on 8 until 10 (20 s of 60 done), then on 4 for 15 s, then on 8 again for 25 / 2 s.
    assert result.start.tolist() == [0, 10]
    assert result.end.tolist() == [37.5, 25]
    assert (result.metrics["wait_max"], result.metrics["utilisation"]) == (0, 1)


@pytest.mark.parametrize("name", ["moldable-jobs", "malleable-jobs"])
def test_flexible_jobs_do_their_work_on_the_processors_that_there_are(name):
    jobs = random_jobs(3, 200)
    result = flexible(name, jobs, 8, serial=0)
    work = sum(run * width for _, run, _, width in jobs)
    assert result.used == pytest.approx(work)  # without a serial part, work is work
    assert (result.wait >= 0).all()
    assert result.metrics["utilisation"] <= 1 + 1e-9
    rigid = replay(log_of(jobs), make("fifo"), "fifo", 8)
    assert result.metrics["makespan"] < rigid.metrics["makespan"]


def test_a_policy_that_takes_processors_away_is_refused():
    class Greedy:
        settings = FlexibleSettings()

        def allot(self, cluster):
            return dict.fromkeys(cluster.queue, 4)

    with pytest.raises(InputError, match="do not fit"):
        replay_flexible(log_of([(0, 5, 5, 4, 0), (0, 5, 5, 4, 0)]), Greedy(), "greedy", 7)
    with pytest.raises(InputError, match="takes all processors of a job away"):
        replay_flexible(log_of([(0, 5, 5, 4, 0), (1, 5, 5, 4, 0)]), Greedy(), "greedy", 8)
