"""Nested arguments and results ↔ flat lists of leaves (by optree).

Tuples, lists, dicts, named tuples and dataclasses are structure, and so are plain objects that hold numbers or arrays: a
model, its list of layers. Whatever else is a leaf.
"""

from __future__ import annotations

import dataclasses
import sys
import types
from collections.abc import Sequence
from typing import Any

import numpy as np
import optree

_NAMESPACE = "gradsmith"
#: registered classes: the names of their fields, or None if instances consist of the entries of their ``__dict__``
fields: dict[type, list[str] | None] = {}

# a dict is iterated in the order of its keys, so that is part of its structure; the manager must live to stay in force
_ordered = optree.dict_insertion_ordered(True, namespace=_NAMESPACE)
_ordered.__enter__()

Tree = optree.PyTreeSpec


def flatten(x: Any) -> tuple[list[Any], Tree]:
    """The leaves of ``x``, and the structure they came from. None is structure, not a leaf."""
    while True:
        leaves, tree = optree.tree_flatten(x, namespace=_NAMESPACE)
        new = {type(leaf): leaf for leaf in leaves if type(leaf) not in ATOMS and _is_structure(leaf)}
        if not new:
            return leaves, tree
        for cls in new:
            _register(cls)


def unflatten(tree: Tree, leaves: Sequence[Any]) -> Any:
    """The structure ``tree`` with ``leaves``; objects and dataclasses are made without running their ``__init__``."""
    return optree.tree_unflatten(tree, leaves)


def paths(x: Any) -> list[str]:
    """For each leaf of ``x`` how Python code reaches it: ``""`` for a leaf itself, else ``"[0]['w']"``."""
    flatten(x)  # registers classes
    return [optree.PyTreeAccessor(a).codify("") for a in optree.tree_accessors(x, namespace=_NAMESPACE)]


def is_leaf(tree: Tree) -> bool:
    """Whether the structure is a single leaf."""
    return optree.treespec_is_leaf(tree)


#: classes whose instances are leaves without a closer look
ATOMS = {float, int, bool, complex, str, bytes, np.ndarray, np.float64, np.float32, np.int64, types.FunctionType}
_OPAQUE = frozenset(sys.stdlib_module_names) | {"numpy", "scipy", "gradsmith", "optree", "builtins"}


def _is_structure(x: Any) -> bool:
    """Whether a leaf of optree's is structure here: a dataclass, or an object of a user's class that holds numbers."""
    cls = type(x)
    if cls in fields:
        return False
    if dataclasses.is_dataclass(cls):
        return True
    if isinstance(x, type) or cls.__module__.split(".")[0] in _OPAQUE or not hasattr(x, "__dict__"):
        return False
    return cls.__reduce_ex__ is object.__reduce_ex__ and _holds_numbers(x, set())


#: classes of numbers; those that stand for numbers while a function is staged join in
_NUMBERS: list[type] = [float, complex, np.inexact]


def count_as_numbers(*classes: type) -> None:
    """Let objects that hold instances of ``classes`` be structure."""
    _NUMBERS.extend(classes)


def _holds_numbers(x: Any, seen: set[int]) -> bool:
    if isinstance(x, tuple(_NUMBERS)) or (isinstance(x, np.ndarray) and x.dtype.kind in "fc"):
        return True
    if type(x) in ATOMS or x is None or isinstance(x, type) or id(x) in seen:
        return False
    seen.add(id(x))
    if isinstance(x, dict):
        return any(_holds_numbers(y, seen) for y in x.values())
    if isinstance(x, list | tuple):
        return any(_holds_numbers(y, seen) for y in x)
    opaque = type(x).__module__.split(".")[0] in _OPAQUE
    return not opaque and any(_holds_numbers(y, seen) for y in getattr(x, "__dict__", {}).values())


def _register(cls: type) -> None:
    """Make instances of ``cls`` structure: their fields, or the entries of their ``__dict__``."""
    own = [f.name for f in dataclasses.fields(cls)] if dataclasses.is_dataclass(cls) else None

    def split(x: Any) -> tuple[list[Any], tuple[str, ...], tuple[str, ...]]:
        names = tuple(own if own is not None else x.__dict__)
        return [getattr(x, n) if own is not None else x.__dict__[n] for n in names], names, names

    def join(names: tuple[str, ...], children: Sequence[Any]) -> Any:
        new: Any = object.__new__(cls)
        for name, child in zip(names, children, strict=True):
            object.__setattr__(new, name, child)
        return new

    optree.register_pytree_node(cls, split, join, path_entry_type=optree.GetAttrEntry, namespace=_NAMESPACE)  # type: ignore[arg-type]
    fields[cls] = own
