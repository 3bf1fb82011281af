"""Derivatives with respect to what a function reads from outside: arrays in closures, globals, attributes, by identity.

An array is found by the function's own reading of it. Where it was found is remembered: later calls read that place
again, so a new array in that place is differentiated in its turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradsmith import tree
from gradsmith.errors import NotDifferentiable, UnsupportedCode
from gradsmith.frontend import derive
from gradsmith.frontend import stage as st
from gradsmith.frontend.calls import enter
from gradsmith.frontend.heap import Slot
from gradsmith.frontend.stage import Stage
from gradsmith.frontend.values import Array, Scalar, is_number
from gradsmith.ir.program import Input, Value
from gradsmith.ir.types import ArrayType
from gradsmith.transforms.edit import replace_values


class Wanted:
    """What ``wrt`` of a gradient names: an array, an object, or any structure of them."""

    def __init__(self, wrt: Any):
        self.wrt = wrt
        self.places: dict[int, Callable[[], Any]] = {}  # for a leaf that was found: how to read it again

    def leaves(self) -> tuple[list[Any], tree.Tree]:
        """The arrays and numbers that are there now."""
        leaves, structure = tree.flatten(self.wrt)
        for k, read in self.places.items():
            try:
                leaves[k] = read()
            except (LookupError, AttributeError, ValueError):
                continue  # it is not there any more
        return leaves, structure


class Captured(derive.Sub):
    """A call staged as a block whose parameters stand for what ``wanted`` names."""

    def __init__(self, stage: Stage, f: Any, args: Sequence[Any], kwargs: dict[str, Any], wanted: Wanted):
        self.stage = stage
        if stage.engine == "tape":
            raise UnsupportedCode(
                "wrt on a tape: what Python reads from closures, globals and attributes is constant there; "
                "pass it as an argument"
            )
        every, self.outer_structure = wanted.leaves()
        self.every = every
        self.positions = [k for k, leaf in enumerate(every) if _type(leaf) is not None]
        if not self.positions:
            raise NotDifferentiable("wrt names no float or complex number or array")
        self.wanted_leaves = [every[k] for k in self.positions]
        keys = _keys(wanted.wrt, self.positions)
        params = [Value(type) for x in self.wanted_leaves if (type := _type(x)) is not None]
        self.inputs = [Input("array", self._units(p, x)) for p, x in zip(params, self.wanted_leaves, strict=True)]
        stage.wanted |= {id(x) for x in self.wanted_leaves if isinstance(x, np.ndarray)}
        mark = stage.heap.mark()
        known = [self._find(key, leaf) for key, leaf in zip(keys, self.wanted_leaves, strict=True)]
        current = [x.value if x is not None else None for x in known]
        for x, key, param in zip(known, keys, params, strict=True):
            self._put(x, key, param)
        # on a tape what Python computes from these arrays alone would count as constant
        with stage.builder.region(params) as block, stage.run_by("source"):
            self.result = enter(stage, f, args, kwargs)
            self.leaves, self.structure = tree.flatten(self.result)
            self.symbolic = [k for k, x in enumerate(self.leaves) if isinstance(x, Scalar | Array)]
            block.results = [self.leaves[k].value for k in self.symbolic]
        stage.heap.rollback(mark)
        found = [self._find(key, leaf) for key, leaf in zip(keys, self.wanted_leaves, strict=True)]
        if all(x is None for x in found):
            raise NotDifferentiable(
                f"{getattr(f, '__name__', 'the function')} reads none of what wrt names: arrays are recognised by "
                "identity, so name the very object that the function finds in a closure, a global or an attribute"
                + ("; a number has none: name the object or dict that holds it" if is_number(wanted.wrt) else "")
            )
        self.args = []
        for k, x, before, leaf, param in zip(self.positions, found, current, self.wanted_leaves, params, strict=True):
            if before is None and x is not None:
                replace_values(block, {x.value: param})
                before = x.value
                self._remember(wanted, k, x)
            if before is not None and not param.name:
                param.name = before.name
            self.args.append(st.as_value(leaf) if before is None else before)
        self.block = derive.simplified(block, self.inputs)
        self._check_views(f)

    def _check_views(self, f: Any) -> None:
        """A view of an array that ``wrt`` names is another array, but what it holds depends on that."""
        arrays = [x for x in self.wanted_leaves if isinstance(x, np.ndarray)]
        used = {a for op in self.block.walk() if op.name != "dim" for a in op.args} | set(self.block.results)
        read = [c.read() for c in self.stage.captures if c.cell is not None and c.value in used]
        others = [x for x in read if not any(x is y for y in arrays)]
        if any(np.may_share_memory(x, y) for x in others for y in arrays):
            raise UnsupportedCode(
                f"{getattr(f, '__name__', 'the function')} also reads an array that shares memory with one that wrt names "
                "(one is a view of the other): name all that it reads, or make the view inside the function"
            )

    def _units(self, param: Value, leaf: Any) -> tuple[bool, ...]:
        self.stage.data.add(param)
        if isinstance(leaf, Scalar | Array):
            return ()
        self.stage.known[param] = leaf
        return tuple(n == 1 for n in np.shape(leaf))

    def _find(self, key: tuple[Any, Any], leaf: Any) -> Any:
        """The stand-in of a leaf that staged code has read, or None."""
        stage, (owner, name) = self.stage, key
        if isinstance(leaf, Array):
            return leaf
        if isinstance(leaf, np.ndarray):
            known = stage.captured(leaf)
            return known if isinstance(known, Array) else None
        if id(owner) in stage.copies:
            return stage.copies[id(owner)][1][name]
        found = stage.lifted.get((id(owner), name))
        return found[1] if found is not None and isinstance(found[1], Scalar) else None

    def _put(self, x: Any, key: tuple[Any, Any], param: Value) -> None:
        """Let a stand-in that exists already hold the parameter while the function is staged."""
        if isinstance(x, Array):
            self.stage.heap.write(Slot("cell", x.cell), param)
        elif isinstance(x, Scalar):
            number = Scalar(param, x.weak)
            owner, name = key
            if id(owner) in self.stage.copies:
                self.stage.heap.write(Slot("key", self.stage.copies[id(owner)][1], name), number)
            else:
                place = (id(owner), name)
                self.stage.heap.write(Slot("key", self.stage.lifted, place), (self.stage.lifted[place][0], number))

    def _remember(self, wanted: Wanted, k: int, x: Any) -> None:
        for capture in self.stage.captures:
            if capture.value is x.value:
                wanted.places[k] = capture.read

    def structured(self, grads: Sequence[Any]) -> Any:
        """Gradients in the structure of ``wrt``."""
        new = list(map(derive.without_derivative, self.every))
        for k, g in zip(self.positions, grads, strict=True):
            new[k] = g
        return tree.unflatten(self.outer_structure, new)


def _type(x: Any) -> ArrayType | None:
    """The type of a leaf that has a derivative. (An outside array must not become a constant of the stage here.)"""
    if isinstance(x, Scalar | Array):
        dtype, ndim = x.dtype, x.value.ndim
    elif isinstance(x, float | complex | np.inexact | np.ndarray):
        dtype, ndim = np.asarray(x).dtype, np.ndim(x)
    else:
        return None
    return ArrayType(dtype, ndim) if dtype.kind in "fc" else None


def _keys(x: Any, positions: Sequence[int]) -> list[tuple[Any, Any]]:
    """For each leaf the object that holds it, and the attribute, key or index there."""
    accessors = tree.accessors(x)
    out: list[tuple[Any, Any]] = []
    for k in positions:
        accessor = accessors[k]
        out.append((accessor[:-1](x), accessor[-1].entry) if len(accessor) else (None, None))
    return out


def value_and_grad(
    stage: Stage, f: Any, args: Sequence[Any], kwargs: dict[str, Any], wanted: Wanted, has_aux: bool
) -> tuple[Any, Any, Any]:
    """(value, gradient with respect to what ``wanted`` names, aux)."""
    sub = Captured(stage, f, args, kwargs, wanted)
    value, grads, aux = derive.value_and_grad_of(stage, f, sub, sub.wanted_leaves, has_aux)
    return value, sub.structured(grads), aux
