"""Workflows as other programs write them: DAX, WfFormat, Makeflow, Nextflow, Snakemake."""

import base64
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


MAKEFLOW = """# Variations of a picture, and all of them in one.
CONVERT="/usr/bin/convert"
export CONVERT
.MAKEFLOW CATEGORY merge
.RESOURCE CORES 1
.RESOURCE MEMORY 50
all.gif: in.jpg 90.jpg \\
    180.jpg
\t$CONVERT -delay 10 in.jpg 90.jpg # the result
.MAKEFLOW CATEGORY analysis
CORES=2
.SIZE 90.jpg 7
90.jpg: in.jpg
\t$CONVERT -swirl 90 in.jpg 90.jpg

180.jpg : in.jpg
\t@CORES=4
\t${CONVERT} -swirl 180 in.jpg 180.jpg

.MAKEFLOW CATEGORY default
NAME=in
$(NAME).jpg->remote.jpg:
\tLOCAL curl -o remote.jpg $URL
"""
MAKEFLOW_LOG = """# FILE 1528741023729400 flow.makeflow.batchlog 1 0
# STARTED 1528741023731120
1528741023744114 3 1 29766 3 1 0 0 0 4
1528741023750000 3 3 29766 3 0 0 1 0 4
1528741023800000 3 1 29767 3 1 0 0 0 4
# FILE 1528741023835087 in.jpg 2 51274
1528741023900000 3 2 29767 3 0 1 0 0 4
1528741023835300 1 1 29770 2 1 1 0 0 4
1528741024335300 1 2 29770 2 0 2 0 0 4
# COMPLETED 1528741027171961
"""


def makeflow(tmp_path, text=MAKEFLOW, name="flow.makeflow"):
    (tmp_path / name).write_text(text)
    return read_workflow(tmp_path / name)


def test_a_makeflow_has_a_task_for_each_rule_with_what_it_needs(tmp_path):
    flow = makeflow(tmp_path)
    assert [(t.name, t.program, t.cores, t.memory, t.work) for t in flow.tasks] == [
        ("all.gif", "merge", 1, 50e6, 0), ("90.jpg", "analysis", 2, 0, 0),
        ("180.jpg", "analysis", 4, 0, 0), ("in.jpg", "curl", 1, 0, 0),
    ]  # fmt: skip
    assert sorted(flow.edges) == [
        ("180.jpg", "all.gif", 0), ("90.jpg", "all.gif", 7), ("in.jpg", "180.jpg", 0),
        ("in.jpg", "90.jpg", 0), ("in.jpg", "all.gif", 0),
    ]  # fmt: skip


def test_the_log_of_a_makeflow_tells_times_of_the_last_runs_and_sizes(tmp_path):
    (tmp_path / "Makeflow.makeflowlog").write_text(MAKEFLOW_LOG)
    flow = makeflow(tmp_path, name="Makeflow")
    assert flow.work.tolist() == [0, 0.5, 0, 0.1]
    assert ("in.jpg", "90.jpg", 51274.0) in list(flow.edges)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("90.jpg: in.jpg", "90.jpg in.jpg", "flow.makeflow:13:1: '90.jpg in.jpg' is neither"),
        ("180.jpg :", "90.jpg :", "flow.makeflow:16:1: two rules make '90.jpg'"),
        ("90.jpg: in.jpg", ": in.jpg", "a rule without a target"),
        ("\t$CONVERT -swirl 90 in.jpg 90.jpg\n", "", "rule of '90.jpg' has no command"),
        ("90.jpg\n\n180", "90.jpg\n\tls\n180", "a rule has one command"),
        ("@CORES=4", "@CORES=many", "CORES 'many' is not a number"),
        ("@CORES=4", "@CORES=1e20", "CORES '1e20' is not a number from 0 to 1e+07"),
        ('"/usr/bin', '"/usr', None),
        ('convert"', "convert", "flow.makeflow:2:1: no closing quotation"),
        (MAKEFLOW, "A=1\n", "no rules"),
        ("NAME=in", "NAME=" + "$CONVERT" * 99999, "variables make this line longer"),
    ],
)
def test_what_is_wrong_in_a_makeflow_is_told_with_its_line(tmp_path, old, new, message):
    if message is None:
        assert len(makeflow(tmp_path, MAKEFLOW.replace(old, new))) == 4
        return
    with pytest.raises(InputError) as failure:
        makeflow(tmp_path, MAKEFLOW.replace(old, new))
    assert message in str(failure.value)


