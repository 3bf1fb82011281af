"""Building blocks of the rules of linear algebra. Matrices are in the last two axes, axes before them are stacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from gradsmith.ir.builder import (
    abs_,
    cast,
    elementwise,
    emit,
    host,
    index,
    reduce,
    shape,
    transpose,
    where,
)
from gradsmith.ir.program import Op, Value
from gradsmith.ir.types import ArrayType
from gradsmith.rules.structural import h

#: rules by the dotted name of the host function
Rules: TypeAlias = dict[str, Callable[..., Any]]


def mm(x: Value, y: Value) -> Value:
    return emit("matmul", x, y)


def t(x: Value) -> Value:
    """The transpose of the last two axes."""
    return transpose(x, [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])


def column(x: Value) -> Value:
    """``x[..., :, None]``"""
    return index(x, [":"] * x.ndim + ["n"])


def row(x: Value) -> Value:
    """``x[..., None, :]``"""
    return index(x, [":"] * (x.ndim - 1) + ["n", ":"])


def matrixwise(x: Value) -> Value:
    """``x[..., None, None]``: one number for each matrix of a stack."""
    return index(x, [":"] * x.ndim + ["n", "n"]) if x.ndim else x


def solve(a: Value, b: Value) -> Value:
    return host("numpy.linalg.solve", [a, b], [ArrayType(a.dtype, max(a.ndim, b.ndim))])


def inverse(a: Value) -> Value:
    return host("numpy.linalg.inv", [a], [a.type])


def positions(x: Value) -> tuple[Value, Value]:
    """Row and column numbers of the matrices of ``x``, to be broadcast against each other."""
    n, m = shape(x)[-2:]
    return column(emit("iota", n, dtype=n.dtype)), row(emit("iota", m, dtype=m.dtype))


def lower(x: Value, k: int = 0) -> Value:
    """``numpy.tril(x, k)``"""
    i, j = positions(x)
    return where(j <= (i + k), x, 0)


def half_lower(x: Value) -> Value:
    """The lower triangle with the diagonal halved."""
    i, j = positions(x)
    return where(j < i, x, where(elementwise("eq", i, j), 0.5 * x, 0))


def diagonal(x: Value) -> Value:
    """The diagonals of square matrices."""
    n = emit("dim", x, axis=x.ndim - 1)
    i = emit("iota", n, dtype=n.dtype)
    return index(x, [":"] * (x.ndim - 2) + ["a", "a"], [i, i])


def times_symmetric(x: Value, upper: bool) -> Value:
    """The tangent of a matrix of which one triangle is read, made Hermitian."""
    tri = half_lower(t(x) if upper else x)
    full = tri + h(tri)
    return t(full) if upper else full


def to_triangle(g: Value, upper: bool) -> Value:
    """The transpose of :func:`times_symmetric`."""
    both = half_lower(g + h(g))
    return h(both) if upper else both


def reads_upper(op: Op) -> bool:
    kwargs = op.attrs["kwargs"]
    return bool(kwargs.get("upper")) or str(kwargs.get("UPLO", "L")).upper() == "U"


def inverse_gaps(w: Value) -> Value:
    """``F[i, j] = 1 / (w[j] - w[i])``, zero where the two are equal up to rounding."""
    gap = row(w) - column(w)
    scale = reduce("max", abs_(w), [w.ndim - 1], keepdims=True)
    close = abs_(gap) <= 8 * float(np.finfo(w.dtype).eps) * row(scale)
    return where(close, 0, 1 / where(close, 1, gap))


def complexified(x: Value, like: Value) -> Value:
    return cast(x, like.dtype)
