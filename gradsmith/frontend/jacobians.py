"""Jacobians of staged functions, row by row or in chunks of columns, and what is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradsmith import tree
from gradsmith.errors import NotDifferentiable
from gradsmith.frontend.derive import Leaves, Sub, is_inexact, say
from gradsmith.frontend.stage import NeedConcrete, Stage
from gradsmith.frontend.values import Array, Scalar, fresh, is_weak
from gradsmith.ir import builder as ir
from gradsmith.ir.program import Const, Value


def jacobian(stage: Stage, f: Any, chosen: Leaves, mode: str, single: bool, chunk: int | None = None) -> Any:
    """For every leaf of the result the structure of the chosen arguments, each leaf of shape result.shape + argument.shape."""
    sub = Sub(stage, f, chosen)
    name = getattr(f, "__name__", "the function")
    if sub.result is None:
        raise NotDifferentiable(f"{name} returned None, which has no derivative (is a return missing?)")
    for leaf in sub.leaves:
        if not is_inexact(leaf):
            raise NotDifferentiable(f"{name} returned {say(leaf)}, which has no derivative")
    if mode == "auto":
        mode = _choose_mode(stage, sub)
    if any(map(stage.acts, sub.block.ops)):
        mode = "reverse"  # forward mode would print and draw once for each column
    rows = _forward_jacobian(stage, sub, chunk) if mode == "forward" else _reverse_jacobian(stage, sub)
    leaves: list[Any] = []
    for k, leaf in enumerate(sub.leaves):
        if k in sub.symbolic:
            parts = [number_like(v, leaf, x) for v, x in zip(rows[sub.symbolic.index(k)], chosen.leaves, strict=True)]
        else:
            parts = [number_like(ir.zeros_like(a), leaf, x) for a, x in zip(sub.args, chosen.leaves, strict=True)]
        structured = chosen.structured(parts)
        leaves.append(structured[0] if single else tuple(structured))
    return tree.unflatten(sub.structure, leaves)


def number_like(value: Value, result: Any, argument: Any) -> Any:
    """An entry of a Jacobian: a number only if both sides are numbers."""
    if value.ndim:
        return fresh(value)
    arrays = isinstance(result, Array) or isinstance(argument, Array | np.ndarray)
    return fresh(value) if arrays else Scalar(value, is_weak(argument))


def _choose_mode(stage: Stage, sub: Sub) -> str:
    """Forward with no more inputs than outputs, else reverse, by the sizes in this call."""
    try:
        inputs = sum(np.size(stage.peek(a)) for a in sub.args)
        outputs = sum(_peek_size(stage, r) for r in sub.block.results)
    except NeedConcrete:
        return "reverse" if all(r.ndim == 0 for r in sub.block.results) else "forward"
    return "forward" if inputs <= outputs else "reverse"


def _peek_size(stage: Stage, result: Value) -> int:
    """The size of a result, from the shapes of the arguments where they determine it."""
    with stage.builder.region():
        dims = ir.shape(result)
        return int(np.prod([int(stage.peek(n)) for n in dims], dtype=np.int64))


def size_of(dims: Sequence[Value]) -> Value:
    size: Value = ir.i64(1)
    for n in dims:
        size = n if isinstance(size, Const) else ir.elementwise("mul", size, n)
    return size


def one_hot(value: Value, k: Value) -> Value:
    """The k-th unit vector in the shape of ``value``."""
    if value.ndim == 0:
        return ir.const_like(1, value)
    dims = ir.shape(value)
    flat = ir.set_at(ir.full(0, [size_of(dims)], value.dtype), ir.const_like(1, value), ["i"], [k], checked=True)
    return flat if value.ndim == 1 else ir.reshape(flat, dims)


def rows_along(stage: Stage, along: Value, targets: Sequence[Value], rows: Any, chunk: int = 1) -> list[Value]:
    """The rows for the elements of ``along``, stacked: for each target an array of shape (size of along, *target.shape).

    ``rows(ks)`` gives, for each of ``chunk`` element numbers, what belongs to the targets.
    """
    if along.ndim == 0:
        (row,) = rows([ir.i64(0)])
        return [ir.zeros_like(t) if v is None else v for v, t in zip(row, targets, strict=True)]
    size = size_of(ir.shape(along))
    start = [ir.full(0, [size, *ir.shape(t)], t.dtype) for t in targets]
    index, carried = Value(ir.I64, "k"), [Value(s.type, "J") for s in start]
    with stage.builder.region([index, *carried]) as body:
        # a chunk that is not full does its last row several times
        ks = [ir.elementwise("minimum", index + c, size - 1) if c else index for c in range(chunk)]
        stacked: list[Value] = list(carried)
        for k, row in zip(ks, rows(ks), strict=True):
            stacked = [
                c if v is None else ir.set_at(c, v, ["i"] + [":"] * v.ndim, [k], checked=True)
                for c, v in zip(stacked, row, strict=True)
            ]
        body.results = stacked
    return stage.builder.emit_control("for", [ir.i64(0), size, ir.i64(chunk), *start], [body]).results


#: so many directions share one evaluation of the function in forward mode, and so many operations at most are made of it
_LARGEST_CHUNK, _CHUNK_OPERATIONS = 8, 1500


def chunk_size(stage: Stage, sub: Sub, arg: Value) -> int:
    """How many columns to compute at once: one unless there are loops, which are run again for every chunk."""
    ops = list(sub.block.walk())
    if not any(op.name in ("for", "while") for op in ops):
        return 1
    largest = max(1, min(_LARGEST_CHUNK, _CHUNK_OPERATIONS // len(ops)))
    try:
        size = max(1, int(np.size(stage.peek(arg))))
    except NeedConcrete:
        return largest
    return -(-size // -(-size // largest))


def forward_rows(sub: Sub, j: int, results: Sequence[Value], chunk: int) -> list[Value]:
    """For every result its derivative along each element of argument ``j``, stacked along a first axis."""
    arg = sub.args[j]

    def rows(ks: Sequence[Value]) -> list[list[Value | None]]:
        seeds: list[list[Value | None]] = [[None] * len(sub.args) for _ in ks]
        for seed, k in zip(seeds, ks, strict=True):
            seed[j] = one_hot(arg, k)
        return sub.jvps(seeds)[1]

    return rows_along(sub.stage, arg, results, rows, chunk)


def _forward_jacobian(stage: Stage, sub: Sub, given_chunk: int | None) -> list[list[Value]]:
    primal = sub.emit_primal()
    columns = []
    for j, arg in enumerate(sub.args):
        stacked = forward_rows(sub, j, primal, given_chunk or chunk_size(stage, sub, arg))
        columns.append([_moved(s, arg, y, first_is_input=True) for s, y in zip(stacked, primal, strict=True)])
    return [[column[i] for column in columns] for i in range(len(primal))]


def _reverse_jacobian(stage: Stage, sub: Sub) -> list[list[Value]]:
    results, back = sub.vjp()
    out = []
    for i, y in enumerate(results):

        def rows(ks: Sequence[Value], i: int = i, y: Value = y) -> list[list[Value | None]]:
            seeds: list[Value | None] = [None] * len(results)
            seeds[i] = one_hot(y, ks[0])
            return [back(seeds)]

        stacked = rows_along(stage, y, sub.args, rows)
        out.append([_moved(s, y, a, first_is_input=False) for s, a in zip(stacked, sub.args, strict=True)])
    return out


def _moved(stacked: Value, along: Value, target: Value, first_is_input: bool) -> Value:
    """Rows stacked along a flat first axis as an array of shape result.shape + argument.shape."""
    if along.ndim == 0:
        return stacked
    if along.ndim > 1:
        stacked = ir.reshape(stacked, [*ir.shape(along), *ir.shape(target)])
    if not first_is_input:
        return stacked
    a, t = along.ndim, target.ndim
    return ir.transpose(stacked, [*range(a, a + t), *range(a)])
