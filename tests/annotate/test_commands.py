"""Values in commands: each stays one word for a real shell, or is refused."""

import contextlib
import re
import shlex
import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from zenturio.annotate.commands import (
    fill_command,
    outside_programs,
    undeclared_programs,
    unversioned_programs,
)
from zenturio.annotate.scan import scan
from zenturio.errors import AnnotationError, Passage, Place

HOSTILE = [
    "",
    " ",
    "a b",
    "$(id)",
    "`id`",
    ";rm -rf ~",
    "-rf",
    "'",
    '"',
    "\\",
    "a\\",
    "line\nline",
    "$HOME",
    "${HOME}",
    "~",
    "*",
    "#",
    "}",
    "{b}",
    "it's",
    "x=1",
    "if",
    "2",
    "Größe",
    "名\u2028前",
    "!!",
    "a'\"'b",
    "\t",
    "\r\n",
]
values = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12),
    st.text("'\"\\`$(){};#\n !ab1-", max_size=8),
)


def shell(command):
    """The words that printf is given, as the shell of RUN reads the command."""
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=False)
    assert done.returncode == 0, (command, done.stderr)
    return [word.decode() for word in done.stdout.split(b"\0")[:-1]]


# What stands before and behind a value, and how many words of printf's it then is.
CONTEXTS = [
    ("{a}", "{v}"),
    ("--n={a}", "--n={v}"),
    ("'{a}'", "{v}"),
    ("'x{a}y'", "x{v}y"),
    ('"{a}"', "{v}"),
    ('"x{a}y"', "x{v}y"),
    ("x{a}{a}y", "x{v}{v}y"),
    ("'x'{a}\"y\"", "x{v}y"),
    ('"$(printf %s {a})."', "{v}."),
    ('"$(printf %s {a}){a}"', "{v}{v}"),
    ('"$(printf %s "{a}")."', "{v}."),
    ("\"$(printf %s 'x{a}y')\"", "x{v}y"),
    ('"$(printf %s "$(printf %s {a})").{a}"', "{v}.{v}"),
    ('"$E{a}"', "e{v}"),
    ("$E{a}", "e{v}"),
    (r"\{a}{a}", "{{a}}{v}"),
    (r"\\{a}", "\\{v}"),
    ('"\\"{a}"', '"{v}'),
    ("{{a}}{a}", "{{a}}{v}"),
]


@settings(max_examples=settings.default.max_examples, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(CONTEXTS), values), min_size=1, max_size=4))
@example([(context, value) for context in CONTEXTS for value in HOSTILE])
def test_every_value_is_one_word_wherever_it_stands(pieces):
    pieces = [(c, v) for c, v in pieces if not _is_cut(c[0], v)]
    words, expected, texts = [], [], {}
    for i, ((written, wanted), value) in enumerate(pieces):
        words.append(written.replace("{a}", f"{{p{i}}}"))
        texts[f"p{i}"] = value
        expected.append(wanted.replace("{{a}}", f"\0{i}\0").replace("{v}", value))
    expected = [re.sub("\0(\\d+)\0", r"{p\1}", word) for word in expected]
    command = fill_command("E=e; printf '%s\\0' end " + " ".join(words), texts)
    assert shell(command) == ["end", *expected]


def _is_cut(written, value):
    """$(...) itself drops the newlines at the end of what it reads."""
    return "$(" in written and value.endswith("\n")


@given(values)
@settings(deadline=None, max_examples=settings.default.max_examples * 50 // 100)
def test_a_value_is_never_an_assignment_a_keyword_or_a_redirection(value):
    command = fill_command("f() { printf '%s\\0' \"$@\"; }; f {v}>&1", {"v": value})
    assert shell(command) == [value]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("  ", []),
        ("--tune psnr", ["--tune", "psnr"]),
        ("--title 'two words' -x", ["--title", "two words", "-x"]),
        ("$HOME `id` $(id) ;id", ["$HOME", "`id`", "$(id)", ";id"]),
        ("then 2", ["then", "2"]),
        ("''", [""]),
        ("a=b * ~ {b,c}", ["a=b", "*", "~", "{b,c}"]),
    ],
)
def test_a_value_of_several_words_is_these_words_and_nothing_else(text, expected):
    command = fill_command("printf '%s\\0' begin {v} end >&1", {"v": text}, {"v"})
    assert shell(command) == ["begin", *expected, "end"]
    quoted = fill_command("""printf '%s\\0' "{v}" """, {"v": text}, {"v"})
    assert shell(quoted) == [text]


