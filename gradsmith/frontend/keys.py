"""Dicts with keys that only some paths have set: whoever looks at more than one key specialises on which there are."""

from __future__ import annotations

from typing import Any

from gradsmith import tree
from gradsmith.frontend.heap import MISSING, Slot
from gradsmith.frontend.stage import Stage
from gradsmith.frontend.values import Maybe, Symbolic


def settle(stage: Stage, x: Any) -> Any:
    """``x``, in which every key is there or not, if it is a dict."""
    if isinstance(x, dict):
        for key, value in list(x.items()):
            while type(value) is Maybe:
                value = value.value if stage.concrete(value.defined) else MISSING
                stage.heap.write(Slot("key", x, key), value)
    return x


def settle_result(stage: Stage, x: Any) -> Any:
    """``x``, in which every dict and object has each key and attribute or not: what leaves the staged code."""
    pending, seen = [x], set()
    while pending:
        y = pending.pop()
        if id(y) in seen:
            continue
        seen.add(id(y))
        if isinstance(y, list | tuple):
            pending += y
        elif isinstance(y, dict):
            pending += settle(stage, y).values()
        elif not isinstance(y, Symbolic | type) and (own := tree.own_dict(y)) and stage.heap.birth(y):
            pending += settle(stage, own).values()
    return x


def holds(stage: Stage, x: dict[Any, Any], key: Any) -> Any:
    """``key in x``: a bool, symbolic if only some paths have set the key."""
    value = x.get(key, MISSING)
    if type(value) is not Maybe:
        return value is not MISSING
    if type(value.value) is Maybe:
        return settle(stage, x).get(key, MISSING) is not MISSING
    return value.defined
