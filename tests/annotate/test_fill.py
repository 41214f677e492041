"""A point's texts in the files of an application: holes, scopes, assignments, bytes."""

import codecs
import re
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from needs import needs
from zenturio.annotate import parameters
from zenturio.annotate.clauses import write_text
from zenturio.annotate.dialects import BUILT_IN, UNKNOWN, dialect_of
from zenturio.annotate.directive_lines import find
from zenturio.annotate.lint import lint
from zenturio.annotate.model import Annotated, Hole
from zenturio.annotate.parameters import own_values
from zenturio.annotate.scan import scan
from zenturio.annotate.source import Source, split_lines
from zenturio.annotate.substitution import Filler, occurrences, stands_alone
from zenturio.errors import AnnotationError, Place


def application(tmp_path, files):
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return scan([tmp_path])


def filled(tmp_path, files, number=0, **seeds):
    found = application(tmp_path, files)
    filler = Filler(found)
    return {f.path: f.content for f in filler.files(found.space.point(number), seeds)}


def one(tmp_path, name, content, number=0):
    content = filled(tmp_path, {name: content}, number)[name]
    return content.decode()


def diagnostics(tmp_path, files):
    with pytest.raises(AnnotationError) as caught:
        application(tmp_path, files)
    return caught.value.diagnostics


def test_a_substitute_fills_every_occurrence_and_its_line_says_what_was_chosen(tmp_path):
    program = "int k;\n// ZEN$ SUBSTITUTE N = { 64, 128 }\nint a[N], b[N]; /* N */\n"
    wanted = "int k;\n// ZEN: N = 128\nint a[128], b[128]; /* 128 */\n"
    assert one(tmp_path, "a.c", program, 1) == wanted


def test_an_assign_stands_where_the_directive_stood(tmp_path):
    program = "def f():\n    n = 1\n    # ZEN$ ASSIGN n =\n    # ZEN$& { 5 }\n    return n\n"
    assert (
        one(tmp_path, "a.py", program)
        == "def f():\n    n = 1\n    n = 5\n    # ZEN\n    return n\n"
    )


def test_other_directives_only_say_zen_so_that_they_do_not_change_what_is_run(tmp_path):
    program = (
        "/* ZEN$ PARAM n = { 1, 2 } */\n/* ZEN$ METRIC m FROM stdout\t*/\n"
        '/* ZEN$&  REGEX "(.*)" */\r\n//ZEN$ CONSTRAINT VALUE n < 5\n//ZEN$ OFF\n//ZEN$ X\n//ZEN$ ON'
    )
    wanted = "/* ZEN */\n/* ZEN */\n/* ZEN */\r\n//ZEN\n//ZEN\n//ZEN$ X\n//ZEN"
    assert one(tmp_path, "a.c", program) == wanted


def test_what_was_put_in_is_not_read_again(tmp_path):
    program = "# ZEN$ SUBSTITUTE a = { b }\n# ZEN$ SUBSTITUTE b = { a }\na b ab\n"
    assert one(tmp_path, "a.py", program).splitlines()[2] == "b a ab"


def test_the_longest_target_wins(tmp_path):
    program = (
        "# ZEN$ SUBSTITUTE a = { 1 } MATCH TEXT\n# ZEN$ SUBSTITUTE aa = { 2 } MATCH TEXT\n"
        "aaa a aaaa\n"
    )
    assert one(tmp_path, "a.py", program).splitlines()[2] == "21 1 22"


def test_occurrences_in_directives_and_hidden_lines_stay(tmp_path):
    program = (
        '# ZEN$ SUBSTITUTE n = { 1 }\n# ZEN$ RUN "x n"\nn\n# ZEN$ OFF\nn # ZEN$ n\n# ZEN$ ON\nn\n'
    )
    wanted = "# ZEN: n = 1\n# ZEN\n1\n# ZEN\nn # ZEN$ n\n# ZEN\n1\n"
    assert one(tmp_path, "a.py", program) == wanted


