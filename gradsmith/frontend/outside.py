"""What staged code reads from outside the call: closures, globals, attributes and items of objects that exist already.

Floats and arrays become inputs of the Program and are read again at each call. Everything else is assumed to stay the same
object (or an equal number or string), and each call checks that. Lists, tuples and dicts are read once, item by item, into
staged copies, so that code under differentiation never changes what belongs to the user.
"""

from __future__ import annotations

import collections
import functools
import operator
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from gradsmith.backends import effects
from gradsmith.frontend.generators import Handle, is_generator
from gradsmith.frontend.heap import Slot
from gradsmith.frontend.stage import Stage
from gradsmith.frontend.values import Maybe, Symbolic

#: longer containers are not read item by item: they are guarded as a whole
_MAX_ITEMS = 512


def lift(stage: Stage, found: Any, read: Callable[[], Any], name: str, key: Any) -> Any:
    """The staged stand-in of ``found``, which ``read()`` gives again at each call. ``key`` identifies the place."""
    if isinstance(found, types.ModuleType | types.BuiltinFunctionType | types.MethodWrapperType | np.ufunc):
        return found
    known = stage.lifted.get(key)
    if known is not None and known[0] is found:
        return known[1]
    lifted = _lift(stage, found, read, name)
    stage.lifted[key] = (found, lifted)
    return lifted


def _lift(stage: Stage, found: Any, read: Callable[[], Any], name: str) -> Any:
    if isinstance(found, Symbolic | Maybe):
        return found
    if isinstance(found, np.ndarray) and type(found) is np.ndarray:
        return stage.capture(found, read, name)
    if isinstance(found, float | complex | np.inexact):
        return stage.capture(found, read, name)
    if is_generator(found):
        number = stage.capture(effects.handle(found), lambda: effects.handle(read()), name)
        return Handle(number, type(found))
    if (type(found) in (list, tuple, dict) or _is_named_tuple(found)) and len(found) <= _MAX_ITEMS:
        return _lift_container(stage, found, read, name)
    if isinstance(found, _CONTAINERS):
        _freeze(stage, found, read, name)
    if type(found) is int:
        return stage.read_int(found, read, name)
    stage.assume(read, found)
    if not isinstance(found, _PLAIN) and not stage.heap.birth(found):
        stage.origins.setdefault(id(found), (found, read, name))
    return found


_PLAIN = (int, str, bytes, bool, type(None), types.FunctionType, np.integer, np.bool_, np.dtype)


#: containers that are read as they are, while they hold the same things
_CONTAINERS = (list, tuple, dict, set, frozenset, collections.deque, types.MappingProxyType)


def _is_named_tuple(x: Any) -> bool:
    return isinstance(x, tuple) and hasattr(x, "_fields")


def _freeze(stage: Stage, found: Any, read: Callable[[], Any], name: str) -> None:
    """Guard: the container, which is of an unusual class or long, holds what it holds now. Arrays in it become inputs."""
    if id(found) in stage.copies:
        return
    stage.copies[id(found)] = (found, found)
    held = _held(found)
    stage.assume(lambda: _same(_held(read()), held), True, f"{name} ({id(found)})")
    for x in held:
        if type(x) is np.ndarray:
            stage.capture(x, functools.partial(_itself, x), name)
        elif isinstance(x, _CONTAINERS):
            _freeze(stage, x, functools.partial(_itself, x), name)


def _held(container: Any) -> list[Any]:
    if isinstance(container, dict | types.MappingProxyType):
        return [*container.keys(), *container.values()]
    return list(container)


def _same(now: list[Any], before: list[Any]) -> bool:
    """Whether two lists hold the same objects, or equal numbers and strings."""
    if len(now) != len(before):
        return False
    if all(map(operator.is_, now, before)):
        return True
    plain = (int, float, complex, str, bytes)
    return all(
        a is b or (type(a) is type(b) and isinstance(a, plain) and a == b) for a, b in zip(now, before, strict=True)
    )


def _itself(x: Any) -> Any:
    return x


def _lift_container(stage: Stage, found: Any, read: Callable[[], Any], name: str) -> Any:
    if id(found) in stage.copies:
        return stage.copies[id(found)][1]
    if isinstance(found, dict):
        keys = list(found)
        stage.assume(lambda: list(read()), keys)
        out: Any = stage.heap.stands_in({})
        stage.copies[id(found)] = (found, out)
        for k in keys:
            out[k] = _lift(stage, found[k], lambda k=k: read()[k], f"{name}[{k!r}]")
        return out
    stage.assume(lambda: (type(read()), len(read())), (type(found), len(found)))
    if isinstance(found, list):
        out = stage.heap.stands_in([])
        stage.copies[id(found)] = (found, out)
        out += [_lift(stage, x, lambda k=k: read()[k], f"{name}[{k}]") for k, x in enumerate(found)]
        return out
    items = [_lift(stage, x, lambda k=k: read()[k], f"{name}[{k}]") for k, x in enumerate(found)]
    return type(found)(*items) if _is_named_tuple(found) else tuple(items)


