import io
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time

import pytest

from tests.cli.conftest import SMALL, zen
from zenturio.cli import output
from zenturio.errors import Diagnostic, Place

HEAVY = ("numpy", "pandas", "plotly", "sqlalchemy", "numba", "rich", "matplotlib")


def test_help_loads_nothing_heavy(tmp_path):
    probe = f"""
import sys
from zenturio.cli import main
sys.argv = ['zen', '--help']
try:
    main()
finally:
    print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert "expand" in done.stdout


def test_every_verb_has_help_with_an_example(tmp_path):
    from typer.main import get_command

    from zenturio.cli.main import app

    commands = get_command(app).commands
    for verb in commands:
        if not hasattr(commands[verb], "commands"):
            told = " ".join(zen(verb, "--help", cwd=tmp_path).out.split())
            assert f"zen {verb}" in told.split("Example", 1)[1], verb


def test_space_shows_what_was_asked_for(study):
    told = zen("space", study.name, cwd=study.parent)
    assert "8 combinations, 7 points" in told.out
    assert "total [J] from stdout" in told.out


def test_space_leaves_out_elements_only_where_there_are_more(tmp_path):
    values = ["a" * 40, "b" * 40, "c" * 40]
    for count in (3, 4):
        listed = ", ".join([*values, "d"][:count])
        (tmp_path / "a.sh").write_text(f'#ZEN$ PARAM n = {{ {listed} }}\n#ZEN$ RUN "echo {{n}}"\n')
        shown = zen("space", "a.sh", cwd=tmp_path).out
        assert ("..." in shown) == (count == 4)
    assert (
        "1 experiment in more, "
        in zen("expand", "a.sh", "-o", "more", "--limit", 1, cwd=tmp_path).out
    )


def test_space_as_json(study):
    facts = zen("space", study.name, "--json", cwd=study.parent).facts
    parameters = {each["name"]: each for each in facts["parameters"]}
    assert parameters["n"]["values"] == [1, 2, 3, 4]
    assert (parameters["n"]["kind"], parameters["n"]["size"]) == ("assign", 4)
    assert parameters["level"]["values"] == ["low", "high"]
    assert (facts["cartesian"], facts["size"]) == (8, 7)
    assert [c["removes"] for c in facts["constraints"]] == [1]
    assert facts["objectives"] == [{"direction": "maximize", "expression": "total"}]
    assert [m["name"] for m in facts["metrics"]] == ["total"]


def test_sizes_are_exact_at_any_magnitude(tmp_path):
    lines = [f"#ZEN$ PARAM p{i} = {{ 1:100000 }}" for i in range(900)]
    (tmp_path / "huge.sh").write_text("\n".join(lines) + "\n")
    sys.set_int_max_str_digits(0)
    try:
        facts = zen("space", "huge.sh", "--json", cwd=tmp_path).facts
        assert facts["size"] == 100_000**900
    finally:
        sys.set_int_max_str_digits(4300)
    told = zen("space", "huge.sh", cwd=tmp_path)
    assert "1.00e+4500 points" in told.out


def test_values_are_listed_up_to_the_cap_and_counted_beyond(tmp_path):
    (tmp_path / "long.sh").write_text("#ZEN$ PARAM p = { 1:1000000000 }\n")
    (parameter,) = zen("space", "long.sh", "--json", cwd=tmp_path).facts["parameters"]
    assert parameter["size"] == 10**9
    assert parameter["values"] == list(range(1, 1001))


def test_a_parameter_can_be_replaced_or_added(study):
    told = zen("space", study.name, "-P", "n={7,8}", "-P", "x={1,2,3}", "--json", cwd=study.parent)
    sizes = {p["name"]: p["size"] for p in told.facts["parameters"]}
    assert sizes == {"n": 2, "level": 2, "x": 3}


def test_a_continuous_space_has_no_size_and_can_be_sampled(tmp_path):
    (tmp_path / "real.py").write_text("#ZEN$ PARAM x = { UNIFORM(0, 1) }\n")
    facts = zen("space", "real.py", "--json", cwd=tmp_path).facts
    assert facts["size"] is None
    assert len(facts["samples"]) == 3
    assert "continuous" in zen("space", "real.py", cwd=tmp_path).out


def test_wrong_directives_are_named_with_their_place(study):
    study.write_text(SMALL.replace("{ 1:4 }", "{ 1:4:0 }").replace("total\n", "totel\n"))
    told = zen("space", study.name, cwd=study.parent, code=2)
    assert "small.py:2:" in told.err
    assert "small.py:8:" in told.err
    assert "did you mean 'total'" in told.err
    assert "^" in told.err


def test_check_tells_all_as_json(study):
    study.write_text(SMALL.replace("{ 1:4 }", "{ }"))
    facts = zen("check", study.name, "--json", cwd=study.parent, code=2).facts
    assert facts["ok"] is False
    assert facts["diagnostics"][0]["line"] == 2


def test_check_of_a_good_study(study):
    assert "no mistakes" in zen("check", study.name, cwd=study.parent).out


def test_expand_writes_a_folder_for_each_experiment(study):
    facts = zen("expand", study.name, "--out", "runs", "--json", cwd=study.parent).facts
    assert facts["experiments"] == 7
    lines = (study.parent / "runs" / "manifest.jsonl").read_text().splitlines()
    manifest = [json.loads(line) for line in lines]
    assert [each["index"] for each in manifest] == list(range(7))
    assert manifest[0]["parameters"] == {"n": 1, "level": "low"}
    for each in manifest:
        text = (study.parent / "runs" / each["path"] / "small.py").read_text()
        assert f"\nn = {each['parameters']['n']}\n" in text
        assert f'level = "{each["parameters"]["level"]}"' in text
        assert each["path"] == each["digest"]
    assert study.read_text() == SMALL


@pytest.mark.parametrize(
    ("options", "indices"),
    [(("--limit", 2), [0, 1]), (("--index", 5), [5]), (("--limit", 0), [])],
)
def test_expand_of_some_points(study, options, indices):
    zen("expand", study.name, "--out", "runs", *options, cwd=study.parent)
    lines = (study.parent / "runs" / "manifest.jsonl").read_text().splitlines()
    assert [json.loads(line)["index"] for line in lines] == indices


def test_the_same_seed_draws_the_same_points(study):
    drawn = []
    for out in ("a", "b", "c"):
        seed = 2 if out == "c" else 1
        zen("expand", study.name, "-o", out, "--sample", 3, "--seed", seed, cwd=study.parent)
        lines = (study.parent / out / "manifest.jsonl").read_text().splitlines()
        drawn.append([json.loads(line)["digest"] for line in lines])
    assert len(set(drawn[0])) == 3
    assert drawn[0] == drawn[1] != drawn[2]


def test_expanding_again_goes_on_and_leaves_what_is_there(study):
    zen("expand", study.name, "-o", "runs", "--limit", 3, cwd=study.parent)
    stays = min((study.parent / "runs").glob("*/small.py"))
    before = stays.stat().st_mtime_ns
    zen("expand", study.name, "-o", "runs", cwd=study.parent)
    assert stays.stat().st_mtime_ns == before
    assert len(list((study.parent / "runs").glob("*/small.py"))) == 7


def test_expand_leaves_a_folder_of_other_things_alone(study):
    told = zen("expand", study.name, "-o", ".", cwd=study.parent, code=5)
    assert "contains other files" in told.err


def test_a_huge_space_is_not_expanded_by_accident(tmp_path):
    lines = [f"#ZEN$ PARAM p{i} = {{ 1:300 }}" for i in range(82)]
    (tmp_path / "huge.sh").write_text("\n".join(lines) + "\n")
    told = zen("expand", "huge.sh", "-o", "out", cwd=tmp_path, code=2)
    assert "--limit" in told.err
    assert not (tmp_path / "out").exists()
    zen("expand", "huge.sh", "-o", "out", "--sample", 2, cwd=tmp_path)


def test_an_index_that_is_not_there(study):
    told = zen("expand", study.name, "-o", "runs", "--index", 7, cwd=study.parent, code=2)
    assert "from 0 to 6" in told.err


def test_a_missing_file_is_named(tmp_path):
    assert "nowhere.c" in zen("space", "nowhere.c", cwd=tmp_path, code=2).err


def test_a_reader_that_goes_away_is_no_error(study):
    command = f"{sys.executable} -c 'from zenturio.cli import main; main()' space {study} | true"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_init_lists_its_languages_and_refuses_to_overwrite(tmp_path):
    assert "python" in zen("init", cwd=tmp_path).out
    zen("init", "python", cwd=tmp_path)
    assert "exists already" in zen("init", "python", cwd=tmp_path, code=5).err
    assert "did you mean 'python'" in zen("init", "pyton", cwd=tmp_path, code=2).err


@pytest.mark.parametrize("language", ["c", "fortran", "javascript", "make", "python", "shell"])
def test_the_first_example_of_each_language_is_a_good_study(tmp_path, language):
    zen("init", language, cwd=tmp_path)
    (path,) = tmp_path.iterdir()
    assert "no mistakes" in zen("check", path.name, cwd=tmp_path).out


def test_an_example_under_another_name_speaks_of_itself_by_it(tmp_path):
    zen("init", "c", "--out", "my study.c", cwd=tmp_path)
    text = (tmp_path / "my study.c").read_text()
    assert "first" not in text
    assert "no mistakes" in zen("check", "my study.c", cwd=tmp_path).out


def test_a_range_that_depends_on_others_is_shown_as_it_is_written(tmp_path):
    (tmp_path / "a.sh").write_text(
        "#ZEN$ PARAM n = { 4, 8 }\n#ZEN$ PARAM k = { 1:(n/2) }\n#ZEN$ PARAM g = { 1:(n):*2 }\n"
        "#ZEN$ PARAM d = { (n):1:-1 } WHEN n > 4\n"
    )
    told = zen("space", "a.sh", cwd=tmp_path).out
    assert "-  1:(n/2)\n" in told
    assert "-  1:(n):*2\n" in told
    assert "-  (n):1:-1 when n > 4\n" in told
    facts = zen("space", "a.sh", "--json", cwd=tmp_path).facts
    assert [p["range"] for p in facts["parameters"]] == [None, "1:(n/2)", "1:(n):*2", "(n):1:-1"]


def test_samples_stand_in_their_order(tmp_path):
    (tmp_path / "a.sh").write_text("#ZEN$ PARAM n = { 1:1000 }\n")
    told = zen("space", "a.sh", cwd=tmp_path).out
    numbers = [int(line.split()[0][1:]) for line in told.splitlines() if line.startswith("  #")]
    assert len(numbers) == 3
    assert numbers == sorted(numbers)


def test_elements_can_be_told_from_each_other(tmp_path):
    (tmp_path / "a.sh").write_text('#ZEN$ PARAM n = { "a, b", c, "", " d" }\n')
    assert '"a, b", c, "", " d"' in zen("space", "a.sh", cwd=tmp_path).out


def vast(count):
    """A study whose points nobody can count: the products of all parameters' values are too many."""
    lines = [f"#ZEN$ PARAM p{i} = {{ 1:300 }}" for i in range(count)]
    squares = " + ".join(f"p{i} * p{i}" for i in range(count))
    return "\n".join([*lines, f"#ZEN$ CONSTRAINT VALUE {squares} < 90000", ""])


