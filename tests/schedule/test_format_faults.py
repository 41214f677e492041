"""Bad files: told where and what, and nothing huge happens."""

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.schedule.test_formats import DATA
from zenturio.errors import InputError, NotFoundError
from zenturio.schedule.formats.files import read_instance, read_platform, read_workflow
from zenturio.schedule.formats.swf import read_swf
from zenturio.schedule.generators.generator import instance_of

JSON = {
    "no JSON": ('{"tasks": [}', "f.json:1:12: not JSON: Expecting value"),
    "a file that ends": ('{"tasks": [{"name": "a"}', "f.json:1:25: not JSON"),
    "an empty file": ("", "f.json:1:1: not JSON: Expecting value"),
    "a list": ("[1]", "f.json:1:1: a workflow is an object"),
    "an empty list of tasks": ('{"tasks": []}', "f.json:1:11: 0 tasks: from 1 to 10,000,000"),
    "no tasks": ('{"edges": []}', "f.json:1:1: no tasks"),
    "an unknown key": ('{"tasks": [],\n "edgse": []}', "f.json:2:11: unknown key 'edgse'"),
    "one in a task": (
        '{"tasks": [{"name": "a"},\n {"name": "b", "wrok": 3}]}',
        "f.json:2:24: unknown key 'wrok'",
    ),
    "an object of tasks": ('{"tasks": 3}', "f.json:1:11: tasks is 3; it has to be a list"),
    "a task that is none": ('{"tasks": [1]}', "f.json:1:12: a task is an object"),
    "a name that is none": ('{"tasks": [{"name": 1}]}', "f.json:1:21: name is 1; it has to be a"),
    "no name": ('{"tasks": [{"work": 1}]}', "f.json:1:12: name is null; it has to be a text"),
    "two of a name": (
        '{"tasks": [{"name": "a"},\n{"name": "a"}]}',
        "f.json:2:10: two tasks are named 'a'",
    ),
    "a key twice": (
        '{"tasks": [{"name": "a", "work": 1,\n "work": 2}]}',
        "f.json:2:2: the key 'work' occurs twice",
    ),
    "a key twice, written otherwise": (
        '{"name": "\\"{", "tasks": [], "t\\u0061sks": []}',
        "f.json:1:30: the key 'tasks' occurs twice",
    ),
    "half a letter": (
        '{"tasks": [{"name": "\\\\ud800 \\ud83d\\ude00"},\n {"name": "a\\ud800"}]}',
        "f.json:2:13: \\ud800 is a lone surrogate",
    ),
    "NaN": ('{"tasks": [{"name": "a", "work": NaN}]}', "f.json:1:34: NaN is not a number in JSON"),
    "infinity": (
        '{"tasks": [{"name": "a", "work": 1e999}]}',
        "f.json:1:34: work is inf; it has to be a number from 0 on",
    ),
    "work below 0": ('{"tasks": [{"name": "a", "work": -1}]}', "f.json:1:34: work is -1; it has"),
    "work that is a word": (
        '{"tasks": [{"name": "a", "work": "much"}]}',
        "f.json:1:34: work is 'much'",
    ),
    "true as a number": ('{"tasks": [{"name": "a", "work": true}]}', "f.json:1:34: work is True"),
    "an edge to nobody": (
        '{"tasks": [{"name": "lapw0"}, {"name": "b"}],\n "edges": [["b", "lapw1"]]}',
        "f.json:2:18: no task is named 'lapw1'",
    ),
    "an edge of one end": (
        '{"tasks": [{"name": "a"}], "edges": [["a"]]}',
        "f.json:1:38: an edge is [from, to]",
    ),
    "an end that is a list": (
        '{"tasks": [{"name": "a"}], "edges": [[["a"], "a"]]}',
        "f.json:1:39: edges is a list; it has to be a text",
    ),
    "an edge to itself": (
        '{"tasks": [{"name": "a"}], "edges": [["a", "a"]]}',
        "f.json:1:38: task 'a' waits for itself",
    ),
    "bytes below 0": (
        '{"tasks": [{"name": "a"}, {"name": "b"}], "edges": [["a", "b", -5]]}',
        "f.json:1:64: edges is -5",
    ),
    "a kind that is none": (
        '{"tasks": [{"name": "a", "kind": "jbo"}]}',
        "f.json:1:34: kind is 'jbo'",
    ),
    "half a core": (
        '{"tasks": [{"name": "a", "cores": 0.5}]}',
        "f.json:1:35: cores is 0.5; it has to be a whole number",
    ),
    "a curve that is none": (
        '{"tasks": [{"name": "a", "curve": {"nodes": [2, 1], "seconds": [1, 2]}}]}',
        "f.json:1:35: a scaling curve",
    ),
    "columns of different lengths": (
        '{"tasks": {"name": ["a", "b"], "work": [1]}}',
        "f.json:1:40: work has 1 values for 2 tasks",
    ),
    "a program that is not there": (
        '{"tasks": {"name": ["a"], "work": [1], "program": [7], "programs": ["x"]}}',
        "f.json:1:52: program is 7",
    ),
    "an end beyond the tasks": (
        '{"tasks": {"name": ["a"], "work": [1]}, "edges": {"from": [0], "to": [1]}}',
        "f.json:1:71: to is 1; it has to be a whole number from 0 to 0",
    ),
    "too many subtasks": (
        '{"tasks": [{"name": "a", "sweep": 99999999999}]}',
        "f.json:1:35: sweep is 99999999999; it has to be a whole number from 1 to 10000000",
    ),
    "too many edges between sweeps": (
        (
            '{"tasks": [{"name": "a", "sweep": 9000}, {"name": "b", "sweep": 9000}],'
            '\n"edges": [["a", "b"]]}'
        ),
        "f.json:2:11: more than 50,000,000 edges",
    ),
    "sweeps that do not match": (
        (
            '{"tasks": [{"name": "a", "sweep": 2}, {"name": "b", "sweep": 3}],'
            '\n"edges": [{"from": "a", "to": "b", "join": "each"}]}'
        ),
        "f.json:2:11: 2 subtasks cannot be joined each with one of 3",
    ),
    "machines that share a name": (
        '{"tasks": [{"name": "a"}], "platform": {"machines": [{"name": "m"}, {"name": "m"}]}}',
        "f.json:1:78: two machines are named 'm'",
    ),
    "an old WfFormat": (
        '{"schemaVersion": "1.3", "workflow": {"tasks": []}}',
        "f.json:1:19: WfFormat 1.3",
    ),
    "a WfFormat of nothing": ('{"workflow": {}}', "f.json:1:14: WfFormat 1.5 needs an object"),
    "a parent that is not there": (
        (
            '{"workflow": {"specification": {"tasks": [{"id": "a", "name": "a", "parents": ["b"]}]},'
            '\n"execution": {"tasks": [{"id": "a", "runtimeInSeconds": 1}]}}}'
        ),
        "f.json:1:79: no task has id 'b'",
    ),
    "no runtime": (
        '{"workflow": {"specification": {"tasks": [{"id": "a"}]},\n"execution": {}}}',
        "f.json:2:14: task 'a' has no runtimeInSeconds",
    ),
}

