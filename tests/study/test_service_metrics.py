"""What Prometheus reads of a service."""

import re

from record.reference import ReferenceRepository
from zenturio.study.service.service_status import metrics_text

LINE = re.compile(r'[a-z_]+(\{[a-z]+="(?:[^"\\\n]|\\.)*"\})? -?[0-9.e+]+')


def test_each_line_is_of_the_format_and_counts_are_those_of_the_queue():
    repository = ReferenceRepository()
    for token, user in (("a", "alice"), ("b", 'b"o\\b\n'), ("c", "alice")):
        repository.submit(token, user, f"study {token}", {})
    first = repository.submissions()[0].number
    repository.update_submission(first, "running")
    repository.report_progress(first, {"lent": 2, "done": 3, "total": 10, "spent": 1.5})
    text = metrics_text(repository, is_served=True)
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(LINE.fullmatch(line) for line in lines), text
    assert {
        "zenturio_service_up 1",
        'zenturio_submissions{state="waiting"} 2',
        'zenturio_submissions{state="running"} 1',
        'zenturio_slots_in_use{user="alice"} 2',
        'zenturio_experiments_left{user="alice"} 7',
        'zenturio_slot_seconds_total{user="alice"} 1.5',
    } <= set(lines)
    repository.update_submission(first, "done")
    assert 'zenturio_slots_in_use{user="alice"} 0' in metrics_text(repository, is_served=False)


def test_what_each_of_three_users_has_is_the_sum_of_their_own_submissions():
    repository = ReferenceRepository()
    turns = {
        "a": ("eva", "running", {"lent": 2, "done": 3, "total": 10, "spent": 1.5}),
        "b": ("eva", "done", {"lent": 4, "done": 6, "total": 6, "spent": 2.0}),
        "c": ("jan", "running", {"lent": 1, "done": 5, "total": 7, "spent": 8.25}),
        "d": ("jan", "waiting", {"total": 20}),
        "e": ("jan", "cancelled", {"lent": 8, "done": 1, "total": 30, "spent": 4.0}),
        "f": ("ada", "waiting", {}),
    }
    for token, (user, turn, progress) in turns.items():
        number = repository.submit(token, user, f"study {token}", {}).number
        repository.update_submission(number, "running")
        repository.report_progress(number, progress)
        repository.update_submission(number, turn)
    lines = metrics_text(repository, is_served=False).splitlines()
    assert [line for line in lines if line.startswith("# TYPE")] == [
        "# TYPE zenturio_service_up gauge",
        "# TYPE zenturio_submissions gauge",
        "# TYPE zenturio_slots_in_use gauge",
        "# TYPE zenturio_experiments_done_total counter",
        "# TYPE zenturio_slot_seconds_total counter",
        "# TYPE zenturio_experiments_left gauge",
    ]
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert values.pop("zenturio_service_up") == "0"
    states = {name: values.pop(name) for name in list(values) if "submissions" in name}
    assert {name: n for name, n in states.items() if n != "0"} == {
        'zenturio_submissions{state="waiting"}': "2",
        'zenturio_submissions{state="running"}': "2",
        'zenturio_submissions{state="done"}': "1",
        'zenturio_submissions{state="cancelled"}': "1",
    }
    assert [*values.items()] == [
        ('zenturio_slots_in_use{user="ada"}', "0"),
        ('zenturio_slots_in_use{user="eva"}', "2"),
        ('zenturio_slots_in_use{user="jan"}', "1"),
        ('zenturio_experiments_done_total{user="ada"}', "0"),
        ('zenturio_experiments_done_total{user="eva"}', "9"),
        ('zenturio_experiments_done_total{user="jan"}', "6"),
        ('zenturio_slot_seconds_total{user="ada"}', "0"),
        ('zenturio_slot_seconds_total{user="eva"}', "3.5"),
        ('zenturio_slot_seconds_total{user="jan"}', "12.25"),
        ('zenturio_experiments_left{user="ada"}', "0"),
        ('zenturio_experiments_left{user="eva"}', "7"),
        ('zenturio_experiments_left{user="jan"}', "22"),
    ]
