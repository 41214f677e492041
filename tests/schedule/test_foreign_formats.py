"""Workflows as other programs write them: DAX, and older and newer WfFormat."""

import json

import pytest

from zenturio.errors import InputError
from zenturio.schedule.formats.files import read_instance, read_workflow, write_workflow

DAX = """<?xml version="1.0" encoding="ISO-8859-1"?>
<!-- three jobs -->
<adag xmlns="http://pegasus.isi.edu/schema/DAX" name="small" version="2.1">
  <job id="ID1" namespace="m" name="project" runtime="13.5" numcores="2">
    <uses file="raw.fits" link="input" size="100"/>
    <uses file="a.fits" link="output" size="4000"/>
    <uses file="b.fits" link="output" size="50"/>
  </job>
  <job id="ID2" name="diff" runtime="2"><uses name="a.fits" link="input" size="4000"/></job>
  <job id="ID3" name="add" runtime="0.5">
    <argument>-i <file name="a.fits"/></argument>
    <uses file="b.fits" link="input" size="50"/>
    <uses file="a.fits" link="input" size="4000"/>
  </job>
  <child ref="ID2"><parent ref="ID1"/></child>
  <child ref="ID3"><parent ref="ID1"/><parent ref="ID2"/></child>
</adag>
"""


def dax(tmp_path, text, name="flow.dax"):
    (tmp_path / name).write_text(text)
    return read_workflow(tmp_path / name)


@pytest.mark.parametrize("name", ["flow.dax", "flow.xml", "flow"])
def test_a_dax_file_has_jobs_with_their_runtimes_and_the_bytes_between_them(tmp_path, name):
    flow = dax(tmp_path, DAX, name)
    assert flow.name == "small"
    assert [(task.name, task.program, task.work, task.cores) for task in flow.tasks] == [
        ("ID1", "project", 13.5, 2), ("ID2", "diff", 2.0, 1), ("ID3", "add", 0.5, 1),
    ]  # fmt: skip
    assert sorted(flow.edges) == [("ID1", "ID2", 4000.0), ("ID1", "ID3", 4050.0),
                                  ("ID2", "ID3", 0.0)]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('runtime="2"', "", "f.dax:9:1: job 'ID2' has no runtime"),
        ('runtime="2"', 'runtime="fast"', "f.dax:9:1: runtime 'fast' is not a number"),
        ('runtime="2"', 'runtime="-2"', "is not a number from 0 on"),
        ('numcores="2"', 'numcores="0"', "numcores '0'"),
        ('id="ID2"', 'id="ID1"', "f.dax:9:1: two jobs have the id 'ID1'"),
        ('<parent ref="ID2"/>', '<parent ref="ID9"/>', "f.dax:16:1: no job has the id 'ID9'"),
        ('<parent ref="ID2"/>', "<parent/>", "a parent has no ref"),
        ("</adag>", "", "not XML: no element found"),
        ("adag", "other", "the file is a 'other', not an 'adag'"),
        ("<!-- three jobs -->", '<!DOCTYPE a [<!ENTITY b "c">]>', "entities are not read"),
    ],
)
def test_what_is_wrong_in_a_dax_file_is_told_with_its_line(tmp_path, old, new, message):
    with pytest.raises(InputError) as failure:
        dax(tmp_path, DAX.replace(old, new), "f.dax")
    assert message in str(failure.value)


def test_a_dax_file_is_not_written(tmp_path):
    with pytest.raises(InputError, match="dax is read, not written"):
        write_workflow(dax(tmp_path, DAX), tmp_path / "other.dax")


OLD = {
    "name": "trace",
    "schemaVersion": "1.4",
    "workflow": {
        "makespanInSeconds": 30,
        "executedAt": "2020",
        "machines": [
            {"nodeName": "fast", "cpu": {"count": 4, "speed": 2000}, "memoryInBytes": 100},
            {"nodeName": "slow", "cpu": {"count": 2, "speed": 1000}},
        ],
        "tasks": [
            {"name": "split_1", "id": "1", "category": "split", "type": "compute",
             "runtimeInSeconds": 10, "machine": "slow", "cores": 1.5,
             "files": [{"name": "x", "sizeInBytes": 70, "link": "output"}]},
            {"name": "join_2", "id": "2", "type": "compute", "runtimeInSeconds": 20,
             "command": {"program": "join"}, "machine": "fast", "parents": ["split_1"],
             "files": [{"name": "x", "sizeInBytes": 70, "link": "input"},
                       {"name": "y", "sizeInBytes": 9, "link": "input"}]},
        ],
    },
}  # fmt: skip


def old_trace(tmp_path, change=lambda value: None):
    value = json.loads(json.dumps(OLD))
    change(value["workflow"])
    (tmp_path / "old.json").write_text(json.dumps(value))
    return read_instance(tmp_path / "old.json")


@pytest.mark.parametrize("parent", ["split_1", "1"])
def test_wfformat_1_4_has_tasks_files_and_machines(tmp_path, parent):
    read = old_trace(tmp_path, lambda flow: flow["tasks"][1].update(parents=[parent]))
    flow, platform = read.workflow, read.platform
    assert [(task.name, task.program, task.work, task.cores) for task in flow.tasks] == [
        ("split_1", "split", 5.0, 2), ("join_2", "join", 20.0, 1),
    ]  # fmt: skip
    assert list(flow.edges) == [("split_1", "join_2", 70.0)]
    assert flow.measured == 30
    assert [(m.name, m.speed, m.cores, m.memory) for m in platform.machines] == [
        ("fast", 1.0, 4, 100.0), ("slow", 0.5, 2, float("inf")),
    ]  # fmt: skip


def test_wfformat_1_4_written_as_1_5_is_the_same_workflow(tmp_path):
    read = old_trace(tmp_path)
    write_workflow(read.workflow, tmp_path / "new.json", read.platform, "wfformat")
    again = read_instance(tmp_path / "new.json")
    assert list(again.workflow.edges) == [("split_1", "join_2", 70.0)]
    assert again.workflow.work.tolist() == read.workflow.work.tolist()
    value = json.loads((tmp_path / "new.json").read_text())
    (tmp_path / "newer.json").write_text(json.dumps({**value, "schemaVersion": "1.6"}))
    newer = read_instance(tmp_path / "newer.json").workflow
    assert newer.work.tolist() == read.workflow.work.tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda flow: flow["tasks"][0].pop("runtimeInSeconds"), "has no runtimeInSeconds"),
        (lambda flow: flow["tasks"][1].update(parents=["splat_1"]), "no task has the name"),
        (lambda flow: flow["tasks"][1].update(parents=[7]), "no task has the name 7"),
        (lambda flow: flow["tasks"][1].update(name="split_1"), "two of tasks have name"),
        (lambda flow: flow.update(tasks=[]), "0 tasks"),
        (lambda flow: flow["tasks"][0].update(files=[3]), "a file without a name"),
        (lambda flow: flow["machines"][0].update(cpu=3), "cpu is an object"),
        (lambda flow: flow["machines"][0].pop("nodeName"), "no nodeName"),
    ],
)
def test_what_is_wrong_in_wfformat_1_4_is_told(tmp_path, change, message):
    with pytest.raises(InputError, match=message):
        old_trace(tmp_path, change)
