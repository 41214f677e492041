"""What a worker of Dask reports is checked before the driver believes it."""

import pytest

from zenturio.execute.dask.worker_runtime import TaskReport, read_report

TICKETS = (1, 2, 3)
GOOD = TaskReport({1: b"x"}, (2,), (3,), worker="tcp://10.0.0.1:1")


class EvilTuple(tuple):
    __slots__ = ()

    def __len__(self):
        raise AssertionError("code of the worker was run")


class EvilNumber(int):
    def __hash__(self):
        raise AssertionError("code of the worker was run")


class EvilText(str):
    __slots__ = ()

    def __len__(self):
        raise AssertionError("code of the worker was run")


def plain(**changes):
    """GOOD as it travels, with changes by the names of fields."""
    names = ("done", "back", "running", "lacks", "worker")
    return tuple({**dict(zip(names, GOOD.plain(), strict=True)), **changes}.values())


def test_a_report_about_what_was_sent_is_believed():
    assert read_report(GOOD.plain(), TICKETS) == GOOD
    assert read_report(TaskReport().plain(), TICKETS) == TaskReport()
    assert read_report(TaskReport(missing_files=frozenset("ab")).plain(), ()) == TaskReport(
        missing_files=frozenset("ab")
    )


@pytest.mark.parametrize(
    "value",
    [
        None,
        "done",
        {"done": {}},
        GOOD,
        EvilTuple(GOOD.plain()),
        GOOD.plain()[:4],
        plain(done={1: "text"}),
        plain(done={1: bytearray(b"x")}),
        plain(done={4: b"nobody gave it"}),
        plain(done={True: b"x"}, returned=(), running=()),
        plain(done=[(1, b"x")]),
        plain(returned=(1,)),
        plain(returned=(2, 2)),
        plain(returned=[2]),
        plain(returned=(2.0,)),
        plain(running=("3",)),
        plain(running=(EvilNumber(3),)),
        plain(missing_files={"a"}),
        plain(missing_files=(7,)),
        plain(worker=None),
        plain(worker=EvilText("tcp://")),
        plain(worker="x" * 1001),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_such_report_is_refused_and_none_of_its_code_is_run(value):
    assert read_report(value, TICKETS) is None
