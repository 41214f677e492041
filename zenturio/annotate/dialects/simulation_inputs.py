"""The dialects of inputs of simulation codes."""

from __future__ import annotations

from zenturio.annotate.dialects import dialect as v
from zenturio.annotate.dialects.dialect import Dialect

DIALECTS: tuple[Dialect, ...] = (
    Dialect(
        "lammps",
        (".lmp", ".lammps"),
        names=("in.*",),
        line=("#",),
        verbatim=(v.RAW_TRIPLE, v.PLAIN_DOUBLE, v.PLAIN_SINGLE),
        form="variable {target} equal {text}",
    ),
    Dialect("gromacs", (".mdp", ".top", ".itp"), line=(";",)),
    Dialect("gaussian", (".gjf", ".com", ".gau"), line=("!",), form="%{target}={text}"),
    Dialect("vasp", names=("INCAR", "INCAR.*"), line=("#", "!")),
    Dialect(
        "quantum espresso",
        (".pwi", ".phi", ".cpi"),
        line=("!", "#"),
        verbatim=(v.PLAIN_DOUBLE, v.PLAIN_SINGLE),
    ),
    Dialect("nwchem", (".nw",), line=("#",), form="set {target} {text}"),
    Dialect("nastran", (".bdf", ".nas"), line=("$",)),
    # Decks of Abaqus and CalculiX end in .inp, as those of other programs do.
    Dialect("abaqus", line=("**",), form=None),
    Dialect("geant4", (".mac",), line=("#",), form="/control/alias {target} {text}"),
)
