"""Workflows on the command line."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import zen

DATA = Path(__file__).parents[1] / "schedule" / "data"
TRACE = DATA / "pegasus.json"


def test_a_trace_is_shown_with_its_programs(tmp_path):
    said = zen("workflow", "show", TRACE, cwd=tmp_path).out
    assert "22 tasks, 30 edges" in said
    assert "index-build" in said
    assert "58 min 8 s from first to last" in said


def test_the_facts_of_a_generator_are_json(tmp_path):
    facts = zen(
        "workflow", "show", "wien2k", "kpoints=7", "loop=true", "--json", cwd=tmp_path
    ).facts
    assert (facts["tasks"], facts["looped"], facts["levels"]) == (19, True, None)
    assert facts["platform"]["machines"] == 314
    assert {each["name"]: each["tasks"] for each in facts["programs"]}["lapw1"] == 7


def test_what_is_generated_is_the_same_for_the_same_seed(tmp_path):
    for name in ("one.json", "two.json"):
        command = ("workflow", "generate", "sweep", "total=40", "--seed", 3, "-o", name)
        assert f"wrote {name}: 40 tasks" in zen(*command, cwd=tmp_path).out
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    assert json.loads((tmp_path / "one.json").read_text())["platform"]["machines"]


def test_what_another_format_cannot_say_is_told(tmp_path):
    told = zen("workflow", "convert", TRACE, "out.stg", cwd=tmp_path)
    assert told.out == "wrote out.stg: 22 tasks, 30 edges\n"
    assert "warning: not written: the bytes along 30 of 30 edges" in told.err
    facts = zen("workflow", "convert", TRACE, "out.dot", "--json", cwd=tmp_path).facts
    assert facts["lost"][0].startswith("notes: ")
    assert zen("workflow", "show", "out.dot", "--json", cwd=tmp_path).facts["edges"] == 30


def test_machines_are_written_alone_or_with_the_workflow(tmp_path):
    zen("workflow", "generate", "topcuoglu", "-o", "grid.toml", cwd=tmp_path)
    assert (tmp_path / "grid.toml").read_text().count("[[machine]]") == 3
    zen("workflow", "convert", TRACE, "own.json", "--on", "grid.toml", cwd=tmp_path)
    facts = zen("workflow", "show", "own.json", "--json", cwd=tmp_path).facts
    assert facts["platform"]["name"] == "topcuoglu"
    told = zen("workflow", "convert", DATA / "padded.stg", "no.toml", cwd=tmp_path, code=2)
    assert "has no machines of its own" in told.err


def test_generators_are_listed_and_each_with_its_settings(tmp_path):
    said = zen("workflow", "generators", cwd=tmp_path).out
    assert all(name in said for name in ("wien2k", "kwave-tree", "recipe", "topcuoglu", "ptg"))
    assert "kpoints" in zen("workflow", "generators", "wien2k", cwd=tmp_path).out
    facts = zen("workflow", "generators", "sweep", "--json", cwd=tmp_path).facts
    assert {each["name"] for each in facts[0]["settings"]} > {"pst", "rss", "rrt", "rsr", "adps"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("show", "wien2x"), "did you mean 'wien2k'?"),
        (("show", "no.json"), "no.json cannot be read: No such file"),
        (("generate", "wien2k", "kpints=3", "-o", "x.json"), "did you mean 'kpoints'?"),
        (("generate", "wien2k", "-o", "x.yml"), "no format is named"),
        (("generate", "wien2k", "-o", "x.xml"), "dax is read, not written"),
        (("convert", TRACE, "x.json", "--on", "identical:0"), "N from 1 to"),
        (("generators", "wien"), "did you mean 'wien2k'?"),
    ],
)
def test_mistakes_are_told_in_a_line_or_two(tmp_path, arguments, message):
    told = zen("workflow", *arguments, cwd=tmp_path, code=2)
    assert message in told.err
    assert "Traceback" not in told.err
    assert not list(tmp_path.iterdir())


def test_notes_may_hold_anything(tmp_path):
    text = '{"tasks": [{"name": "a", "work": 1}], "notes": {"makespan": "soon"}}'
    (tmp_path / "f.json").write_text(text)
    assert "measured" not in zen("workflow", "show", "f.json", cwd=tmp_path).out
    zen("workflow", "convert", "f.json", "g.json", "--format", "wfformat", cwd=tmp_path)
    written = json.loads((tmp_path / "g.json").read_text())
    assert written["workflow"]["execution"]["makespanInSeconds"] == 0


def test_workflows_go_through_pipes(tmp_path):
    made = zen("workflow", "generate", "wien2k", "kpoints=2", "-o", "-", cwd=tmp_path)
    assert json.loads(made.out)["name"] == "wien2k-2"
    assert made.err == "wrote -: 9 tasks, 13 edges\n"
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_told(tmp_path):
    told = zen("workflow", "generate", "wien2k", "-o", "no/x.json", cwd=tmp_path, code=4)
    assert "cannot write no/x.json: No such file" in told.err


PAGE = (Path(__file__).parents[2] / "docs" / "workflows.md").read_text(encoding="utf-8")


def test_the_page_shows_what_is_printed(tmp_path):
    block, *_ = re.findall(r"^```console\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    commands = re.split(r"^\$ zen ", block, flags=re.MULTILINE)[1:]
    assert len(commands) == 4
    for each in commands:
        command, _, shown = each.partition("\n")
        told = zen(*command.split(), cwd=tmp_path)
        assert told.err + told.out == shown


def test_the_page_names_every_generator_format_and_key():
    from zenturio.schedule.formats.files import formats
    from zenturio.schedule.generators.generator import names

    for each in (
        *names(),
        *formats(),
        "machine",
        "sweep",
        "curve",
        "times",
        "tag",
        "count",
        "load",
    ):
        assert f"`{each}" in PAGE or f"\n{each} = " in PAGE, each


def test_the_files_that_the_page_shows_are_read(tmp_path):
    for language, name in (("json", "flow.json"), ("toml", "grid.toml")):
        text, *_ = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
        (tmp_path / name).write_text(text)
    (tmp_path / "cluster.swf").write_text("1 0 0 9 1" + " -1" * 13 + "\n")
    zen("workflow", "convert", "flow.json", "both.json", "--on", "grid.toml", cwd=tmp_path)
    facts = zen("workflow", "show", "both.json", "--json", cwd=tmp_path).facts
    assert (facts["tasks"], facts["transfers"], facts["moldable"]) == (9, 1, 1)
    assert facts["platform"]["machines"] == 17


@pytest.mark.parametrize("option", ["--file", "--hand-on", "--iterations"])
def test_options_of_stages_need_the_command_of_their_tasks(tmp_path, option):
    words = ("workflow", "annotate", "wien2k", "-o", "w", option, 3)
    assert "go with --command" in zen(*words, cwd=tmp_path, code=2).err