STG = {
    "an empty one": ("", "f.stg:1:1: an STG file begins with the number of its tasks"),
    "a word": ("many\n", "f.stg:1:1: an STG file begins with"),
    "too many tasks": ("99999999\n", "f.stg:1:1: 99999999 tasks: from 1 to 10,000,000"),
    "a number beyond all": ("9" * 400 + "\n", "f.stg:1:1: an STG file begins with"),
    "one that ends": ("3\n0 0 0\n1 1 1 0\n", "3 and two dummies: the file ends too soon"),
    "a wrong count": ("1\n0 0 0\n1 1 3 0\n", "f.stg:3:1: task 1 has 1 predecessors, and says 3"),
    "a wrong number": ("1\n5 0 0\n", "f.stg:2:1: expected task 0, not 5"),
    "a time that is none": ("1\n0 x 0\n", "f.stg:2:1: 'x' is not a time"),
    "one that waits for nobody": ("1\n0 0 0\n1 1 1 9\n", "f.stg:3:1: task 1 cannot wait for 9"),
    "a negative time": ("1\n0 -4 0\n", "f.stg:2:1: '-4' is not a time"),
    "NaN": ("1\n0 0 0\n1 nan 1 0\n", "f.stg:3:1: 'nan' is not a time"),
    "a time without end": ("1\n0 0 0\n1 1e999 1 0\n", "f.stg:3:1: '1e999' is not a time"),
}

