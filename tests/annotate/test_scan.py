"""A scan sees all files at once, and an application is everything that their directives say."""

from __future__ import annotations

import os
import sys

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from spent import under
from zenturio.annotate.file_selection import match_glob, may_have_directives
from zenturio.annotate.scan import scan, scan_kept
from zenturio.annotate.substitution import Filler
from zenturio.errors import AnnotationError, InputError
from zenturio.expression import parse
from zenturio.space import Zip


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(**files):
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/").replace("_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    return write


def filled(application, number=0):
    files = Filler(application).files(application.space.point(number))
    return {file.path: file.content.decode() for file in files}


def texts(application, name):
    (found,) = [each for each in application.space.parameters if each.name == name]
    return list(found.domain.texts())


def messages(*paths, overrides=()):
    with pytest.raises(InputError) as caught:
        scan(paths, overrides=overrides)
    return [each.message for each in caught.value.diagnostics]


MATMUL = r"""//ZEN$ SUBSTITUTE lapw0_host = { machine{1:300} }
//ZEN$ ASSIGN    n = { 128:1024:*2 }
//ZEN$ ENV       OMP_NUM_THREADS = { 1, 2, 4 } AS threads
//ZEN$ CONSTRAINT VALUE n * threads <= 2048
//ZEN$ BUILD "cc -O2 -fopenmp matmul.c -o matmul"
//ZEN$ RUN   "./matmul" TIMEOUT 30s
//ZEN$ METRIC gflops FROM stdout REGEX "GFLOPS=\s*(\S+)" UNIT "GFLOP/s"
//ZEN$ OBJECTIVE MAXIMIZE gflops
char *host = "lapw0_host";
"""


def test_the_first_example_of_the_reference(write):
    write(matmul_c=MATMUL)
    found = scan("matmul.c")
    assert found.name == "matmul"
    assert [(p.name, p.kind) for p in found.space.parameters] == [
        ("lapw0_host", "substitute"),
        ("n", "assign"),
        ("threads", "env"),
    ]
    assert found.space.size == 300 * 11
    assert found.environment == {"OMP_NUM_THREADS": "threads"}
    assert found.builds[0].text.text == "cc -O2 -fopenmp matmul.c -o matmul"
    assert (found.runs[0].text.text, found.runs[0].timeout) == ("./matmul", 30.0)
    assert (found.metrics[0].name, found.metrics[0].unit) == ("gflops", "GFLOP/s")
    assert [(g.direction, g.expression) for g in found.goals] == [("maximize", parse("gflops"))]
    assert found.warnings == ()


def test_a_scope_goes_from_the_directive_to_its_end_or_to_the_end_of_the_file(write):
    write(
        a_txt="x\n# ZEN$ SUBSTITUTE x = { 1 } BEGIN\nx\n# ZEN$ END\nx\n# ZEN$ SUBSTITUTE y = { 2 }\nx y\n"
    )
    assert filled(scan("a.txt"))["a.txt"].splitlines() == [
        "x", "# ZEN: x = 1", "1", "# ZEN", "x", "# ZEN: y = 2", "x 2",
    ]  # fmt: skip


def test_scopes_nest_and_the_inner_one_wins(write):
    write(
        a_txt="# ZEN$ SUBSTITUTE x = { 1 } AS a BEGIN\nx\n# ZEN$ SUBSTITUTE x = { 2 } AS b BEGIN\nx\n"
        "# ZEN$ END x\nx\n# ZEN$ END x\nx\n"
    )
    lines = filled(scan("a.txt"))["a.txt"].splitlines()
    assert [lines[i] for i in (1, 3, 5, 7)] == ["1", "2", "1", "x"]


