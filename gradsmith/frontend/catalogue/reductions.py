"""Sums, products, extrema, counts and their cumulative forms, with every option of NumPy's functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradsmith.frontend import stage as st
from gradsmith.frontend.arithmetic import fold
from gradsmith.frontend.catalogue import METHODS, implements
from gradsmith.frontend.catalogue.operands import (
    ABSENT,
    array,
    axes,
    axis_index,
    condition,
    deliver,
    integers,
    product,
    refuse,
    size,
)
from gradsmith.frontend.values import Array, fresh
from gradsmith.ir import builder as ir
from gradsmith.ir.program import Value

# ---- sums and products -----------------------------------------------------------------------------------------------


def accumulator_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype in which NumPy sums: small integers and bools in 64 bits."""
    if dtype.kind in "bi":
        return np.result_type(dtype, np.int64)
    return np.result_type(dtype, np.uint64) if dtype.kind == "u" else dtype


def _operand(a: Any, dtype: Any, where: Any, neutral: Any) -> Value:
    value = st.as_value(a)
    value = ir.cast(value, st.static(dtype) or accumulator_dtype(value.dtype))
    return value if where is True else ir.where(condition(where), value, ir.const_like(neutral, value))


def _totalled(
    name: str, op: str, neutral: int, a: Any, axis: Any, dtype: Any, out: Any, keep: Any, initial: Any, where: Any
) -> Any:
    value = _operand(a, dtype, where, neutral)
    result = ir.reduce(name, value, axes(axis, value.ndim), bool(st.static(keep)))
    if initial is not ABSENT and initial is not None:
        result = fold(op, [result, st.as_value(initial, result.dtype)])
    return deliver(result, out, name)


@implements(np.sum, method="sum")
def sum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = ABSENT,
    where: Any = True,
) -> Any:
    return _totalled("sum", "add", 0, a, axis, dtype, out, keepdims, initial, where)


@implements(np.prod, method="prod")
def prod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = ABSENT,
    where: Any = True,
) -> Any:
    return _totalled("prod", "mul", 1, a, axis, dtype, out, keepdims, initial, where)


@implements(np.nansum)
def nansum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = ABSENT,
    where: Any = True,
) -> Any:
    return sum(without_nan(a, 0), axis, dtype, out, keepdims, initial, where)


@implements(np.nanprod)
def nanprod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = ABSENT,
    where: Any = True,
) -> Any:
    return prod(without_nan(a, 1), axis, dtype, out, keepdims, initial, where)


def without_nan(a: Any, replacement: Any) -> Array:
    """The array with NaN replaced."""
    value = st.as_value(a)
    if value.dtype.kind in "fc":
        value = ir.where(ir.isnan(value), ir.const_like(replacement, value), value)
    return fresh(value)


@implements(np.mean, method="mean")
def mean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True
) -> Any:
    value = st.as_value(a)
    kind = value.dtype
    work = st.static(dtype) or (np.float64 if kind.kind in "biu" else np.float32 if kind == np.float16 else kind)
    value = ir.cast(value, work)
    chosen = axes(axis, value.ndim)
    keep = bool(st.static(keepdims))
    if where is True:
        total, count = ir.reduce("sum", value, chosen, keep), product([ir.shape(value)[k] for k in chosen])
    else:
        mask = condition(where)
        total = ir.reduce("sum", ir.where(mask, value, ir.const_like(0, value)), chosen, keep)
        every = ir.elementwise("and", ir.full(True, ir.shape(value), bool), mask)
        count = ir.reduce("sum", ir.cast(every, np.int64), chosen, keep)
    result = fold("div", [total, ir.cast(count, value.dtype)])
    return deliver(ir.cast(result, kind) if kind == np.float16 and dtype is None else result, out, "mean")


# ---- extrema ---------------------------------------------------------------------------------------------------------


