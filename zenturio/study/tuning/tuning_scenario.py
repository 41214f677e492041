"""What an engine is tuned for, and which of its settings are tried."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from types import ModuleType
from typing import Any

from zenturio.annotate.model import Application, Goal
from zenturio.annotate.scan import read_goals, scan
from zenturio.annotate.set_reader import read_set
from zenturio.errors import (
    AnnotationError,
    Diagnostic,
    InputError,
    NotFoundError,
    Passage,
    did_you_mean,
)
from zenturio.experiment import ExperimentGenerator
from zenturio.record import Repository
from zenturio.search import Direction, Directions, EngineDescription, Setting
from zenturio.settings.schema import AUTO, read_value
from zenturio.space import Domain, Space
from zenturio.space.domain import Continuous
from zenturio.space.parameter import Dependent

LISTED = 1000
"""Of larger sets the ends stand for the whole."""


@dataclass(frozen=True)
class TargetProgram:
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
        """Return what a search of it depends on, in few digits."""
        program = ExperimentGenerator(self.application).program
        repeats = self.application.repeat.count
        return _short(program, repeats, self.goal.expression.text, *_space(self.space))


@dataclass(frozen=True)
class TargetFunction:
    """A function of this process: it takes a point, or is compiled and takes a row of genes."""

    function: Callable[..., Any]
    space: Space
    direction: Direction
    name: str
    words: str

    def identity(self) -> str:
        """What a search of it depends on; what the function calls in other files is not seen."""
        return _short(_source(self.function), *_space(self.space))


Target = TargetProgram | TargetFunction


def read_target(text: str, objective: str, repository: Repository) -> Target:
    """Return what ``PATH``, ``STUDY``, ``file.py:function`` or ``module:function`` names.

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
    return TargetProgram(application, _goal(application, objective), words)


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
            hint="name it: --objective 'MINIMIZE wtime'",
        )
    return goals[0]


def _called(home: str, name: str, objective: str) -> TargetFunction:
    module = _module(home)
    function = getattr(module, name, None)
    if not callable(function):
        functions = [
            n for n, value in vars(module).items() if callable(value) and not n.startswith("_")
        ]
        raise NotFoundError(f"{home} has no function {name!r}", hint=did_you_mean(name, functions))
    (direction,) = Directions(objective or "minimize").names
    file = Path(home).absolute() if home.endswith(".py") else None
    return TargetFunction(
        function, _declared(module, home), direction, name, f"{file or home}:{name}"
    )


def _declared(module: ModuleType, home: str) -> Space:
    """Return the space that stands beside a function: as ``space``, or in the file's directives."""
    space = getattr(module, "space", None)
    if isinstance(space, Space):
        return space
    hint = f"write space = zenturio.Space(x=range(100)) in {home}"
    if module.__file__ is None:
        raise InputError(f"{home} has no space", hint=hint)
    try:
        return scan(module.__file__).space
    except AnnotationError as error:
        raise InputError(f"{home} does not define its points", hint=hint) from error


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
    """Return the whole file of a function, or what there is of it."""
    plain = inspect.unwrap(getattr(function, "py_func", function))
    name = getattr(plain, "__qualname__", type(plain).__qualname__)
    try:
        return f"{name}\n{Path(inspect.getsourcefile(plain) or '').read_text(encoding='utf-8')}"
    except (OSError, TypeError):
        return name


def _short(*parts: object) -> str:
    plain = [dict(sorted(p.items())) if isinstance(p, Mapping) else p for p in parts]
    return blake2b(repr(plain).encode("utf-8", "replace"), digest_size=8).hexdigest()


MOST = 10_000
"""Values of one setting at the most."""
FIXED = ("str",)
"""Settings of these types are swept only over values that the user names."""


@dataclass(frozen=True)
class Ranges:
    """For each setting that is tried, its set as a directive writes it."""

    sets: Mapping[str, str]
    given: bool
    """Whether somebody named them; if not, they are a first look at all settings."""