def test_one_name_with_one_set_is_one_dimension_in_several_files(write):
    write(
        a_txt='# ZEN$ SUBSTITUTE n = { 1, 2 } UNIT "MB"\nn\n',
        b_txt="# ZEN$ SUBSTITUTE n = { 1:2 } TYPE real\nn n\n",
        c_txt="# ZEN$ PARAM n={1,2}\n",
    )
    found = scan(".")
    (n,) = found.space.parameters
    assert (n.unit, n.domain.type, found.space.size) == ("MB", "real", 2)
    assert filled(found, 1)["b.txt"].endswith("2 2\n")


def test_a_parameter_is_used_again_with_an_at_sign(write):
    write(
        a_txt="# ZEN$ PARAM t = { 1, 2 }\n# ZEN$ ENV OMP = @t\n# ZEN$ ASSIGN k = @t\n# ZEN$ SUBSTITUTE x = @t\nx\n"
    )
    found = scan("a.txt")
    assert found.space.size == 2
    assert found.environment == {"OMP": "t"}
    assert filled(found, 1)["a.txt"].splitlines()[2:] == ["k = 2", "# ZEN: t = 2", "2"]


def test_derived_parameters_are_no_dimensions(write):
    write(a_txt='# ZEN$ PARAM n = { 1, 2 }\n# ZEN$ SUBSTITUTE m := 3 * n UNIT "MB"\nm\n')
    found = scan("a.txt")
    assert found.space.size == 2
    assert filled(found, 1)["a.txt"].splitlines()[-1] == "6"


def test_a_parameter_whose_condition_is_false_is_written_as_its_default(write):
    write(
        a_txt="# ZEN$ PARAM s = { cg, lu }\n"
        '# ZEN$ SUBSTITUTE tol = { 1e-3, 1e-6 } WHEN s == "cg" DEFAULT none\ntol\n'
    )
    found = scan("a.txt")
    assert found.space.size == 3
    assert filled(found, 2)["a.txt"].splitlines()[-1] == "none"


def test_constraints_keep_and_zip(write):
    write(
        a_txt="# ZEN$ PARAM a = { 1:3 }\n# ZEN$ PARAM b = { x, y, z }\n# ZEN$ PARAM c = { 1:3 }\n"
        "# ZEN$ CONSTRAINT INDEX a == b\n# ZEN$ CONSTRAINT VALUE a != c\n"
    )
    space = scan("a.txt").space
    assert space.size == 6
    assert isinstance(space.constraints[0], Zip)
    assert space.constraints[1] == parse("a != c")


def test_a_side_file_speaks_of_the_file_beside_it(write):
    write(
        in_json='{"n": 100, "m": 100}\n',
        in_json_zen='ZEN$ SUBSTITUTE 100 = { 1, 2 } AS n\nZEN$ RUN "x"\n',
    )
    found = scan("in.json")
    assert filled(found, 1) == {"in.json": '{"n": 2, "m": 2}\n'}
    assert scan("in.json.zen").space.size == 2
    assert scan(".").file_paths == ["in.json"]


def test_a_study_file_speaks_of_all_text_files_of_its_folder(write):
    write(
        a_txt="n\n", sub__b_txt="n\n", sub__c_txt="m\n", study_zen="ZEN$ SUBSTITUTE n = { 1, 2 }\n"
    )
    found = scan(".")
    assert filled(found, 1) == {"a.txt": "2\n", "sub/b.txt": "2\n"}
    assert found.file_paths == ["a.txt", "sub/b.txt", "sub/c.txt"]


def test_a_study_file_in_a_folder_below_speaks_of_that_folder(write):
    write(a_txt="n\n", sub__b_txt="n\n", sub__study_zen="ZEN$ SUBSTITUTE n = { 1, 2 }\n")
    assert filled(scan(".")) == {"sub/b.txt": "1\n"}


