"""The settings of an engine, tuned: what was tried, what is recommended, and what matters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from zenturio.record import Repository
from zenturio.search import Directions, describe
from zenturio.show.study import Study, open_or_use
from zenturio.space import Space
from zenturio.study.driver.progress import RunProgress
from zenturio.study.local_run import PlaceOptions, choose_any_machine
from zenturio.study.tuning.setting_ranges import read_ranges
from zenturio.study.tuning.tune import CompletedTuning
from zenturio.study.tuning.tune import tune as run_tuning
from zenturio.study.tuning.tuning_file import Tuning
from zenturio.study.tuning.tuning_target import TunedFunction

if TYPE_CHECKING:
    import pandas as pd

    from zenturio.query import Importances, Recommendation
    from zenturio.query.recommending import RankedSetting

PRECISION_METRIC = "precision"
COST_METRICS = ("visited", "needed")


@dataclass(frozen=True)
class TuningResult:
    """What a tuning found; all that it tried is an ordinary study."""

    tuned: CompletedTuning
    study: Study

    @cached_property
    def table(self) -> pd.DataFrame:
        """A row for each search that counts: of one kind of machine, where several have some."""
        table = self.study.frame()
        machine = self.tuned.machine
        if machine not in table.attrs["machines"]:
            return table
        return self.study.frame(machine=machine)

    def frame(self) -> pd.DataFrame:
        """A row for each search: the settings, the seed, and what it came to."""
        return self.table.copy()

    @cached_property
    def recommendation(self) -> Recommendation:
        """All settings, the best first, with those that cannot be told from it."""
        from zenturio.query import recommend  # noqa: PLC0415 - pandas takes its time

        return recommend(self.table, PRECISION_METRIC, COST_METRICS, self.swept or self.names)

    @property
    def recommended(self) -> RankedSetting:
        """The setting whose precision is best, and how sure that is."""
        return self.recommendation.best

    @cached_property
    def importances(self) -> Importances | None:
        """How much of the differences in precision goes with each setting; none if none varies."""
        from zenturio.query import importances  # noqa: PLC0415

        return importances(self.table, PRECISION_METRIC, self.swept) if self.swept else None

    @property
    def names(self) -> tuple[str, ...]:
        """The settings that the tuning names."""
        return tuple(self.tuned.tuning.ranges.sets)

    @cached_property
    def swept(self) -> tuple[str, ...]:
        """Those that have several values."""
        table = self.table
        return tuple(name for name in self.names if table[name].nunique(dropna=False) > 1)


def tune(
    space: Space,
    objective: Callable[..., Any],
    goals: str = "minimize",
    engine: str = "ga",
    *,
    settings: Mapping[str, Any] | str = "",
    repeats: int = 30,
    budget: int | str | None = None,
    optimum: float | None = None,
    sample: int | None = None,
    seed: int = 1,
    jobs: int | None = None,
    name: str = "",
    machine: str = "same",
    db: str | Repository | None = None,
    listener: Callable[[RunProgress], None] = lambda _progress: None,
) -> TuningResult:
    """Try the *settings* of an *engine* on searches of *space*, and say which are best.

    *objective* is a function of a point, or a compiled one of a row of genes, as ``search`` takes
    it. Each combination of settings is tried *repeats* times, with seeds of its own; *settings*
    are sets by name (``{"population": [50, 100], "elite": "0:4"}``). What was searched before is
    not searched again, unless another kind of machine did: these count with *machine* ``any``.
    """
    (direction,) = Directions(goals).names
    called = str(getattr(objective, "__name__", type(objective).__name__))
    module = getattr(objective, "__module__", None) or "__main__"
    target = TunedFunction(objective, space, direction, called, f"{module}:{called}")
    written = [settings] if isinstance(settings, str) else settings
    ranges = read_ranges(describe(engine), written)
    spent = "" if budget is None else str(budget)
    tuning = Tuning(target, engine, ranges, repeats, spent, seed, optimum, name)
    with open_or_use(db, create=True) as repository:
        tuned = run_tuning(
            tuning, repository, sample=sample, here=PlaceOptions(jobs), listener=listener,
            any_machine=choose_any_machine(machine),
        )  # fmt: skip
    return TuningResult(tuned, Study(tuning.study, db, tuned.summary))
