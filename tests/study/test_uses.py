"""USE: what lies outside of the folder is part of the experiments that declare it, and of no other."""

import json
import os

import pytest
from typer.testing import CliRunner

from zenturio.annotate.scan import scan
from zenturio.cli.main import app
from zenturio.errors import InputError, PlaceError
from zenturio.experiment import ExperimentGenerator
from zenturio.experiment.identity import ask_versions, used_digests


def zen(*words, exit_code=0):
    found = CliRunner().invoke(app, list(map(str, words)))
    assert found.exit_code == exit_code, found.output
    return found.output


@pytest.fixture
def study(tmp_path, monkeypatch):
    """Writes a study that says *directives*; beside it lie a program, a file and a folder."""
    tools, data = tmp_path / "tools", tmp_path / "data"
    tools.mkdir()
    (data / "deep").mkdir(parents=True)
    put(tools / "sim", "#!/bin/sh\necho t=1\n")
    (data / "mesh.bin").write_bytes(b"\0mesh")
    (data / "deep" / "more").write_text("more")
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.delenv("ZENTURIO_DB", raising=False)
    folder = tmp_path / "app"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def write(*directives, run="sim"):
        lines = [*directives, f'RUN "{run}"', 'METRIC t FROM stdout REGEX "t=(.*)"']
        (folder / "a.sh").write_text("".join(f"# ZEN$ {line}\n" for line in lines))
        return folder

    return write


def put(path, text):
    path.write_text(text)
    path.chmod(0o755)


def digest(folder):
    application = ask_versions(scan(folder))
    (found,) = ExperimentGenerator(application).experiments(application.space.point(0))
    return found.digest


CHANGES = {
    'USE PROGRAM "sim"': lambda outside: put(outside / "tools" / "sim", "#!/bin/sh\necho t=2\n"),
    'USE PROGRAM "../tools/sim"': lambda outside: put(outside / "tools" / "sim", "#!/bin/sh\n:\n"),
    'USE FILE "../data/mesh.bin"': lambda outside: (outside / "data/mesh.bin").write_text("other"),
    'USE FILE "../data"': lambda outside: (outside / "data/deep/more").write_text("other"),
    'USE FILE "../data/"': lambda outside: (outside / "data/new").write_text("other"),
    'USE VERSION "cat ../data/mesh.bin"': lambda outside: (outside / "data/mesh.bin").write_text(
        "v2"
    ),
    'USE PROGRAM "ls", "sim"': lambda outside: put(outside / "tools" / "sim", "#!/bin/sh\n:\n"),
}


@pytest.mark.parametrize("directive", CHANGES)
def test_what_is_declared_is_part_of_the_experiment(study, tmp_path, directive):
    plain = digest(study())
    before = digest(study(directive))
    assert before != plain
    assert digest(study(directive)) == before
    CHANGES[directive](tmp_path)
    assert digest(study(directive)) != before
    assert digest(study()) == plain


def test_a_build_depends_on_it_too(study, tmp_path):
    directives = ('USE PROGRAM "sim"', 'BUILD "true"')
    builds = []
    for text in ("#!/bin/sh\n", "#!/bin/sh\n:\n"):
        put(tmp_path / "tools" / "sim", text)
        application = scan(study(*directives))
        (found,) = ExperimentGenerator(application).experiments(application.space.point(0))
        builds.append(found.build.digest)
    assert builds[0] != builds[1]


def test_where_a_program_lies_does_not_matter(study, tmp_path):
    before = digest(study('USE PROGRAM "sim"'))
    (tmp_path / "tools" / "sim").rename(tmp_path / "sim-1.2")
    (tmp_path / "tools" / "sim").symlink_to(tmp_path / "sim-1.2")
    assert digest(study('USE PROGRAM "sim"')) == before


@pytest.mark.parametrize(
    ("directive", "message"),
    [
        ('USE PROGRAM "simm"', "there is no program 'simm'"),
        ('USE FILE "../data/mash.bin"', "../data/mash.bin cannot be read: No such file"),
        ('USE FILE "/dev/null"', "/dev/null cannot be read: it is neither a file nor a folder"),
    ],
)
def test_what_is_not_there_is_an_error_with_its_place(study, directive, message):
    folder = study(directive)
    with pytest.raises(InputError, match=message):
        used_digests(scan(folder))
    said = zen("check", folder, exit_code=2)
    assert said.startswith(f"{folder}/a.sh:1:")
    assert message in said
    with pytest.raises(InputError, match=message):
        CliRunner().invoke(app, ["run", str(folder)], catch_exceptions=False)


@pytest.mark.parametrize("command", ["exit 3", "echo why; exit 1", "nowhere --version"])
def test_a_version_that_cannot_be_asked_is_an_error_of_the_place(study, command):
    with pytest.raises(PlaceError, match="cannot be asked: exit"):
        ask_versions(scan(study(f'USE VERSION "{command}"')))