def test_in_names_the_files_that_are_meant(write):
    write(
        a_c='//ZEN$ SUBSTITUTE n = { 1, 2 } IN "*.h"\nn\n', b_h="n\n", sub__c_h="n\n", sub__d_c="n\n",
        e_c='//ZEN$ SUBSTITUTE m = { 1, 2 } IN "sub/*"\n', sub__f_c="m\n",
    )  # fmt: skip
    found = filled(scan("."), 3)
    assert {name: text for name, text in found.items() if "ZEN" not in text} == {
        "b.h": "2\n", "sub/c.h": "2\n", "sub/f.c": "2\n",
    }  # fmt: skip
    assert found["a.c"].endswith("\nn\n")


def test_parameters_come_in_the_order_of_files_and_lines(write):
    write(
        b_txt="# ZEN$ PARAM z = { 1 }\n# ZEN$ PARAM y = { 1 }\n", a_txt="# ZEN$ PARAM x = { 1 }\n"
    )
    for paths in ([], ["b.txt", "a.txt"], ["a.txt", "b.txt", "a.txt"]):
        found = scan(paths or ["."])
        assert [p.name for p in found.space.parameters] == ["x", "z", "y"]


def test_several_paths_have_their_common_folder_as_root(write, tmp_path):
    write(x__a_txt="# ZEN$ PARAM a = { 1 }\n", y__b_txt="b\n", y__deep__c_txt="c\n")
    found = scan(["x/a.txt", "y"])
    assert found.root.resolve() == tmp_path
    assert found.file_paths == ["x/a.txt", "y/b.txt", "y/deep/c.txt"]
    assert found.name == tmp_path.name


def test_a_single_file_takes_nothing_else_from_its_folder(write):
    write(
        a_txt="# ZEN$ PARAM a = { 1 }\n",
        b_txt="# ZEN$ PARAM b = { 1 }\n",
        study_zen="ZEN$ PARAM c = { 1 }",
    )
    found = scan("a.txt")
    assert found.file_paths == ["a.txt"]
    assert [p.name for p in found.space.parameters] == ["a"]