def test_a_scope_ends_at_its_end_and_an_inner_scope_is_stronger(tmp_path):
    program = "n\n# ZEN$ SUBSTITUTE n = { 1 }\nn\n# ZEN$ SUBSTITUTE n = { 2 } AS m BEGIN\nn\n# ZEN$ END n\nn\n"
    wanted = "n\n# ZEN: n = 1\n1\n# ZEN: m = 2\n2\n# ZEN\n1\n"
    assert one(tmp_path, "a.py", program) == wanted


@pytest.mark.parametrize(
    ("target", "inside", "beside"),
    [
        (
            "lapw1_host1",
            ["lapw1_host10", "xlapw1_host1", "lapw1_host1_"],
            ["(lapw1_host1)", "-lapw1_host1."],
        ),
        (
            "100",
            [
                "100.5",
                "1e100",
                "x100",
                "100x",
                "1e-100",
                "0.100",
                "100.",
                "100.e5",
                "100.d0",
                ".100",
            ],
            [],
        ),
        (
            "100",
            ["1.5E+100", "100e5", "100_8"],
            ["[100]", "1..100", "100.times", "n.eq.100.and.", "-100", "x+100"],
        ),
        ("0.5", ["10.5", "0.55", "0.5e3", "0.5.1", "1e-0.5"], ["(0.5)", "=0.5,", "-0.5"]),
        ("-5", ["1e-5", "-55", "-5.5"], ["x-5", "(-5)", "e-5"]),
        (".5", ["0.5", "x5.5"], ["(.5)", "-.5"]),
        ("a-b", ["a-bc", "xa-b"], ["a-b-c", "(a-b)"]),
        ("$x", ["$xy"], ["a$x", "$x$x"]),
        ("@HOST@", [], ["x@HOST@y"]),
        ("Größe", ["Größen"], ["(Größe)"]),
    ],
)
def test_a_word_is_not_found_inside_a_longer_word_or_number(target, inside, beside):
    for text in inside:
        assert not _is_found(target, text), text
    for text in [*beside, target]:
        assert _is_found(target, text), text


def _is_found(target: str, text: str) -> bool:
    starts = [at for at in range(len(text)) if text.startswith(target, at)]
    assert starts, text
    return any(stands_alone(target, text, at) for at in starts)


@pytest.mark.parametrize(
    ("name", "line", "filled"),
    [
        ("a.c", r'printf("%d\n", d, n);', r'printf("%d\n", 7, 5);'),
        (
            "a.c",
            r'printf("%-d %+d %*d %.*d %1$d %%d", n);',
            r'printf("%-d %+d %*d %.*d %1$d %%7", 5);',
        ),
        ("a.c", r"c = '\n'; x = a %n;", r"c = '\n'; x = a %5;"),
        ("a.c", r'puts("C:\\n \\\n");', r'puts("C:\\5 \\\n");'),
        ("a.py", r'print("%d\n" % n, r"\d")', r'print("%d\n" % 5, r"\d")'),
        ("a.f90", "write(*,'(a)') 'n%d' ; p%d = n", "write(*,'(a)') '5%d' ; p%7 = 5"),
        ("a.js", r"s.split(/\n/); n", r"s.split(/\n/); 5"),
        ("a.txt", r"\n n", r"\5 5"),
    ],
)
def test_a_word_is_not_found_behind_a_backslash_or_percent_sign_of_a_string(
    tmp_path, name, line, filled
):
    start = {"a.c": "//", "a.js": "//", "a.f90": "!"}.get(name, "#")
    program = f"{start} ZEN$ SUBSTITUTE n = {{ 5 }}\n{start} ZEN$ SUBSTITUTE d = {{ 7 }} OPTIONAL\n"
    assert one(tmp_path, name, program + line + "\n").splitlines()[2] == filled


