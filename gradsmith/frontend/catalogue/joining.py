"""Functions that join, repeat and split arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradsmith.errors import MissingRule
from gradsmith.frontend import arithmetic, indexing
from gradsmith.frontend import stage as st
from gradsmith.frontend.arithmetic import fold
from gradsmith.frontend.catalogue import defines, implements
from gradsmith.frontend.catalogue.operands import (
    array,
    axis_index,
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
    times,
)
from gradsmith.frontend.catalogue.shaping import (
    _at_least,
    atleast_1d,
    atleast_2d,
    atleast_3d,
    expand_dims,
    length,
    moveaxis,
    ravel,
    transpose,
)
from gradsmith.frontend.values import Array, NotSpecialised, fresh, is_grown, ndim_of
from gradsmith.ir import builder as ir
from gradsmith.ir.program import Value

# ---- joining ---------------------------------------------------------------------------------------------------------


@implements(np.concatenate, np.concat)
def concatenate(
    arrays: Any, /, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind"
) -> Any:
    if is_grown(arrays):
        return deliver(_concatenated(fresh(st.as_value(arrays)), st.static(axis), st.static(dtype)), out)
    parts = _sequence(arrays)
    if not parts:
        raise ValueError("need at least one array to concatenate")
    if st.static(axis) is None:
        parts, axis = [ravel(p) for p in parts], 0
    ndims = {p.ndim for p in parts}
    if 0 in ndims:
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    if len(ndims) > 1:
        raise ValueError("all the input array dimensions except for the concatenation axis must match exactly")
    return deliver(joined([p.value for p in parts], axis_index(axis, parts[0].ndim), st.static(dtype)), out)


def _concatenated(whole: Array, axis: int | None, dtype: Any) -> Value:
    """The items of ``whole`` (the stack of a list that grew in a loop) joined along ``axis`` of theirs."""
    if whole.ndim == 1:
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    k = 0 if axis is None else axis_index(axis, whole.ndim - 1)
    moved = moveaxis(whole, 0, k).value
    dims = ir.shape(moved)
    value = ir.reshape(moved, [*dims[:k], times(dims[k], dims[k + 1]), *dims[k + 2 :]])
    if axis is None:
        value = ravel(fresh(value)).value
    return value if dtype is None else ir.cast(value, np.dtype(dtype))


def joined(values: Sequence[Value], axis: int, dtype: Any = None) -> Value:
    common = np.result_type(*(v.dtype for v in values)) if dtype is None else np.dtype(dtype)
    values = [ir.cast(v, common) for v in values]
    return values[0] if len(values) == 1 else ir.emit("concatenate", *values, axis=axis)


def _sequence(arrays: Any) -> list[Array]:
    """The arrays of a list, a tuple, or an array (along its first axis)."""
    if is_grown(arrays):
        raise NotSpecialised("joining a list that grew in a loop in this way; make an array of it with np.stack first")
    if isinstance(arrays, Array | np.ndarray):
        whole = array(arrays)
        count = st.static(length(whole))
        return [array(indexing.getitem(whole, k)) for k in range(count)]
    return [array(x) for x in arrays]


@implements(np.stack)
def stack(arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    if isinstance(arrays, Array) or is_grown(arrays):
        value = moveaxis(array(arrays), 0, axis).value
        return deliver(value if dtype is None else ir.cast(value, np.dtype(st.static(dtype))), out)
    parts = _sequence(arrays)
    if not parts:
        raise ValueError("need at least one array to stack")
    if len({p.ndim for p in parts}) > 1:
        raise ValueError("all input arrays must have the same shape")
    k = axis_index(axis, parts[0].ndim + 1)
    values = [expand_dims(p, k).value for p in parts]
    return deliver(joined(values, k, st.static(dtype)), out)


@implements(np.vstack)
def vstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    if is_grown(tup):
        whole = array(tup, dtype)
        return (
            concatenate(tup, 0, dtype=dtype) if whole.ndim > 2 else expand_dims(whole, 1) if whole.ndim == 1 else whole
        )
    return concatenate([atleast_2d(p) for p in _sequence(tup)], 0, dtype=dtype)


@implements(np.hstack)
def hstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    if is_grown(tup):
        whole = array(tup, dtype)
        return whole if whole.ndim == 1 else concatenate(tup, min(whole.ndim - 2, 1), dtype=dtype)
    parts = [atleast_1d(p) for p in _sequence(tup)]
    return concatenate(parts, 0 if parts and parts[0].ndim == 1 else 1, dtype=dtype)


@implements(np.dstack)
def dstack(tup: Any) -> Any:
    return concatenate([atleast_3d(p) for p in _sequence(tup)], 2)


@implements(np.column_stack)
def column_stack(tup: Any) -> Any:
    if is_grown(tup):
        whole = array(tup)
        return concatenate(tup, 1) if whole.ndim > 2 else fresh(transpose(_at_least(2, [whole])).value)
    columns = [p if p.ndim >= 2 else transpose(_at_least(2, [p])) for p in _sequence(tup)]
    return concatenate(columns, 1)


@implements(np.block)
def block(arrays: Any) -> Any:
    depth = _depth(arrays)
    ndim = max(depth, *(ndim_of(x) if not isinstance(x, list) else 0 for x in _leaves(arrays)), 0)
    return fresh(_block(arrays, depth, ndim))


def _depth(x: Any) -> int:
    return 1 + max((_depth(y) for y in x), default=0) if isinstance(x, list) else 0


def _leaves(x: Any) -> list[Any]:
    return [leaf for y in x for leaf in _leaves(y)] if isinstance(x, list) else [x]


def _block(x: Any, depth: int, ndim: int) -> Value:
    if not isinstance(x, list):
        return prepend_axes(st.as_value(x), ndim)
    if not x:
        raise ValueError("List depths are mismatched: an empty list cannot be a block")
    return joined([_block(y, depth - 1, ndim) for y in x], ndim - depth)


@implements(np.append)
def append(arr: Any, values: Any, axis: Any = None) -> Any:
    if axis is None:
        return concatenate((ravel(arr), ravel(values)), 0)
    return concatenate((arr, values), axis)


# ---- repeating -------------------------------------------------------------------------------------------------------


@implements(np.repeat, method="repeat")
def repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    a = array(a)
    if axis is None:
        a, axis = ravel(a), 0
    k = axis_index(axis, a.ndim)
    value, counts = a.value, st.as_value(repeats)
    if counts.ndim == 0:
        return fresh(_repeated(value, k, ir.cast(counts, np.int64)))
    dims = ir.shape(value)
    counts = ir.broadcast_to(ir.cast(counts, np.int64), [dims[k]])
    where = ir.host("numpy.repeat", [iota(dims[k]), counts], integers(1))
    return fresh(ir.index(value, [":"] * k + ["a"] + [":"] * (value.ndim - k - 1), [where]))


def _repeated(value: Value, axis: int, count: Value) -> Value:
    dims = ir.shape(value)
    st.current().check(
        arithmetic.fold("ge", [count, ir.i64(0)]), ValueError, "repeats may not contain negative values."
    )
    wide = ir.index(value, [":"] * (axis + 1) + ["n"] + [":"] * (value.ndim - axis - 1))
    wide = ir.broadcast_to(wide, [*dims[: axis + 1], count, *dims[axis + 1 :]])
    return ir.reshape(wide, [*dims[:axis], times(dims[axis], count), *dims[axis + 1 :]])


@implements(np.tile)
def tile(A: Any, reps: Any) -> Any:
    counts = lengths(reps)
    value = st.as_value(A)
    ndim = max(value.ndim, len(counts))
    value = prepend_axes(value, ndim)
    counts = [ir.i64(1)] * (ndim - len(counts)) + counts
    dims = ir.shape(value)
    if not ndim:
        return fresh(value)
    wide = ir.index(value, ["n", ":"] * ndim)
    wide = ir.broadcast_to(wide, [n for pair in zip(counts, dims, strict=True) for n in pair])
    return fresh(ir.reshape(wide, [times(c, n) for c, n in zip(counts, dims, strict=True)]))


# ---- splitting -------------------------------------------------------------------------------------------------------


def _split(ary: Any, sections: Any, axis: Any, exact: bool) -> list[Any]:
    ary = array(ary)
    k = axis_index(axis, ary.ndim)
    total = ir.shape(ary.value)[k]
    stops: list[Any]
    if isinstance(sections, list | tuple | np.ndarray) or ndim_of(sections):
        if isinstance(sections, Array):
            sections = st.static(sections)
        stops = [*sections, None]
    else:
        stops = _section_stops(total, st.static(sections), exact)
    starts = [0, *stops[:-1]]
    return [indexing.getitem(ary, (slice(None),) * k + (slice(a, b),)) for a, b in zip(starts, stops, strict=True)]


def _section_stops(total: Value, count: int, exact: bool) -> list[Any]:
    if count <= 0:
        raise ValueError("number sections must be larger than 0.")
    if exact:
        rest = fold("mod", [total, ir.i64(count)])
        st.current().check(
            holds(equal(rest, ir.i64(0))), ValueError, "array split does not result in an equal division"
        )
    short = fold("floordiv", [total, ir.i64(count)])
    longer = minus(total, times(short, count))
    return [st.integer(plus(times(short, n), least(longer, n))) for n in range(1, count)] + [None]


@implements(np.split)
def split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> Any:
    return _split(ary, indices_or_sections, axis, exact=True)


@implements(np.array_split)
def array_split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> Any:
    return _split(ary, indices_or_sections, axis, exact=False)


@implements(np.hsplit)
def hsplit(ary: Any, indices_or_sections: Any) -> Any:
    if array(ary).ndim == 0:
        raise ValueError("hsplit only works on arrays of 1 or more dimensions")
    return split(ary, indices_or_sections, 1 if array(ary).ndim > 1 else 0)


@implements(np.vsplit)
def vsplit(ary: Any, indices_or_sections: Any) -> Any:
    if array(ary).ndim < 2:
        raise ValueError("vsplit only works on arrays of 2 or more dimensions")
    return split(ary, indices_or_sections, 0)


@implements(np.dsplit)
def dsplit(ary: Any, indices_or_sections: Any) -> Any:
    if array(ary).ndim < 3:
        raise ValueError("dsplit only works on arrays of 3 or more dimensions")
    return split(ary, indices_or_sections, 2)


@implements(*(getattr(np, name) for name in ("unstack",) if hasattr(np, name)))
def unstack(x: Any, /, *, axis: Any = 0) -> Any:
    moved = moveaxis(x, axis, 0)
    return tuple(indexing.getitem(moved, k) for k in range(st.static(length(moved))))


# ---- np.r_, np.c_, np.mgrid, np.ogrid --------------------------------------------------------------------------------


def _points(part: slice) -> Any:
    """``start:stop:step``, or with an imaginary step the number of points, both ends included."""
    start, step = 0 if part.start is None else part.start, 1 if part.step is None else part.step
    if isinstance(step, complex):
        return np.linspace(start, part.stop, int(abs(step)))
    return np.arange(start, part.stop, step)


@defines(type(np.r_).__getitem__)
def concatenator_getitem(self: Any, key: Any) -> Any:
    parts, kinds = [], []
    for entry in key if isinstance(key, tuple) else (key,):
        if isinstance(entry, str):
            raise MissingRule("np.r_ and np.c_ with a string of directions cannot be staged; use numpy.concatenate")
        part = _points(entry) if isinstance(entry, slice) else np.asarray(entry)
        kinds.append(entry if np.isscalar(entry) else part)
        missing = self.ndmin - part.ndim
        if missing > 0:
            first = self.trans1d + missing + 1 if self.trans1d < 0 else self.trans1d
            part = np.expand_dims(part, tuple(k for k in range(self.ndmin) if not first <= k < first + part.ndim))
        parts.append(part)
    return np.concatenate([p.astype(np.result_type(*kinds)) for p in parts], axis=self.axis)


@defines(type(np.mgrid).__getitem__)
def grid_getitem(self: Any, key: Any) -> Any:
    if isinstance(key, slice):
        return _points(key)
    axes = [_points(k) for k in key]
    kind = np.result_type(*axes)
    grids = np.meshgrid(*[x.astype(kind) for x in axes], indexing="ij", sparse=self.sparse)
    return grids if self.sparse else np.stack(grids)
