"""What happened to failed experiments: the same words for the same fault."""

import pytest

from zenturio.experiment import Log, experiment
from zenturio.experiment.experiment import describe_failure, log_end, written_failure
from zenturio.regular_expressions import SlowPatternError

PYTHON = """\
loading /tmp/work/{digest}/mesh.dat
Traceback (most recent call last):
  File "/tmp/work/{digest}/run.py", line {n}, in <module>
    main()
  File "/tmp/work/{digest}/run.py", line 3, in main
    1 / 0
ZeroDivisionError: division by zero

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/tmp/work/{digest}/run.py", line 1, in <module>
    raise Diverged
__main__.Diverged: residual {n}.5e-{n} in step {n} of mesh /tmp/work/{digest}/mesh.dat
  it had two lines
Exception ignored in: <_io.TextIOWrapper>
"""


def cause(stderr, begin="exit 1"):
    data = stderr if isinstance(stderr, bytes) else stderr.encode()
    return describe_failure(begin, Log(data, b"", len(data)))


@pytest.mark.parametrize(
    ("stderr", "line"),
    [
        (PYTHON.format(digest="0f" * 16, n=7), "__main__.Diverged: residual # in step # of mesh mesh.dat"),
        ("step 3 done\nsingular matrix at step 17\n\n", "singular matrix at step #"),
        ("  File 'a.py', line 1\n    f(\n     ^\nSyntaxError: '(' was never closed\n", "SyntaxError: '(' was never closed"),
        ("a.c:5:3: error: expected ';' before '}' token\n    5 | }\n      | ^\nmake[1]: *** [Makefile:3: all] Error 1\nmake: Leaving directory '/tmp/x'\n", "a.c:#:#: error: expected ';' before '}' token"),
        ("make: *** No rule to make target 'prog'.  Stop.\n", "make: *** No rule to make target 'prog'. Stop."),
        ("ld: x.o: undefined reference to `foo'\ncollect2: error: ld returned 1 exit status\n", "ld: x.o: undefined reference to `foo'"),
        ("At line 5 of file a.f90\nFortran runtime error: End of file\n\nError termination. Backtrace:\n#0  0x7f11\n#1  0x7f22 in main\n", "Fortran runtime error: End of file"),
        ('Exception in thread "main" java.lang.RuntimeException: x\n\tat A.main(A.java:3)\nCaused by: java.io.IOException: disk\n\t... 3 more\n', "Caused by: java.io.IOException: disk"),
        ("/t/x.js:1\nthrow Error()\n^\n\nError: boom\n    at f (x.js:1)\n\nNode.js v18.1.0\n", "Error: boom"),
        ("panic: boom 3\n\ngoroutine 1 [running]:\nmain.main()\n\t/x.go:4 +0x1d\nexit status 2\n", "panic: boom #"),
        ("thread 'main' panicked at src/main.rs:2:5:\nboom\nnote: run with `RUST_BACKTRACE=1`\n", "boom"),
        ("free(): invalid pointer\nsh: line 1: 4711 Aborted                 (core dumped) ./p\n", "free(): invalid pointer"),
        ("\x1b[31mERROR\x1b[0m: node 0xdeadbeef lost\rbad\t\x07line 3\n=====\n", "bad line #"),
        ('The source "/h/p3/w/a/0/CMakeLists.txt" does not match the source "/h/p3/CMakeLists.txt"', 'The source "p3/w/a/#/CMakeLists.txt" does not match the source "p3/CMakeLists.txt"'),
        ("cannot link /a/x to /b/x: /c/y", "cannot link /a/x to /b/x: y"),
        ("KeyError: 'n'\n", "KeyError: 'n'"),
        ("# Error: no file 12\n", "Error: no file #"),
        ("[12:4711] ERROR: diverged\n", "ERROR: diverged"),
        ("2026-11-20 14:03:22,123 ERROR diverged at 3\n", "ERROR diverged at #"),
        ("2026-11-20T14:03:22Z boom\n", "boom"),
        ("[3]: 12: oops\n", "oops"),
        ("3 of 10 tests failed\n", "# of # tests failed"),
        ("12\n", "#"),
        ("expected float64, not x1\n", "expected float64, not x1"),
        (b"caf\xe9 failed", "caf\\xe9 failed"),
        ("effaced deadbeefcc, 12ab34cd/7 at x", "effaced deadbeefcc, #/# at x"),
        ("panic: of a program\nthat goes on\n", "that goes on"),
        ("Traceback (most recent call last):\n in a frame\nDiverged: x\n", "Diverged: x"),
        ("ls: unrecognized option '--x'\nTry 'ls --help' for more information.\n", "ls: unrecognized option '--x'"),
        ("Parse error: option 'n' is there twice\nsee below\n\nCorrect usage:\n\nInput:\n  --n arg     a number\n  --error     more\n", "Parse error: option 'n' is there twice"),
        ("dock: no file a.conf\nusage: dock FILE\n", "dock: no file a.conf"),
        ("usage: dock FILE\n  -h     help\n", "-h help"),
        ("x" * 500, "x" * 117 + "..."),
        ("x" * 121, "x" * 117 + "..."),
        ("x" * 120, "x" * 120),
    ],
)  # fmt: skip
def test_the_line_that_says_what_happened_is_part_of_the_cause(stderr, line):
    assert cause(stderr) == f"exit 1: {line}"