def test_hidden_files_are_no_part_of_the_experiment(write, tmp_path):
    write(a_txt="# ZEN$ PARAM a = { 1 }\n")
    for name in (".git/config", ".hidden", "__pycache__/a.pyc", ".zenturio/study.db"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("# ZEN$ PARAM b = { 1 }\n")
    assert scan(".").file_paths == ["a.txt"]


def test_a_binary_is_copied_and_never_scanned(write, tmp_path):
    write(a_txt="# ZEN$ PARAM a = { 1 }\n")
    (tmp_path / "mesh.bin").write_bytes(b"# ZEN$ PARAM b = { 1 }\n\0")
    found = scan(".")
    assert [p.name for p in found.space.parameters] == ["a"]
    assert [file.path for file in Filler(found).unchanged] == ["mesh.bin"]


def test_links_that_lead_out_are_left_out_with_a_warning(write, tmp_path):
    write(app__a_txt="# ZEN$ PARAM a = { 1 }\n", app__real__b_txt="b\n", outside__secret_txt="s\n")
    app = tmp_path / "app"
    (app / "out.txt").symlink_to(tmp_path / "outside" / "secret.txt")
    (app / "outdir").symlink_to(tmp_path / "outside")
    (app / "loop").symlink_to(app)
    (app / "gone").symlink_to(app / "nothing")
    (app / "link").symlink_to(app / "real")
    (app / "copy.txt").symlink_to(app / "real" / "b.txt")
    found = scan("app")
    names = ["a.txt", "copy.txt", "link/b.txt", "real/b.txt"]
    assert found.file_paths == names
    assert sorted(str(each.message) for each in found.warnings) == [
        "app/gone: the symbolic link leads nowhere; it is left out",
        "app/loop: the symbolic link leads to a folder around it; it is left out",
        "app/out.txt: the symbolic link leads out of app; it is left out",
        "app/outdir: the symbolic link leads out of app; it is left out",
    ]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_left_out_and_never_waited_for(write, tmp_path):
    write(a_txt="# ZEN$ PARAM a = { 1 }\n")
    os.mkfifo(tmp_path / "pipe")
    assert [each.severity for each in scan(".").warnings] == ["warning"]
    assert messages("pipe") == ["pipe is neither a file nor a folder"]


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root reads everything")
def test_what_cannot_be_read_is_a_diagnostic(write, tmp_path):
    write(a_txt="# ZEN$ PARAM a = { 1 }\n")
    (tmp_path / "a.txt").chmod(0)
    assert "cannot be read" in messages(".")[0]


def test_an_override_replaces_a_set_and_keeps_the_rest(write):
    write(a_txt='# ZEN$ SUBSTITUTE n = { 1:9 } TYPE real UNIT "MB" AS size\nn\n')
    found = scan("a.txt", overrides=["size = { 4, 2 }", "k={x}"])
    size, k = found.space.parameters
    assert (size.kind, size.unit, size.domain.type) == ("substitute", "MB", "real")
    assert texts(found, "size") == ["4", "2"]
    assert (k.kind, k.place.file) == ("param", "-P")


def test_an_override_may_compute_or_free_a_parameter(write):
    write(a_txt="# ZEN$ PARAM n = { 1, 2 }\n# ZEN$ PARAM m := 2 * n\n")
    assert scan("a.txt", overrides=["m={1:5}"]).space.size == 10
    assert scan("a.txt", overrides=["n := 3"]).space.size == 1
    write(b_txt='# ZEN$ PARAM n = { 1, 2 } UNIT "MB" WHEN true DEFAULT 0\n')
    (n,) = scan("b.txt", overrides=["n := 3"]).space.parameters
    assert (n.unit, n.when, n.default) == ("MB", None, None)


def test_a_wrong_override_names_its_place(write):
    write(a_txt="# ZEN$ PARAM n = { 1, 2 }\n")
    with pytest.raises(AnnotationError) as caught:
        scan("a.txt", overrides=["n={1,1}"])
    assert str(caught.value).splitlines()[:3] == [
        "-P:1:6: the element '1' occurs twice",
        "    n={1,1}",
        "         ^",
    ]


def test_a_seed_is_no_dimension(write):
    write(
        a_txt="# ZEN$ SUBSTITUTE 42 = { 7 } AS seed\n# ZEN$ PARAM n = { 1, 2 }\n# ZEN$ REPEAT 3 SEED seed\n42\n"
    )
    found = scan("a.txt")
    assert [p.name for p in found.space.parameters] == ["n"]
    assert [found.repeat.texts(run) for run in (1, 2, 3)] == [
        {"seed": "7"},
        {"seed": "8"},
        {"seed": "9"},
    ]
    files = Filler(found).files(found.space.point(0), found.repeat.texts(3))
    assert files[0].content.endswith(b"\n9\n")


def test_a_seed_takes_its_elements_in_turn_or_counts_from_one(write):
    write(
        a_txt="# ZEN$ PARAM s = { b, a, c, d }\n# ZEN$ REPEAT 3 SEED s\n",
        b_txt="# ZEN$ REPEAT 3 SEED s\n# ZEN$ SUBSTITUTE x = @s\nx\n",
        c_txt="# ZEN$ REPEAT 3\n",
    )
    assert [scan("a.txt").repeat.texts(run)["s"] for run in (1, 2, 3)] == ["b", "a", "c"]
    assert [scan("b.txt").repeat.texts(run)["s"] for run in (1, 2, 3)] == ["1", "2", "3"]
    assert scan("c.txt").repeat.texts(2) == {}


def test_a_metric_may_be_used_by_formulas_and_the_measured_ones_always(write):
    write(
        a_txt='# ZEN$ PARAM n = { 1 }\n# ZEN$ METRIC t FROM stdout REGEX "(.)"\n'
        "# ZEN$ METRIC rate := n / t\n# ZEN$ OBJECTIVE MINIMIZE rate + wtime + maxrss, MAXIMIZE exit\n"
    )
    assert len(scan("a.txt").goals) == 2


def test_everything_else_of_an_application(write):
    write(
        a_c="//ZEN$ PARAM n = { 1, 2 }\n//ZEN$ REQUIRE host.memory >= 1GB\n//ZEN$ RANK host.mhz\n"
        '//ZEN$ OUTPUT "*.csv", "*.png"\n//ZEN$ OUTPUT "*.csv", "x" OPTIONAL\n//ZEN$ AFTER "mesh" ON n\n'
        "//ZEN$ CR loop PMETRIC WTIME BEGIN\nint i;\n//ZEN$ END CR\n"
    )
    found = scan("a.c")
    assert [each.text for each in found.requires] == ["host.memory >= 1GB"]
    assert found.rank == parse("host.mhz")
    assert found.outputs == ("*.csv", "*.png", "x")
    assert found.required == ("*.csv", "*.png")
    assert [(after.stage, after.on) for after in found.after] == [("mesh", ("n",))]
    (region,) = found.files[0].regions
    assert (region.name, region.probes, region.begin.first, region.end.first) == (
        "loop",
        ("WTIME",),
        6,
        8,
    )


def test_a_region_makes_metrics_that_a_directive_may_say_more_about(write):
    write(
        a_c="//ZEN$ CR loop PMETRIC WTIME,MAXRSS BEGIN\nint i;\n//ZEN$ END CR\n"
        "//ZEN$ METRIC loop_maxrss OPTIONAL\n//ZEN$ OBJECTIVE MINIMIZE loop_wtime\n"
    )
    found = {metric.name: metric for metric in scan("a.c").metrics}
    assert (found["loop_wtime"].unit, found["loop_wtime"].optional) == ("s", False)
    assert found["loop_maxrss"].optional


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("*.c", "a.c", True), ("*.c", "src/a.c", True), ("*.c", "a.cc", False),
        ("src/*.c", "src/a.c", True), ("src/*.c", "src/deep/a.c", False), ("src/*.c", "x/src/a.c", False),
        ("src/**/*.c", "src/a.c", True), ("src/**/*.c", "src/x/y/a.c", True), ("**", "a/b", True),
        ("./a.c", "a.c", True), ("[ab].c", "b.c", True), ("A.c", "a.c", False), ("a.c/", "a.c", False),
    ],
)  # fmt: skip
def test_a_pattern_without_folders_fits_in_any_folder(pattern, name, matches):
    assert match_glob(pattern, name) == matches


