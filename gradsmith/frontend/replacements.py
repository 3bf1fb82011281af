"""What recorded code finds under the names ``np``, ``math`` and the like: the modules, with functions that accept recorded values.

NumPy hands most calls with recorded arrays over by itself, but not those that make arrays (``np.zeros``, ``np.array``), and
``math`` hands over nothing. For the time of a recording the places where the recorded functions look (globals, closures,
containers, attributes, defaults) therefore hold stand-ins. The modules themselves are left alone, since compiled code uses
them too. Several recordings may run at once, in threads or inside one another: the last to end puts the originals back.
"""

from __future__ import annotations

import builtins
import functools
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from gradsmith.frontend import builtins as staged
from gradsmith.frontend import catalogue, rules
from gradsmith.frontend import stage as st
from gradsmith.frontend.interrupts import with_end
from gradsmith.frontend.leftovers import Slots
from gradsmith.frontend.places import ABSENT, Place, places_in
from gradsmith.frontend.reading import of_library
from gradsmith.frontend.values import Recorded
from gradsmith.locking import new_lock

_MODULES = (
    *("numpy", "numpy.linalg", "numpy.fft", "math", "cmath", "gradsmith"),
    *("scipy", "scipy.special", "scipy.linalg", "scipy.fft", "scipy.integrate"),
)

#: functions whose result may be filled with recorded values, so it is a recorded array from the beginning: how it is made
_MAKING: dict[Any, str] = {
    **dict.fromkeys((np.zeros, np.ones, np.empty, np.full, np.eye, np.identity, np.arange, np.linspace), "staged"),
    **dict.fromkeys((np.zeros_like, np.ones_like, np.empty_like, np.full_like), "staged"),
    **dict.fromkeys((np.array, np.copy, np.tile, np.repeat, np.diag), "run"),
    **dict.fromkeys((np.concatenate, np.stack, np.vstack, np.hstack), "run"),
}

# ---- putting stand-ins into places, and the originals back ----------------------------------------------------------


class _Replacement:
    """A place that holds a stand-in for as long as a recording uses it."""

    def __init__(self, place: Place, original: Any, stand_in: Any):
        self.place = place
        self.original = original
        self.stand_in = stand_in
        self.users: set[object] = set()

    def join(self, user: object) -> None:
        self.users.add(user)
        _replaced[self.place.key] = self
        self.place.put(self.stand_in)

    def leave(self, user: object) -> None:
        """May be repeated, should an interrupt have come in the middle."""
        self.users.discard(user)
        if not self.users:
            if self.place.get() is self.stand_in:  # else the function assigned it anew
                self.place.put(self.original)
            _replaced.pop(self.place.key, None)


_replaced: dict[Any, _Replacement] = {}
_lock = new_lock()


def with_stand_ins(scopes: Iterable[dict[str, Any]], holders: Iterable[Any], run: Callable[[], Any]) -> Any:
    """``run()``, while these globals, and what the holders hold, are the stand-ins. Other threads may see them: there they do
    what the originals do."""
    user, used = object(), list[_Replacement]()

    def recording() -> Any:
        with _lock:
            for place in _places(scopes, holders):
                _replace(place, user, used)
        return run()

    return with_end(recording, lambda: _put_back(user, used))


def _places(scopes: Iterable[dict[str, Any]], holders: Iterable[Any]) -> Iterator[Place]:
    for scope in scopes:
        yield from places_in(scope)
        for name in _builtin_functions():
            if name not in scope:  # found in builtins otherwise
                yield Place(scope, "key", name)
    for holder in holders:
        yield from places_in(holder)
    yield Place(vars(builtins), "key", "__import__")


def _replace(place: Place, user: object, used: list[_Replacement]) -> None:
    found = place.get()
    replacement = _replaced.get(place.key)
    if replacement is None or found is not replacement.stand_in:
        stand_in = _builtin_functions().get(place.name) if found is ABSENT else stand_in_of(found)
        if stand_in is None:
            return
        replacement = _Replacement(place, found, place.adapted(stand_in, found))
    used.append(replacement)
    replacement.join(user)


def _put_back(user: object, used: list[_Replacement]) -> None:
    with _lock:
        for replacement in reversed(used):
            replacement.leave(user)


# ---- stand-ins ------------------------------------------------------------------------------------------------------


def original(x: Any) -> Any:
    """What ``x`` stands for, or ``x`` itself."""
    kind = type(x)
    if kind is _Module:
        return x.__dict__["__original__"]
    if kind is types.FunctionType and x.__code__ is _CALL:
        return x.__wrapped__
    return type if kind is _TypeOf else x


def same(now: Any, found: Any) -> bool:
    """Whether a place holds what it held, or one of the two is a stand-in for the other."""
    if now is found or original(now) is original(found):
        return True
    if type(now) is not type(found):
        return False
    if isinstance(now, staticmethod | classmethod):
        return same(now.__func__, found.__func__)
    return type(now) is tuple and len(now) == len(found) and all(map(same, now, found))