def _extremum(name: str, op: str, a: Any, axis: Any, out: Any, keepdims: Any, initial: Any, where: Any) -> Any:
    value = st.as_value(a)
    given = initial is not ABSENT and initial is not None
    if where is not True:
        if not given:
            raise ValueError(
                f"reduction operation '{op}' does not have an identity, "
                "so to use a where mask one has to specify 'initial'"
            )
        value = ir.where(condition(where), value, st.as_value(initial, value.dtype))
    chosen = axes(axis, value.ndim)
    if not chosen:
        return deliver(value, out, op)
    keep = bool(st.static(keepdims))
    if given:
        # one more element along each of the axes makes empty arrays legal
        for k in reversed(chosen):
            value = ir.reduce(name, _with_initial(value, k, st.as_value(initial, value.dtype)), (k,), keep)
        return deliver(value, out, op)
    _check_not_empty(value, chosen, f"zero-size array to reduction operation {op} which has no identity")
    return deliver(ir.reduce(name, value, chosen, keep), out, op)


def _with_initial(value: Value, axis: int, initial: Value) -> Value:
    dims = ir.shape(value)
    dims[axis] = ir.i64(1)
    return ir.emit("concatenate", ir.full(initial, dims), value, axis=axis)


def _check_not_empty(value: Value, chosen: tuple[int, ...], message: str) -> None:
    count = product([ir.shape(value)[k] for k in chosen])
    st.current().check(fold("ne", [count, ir.i64(0)]), ValueError, message)


@implements(np.max, np.amax, method="max")
def max(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = ABSENT, where: Any = True
) -> Any:
    return _extremum("max", "maximum", a, axis, out, keepdims, initial, where)


@implements(np.min, np.amin, method="min")
def min(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = ABSENT, where: Any = True
) -> Any:
    return _extremum("min", "minimum", a, axis, out, keepdims, initial, where)


@implements(np.ptp)
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    high, low = max(a, axis, keepdims=keepdims), min(a, axis, keepdims=keepdims)
    return deliver(fold("sub", [high.value, low.value]), out, "ptp")


def _nan_extremum(name: str, limit: float, a: Any, axis: Any, out: Any, keepdims: Any) -> Any:
    """Extremum of what is not NaN; NaN where nothing else is there."""
    value = st.as_value(a)
    if value.dtype.kind != "f":
        return _extremum(name, name, a, axis, out, keepdims, ABSENT, True)
    chosen, keep = axes(axis, value.ndim), bool(st.static(keepdims))
    _check_not_empty(value, chosen, f"zero-size array to reduction operation f{name} which has no identity")
    missing = ir.isnan(value)
    found = ir.reduce(name, ir.where(missing, ir.const_like(limit, value), value), chosen, keep)
    nothing = ir.reduce("all", missing, chosen, keep)
    return deliver(ir.where(nothing, ir.const_like(np.nan, found), found), out, name)


@implements(np.nanmax)
def nanmax(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = ABSENT, where: Any = True
) -> Any:
    refuse("nanmax", initial=initial, where=None if where is True else where)
    return _nan_extremum("max", -np.inf, a, axis, out, keepdims)


@implements(np.nanmin)
def nanmin(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = ABSENT, where: Any = True
) -> Any:
    refuse("nanmin", initial=initial, where=None if where is True else where)
    return _nan_extremum("min", np.inf, a, axis, out, keepdims)


# ---- positions of extrema (integers: no derivative) ------------------------------------------------------------------


def _position(name: str, value: Value, axis: Any, out: Any, keepdims: Any) -> Any:
    keep, flat = bool(st.static(keepdims)), axis is None
    ndim = value.ndim
    if flat:
        value, axis = ir.reshape(value, [size(value)]), 0
    k = axis_index(axis, value.ndim)
    _check_not_empty(value, (k,), f"attempt to get {name} of an empty sequence")
    found = ir.emit(name, value, axis=k)
    if keep:
        found = ir.index(found, ["n"] * ndim if flat else [":"] * k + ["n"] + [":"] * (found.ndim - k))
    return deliver(found, out, name)