def test_a_cause_is_shown_with_its_numbers_as_written():
    log = Log(b"sh: 0: cannot open /w/a/a.sh\n", b"", 30)
    pattern = describe_failure("exit 2", log)
    assert pattern == "exit 2: sh: #: cannot open a.sh"
    assert written_failure(pattern, log) == "exit 2: sh: 0: cannot open a.sh"
    assert written_failure("timeout", log) == "timeout"


def test_a_line_that_takes_too_long_to_read_says_nothing(monkeypatch):
    def slow(_line):
        raise SlowPatternError("too slow")

    monkeypatch.setattr(experiment, "_normalized", slow)
    log = Log(b"boom\n", b"", 5)
    assert describe_failure("exit 2", log) == "exit 2"
    assert written_failure("exit 2: boom", log) == "exit 2: boom"


@pytest.mark.parametrize(
    "stderr",
    ["", "\n \n", "-----\n", "Segmentation fault\n", "sh: line 2:  4711 Segmentation fault      (core dumped) ./a.out 3\n", "make: *** [all] Error 1\n"],
)  # fmt: skip
def test_what_says_nothing_adds_nothing(stderr):
    assert cause(stderr, "exit 139 (SIGSEGV)") == "exit 139 (SIGSEGV)"


def test_points_steps_and_folders_make_no_other_cause():
    first, other = (PYTHON.format(digest=d, n=n) for d, n in (("0f3a" * 8, 3), ("77e1" * 8, 12)))
    assert cause(first) == cause(other)
    assert cause("NameError: a") != cause("FloatingPointError: a")


@pytest.mark.parametrize(
    ("line", "count", "expected"),
    [
        ("=", 2**22, "exit 1"),
        ("a/", 2**21, "exit 1: a/a/"),
        (" \n", 2**21, "exit 1"),
        ("1", 2**22, "exit 1: #"),
        ("make: ", 2**20, "exit 1: ke: make: "),
        ("\n1 |", 2**19, "exit 1"),
        ("panic: \n", 2**19, "exit 1: panic:"),
        ("a: ", 2**20, "exit 1: a: a: "),
        ("/", 2**22, "exit 1"),
    ],
)
def test_a_log_of_megabytes_is_explained_in_a_short_line(line, count, expected):
    # No clock: an expression that backtracks takes hours here, and the time limit of tests ends it.
    explanation = cause(line * count)
    assert explanation.startswith(expected)
    assert len(explanation) <= len("exit 1: ") + 120


def test_the_end_of_a_log_is_that_of_stderr_if_it_says_anything():
    out, err = Log(b"1\n2\n3\n", b"", 6), Log(b"a\nb\nc\n\n", b"", 7)
    assert log_end(err, out, 2) == ("stderr", "b\nc")
    assert log_end(Log(b" \n"), out, 2) == ("stdout", "2\n3")
    assert log_end(Log(), Log(b"x", b"y\nz", 900), 5) == ("stdout", "y\nz")
    assert log_end(Log(), Log(), 5) == ("", "")
    compiled = (
        b"a.c\nline 11: Syntax Error (f)\n" + b"unknown f\n" * 9 + b"line 99: error: too many\n"
    )
    shown = "line 11: Syntax Error (f)\n...\nunknown f\nunknown f\nline 99: error: too many"
    assert log_end(Log(compiled), out, 5) == ("stderr", shown)
    # Of four lines two are left for the last ones; of three the last ones alone are shown.
    first, _, last = shown.split("\n", 2)[0], *shown.rsplit("\n", 1)
    assert log_end(Log(compiled), out, 4) == ("stderr", f"{first}\n...\nunknown f\n{last}")
    assert log_end(Log(compiled), out, 3) == ("stderr", f"unknown f\nunknown f\n{last}")
    assert log_end(Log(b"error: a\nb\nc"), out, 5) == ("stderr", "error: a\nb\nc")
    coloured = Log(b"\x1b[0;31m  ***  \x1b[1mat top\x1b[0m \x1b]0;title\x07end\x1b[K")
    assert log_end(coloured, out, 5) == ("stderr", "  ***  at top end")
