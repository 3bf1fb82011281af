"""Definitions in plain NumPy: moments, quantiles, covariance, histograms, and their forms that leave NaN out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from gradsmith.errors import MissingRule
from gradsmith.frontend.catalogue import defines

ABSENT: Any = np._NoValue


def root(v: Any) -> Any:
    """The square root of a sum of squares. Where that is 0, the derivative of its terms is, and so the root's."""
    positive = v > 0
    return np.where(positive, np.sqrt(np.where(positive, v, 1)), v)[()]


def stored(result: Any, out: Any) -> Any:
    """``result``, written into ``out`` if given."""
    if out is None:
        return result
    out[...] = result
    return out


# ---- moments ---------------------------------------------------------------------------------------------------------


def _squares(d: Any) -> Any:
    return np.real(d * np.conj(d)) if np.iscomplexobj(d) else d * d


@defines(np.var, method="var")
def var(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = False,
    *,
    where: Any = True,
    mean: Any = ABSENT,
    correction: Any = ABSENT,
) -> Any:
    if correction is not ABSENT:
        ddof = correction
    a = np.asarray(a, dtype)
    if a.dtype.kind in "biu":
        a = a.astype(float)
    centre = np.mean(a, axis=axis, keepdims=True, where=where) if mean is ABSENT else mean
    squares = _squares(a - centre)
    total = np.sum(squares, axis=axis, keepdims=keepdims, where=where)
    if where is True:
        count = np.size(a, axis)
    else:
        count = np.sum(np.broadcast_to(where, a.shape), axis=axis, keepdims=keepdims).astype(total.dtype)
    return stored(total / np.maximum(count - ddof, 0).astype(total.dtype), out)


@defines(np.std, method="std")
def std(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = False,
    *,
    where: Any = True,
    mean: Any = ABSENT,
    correction: Any = ABSENT,
) -> Any:
    variance = np.var(a, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction)
    return stored(root(variance), out)


@defines(np.average)
def average(a: Any, axis: Any = None, weights: Any = None, returned: Any = False, *, keepdims: Any = False) -> Any:
    a = np.asarray(a)
    if weights is None:
        mean = np.mean(a, axis, keepdims=keepdims)
        if not returned:
            return mean
        return mean, np.zeros_like(mean)[()] + np.size(a, axis)
    w = np.asarray(weights)
    if w.ndim != a.ndim:
        if axis is None:
            raise TypeError("Axis must be specified when shapes of a and weights differ.")
        axes = normalize_axis_tuple(axis, a.ndim)
        if w.ndim != len(axes):
            raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
        order = [k for k, _ in sorted(enumerate(axes), key=lambda pair: pair[1])]
        w = np.transpose(w, order)
        w = np.expand_dims(w, tuple(k for k in range(a.ndim) if k not in axes))
        w = np.broadcast_to(w, a.shape)
    kind = np.result_type(a.dtype, w.dtype, np.float64) if a.dtype.kind in "biu" else np.result_type(a.dtype, w.dtype)
    w = w.astype(kind)
    scale = np.sum(w, axis=axis, keepdims=keepdims)
    if np.any(scale == 0):
        raise ZeroDivisionError("Weights sum to zero, can't be normalized")
    mean = np.sum(a * w, axis=axis, keepdims=keepdims) / scale
    return (mean, scale) if returned else mean


