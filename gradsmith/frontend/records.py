"""Dataclasses in staged code: their generated methods, which have no source, and the functions of ``dataclasses``."""

from __future__ import annotations

import dataclasses
import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any

from gradsmith.frontend import objects
from gradsmith.frontend.heap import Slot
from gradsmith.frontend.stage import Stage


def generated(f: types.FunctionType, args: Sequence[Any]) -> Callable[..., Any] | None:
    """What stands for ``f`` (taking the stage first) if it is a method that ``@dataclass`` generated, else None."""
    if f.__code__.co_filename != "<string>" or not args or not dataclasses.is_dataclass(args[0]):
        return None
    if f.__name__ == "__init__":
        return lambda stage, *args, **kwargs: initialise(stage, f, args[0], args[1:], kwargs)
    if f.__name__ in _COMPARISONS:
        return lambda stage, x, y: _compare(stage, _COMPARISONS[f.__name__], x, y)
    return None


def initialise(stage: Stage, f: types.FunctionType, instance: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """``__init__``: store the fields, call ``__post_init__``."""
    given = inspect.signature(f).bind(instance, *args, **kwargs).arguments
    extra = []
    for field in type(instance).__dataclass_fields__.values():
        kind = field._field_type.name
        if kind == "_FIELD_CLASSVAR":
            continue
        if field.init and field.name in given:
            value = given[field.name]
        elif field.default_factory is not dataclasses.MISSING:
            value = _call(stage, field.default_factory)
        elif field.default is not dataclasses.MISSING:
            value = field.default
        else:
            continue  # a field that __post_init__ makes
        if kind == "_FIELD_INITVAR":
            extra.append(value)
        else:
            stage.heap.write(Slot("attr", instance, field.name), value)
    if hasattr(instance, "__post_init__"):
        _call(stage, type(instance).__post_init__, instance, *extra)


_COMPARISONS = {"__eq__": "==", "__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">="}


def _compare(stage: Stage, symbol: str, x: Any, y: Any) -> Any:
    """Objects of one class compare as the tuples of their fields."""
    if type(x) is not type(y):
        return NotImplemented
    names = [f.name for f in dataclasses.fields(x) if f.compare]
    parts = [tuple(objects.getattr_(stage, z, name) for name in names) for z in (x, y)]
    return objects.compare(stage, symbol, *parts)


def replace(stage: Stage, x: Any, /, **changes: Any) -> Any:
    """``dataclasses.replace``."""
    for field in dataclasses.fields(x):
        if not field.init:
            if field.name in changes:
                raise ValueError(
                    f"field {field.name} is declared with init=False, it cannot be specified with replace()"
                )
        elif field.name not in changes:
            changes[field.name] = objects.getattr_(stage, x, field.name)
    return _call(stage, type(x), **changes)


def as_dict(stage: Stage, x: Any, *, dict_factory: Any = dict) -> Any:
    """``dataclasses.asdict``."""
    return _converted(stage, x, lambda pairs: stage.heap.born(dict_factory(pairs)))


def as_tuple(stage: Stage, x: Any, *, tuple_factory: Any = tuple) -> Any:
    """``dataclasses.astuple``."""
    return _converted(stage, x, lambda pairs: tuple_factory([value for _, value in pairs]))


def _converted(stage: Stage, x: Any, make: Callable[[list[tuple[str, Any]]], Any]) -> Any:
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        fields = dataclasses.fields(x)
        return make([(f.name, _converted(stage, objects.getattr_(stage, x, f.name), make)) for f in fields])
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*(_converted(stage, y, make) for y in x))
    if isinstance(x, list | tuple):
        return stage.heap.born(type(x)(_converted(stage, y, make) for y in x))
    if isinstance(x, dict):
        return stage.heap.born({k: _converted(stage, v, make) for k, v in x.items()})
    from gradsmith.frontend.builtins import deepcopy

    return deepcopy(stage, x)


def _call(stage: Stage, f: Any, *args: Any, **kwargs: Any) -> Any:
    from gradsmith.frontend.calls import call

    return call(stage, f, args, kwargs)
