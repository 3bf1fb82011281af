"""What staged code reads from outside the call: closures, globals, attributes and items of objects that exist already.

Floats and arrays become inputs of the Program and are read again at each call. Everything else is assumed to stay the same
object (or an equal number or string), and each call checks that. Lists, tuples and dicts are read once, item by item, into
staged copies, so that code under differentiation never changes what belongs to the user.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from gradsmith.frontend.stage import Stage

#: containers longer than this are assumed constant instead of being read item by item
_MAX_ITEMS = 512


def lift(stage: Stage, found: Any, read: Callable[[], Any], name: str, key: Any) -> Any:
    """The staged stand-in of ``found``, which ``read()`` gives again at each call. ``key`` identifies the place."""
    if isinstance(found, types.ModuleType | types.BuiltinFunctionType | np.ufunc):
        return found
    known = stage.lifted.get(key)
    if known is not None and known[0] is found:
        return known[1]
    lifted = _lift(stage, found, read, name)
    stage.lifted[key] = (found, lifted)
    return lifted


def _lift(stage: Stage, found: Any, read: Callable[[], Any], name: str) -> Any:
    if isinstance(found, np.ndarray) and type(found) is np.ndarray:
        return stage.capture(found, read, name)
    if isinstance(found, float | complex | np.inexact):
        return stage.capture(found, read, name)
    if type(found) in (list, tuple, dict) and len(found) <= _MAX_ITEMS:
        return _lift_container(stage, found, read, name)
    stage.assume(read, found, name)
    if not isinstance(found, _PLAIN):
        stage.origins.setdefault(id(found), (found, read, name))
    return found


_PLAIN = (int, str, bytes, bool, type(None), types.FunctionType, np.integer, np.bool_, np.dtype)


def _lift_container(stage: Stage, found: Any, read: Callable[[], Any], name: str) -> Any:
    if id(found) in stage.copies:
        return stage.copies[id(found)][1]
    if isinstance(found, dict):
        keys = list(found)
        stage.assume(lambda: list(read()), keys, name)
        out: Any = stage.heap.born({})
        stage.copies[id(found)] = (found, out)
        for k in keys:
            out[k] = _lift(stage, found[k], lambda k=k: read()[k], f"{name}[{k!r}]")
        return out
    stage.assume(lambda: (type(read()), len(read())), (type(found), len(found)), name)
    if isinstance(found, list):
        out = stage.heap.born([])
        stage.copies[id(found)] = (found, out)
        out += [_lift(stage, x, lambda k=k: read()[k], f"{name}[{k}]") for k, x in enumerate(found)]
        return out
    return tuple(_lift(stage, x, lambda k=k: read()[k], f"{name}[{k}]") for k, x in enumerate(found))


def lift_attribute(stage: Stage, owner: Any, name: str, found: Any) -> Any:
    """An attribute read from an object: an input or an assumption if the object comes from outside."""
    if isinstance(owner, types.ModuleType):
        if is_library(owner.__name__):
            return found
        return lift(stage, found, lambda: getattr(owner, name), f"{owner.__name__}.{name}", (id(owner), name))
    origin = stage.origins.get(id(owner))
    if origin is None or isinstance(found, types.MethodType | types.BuiltinFunctionType):
        return found
    read_owner = origin[1]
    return lift(stage, found, lambda: getattr(read_owner(), name), f"{origin[2]}.{name}", (id(owner), name))


def lift_item(stage: Stage, owner: Any, key: Any, found: Any) -> Any:
    """An item read natively from a container of an unusual type (an outside object)."""
    origin = stage.origins.get(id(owner))
    if origin is None:
        return stage.wrap(found)
    read_owner = origin[1]
    return lift(stage, found, lambda: read_owner()[key], f"{origin[2]}[{key!r}]", (id(owner), "item", repr(key)))


_LIBRARIES = frozenset(sys.stdlib_module_names) | {"numpy", "scipy", "gradsmith"}


def is_library(module: str) -> bool:
    """Whether the constants of a module may be taken as constant: the standard library, NumPy, SciPy."""
    return module.split(".")[0] in _LIBRARIES
