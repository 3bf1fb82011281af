"""NumPy functions called with objects of the user's classes: the classes' own methods answer, as NumPy lets them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradsmith.frontend.objects import call_method, user_method
from gradsmith.frontend.stage import Stage


def find(f: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Callable[[Stage], Any] | None:
    """What calls the method of an argument's class that stands for the NumPy function ``f``; None if there is none."""
    if isinstance(f, np.ufunc):
        owners = _owners(args, "__array_ufunc__")
        if owners:
            return lambda stage: _first(stage, f, owners, [f, "__call__", *args], kwargs)
        own = user_method(args[0], f.__name__) if len(args) == f.nin == 1 else None
        return None if own is None else lambda stage: call_method(stage, own, args)
    if not getattr(f, "__module__", None) or not f.__module__.split(".")[0] == "numpy" or isinstance(f, type):
        return None
    owners = _owners([*args, *kwargs.values()], "__array_function__")
    kinds = tuple(type(x) for x, _ in owners)
    return (lambda stage: _first(stage, f, owners, [f, kinds, tuple(args), kwargs], {})) if owners else None


def _owners(args: Sequence[Any], name: str) -> list[tuple[Any, Any]]:
    """Arguments whose class has the method, with it: a derived class before its bases, else from left to right."""
    found: list[tuple[Any, Any]] = []
    for x in args:
        method = user_method(x, name)
        if method is not None and type(x) not in [type(y) for y, _ in found]:
            place = next((k for k, (y, _) in enumerate(found) if issubclass(type(x), type(y))), len(found))
            found.insert(place, (x, method))
    return found


def _first(stage: Stage, f: Any, owners: list[tuple[Any, Any]], args: list[Any], kwargs: dict[str, Any]) -> Any:
    from gradsmith.frontend.calls import call

    for x, method in owners:
        result = call(stage, method, [x, *args], kwargs)
        if result is not NotImplemented:
            return result
    raise TypeError(f"operand type(s) all returned NotImplemented from the override of {f.__name__}")