def stand_in_of(x: Any) -> Any:
    """What accepts recorded values in place of ``x``; None if ``x`` does, or nothing does."""
    if isinstance(x, types.ModuleType):
        return None if isinstance(x, _Module) else _module(x)
    if isinstance(x, types.FunctionType) and x.__code__ is _CALL:
        return None
    if isinstance(x, staticmethod | classmethod):
        inner = stand_in_of(x.__func__)
        return None if inner is None else type(x)(inner)
    if not callable(x):
        return None
    if x is builtins.__import__:
        return _import
    if x is builtins.type:
        return _TypeOf()
    if hasattr(type(x), "py_func") or isinstance(getattr(x, "py_func", None), types.FunctionType):
        return x.py_func  # compiled by numba
    if isinstance(x, type | np.ufunc):
        return _function(x) if rules.find(x) is not None else None
    if type(x) is np.vectorize:
        return _function(x)
    try:
        return _functions().get(x) or (_function(x) if rules.find(x) is not None else None)
    except TypeError:  # an unhashable callable
        return None


@functools.cache
def _builtin_functions() -> dict[str, Any]:
    """Builtins that do more for recorded values than Python's."""
    return {**{f.__name__: _function(f) for f in (max, min, print)}, "type": _TypeOf()}


class _Module(types.ModuleType):
    """A module whose functions accept recorded values."""

    def __init__(self, original: types.ModuleType):
        super().__init__(original.__name__)
        self.__dict__["__original__"] = original

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.__dict__["__original__"], name)
        if found is np.vectorize:
            return _Vectorize
        stand_in = stand_in_of(found)
        if stand_in is None:
            return found
        if not isinstance(found, types.ModuleType):
            self.__dict__[name] = stand_in
        return stand_in

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__dict__["__original__"], name, value)
        self.__dict__.pop(name, None)

    def __dir__(self) -> list[str]:
        return dir(self.__dict__["__original__"])


def _module(original: types.ModuleType) -> _Module | None:
    name = original.__name__
    if name not in _MODULES or sys.modules.get(name) is not original:
        return None
    if name not in _modules:
        _modules[name] = _Module(original)
    return _modules[name]


_modules: dict[str, _Module] = {}


def _import(name: str, *args: Any, **kwargs: Any) -> Any:
    """The import statement: recorded code gets the stand-ins of modules."""
    found = _builtin_import(name, *args, **kwargs)
    recorder = _active()
    if recorder is None or not recorder.live or of_library(sys._getframe(1).f_code):
        return found
    return _module(found) or found


_builtin_import = builtins.__import__


class _TypeOf:
    """``type``, which gives the class that a recorded value stands for."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], Slots) and not kwargs:
            return args[0].__class__
        return type(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(type, name)

    def __instancecheck__(self, x: Any) -> bool:
        return isinstance(x, type)

    def __subclasscheck__(self, cls: Any) -> bool:
        return issubclass(cls, type)

    def __mro_entries__(self, bases: Any) -> tuple[type]:
        return (type,)

    def __eq__(self, other: object) -> bool:
        return other is type or isinstance(other, _TypeOf)

    def __hash__(self) -> int:
        return hash(type)

    def __or__(self, other: Any) -> Any:
        return type | other

    def __ror__(self, other: Any) -> Any:
        return other | type


class _Vectorize(np.vectorize):
    """``np.vectorize`` in recorded code."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        recorder = _active()
        if recorder is None or not recorder.live or not holds_recorded([*args, *kwargs.values()]):
            return super().__call__(*args, **kwargs)
        return recorder.call(np.vectorize.__call__, (self, *args), kwargs)


def _functions() -> dict[Any, Callable[..., Any]]:
    """The functions of the modules that are there by now, each with its stand-in."""
    for name in _MODULES:
        if name not in _known and name in sys.modules:
            _add_functions(name)
    return _table


def _add_functions(module: str) -> None:
    catalogue.load()
    with _lock:
        for x in list(vars(sys.modules[module]).values()):
            if callable(x) and not isinstance(x, type | np.ufunc) and _is_ruled(x, module) and x not in _table:
                function = _function(x)
                catalogue.alias(function, x)  # recorded code may hand it to staged code
                if (builtin := staged.find(x)) is not None:
                    staged.register(function, builtin)
                _table[x] = function
        _known.add(module)


_table: dict[Any, Callable[..., Any]] = {}
_known: set[str] = set()


def _is_ruled(x: Any, module: str) -> bool:
    try:
        hash(x)
    except TypeError:
        return False
    if module == "gradsmith":  # transforms make callables that look themselves whether a tape is recorded
        return staged.find(x) is not None and "engine" not in (getattr(x, "__kwdefaults__", None) or ())
    return catalogue.find(x) is not None or catalogue.find_definition(x) is not None


def _function(original: Any) -> Callable[..., Any]:
    try:
        making = _MAKING.get(original)
    except TypeError:
        making = None

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        recorder = _active()
        if recorder is None or not recorder.live:
            return original(*args, **kwargs)
        if original is print or holds_recorded(args) or holds_recorded(tuple(kwargs.values())):
            return recorder.call(original, args, kwargs)
        found = original(*args, **kwargs)
        if making is None or type(found) is not np.ndarray or found.dtype.kind not in "biufc":
            return found
        if (args and found is args[0]) or of_library(sys._getframe(1).f_code):
            return found
        return recorder.call(original, args, kwargs) if making == "staged" else recorder.made(found)

    return call


_CALL: Any = next(c for c in _function.__code__.co_consts if isinstance(c, types.CodeType))


def _active() -> Any:
    """The recorder of the innermost stage of this thread."""
    return st.current().recorder if st.staging() else None


def holds_recorded(x: Any) -> bool:
    """Whether a recorded value is in nested lists, tuples and dicts."""
    if isinstance(x, Recorded):
        return True
    if type(x) in (list, tuple):
        return any(map(holds_recorded, x))
    return type(x) is dict and any(map(holds_recorded, x.values()))
