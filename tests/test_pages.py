"""What the pages name exists, what exists is named, and examples that are shown work."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import loaded
import zenturio as zen
from zenturio import errors, plugins
from zenturio.annotate.directive_lines import KEYWORDS
from zenturio.query.catalog import _FACTS
from zenturio.schedule.algorithm import make
from zenturio.schedule.formats.files import read_platform, read_workflow
from zenturio.schedule.model.problem import Problem
from zenturio.show.charts.chart_query import KINDS
from zenturio.show.paired_reports import EXIT_CODES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
INTERNAL = {
    "ZENTURIO_FAILPOINT",  # for tests: where a process kills itself
    "ZENTURIO_PATH",  # from a job to its setup
}
VARIABLE = re.compile(r"""["'](ZEN(?:TURIO)?_[A-Z_]*[A-Z_])["'{]""")


@pytest.fixture(scope="module")
def measured_project(tmp_path_factory):
    """A project with a study that was run."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "s.sh").write_text('# ZEN$ PARAM n = { 1 }\n# ZEN$ RUN "true"\n')
    assert loaded.zen("run", "s.sh", cwd=folder).returncode == 0
    return folder


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def part(name: str, heading: str) -> str:
    return page(name).split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]


def rows(text: str) -> set[str]:
    """The names in the first cells of tables."""
    cells = [cell for cell in re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE) if "`" in cell]
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page(name), re.MULTILINE | re.DOTALL)


def test_the_extras_on_the_page_are_those_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert rows(page("install.md")) == set(project["optional-dependencies"])


def test_the_public_names_of_python_are_on_the_page():
    table = part("reference.md", "Names in Python")
    assert set(re.findall(r"^\| `zen\.(\w+)", table, re.MULTILINE)) == set(zen.__all__)
    for name in re.findall(r"`\.(\w+)[`(]", table.split("| `zen.Study(", 1)[1].split("\n")[0]):
        assert name in {*dir(zen.Study), *zen.Study.__dataclass_fields__}


def test_the_exit_codes_on_the_page_are_those_of_the_errors():
    codes = {kind.exit_code for kind in vars(errors).values() if hasattr(kind, "exit_code")}
    table = part("reference.md", "Exit codes")
    assert set(map(int, re.findall(r"^\| (\d+) \|", table, re.MULTILINE))) == codes | {0} | set(
        EXIT_CODES.values()
    )


def test_the_facts_on_the_pages_are_those_of_every_experiment():
    conditions = rows(part("language.md", "Conditions of a run"))
    assert rows(part("columns.md", "Facts of every experiment")) | conditions == {
        *_FACTS,
        *plugins.names("columns"),
    }


def test_the_metrics_on_the_page_are_those_of_every_experiment(measured_project):
    shown = loaded.zen("results", "s", "--columns", "?", cwd=measured_project).stdout
    metrics = set(re.findall(r"^(\w+) +metric ", shown, re.MULTILINE))
    assert rows(part("columns.md", "Metrics of every experiment")) == metrics


def test_what_a_project_has_in_its_folder_is_on_the_page(measured_project):
    named = rows(part("reference.md", "The folder `.zenturio`"))
    made = {path.name for path in (measured_project / ".zenturio").iterdir()}
    assert made <= {name.partition("/")[0] for name in named}
    texts = "".join(path.read_text("utf-8") for path in (ROOT / "zenturio").rglob("*.py"))
    for name in named:
        for word in name.split("/"):
            assert f'"{word}"' in texts or f"/{word}" in texts, name


def test_the_entry_points_on_the_page_are_those_that_are_looked_for():
    named = set(re.findall(r"`zenturio\.(\w+)` \|", page("plug-ins.md")))
    code = [path.read_text("utf-8") for path in (ROOT / "zenturio").rglob("*.py")]
    call = re.compile(r"""plugins\.(?:load|names)\("(\w+)"|^GROUP = "(\w+)"$""", re.MULTILINE)
    used = {first or second for text in code for first, second in call.findall(text)}
    assert named == used


def test_the_environment_variables_on_the_page_are_those_of_the_sources():
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "zenturio").rglob("*.py")]
    used = {name for text in texts for name in VARIABLE.findall(text)} - INTERNAL
    named = rows(part("reference.md", "Environment variables"))
    prefixes = {name for name in used if name.endswith("_")}
    assert named >= used - prefixes
    assert {name for name in named - used if not name.startswith(tuple(prefixes))} == set()


def test_the_metrics_of_a_service_on_the_page_are_those_that_it_has():
    source = (ROOT / "zenturio/study/service/service_status.py").read_text()
    assert rows(part("operate.md", "Watch it")) == set(re.findall(r'"(zenturio_[a-z_]+)"', source))


def test_the_workflow_and_the_platform_on_the_page_make_a_plan(tmp_path):
    text = next(block for block in blocks("workflows.md", "json") if '"pipeline"' in block)
    (tmp_path / "pipeline.json").write_text(text)
    (tmp_path / "grid.toml").write_text(blocks("workflows.md", "toml")[0])
    problem = Problem.of(
        read_workflow(str(tmp_path / "pipeline.json")), read_platform(str(tmp_path / "grid.toml"))
    )
    assert make("heft").plan(problem).makespan > 0


def test_the_stages_on_the_page_run(tmp_path):
    for text in blocks("stages.md", "sh"):
        (tmp_path / text.split("\n", 1)[0].removeprefix("# ")).write_text(text)
    done = loaded.zen("run", "solve.sh", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = loaded.zen("sql", "SELECT sum(lines) AS s FROM study_solve", cwd=tmp_path)
    assert str(2 * (64 + 128 + 256)) in done.stdout


def test_the_output_of_the_tutorial_is_that_of_the_command():
    command = "zen space predators.py"
    printed = page("tutorial.md").split(f"$ {command}\n", 1)[1].split("\n...\n", 1)[0]
    done = loaded.zen(*command.split()[1:], cwd=ROOT / "annotations" / "predators")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(printed + "\n")


@pytest.mark.slow  # links are followed in the gate, too
def test_the_site_is_built_without_warnings(tmp_path):
    sphinx = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    done = subprocess.run(
        [*sphinx, str(DOCS), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for name in zen.__all__:
        pattern = rf'id="zenturio\.([\w.]+\.)?{name}"'
        assert re.search(pattern, (tmp_path / "python.html").read_text()), name


def test_each_message_on_the_page_is_one_of_the_sources():
    texts = set()
    for path in (ROOT / "zenturio").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.add(node.value)
    everything = "\n".join(texts)
    table = page("troubleshooting.md").replace("| `zen", "| zen")
    messages = re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)
    assert len(messages) > 15
    for message in messages:
        for part in message.split("…"):
            assert part.strip(" ,") in everything, message


def test_the_card_has_every_directive():
    assert rows(page("card.md").split("| set |")[0]) == {*KEYWORDS} - {""}


@pytest.mark.parametrize("source", sorted(DOCS.glob("*.md")), ids=lambda path: path.name)
def test_every_link_of_a_page_leads_somewhere(source):
    links = re.findall(r"\]\((?!http|/)([^)#\s]+)", source.read_text(encoding="utf-8"))
    assert [link for link in links if not (source.parent / link).exists()] == []


@pytest.mark.parametrize(
    "name", [".github/workflows/test.yml", ".gitlab-ci.yml", ".pre-commit-config.yaml"]
)
def test_automation_calls_targets_and_files_that_are_there(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    assert yaml.safe_load(text)
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called = {
        word
        for words in re.findall(r"make ([a-z -]+?)(?: }|$|`)", text, re.MULTILINE)
        for word in words.split()
    }
    assert called <= targets
    for script in re.findall(r"(?<![\w/])\.ci/\w+", text):
        assert (ROOT / script).is_file()


def test_the_citation_names_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {key: citation[key] for key in ("title", "version", "license")} == {
        "title": project["name"],
        "version": project["version"],
        "license": project["license"],
    }


def test_each_kind_of_chart_on_a_page_is_one_of_the_charts():
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "README.md", *DOCS.rglob("*.md"))]
    plots = [line for text in texts for line in re.findall(r"zen plot [^`\n|]*", text)]
    named = {name for line in plots for name in re.findall(r"--kind ([\w-]+)", line)}
    assert len(named) > 8
    assert named - KINDS.keys() == {"cumulative"}  # that of the example of a plug-in
