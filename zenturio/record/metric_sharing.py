"""Which metrics of a shared experiment another study may use."""

from __future__ import annotations

from collections.abc import Mapping

from zenturio.experiment.experiment import MetricValue, Missing

MetricSources = Mapping[str, str]
"""The metrics of a study, and what measures each, as written."""


def shared_metrics(
    metrics: Mapping[str, MetricValue], source: str, theirs: MetricSources, ours: MetricSources
) -> dict[str, MetricValue]:
    """Return *metrics* as study *source* measured them, as far as we would have measured the same.

    A metric that nobody declared (the program reported it) comes along; one that we measure in
    a way of our own is missing, and says why.
    """
    shared = {
        name: measure
        for name, measure in metrics.items()
        if theirs.get(name, "") == ours.get(name, "")
    }
    for name, way in ours.items():
        if way and name not in shared:
            reason = "measures it in another way" if name in metrics else "did not measure it"
            shared[name] = Missing(f"the experiment was run by study {source!r}, which {reason}")
    return shared