def test_looking_asks_no_version_and_takes_the_last_answer(study, tmp_path):
    asked = tmp_path / "asked"
    version = f"echo >> {asked}; cat ../data/mesh.bin"
    folder = study(f'USE VERSION "{version}"')
    assert "none cached" in zen("run", folder, "--dry-run")
    for verb in ("check", "space"):
        zen(verb, folder)
    assert not asked.exists()
    zen("run", folder)
    assert asked.read_text().count("\n") == 1
    assert "1 cached" in zen("run", folder, "--dry-run")
    digits = json.loads(zen("results", "app", "--json"))["rows"]
    assert asked.read_text().count("\n") == 1, digits
    zen("run", folder)
    assert asked.read_text().count("\n") == 2
    (tmp_path / "data" / "mesh.bin").write_text("v2")
    assert "the program has changed" in zen("run", folder)


def test_an_undeclared_program_is_named_by_check(study):
    said = zen("check", study())
    assert "not declared: sim" in said
    assert 'ZEN$ USE PROGRAM "sim"' in said
    assert "no mistakes" in said
    assert "sim" in json.loads(zen("check", study(), "--json"))["undeclared"]
    assert "not declared" not in zen("check", study('USE PROGRAM "sim"'))


@pytest.mark.parametrize("run", ["./own", "echo t=1", "sh a.sh", "X=1 true", "nowhere", "$SIM x"])
def test_what_is_inside_or_belongs_to_the_shell_needs_no_declaration(study, run):
    folder = study(run=run)
    put(folder / "own", "#!/bin/sh\n")
    assert "not declared" not in zen("check", folder)


def test_a_program_that_changed_since_results_were_cached_is_told(study, tmp_path):
    folder = study("PARAM n = { 1:3 }", run="sim {n}")
    assert "has changed" not in zen("run", folder)
    assert "has changed" not in zen("run", folder)
    put(tmp_path / "tools" / "sim", "#!/bin/sh\necho t=2\n")
    told = "sim has changed since 3 cached results were made"
    assert told in zen("run", folder, "--dry-run")
    for _ in range(2):  # for as long as the results are those
        said = CliRunner().invoke(app, ["run", str(folder)])
        assert told in said.output
    folder = study("PARAM n = { 1:4 }", run="sim {n}")
    assert told in CliRunner().invoke(app, ["run", str(folder)]).output
    put(tmp_path / "tools" / "sim", "#!/bin/sh\necho t=1\n")  # as it was for three of them
    assert "since 1 cached result was made" in CliRunner().invoke(app, ["run", str(folder)]).output


def test_a_declared_program_that_changed_is_another_version_of_the_study(study, tmp_path):
    folder = study('USE PROGRAM "sim"')
    zen("run", folder)
    put(tmp_path / "tools" / "sim", "#!/bin/sh\necho t=2\n")
    said = zen("run", folder)
    assert "USE PROGRAM sim changed" in said
    assert "1 ok" in said


def test_an_output_that_is_declared_is_an_input(study):
    folder = study()
    zen("run", folder)
    zen("results", "app", "-o", "rows.csv")
    assert scan(folder).left_out == ("rows.csv",)
    application = scan(study('USE FILE "rows.csv"'))
    assert application.left_out == ()
    assert application.file_paths == ["a.sh", "rows.csv"]


@pytest.mark.parametrize(
    ("directive", "message"),
    [
        ("USE", "USE must be followed by PROGRAM, FILE or VERSION"),
        ('USE PROGRAMM "x"', "did you mean 'PROGRAM'"),
        ('USE "sim"', "USE must be followed by"),
        ("USE PROGRAM sim", "PROGRAM needs a quoted text"),
        ('USE FILE "a" "b"', "is not expected here"),
        ('USE VERSION ""', "is empty"),
    ],
)
def test_a_wrong_use_is_an_error(study, directive, message):
    assert message in zen("check", study(directive), exit_code=2)


def test_stages_ask_for_their_versions_too(study, tmp_path, monkeypatch):
    folder = study()
    stages = tmp_path / "stages"
    stages.mkdir()
    version = '# ZEN$ USE VERSION "cat ../data/mesh.bin"\n'
    (stages / "one.sh").write_text(f'{version}# ZEN$ RUN "echo 1"\n# ZEN$ OUTPUT "x" OPTIONAL\n')
    (stages / "two.sh").write_text('# ZEN$ AFTER "one"\n# ZEN$ RUN "echo 2"\n')
    monkeypatch.chdir(folder)
    zen("run", stages / "two.sh")
    assert zen("run", stages / "two.sh", "--dry-run").count("has changed") == 0
    (tmp_path / "data" / "mesh.bin").write_text("v2")
    assert "USE VERSION cat ../data/mesh.bin changed" in zen("run", stages / "two.sh")