def test_complaints_of_files_that_name_each_other_come_all_at_once(write):
    write(
        a_txt="# ZEN$ PARAM n = { 1, 1 }\n# ZEN$ CONSTRAINT VALUE n < thraeds\n",
        b_txt="# ZEN$ FOO\n# ZEN$ PARAM threads = { 1 }\n# ZEN$ END\n",
    )
    assert len(messages(".")) == 4


def test_a_name_that_a_misread_directive_may_declare_is_not_called_unknown(write):
    write(
        a_txt="# ZEN$ PARM n = { 1, 2 }\n# ZEN$ CONSTRAINT VALUE n < 2\n# ZEN$ PARAM m = { 1, }\n# ZEN$ PARAM k := m\n"
    )
    assert messages("a.txt") == ["PARM is not a directive", "an element is missing here"]


def test_nothing_named_is_a_diagnostic():
    with pytest.raises(AnnotationError):
        scan([])


def test_files_in_any_encoding_keep_their_columns(write, tmp_path):
    (tmp_path / "a.txt").write_bytes(
        "\ufeff# Größe\r\n# ZEN$ PARAM ü = { 1, 1 }\r\n".encode("utf-16")
    )
    with pytest.raises(AnnotationError) as caught:
        scan("a.txt")
    assert (caught.value.diagnostics[0].place.line, caught.value.diagnostics[0].place.column) == (
        2,
        23,
    )