DOT = {
    "an undirected graph": ("graph g {}", "f.dot:1:1: a graph without directions"),
    "no graph": ("digraf g {}", "f.dot:1:1: expected 'digraph', not 'digraf'"),
    "an open brace": ("digraph {\n a", "f.dot:2:3: expected '}', not the end of the file"),
    "HTML without an end": ("digraph { a [label=<b>x] <b }", "f.dot:1:26: '<' is never closed"),
    "a second graph": ("digraph { a }\ndigraph { b }", "f.dot:2:1: a file has one graph"),
    "half a core": ("digraph { a\n [cores=2.5] }", "f.dot:1:11: task 'a': cores is 2.5; it has"),
    "many cores": ("digraph { a [cores=1e30] }", "f.dot:1:11: task 'a': cores is 1e+30; it has"),
    "a unit that is none": (
        'digraph { a [memory="4 GX"] }',
        "memory is '4 GX', which is not a number",
    ),
    "a word for a number": ("digraph {\n a [work=much]; }", "f.dot:2:2: task 'a': work is 'much'"),
    "NaN": ("digraph {\n a [work=nan]; }", "f.dot:2:2: task 'a': work is nan"),
    "a loop of one": ("digraph {\n a -> a }", "f.dot:2:2: task 'a' waits for itself"),
    "an edge without directions": ("digraph { a -- b }", "f.dot:1:13: expected a name, not '--'"),
    "nothing": ("digraph {}", "a graph without nodes is not a workflow"),
    "an empty group that is set": ("digraph { {} = 3 }", "f.dot:1:14: a group cannot be set"),
}

TOML = {
    "no TOML": ("name = \n", "f.toml:1:8: not TOML: Invalid value"),
    "no machine": ("name = 'x'\n", "f.toml:1:1: platform 'x' has no machine"),
    "a key that is none": (
        "[[machine]]\nname = 'a'\n[[machine]]\nname = 'b'\nsped = 3\n",
        "f.toml:5:1: unknown key 'sped'",
    ),
    "no name": ("[[machine]]\nspeed = 1\n", "f.toml:1:3: a machine without a name"),
    "a speed of 0": ("[[machine]]\nname = 'a'\nspeed = 0\n", "f.toml:3:1: speed is 0"),
    "a speed that is a date": (
        "[[machine]]\nname = 'a'\nspeed = 2020-01-01\n",
        "f.toml:3:1: speed is 2020-01-01; it has to be a number",
    ),
    "a speed that is NaN": ("[[machine]]\nname='a'\nspeed = nan\n", "f.toml:3:1: speed is nan"),
    "memory in words": (
        "[[machine]]\nname = 'a'\nmemory = '4 GigaB'\n",
        "f.toml:3:1: memory is '4 GigaB'",
    ),
    "too many machines": (
        "[[machine]]\nname = 'a'\ncount = 99999999\n",
        "f.toml:3:1: count is 99999999",
    ),
    "many times many": (
        "[[machine]]\nname='a'\ncount = 90000\n[[machine]]\nname='b'\ncount = 90000\n",
        "f.toml:6:1: more than 100,000 machines",
    ),
    "a site that is not there": (
        "[[machine]]\nname='a'\nsite='wien'\n[[link]]\nbetween=['wien', 'linz']\n",
        "f.toml:5:1: no machine is at site 'linz'",
    ),
    "two machines of a name": (
        "[[machine]]\nname='a'\ncount=2\n[[machine]]\nname='a2'\n",
        "f.toml:5:1: two machines are named 'a2'",
    ),
    "a log that is not there": (
        "[[machine]]\nname='a'\nload='no.swf'\n",
        "f.toml:3:1: ",
    ),
    "a link between three": (
        "[[machine]]\nname='a'\n[[link]]\nbetween=['a','b','c']\n",
        "f.toml:4:1: between names two sites",
    ),
    "a load above 1": ("[[machine]]\nname='a'\nload=[[0, 2]]\n", "f.toml:3:11: share is 2"),
    "a load that turns back": (
        "[[machine]]\nname='a'\nload=[[5, 1], [3, 1]]\n",
        "f.toml:3:16: time 3 is not after",
    ),
}


def told(read, path, text):
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read(str(path))
    return str(caught.value)


@pytest.mark.parametrize("case", [*JSON.values(), *STG.values(), *DOT.values()])
def test_a_bad_workflow_is_told_with_its_place(tmp_path, case):
    text, message = case
    ending = re.search(r"f\.(\w+):", message)
    name = f"f.{ending[1]}" if ending else ("f.dot" if "digraph" in text else "f.stg")
    said = told(read_workflow, tmp_path / name, text)
    assert message in said, said
    assert str(tmp_path) in said


@pytest.mark.parametrize("case", TOML.values(), ids=TOML.keys())
def test_a_bad_platform_is_told_with_its_place(tmp_path, case):
    text, message = case
    assert message in told(read_platform, tmp_path / "f.toml", text)


