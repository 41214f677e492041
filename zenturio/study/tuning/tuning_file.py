"""A sweep of an engine's settings, written down as an annotated file: a study like any other."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from zenturio.annotate.model import Application
from zenturio.annotate.scan import scan
from zenturio.search import Direction
from zenturio.study.tuning.setting_ranges import Ranges
from zenturio.study.tuning.tuning_target import Target, TunedFunction

ENDING = ".tune"
SEED = "seed"

_METRICS = """\
#ZEN$ METRIC best
#ZEN$ METRIC first OPTIONAL
#ZEN$ METRIC visited UNIT "points"
#ZEN$ METRIC needed UNIT "points"
#ZEN$ METRIC improvement := 0.0 if best == first else {improvement} OPTIONAL
"""


@dataclass(frozen=True)
class Tuning:
    """What is tuned, for what, and how often each setting is tried."""

    target: Target
    engine: str
    ranges: Ranges
    repeats: int = 30
    budget: str = ""
    """Of each search, as ``--budget`` says it."""
    seed: int = 1
    """Of the first repeat; each later one has the next."""
    optimum: float | None = None
    """What the best is known to be; if nothing is, the best that was found."""
    name: str = ""

    @property
    def study(self) -> str:
        """What the study is called; a name that SQL takes as it is, where the target's is one."""
        return self.name or f"{self.target.name}_{re.sub('[^a-zA-Z0-9]', '_', self.engine)}"

    @property
    def direction(self) -> Direction:
        return self.target.direction

    def setting(self, values: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
        """The settings of the engine among the *values* of an experiment, and the seed."""
        return {name: values[name] for name in self.ranges.sets}, int(values[SEED])

    def with_optimum(self, optimum: float) -> Tuning:
        """The same, when the best is known."""
        return replace(self, optimum=optimum)

    def text(self) -> str:
        """The annotated file. What its experiments depend on stands in it, and makes them known."""
        lines = [
            f"# Which settings of {self.engine} are best for {_line(self.target.name)}: each",
            "# experiment is one search, and its metrics say how good that was: the best and the",
            "# first value (of the first generation), the points visited, and those needed to find",
            "# the best. Written by zen tune; what is searched is of the form",
            f"# {self.target.identity()}",
            *(f"#ZEN$ PARAM {name} = {text}" for name, text in self.ranges.sets.items()),
            f"#ZEN$ PARAM {SEED} = {{ {self.seed} }}",
            f"#ZEN$ REPEAT {self.repeats} SEED {SEED}",
            f'#ZEN$ RUN "{self._command()}"',
        ]
        change = _relative("best", "first")
        return "\n".join([*lines, _METRICS.format(improvement=change) + self._aim(), ""])

    def application(self, folder: Path) -> Application:
        """Writes the file into *folder*, unless it stands there, and reads it."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / (re.sub(r"[^\w.-]", "-", self.study) + ENDING)
        text = self.text()
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
        return scan(path)

    def _command(self) -> str:
        """The command that makes one of the searches."""
        words = ["zen", "tune", self.target.words, "--engine", self.engine, "--once"]
        if self.budget:
            words += ["--budget", self.budget]
        goal = self._goal()
        plain = [shlex.quote(word) for word in [*words, "--objective", goal]]
        escaped = " ".join(plain).replace("{", "{{").replace("}", "}}")
        settings = ",".join(f"{name}={{{name}}}" for name in self.ranges.sets)
        escaped += f" --settings {settings} --seed {{seed}}"
        return escaped.replace("\\", "\\\\").replace('"', '\\"')

    def _goal(self) -> str:
        if isinstance(self.target, TunedFunction):
            return self.direction.upper()
        return f"{self.direction.upper()} {self.target.goal.expression.text}"

    def _aim(self) -> str:
        if self.optimum is None:
            return f"#ZEN$ OBJECTIVE {self.direction.upper()} best"
        optimum = f"({self.optimum!r})"
        # Nothing can be said in shares of an optimum of 0, but of the way that leads to it.
        off = (
            _relative("best", optimum) if self.optimum else "abs(best) / max(abs(best), abs(first))"
        )
        return (
            f"#ZEN$ METRIC precision := 1.0 if best == {optimum} else 1 - {off}\n"
            "#ZEN$ OBJECTIVE MAXIMIZE precision"
        )


def _relative(one: str, other: str) -> str:
    """How far two numbers are apart, as a share of the greater one."""
    return f"abs({one} - {other}) / max(abs({one}), abs({other}))"


def _line(text: str) -> str:
    return " ".join(text.split())