TRACE = """task_id\thash\tnative_id\tname\tstatus\texit\tsubmit\tduration\trealtime\t%cpu\tpeak_rss
1\t0b/be0d1c\t901\tINDEX (gut)\tFAILED\t1\t2026-01-01 10:00:00.000\t2s\t1s\t99.0%\t6.3 MB
2\t0b/be0d1d\t902\tINDEX (gut)\tCOMPLETED\t0\t2026-01-01 10:00:00.000\t2s\t1m 1.5s\t99.0%\t6.3 MB
3\tec/3100e7\t903\tINDEX (liver)\tCACHED\t0\t2026-01-01 10:00:00.000\t601ms\t325ms\t9%\t0
4\t7d/eb4d44\t904\tRNA:MAP (gut)\tCOMPLETED\t0\t2026-01-01 10:00:00.000\t3s\t2h 3s\t9%\t-
5\t94/dfdfb6\t905\tRNA:MAP (liver)\tCOMPLETED\t0\t2026-01-01 10:00:00.000\t3s\t-\t9%\t1 GB
6\t8f/d5a26b\t906\tRNA:REPORT\tCOMPLETED\t0\t2026-01-01 10:00:00.000\t3s\t4ms\t9%\t1 KB
"""
DAG = """digraph "dag" {
rankdir=TB;
v0 [shape=point,label="",fixedsize=true,width=0.1,xlabel="Channel.fromPath"];
v1 [label="INDEX"];
v0 -> v1 [label="files"];
v2 [label="MAP"];
v1 -> v2 [label="indices"];
v3 [shape=circle,label="",fixedsize=true,width=0.1,xlabel="collect"];
v2 -> v3;
v4 [label="REPORT"];
v3 -> v4;
v1 -> v4;
}
"""


def trace(tmp_path, text=TRACE):
    (tmp_path / "trace.txt").write_text(text)
    return read_workflow(tmp_path / "trace.txt")


def test_a_trace_of_nextflow_has_the_tasks_that_ended_well_and_the_graph_of_their_processes(
    tmp_path,
):
    (tmp_path / "dag.dot").write_text(DAG)
    flow = trace(tmp_path)
    assert [(t.name, t.program, t.work, t.memory) for t in flow.tasks] == [
        ("INDEX (gut)", "INDEX", 61.5, 6.3 * 2**20), ("INDEX (liver)", "INDEX", 0.325, 0),
        ("RNA:MAP (gut)", "RNA:MAP", 7203, 0), ("RNA:MAP (liver)", "RNA:MAP", 3, 2**30),
        ("RNA:REPORT", "RNA:REPORT", 0.004, 1024),
    ]  # fmt: skip
    assert {(a, b) for a, b, _ in flow.edges} == {
        ("INDEX (gut)", "RNA:MAP (gut)"), ("INDEX (liver)", "RNA:MAP (liver)"),
        ("RNA:MAP (gut)", "RNA:REPORT"), ("RNA:MAP (liver)", "RNA:REPORT"),
        ("INDEX (gut)", "RNA:REPORT"), ("INDEX (liver)", "RNA:REPORT"),
    }  # fmt: skip


def test_the_links_in_the_work_folder_of_nextflow_say_who_reads_what_of_whom(tmp_path):
    folders = [tmp_path / "work" / f"{h}aaaa" for h in
               ("0b/be0d1d", "ec/3100e7", "7d/eb4d44", "94/dfdfb6", "8f/d5a26b")]  # fmt: skip
    for folder in folders:
        folder.mkdir(parents=True)
    (folders[0] / "gut.idx").write_bytes(b"12345")
    (folders[0] / "own").symlink_to(folders[0] / "gut.idx")
    (tmp_path / "input.fa").write_text("x")
    for name, target in (("gut.idx", folders[0] / "gut.idx"), ("input.fa", tmp_path / "input.fa"),
                         ("gone", folders[3] / "removed")):  # fmt: skip
        (folders[2] / name).symlink_to(target)
    (tmp_path / "dag.dot").write_text(DAG)
    assert sorted(trace(tmp_path).edges) == [
        ("INDEX (gut)", "RNA:MAP (gut)", 5.0), ("RNA:MAP (liver)", "RNA:MAP (gut)", 0.0),
    ]  # fmt: skip


