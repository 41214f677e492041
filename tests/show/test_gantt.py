"""Who ran what, and when: a Gantt chart of a study."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.conftest import zen
from zenturio.errors import NotFoundError
from zenturio.show.charts.chart_query import ChartQuery
from zenturio.show.charts.schedule_charts import _host_lanes
from zenturio.show.charts.study_charts import draw_chart
from zenturio.study.overview import opened_repository

PROGRAM = """\
n=1
# ZEN$ ASSIGN n = { 1:6 }
# ZEN$ RUN "sh waits.sh"
sleep 0.0$n
test $n != 4
"""


@pytest.fixture(scope="module")
def waits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("waits")
    (folder / "waits.sh").write_text(PROGRAM)
    zen("run", "waits.sh", "-j", 2, cwd=folder, code=3)
    return folder


def scene(folder, **options):
    with opened_repository(str(folder / ".zenturio" / "zenturio.db")) as repository:
        return draw_chart(repository, ChartQuery.of(studies="waits", kind="gantt", **options)).chart


def test_each_experiment_is_a_box_on_a_row_of_its_host(waits):
    found = scene(waits)
    assert len(found.rectangles) == 6
    assert len(found.y.categories) <= 2
    assert set(found.levels) == {"ok", "failed"}
    assert sum(found.levels[box.level] == "failed" for box in found.rectangles) == 1
    assert min(box.left for box in found.rectangles) == 0
    assert found.note.startswith("6 of 6 experiments; ")
    assert sum(box.tooltip.startswith("failed, exit 1, ") for box in found.rectangles) == 1


def test_a_parameter_may_be_the_colour(waits):
    found = scene(waits, colour="n", where="n < 3", title="two of them")
    assert (found.title, set(found.levels)) == ("two of them", {"1", "2"})
    assert found.note.startswith("2 of 2 experiments; ")


def test_what_never_ran_is_no_picture(waits):
    with pytest.raises(NotFoundError, match="no experiment of waits has run"):
        scene(waits, where="n > 99")


def test_it_is_drawn_from_the_command_line(waits):
    told = zen("plot", "waits", "--kind", "gantt", "-o", "ran.svg", cwd=waits)
    assert told.out.startswith("ran.svg: 6 of 6 experiments; ")
    assert "experiments by host" in (waits / "ran.svg").read_text()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["waits", "waits"], "one study"),
        (["waits", "--x", "n"], "a gantt chart has no x to choose"),
        (["waits", "-o", "-"], "cannot be drawn in a terminal"),
    ],
)
def test_what_it_cannot_show_is_refused(waits, options, said):
    assert said in zen("plot", *options, "--kind", "gantt", cwd=waits, code=2).err


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 20), st.integers(0, 9)), min_size=1
    )
)
def test_on_a_row_one_ends_before_the_next_begins_and_no_row_is_too_many(runs):
    runs = sorted(runs, key=lambda run: run[1])
    hosts = [host for host, _, _ in runs]
    starts = [float(start) for _, start, _ in runs]
    ends = [float(start + length) for _, start, length in runs]
    names, rows = _host_lanes(hosts, starts, ends)
    for i, row in enumerate(rows):
        assert names[row].partition("/")[0] == hosts[i]
        for j in range(i):
            assert rows[j] != row or ends[j] <= starts[i]
    for host in set(hosts):
        mine = [i for i, each in enumerate(hosts) if each == host]
        busiest = max(
            sum(starts[j] <= starts[i] < ends[j] or i == j for j in mine if j <= i) for i in mine
        )
        assert len({rows[i] for i in mine}) == busiest
