"""The table of dialects: how files are recognized, and what an assignment looks like."""

import dataclasses
import shlex
import subprocess
from importlib.metadata import EntryPoint

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zenturio import plugins
from zenturio.annotate.dialects import (
    BUILT_IN,
    UNKNOWN,
    Dialect,
    dialect_of,
    dialect_registry,
    known,
    named,
)

EVERY = pytest.mark.parametrize("dialect", [*BUILT_IN, UNKNOWN], ids=lambda d: d.name)


@pytest.mark.parametrize(
    ("path", "first_line", "name"),
    [
        ("a.c", "", "c"),
        ("a.h", "", "c"),
        ("a.C", "", "c++"),
        ("a.cu", "", "cuda"),
        ("a.f", "", "fixed fortran"),
        ("a.F", "", "fixed fortran"),
        ("a.f90", "", "fortran"),
        ("a.F90", "", "fortran"),
        ("a.m", "x = 1; % MATLAB", "matlab"),
        ("a.m", "#import <Foundation/Foundation.h>", "objective-c"),
        ("a.m", "(* ::Package:: *)", "mathematica"),
        ("a.pl", "use strict;", "perl"),
        ("a.pl", ":- module(a, []).", "prolog"),
        ("a.v", "module top;", "verilog"),
        ("a.v", "Require Import Arith.", "coq"),
        ("a.ts", "<?xml version='1.0'?>", "xml"),
        ("a.ts", "let x = 1;", "javascript"),
        ("a.R", "", "r"),
        ("a.r", "", "r"),
        ("dir/Makefile", "", "make"),
        ("Makefile.inc", "", "make"),
        ("CMakeLists.txt", "", "cmake"),
        ("Dockerfile.gpu", "FROM x", "dockerfile"),
        ("config.h.in", "", "c"),
        ("job.sbatch", "", "shell"),
        ("job", "#!/bin/bash -l", "shell"),
        ("job", "#!/usr/bin/env -S python3.11 -u", "python"),
        ("job", "#!/usr/bin/env A=b /opt/bin/julia", "julia"),
        ("job", "\ufeff#!/bin/sh", "shell"),
        ("job.py", "#!/bin/sh", "python"),
        ("in.melt", "units lj", "lammps"),
        ("in.py", "", "python"),
        ("run.mdp", "", "gromacs"),
        ("x.gjf", "", "gaussian"),
        ("input.nml", "", "namelist"),
        ("input", "&control", "namelist"),
        ("INCAR", "", "vasp"),
        (".env", "", "dotenv"),
        ("a.json", "", "data"),
        ("a.json.zen", "", "zen"),
        ("study.zen", "", "zen"),
        ("a", "-*- mode: Fortran -*-", "fortran"),
        ("newton.mac", "/*ZEN$ RUN", "maxima"),
        ("newton.mac", "x : 1$", "maxima"),
        ("run.mac", "/run/beamOn 10", "geant4"),
        ("run.cmd", "@echo off", "batch"),
        ("run.cmd", "SETLOCAL", "batch"),
        ("line.cmd", 'model in "line.bug"', "text"),
        ("plate.geo", "h = 0.1;", "gmsh"),
        ("a.gp", "\\\\ ZEN$ PARAM", "pari"),
        ("a.gp", "/* ZEN$ PARAM", "pari"),
        ("a.gp", "set terminal svg", "gnuplot"),
        ("beam.inp", "** a beam", "abaqus"),
        ("beam.inp", "*HEADING", "abaqus"),
        ("cp2k.inp", "&GLOBAL", "namelist"),
        ("orca.inp", "* xyz 0 1", "text"),
        ("a.lp", "\\ a knapsack", "lp"),
        ("a.lp", "max: 3 x + 2 y;", "lp"),
        ("a.lp", "Maximize", "lp"),
        ("a.lp", "% queens", "clingo"),
        ("a.lp", "row(1..n).", "clingo"),
        ("a.txt", "", "text"),
        ("a", "", "text"),
    ],
)
def test_a_file_is_recognized_by_name_ending_or_first_line(path, first_line, name):
    assert dialect_of(path, first_line).name == name


def test_there_are_many_dialects_and_no_two_claim_one_ending():
    assert len(BUILT_IN) > 90
    assert len({d.name for d in BUILT_IN}) == len(BUILT_IN)
    endings = [ending for d in BUILT_IN for ending in d.endings]
    assert len(set(endings)) == len(endings)
    assert {name for choices in dialect_registry._SHARED.values() for _, name in choices} <= {
        d.name for d in (*BUILT_IN, UNKNOWN)
    }


