"""Jacobians of staged functions, row by row or in chunks of columns, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradsmith import tree
from gradsmith.errors import NotDifferentiable
from gradsmith.frontend.derive import Leaves, Sub, is_inexact, say
from gradsmith.frontend.stage import NeedConcrete, Stage
from gradsmith.frontend.values import Array, Scalar, fresh, is_weak
from gradsmith.ir import builder as ir
from gradsmith.ir.program import Const, Op, Value
from gradsmith.transforms.activity import Activity


def jacobian(
    stage: Stage,
    f: Any,
    chosen: Leaves,
    mode: str,
    single: bool,
    chunk: int | None = None,
    holomorphic: bool = False,
) -> Any:
    """For every leaf of the result the structure of the arguments, leaves of shape result.shape + argument.shape."""
    sub = Sub(stage, f, chosen)
    name = getattr(f, "__name__", "the function")
    if sub.result is None:
        raise NotDifferentiable(f"{name} returned None, which has no derivative (is a return missing?)")
    for leaf in sub.leaves:
        if not is_inexact(leaf):
            raise NotDifferentiable(f"{name} returned {say(leaf)}, which has no derivative")
    if mode == "auto":
        mode = _choose_mode(stage, sub)
    _check_complex(sub, holomorphic)
    if any(map(_is_complex, sub.args)) and not all(map(_is_complex, sub.block.results)):
        mode = "reverse"  # forward mode would see what changes along the real axis alone
    if any(map(stage.acts, sub.block.ops)):
        mode = "reverse"  # forward mode would print and draw once for each column
    rows = _forward_jacobian(stage, sub, chunk) if mode == "forward" else _reverse_jacobian(stage, sub)[1]
    return _structured(sub, chosen, rows, single)


def _is_complex(x: Value) -> bool:
    return x.dtype.kind == "c"


def _check_complex(sub: Sub, holomorphic: bool) -> None:
    if not holomorphic and any(map(_is_complex, sub.args)) and any(map(_is_complex, sub.block.results)):
        raise NotDifferentiable(
            "the Jacobian of a complex function of complex numbers (and the Hessian of a real one) is no complex matrix, "
            "unless the function is holomorphic: say jacobian(f, holomorphic=True) if it is; else use jvp, vjp or hvp, or "
            "real and imaginary parts as arguments"
        )


def value_grad_hessian(stage: Stage, both: Any, chosen: Leaves, single: bool) -> tuple[Any, Any, Any]:
    """(value, gradient, Hessian), where ``both`` gives the first two: its results, and a part of its Jacobian."""
    sub = Sub(stage, both, chosen)
    _check_complex(sub, holomorphic=False)
    if any(map(stage.acts, sub.block.ops)):
        results, rows = _reverse_jacobian(stage, sub)
        value, gradient = sub.rebuilt(results)
        return value, gradient, _structured(sub, chosen, rows, single)[1]
    primal = sub.emit_primal()  # for the shapes, and for the results if no loop gives them
    shared: list[Value] | None = None
    columns = []
    for j, arg in enumerate(sub.args):
        chunk = chunk_size(stage, sub, arg)
        if shared is None and chunk > 1 and _is_not_empty(stage, arg):
            stacked, shared = forward_rows_and_results(sub, j, primal, chunk)
        else:
            stacked = forward_rows(sub, j, primal, chunk)
        columns.append([_moved(s, arg, y, first_is_input=True) for s, y in zip(stacked, primal, strict=True)])
    rows = [[column[i] for column in columns] for i in range(len(primal))]
    value, gradient = sub.rebuilt(shared or primal)
    return value, gradient, _structured(sub, chosen, rows, single)[1]


def _is_not_empty(stage: Stage, arg: Value) -> bool:
    """Whether an array has elements: this call's answer, which the specialisation holds for."""
    try:
        return bool(stage.concrete(Scalar(ir.elementwise("gt", size_of(ir.shape(arg)), 0), weak=True)))
    except NeedConcrete:
        return False


def _structured(sub: Sub, chosen: Leaves, rows: Sequence[Sequence[Value]], single: bool) -> Any:
    """The structure of the result, each leaf replaced by the structure of the arguments with the leaf's Jacobians."""
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


def one_hot(value: Value, k: Value, name: str = "") -> Value:
    """The k-th unit vector in the shape of ``value``; what it is called."""
    if value.ndim == 0:
        return ir.const_like(1, value)
    dims = ir.shape(value)
    flat = ir.set_at(ir.full(0, [size_of(dims)], value.dtype), ir.const_like(1, value), ["i"], [k], checked=True)
    flat.name = name
    return flat if value.ndim == 1 else ir.reshape(flat, dims)


def rows_along(
    stage: Stage, along: Value, targets: Sequence[Value], rows: Any, chunk: int = 1, kept: Sequence[Value] = ()
) -> list[Value]:
    """The rows for the elements of ``along``, stacked: for each target an array of shape (along.size, *target.shape).

    ``rows(ks)`` gives, for each of ``chunk`` element numbers, what belongs to the targets; and values like ``kept``,
    which are the same for every chunk and are returned after the rows.
    """
    if along.ndim == 0:
        (row,), _ = rows([ir.i64(0)])
        return [ir.zeros_like(t) if v is None else v for v, t in zip(row, targets, strict=True)]
    size = size_of(ir.shape(along))
    start = [ir.full(0, [size, *ir.shape(t)], t.dtype) for t in targets]
    start += [ir.zeros_like(x) for x in kept]
    index, carried = Value(ir.I64, "k"), [Value(s.type, "J" if n < len(targets) else "") for n, s in enumerate(start)]
    with stage.builder.region([index, *carried]) as body:
        # a chunk that is not full does its last row several times
        ks = [ir.elementwise("minimum", index + c, size - 1) if c else index for c in range(chunk)]
        stacked: list[Value] = carried[: len(targets)]
        found, again = rows(ks)
        for k, row in zip(ks, found, strict=True):
            stacked = [
                c if v is None else ir.set_at(c, v, ["i"] + [":"] * v.ndim, [k], checked=True)
                for c, v in zip(stacked, row, strict=True)
            ]
        body.results = [*stacked, *again[: len(kept)]]
    return stage.builder.emit_control("for", [ir.i64(0), size, ir.i64(chunk), *start], [body]).results