@defines(np.cov)
def cov(
    m: Any,
    y: Any = None,
    rowvar: Any = True,
    bias: Any = False,
    ddof: Any = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Any:
    x = _observations(m, rowvar, dtype)
    if y is not None:
        x = np.concatenate((x, _observations(y, rowvar, dtype)), axis=0)
    if ddof is None:
        ddof = 0 if bias else 1
    w = None
    if fweights is not None:
        w = np.asarray(fweights, dtype=float)
    if aweights is not None:
        w = np.asarray(aweights, dtype=float) if w is None else w * aweights
    mean, total = np.average(x, axis=1, weights=w, returned=True)
    total = total[0]
    if w is None:
        factor = x.shape[1] - ddof
    elif ddof == 0:
        factor = total
    elif aweights is None:
        factor = total - ddof
    else:
        factor = total - ddof * np.sum(w * aweights) / total
    x = x - mean[:, None]
    weighted = np.transpose(x if w is None else x * w)
    return np.squeeze(np.dot(x, np.conj(weighted)) * np.true_divide(1, np.maximum(factor, 0)))


def _observations(m: Any, rowvar: Any, dtype: Any) -> Any:
    m = np.asarray(m)
    kind = np.result_type(m.dtype, np.float64) if dtype is None else dtype
    if m.ndim > 2:
        raise ValueError("m has more than 2 dimensions")
    x = np.array(m, ndmin=2, dtype=kind)
    return x.T if not rowvar and m.ndim != 1 else x


@defines(np.corrcoef)
def corrcoef(x: Any, y: Any = None, rowvar: Any = True, *, dtype: Any = None) -> Any:
    c = np.cov(x, y, rowvar, dtype=dtype)
    if c.ndim == 0:
        return c / c
    deviation = np.sqrt(np.real(np.diagonal(c)))
    c = c / deviation[:, None] / deviation[None, :]
    if np.iscomplexobj(c):
        return np.clip(np.real(c), -1, 1) + 1j * np.clip(np.imag(c), -1, 1)
    return np.clip(c, -1, 1)


# ---- order statistics ------------------------------------------------------------------------------------------------


def reduced_last(a: Any, axis: Any) -> Any:
    """``a`` with the axes to reduce merged into one at the end."""
    axes = tuple(range(a.ndim)) if axis is None else normalize_axis_tuple(axis, a.ndim)
    kept = tuple(k for k in range(a.ndim) if k not in axes)
    count = 1
    for k in axes:
        count = count * a.shape[k]
    moved = np.transpose(a, kept + axes)
    return np.reshape(moved, moved.shape[: len(kept)] + (count,)), axes


def _restored(result: Any, axes: Any, keepdims: Any, lead: int = 0) -> Any:
    """``result`` with the reduced axes back as axes of length one, behind ``lead`` leading axes."""
    return np.expand_dims(result, tuple(k + lead for k in axes)) if keepdims else result


@defines(np.median)
def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: Any = False, keepdims: Any = False) -> Any:
    rows, axes = reduced_last(np.asarray(a), axis)
    ordered = np.sort(rows, axis=-1)
    n = ordered.shape[-1]
    middle = 0.5 * ordered[..., (n - 1) // 2] + 0.5 * ordered[..., n // 2]
    if ordered.dtype.kind in "fc":
        # NaN is sorted to the end
        middle = np.where(np.isnan(ordered[..., -1]), ordered[..., -1], middle)[()]
    return stored(_restored(middle, axes, keepdims), out)


@defines(np.percentile)
def percentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: Any = False,
    method: Any = "linear",
    keepdims: Any = False,
    *,
    weights: Any = None,
) -> Any:
    return np.quantile(a, np.true_divide(q, 100), axis, out, overwrite_input, method, keepdims, weights=weights)


@defines(np.quantile)
def quantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: Any = False,
    method: Any = "linear",
    keepdims: Any = False,
    *,
    weights: Any = None,
) -> Any:
    if weights is not None:
        raise MissingRule("numpy.quantile with weights cannot be staged")
    rows, axes = reduced_last(np.asarray(a), axis)
    ordered = np.sort(rows, axis=-1)
    q = np.asarray(q)
    if not np.all((q >= 0) & (q <= 1)):
        raise ValueError("Quantiles must be in the range [0, 1]")
    n = ordered.shape[-1]
    place = np.clip(_virtual_index(n, q, method), 0, n - 1)
    below = np.floor(place)
    low = below.astype(int)
    high = np.minimum(low + 1, n - 1)
    result = _between(np.take(ordered, low, axis=-1), np.take(ordered, high, axis=-1), place - below)
    if ordered.dtype.kind in "fc":
        last = np.reshape(ordered[..., -1], ordered.shape[:-1] + (1,) * q.ndim)
        result = np.where(np.isnan(last), last, result)
    result = np.moveaxis(result, tuple(range(-q.ndim, 0)), tuple(range(q.ndim)))
    return stored(_restored(result, axes, keepdims, q.ndim)[()], out)


_OFFSETS = {
    "weibull": (0.0, 0.0),
    "hazen": (0.5, 0.5),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
    "interpolated_inverted_cdf": (0.0, 1.0),
}


def _virtual_index(n: Any, q: Any, method: str) -> Any:
    """Where the quantile lies among n sorted elements (Hyndman and Fan, 1996)."""
    if method in _OFFSETS:
        alpha, beta = _OFFSETS[method]
        return n * q + (alpha + q * (1 - alpha - beta)) - 1
    linear = (n - 1) * q
    if method == "linear":
        return linear
    if method == "lower":
        return np.floor(linear)
    if method == "higher":
        return np.ceil(linear)
    if method == "nearest":
        return np.rint(linear)
    if method == "midpoint":
        return 0.5 * (np.floor(linear) + np.ceil(linear))
    raise MissingRule(f"numpy.quantile with method={method!r} cannot be staged")


def _between(a: Any, b: Any, t: Any) -> Any:
    """NumPy's linear interpolation: exact at both ends."""
    d = b - a
    return np.where(t >= 0.5, b - d * (1 - t), a + d * t)