LINES = st.sampled_from(
    [
        *[
            "//ZEN$ ",
            "# ZEN$ ",
            "ZEN$ ",
            "//ZEN$& ",
            "BEGIN",
            "END",
            "END n",
            "OFF",
            "ON",
            "END CR",
        ],
        *["SUBSTITUTE n = { 1, 2 }", "PARAM m = { 1:3 }", "PARAM m := n", "PARAM n := m", "n m x"],
        *["CONSTRAINT VALUE n < m", "CONSTRAINT INDEX n == m", 'RUN "./a {n}"', "ASSIGN n = @m"],
        *['METRIC t FROM stdout REGEX "("', "REPEAT 3 SEED n", "OBJECTIVE MINIMIZE t"],
        *["CR a PMETRIC WTIME BEGIN", "\n", "\n", "\n", "\r\n", "\0", "\ufeff", "é", "\x85"],
    ]
)


def outcome(path):
    """The application, or what is wrong with it: nothing else may come of a scan."""
    try:
        return scan(path)
    except InputError as error:
        return error.diagnostics


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(LINES, max_size=25).map("".join), st.sampled_from(["a.c", "a.py", "a.txt", "a.html"])
)
@example("//ZEN$ PARAM m := n\n//ZEN$ PARAM n := m\n", "a.c")
def test_any_file_makes_an_application_or_diagnostics(tmp_path, text, name):
    path = tmp_path / name
    path.write_text(text, newline="")
    assert outcome(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200), st.sampled_from([b"", b"//ZEN$ ", b"# ZEN$ PARAM n = {"]))
def test_any_bytes_make_an_application_or_diagnostics(tmp_path, content, start):
    path = tmp_path / "a.c"
    path.write_bytes(start + content)
    assert outcome(path)


@pytest.mark.parametrize(
    "expression",
    ["(" * 50_000 + "1" + ")" * 50_000, "9**9**9 > n", '"a" * 10**9', "().__class__", 'open("x")'],
)
def test_abuse_of_an_expression_is_refused_with_its_position_in_a_tenth_of_a_second(
    write, expression
):
    write(a_txt=f"# ZEN$ PARAM n = {{ 1 }}\n# ZEN$ CONSTRAINT VALUE {expression[:99_000]}\n")
    scan_once = outcome("a.txt")  # loads what is loaded once
    with under(0.1):
        found = outcome("a.txt")
    assert found == scan_once
    assert found[0].place.line == 2


def test_names_are_data(write):
    names = ["select", "Größe", "x" * 70, "class", "None", "a b", "__init__"]
    declared = "".join(f'# ZEN$ PARAM "{name}" = {{ 1, 2 }}\n' for name in names)
    write(a_txt=declared + "# ZEN$ CONSTRAINT VALUE select + Größe + `a b` <= 4\n")
    found = scan("a.txt")
    assert [p.name for p in found.space.parameters] == names
    assert found.space.size == 4 * 2**4


def test_more_points_than_anybody_can_count_are_counted(write):
    write(a_txt="".join(f"# ZEN$ PARAM p{i} = {{ 1:100 }}\n" for i in range(100)))
    assert scan("a.txt").space.size == 10**200


