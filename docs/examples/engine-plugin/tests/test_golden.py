"""The engine keeps the promises of all engines."""

from zenturio_golden import Golden, GoldenSettings

import zenturio as zen
from zenturio.search import Search, SearchProblem
from zenturio.testing.engines import EngineContract


class TestGolden(EngineContract):
    spaces = (zen.Space(n=zen.span(1, 50)), zen.Space(x=[1, 2, 4, 8, 16]))
    may_end_early = True  # it ends at the bottom of a valley

    def search(self, problem: SearchProblem) -> Search:
        return Golden(problem, GoldenSettings())