# ---- without NaN -----------------------------------------------------------------------------------------------------


def _present(a: Any) -> Any:
    return np.logical_not(np.isnan(a))


@defines(np.nanmean)
def nanmean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True
) -> Any:
    a = np.asarray(a, dtype)
    return np.mean(a, axis, out=out, keepdims=keepdims, where=np.logical_and(_present(a), where))


@defines(np.nanvar)
def nanvar(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = False,
    *,
    where: Any = True,
    mean: Any = ABSENT,
    correction: Any = ABSENT,
) -> Any:
    a = np.asarray(a, dtype)
    used = np.logical_and(_present(a), where)
    ddof = ddof if correction is ABSENT else correction
    count = np.sum(used, axis=axis, keepdims=keepdims)
    spread = np.var(np.where(used, a, 0), axis, None, None, ddof, keepdims, where=used, mean=mean)
    return stored(np.where(count <= ddof, np.nan, spread).astype(spread.dtype)[()], out)


@defines(np.nanstd)
def nanstd(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = False,
    *,
    where: Any = True,
    mean: Any = ABSENT,
    correction: Any = ABSENT,
) -> Any:
    spread = np.nanvar(a, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction)
    return stored(root(spread), out)


@defines(np.nanmedian)
def nanmedian(a: Any, axis: Any = None, out: Any = None, overwrite_input: Any = False, keepdims: Any = False) -> Any:
    rows, axes = reduced_last(np.asarray(a), axis)
    ordered = np.sort(rows, axis=-1)
    n = np.sum(_present(ordered), axis=-1, keepdims=True)
    low = np.take_along_axis(ordered, np.maximum(n - 1, 0) // 2, axis=-1)
    high = np.take_along_axis(ordered, np.minimum(n // 2, ordered.shape[-1] - 1), axis=-1)
    middle = (0.5 * low + 0.5 * high)[..., 0]
    return stored(_restored(middle, axes, keepdims), out)


@defines(np.nanpercentile)
def nanpercentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: Any = False,
    method: Any = "linear",
    keepdims: Any = False,
    *,
    weights: Any = None,
) -> Any:
    return np.nanquantile(a, np.true_divide(q, 100), axis, out, overwrite_input, method, keepdims, weights=weights)


@defines(np.nanquantile)
def nanquantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: Any = False,
    method: Any = "linear",
    keepdims: Any = False,
    *,
    weights: Any = None,
) -> Any:
    if weights is not None:
        raise MissingRule("numpy.nanquantile with weights cannot be staged")
    rows, axes = reduced_last(np.asarray(a), axis)
    ordered = np.sort(rows, axis=-1)
    q = np.asarray(q)
    flat = np.ravel(q)
    n = np.sum(_present(ordered), axis=-1, keepdims=True)
    place = np.clip(_virtual_index(n, flat, method), 0, np.maximum(n - 1, 0))
    below = np.floor(place)
    low = below.astype(int)
    high = np.minimum(low + 1, np.maximum(n - 1, 0))
    result = _between(
        np.take_along_axis(ordered, low, axis=-1), np.take_along_axis(ordered, high, axis=-1), place - below
    )
    result = np.reshape(result, result.shape[:-1] + q.shape)
    result = np.moveaxis(result, tuple(range(-q.ndim, 0)), tuple(range(q.ndim)))
    return stored(_restored(result, axes, keepdims, q.ndim)[()], out)


# ---- histograms ------------------------------------------------------------------------------------------------------


@defines(np.histogram_bin_edges)
def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    if isinstance(bins, str):
        raise MissingRule(f"numpy.histogram with bins={bins!r} cannot be staged; give their number or their edges")
    if np.ndim(bins) == 1:
        return np.asarray(bins)
    a = np.ravel(a)
    if range is not None:
        low, high = range
    elif len(a) == 0:
        low, high = 0.0, 1.0
    else:
        low, high = np.min(a), np.max(a)
    equal = np.equal(low, high)
    low, high = np.where(equal, low - 0.5, low), np.where(equal, high + 0.5, high)
    return np.linspace(low, high, bins + 1)


@defines(np.histogram)
def histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    edges = np.histogram_bin_edges(a, bins, range)
    a = np.ravel(a)
    count = len(edges) - 1
    place = np.searchsorted(edges, a, side="right") - 1
    place = np.where(a == edges[-1], count - 1, place)
    inside = np.logical_and(a >= edges[0], a <= edges[-1])
    chosen = None if weights is None else np.ravel(weights)[inside]
    totals = np.bincount(place[inside], chosen, count)
    if density:
        return totals / np.diff(edges) / np.sum(totals), edges
    return totals, edges