def test_what_zenignore_names_is_no_part_of_the_application(tmp_path):
    for name in ("a.sh", "b.svg", "sub/x.svg", "sub/keep", "out/y", "sub/out/z"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("#ZEN$ PARAM n = { 1, 2 }\n" if name == "a.sh" else "")
    (tmp_path / ".zenignore").write_text("# pictures\n*.svg\n\n./out/\n")
    assert scan(tmp_path).file_paths == ["a.sh", "sub/keep", "sub/out/z"]


def test_a_zenignore_further_down_speaks_of_its_own_folder_alone(tmp_path):
    for name in ("a.sh", "x", "out/x", "out/deep/x", "out/y", "other/x", "all/p/q", "all/r"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("#ZEN$ PARAM n = { 1, 2 }\n" if name == "a.sh" else "")
    (tmp_path / "out" / ".zenignore").write_text("x\n")
    (tmp_path / "all" / ".zenignore").write_text("*\n")
    found = scan(tmp_path).file_paths
    assert found == ["a.sh", "other/x", "out/y", "x"]
    named = scan([tmp_path / "a.sh", tmp_path / "all" / "p"]).file_paths
    assert named == ["a.sh", "all/p/q"]


@pytest.mark.parametrize("made", ['LINES("{0}/names")', 'GLOB("{0}/*")', 'LINES("../names")'])
def test_elements_from_outside_of_the_program_are_told(tmp_path, made):
    (tmp_path / "names").write_text("root:x:0:0\n")
    folder = tmp_path / "received"
    folder.mkdir()
    (folder / "p.sh").write_text(
        f"#ZEN$ PARAM x = {{ {made.format(tmp_path)} }}\n#ZEN$ RUN 'true'\n"
    )
    (warning,) = scan(folder / "p.sh").warnings
    assert str(warning).startswith(f"{folder}/p.sh:1:")
    assert "outside" in warning.message


def test_elements_from_beside_the_program_are_not_told(tmp_path):
    (tmp_path / "names").write_text("a\nb\n")
    (tmp_path / "p.sh").write_text('#ZEN$ PARAM x = { LINES("names") }\n#ZEN$ RUN "true"\n')
    assert scan(tmp_path / "p.sh").warnings == ()


@pytest.mark.parametrize(
    "path", ["x" * 5000, "a\0b", "../a", "", ".", "/etc/x", "a/../../b", "a/b"]
)
def test_kept_sources_at_paths_that_are_none_are_refused(path):
    with pytest.raises(InputError, match="is not a path inside a study"):
        scan_kept({"a": b"#ZEN$ RUN 'true'\n", path: b"\n"})


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("in.lj", "in.lj"),
        ("in.melt", "in.melt"),
        ("in.py", "in"),
        ("deck.in", "deck"),
        ("model.train.py", "model.train"),
        ("run.x", "run"),
    ],
)
def test_decks_that_differ_by_their_endings_are_studies_of_their_own(tmp_path, file, name):
    (tmp_path / file).write_text("# ZEN$ PARAM n = { 1, 2 }\n")
    assert scan(tmp_path / file).name == name


def test_only_a_text_or_what_has_directives_beside_it_may_have_directives(write, tmp_path):
    write(yes="a\n# ZEN$ X\n", no="ZEN\n", side="\0", side_zen="", folder__a="ZEN$")
    contents = {"binary": b"\0ZEN$", "late": b"a" * 10_000 + b"\0ZEN$", "empty": b""}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    os.mkfifo(tmp_path / "pipe")
    names = ("yes", "no", "side", "folder", "binary", "late", "empty", "pipe", "gone")
    assert [n for n in names if may_have_directives(tmp_path / n)] == ["yes", "side", "late"]


def test_rules_that_are_no_text_are_an_error_and_others_leave_files_out(write, tmp_path):
    write(a_txt="# ZEN$ PARAM a = { 1 }\n", b__a_o="", b__c_o="", b__deep__c_o="", c_o="")
    (tmp_path / "b" / ".zenignore").write_text("# *.txt\n\n a.o \n./c.o\n")
    assert scan(".").file_paths == ["a.txt", "b/deep/c.o", "c.o"]
    (tmp_path / ".zenignore").write_text("c.o/\n")
    assert scan(".").file_paths == ["a.txt"]
    (tmp_path / "b" / ".zenignore").write_bytes(b"\xff")
    (message,) = messages(".")
    assert message.startswith("b/.zenignore cannot be read: 'utf-8' codec")