def test_a_raw_trace_has_milliseconds_and_bytes(tmp_path):
    flow = trace(tmp_path, "hash\tname\tstatus\trealtime\tpeak_rss\tcpus\n"
                 "0b/be0d1c\tA (1)\tCOMPLETED\t1500\t2048\t3\n"
                 "0b/be0d1d\tA (1)\tCOMPLETED\t1\t0\t1\n")  # fmt: skip
    assert [(t.name, t.work, t.memory, t.cores) for t in flow.tasks] == [
        ("A (1)", 1.5, 2048, 3), ("A (1) 0b/be0d1d", 0.001, 0, 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("", "", "trace.txt:1:1: the trace does not say which task waits for which"),
        ("325ms", "soon", "trace.txt:4:1: 'soon' is not a duration"),
        ("6.3 MB", "6.3 apples", "'6.3 apples' is not a size"),
        ("\t9%\t-", "\t-", "10 cells, but 11 columns"),
        ("3s\t-\t", "-\t-\t", "has neither realtime nor duration"),
        ("CACHED", "FAILED", "the trace does not say"),
        ("COMPLETED", "ABORTED", None),
    ],
)
def test_what_is_wrong_in_a_trace_is_told_with_its_line(tmp_path, old, new, message):
    if message is None:
        assert len(trace(tmp_path, TRACE.replace(old, new))) == 1
        return
    with pytest.raises(InputError) as failure:
        trace(tmp_path, TRACE.replace(old, new))
    assert message in str(failure.value)


def snakemake(folder, name, parts=1, **record):
    """Write the record of a file as Snakemake 9 does."""
    text = base64.urlsafe_b64encode(name.encode()).decode()
    cut = len(text) // parts
    pieces = [f"@{text[:cut]}", text[cut:]] if parts > 1 else [text]
    path = folder.joinpath(".snakemake", "metadata", *pieces)
    path.parent.mkdir(parents=True, exist_ok=True)
    usual = {"log": [], "shellcmd": "", "params": [], "record_format_version": 6,
             "incomplete": False, "conda_env": None}  # fmt: skip
    path.write_text(json.dumps({**usual, **record}))


def test_the_metadata_of_snakemake_is_a_workflow_of_jobs_with_their_times_and_files(tmp_path):
    sort = {"rule": "sort", "input": ["data/a.txt"], "endtime": 20.25}
    snakemake(tmp_path, "out/a.sorted", starttime=10.0, **sort)
    snakemake(tmp_path, "out/a.count", starttime=10.125, **sort)
    ended = {"rule": "join", "starttime": 21.0, "endtime": 23.0}
    read = ["out/a.sorted", "out/a.count", "data/a.txt", "../b"]
    snakemake(tmp_path, "out/report.txt", parts=2, input=read, **ended)
    snakemake(tmp_path, "out/half", input=read, rule="half", incomplete=True, starttime=1.0)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.sorted").write_bytes(b"123")
    (tmp_path / "out" / "a.count").write_bytes(b"4")
    for folder in (tmp_path, tmp_path / ".snakemake"):
        flow = read_workflow(folder)
        assert [(t.name, t.program, t.work) for t in flow.tasks] == [
            ("sort out/a.count", "sort", 10.25), ("join out/report.txt", "join", 2.0),
        ]  # fmt: skip
        assert list(flow.edges) == [("sort out/a.count", "join out/report.txt", 4.0)]


def test_a_folder_without_metadata_of_snakemake_is_not_a_workflow(tmp_path):
    with pytest.raises(InputError, match="Is a directory"):
        read_workflow(tmp_path)
    with pytest.raises(InputError, match="recorded no complete job"):
        read_workflow(tmp_path / ".snakemake")
    snakemake(tmp_path, "a", rule="r", input=[3], starttime=1, endtime=2)
    with pytest.raises(InputError, match="YQ=="):
        read_workflow(tmp_path)
    (tmp_path / ".snakemake" / "metadata" / "YQ==").write_text("[]")
    with pytest.raises(InputError, match="names no rule"):
        read_workflow(tmp_path)
