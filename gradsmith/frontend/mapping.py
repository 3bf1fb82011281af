"""``tree_map`` in staged code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import optree

from gradsmith import tree
from gradsmith.frontend import objects
from gradsmith.frontend.stage import Stage
from gradsmith.frontend.values import Array, is_number, share


def tree_map(stage: Stage, f: Callable[..., Any], x: Any, *others: Any) -> Any:
    """``f`` applied to every number and array in ``x`` (see ``forms.tree_map``)."""
    from gradsmith.frontend.calls import call

    structure = tree.flatten(x)[1]
    for other in others:
        tree.flatten_up_to(structure, other)  # raises an error where it has another structure
    rows = [_read(stage, structure, y) for y in (x, *others)]
    mapped = [
        call(stage, f, place, {}) if _is_numeric(place[0]) and all(y is not None for y in place) else place[0]
        for place in zip(*rows, strict=True)
    ]
    if not tree.is_leaf(structure):
        share(mapped)
    return tree.unflatten(structure, mapped)


def _is_numeric(leaf: Any) -> bool:
    return is_number(leaf) or isinstance(leaf, Array | np.ndarray)


def _read(stage: Stage, node: tree.Tree, x: Any) -> list[Any]:
    """The leaves of ``x``, read as staged code reads them: what comes from outside is an input, not a constant."""
    if node.kind == optree.PyTreeKind.LEAF:
        return [x]
    read = objects.getattr_ if node.type in tree.fields else objects.getitem
    children = zip(node.children(), node.entries(), strict=True)
    return [leaf for child, key in children for leaf in _read(stage, child, read(stage, x, key))]
