"""Unpickling of what a foreign scheduler sends: values and inert objects, no code.

Dask exchanges pickles, and loading a pickle can execute code. Our client needs only plain values:
reports, and the names and arguments of exceptions. So a guarded event loop reads whatever it
receives with an unpickler that imports nothing and calls nothing.
"""

from __future__ import annotations

import asyncio
import builtins
import io
import pickle
import reprlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import ContextVar
from functools import cache, partial
from importlib import import_module
from threading import Lock
from types import SimpleNamespace
from typing import Any, ClassVar
from weakref import WeakSet

from zenturio.errors import PluginError

_PLAIN = (bool, int, float, complex, str, bytes, bytearray, tuple, list, dict, set, frozenset)
"""Types that may be named; they are never called, so no memory is taken by their arguments."""
_KEYS = (bool, int, float, str, bytes, type(None))
"""Of dictionaries and sets: the hash of what is nested deeply could exhaust the stack."""
_LONGEST_NAME = 200
_REPR = reprlib.Repr()
_REPR.maxother = _REPR.maxstring = 200


class Inert(Exception):
    """An object of a class that was not imported; an exception, for it may be raised as one."""

    module = ""
    """Where its class would have come from."""
    state: object = None
    """What its class would have been given to restore it."""

    def __str__(self) -> str:
        return ", ".join(map(_REPR.repr, self.args[:5]))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"


def inert_loads(data: Any, *, buffers: Iterable[Any] = ()) -> Any:
    """Return what is pickled in *data*, with nothing imported or called.

    Data that is not a pickle becomes an `Inert`, too: it must not break the connection. Raise
    TypeError for tracebacks, as Dask does where tblib is not installed.
    """
    try:
        value = _Unpickler(io.BytesIO(data), buffers=buffers).load()
    except Exception as error:  # noqa: BLE001 - whatever others have made of it
        return _class_of("", "UnreadablePickle")(f"{type(error).__name__}: {error}"[:_LONGEST_NAME])
    if isinstance(value, Inert) and value.module.partition(".")[0] == "tblib":
        raise TypeError("a traceback")
    return value


def _class_of(module: object, name: object) -> type[Inert]:
    """Return a new class; nothing that is set on it reaches another pickle's objects."""
    module, name = str(module)[:_LONGEST_NAME], str(name)[:_LONGEST_NAME]
    real = getattr(builtins, name, None) if module == "builtins" else None
    is_os = isinstance(real, type) and issubclass(real, OSError)
    bases = (Inert, OSError) if is_os or name == "CommClosedError" else (Inert,)
    return type(name.rpartition(".")[2] or "Object", bases, {"module": module})


# The unpickler in Python: its opcodes can be overridden, those of the one in C cannot.
_PythonUnpickler: Any = pickle._Unpickler  # noqa: SLF001


class _Unpickler(_PythonUnpickler):  # type: ignore[misc]
    """Builds plain values and inert objects."""

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = dict(_PythonUnpickler.dispatch)
    stack: list[Any]

    def find_class(self, module: str, name: str) -> type:
        if module == "builtins":
            for plain in _PLAIN:
                if plain.__name__ == name:
                    return plain
        return _class_of(module, name)

    def get_extension(self, code: int) -> None:
        raise pickle.UnpicklingError(f"extension {code}")

    def _instantiate(self, klass: object, args: object) -> None:
        self.append(_object(klass, args))

    def load_newobj(self) -> None:
        args, klass = self.stack.pop(), self.stack.pop()
        self.append(_object(klass, args))

    def load_newobj_ex(self) -> None:
        _, args, klass = self.stack.pop(), self.stack.pop(), self.stack.pop()
        self.append(_object(klass, args))

    def load_build(self) -> None:
        state = self.stack.pop()
        if isinstance(self.stack[-1], Inert):
            self.stack[-1].state = state

    def load_append(self) -> None:
        self._extend([self.stack.pop()])

    def load_appends(self) -> None:
        self._extend(self.pop_mark())

    def load_setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._update([key, value])

    def load_setitems(self) -> None:
        self._update(self.pop_mark())

    def load_dict(self) -> None:
        items = self.pop_mark()
        self.append({})
        self._update(items)

    def load_additems(self) -> None:
        items = _checked_keys(self.pop_mark())
        if type(self.stack[-1]) is set:
            self.stack[-1].update(items)

    def load_frozenset(self) -> None:
        items = self.pop_mark()  # which changes what `append` is
        self.append(frozenset(_checked_keys(items)))

    def _extend(self, items: list[object]) -> None:
        if type(self.stack[-1]) is list:
            self.stack[-1].extend(items)

    def _update(self, items: list[Any]) -> None:
        keys = _checked_keys(items[::2])
        if type(self.stack[-1]) is dict:
            self.stack[-1].update(zip(keys, items[1::2], strict=True))