def test_match_text_finds_a_word_behind_a_backslash_too(tmp_path):
    program = '# ZEN$ SUBSTITUTE n = { 5 } MATCH TEXT\nprint("%d\\n")\n'
    assert one(tmp_path, "a.py", program).splitlines()[1] == 'pri5t("%d\\5")'


def test_match_text_finds_parts_of_words_and_regex_takes_its_group(tmp_path):
    program = (
        "# ZEN$ SUBSTITUTE host1 = { X } MATCH TEXT\n"
        '# ZEN$ SUBSTITUTE "^n *= *(\\d+)" = { 7 } MATCH REGEX AS n\n'
        '# ZEN$ SUBSTITUTE "z+$" = { e } MATCH REGEX AS z\n'
        "host10\nn = 12 n = 13\nm n = 1 zz\n"
    )
    assert one(tmp_path, "a.py", program).splitlines()[3:] == ["X0", "n = 7 n = 13", "m n = 1 e"]


def test_a_number_is_a_target_without_quotes_and_an_end_names_it(tmp_path):
    program = (
        "# ZEN$ SUBSTITUTE 0.8 = { 0.5, 1 } AS omega BEGIN\nx = 0.8 + 10.8 + 0.85\n# ZEN$ END 0.8\n"
        "# ZEN$ SUBSTITUTE 1e-3 = { 1e-6 } AS tol\ny = 0.8 * 1e-3\n"
    )
    wanted = "# ZEN: omega = 0.5\nx = 0.5 + 10.8 + 0.85\n# ZEN\n# ZEN: tol = 1e-6\ny = 0.8 * 1e-6\n"
    assert one(tmp_path, "a.py", program) == wanted


def test_thousands_of_targets_in_one_file_are_each_replaced(tmp_path):
    names = [f"t{i}" for i in range(3_000)]
    program = "".join(f"# ZEN$ SUBSTITUTE {name} = {{ <{name}> }}\n" for name in names)
    filled = one(tmp_path, "a.py", program + "\n".join(names)).splitlines()
    assert filled[3_000:] == [f"<{name}>" for name in names]


def test_a_regex_is_matched_line_by_line_whatever_ends_the_lines(tmp_path):
    program = '# ZEN$ SUBSTITUTE "^x$" = { y } MATCH REGEX AS x\r\nx\r\nxx\r\nx'
    assert one(tmp_path, "a.py", program) == "# ZEN: x = y\r\ny\r\nxx\r\ny"


def test_a_fixed_line_that_grows_beyond_column_72_is_an_error_with_its_place(tmp_path):
    line = "      X = LONG + " + "Y" * 50
    program = f"C ZEN$ SUBSTITUTE LONG = {{ A, ABCDEFGHIJ }}\n{line}\n      N = LONG ! {'c' * 70}\n"
    assert one(tmp_path, "a.f", program).splitlines()[1] == line.replace("LONG", "A")
    with pytest.raises(AnnotationError) as caught:
        one(tmp_path, "a.f", program, 1)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.place.line == 2
    assert diagnostic.place.text == line
    assert "with LONG = ABCDEFGHIJ this line has 73 columns" in diagnostic.message


def test_fixed_lines_that_were_too_long_already_and_comments_may_grow(tmp_path):
    program = (
        "C ZEN$ SUBSTITUTE N = { 1234567 }\nC N" + "c" * 80 + " N\n      X = N" + " " * 70 + "N\n"
    )
    assert "1234567" in one(tmp_path, "a.f", program).splitlines()[2]