#: so many directions share one evaluation of the function in forward mode, which makes so many operations at most
_LARGEST_CHUNK, _CHUNK_OPERATIONS = 12, 1500


def chunk_size(stage: Stage, sub: Sub, arg: Value) -> int:
    """How many columns to compute at once: one unless there are loops whose values are computed again for every chunk."""
    ops = list(sub.block.walk())
    if stage.readable or not any(op.name in ("for", "while") for op in ops) or _is_linear(sub, ops):
        return 1
    largest = max(1, min(_LARGEST_CHUNK, _CHUNK_OPERATIONS // len(ops)))
    try:
        size = max(1, int(np.size(stage.peek(arg))))
    except NeedConcrete:
        return largest
    return -(-size // -(-size // largest))


_LINEAR = frozenset(
    "add sub neg cast where real imag conj complex sum cumsum full dim reshape transpose broadcast_to unbroadcast index set "
    "add_at concatenate for if".split()
)


def _is_linear(sub: Sub, ops: Sequence[Op]) -> bool:
    """Whether the columns need no values of the function, so that there is nothing to share."""
    varied = Activity(sub.block.ops).varied(sub.block.params)

    def linear(op: Op) -> bool:
        count = sum(a in varied for a in op.args)
        products = op.name in ("mul", "matmul") or (op.name == "div" and op.args[1] not in varied)
        return count == 0 or op.name in _LINEAR or (count == 1 and products)

    return all(map(linear, ops))


def forward_rows(sub: Sub, j: int, results: Sequence[Value], chunk: int) -> list[Value]:
    """For every result its derivative along each element of argument ``j``, stacked along a first axis."""
    return rows_along(sub.stage, sub.args[j], results, _columns(sub, j), chunk)


def forward_rows_and_results(sub: Sub, j: int, results: Sequence[Value], chunk: int) -> tuple[list[Value], list[Value]]:
    """:func:`forward_rows`, and the results computed along with them; ``results`` tell their shapes alone."""
    found = rows_along(sub.stage, sub.args[j], results, _columns(sub, j), chunk, kept=results)
    return found[: len(results)], found[len(results) :]


def _columns(sub: Sub, j: int) -> Callable[[Sequence[Value]], tuple[list[list[Value | None]], list[Value]]]:
    """A function from numbers of elements of argument ``j`` to derivatives along each, and the function's results."""

    def rows(ks: Sequence[Value]) -> tuple[list[list[Value | None]], list[Value]]:
        seeds: list[list[Value | None]] = [[None] * len(sub.args) for _ in ks]
        for seed, k in zip(seeds, ks, strict=True):
            seed[j] = one_hot(sub.args[j], k, f"{sub.args[j].name or 'direction'}_dot")
        results, tangents = sub.jvps(seeds)
        return tangents, results

    return rows


def _forward_jacobian(stage: Stage, sub: Sub, given_chunk: int | None) -> list[list[Value]]:
    primal = sub.emit_primal()
    columns = []
    for j, arg in enumerate(sub.args):
        stacked = forward_rows(sub, j, primal, given_chunk or chunk_size(stage, sub, arg))
        columns.append([_moved(s, arg, y, first_is_input=True) for s, y in zip(stacked, primal, strict=True)])
    return [[column[i] for column in columns] for i in range(len(primal))]


def _reverse_jacobian(stage: Stage, sub: Sub) -> tuple[list[Value], list[list[Value]]]:
    """The results, and for each its Jacobians with respect to all arguments."""
    results, back = sub.vjp()
    out = []
    for i, y in enumerate(results):

        def rows(ks: Sequence[Value], i: int = i, y: Value = y) -> tuple[list[list[Value | None]], list[Value]]:
            seeds: list[Value | None] = [None] * len(results)
            seeds[i] = seed = one_hot(y, ks[0])
            row = back(seeds)
            if _is_complex(y):
                seeds[i] = ir.const_like(1j, seed) * seed
                row = [_complex_entry(*parts) for parts in zip(sub.args, row, back(seeds), strict=True)]
            return [row], []

        targets = [ir.cast(a, y.dtype) if _is_complex(y) else a for a in sub.args]
        stacked = rows_along(stage, y, targets, rows)
        out.append([_moved(s, y, a, first_is_input=False) for s, a in zip(stacked, sub.args, strict=True)])
    return results, out


def _complex_entry(arg: Value, along_real: Value | None, along_imaginary: Value | None) -> Value | None:
    """Derivatives of a complex result from what its real and its imaginary part pull back (of a holomorphic function)."""
    if along_real is None or along_imaginary is None:
        return along_real if along_imaginary is None else along_imaginary
    if _is_complex(arg):
        return ir.conj(along_real)
    dtype = np.result_type(arg.dtype, np.complex64)
    real, imaginary = ir.cast(along_real, dtype), ir.cast(along_imaginary, dtype)
    return real + ir.const_like(1j, imaginary) * imaginary


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