for _code, _method in {
    pickle.REDUCE: _Unpickler.load_newobj,
    pickle.NEWOBJ: _Unpickler.load_newobj,
    pickle.NEWOBJ_EX: _Unpickler.load_newobj_ex,
    pickle.BUILD: _Unpickler.load_build,
    pickle.APPEND: _Unpickler.load_append,
    pickle.APPENDS: _Unpickler.load_appends,
    pickle.SETITEM: _Unpickler.load_setitem,
    pickle.SETITEMS: _Unpickler.load_setitems,
    pickle.DICT: _Unpickler.load_dict,
    pickle.ADDITEMS: _Unpickler.load_additems,
    pickle.FROZENSET: _Unpickler.load_frozenset,
}.items():
    _Unpickler.dispatch[_code[0]] = _method
# Python parses long integers in quadratic time; Dask never writes these opcodes.
for _code in (pickle.INT, pickle.LONG, pickle.LONG4, pickle.GET, pickle.PUT):
    del _Unpickler.dispatch[_code[0]]


def _checked_keys(keys: list[Any]) -> list[Any]:
    if not all(type(key) in _KEYS for key in keys):
        raise pickle.UnpicklingError("a key that is neither a text nor a number")
    return keys


def _object(klass: object, args: object) -> Inert:
    """Return what stands for the result of calling *klass*."""
    if not (isinstance(klass, type) and issubclass(klass, Inert) and type(args) is tuple):
        raise pickle.UnpicklingError("a call of something that is not a class")
    # The package tblib wraps exceptions, to keep their tracebacks.
    if klass.__name__.startswith("unpickle_exception") and len(args) > 1:
        inner, inner_args = args[:2]
        if type(inner_args) is dict:
            inner_args = inner_args.get("args", ())
        if isinstance(inner, type) and issubclass(inner, Inert) and type(inner_args) is tuple:
            return inner(*inner_args)
    return klass(*args)


# Which connections are guarded

_guarded: WeakSet[asyncio.AbstractEventLoop] = WeakSet()
_is_offloaded: ContextVar[bool] = ContextVar("_is_offloaded", default=False)
_installing = Lock()


def guard(loop: asyncio.AbstractEventLoop) -> None:
    """Unpickle whatever Dask receives in *loop* inertly from now on."""
    with _installing:
        _install()
    _guarded.add(loop)


def _is_guarded() -> bool:
    try:
        return asyncio.get_running_loop() in _guarded
    except RuntimeError:
        # A thread without a loop: Dask reads large messages in one, and so may others.
        return _is_offloaded.get()


@cache
def _install() -> None:
    """Put the guard before each place where Dask's client unpickles."""
    try:
        codec: Any = import_module("distributed.protocol.pickle")
        client: Any = import_module("distributed.client")
        messages: Any = import_module("distributed.comm.utils")
        core: Any = import_module("distributed.core")
        loads = _guarded_loads(codec.loads)
        offload, clean = messages.offload, client.clean_exception
        codec.loads = client.loads = loads
        client.pickle = SimpleNamespace(loads=_guarded_loads(client.pickle.loads))
        messages.offload = partial(_offload, offload)
        client.clean_exception = core.clean_exception = partial(_clean_exception, clean)
    except AttributeError as error:
        raise PluginError(
            "zenturio cannot prevent this version of Dask from executing code that a scheduler "
            f"sends: {error}",
            hint="install the version of Dask that zenturio was tested with",
        ) from error


def _guarded_loads(loads: Callable[..., Any]) -> Callable[..., Any]:
    def guarded_loads(data: Any, *, buffers: Iterable[Any] = ()) -> Any:
        if _is_guarded():
            return inert_loads(data, buffers=buffers)
        return loads(data, buffers=buffers)

    return guarded_loads


def _offload(offload: Callable[..., Any], function: Callable[..., Any], *args: Any) -> Any:
    """Have a large message read in another thread, guarded like its loop."""
    return offload(partial(_call_guarded, function) if _is_guarded() else function, *args)


def _call_guarded(function: Callable[..., Any], *args: Any) -> Any:
    _is_offloaded.set(True)  # of the context that Dask copies for this call
    return function(*args)


def _clean_exception(
    clean: Callable[..., Any], exception: Any, traceback: Any = None, **options: Any
) -> Any:
    """Clean as Dask does, and accept what is no exception: else the future would never be done."""
    for argument in (traceback, None):
        with suppress(AssertionError):
            return clean(exception, argument, **options)
    error = _class_of("", "UnreadableException")(type(exception).__name__)
    return type(error), error, None
