"""What an engine is tuned for: an annotated program whose experiments are run, or a function."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from types import ModuleType
from typing import Any

from zenturio.annotate.model import Application, Goal
from zenturio.annotate.scan import read_goals, scan
from zenturio.errors import AnnotationError, InputError, NotFoundError, did_you_mean
from zenturio.experiment import ExperimentGenerator
from zenturio.record import Repository
from zenturio.search import Direction, Directions
from zenturio.space import Space
from zenturio.space.continuous import Continuous
from zenturio.space.parameter import Dependent

LISTED = 1000
"""Of larger sets the ends stand for the whole."""


@dataclass(frozen=True)
class TunedProgram:
    """An annotated program: its experiments are run, or recalled."""

    application: Application
    goal: Goal
    words: str
    """How it is named on a command line that is given anywhere."""

    @property
    def name(self) -> str:
        return self.application.name

    @property
    def space(self) -> Space:
        return self.application.space

    @property
    def direction(self) -> Direction:
        return self.goal.direction

    def identity(self) -> str:
        """What a search of it depends on, in few digits."""
        program = ExperimentGenerator(self.application).program
        repeats = self.application.repeat.count
        return _short(program, repeats, self.goal.expression.text, *_space(self.space))


@dataclass(frozen=True)
class TunedFunction:
    """A function of this process: it takes a point, or is compiled and takes a row of genes."""

    function: Callable[..., Any]
    space: Space
    direction: Direction
    name: str
    words: str

    def identity(self) -> str:
        """What a search of it depends on; what the function calls in other files is not seen."""
        return _short(_source(self.function), *_space(self.space))


Target = TunedProgram | TunedFunction


def read_target(text: str, objective: str, repository: Repository) -> Target:
    """What ``PATH``, ``STUDY``, ``file.py:function`` or ``module:function`` names.

    *objective* is the goal where the files have none: ``MINIMIZE expr``, or for a function
    ``MAXIMIZE``. The *repository* is asked for studies, and only if nothing else has the name.
    """
    home, colon, name = text.rpartition(":")
    if colon and not Path(text).exists():
        return _called(home, name, objective)
    if Path(text).exists():
        application, words = scan(text), str(Path(text).absolute())
    else:
        application, words = _studied(text, repository), text
    return TunedProgram(application, _goal(application, objective), words)


def _studied(name: str, repository: Repository) -> Application:
    try:
        notes = repository.definition(name).notes
    except NotFoundError as error:
        hint = f"{error.diagnostics[0].hint}\nor name a file, a folder, or a function: file.py:cost"
        raise NotFoundError(f"there is no file and no study {name!r}", hint=hint) from None
    if not notes.get("paths"):
        raise InputError(
            f"study {name} is not one of annotated files", hint="name its function: file.py:cost"
        )
    return scan(list(notes["paths"]), overrides=notes.get("overrides", ()))


def _goal(application: Application, objective: str) -> Goal:
    goals = read_goals(objective, application) if objective else application.goals
    if len(goals) != 1:
        raise InputError(
            f"tuning needs one objective, and {application.name} has {len(goals) or 'none'}",
            hint="say it: --objective 'MINIMIZE wtime'",
        )
    return goals[0]


def _called(home: str, name: str, objective: str) -> TunedFunction:
    module = _module(home)
    function = getattr(module, name, None)
    if not callable(function):
        functions = [
            n for n, value in vars(module).items() if callable(value) and not n.startswith("_")
        ]
        raise NotFoundError(f"{home} has no function {name!r}", hint=did_you_mean(name, functions))
    (direction,) = Directions(objective or "minimize").names
    file = Path(home).absolute() if home.endswith(".py") else None
    return TunedFunction(
        function, _declared(module, home), direction, name, f"{file or home}:{name}"
    )


def _declared(module: ModuleType, home: str) -> Space:
    """The space that stands beside a function: as ``space``, or in the file's directives."""
    space = getattr(module, "space", None)
    if isinstance(space, Space):
        return space
    hint = f"write space = zenturio.Space(x=range(100)) in {home}"
    if module.__file__ is None:
        raise InputError(f"{home} has no space", hint=hint)
    try:
        return scan(module.__file__).space
    except AnnotationError as error:
        raise InputError(f"{home} says nowhere which points there are", hint=hint) from error


def _module(home: str) -> ModuleType:
    if not home.endswith(".py"):
        sys.path.insert(0, str(Path.cwd()))
        try:
            return importlib.import_module(home)
        except ImportError as error:
            raise InputError(f"cannot import {home}: {error}", hint="or name its file") from error
        finally:
            sys.path.remove(str(Path.cwd()))
    path = Path(home).absolute()
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise NotFoundError(f"there is no file {home}", hint="write file.py:function")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))  # what stands beside it can be imported, as by python
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InputError(f"{home} cannot be loaded: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(str(path.parent))
    return module


def _space(space: Space) -> tuple[object, ...]:
    sets = {parameter.name: _texts(parameter.domain) for parameter in space.dimensions}
    return sets, [parameter.text for parameter in space.constraints]


def _texts(domain: Any) -> object:
    if isinstance(domain, Continuous | Dependent):
        return str(domain)
    if domain.size <= LISTED:
        return list(domain.texts())
    return domain.size, domain.text(0), domain.text(domain.size - 1)


def _source(function: Any) -> str:
    """The whole file of a function, or what there is of it."""
    plain = inspect.unwrap(getattr(function, "py_func", function))
    name = getattr(plain, "__qualname__", type(plain).__qualname__)
    try:
        return f"{name}\n{Path(inspect.getsourcefile(plain) or '').read_text(encoding='utf-8')}"
    except (OSError, TypeError):
        return name


def _short(*parts: object) -> str:
    plain = [dict(sorted(p.items())) if isinstance(p, Mapping) else p for p in parts]
    return blake2b(repr(plain).encode("utf-8", "replace"), digest_size=8).hexdigest()