@EVERY
def test_every_row_holds_together(dialect):
    assert dialect.head.match("zen") is None or "" in dialect.openers
    assert set(dialect.openers) == set(dialect.closers)
    assert dialect.opener in dialect.openers or not dialect.openers
    if dialect.constructs is not None:
        dialect.constructs.search("x" * 100)
    for opener in dialect.openers:
        found = dialect.head.match(f"{opener} ZEN$ PARAM n {dialect.closers[opener]}")
        assert found
        assert found["rest"].startswith("ZEN$")
    if dialect.form is not None:
        written = dialect.assign("{text}", "{target}")
        assert written.count("{text}") == 1
        assert dialect.quote("{target}") in written


@pytest.mark.parametrize(
    ("name", "target", "text", "written"),
    [
        ("c", "n", "128", "n = 128;"),
        ("c++", "v[0]", "'\"a\"'", "v[0] = '\"a\"';"),
        ("python", "n", "128", "n = 128"),
        ("fortran", "n", "128", "n = 128"),
        ("rust", "n", "128", "n = 128;"),
        ("go", "n", "128", "n = 128"),
        ("shell", "n", "128", "n=128"),
        ("shell", "n", "a b", "n='a b'"),
        ("make", "N", "a$b#c", "N = a$$b\\#c"),
        ("cmake", "N", "128", "set(N 128)"),
        ("cmake", "N", 'a "b" ${c}', 'set(N "a \\"b\\" \\${c}")'),
        ("dockerfile", "N", "a b", 'ENV N="a b"'),
        ("batch", "N", "50%", 'set "N=50%%"'),
        ("powershell", "n", "128", "$n = 128"),
        ("perl", "n", "128", "$n = 128;"),
        ("perl", "@a", "(1, 2)", "@a = (1, 2);"),
        ("php", "$n", "128", "$n = 128;"),
        ("tex", "n", "128", "\\def\\n{128}"),
        ("tex", "\\n", "128", "\\def\\n{128}"),
        ("r", "n", "128", "n <- 128"),
        ("ada", "n", "128", "n := 128;"),
        ("pascal", "n", "128", "n := 128;"),
        ("yaml", "n", "128", "n: 128"),
        ("lisp", "n", "128", "(setq n 128)"),
        ("scheme", "n", "128", "(set! n 128)"),
        ("sql", "n", "128", "SET n = 128;"),
        ("m4", "n", "128", "define(`n', `128')dnl"),
        ("assembler", "n", "128", ".set n, 128"),
        ("lammps", "n", "128", "variable n equal 128"),
        ("gaussian", "mem", "4GB", "%mem=4GB"),
        ("openfoam", "endTime", "10", "endTime 10;"),
        ("tcl", "n", "a [b] {", 'set n "a \\[b\\] \\{"'),
        ("fish", "n", "it's", "set n 'it\\'s'"),
        ("jinja", "n", "128", "{% set n = 128 %}"),
    ],
)
def test_an_assignment_is_what_a_programmer_writes(name, target, text, written):
    assert named(name).assign(target, text) == written


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=10))
@settings(max_examples=settings.default.max_examples * 50 // 100, deadline=None)
def test_a_shell_gets_every_text_as_it_is(text):
    script = named("shell").assign("n", text) + '\nprintf %s "$n"'
    done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, check=True)
    assert done.stdout.decode() == text
    assert shlex.split(named("shell").assign("n", text)) == [f"n={text}"]


@pytest.mark.parametrize("name", ["xml", "markdown", "data", "zen"])
def test_some_files_have_no_assignment(name):
    assert named(name).form is None


def test_a_plug_in_adds_a_dialect_and_comes_before_the_built_in_ones(monkeypatch):
    point = EntryPoint("brainfuck", f"{__name__}:BRAINFUCK", "zenturio.dialects")
    monkeypatch.setattr(plugins, "_entry_points", lambda kind: {"brainfuck": (point,)})
    for cached in (known, dialect_registry._index):
        cached.cache_clear()
    try:
        assert dialect_of("a.bf") is BRAINFUCK
        assert dialect_of("a.c") is BRAINFUCK
        assert dialect_of("a.py").name == "python"
    finally:
        for cached in (known, dialect_registry._index):
            cached.cache_clear()


BRAINFUCK = Dialect("brainfuck", (".bf", ".c"), line=("*",), form=None)


def test_a_row_is_a_value():
    assert dataclasses.replace(named("c")) == named("c")
