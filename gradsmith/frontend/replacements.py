"""What recorded code finds under the names ``np``, ``math`` and the like: the modules, with functions that accept recorded values.

NumPy hands most calls with recorded arrays over by itself, but not those that make arrays (``np.zeros``, ``np.array``), and
``math`` hands over nothing. For the time of a recording the global names of the recorded functions therefore hold stand-ins.
The modules themselves are left alone, since compiled code uses them too.
"""

from __future__ import annotations

import functools
import sys
import threading
import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from gradsmith.frontend import builtins as staged
from gradsmith.frontend import catalogue, rules
from gradsmith.frontend.reading import of_library
from gradsmith.frontend.values import Recorded

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

_lock = threading.Lock()


@contextmanager
def replaced(scopes: Iterable[dict[str, Any]], cells: Iterable[types.CellType]) -> Iterator[None]:
    """Let these globals and closures hold the stand-ins. Other threads may see them: there they do what the originals do."""
    changed: list[tuple[Any, Any, Any, Any]] = []
    with _lock:
        places: list[Any] = [*scopes, *map(_Cell, cells)]
        for scope in places:
            for name, x in list(scope.items()):
                stand_in = _stand_in(x)
                if stand_in is not None:
                    scope[name] = stand_in
                    changed.append((scope, name, x, stand_in))
            if type(scope) is dict:
                for name, stand_in in _builtin_functions().items():
                    if name not in scope:  # found in builtins otherwise
                        scope[name] = stand_in
                        changed.append((scope, name, _ABSENT, stand_in))
    try:
        yield
    finally:
        with _lock:
            for scope, name, x, stand_in in reversed(changed):
                if scope.get(name) is not stand_in:
                    continue  # assigned anew by the function
                if x is _ABSENT:
                    del scope[name]
                else:
                    scope[name] = x


_ABSENT = object()


class _Cell:
    """A closure cell with the interface of a dict of globals."""

    def __init__(self, cell: types.CellType):
        self.cell = cell

    def items(self) -> list[tuple[None, Any]]:
        found = self.get(None)
        return [] if found is _ABSENT else [(None, found)]

    def get(self, name: None) -> Any:
        try:
            return self.cell.cell_contents
        except ValueError:
            return _ABSENT  # not assigned yet

    def __setitem__(self, name: None, x: Any) -> None:
        self.cell.cell_contents = x


def _stand_in(x: Any) -> Any:
    if isinstance(x, types.ModuleType):
        return _modules().get(x.__name__) if not isinstance(x, _Module) else None
    if hasattr(type(x), "py_func") or isinstance(getattr(x, "py_func", None), types.FunctionType):
        return x.py_func  # compiled by numba
    if not callable(x) or isinstance(x, type | np.ufunc):
        return _function(x) if rules.find(x) is not None else None
    try:
        return _functions().get(x) or (_function(x) if rules.find(x) is not None else None)
    except TypeError:  # an unhashable callable
        return None


@functools.cache
def _builtin_functions() -> dict[str, Callable[..., Any]]:
    """Builtins that do more for recorded values than Python's."""
    return {f.__name__: _function(f) for f in (max, min, print)}


class _Module(types.ModuleType):
    """A module whose functions accept recorded values."""

    def __init__(self, original: types.ModuleType):
        super().__init__(original.__name__)
        self.__dict__["__original__"] = original
        for name, x in vars(original).items():
            if (function := _stand_in(x) if not isinstance(x, types.ModuleType) else None) is not None:
                self.__dict__[name] = function

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.__dict__["__original__"], name)
        return _modules().get(found.__name__, found) if isinstance(found, types.ModuleType) else found

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__dict__["__original__"], name, value)

    def __dir__(self) -> list[str]:
        return dir(self.__dict__["__original__"])


@functools.cache
def _modules() -> dict[str, _Module]:
    return {name: _Module(sys.modules[name]) for name in _MODULES if name in sys.modules}


@functools.cache
def _functions() -> dict[Any, Callable[..., Any]]:
    catalogue.load()
    table: dict[Any, Callable[..., Any]] = {}
    for name in _MODULES:
        for x in list(vars(sys.modules[name]).values()) if name in sys.modules else ():
            if callable(x) and not isinstance(x, type | np.ufunc) and x not in table and _is_ruled(x, name):
                table[x] = _function(x)
    for original, function in table.items():  # recorded code may hand them to staged code
        catalogue.alias(function, original)
        if (builtin := staged.find(original)) is not None:
            staged.register(function, builtin)
    return table


def _is_ruled(x: Any, module: str) -> bool:
    try:
        hash(x)
    except TypeError:
        return False
    if module == "gradsmith":  # transforms make callables that look themselves whether a tape is recorded
        return staged.find(x) is not None and "engine" not in (getattr(x, "__kwdefaults__", None) or ())
    return catalogue.find(x) is not None or catalogue.find_definition(x) is not None


def _function(original: Any) -> Callable[..., Any]:
    from gradsmith.frontend.recording import active

    try:
        making = _MAKING.get(original)
    except TypeError:
        making = None

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        recorder = active()
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


def holds_recorded(x: Any) -> bool:
    """Whether a recorded value is in nested lists, tuples and dicts."""
    if isinstance(x, Recorded):
        return True
    if type(x) in (list, tuple):
        return any(map(holds_recorded, x))
    return type(x) is dict and any(map(holds_recorded, x.values()))
