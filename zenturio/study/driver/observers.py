"""Observers: plug-ins that are told of each transition of an experiment."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from zenturio import plugins
from zenturio.errors import PluginError
from zenturio.study.driver.experiment_states import Transition

logger = logging.getLogger(__name__)

GROUP = "observers"
"""Entry points in ``zenturio.observers`` are classes that make an `Observer`, without arguments."""


class Observer(Protocol):
    """A plug-in that is called for each transition of the experiments of a run.

    Each run makes its own. All calls come from the thread that drives the study, which waits for
    them: what takes long belongs into a thread of the observer.
    """

    def begin(self, study: str) -> None:
        """Begin: *study* is going to be run. The first call; an error here ends the run."""
        ...

    def observe(self, transition: Transition) -> None:
        """Take in a transition: those of one experiment come in their order.

        ``submitted`` is reported before the place has the experiment, ``recorded`` once its outcome
        is in the repository.
        """
        ...

    def end(self) -> None:
        """End: the run is over, however it ended. The last call."""
        ...


class Observers:
    """The observers of a run, by name. One that fails is not called again."""

    def __init__(self, observers: Mapping[str, Observer]) -> None:
        self._observers = dict(observers)

    def begin(self, study: str) -> None:
        """Begin all of them; PluginError where one fails, for nothing has run yet."""
        for name, observer in self._observers.items():
            try:
                observer.begin(study)
            except Exception as error:
                raise PluginError(_failure(name, error)) from error

    def observe(self, transitions: Sequence[Transition]) -> Iterable[str]:
        """Tell all of them of *transitions*; return what is to be said of those that failed."""
        failures = []
        for name, observer in list(self._observers.items()):
            try:
                for transition in transitions:
                    observer.observe(transition)
            except Exception as error:
                del self._observers[name]
                failures.append(f"{_failure(name, error)}; it receives no more events")
                logger.warning("%s", failures[-1], exc_info=True)
        return failures

    def end(self) -> None:
        """End those that have not failed."""
        for name, observer in self._observers.items():
            try:
                observer.end()
            except Exception as error:
                logger.warning("%s", _failure(name, error), exc_info=True)


@contextmanager
def observing(names: Iterable[str], study: str) -> Iterator[Observers]:
    """Yield the observers of these *names*, begun; end them."""
    observers = Observers({name: plugins.load(GROUP, name)() for name in names})
    observers.begin(study)
    try:
        yield observers
    finally:
        observers.end()


def _failure(name: str, error: Exception) -> str:
    return f"observer {name!r} failed: {type(error).__name__}: {error}"
