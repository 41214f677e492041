"""A Python function as the experiment: its arguments are parameters, its answer is the metrics."""

from __future__ import annotations

import functools
import inspect
import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, overload

from zenturio.annotate.model import Repeat
from zenturio.errors import InputError, did_you_mean
from zenturio.experiment.experiment import (
    Experiment,
    ExperimentFile,
    Recipe,
    RunPosition,
    Step,
)
from zenturio.expression import Value
from zenturio.space import Space

_EMPTY: Mapping[str, str] = {}


class ExperimentFunction:
    """A function that is run for each point; calling it calls the function itself.

    Its identity covers its source, the values it is given and the repeat number; what it calls
    is not covered.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        repeat: int = 1,
        seed: str | None = None,
        exact: bool = False,
    ) -> None:
        """With *exact* what it returns is the same on every kind of machine."""
        functools.update_wrapper(self, function)
        self.function = function
        self.name: str = function.__name__
        self.repeat = Repeat(repeat, seed)
        self.exact = exact
        self.recipe = Recipe()
        self.source = _source(function)
        self._state = blake2b(self.source.encode(), digest_size=16)
        names, self.takes_all = _arguments(function)
        self.arguments = frozenset(names)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def check(self, space: Space) -> None:
        """InputError where the function has no argument for one of the space's parameters."""
        names = {parameter.name for parameter in space.parameters}
        for name in sorted(names - self.arguments) if not self.takes_all else ():
            raise InputError(
                f"{self.name}() has no argument {name}", hint=did_you_mean(name, self.arguments)
            )

    def experiments(self, point: Mapping[str, Value], index: int = -1) -> tuple[Experiment, ...]:
        """The experiments of *point*, in the order of their repeats; a seed is the run's number."""
        repeats = range(1, self.repeat.count + 1)
        return tuple([self.experiment(point, repeat, index=index) for repeat in repeats])

    def experiment(
        self,
        point: Mapping[str, Value],
        repeat: int,
        position: RunPosition | None = None,
        *,
        index: int = -1,
    ) -> Experiment:
        """The experiment of *point* that is its *repeat*-th, from 1; its place in a run's order."""
        seed = self.repeat.seed
        values = point if seed is None else {**point, seed: repeat}
        digest, recipe = self._digest(values, repeat), self.recipe
        return Experiment(
            digest, index, repeat, values, (), (), _EMPTY, None, recipe, position=position
        )

    def command(self, experiment: Experiment) -> Experiment:
        """Return the same experiment as a command, for places that run commands: see execute.call.

        InputError if other processes cannot import the function by its name.
        """
        root, target = self._home()
        words = ("python", "-m", "zenturio.execute.call", root, target)
        arguments = {
            n: v for n, v in experiment.values.items() if self.takes_all or n in self.arguments
        }
        content = json.dumps({name: _noted(value) for name, value in arguments.items()}).encode()
        step, filed = Step(shlex.join(words)), ExperimentFile(".zen-arguments.json", 0o644, content)
        return replace(experiment, files=(filed,), steps=(step,))

    def _home(self) -> tuple[str, str]:
        """Return the folder from which its module is found, and its name there."""
        function = inspect.unwrap(self.function)
        module, name = function.__module__, function.__qualname__
        file = inspect.getsourcefile(function)
        if "." in name or file is None or not name.isidentifier():
            raise InputError(
                f"{name} cannot be found by its name where it is to run",
                hint="define it at the top of a file, or run it here: without a place",
            )
        path = Path(file).absolute()
        if module == "__main__":
            return str(path.parent), f"{path}:{name}"
        up = module.count(".") + (path.name == "__init__.py")
        return str(path.parents[up]), f"{module}:{name}"

    def _digest(self, values: Mapping[str, Value], run: int) -> str:
        state = self._state.copy()
        names = sorted(values)  # repr tells 1, 1.0, '1' and True apart, and quotes what it must
        state.update(
            repr((run, names, [values[name] for name in names])).encode("utf-8", "replace")
        )
        return state.hexdigest()


@overload
def experiment(function: Callable[..., Any], /) -> ExperimentFunction: ...
@overload
def experiment(
    *, repeat: int = 1, seed: str | None = None, exact: bool = False
) -> Callable[[Callable[..., Any]], ExperimentFunction]: ...
def experiment(
    function: Callable[..., Any] | None = None,
    /,
    *,
    repeat: int = 1,
    seed: str | None = None,
    exact: bool = False,
) -> ExperimentFunction | Callable[[Callable[..., Any]], ExperimentFunction]:
    """Make an experiment of a function: ``@experiment`` or ``@experiment(repeat=30)``.

    *exact*: what it returns has the same value on every kind of machine, so that results of
    another kind count as cached.
    """
    if function is not None:
        return ExperimentFunction(function, repeat=repeat, seed=seed, exact=exact)
    return functools.partial(ExperimentFunction, repeat=repeat, seed=seed, exact=exact)


def _noted(value: Value) -> Any:
    """Whole numbers of any size: JSON's readers limit the digits."""
    return {"int": hex(value)} if type(value) is int and abs(value) >= 2**63 else value


def _source(function: Callable[..., Any]) -> str:
    """Return the function's text; where there is none (a prompt), its compiled form."""
    name = f"{function.__module__}.{function.__qualname__}\n"
    try:
        return name + inspect.getsource(function)
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        if code is None:
            return name
        return name + repr((code.co_code, code.co_consts, code.co_names))


def _arguments(function: Callable[..., Any]) -> tuple[list[str], bool]:
    """Return the names that it takes by keyword, and whether it takes any."""
    parameters = inspect.signature(function).parameters.values()
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    names = [parameter.name for parameter in parameters if parameter.kind in by_name]
    return names, any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