def test_what_cannot_be_counted_in_time_is_said_and_the_rest_is_shown(tmp_path):
    (tmp_path / "vast.sh").write_text(vast(82))
    told = zen("space", "vast.sh", "--within", 1, cwd=tmp_path).out
    assert "1.33e+203 combinations, number of points unknown" in told
    assert told.count(" 300  1, 2, 3") == 82
    facts = zen("space", "vast.sh", "--within", 1, "--json", cwd=tmp_path).facts
    assert (facts["cartesian"], facts["size"]) == (300**82, None)
    assert [each["removes"] for each in facts["constraints"]] == [None]
    assert facts["unknown"]


def test_the_first_points_of_what_cannot_be_counted_are_expanded(tmp_path):
    (tmp_path / "vast.sh").write_text(vast(30))
    facts = zen("expand", "vast.sh", "-o", "out", "--limit", 2, "--json", cwd=tmp_path).facts
    assert facts["experiments"] == 2
    lines = (tmp_path / "out" / "manifest.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    assert [each["index"] for each in found] == [0, 1]
    assert all(sum(v * v for v in each["parameters"].values()) < 90000 for each in found)


def test_check_shows_each_place_that_values_are_put_in(tmp_path):
    program = """\
//ZEN$ SUBSTITUTE n = { 1, 2 } AS size
//ZEN$ ASSIGN k = { 3 }
\tfor (i = 0; i < n; i++) printf("n = %d\\n", n);
"""
    (tmp_path / "a.c").write_text(program)
    told = zen("check", "a.c", "--show", cwd=tmp_path).out
    assert (
        """\
a.c:2:8: k, an assignment
    //ZEN$ ASSIGN k = { 3 }
           ^^^^^^^^^^^^^^^^
a.c:3:18: size, in code
    \tfor (i = 0; i < n; i++) printf("n = %d\\n", n);
    \t                ^
a.c:3:34: size, in a string
    \tfor (i = 0; i < n; i++) printf("n = %d\\n", n);
    \t                                ^
"""
        in told
    )
    assert "4 places are filled in" in told
    facts = zen("check", "a.c", "--show", "--json", cwd=tmp_path).facts
    places = [(r["parameter"], r["line"], r["context"]) for r in facts["replacements"]]
    assert places == [
        ("k", 2, "an assignment"),
        ("size", 3, "code"),
        ("size", 3, "a string"),
        ("size", 3, "code"),
    ]


def test_check_refuses_an_assignment_that_fixed_form_would_cut_off(tmp_path):
    program = f'C ZEN$ ASSIGN q = {{ "{"x + " * 20}y", "y" }}\nC ZEN$ RUN "true"\n      end\n'
    (tmp_path / "a.f").write_text(program)
    told = zen("check", "a.f", cwd=tmp_path, code=2).out
    assert "a.f:1:1: with q = " in told
    assert "this line has 91 columns; fixed form ends at 72" in told


def test_on_a_terminal_check_marks_the_place_within_its_line(tmp_path, monkeypatch):
    from zenturio.annotate.scan import scan
    from zenturio.cli import annotations

    path = tmp_path / "a.py"
    path.write_text("# ZEN$ SUBSTITUTE lr = { 1 }\nrate = lr\n")
    screen = io.StringIO()
    screen.isatty = lambda: True
    monkeypatch.setattr(sys, "stdout", screen)
    annotations.print_replacements(scan([path]), in_colour=True)
    marked = f"{path}:2:8: lr, in code\n    rate = \x1b[7mlr\x1b[0m\n"
    assert screen.getvalue().startswith(marked)


def test_a_mistake_that_only_a_point_shows_is_an_error_of_space(tmp_path):
    (tmp_path / "a.sh").write_text("#ZEN$ PARAM n = { 0, 1 }\n#ZEN$ CONSTRAINT VALUE 1 / n > 0\n")
    assert "a.sh:2:26: division by zero" in zen("space", "a.sh", cwd=tmp_path, code=2).err
    (tmp_path / "a.sh").write_text("#ZEN$ PARAM n = { 5, 7 }\n#ZEN$ PARAM k = { (n/2):9 }\n")
    assert "a.sh:2:19:" in zen("space", "a.sh", cwd=tmp_path, code=2).err


def test_equal_warnings_are_one_and_do_not_hide_another(tmp_path):
    (tmp_path / "a.sh").write_text('#ZEN$ PARAM n = { 1 }\n#ZEN$ RUN "true"\n')
    assert "1 point, 1 warning\n" in zen("check", "a.sh", cwd=tmp_path).out
    (tmp_path / "b.sh").write_text(
        "echo ZEN$\n" * 500 + '#ZEN$ RUN "true"\n#ZEN$ PARAM m = { 1 }\n#ZEN$ PARAM k = { 1 }\n'
    )
    told = zen("check", ".", cwd=tmp_path).out
    assert told.count("is not a directive") == 1
    assert "b.sh:1:6: " in told
    assert " (also on lines 2, 3, 4, 5, 6 and 494 more)\n" in told
    assert "PARAM n is used nowhere (also m in b.sh:502 and k in b.sh:503)\n" in told
    assert zen("run", ".", "--dry-run", cwd=tmp_path).err.count("is not a directive") == 1
    facts = zen("check", "b.sh", "--json", cwd=tmp_path).facts
    assert len(facts["diagnostics"]) == 502


def test_errors_of_several_lines_are_not_merged(tmp_path):
    (tmp_path / "a.sh").write_text("#ZEN$ PARM n = { 1 }\n" * 3)
    assert zen("check", "a.sh", cwd=tmp_path, code=2).out.count("PARM") >= 3


def test_a_flood_of_different_warnings_is_cut(capsys):
    place = Place("a.c", 1, 1, "text")
    output.diagnostics(Diagnostic(f"warning {n}", place, severity="warning") for n in range(150))
    told = capsys.readouterr().out
    assert told.count("a.c:1:1") == 100
    assert "... and 50 more: zen check --json lists all" in told


def test_what_was_expanded_is_no_part_of_the_folder_that_it_lies_in(tmp_path):
    (tmp_path / "small.py").write_text(SMALL)
    digests = []
    for _ in range(2):
        zen("expand", ".", "--out", "runs", "--index", 0, cwd=tmp_path)
        (folder,) = (path for path in (tmp_path / "runs").iterdir() if path.is_dir())
        digests.append(folder.name)
        assert [path.name for path in folder.iterdir()] == ["small.py"]
    assert digests[0] == digests[1]
    assert "7 points" in zen("space", ".", cwd=tmp_path).out


def test_expanded_files_keep_their_mode_bits(study):
    (study.parent / "beside.txt").write_text("x")
    modes = {"small.py": 0o640, "beside.txt": 0o600}
    for name, mode in modes.items():
        (study.parent / name).chmod(mode)
    zen("expand", ".", "-o", "runs", "--index", 0, cwd=study.parent)
    for name, mode in modes.items():
        (path,) = (study.parent / "runs").glob(f"*/{name}")
        assert path.stat().st_mode & 0o777 == mode


def test_expanding_can_be_interrupted_and_goes_on(tmp_path):
    (tmp_path / "a.sh").write_text("#ZEN$ SUBSTITUTE N = { 1:20000 }\necho N\n")
    command = [sys.executable, "-c", "from zenturio.cli import main; main()"]
    begun = subprocess.Popen(
        [*command, "expand", "a.sh", "-o", "out"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    while begun.poll() is None and len(list((tmp_path / "out").glob("*/a.sh"))) < 20:
        time.sleep(0.01)
    begun.send_signal(signal.SIGINT)
    _, said = begun.communicate()
    assert begun.returncode == 130, said
    assert "stopped" in said
    assert "again to continue" in said
    assert not (tmp_path / "out" / "manifest.jsonl").exists()
    whole = len(list((tmp_path / "out").glob("[0-9a-f]*/a.sh")))
    assert 20 <= whole < 20000
    zen("expand", "a.sh", "-o", "out", "--limit", whole + 5, cwd=tmp_path)
    lines = (tmp_path / "out" / "manifest.jsonl").read_text().splitlines()
    assert len(lines) == whole + 5


def test_a_terminal_sees_a_bar_and_a_pipe_sees_none(tmp_path):
    (tmp_path / "a.sh").write_text("#ZEN$ SUBSTITUTE N = { 1:300 }\necho N\n")
    assert zen("expand", "a.sh", "-o", "a", cwd=tmp_path).err == ""
    inner, outer = pty.openpty()
    command = [sys.executable, "-c", "from zenturio.cli import main; main()"]
    environment = {**os.environ, "TERM": "xterm"}
    subprocess.run(
        [*command, "expand", "a.sh", "-o", "b"],
        cwd=tmp_path,
        env=environment,
        stderr=outer,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    os.close(outer)
    assert "expanding" in os.read(inner, 4096).decode(errors="replace")
    os.close(inner)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_can_be_given_completion(shell, tmp_path):
    command = [
        sys.executable,
        "-c",
        "import sys; sys.argv[0] = 'zen'; from zenturio.cli import main; main()",
    ]
    environment = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    shown = subprocess.run(
        [*command, "--show-completion", shell],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "_ZEN_COMPLETE" in shown.stdout
    if shell == "bash" and shutil.which("bash"):
        asked = {
            **environment,
            "_ZEN_COMPLETE": "complete_bash",
            "COMP_WORDS": "zen sp",
            "COMP_CWORD": "1",
        }
        done = subprocess.run(command, env=asked, capture_output=True, text=True, check=False)
        assert done.stdout.split() == ["space"]


def test_the_list_of_verbs_says_what_each_does_in_whole_sentences(tmp_path):
    told = zen("--help", cwd=tmp_path).out
    ours = [
        line
        for line in told.splitlines()
        if line.split()[:1] in ([v] for v in ("check", "space", "expand", "init"))
    ]
    assert len(ours) == 4
    assert not any(line.endswith("...") for line in ours)


def test_no_verb_of_the_language_warns(study):
    """Deprecations of what we use are mistakes of ours."""
    for verb in (["check"], ["space"], ["space", "--json"], ["expand", "-o", "runs"]):
        command = [sys.executable, "-W", "error", "-c", "from zenturio.cli import main; main()"]
        done = subprocess.run(
            [*command, verb[0], study.name, *verb[1:]],
            cwd=study.parent,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), verb


def test_what_expand_copies_keeps_its_time_and_is_older_than_what_it_fills(tmp_path):
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "a.sh").write_text('# ZEN$ SUBSTITUTE N = { 1 }\n# ZEN$ RUN "sh a.sh"\necho N\n')
    for name, size in (("small", 1), ("large", 2**20 + 1)):
        (folder / name).write_bytes(b"x" * size)
        os.utime(folder / name, (1000, 1000))
    zen("expand", "app", "--out", "out", cwd=tmp_path)
    (script,) = (tmp_path / "out").glob("*/a.sh")
    times = {path.name: path.stat().st_mtime for path in script.parent.iterdir()}
    assert (times["small"], times["large"]) == (1000, 1000)
    assert times["a.sh"] > 1000