def read_ranges(engine: EngineDescription, written: Iterable[str] | Mapping[str, Any]) -> Ranges:
    """Return the sets that ``population=50:200:50,selection={rank,roulette}`` writes.

    A name alone stands for a few values of it, and nothing for a few values of every setting.
    InputError with all that is wrong: names, sets, and values that the setting cannot have.
    """
    by_name = {setting.name: setting for setting in engine.settings}
    pairs = _pairs(written) if not isinstance(written, Mapping) else _setting_texts(written)
    diagnostics: list[Diagnostic] = []
    if not by_name:
        raise InputError(
            f"engine {engine.name} has no settings: there is nothing to tune",
            hint="zen engines lists what others can be set to",
        )
    sets: dict[str, str] = {}
    for name, text in pairs.items() if pairs else dict.fromkeys(_swept(engine), "").items():
        if name not in by_name:
            message = f"engine {engine.name} has no setting {name!r}"
            diagnostics.append(Diagnostic(message, hint=did_you_mean(name, by_name)))
            continue
        try:
            sets[name] = _checked(by_name[name], text or _few(by_name[name]))
        except InputError as error:
            diagnostics += error.diagnostics
    if diagnostics:
        raise InputError.all(diagnostics)
    return Ranges(sets, bool(pairs))


def _swept(engine: EngineDescription) -> list[str]:
    return [
        setting.name for setting in engine.settings if setting.type not in FIXED or setting.choices
    ]


def _pairs(written: Iterable[str]) -> dict[str, str]:
    """Names and sets, cut at commas that stand in no braces or quotes."""
    pairs: dict[str, str] = {}
    for part in (part for text in written for part in _cut(text)):
        name, _, text = part.partition("=")
        if name.strip() in pairs:
            raise InputError(f"--settings names {name.strip()} twice", hint="remove one of them")
        pairs[name.strip()] = text.strip()
    return pairs


def _cut(text: str) -> list[str]:
    parts, depth, quote = [""], 0, ""
    for sign in text:
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        depth += (sign in "{(") - (sign in "})") if not quote else 0
        if sign == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += sign
    return [part for part in parts if part.strip()]


def _setting_texts(values_by_name: Mapping[str, Any]) -> dict[str, str]:
    """Set as Python has them: a text, a number, or several of them."""
    texts = {}
    for name, values in values_by_name.items():
        is_sequence = isinstance(values, Sequence | range) and not isinstance(values, str)
        if isinstance(values, str) or not is_sequence:
            texts[name] = _word(values)
        else:
            texts[name] = "{ " + ", ".join(map(_word, values)) + " }"
    return texts


def _word(value: Any) -> str:
    if value is None:
        return AUTO
    return str(value).lower() if isinstance(value, bool) else str(value)


def _checked(setting: Setting, text: str) -> str:
    """*text* as a set in braces, each of whose elements is a value that *setting* can have."""
    whole = text if text.startswith("{") else f"{{ {text} }}"
    domain: Domain = read_set(Passage.of(whole, f"--settings {setting.name}"), Path.cwd())
    if domain.size > MOST:
        raise InputError(f"{setting.name} has {domain.size:,} values", hint=f"at most {MOST:,}")
    diagnostics: list[Diagnostic] = []
    for at in range(domain.size):
        try:
            read_value(setting, domain.text(at))
        except InputError as error:
            diagnostics += error.diagnostics
    if diagnostics:
        raise InputError.all(diagnostics[:1])
    return whole


def _few(setting: Setting) -> str:
    """A few values of a setting, from what is said of it: its choices, its default, its limits."""
    if setting.choices:
        return ", ".join(setting.choices)
    if setting.type == "bool":
        return "true, false"
    whole = setting.type == "int"
    low, high = setting.low, setting.high
    if setting.default is None:
        return ", ".join([AUTO, *map(_plain, _spread(low, high, whole=whole))])
    if setting.type in FIXED:
        return str(setting.default)
    default = setting.default
    tried = [default / 2, default, default * 2]
    if low is not None and high is not None and default > (low + high) / 2:
        tried = [default, high - (high - default) * 2, high - (high - default) / 2]
    kept = (_limited(round(value) if whole else value, low, high) for value in tried)
    return ", ".join(map(_plain, sorted({*kept, default})))


def _spread(low: float | None, high: float | None, *, whole: bool) -> list[float]:
    """Values between the limits; where there is no upper one, some that are usual for counts."""
    if low is not None and high is not None:
        return [low + (high - low) * share for share in (0.01, 0.1)]
    usual = (20, 50, 100) if whole else (0.1, 1, 10)
    return [number for number in usual if low is None or number >= low]


def _limited(number: float, low: float | None, high: float | None) -> float:
    if low is not None:
        number = max(number, low)
    return number if high is None else min(number, high)


def _plain(number: float) -> str:
    return f"{number:.6g}"