def test_a_name_that_is_nearly_right_is_guessed(tmp_path):
    assert "did you mean 'edges'?" in told(
        read_workflow, tmp_path / "f.json", JSON["an unknown key"][0]
    )
    assert "did you mean 'lapw0'?" in told(
        read_workflow, tmp_path / "f.json", JSON["an edge to nobody"][0]
    )
    assert "did you mean 'speed'?" in told(
        read_platform, tmp_path / "f.toml", TOML["a key that is none"][0]
    )


@pytest.mark.parametrize(
    "text", ["identical:0", "identical:", "identical:x", "identical:9999999999"]
)
def test_identical_machines_are_at_least_one_and_not_too_many(text):
    with pytest.raises(InputError, match="N from 1 to"):
        read_platform(text)


def test_a_file_that_is_not_there_is_told(tmp_path):
    for read in (read_workflow, read_platform, read_swf):
        with pytest.raises(InputError, match="cannot be read: No such file"):
            read(str(tmp_path / "f.toml"))
    with pytest.raises(InputError, match="no platform 'gird'"):
        read_platform("gird")
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        read_workflow(tmp_path)


@pytest.mark.parametrize("text", ["x" * 5000, "a\0b", "x" * 5000 + ".toml", "a\0.json"])
def test_what_cannot_be_a_path_is_told_as_one_that_is_not_there(text):
    for read in (read_platform, instance_of, read_workflow):
        with pytest.raises((InputError, NotFoundError)):
            read(text)


def test_binary_is_no_workflow(tmp_path):
    (tmp_path / "f.json").write_bytes(b"{\n \xff\xfe")
    with pytest.raises(InputError, match=r"f\.json is not a text in UTF-8"):
        read_workflow(tmp_path / "f.json")


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"tasks": ' + "[" * 100_000,
        '{"tasks": [{"name": "a", "work": ' + "9" * 1_000_000 + "}]}",
        "digraph { " + "{" * 100_000,
        '{"tasks": [{"name": "a", "work": "' + "(" * 100_000 + '"}]}',
    ],
)
def test_depth_and_length_are_refused(tmp_path, text):
    name = "f.dot" if text.startswith("digraph") else "f.json"
    assert len(told(read_workflow, tmp_path / name, text)) < 2000


def test_too_many_lists_are_refused_before_they_are_made(tmp_path, monkeypatch):
    monkeypatch.setattr("zenturio.settings.document.MAX_PARTS", 1000)
    assert "more than 1,000 lists and objects" in told(
        read_workflow, tmp_path / "f.json", '{"tasks": [' + "{}," * 2000 + "{}]}"
    )


def test_too_large_a_file_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr("zenturio.settings.document.MAX_BYTES", 100)
    assert "more than 100 are not read" in told(read_workflow, tmp_path / "f.json", "x" * 200)


SOURCES = [
    (DATA / "nextflow.json").read_text(),
    (DATA / "padded.stg").read_text(),
    (
        '{"name": "x", "tasks": [{"name": "a", "sweep": 2, "work": [1, 2]}, {"name": "b"}],'
        ' "edges": [["a", "b", 5]], "platform": {"machines": [{"name": "m", "load": [[0, 1]]}]}}'
    ),
    'digraph g { a -> {b c} [bytes=5]; subgraph s { d [work=3, tag="x"]; } }',
    "[[machine]]\nname = 'a'\ncount = 3\nload = [[0, 0.5]]\n[[link]]\nbetween=['']\nlatency='1ms'\n",
    "1 0 0 100 4 -1 -1 4 200 -1 1 1 1 1 1 -1 -1 -1\n",
]


@settings(
    deadline=None,
    max_examples=settings.default.max_examples * 300 // 100,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.sampled_from(SOURCES),
    st.lists(
        st.tuples(
            st.floats(0, 1),
            st.integers(0, 9),
            st.sampled_from(
                [
                    "",
                    "{",
                    "]",
                    '"',
                    "-1",
                    "1e400",
                    "NaN",
                    "null",
                    ",",
                    "x",
                    "\n",
                    "0",
                    "[[",
                    "é",
                    "{}",
                ]
            ),
        ),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from(["json", "stg", "dot", "toml", "swf"]),
)
def test_whatever_is_in_a_file_only_input_errors_come_out(tmp_path, source, edits, ending):
    for where, length, new in edits:
        at = round(where * len(source))
        source = source[:at] + new + source[at + length :]
    path = tmp_path / f"f.{ending}"
    path.write_text(source)
    for read in (read_instance, read_platform, read_swf):
        try:
            found = read(str(path))
        except InputError as error:
            found = error
        assert found is not None