@implements(np.argmax, method="argmax")
def argmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    return _position("argmax", st.as_value(a), axis, out, keepdims)


@implements(np.argmin, method="argmin")
def argmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    return _position("argmin", st.as_value(a), axis, out, keepdims)


@implements(np.nanargmax)
def nanargmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    return _nan_position("argmax", -np.inf, a, axis, out, keepdims)


@implements(np.nanargmin)
def nanargmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    return _nan_position("argmin", np.inf, a, axis, out, keepdims)


def _nan_position(name: str, limit: float, a: Any, axis: Any, out: Any, keepdims: Any) -> Any:
    value = st.as_value(a)
    if value.dtype.kind in "fc":
        missing = ir.isnan(value)
        nothing = ir.reduce("all", missing, axes(axis, value.ndim))
        st.current().check(
            ir.not_(ir.reduce("any", nothing, range(nothing.ndim))), ValueError, "All-NaN slice encountered"
        )
        value = ir.where(missing, ir.const_like(limit, value), value)
    return _position(name, value, axis, out, keepdims)


# ---- truth -----------------------------------------------------------------------------------------------------------


def _truth(name: str, a: Any, axis: Any, out: Any, keepdims: Any, where: Any) -> Any:
    value = condition(a)
    if where is not True:
        value = ir.elementwise("or" if name == "all" else "and", value, _mask(name, where))
    return deliver(ir.reduce(name, value, axes(axis, value.ndim), bool(st.static(keepdims))), out, name)


def _mask(name: str, where: Any) -> Value:
    return ir.not_(condition(where)) if name == "all" else condition(where)


