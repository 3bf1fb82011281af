"""Definitions in plain NumPy, staged like the user's own code: constructions of arrays, and functions of functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradsmith.errors import MissingRule
from gradsmith.frontend.catalogue import defines
from gradsmith.frontend.catalogue.shaping import perhaps_view

# ---- loops for ufunc.reduce and ufunc.accumulate ---------------------------------------------------------------------


def reduce_loop(function: Any) -> Any:
    """``function.reduce`` as a loop along the axis."""

    def reduce(array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: Any = False) -> Any:
        rows = np.moveaxis(np.asarray(array, dtype), axis, 0)
        if len(rows) == 0 and function.identity is not None:
            return np.full(array.shape[:axis] + (1,) * keepdims + array.shape[axis + 1 :], function.identity)[()]
        total = rows[0]
        for k in range(1, len(rows)):
            total = function(total, rows[k])
        return np.expand_dims(total, axis) if keepdims else total

    return reduce


def accumulate_loop(function: Any) -> Any:
    """``function.accumulate`` as a loop along the axis."""

    def accumulate(array: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Any:
        rows = np.array(np.moveaxis(np.asarray(array, dtype), axis, 0))
        for k in range(1, len(rows)):
            rows[k] = function(rows[k - 1], rows[k])
        return np.moveaxis(rows, 0, axis)

    return accumulate


# ---- ranges ----------------------------------------------------------------------------------------------------------


@defines(np.linspace)
def linspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: Any = True,
    retstep: Any = False,
    dtype: Any = None,
    axis: Any = 0,
    *,
    device: Any = None,
) -> Any:
    if num < 0:
        raise ValueError("Number of samples must be non-negative.")
    div = num - 1 if endpoint else num
    start, stop = np.asarray(start) * 1.0, np.asarray(stop) * 1.0
    working = np.result_type(start, stop, 1.0)
    delta = np.subtract(stop, start)
    y = np.reshape(np.arange(0, num).astype(working), (-1,) + (1,) * np.ndim(delta))
    step = delta / div if div > 0 else np.nan
    y = y * step + start if div > 0 else y * delta + start
    if endpoint and num > 1:
        y[-1, ...] = stop
    if axis != 0:
        y = np.moveaxis(y, 0, axis)
    if dtype is not None:
        y = (np.floor(y) if np.issubdtype(dtype, np.integer) else y).astype(dtype)
    return (y, step) if retstep else y


@defines(np.logspace)
def logspace(
    start: Any, stop: Any, num: Any = 50, endpoint: Any = True, base: Any = 10.0, dtype: Any = None, axis: Any = 0
) -> Any:
    y = np.power(base, np.linspace(start, stop, num, endpoint, axis=axis))
    return y if dtype is None else y.astype(dtype)


@defines(np.geomspace)
def geomspace(start: Any, stop: Any, num: Any = 50, endpoint: Any = True, dtype: Any = None, axis: Any = 0) -> Any:
    start, stop = np.asarray(start) * 1.0, np.asarray(stop) * 1.0
    if np.any(start == 0) or np.any(stop == 0):
        raise ValueError("Geometric sequence cannot include zero")
    sign = np.sign(start)
    first, last = start / sign, stop / sign
    y = np.power(10.0, np.linspace(np.log10(first), np.log10(last), num, endpoint))
    if num > 0:
        y[0] = first
    if endpoint and num > 1:
        y[-1] = last
    y = y * sign
    if axis != 0:
        y = np.moveaxis(y, 0, axis)
    return y if dtype is None else y.astype(dtype)


# ---- matrices --------------------------------------------------------------------------------------------------------


@defines(np.eye)
def eye(
    N: Any, M: Any = None, k: Any = 0, dtype: Any = float, order: Any = "C", *, device: Any = None, like: Any = None
) -> Any:
    columns = N if M is None else M
    return np.equal(np.arange(N)[:, None] + k, np.arange(columns)).astype(dtype)


@defines(np.identity)
def identity(n: Any, dtype: Any = None, *, like: Any = None) -> Any:
    return np.eye(n, dtype=float if dtype is None else dtype)


@defines(np.tri)
def tri(N: Any, M: Any = None, k: Any = 0, dtype: Any = float, *, like: Any = None) -> Any:
    columns = N if M is None else M
    return np.greater_equal(np.arange(N)[:, None] + k, np.arange(columns)).astype(dtype)


@defines(np.triu_indices)
def triu_indices(n: Any, k: Any = 0, m: Any = None) -> Any:
    return np.nonzero(np.logical_not(np.tri(n, m, k - 1, dtype=bool)))


@defines(np.tril_indices)
def tril_indices(n: Any, k: Any = 0, m: Any = None) -> Any:
    return np.nonzero(np.tri(n, m, k, dtype=bool))


@defines(np.triu_indices_from)
def triu_indices_from(arr: Any, k: Any = 0) -> Any:
    return np.triu_indices(arr.shape[0], k, arr.shape[1])


@defines(np.tril_indices_from)
def tril_indices_from(arr: Any, k: Any = 0) -> Any:
    return np.tril_indices(arr.shape[0], k, arr.shape[1])


@defines(np.diag_indices)
def diag_indices(n: Any, ndim: Any = 2) -> Any:
    return (np.arange(n),) * ndim


@defines(np.diag_indices_from)
def diag_indices_from(arr: Any) -> Any:
    return np.diag_indices(arr.shape[0], arr.ndim)


@defines(np.diag)
def diag(v: Any, k: Any = 0) -> Any:
    v = np.asarray(v)
    if v.ndim == 2:
        return np.diagonal(v, k)
    if v.ndim != 1:
        raise ValueError("Input must be 1- or 2-d.")
    down, right = (0, k) if k >= 0 else (-k, 0)
    n = len(v) + down + right
    out = np.zeros((n, n), v.dtype)
    steps = np.arange(len(v))
    out[steps + down, steps + right] = v
    return out


@defines(np.diagflat)
def diagflat(v: Any, k: Any = 0) -> Any:
    return np.diag(np.ravel(v), k)


@defines(np.vander)
def vander(x: Any, N: Any = None, increasing: Any = False) -> Any:
    x = np.asarray(x)
    if x.ndim != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    count = len(x) if N is None else N
    powers = np.arange(count) if increasing else np.arange(count)[::-1]
    kind = np.promote_types(x.dtype, int)
    return np.power(x[:, None].astype(kind), powers.astype(kind))


@defines(np.kron)
def kron(a: Any, b: Any) -> Any:
    a, b = np.asarray(a), np.asarray(b)
    n = max(a.ndim, b.ndim)
    a = np.reshape(a, (1,) * (n - a.ndim) + a.shape)
    b = np.reshape(b, (1,) * (n - b.ndim) + b.shape)
    wide = np.expand_dims(a, tuple(range(1, 2 * n, 2))) * np.expand_dims(b, tuple(range(0, 2 * n, 2)))
    return np.reshape(wide, tuple(p * q for p, q in zip(a.shape, b.shape, strict=True)))


@defines(np.fromfunction)
def fromfunction(function: Any, shape: Any, *, dtype: Any = float, like: Any = None, **options: Any) -> Any:
    grids = np.indices(shape, dtype=dtype)
    return function(*[grids[k] for k in range(len(shape))], **options)


# ---- padding ---------------------------------------------------------------------------------------------------------


@defines(np.pad)
def pad(array: Any, pad_width: Any, mode: Any = "constant", **options: Any) -> Any:
    x = np.asarray(array)
    widths = _pairs(pad_width, x.ndim)
    if mode == "constant" or mode == "empty":
        values = _pairs(options.get("constant_values", 0), x.ndim)
        for k in range(x.ndim):
            x = _pad_with(x, k, widths[k], values[k][0], values[k][1])
        return x
    if mode == "linear_ramp":
        ends = _pairs(options.get("end_values", 0), x.ndim)
        for k in range(x.ndim):
            x = _pad_ramp(x, k, widths[k], ends[k])
        return x
    if mode in ("maximum", "minimum", "mean", "median") and options.get("stat_length") is None:
        statistic: Any = {"maximum": np.max, "minimum": np.min, "mean": np.mean, "median": np.median}[mode]
        for k in range(x.ndim):
            level = statistic(x, axis=k, keepdims=True)
            x = _pad_with(x, k, widths[k], level, level)
        return x
    if mode in ("edge", "wrap", "reflect", "symmetric") and options.get("reflect_type", "even") == "even":
        for k in range(x.ndim):
            n = x.shape[k]
            if n == 0:
                raise ValueError(f"can't extend empty axis {k} using modes other than 'constant' or 'empty'")
            x = np.take(x, _pad_source(np.arange(-widths[k][0], n + widths[k][1]), n, mode), axis=k)
        return x
    raise MissingRule(f"numpy.pad with mode={mode!r} and these options cannot be staged")


def _pairs(x: Any, ndim: int) -> list[Any]:
    """(before, after) for every axis, from the forms that numpy.pad takes."""
    if isinstance(x, dict):
        given = {k % ndim: v for k, v in x.items()}
        return [_pairs(given.get(k, 0), 1)[0] for k in range(ndim)]
    if not isinstance(x, tuple | list):
        if np.ndim(x) == 0:
            return [(x, x)] * ndim
        x = [x[k] for k in range(len(x))]
    if not isinstance(x[0], tuple | list) and np.ndim(x[0]) == 0:
        return [(x[0], x[-1])] * ndim
    rows = [(row[0], row[-1]) for row in x]
    return rows * ndim if len(rows) == 1 else rows


def _pad_with(x: Any, axis: int, width: Any, before: Any, after: Any) -> Any:
    parts = [_pad_block(x, axis, width[0], before), x, _pad_block(x, axis, width[1], after)]
    return np.concatenate(parts, axis=axis)


def _pad_block(x: Any, axis: int, width: Any, value: Any) -> Any:
    shape = x.shape[:axis] + (width,) + x.shape[axis + 1 :]
    return np.broadcast_to(np.asarray(value).astype(x.dtype), shape)


def _pad_ramp(x: Any, axis: int, width: Any, ends: Any) -> Any:
    first = np.take(x, [0], axis=axis)
    last = np.take(x, [-1], axis=axis)
    shape = (1,) * axis + (-1,) + (1,) * (x.ndim - axis - 1)
    up = np.reshape(np.arange(width[0]), shape) / max(width[0], 1)
    down = np.reshape(np.arange(width[1])[::-1], shape) / max(width[1], 1)
    parts = [ends[0] + (first - ends[0]) * up, x, ends[1] + (last - ends[1]) * down]
    return np.concatenate(parts, axis=axis).astype(x.dtype)


def _pad_source(position: Any, n: Any, mode: str) -> Any:
    """The element that stands at each position of the padded axis."""
    if mode == "edge":
        return np.clip(position, 0, n - 1)
    if mode == "wrap":
        return np.mod(position, n)
    period = 2 * n if mode == "symmetric" else np.maximum(2 * n - 2, 1)
    place = np.mod(position, period)
    last = period - 1 if mode == "symmetric" else period
    return np.where(place < n, place, last - place)


# ---- arrays along an axis --------------------------------------------------------------------------------------------


def _along(indices: Any, shape: Any, axis: int) -> Any:
    """The index that picks ``indices`` along the axis and every other axis in order."""
    n = indices.ndim
    grids = [np.reshape(np.arange(shape[k]), (1,) * k + (-1,) + (1,) * (n - k - 1)) for k in range(n)]
    grids[axis] = indices
    return tuple(grids)


@defines(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    arr, indices = np.asarray(arr), np.asarray(indices)
    if axis is None:
        return np.ravel(arr)[indices]
    if arr.ndim != indices.ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    return arr[_along(indices, arr.shape, np.lib.array_utils.normalize_axis_index(axis, arr.ndim))]


@defines(np.put_along_axis)
def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any) -> None:
    indices = np.asarray(indices)
    if axis is None:
        np.put(arr, indices, values)
    else:
        arr[_along(indices, arr.shape, np.lib.array_utils.normalize_axis_index(axis, arr.ndim))] = values


@defines(np.choose, method="choose")
def choose(a: Any, choices: Any, out: Any = None, mode: Any = "raise") -> Any:
    index = np.asarray(a)
    options = [choices[k] for k in range(len(choices))]
    count = len(options)
    if mode == "wrap":
        index = np.mod(index, count)
    elif mode == "clip":
        index = np.clip(index, 0, count - 1)
    elif np.any((index < 0) | (index >= count)):
        raise ValueError("invalid entry in choice array")
    result = options[0]
    for k in range(1, count):
        result = np.where(index == k, options[k], result)
    result = np.where(index == 0, options[0], result)
    if out is not None:
        out[...] = result
        return out
    return result


@defines(np.piecewise)
def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **options: Any) -> Any:
    whole = np.atleast_1d(x)
    if not isinstance(condlist, list | tuple):
        condlist = [condlist] if np.ndim(condlist) == np.ndim(x) else [condlist[k] for k in range(len(condlist))]
    conditions = [np.atleast_1d(np.asarray(c)) for c in condlist]
    if len(funclist) == len(conditions) + 1:
        rest = conditions[0]
        for c in conditions[1:]:
            rest = np.logical_or(rest, c)
        conditions.append(np.logical_not(rest))
    elif len(funclist) != len(conditions):
        raise ValueError(f"with {len(conditions)} condition(s), {len(conditions)} functions are expected")
    y = np.zeros_like(whole)
    for c, function in zip(conditions, funclist, strict=True):
        y[c] = function(whole[c], *args, **options) if callable(function) else function
    return np.reshape(y, np.shape(x))


@defines(np.apply_along_axis)
def apply_along_axis(func1d: Any, axis: Any, arr: Any, *args: Any, **options: Any) -> Any:
    moved = np.moveaxis(np.asarray(arr), axis, -1)
    rows = np.reshape(moved, (-1, moved.shape[-1]))
    results = np.array([func1d(rows[k], *args, **options) for k in range(len(rows))])
    results = np.reshape(results, moved.shape[:-1] + results.shape[1:])
    return results if results.ndim < moved.ndim else np.moveaxis(results, -1, axis)


@defines(np.apply_over_axes)
def apply_over_axes(func: Any, a: Any, axes: Any) -> Any:
    result = np.asarray(a)
    for axis in axes if isinstance(axes, tuple | list) else (axes,):
        reduced = func(result, axis)
        result = reduced if np.ndim(reduced) == result.ndim else np.expand_dims(reduced, axis)
    return result


@defines(np.vectorize.__call__)
def vectorize_call(self: Any, *args: Any, **options: Any) -> Any:
    if self.signature is not None or self.excluded or options:
        raise MissingRule("numpy.vectorize with signature, excluded or keywords cannot be staged; write the loop out")
    arrays = np.broadcast_arrays(*args)
    flat = [np.ravel(x) for x in arrays]
    results = np.array([self.pyfunc(*[x[k] for x in flat]) for k in range(len(flat[0]))])
    return np.reshape(results, arrays[0].shape)[()]


# ---- windows ---------------------------------------------------------------------------------------------------------


def _window(M: Any, weights: Any) -> Any:
    """``weights`` of the angles 2πk/(M-1)."""
    if M < 1:
        return np.zeros(0)
    if M == 1:
        return np.ones(1)
    return weights(2 * np.pi * np.arange(M) / (M - 1))


@defines(np.hanning)
def hanning(M: Any) -> Any:
    return _window(M, lambda t: 0.5 - 0.5 * np.cos(t))


@defines(np.hamming)
def hamming(M: Any) -> Any:
    return _window(M, lambda t: 0.54 - 0.46 * np.cos(t))


@defines(np.blackman)
def blackman(M: Any) -> Any:
    return _window(M, lambda t: 0.42 - 0.5 * np.cos(t) + 0.08 * np.cos(2 * t))


@defines(np.bartlett)
def bartlett(M: Any) -> Any:
    return _window(M, lambda t: 1 - np.abs(t / np.pi - 1))


@defines(np.kaiser)
def kaiser(M: Any, beta: Any) -> Any:
    if M == 1:
        return np.ones(1)
    half = (M - 1) / 2.0
    return np.i0(beta * np.sqrt(1 - ((np.arange(M) - half) / half) ** 2.0)) / np.i0(float(beta))


@defines(np.lib.stride_tricks.sliding_window_view)
def sliding_window_view(
    x: Any, window_shape: Any, axis: Any = None, *, subok: Any = False, writeable: Any = False
) -> Any:
    base = x = np.asarray(x)
    widths = window_shape if isinstance(window_shape, tuple | list) else (window_shape,)
    axes: Any = range(x.ndim) if axis is None else axis
    axes = axes if isinstance(axes, tuple | list | range) else (axes,)
    if len(axes) != len(widths):
        raise ValueError("Must provide matching length window_shape and axis")
    n = x.ndim
    for k, width in zip(axes, widths, strict=True):
        k = k % n
        if width > x.shape[k]:
            raise ValueError("window shape cannot be larger than input array shape")
        places = np.arange(x.shape[k] - width + 1)[:, None] + np.arange(width)
        x = np.moveaxis(np.take(x, places, axis=k), k + 1, -1)
    return perhaps_view(base, x, "the result of sliding_window_view")


# ---- sets ------------------------------------------------------------------------------------------------------------


@defines(np.union1d)
def union1d(ar1: Any, ar2: Any) -> Any:
    return np.unique(np.concatenate((np.ravel(ar1), np.ravel(ar2))))


@defines(np.setdiff1d)
def setdiff1d(ar1: Any, ar2: Any, assume_unique: Any = False) -> Any:
    a = np.ravel(ar1) if assume_unique else np.unique(ar1)
    return a[np.isin(a, ar2, invert=True)]


@defines(np.intersect1d)
def intersect1d(ar1: Any, ar2: Any, assume_unique: Any = False, return_indices: Any = False) -> Any:
    if return_indices:
        raise MissingRule("numpy.intersect1d with return_indices cannot be staged")
    a = np.sort(np.ravel(ar1)) if assume_unique else np.unique(ar1)
    return a[np.isin(a, ar2)]


@defines(np.setxor1d)
def setxor1d(ar1: Any, ar2: Any, assume_unique: Any = False) -> Any:
    a, b = np.unique(ar1), np.unique(ar2)
    return np.sort(np.concatenate((a[np.isin(a, b, invert=True)], b[np.isin(b, a, invert=True)])))


@defines(np.unique_values)
def unique_values(x: Any) -> Any:
    return np.unique(x)


# ---- names of the array API ------------------------------------------------------------------------------------------


def _cumulative(function: Any, initial: Any, x: Any, axis: Any, dtype: Any, out: Any, include_initial: Any) -> Any:
    x = np.asarray(x)
    if axis is None:
        if x.ndim > 1:
            raise ValueError("For arrays which have more than one dimension ``axis`` argument is required.")
        axis = 0
    result = function(x, axis, dtype, out)
    if include_initial:
        first = np.full_like(np.take(result, np.arange(1) * 0, axis=axis), initial)
        result = np.concatenate((first, result), axis=axis)
    return result


def _register_newer() -> None:
    """Functions of NumPy since 2.1."""
    if hasattr(np, "cumulative_sum"):

        @defines(np.cumulative_sum)
        def cumulative_sum(
            x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: Any = False
        ) -> Any:
            return _cumulative(np.cumsum, 0, x, axis, dtype, out, include_initial)

        @defines(np.cumulative_prod)
        def cumulative_prod(
            x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: Any = False
        ) -> Any:
            return _cumulative(np.cumprod, 1, x, axis, dtype, out, include_initial)


_register_newer()
