"""What a worker of Dask reports is checked before the driver believes it."""

from dataclasses import dataclass, replace

import pytest

from zenturio.execute.dask.station import Report, valid_report

TICKETS = (1, 2, 3)
GOOD = Report({1: b"x"}, (2,), (3,), worker="tcp://10.0.0.1:1")


@dataclass(frozen=True)
class Evil(Report):
    def __eq__(self, other):
        raise AssertionError("code of the worker was run")

    __hash__ = None


class EvilNumber(int):
    def __hash__(self):
        raise AssertionError("code of the worker was run")


class EvilText(str):
    __slots__ = ()

    def __len__(self):
        raise AssertionError("code of the worker was run")


def test_a_report_about_what_was_sent_is_believed():
    assert valid_report(GOOD, TICKETS) is GOOD
    assert valid_report(Report(), TICKETS) == Report()


@pytest.mark.parametrize(
    "value",
    [
        None,
        "done",
        {"done": {}},
        Evil(),
        replace(GOOD, done={1: "text"}),
        replace(GOOD, done={1: bytearray(b"x")}),
        replace(GOOD, done={4: b"nobody gave it"}),
        replace(GOOD, done={True: b"x"}, back=(), running=()),
        replace(GOOD, done=[(1, b"x")]),
        replace(GOOD, back=(1,)),
        replace(GOOD, back=(2, 2)),
        replace(GOOD, back=[2]),
        replace(GOOD, back=(2.0,)),
        replace(GOOD, running=("3",)),
        replace(GOOD, running=(EvilNumber(3),)),
        replace(GOOD, lacks={"a"}),
        replace(GOOD, lacks=frozenset({7})),
        replace(GOOD, worker=None),
        replace(GOOD, worker=EvilText("tcp://")),
        replace(GOOD, worker="x" * 1001),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_such_report_is_refused_and_none_of_its_code_is_run(value):
    assert valid_report(value, TICKETS) is None