@implements(np.any, method="any")
def any(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Any:
    return _truth("any", a, axis, out, keepdims, where)


@implements(np.all, method="all")
def all(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Any:
    return _truth("all", a, axis, out, keepdims, where)


@implements(np.count_nonzero)
def count_nonzero(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    value = ir.cast(condition(a), np.int64)
    result = ir.reduce("sum", value, axes(axis, value.ndim), bool(st.static(keepdims)))
    return deliver(result)


# ---- cumulative forms ------------------------------------------------------------------------------------------------


def _cumulative(name: str, a: Any, axis: Any, dtype: Any, out: Any) -> Any:
    value = _operand(a, dtype, True, 0)
    if axis is None:
        value, axis = ir.reshape(value, [size(value)]), 0
    return deliver(ir.emit(name, value, axis=axis_index(axis, value.ndim)), out, name)


@implements(np.cumsum, method="cumsum")
def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    return _cumulative("cumsum", a, axis, dtype, out)


@implements(np.cumprod, method="cumprod")
def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    return _cumulative("cumprod", a, axis, dtype, out)


@implements(np.nancumsum)
def nancumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    return cumsum(without_nan(a, 0), axis, dtype, out)


@implements(np.nancumprod)
def nancumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    return cumprod(without_nan(a, 1), axis, dtype, out)


# ---- order -----------------------------------------------------------------------------------------------------------


@implements(np.sort)
def sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    refuse("sort", order=order)
    return fresh(sorted_value(st.as_value(a), axis))


def sorted_value(value: Value, axis: Any) -> Value:
    if axis is None:
        value, axis = ir.reshape(value, [size(value)]), 0
    return ir.host("numpy.sort", [value], [value.type], axis=axis_index(axis, value.ndim))


@implements(np.partition)
def partition(a: Any, kth: Any, axis: Any = -1, kind: Any = None, order: Any = None) -> Any:
    """A sorted array is a partition at every position."""
    _check_positions(st.as_value(a), kth, axis)
    return sort(a, axis, None, order)


def _check_positions(value: Value, kth: Any, axis: Any) -> None:
    n = size(value) if axis is None else ir.shape(value)[axis_index(axis, value.ndim)]
    for k in [kth] if not isinstance(kth, tuple | list) else kth:
        place = st.index_value(k)
        inside = fold("and", [fold("lt", [place, n]), fold("ge", [place, fold("neg", [n])])])
        st.current().check(inside, ValueError, "kth(={}) out of bounds ({})", place, n)


@implements(np.argsort, method="argsort")
def argsort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    refuse("argsort", order=order)
    value = st.as_value(a)
    if axis is None:
        value, axis = ir.reshape(value, [size(value)]), 0
    kind = "stable" if st.static(stable) else st.static(kind)
    options = {} if kind is None else {"kind": kind}
    return fresh(ir.host("numpy.argsort", [value], integers(value.ndim), axis=axis_index(axis, value.ndim), **options))


@implements(np.argpartition, method="argpartition")
def argpartition(a: Any, kth: Any, axis: Any = -1, kind: Any = None, order: Any = None) -> Any:
    return argsort(a, axis, None, order)


@implements(np.lexsort)
def lexsort(keys: Any, axis: Any = -1) -> Any:
    value = st.as_value(keys)
    return fresh(ir.host("numpy.lexsort", [value], integers(value.ndim - 1), axis=st.static(axis)))


def _sort_in_place(x: Array, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> None:
    refuse("sort", order=order)
    st.current().write_array(x, sorted_value(x.value, axis))


METHODS["sort"] = _sort_in_place
METHODS["partition"] = lambda x, kth, axis=-1, **options: _sort_in_place(x, axis)


# ---- sets and counts -------------------------------------------------------------------------------------------------


@implements(np.unique)
def unique(
    ar: Any,
    return_index: Any = False,
    return_inverse: Any = False,
    return_counts: Any = False,
    axis: Any = None,
    *,
    equal_nan: Any = True,
    sorted: Any = True,
) -> Any:
    """The values are those at their first occurrence, so a derivative goes there."""
    refuse("unique", axis=axis)
    value = st.as_value(ar)
    flat = ir.reshape(value, [size(value)])
    index, inverse, counts = ir.host(
        "gradsmith.backends.hosted.unique", [flat], integers(1, 1, 1), equal_nan=bool(st.static(equal_nan))
    )
    results = [fresh(ir.index(flat, ["a"], [index]))]
    if st.static(return_index):
        results.append(fresh(index))
    if st.static(return_inverse):
        results.append(fresh(ir.reshape(inverse, ir.shape(value)) if value.ndim else inverse))
    if st.static(return_counts):
        results.append(fresh(counts))
    return results[0] if len(results) == 1 else tuple(results)


@implements(np.bincount)
def bincount(x: Any, /, weights: Any = None, minlength: Any = 0) -> Any:
    where = st.as_value(x)
    if where.dtype.kind not in "iub" or where.ndim != 1:
        raise TypeError("bincount needs a 1-d array of non-negative integers")
    where = ir.cast(where, np.int64)
    low = ir.reduce("all", fold("ge", [where, ir.i64(0)]), (0,))
    st.current().check(low, ValueError, "'list' argument must have no negative elements")
    # the largest of the positions and of one more, −1, that makes an empty x legal
    highest = ir.reduce("max", ir.emit("concatenate", where, ir.full(-1, [1], np.int64), axis=0), (0,))
    count = fold("maximum", [fold("add", [highest, ir.i64(1)]), st.index_value(minlength)])
    if weights is None:
        return fresh(ir.add_at(ir.full(0, [count], np.int64), ir.i64(1), ["a"], [where]))
    values = st.as_value(weights, np.float64)
    return fresh(ir.add_at(ir.full(0, [count], np.float64), values, ["a"], [where]))


@implements(np.isin)
def isin(element: Any, test_elements: Any, assume_unique: Any = False, invert: Any = False, *, kind: Any = None) -> Any:
    x, y = array(element).value, array(test_elements).value
    return deliver(ir.host("numpy.isin", [x, y], [ir.elementwise("eq", x, x).type], invert=bool(st.static(invert))))
