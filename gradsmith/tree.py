"""Nested arguments and results ↔ flat lists of leaves: tuples, lists, dicts, named tuples and dataclasses (by optree)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import optree

_NAMESPACE = "gradsmith"
_registered: set[type] = set()

Tree = optree.PyTreeSpec


def flatten(x: Any) -> tuple[list[Any], Tree]:
    """The leaves of ``x``, and the structure they came from. None is structure, not a leaf."""
    while True:
        leaves, tree = optree.tree_flatten(x, namespace=_NAMESPACE)
        new = {type(leaf) for leaf in leaves if dataclasses.is_dataclass(leaf) and not isinstance(leaf, type)} - _registered
        if not new:
            return leaves, tree
        for cls in new:
            _register(cls)


def unflatten(tree: Tree, leaves: Sequence[Any]) -> Any:
    """The structure ``tree`` with ``leaves``; dataclasses are made without running their ``__init__``."""
    return optree.tree_unflatten(tree, leaves)


def paths(x: Any) -> list[str]:
    """For each leaf of ``x`` how Python code reaches it: ``""`` for a leaf itself, else ``"[0]['w']"``."""
    flatten(x)  # registers dataclasses
    return [optree.PyTreeAccessor(a).codify("") for a in optree.tree_accessors(x, namespace=_NAMESPACE)]


def is_leaf(tree: Tree) -> bool:
    """Whether the structure is a single leaf."""
    return optree.treespec_is_leaf(tree)


def _register(cls: type) -> None:
    names = [f.name for f in dataclasses.fields(cls)]

    def split(x: Any) -> tuple[list[Any], None, list[str]]:
        return [getattr(x, n) for n in names], None, names

    def join(_: None, children: Sequence[Any]) -> Any:
        new = object.__new__(cls)
        for name, child in zip(names, children, strict=True):
            object.__setattr__(new, name, child)
        return new

    optree.register_pytree_node(cls, split, join, path_entry_type=optree.GetAttrEntry, namespace=_NAMESPACE)  # type: ignore[arg-type]
    _registered.add(cls)
