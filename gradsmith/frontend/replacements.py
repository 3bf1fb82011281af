"""Functions of numpy, math, cmath and scipy that accept recorded values, in place of the original ones while a tape is recorded.

NumPy's dispatch hands most calls with recorded arrays over by itself, but not those that make arrays (``np.zeros``, ``np.array``)
and nothing of ``math``. For the time of a recording the modules hold functions that look whether the calling thread is recording,
and else call the original.
"""

from __future__ import annotations

import functools
import sys
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from gradsmith.frontend import builtins as staged
from gradsmith.frontend import catalogue
from gradsmith.frontend.reading import of_library
from gradsmith.frontend.values import Recorded

_MODULES = ("numpy", "numpy.linalg", "numpy.fft", "math", "cmath")
_SCIPY = ("scipy.special", "scipy.linalg", "scipy.fft", "scipy.integrate")

#: functions whose result the caller may fill with recorded values, so it must be a recorded array from the beginning
_MAKING: dict[Any, str] = {
    **dict.fromkeys((np.zeros, np.ones, np.empty, np.full, np.eye, np.identity, np.arange, np.linspace), "staged"),
    **dict.fromkeys((np.zeros_like, np.ones_like, np.empty_like, np.full_like), "staged"),
    **dict.fromkeys(
        (np.array, np.copy, np.tile, np.repeat, np.concatenate, np.stack, np.vstack, np.hstack, np.diag), "run"
    ),
}

_lock = threading.Lock()
_recordings = 0


@contextmanager
def replaced(f: Any) -> Iterator[None]:
    """Let the modules, and the globals of ``f``, hold the functions that accept recorded values."""
    global _recordings
    table = _table()
    own = getattr(getattr(f, "__func__", f), "__globals__", {})
    by_name = [(name, x) for name, x in list(own.items()) if callable(x) and _known(x, table)]
    with _lock:
        _recordings += 1
        if _recordings == 1:
            for module, name, original in _places():
                setattr(module, name, table[original])
        for name, original in by_name:
            own[name] = table[original]
    try:
        yield
    finally:
        with _lock:
            _recordings -= 1
            if _recordings == 0:
                for module, name, original in _places():
                    setattr(module, name, original)
            for name, original in by_name:
                if own.get(name) is table[original]:
                    own[name] = original


def _known(x: Any, table: dict[Any, Any]) -> bool:
    try:
        return x in table
    except TypeError:
        return False


@functools.cache
def _places() -> list[tuple[types.ModuleType, str, Any]]:
    catalogue.load()
    found = []
    for module in _modules():
        for name, x in list(vars(module).items()):
            plain = callable(x) and not isinstance(x, type | np.ufunc) and not name.startswith("_")
            if plain and _is_ruled(x, module):
                found.append((module, name, x))
    return found


def _modules() -> Iterator[types.ModuleType]:
    yield from (sys.modules[m] for m in (*_MODULES, *_SCIPY, "gradsmith") if m in sys.modules)


def _is_ruled(x: Any, module: types.ModuleType) -> bool:
    if module.__name__ == "gradsmith":  # transforms make callables that look themselves whether a tape is recorded
        return staged.find(x) is not None and "engine" not in (getattr(x, "__kwdefaults__", None) or ())
    return catalogue.find(x) is not None or catalogue.find_definition(x) is not None


@functools.cache
def _table() -> dict[Any, Callable[..., Any]]:
    table = {original: _replacement(original) for _, _, original in _places()}
    for original, replacement in table.items():  # staged code that runs meanwhile finds the replacements in the modules
        catalogue.alias(replacement, original)
        if (builtin := staged.find(original)) is not None:
            staged.register(replacement, builtin)
    return table


def _replacement(original: Any) -> Callable[..., Any]:
    from gradsmith.frontend.recording import active

    making = _MAKING.get(original)

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        recorder = active()
        if recorder is None or not recorder.live:
            return original(*args, **kwargs)
        if holds_recorded(args) or holds_recorded(tuple(kwargs.values())):
            return recorder.call(original, args, kwargs)
        if making is None or not _called_by(sys._getframe(1), call):
            return original(*args, **kwargs)
        found = original(*args, **kwargs)
        if type(found) is not np.ndarray or found.dtype.kind not in "biufc" or (args and found is args[0]):
            return found
        return recorder.call(original, args, kwargs) if making == "staged" else recorder.made(found)

    return call


def _called_by(frame: types.FrameType, f: Any) -> bool:
    """Whether the user's code in ``frame`` calls ``f``: not a library, and not compiled code that the frame calls.

    Compiled code has no frame of its own, and crashes with what is no ndarray; ``f`` is not among the names that a frame uses
    when that calls it.
    """
    if of_library(frame.f_code):
        return False
    names = frame.f_code.co_names
    return f.__name__ in names or any(frame.f_globals.get(n) is f for n in names) or any(x is f for x in frame.f_locals.values())


def holds_recorded(x: Any) -> bool:
    """Whether a recorded value is in nested lists, tuples and dicts."""
    if isinstance(x, Recorded):
        return True
    if type(x) in (list, tuple):
        return any(map(holds_recorded, x))
    return type(x) is dict and any(map(holds_recorded, x.values()))