@given(st.lists(values, max_size=3))
@settings(deadline=None, max_examples=settings.default.max_examples * 50 // 100)
def test_words_that_a_shell_would_quote_are_taken_back_from_their_quotes(words):
    command = fill_command("printf '%s\\0' begin {v}>&1", {"v": shlex.join(words)}, {"v"})
    assert shell(command) == ["begin", *words]


def test_words_with_an_open_quote_are_refused():
    with pytest.raises(AnnotationError, match="whose quotes are not closed"):
        fill_command("./a {v}", {"v": "--title 'two"}, {"v"})


@pytest.mark.parametrize(
    ("command", "filled"),
    [
        ("./matmul {n}", "./matmul 128"),
        ("echo ${n} $n {m} {}", "echo ${n} $n {m} {}"),
        ("awk '{print $1 * {n}}' {{n}}", "awk '{print $1 * 128}' {n}"),
        ("awk '{{print {n}}}'", "awk '{print 128}'"),
        ("awk '{if (x) {y}}'", "awk '{if (x) {y}}'"),
        ("echo '${n}' # {n}", "echo '${n}' # {n}"),
        ("echo ${x:-{n}} ${#x} $#{n}", "echo ${x:-{n}} ${#x} $#'128'"),
        ("echo $(( {n} + 1 ))", "echo $(( 128 + 1 ))"),
        ("for ((i=0; i<{n}; i++)); do :; done", "for ((i=0; i<128; i++)); do :; done"),
        ("cat {n} <<E\nbody\nE", "cat 128 <<E\nbody\nE"),
        ("cat <<< {n}", "cat <<< 128"),
        ("echo 'unclosed {n}", "echo 'unclosed 128"),
        ("(cd x; ./a {n})", "(cd x; ./a 128)"),
        ("{block-size} {Größe}", "4 '5 m'"),
    ],
)
def test_commands_read_as_written(command, filled):
    assert fill_command(command, {"n": "128", "block-size": "4", "Größe": "5 m"}) == filled


@pytest.mark.parametrize(
    ("command", "value", "column"),
    [
        ("echo `cat {n}`", "1", 11),
        ("echo $'{n}'", "1", 8),
        (r"echo $'\'' {n}", "1", 12),
        ("cat <<E\n{n}\nE", "1", 9),
        ("echo $(( {n} ))", "a[$(id)]", 10),
        ("(( {n} ))", "1 + 1", 4),
        ("echo $[ {n} ]", "1", 9),
        ('echo "$(case a in a) echo {n};; esac)"', "1", 27),
        ("echo ${x:-'}'} {n}", "1", 16),
        ("echo {n}", "a\0b", 6),
    ],
)
def test_where_no_quoting_is_safe_the_value_is_refused_with_its_place(command, value, column):
    place = Place("job.sh", 7, 1, command)
    with pytest.raises(AnnotationError) as caught:
        fill_command(Passage(command, ((0, place),)), {"n": value})
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.place.file, diagnostic.place.line, diagnostic.place.column) == (
        "job.sh",
        7,
        column,
    )
    assert diagnostic.hint


@given(st.text("{}$'\"\\`()#<n \n", max_size=20))
@settings(max_examples=settings.default.max_examples * 300 // 100)
def test_any_command_is_filled_or_refused_and_without_values_only_loses_doubled_braces(text):
    with contextlib.suppress(AnnotationError):
        fill_command(text, {"n": "$(id)"})
    if "{{" not in re.sub(r"\\.", "", text):
        assert fill_command(text, {}) == text


@pytest.mark.parametrize(
    "piece", ["{", "{{", "${", "`{", "'{", '"{', "$({", "$(case {", "$[{", "{n", "<<{"]
)
def test_a_command_full_of_open_braces_is_read_in_one_walk(piece):
    # Where each brace looked for its partner anew, some of these took minutes.
    command = piece * (100_000 // len(piece))
    assert fill_command(command, {"n": "1"}) == command


@given(st.text(alphabet="{}nm ", max_size=30))
def test_a_name_stands_where_the_next_brace_closes_it(text):
    naive, at = "", 0
    text = re.sub(r"([{}])\1+", r"\1", text)  # doubled ones mean something else
    while at < len(text):
        end = text.find("}", at)
        name = text[at + 1 : end] if text[at] == "{" and end > 0 else ""
        naive += {"n": "1", "n m": "2"}.get(name, text[at])
        at += len(name) + 2 if name in ("n", "n m") else 1
    assert fill_command(text, {"n": "1", "n m": "2"}) == naive


def test_programs_of_builds_and_runs_are_those_outside_of_the_folder(tmp_path, monkeypatch):
    tools, folder = tmp_path / "tools", tmp_path / "app"
    for place in (tools / "sim", tools / "cc", tools / "other", folder / "own", folder / "a.sh"):
        place.parent.mkdir(exist_ok=True)
        place.write_text("#!/bin/sh\n")
        place.chmod(0o755)
    (tools / "data").write_text("not executable")
    (folder / "linked").symlink_to(tools / "sim")
    monkeypatch.setenv("PATH", str(tools))
    (folder / "a.sh").write_text(
        '# ZEN$ BUILD "A=1 B=x cc -o own; sim"\n# ZEN$ USE PROGRAM "sim"\n# ZEN$ USE VERSION "cc -v"\n'
        + "".join(
            f'# ZEN$ RUN "{run}"\n'
            for run in (
                "sim {n}", "./own", "./linked", "../tools/other", "../tools/data", "missing",
                "cd x", "sh a.sh", "../tools", "$sim",
            )
        )
        + "# ZEN$ PARAM n = { 1 }\n"
    )  # fmt: skip
    application = scan(folder)
    outside = {
        "cc": tools / "cc", "sim": tools / "sim", "./linked": folder / "linked",
        "../tools/other": folder / "../tools/other",
    }  # fmt: skip
    assert outside_programs(application) == outside
    del outside["sim"]
    assert undeclared_programs(application) == outside
    del outside["cc"]
    assert unversioned_programs(application) == outside