@pytest.mark.parametrize(
    "directive",
    [
        "C ZEN$ ASSIGN q = {{ {} }}",
        '      ! ZEN$ ASSIGN q = {{ {} }} UNIT "a unit that makes the directive very long"',
        '*ZEN$ ASSIGN q = {{\n*ZEN$& {} }} UNIT "a unit that makes the directive very long"',
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_an_assignment_beyond_column_72_is_an_error_however_long_its_directive_is(
    tmp_path, directive, end
):
    fits, long = "(" + "x+" * 29 + "y)", "(" + "x+" * 30 + "y)"
    program = (directive.format(f'"{fits}", "{long}"') + "\n      end\n").replace("\n", end)
    assert f"      q = {fits}{end}" in one(tmp_path, "a.f", program)
    with pytest.raises(AnnotationError, match="this line has 73 columns") as caught:
        one(tmp_path, "a.f", program, 1)
    assert "this line has 73 columns" in str(lint(application(tmp_path, {"a.f": program})))
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.place.line == 1


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_target_at_the_end_of_a_fixed_file_is_filled_and_measured(tmp_path, end):
    line = "      X = Y" + "+Y" * 25 + "+LONG"
    program = f"C ZEN$ SUBSTITUTE LONG = {{ A, ABCDEFGHIJ }}\n{line}{end}"
    assert one(tmp_path, "a.f", program).splitlines()[1] == line.replace("LONG", "A")
    program = program.replace("      X", "      XYZUVW")
    with pytest.raises(AnnotationError, match="this line has 77 columns"):
        one(tmp_path, "a.f", program, 1)


def test_a_tab_of_fixed_form_leads_to_column_7(tmp_path):
    program = "C ZEN$ SUBSTITUTE N = { 1, 12 }\n\tX = N" + "+Y" * 30 + "Y\n"
    assert one(tmp_path, "a.f", program).splitlines()[1] == "\tX = 1" + "+Y" * 30 + "Y"
    with pytest.raises(AnnotationError, match="this line has 73 columns"):
        one(tmp_path, "a.f", program, 1)


def test_a_fixed_line_may_end_in_a_comment_beyond_column_72(tmp_path):
    program = "C ZEN$ SUBSTITUTE N = { 12345 }\n      X = N ! N " + "c" * 80 + "\n"
    assert "X = 12345 ! 12345 c" in one(tmp_path, "a.f", program)


def test_a_target_over_two_fixed_lines_counts_each_line_by_itself(tmp_path):
    hole = Hole("a", "A\n     &", "text", 1, 3, False, Place("<text>", 1, 1))
    source = Source.of(b"C\n      X = A\n     & + 1\n")
    files = Only(Annotated(source, "a.f", dialect_of("a.f"), (), (hole,)))
    assert Filler(files).files(Texts(a="B"))[0].content == b"C\n      X = B + 1\n"
    Filler(files).files(Texts(a="C" * 58))
    with pytest.raises(AnnotationError, match="73 columns"):
        Filler(files).files(Texts(a="C" * 59))


def test_an_assignment_of_fixed_form_begins_in_column_7(tmp_path):
    program = "C ZEN$ ASSIGN n = { 1 }\n* ZEN$ ASSIGN k = { 2 }\n         ! ZEN$ ASSIGN m = { 3 }\n"
    assert one(tmp_path, "a.f", program) == "      n = 1\n      k = 2\n         m = 3\n"


def test_a_text_that_the_encoding_lacks_is_an_error_with_place_and_hint(tmp_path):
    program = '# ZEN$ SUBSTITUTE n = { LINES("names") }\nn é\n'.encode("latin-1")
    with pytest.raises(AnnotationError) as caught:
        filled(tmp_path, {"a.py": program, "names": "名\n"})
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.place.line, diagnostic.place.column) == (1, 19)
    assert "a.py is in latin-1, which does not have the character '\\u540d'" in diagnostic.message
    assert "UTF-8" in diagnostic.hint


def test_a_study_file_fills_all_files_and_the_others_are_unchanged(tmp_path):
    files = {
        "study.zen": 'ZEN$ SUBSTITUTE HOST = { a }\nZEN$ RUN "true"\n',
        "x/run.sh": "HOST\n",
        "y.dat": b"HOST\0",
        "z.txt": "no host\n",
    }
    found = application(tmp_path, files)
    filler = Filler(found)
    changed = {f.path: f.content for f in filler.files(found.space.point(0))}
    assert changed["x/run.sh"] == b"a\n"
    assert "y.dat" not in changed
    assert {f.path for f in filler.unchanged} | set(changed) == {"x/run.sh", "y.dat", "z.txt"}
    assert changed.get("z.txt", b"no host\n") == b"no host\n"


def test_mode_bits_go_over_and_the_original_stays(tmp_path):
    script = tmp_path / "run.sh"
    script.write_text("#!/bin/sh\n# ZEN$ ASSIGN n = { 1 }\n")
    script.chmod(0o755)
    found = scan([script])
    (result,) = Filler(found).files(found.space.point(0))
    assert (result.path, result.mode) == ("run.sh", 0o755)
    assert script.read_text() == "#!/bin/sh\n# ZEN$ ASSIGN n = { 1 }\n"


def test_a_seed_comes_before_the_points_texts(tmp_path):
    program = "# ZEN$ SUBSTITUTE n = { 1 }\nn\n"
    assert filled(tmp_path, {"a.py": program}, n="9")["a.py"] == b"# ZEN: n = 9\n9\n"


@pytest.mark.parametrize(
    ("program", "hint"),
    [
        (
            "# ZEN$ SUBSTITUTE host1 = { a }\nhost10\n",
            "part of a longer word on line 2: MATCH TEXT",
        ),
        (
            "host1\n# ZEN$ SUBSTITUTE host1 = { a }\n",
            "it occurs on line 1, but the scope begins after the directive, and no line follows: move the directive above that line",
        ),
        (
            'n = 3\n# ZEN$ SUBSTITUTE "^n = (\\d+)" = { 5 } MATCH REGEX AS n\nm = 3\n',
            "it occurs on line 1, but the scope is line 3: move the directive above that line",
        ),
        (
            '# ZEN$ SUBSTITUTE n = { 5 }\nputs("%d\\n")\n',
            "it follows a backslash or % of a string on line 2: MATCH TEXT finds it there",
        ),
        ("# ZEN$ SUBSTITUTE hots1 = { a }\nhost1\n", "did you mean 'host1'?"),
        ('# ZEN$ SUBSTITUTE "x+" = { a } MATCH REGEX AS n\nhost1\n', "check the target's spelling"),
        (
            '# ZEN$ SUBSTITUTE "n=\\d+" = { n=1 } AS n\nhost1\nn=30\n',
            "as a regular expression it matches on line 3: write MATCH REGEX",
        ),
        ('# ZEN$ SUBSTITUTE "(n=" = { n=1 } AS n\nn=30\n', "check the target's spelling"),
    ],
)
def test_a_target_that_does_not_occur_is_a_complaint_with_the_likely_reason(
    tmp_path, program, hint
):
    (diagnostic,) = diagnostics(tmp_path, {"a.py": program})
    assert "does not occur in a.py" in diagnostic.message
    assert hint in diagnostic.hint
    assert "OPTIONAL" in diagnostic.hint
    optional = re.sub(r"(\}.*)\n", r"\1 OPTIONAL\n", program, count=1)
    assert application(tmp_path, {"a.py": optional}).space.size == 1


# Laws

texts = st.text(
    st.one_of(
        st.sampled_from("*/-->)}]#'\"\\\n\r\0\u2028%^|?{(<!é名"),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=12,
)
COMMENTED = [d for d in (*BUILT_IN, UNKNOWN) if d.openers and d.name != "zen"]


class Texts(dict):
    def text(self, name):
        return self[name]


def annotated(content, dialect, targets=(), match="word"):
    source = Source.of(content)
    lines = find(source, dialect).lines
    count = len(source.lines)
    place = Place("<text>", 2, 1)
    holes = tuple(Hole(t, t, match, 0, count, True, place) for t in targets)
    return Annotated(source, "a", dialect, lines, holes)


class Only:
    def __init__(self, *files):
        self.files, self.copied = files, ()


@settings(max_examples=settings.default.max_examples * 400 // 100)
@given(st.sampled_from(COMMENTED), st.data(), texts)
@example(dialect_of("a.c"), None, "a \\")
@example(dialect_of("a.ml"), None, '*)(*"')
@example(dialect_of("a.xml"), None, "--->-")
@example(dialect_of("a.bat"), None, "%PATH% & x ^")
def test_a_value_neither_closes_its_comment_nor_breaks_the_line(dialect, data, text):
    opener = data.draw(st.sampled_from(dialect.openers)) if data else dialect.opener
    closer = dialect.closers[opener]
    content = f"first\n{opener} ZEN$ SUBSTITUTE n = {{}} {closer}\nlast".encode()
    (result,) = Filler(Only(annotated(content, dialect, ["n"]))).files(Texts(n=text))
    first, comment, last = result.content.decode().splitlines()
    assert (first, last) == ("first", "last")
    assert comment.startswith(f"{opener} ZEN: n = ")
    shown = comment.removeprefix(f"{opener} ZEN: n = ")
    if closer:
        assert shown.endswith(f" {closer}")
        assert shown.count(closer) == 1
        shown = shown.removesuffix(closer)
        assert not set(dialect.fragile) & {s for s in dialect.fragile if s in shown}
    assert not shown.endswith("\\")
    assert "\0" not in shown
    if text.isascii() and text.isalnum():
        assert shown.strip() == text


@pytest.mark.parametrize("text", ["*/ int", "a \\", "a ??/", "\n int", "/*"])
def test_a_c_compiler_sees_nothing_of_a_value_in_a_comment(text, tmp_path):
    needs("gcc")
    for opener, closer in (("//", ""), ("/*", "*/")):
        content = f"{opener} ZEN$ SUBSTITUTE n = {{}} {closer}\nint x;\n".encode()
        target = annotated(content, dialect_of("a.c"), ["n"])
        hole = Hole("n", "n", "word", 0, 2, True, Place("<text>", 1, 1))
        target = Annotated(target.source, "a", target.dialect, target.lines, (hole,))
        (result,) = Filler(Only(target)).files(Texts(n=text))
        command = ["gcc", "-std=c99", "-Wall", "-Werror", "-E", "-P", "-x", "c", "-"]
        done = subprocess.run(command, input=result.content, capture_output=True, check=True)
        assert done.stdout.split() == [b"int", b"x;"]


ENCODINGS = {
    "utf-8": b"",
    "utf-8-sig": b"",
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
    "latin-1": b"",
}


@given(
    st.lists(st.tuples(st.text("abn é0.5\t", max_size=12), st.sampled_from(["\n", "\r\n", "\r"]))),
    st.sampled_from(sorted(ENCODINGS)),
    st.sampled_from(COMMENTED),
    st.text("abn", max_size=3),
)
def test_a_point_equal_to_the_sources_own_text_changes_only_directive_lines(
    parts, encoding, dialect, tail
):
    opener, closer = dialect.opener, dialect.closers[dialect.opener]
    directive = f"{opener} ZEN$ SUBSTITUTE n = {{ n }} {closer}\n"
    text = f"x\n{directive}" + "".join(line + end for line, end in parts) + tail
    content = ENCODINGS[encoding] + text.encode(encoding)
    targets = ["n", "ab", "0", "é"]
    (result,) = Filler(Only(annotated(content, dialect, targets, "text"))).files(
        Texts({t: t for t in targets})
    )
    comment = f"{opener} ZEN: n = n {closer}".rstrip() + "\n"
    wanted = ENCODINGS[encoding] + text.replace(directive, comment, 1).encode(encoding)
    assert result.content == wanted


def naive(text, targets):
    """One pass from the left, the longest target first, one character at a time."""
    out, at = "", 0
    while at < len(text):
        for target in sorted(targets, key=len, reverse=True):
            if text.startswith(target, at):
                out += targets[target]
                at += len(target)
                break
        else:
            out += text[at]
            at += 1
    return out


@given(
    st.text("abc\n", max_size=60),
    st.dictionaries(
        st.text("abc", min_size=1, max_size=4), st.text("abcX", max_size=4), min_size=1
    ),
)
def test_filling_equals_a_naive_twin(text, targets):
    files = annotated(text.encode(), UNKNOWN, targets, "text")
    (result,) = Filler(Only(files)).files(Texts(targets))
    assert result.content.decode() == naive(text, targets)
    assert len(occurrences(files)) == sum(1 for _ in _hits(text, targets))


def _hits(text, targets):
    at = 0
    while at < len(text):
        fits = [t for t in targets if text.startswith(t, at)]
        if fits:
            yield at
        at += len(max(fits, key=len)) if fits else 1


@settings(max_examples=settings.default.max_examples * 60 // 100, deadline=None)
@given(
    st.lists(texts, min_size=1, max_size=4, unique=True),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.booleans(),
    st.sampled_from(["a.py", "a.c", "a.f90", "a.lua", "a.yaml", "a.txt"]),
)
def test_a_scanned_study_puts_every_element_in_to_the_letter(values, end, final, name):
    values = [value.strip() or "x" for value in values]
    values = list(dict.fromkeys(values))
    opener = dialect_of(name).opener
    elements = ", ".join(f'"{_escaped(value)}"' for value in values)
    lines = [f"{opener} ZEN$ SUBSTITUTE hole = {{ {elements} }} TYPE str", "a hole; (hole)"]
    text = end.join([*lines, ""] if final else lines)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(text.encode())
        found = scan([path])
        filler = Filler(found)
        assert found.space.size == len(values)
        for i, value in enumerate(values):
            (result,) = filler.files(found.space.point(i))
            behind = result.content.decode()[result.content.decode().index("a ") :]
            body = split_lines(result.content.decode())[0]
            behind = result.content.decode()[len(body) :]
            assert behind == f"a {value}; ({value})" + (end if final else "")


def _escaped(text):
    return write_text(text + "'")[1:-2]


def test_what_a_file_has_by_itself_is_an_element_of_its_set_or_a_number(tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text(
        "#ZEN$ SUBSTITUTE 0.8 = { UNIFORM(0, 1) } AS real\n"
        "#ZEN$ SUBSTITUTE word = { LOGUNIFORM(1, 2) } AS none\n"
        "#ZEN$ SUBSTITUTE 07 = { 01:20 } AS padded\n"
        "#ZEN$ SUBSTITUTE 7 = { 01:20 } AS unpadded\n"
        '#ZEN$ SUBSTITUTE "k\\d" = { k7, k8 } AS pattern MATCH REGEX\n'
        "#ZEN$ SUBSTITUTE dep = { 1:padded } AS dependent\n"
        "#ZEN$ PARAM n = { 1 }\n"
        "x == 5; x, other_x = 9, 4\nx := 'b'; y\n#ZEN$ ASSIGN x = { a, b } AS quoted\nx = a\n"
        "0.8 word 07 7 k7 dep\n"
    )
    expected = {
        "real": 0.8, "none": None, "padded": 7, "unpadded": None, "pattern": None,
        "dependent": None, "quoted": "b",
    }  # fmt: skip
    application = scan(tmp_path / "a.py")
    assert own_values(application) == expected
    monkeypatch.setattr(parameters, "MOST_ELEMENTS", 20)
    assert own_values(application) == expected
    monkeypatch.setattr(parameters, "MOST_ELEMENTS", 19)
    # So large a set is not gone through: the text is its number.
    assert own_values(application) == {**expected, "unpadded": 7.0}
