"""Functions that pick elements by position or mask, and those that write into an array."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradsmith.errors import MissingRule
from gradsmith.frontend import arithmetic, indexing
from gradsmith.frontend import stage as st
from gradsmith.frontend.arithmetic import fold
from gradsmith.frontend.catalogue import METHODS, implements
from gradsmith.frontend.catalogue.operands import (
    ABSENT,
    array,
    axis_index,
    condition,
    deliver,
    equal,
    holds,
    integers,
    iota,
    least,
    lengths,
    minus,
    plus,
    prepend_axes,
    refuse,
    size,
)
from gradsmith.frontend.catalogue.shaping import (
    cycled,
    ravel,
)
from gradsmith.frontend.values import Array, fresh
from gradsmith.ir import builder as ir
from gradsmith.ir.program import Const, Value

# ---- picking and placing ---------------------------------------------------------------------------------------------


@implements(np.take, method="take")
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: Any = "raise") -> Any:
    a = array(a)
    if axis is None:
        a, axis = ravel(a), 0
    k = axis_index(axis, a.ndim)
    where = _wrapped(st.as_value(indices), ir.shape(a.value)[k], st.static(mode))
    spec = [":"] * k + ["i" if where.ndim == 0 else "a"] + [":"] * (a.ndim - k - 1)
    return deliver(ir.index(a.value, spec, [where]), out)


def _wrapped(where: Value, n: Value, mode: str) -> Value:
    if where.dtype.kind not in "iub":
        raise TypeError("Cannot cast array data from float to int64 according to the rule 'safe'")
    where = ir.cast(where, np.int64)
    if mode == "wrap":
        return fold("mod", [where, n])
    if mode == "clip":
        return fold("minimum", [fold("maximum", [where, ir.i64(0)]), minus(n, 1)])
    if mode != "raise":
        raise ValueError("clipmode must be one of 'clip', 'raise', or 'wrap'")
    return where


@implements(np.put, method="put")
def put(a: Any, ind: Any, v: Any, mode: Any = "raise") -> None:
    a = array(a)
    where = ravel(fresh(_wrapped(st.as_value(ind), size(a.value), st.static(mode)))).value
    new = cycled(ravel(fresh(st.as_value(v, a.dtype))).value, size(where))
    changed = ir.set_at(ir.reshape(a.value, [size(a.value)]), new, ["a"], [where])
    st.current().write_array(a, ir.reshape(changed, ir.shape(a.value)))


@implements(np.place)
def place(arr: Any, mask: Any, vals: Any) -> None:
    arr = array(arr)
    chosen = condition(mask)
    count = ir.reduce("sum", ir.cast(chosen, np.int64), range(chosen.ndim))
    new = cycled(ravel(fresh(st.as_value(vals, arr.dtype))).value, count)
    st.current().write_array(arr, ir.set_at(arr.value, new, ["m"], [chosen]))


@implements(np.putmask)
def putmask(a: Any, mask: Any, values: Any) -> None:
    a = array(a)
    flat_values = ravel(fresh(st.as_value(values, a.dtype))).value
    new = ir.reshape(cycled(flat_values, size(a.value)), ir.shape(a.value))
    st.current().write_array(a, ir.where(condition(mask), new, a.value))


@implements(np.copyto)
def copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    dst = array(dst)
    value = st.as_value(src)
    weak_fits = not isinstance(src, Array | np.ndarray | np.generic) and value.ndim == 0
    if not weak_fits and not np.can_cast(value.dtype, dst.dtype, casting):
        raise TypeError(
            f"Cannot cast array data from {value.dtype!r} to {dst.dtype!r} according to the rule '{casting}'"
        )
    value = ir.cast(value, dst.dtype)
    if where is not True:
        value = ir.where(condition(where), value, dst.value)
    arithmetic.assign(dst, value, "copyto")


@implements(np.fill_diagonal)
def fill_diagonal(a: Any, val: Any, wrap: Any = False) -> None:
    a = array(a)
    if a.ndim < 2:
        raise ValueError("array must be at least 2-d")
    dims = ir.shape(a.value)
    if st.static(wrap):
        raise MissingRule("numpy.fill_diagonal with wrap=True cannot be staged; leave the option out")
    for n in dims[1:] if a.ndim > 2 else []:
        st.current().check(holds(equal(dims[0], n)), ValueError, "All dimensions of input must be of equal length")
    steps = iota(least(dims[0], dims[1]))
    values = st.as_value(val, a.dtype)
    if values.ndim:
        values = cycled(ravel(fresh(values)).value, size(steps))
    st.current().write_array(a, ir.set_at(a.value, values, ["a"] * a.ndim, [steps] * a.ndim))


@implements(np.compress, method="compress")
def compress(condition_: Any, a: Any = ABSENT, axis: Any = None, out: Any = None) -> Any:
    if isinstance(condition_, Array) and a is not ABSENT and not isinstance(a, Array):
        condition_, a = a, condition_  # the method's order: x.compress(condition)
    a = array(a)
    if axis is None:
        a, axis = ravel(a), 0
    k = axis_index(axis, a.ndim)
    where = ir.host("numpy.flatnonzero", [condition(condition_)], integers(1))
    return deliver(ir.index(a.value, [":"] * k + ["a"] + [":"] * (a.ndim - k - 1), [where]), out)


@implements(np.extract)
def extract(condition_: Any, arr: Any) -> Any:
    return compress(ravel(condition_), ravel(arr), 0)


@implements(np.delete)
def delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    arr = array(arr)
    if axis is None:
        arr, axis = ravel(arr), 0
    k = axis_index(axis, arr.ndim)
    n = ir.shape(arr.value)[k]
    if isinstance(obj, slice):
        every = indexing.getitem(fresh(iota(n)), obj).value
    else:
        every = st.as_value(obj)
    if every.dtype.kind == "b":
        keep = ir.not_(every)
    else:
        spec = ["i" if every.ndim == 0 else "a"]
        keep = ir.set_at(ir.full(True, [n], bool), Const(False), spec, [ir.cast(every, np.int64)])
    return compress(fresh(keep), arr, k)


@implements(np.insert)
def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    """Positions of the new elements are integers; the rest keeps its order."""
    arr = array(arr)
    if axis is None:
        arr, axis = ravel(arr), 0
    k = axis_index(axis, arr.ndim)
    n = ir.shape(arr.value)[k]
    positions = indexing.getitem(fresh(iota(n)), obj).value if isinstance(obj, slice) else st.as_value(obj)
    if positions.dtype.kind not in "iu":
        raise MissingRule("numpy.insert needs integer positions to be staged")
    new = prepend_axes(st.as_value(values, arr.dtype), arr.ndim)
    if positions.ndim == 0 or ir.static_int(ir.shape(positions)[0]) == 1:
        # one position takes all the values, however many
        if positions.ndim == 0:
            new = ir.transpose(new, _first_to(new.ndim, k))
            positions = ir.index(positions, ["n"])
        positions = ir.broadcast_to(positions, [ir.shape(new)[k]])
    count = ir.shape(positions)[0]
    total = plus(n, count)
    where = ir.host("gradsmith.backends.hosted.insert_positions", [ir.cast(positions, np.int64), n], integers(1))
    keep = ir.set_at(ir.full(True, [total], bool), Const(False), ["a"], [where])
    old = ir.host("numpy.flatnonzero", [keep], integers(1))
    dims = ir.shape(arr.value)
    result = ir.full(0, [*dims[:k], total, *dims[k + 1 :]], arr.dtype)
    pre, post = [":"] * k, [":"] * (arr.ndim - k - 1)
    result = ir.set_at(result, arr.value, [*pre, "a", *post], [old])
    return fresh(ir.set_at(result, new, [*pre, "a", *post], [where]))


def _first_to(ndim: int, axis: int) -> tuple[int, ...]:
    order = list(range(1, ndim))
    order.insert(axis, 0)
    return tuple(order)


# ---- positions (integers: no derivative) -----------------------------------------------------------------------------


@implements(np.nonzero, method="nonzero")
def nonzero(a: Any) -> Any:
    value = condition(a)
    if value.ndim == 0:
        raise ValueError("Calling nonzero on 0d arrays is not allowed. Use np.atleast_1d(scalar).nonzero() instead.")
    if value.ndim == 1:
        return (fresh(ir.host("numpy.flatnonzero", [value], integers(1))),)
    return tuple(fresh(v) for v in ir.host("numpy.nonzero", [value], integers(*[1] * value.ndim)))


@implements(np.flatnonzero)
def flatnonzero(a: Any) -> Any:
    return fresh(ir.host("numpy.flatnonzero", [condition(a)], integers(1)))


@implements(np.argwhere)
def argwhere(a: Any) -> Any:
    return fresh(ir.host("numpy.argwhere", [condition(a)], integers(2)))


@implements(np.searchsorted)
def searchsorted(a: Any, v: Any, side: Any = "left", sorter: Any = None) -> Any:
    keys, values = st.as_value(a), st.as_value(v)
    if sorter is not None:
        keys = ir.index(keys, ["a"], [ir.cast(st.as_value(sorter), np.int64)])
    common = np.result_type(keys.dtype, values.dtype)
    found = ir.host(
        "numpy.searchsorted",
        [ir.cast(keys, common), ir.cast(values, common)],
        integers(values.ndim),
        side=st.static(side),
    )
    return deliver(found)


METHODS["searchsorted"] = searchsorted


@implements(np.digitize)
def digitize(x: Any, bins: Any, right: Any = False) -> Any:
    values = st.as_value(x)
    return deliver(
        ir.host("numpy.digitize", [values, st.as_value(bins)], integers(values.ndim), right=bool(st.static(right)))
    )


@implements(np.unravel_index)
def unravel_index(indices: Any, shape: Any, order: Any = "C") -> Any:
    if st.static(order) != "C":
        raise MissingRule("numpy.unravel_index with order='F' cannot be staged")
    rest, out = ir.cast(st.as_value(indices), np.int64), []
    for n in reversed(lengths(shape)):
        out.append(fold("mod", [rest, n]))
        rest = fold("floordiv", [rest, n])
    return tuple(deliver(v) for v in reversed(out))


@implements(np.ravel_multi_index)
def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: Any = "C") -> Any:
    refuse("ravel_multi_index", mode=None if mode == "raise" else mode, order=None if order == "C" else order)
    total: Value = ir.i64(0)
    for i, n in zip(multi_index, lengths(dims), strict=True):
        total = fold("add", [fold("mul", [total, n]), ir.cast(st.as_value(i), np.int64)])
    return deliver(total)