def note_root(stage: Stage, f: Any) -> None:
    """The function that is differentiated brings its objects along; their attributes are read again at each call."""
    if not isinstance(f, _PLAIN) and not stage.heap.birth(f):
        stage.origins.setdefault(id(f), (f, lambda: f, "self"))
        if isinstance(f, types.MethodType):
            stage.origins.setdefault(id(f.__self__), (f.__self__, lambda: f.__self__, "self"))


def note_part(stage: Stage, owner: Any, name: str) -> None:
    """If ``owner`` comes from outside, so does its part ``owner.name``."""
    origin = stage.origins.get(id(owner))
    if origin is not None:
        part = getattr(owner, name)
        stage.origins.setdefault(id(part), (part, lambda: getattr(origin[1](), name), f"{origin[2]}.{name}"))


def partial_parts(stage: Stage, f: functools.partial[Any]) -> tuple[Any, list[Any], dict[str, Any]]:
    """Function, arguments and keywords of a partial; those of one from outside are read again at each call."""
    origin = stage.origins.get(id(f))
    if origin is None:
        return f.func, list(f.args), f.keywords
    read, name = origin[1], origin[2]
    note_part(stage, f, "func")
    args = [lift(stage, x, lambda k=k: read().args[k], f"{name}_{k}", (id(f), k)) for k, x in enumerate(f.args)]
    named = {k: lift(stage, x, lambda k=k: read().keywords[k], k, (id(f), k)) for k, x in f.keywords.items()}
    return f.func, args, named


def lift_attribute(stage: Stage, owner: Any, name: str, found: Any) -> Any:
    """An attribute read from an object: an input or an assumption if the object comes from outside."""
    if isinstance(owner, types.ModuleType):
        if is_library(owner.__name__):
            return found
        return lift(stage, found, lambda: getattr(owner, name), f"{owner.__name__}.{name}", (id(owner), name))
    if isinstance(owner, types.FunctionType):
        return lift(stage, found, lambda: getattr(owner, name), f"{owner.__name__}.{name}", (id(owner), name))
    if stage.heap.assigned(Slot("attr", owner, name)):
        return found
    cls = owner if isinstance(owner, type) else type(owner)
    if isinstance(found, types.MethodType) and not is_library(cls.__module__):
        if found.__func__ is _class_function(cls, name):
            stage.assume(lambda: _class_function(cls, name), found.__func__, name)
        return found
    if isinstance(found, types.MethodType | types.BuiltinFunctionType) or isinstance(found, Symbolic | Maybe):
        return found
    if cls is owner and stage.heap.birth(cls):
        return found
    if cls is owner and not is_library(cls.__module__):
        return lift(stage, found, lambda: getattr(owner, name), f"{cls.__name__}.{name}", (id(owner), name))
    origin = stage.origins.get(id(owner))
    if origin is None:
        if stage.heap.birth(owner) or is_library(cls.__module__):
            return found
        # reached without reading a name: the function itself, an argument of a partial, a bound method's object
        origin = stage.origins[id(owner)] = (owner, lambda: owner, type(owner).__name__)
    read_owner = origin[1]
    return lift(stage, found, lambda: getattr(read_owner(), name), f"{origin[2]}.{name}", (id(owner), name))


def _class_function(cls: type, name: str) -> Any:
    found = getattr(cls, name, None)
    return getattr(found, "__func__", found)


def assume_of_class(stage: Stage, cls: type, name: str) -> None:
    """Guard: a class from outside keeps its method or property ``name``."""
    if not stage.heap.birth(cls) and not is_library(cls.__module__):
        stage.assume(lambda: _class_function(cls, name), _class_function(cls, name), f"{cls.__qualname__}.{name}")


def assume_not_its_own(stage: Stage, owner: Any, name: str) -> None:
    """Guard: an object from outside has no attribute ``name`` besides that of its class."""
    origin = stage.origins.get(id(owner))
    if origin is not None and hasattr(owner, "__dict__") and not _written(stage, owner, name):
        stage.assume(lambda: name in origin[1]().__dict__, False, f"{name} of {id(owner)} itself")


def assume_presence(stage: Stage, owner: Any, name: str, present: bool) -> None:
    """Guard: an object, class or module from outside still has (or has not) the attribute ``name``."""
    if isinstance(owner, types.ModuleType | type):
        module = owner.__name__ if isinstance(owner, types.ModuleType) else owner.__module__
        if is_library(module) or stage.heap.birth(owner):
            return
        stage.assume(lambda: hasattr(owner, name), present, f"whether {id(owner)} has {name}")
    elif (origin := stage.origins.get(id(owner))) is not None and not _written(stage, owner, name):
        stage.assume(lambda: hasattr(origin[1](), name), present, f"whether {id(owner)} has {name}")


def _written(stage: Stage, owner: Any, name: str) -> bool:
    """Whether the call itself has assigned or deleted the attribute."""
    return any(slot.owner is owner and slot.key == name for slot, _ in stage.heap.journal)


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
