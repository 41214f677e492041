"""What Prometheus reads of a service."""

import re

from record.reference import ReferenceRepository
from zenturio.study.service.submission_queue import metrics_text

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
