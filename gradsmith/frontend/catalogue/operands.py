"""What implementations share: axes, shapes, lengths known at run time, and results written into ``out=``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from gradsmith.errors import MissingRule
from gradsmith.frontend import arithmetic
from gradsmith.frontend import stage as st
from gradsmith.frontend.values import Array, Scalar, fresh, number_or_array
from gradsmith.ir import builder as ir
from gradsmith.ir.program import Const, Value
from gradsmith.ir.types import I64

#: marks an option that the caller did not give
ABSENT: Any = np._NoValue


def refuse(function: str, **options: Any) -> None:
    """Raise MissingRule for an option that was given (not None, not ABSENT) but has no meaning in a Program."""
    for name, value in options.items():
        if value is not None and value is not ABSENT:
            raise MissingRule(f"numpy.{function} with {name}={value!r} cannot be staged; leave the option out")


def array(x: Any, dtype: Any = None) -> Array:
    """``numpy.asarray(x, dtype)``: the array itself when it fits."""
    if isinstance(x, np.ndarray):
        x = st.current().wrap(x)
    if isinstance(x, Array) and (dtype is None or x.dtype == np.dtype(dtype)):
        return x
    return fresh(st.as_value(x, dtype))


def axis_index(axis: Any, ndim: int) -> int:
    """A non-negative axis; numpy.exceptions.AxisError when out of bounds."""
    return normalize_axis_index(_axis_number(st.static(axis)), ndim)


def axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """Sorted non-negative axes: all of them for None."""
    axis = st.static(axis)
    if axis is None:
        return tuple(range(ndim))
    numbers = tuple(map(_axis_number, axis)) if isinstance(axis, tuple | list | np.ndarray) else _axis_number(axis)
    return tuple(sorted(normalize_axis_tuple(numbers, ndim)))


def _axis_number(axis: Any) -> int:
    try:
        return axis.__index__()
    except AttributeError:
        raise TypeError(f"'{type(axis).__name__}' object cannot be interpreted as an integer") from None


# ---- lengths: int64 scalars of the Program ---------------------------------------------------------------------------


def plus(a: Any, b: Any) -> Value:
    return arithmetic.fold("add", [ir.as_index(a), ir.as_index(b)])


def minus(a: Any, b: Any) -> Value:
    return arithmetic.fold("sub", [ir.as_index(a), ir.as_index(b)])


def times(a: Any, b: Any) -> Value:
    """``a * b``; the neutral constant disappears."""
    a, b = ir.as_index(a), ir.as_index(b)
    if ir.static_int(a) == 1:
        return b
    return a if ir.static_int(b) == 1 else arithmetic.fold("mul", [a, b])


def least(a: Any, b: Any) -> Value:
    return arithmetic.fold("minimum", [ir.as_index(a), ir.as_index(b)])


def most(a: Any, b: Any) -> Value:
    return arithmetic.fold("maximum", [ir.as_index(a), ir.as_index(b)])


def product(lengths: Sequence[Any]) -> Value:
    """The number of elements of an array with these lengths."""
    total: Value = ir.i64(1)
    for n in lengths:
        total = times(total, n)
    return total


def size(x: Value) -> Value:
    return product(ir.shape(x))


def equal(a: Value, b: Value) -> Any:
    """``a == b`` for two lengths: a bool when both are known (or one and the same), else a Value."""
    if a is b or (
        a.op and b.op and a.op.name == b.op.name == "dim" and a.op.args == b.op.args and a.op.attrs == b.op.attrs
    ):
        return True
    found = arithmetic.fold("eq", [a, b])
    return bool(found.data) if isinstance(found, Const) else found


def holds(fact: Any, negate: bool = False) -> Any:
    """A result of :func:`equal` (or its negation) as a condition for ``stage.check``."""
    if isinstance(fact, Value):
        return ir.not_(fact) if negate else fact
    return fact != negate


def is_one(length: Value) -> bool:
    """Whether an axis has length one: specialises on the answer."""
    return bool(st.static(st.integer(length) == 1 if isinstance(length, Const) else _one(length)))


def _one(length: Value) -> Scalar:
    return Scalar(ir.elementwise("eq", length, 1), weak=True)


def lengths(shape: Any) -> list[Value]:
    """int64 Values from a shape: an integer, a sequence of integers, or an integer array."""
    if isinstance(shape, np.ndarray):
        shape = shape.tolist()
    if isinstance(shape, Array) and shape.ndim:
        count = st.static(st.integer(ir.shape(shape.value)[0]))
        shape = [Scalar(ir.index(shape.value, ["i"], [k]), weak=False) for k in range(count)]
    if not isinstance(shape, list | tuple):
        shape = (shape,)
    out = [_length(n) for n in shape]
    for n in out:
        if not (n.op and n.op.name in ("dim", "seq_len")):
            st.current().check(arithmetic.fold("ge", [n, ir.i64(0)]), ValueError, "negative dimensions are not allowed")
    return out


def _length(n: Any) -> Value:
    try:
        return st.index_value(n)
    except AttributeError:
        raise TypeError(f"'{type(n).__name__}' object cannot be interpreted as an integer") from None


def iota(n: Any, dtype: Any = np.int64) -> Value:
    """``arange(n)``."""
    return ir.emit("iota", ir.as_index(n), dtype=np.dtype(dtype))


# ---- results ---------------------------------------------------------------------------------------------------------


def deliver(value: Value, out: Any = None, what: str = "out", where: Any = True) -> Scalar | Array:
    """The result of a NumPy function: written into ``out`` if given, else a NumPy scalar or a new array."""
    if isinstance(out, tuple):
        (out,) = out
    if out is None:
        if where is not True:
            value = ir.where(condition(where), value, ir.const_like(0, value))
        return number_or_array(value)
    out = array(out)
    if where is not True:
        value = ir.where(condition(where), value, ir.cast(out.value, value.dtype))
    arithmetic.assign(out, value, what)
    return out


def condition(x: Any) -> Value:
    """Elementwise truth of ``x``."""
    value = st.as_value(x)
    return value if value.dtype.kind == "b" else arithmetic.fold("ne", [value, ir.const_like(0, value)])


def integers(*ndims: int) -> list[Any]:
    """Result types of a host function that gives int64 arrays of these numbers of dimensions."""
    return [I64.with_ndim(n) for n in ndims]


def prepend_axes(value: Value, ndim: int) -> Value:
    """``value`` with leading axes of length one, so that it has ``ndim`` dimensions."""
    missing = ndim - value.ndim
    return ir.index(value, ["n"] * missing + [":"] * value.ndim) if missing > 0 else value
