"""Definitions in plain NumPy: differences, integrals, interpolation, convolution, polynomials, sinc and comparisons."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from gradsmith.errors import MissingRule
from gradsmith.frontend import stage as st
from gradsmith.frontend.catalogue import defines, implements
from gradsmith.frontend.catalogue.operands import deliver
from gradsmith.frontend.values import fresh
from gradsmith.ir import builder as ir
from gradsmith.ir.types import ArrayType

ABSENT: Any = np._NoValue

# ---- comparisons -----------------------------------------------------------------------------------------------------


@defines(np.isclose)
def isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: Any = False) -> Any:
    x, y = np.asarray(a), np.asarray(b)
    if y.dtype.kind in "biu":
        y = y.astype(float)
    close = np.logical_and(np.abs(x - y) <= atol + rtol * np.abs(y), np.isfinite(y))
    result = np.logical_or(close, np.equal(x, y))
    if equal_nan:
        result = np.logical_or(result, np.logical_and(np.isnan(x), np.isnan(y)))
    return result


@defines(np.allclose)
def allclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: Any = False) -> Any:
    return bool(np.all(np.isclose(a, b, rtol, atol, equal_nan)))


# ---- sinc and i0 -----------------------------------------------------------------------------------------------------


@defines(np.sinc)
def sinc(x: Any) -> Any:
    """Near 0 by its series, whose derivatives of every order are right where sin(y)/y cancels."""
    y = np.pi * np.asarray(x)
    t = y * y
    small = np.abs(y) < 0.5
    s = np.where(small, t, 0)
    series: Any = 1.0
    for k in range(8, 0, -1):
        series = 1.0 - s * series / (2 * k * (2 * k + 1))
    far = np.where(small, 1, y)
    return np.where(small, series, np.sin(far) / far)[()]


@implements(np.i0)
def i0(x: Any) -> Any:
    value = st.as_value(x)
    value = value if value.dtype.kind == "f" else ir.cast(value, np.float64)
    return fresh(ir.host("scipy.special.i0", [value], [value.type]))


# ---- differences and integrals ---------------------------------------------------------------------------------------


def _slices(ndim: int, axis: int, part: slice) -> Any:
    return (slice(None),) * axis + (part,) + (slice(None),) * (ndim - axis - 1)


@defines(np.diff)
def diff(a: Any, n: Any = 1, axis: Any = -1, prepend: Any = ABSENT, append: Any = ABSENT) -> Any:
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n!r}")
    a = np.asarray(a)
    if a.ndim == 0:
        raise ValueError("diff requires input that is at least one dimensional")
    axis = normalize_axis_index(axis, a.ndim)
    parts = [a]
    if prepend is not ABSENT:
        parts.insert(0, _edge(prepend, a, axis))
    if append is not ABSENT:
        parts.append(_edge(append, a, axis))
    if len(parts) > 1:
        a = np.concatenate(parts, axis)
    for _ in range(n):
        after, before = a[_slices(a.ndim, axis, slice(1, None))], a[_slices(a.ndim, axis, slice(None, -1))]
        a = np.not_equal(after, before) if a.dtype == bool else after - before
    return a


def _edge(x: Any, a: Any, axis: int) -> Any:
    x = np.asarray(x)
    return x if x.ndim else np.broadcast_to(x, a.shape[:axis] + (1,) + a.shape[axis + 1 :])


@defines(np.ediff1d)
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    a = np.ravel(ary)
    parts = [a[1:] - a[:-1]]
    if to_begin is not None:
        parts.insert(0, np.ravel(to_begin).astype(a.dtype))
    if to_end is not None:
        parts.append(np.ravel(to_end).astype(a.dtype))
    return np.concatenate(parts)


@defines(np.trapezoid)
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: Any = -1) -> Any:
    y = np.asarray(y)
    axis = normalize_axis_index(axis, y.ndim)
    if x is None:
        d = dx
    else:
        x = np.asarray(x)
        if x.ndim == 1:
            d = np.reshape(np.diff(x), (1,) * axis + (-1,) + (1,) * (y.ndim - axis - 1))
        else:
            d = np.diff(x, axis=axis)
    after, before = y[_slices(y.ndim, axis, slice(1, None))], y[_slices(y.ndim, axis, slice(None, -1))]
    return np.sum(d * (after + before) / 2.0, axis=axis)


@defines(np.gradient)
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: Any = 1) -> Any:
    f = np.asarray(f)
    if f.dtype.kind in "biu":
        f = f.astype(float)
    axes = tuple(range(f.ndim)) if axis is None else normalize_axis_tuple(axis, f.ndim)
    if edge_order > 2:
        raise ValueError("'edge_order' greater than 2 not supported")
    if len(varargs) == 0:
        steps = [1.0] * len(axes)
    elif len(varargs) == 1 and np.ndim(varargs[0]) == 0:
        steps = [varargs[0]] * len(axes)
    elif len(varargs) == len(axes):
        steps = list(varargs)
    else:
        raise TypeError("invalid number of arguments")
    results = [_slope(f, step, k, edge_order) for k, step in zip(axes, steps, strict=True)]
    return results[0] if len(results) == 1 else tuple(results)


def _slope(f: Any, step: Any, axis: int, edge_order: int) -> Any:
    """Central differences inside, one-sided ones of the given order at both ends."""
    if f.shape[axis] < edge_order + 1:
        raise ValueError("Shape of array too small to calculate a numerical gradient")
    f = np.moveaxis(f, axis, 0)
    out = np.zeros_like(f)
    if np.ndim(step) == 0:
        out[1:-1] = (f[2:] - f[:-2]) / (2.0 * step)
        first, last = (step, step), (step, step)
    else:
        d = np.diff(np.asarray(step))
        left = np.reshape(d[:-1], (-1,) + (1,) * (f.ndim - 1))
        right = np.reshape(d[1:], (-1,) + (1,) * (f.ndim - 1))
        a = -right / (left * (left + right))
        b = (right - left) / (left * right)
        c = left / (right * (left + right))
        out[1:-1] = a * f[:-2] + b * f[1:-1] + c * f[2:]
        first, last = (d[0], d[1] if edge_order == 2 else d[0]), (d[-1], d[-2] if edge_order == 2 else d[-1])
    if edge_order == 1:
        out[0] = (f[1] - f[0]) / first[0]
        out[-1] = (f[-1] - f[-2]) / last[0]
    else:
        out[0] = _one_sided(f[0], f[1], f[2], first)
        out[-1] = -_one_sided(f[-1], f[-2], f[-3], last)
    return np.moveaxis(out, 0, axis)


def _one_sided(f0: Any, f1: Any, f2: Any, steps: Any) -> Any:
    """The slope at f0 of the parabola through three points."""
    p, q = steps
    return -(2.0 * p + q) / (p * (p + q)) * f0 + (p + q) / (p * q) * f1 - p / (q * (p + q)) * f2


@defines(np.unwrap)
def unwrap(p: Any, discont: Any = None, axis: Any = -1, *, period: Any = 2 * math.pi) -> Any:
    p = np.asarray(p)
    axis = normalize_axis_index(axis, p.ndim)
    if p.dtype.kind in "iu":
        raise MissingRule("numpy.unwrap of integers cannot be staged")
    half = period / 2
    limit = half if discont is None else discont
    step = np.diff(p, axis=axis)
    turned = np.mod(step + half, period) - half
    turned = np.where(np.logical_and(turned == -half, step > 0), half, turned)
    correction = np.where(np.abs(step) < limit, 0, turned - step)
    first = p[_slices(p.ndim, axis, slice(0, 1))]
    rest = p[_slices(p.ndim, axis, slice(1, None))] + np.cumsum(correction, axis=axis)
    return np.concatenate((first, rest), axis=axis)


# ---- interpolation ---------------------------------------------------------------------------------------------------


@defines(np.interp)
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    x, xp, fp = np.asarray(x, float), np.asarray(xp, float), np.asarray(fp)
    if fp.dtype.kind != "c":
        fp = fp.astype(float)
    if period is not None:
        period = abs(period)
        x, xp = np.mod(x, period), np.mod(xp, period)
        order = np.argsort(xp)
        xp, fp = xp[order], fp[order]
        xp = np.concatenate((xp[-1:] - period, xp, xp[:1] + period))
        fp = np.concatenate((fp[-1:], fp, fp[:1]))
    if xp.ndim != 1 or fp.ndim != 1:
        raise ValueError("Data points must be 1-D sequences")
    n = len(xp)
    if n == 0:
        raise ValueError("array of sample points is empty")
    low = np.clip(np.searchsorted(xp, x, side="right") - 1, 0, max(n - 2, 0))
    high = np.minimum(low + 1, n - 1)
    x0, x1, f0, f1 = xp[low], xp[high], fp[low], fp[high]
    gap = np.where(x1 == x0, 1, x1 - x0)
    inside = np.where(x == x0, f0, (f1 - f0) / gap * (x - x0) + f0)
    below = fp[0] if left is None else left
    above = fp[-1] if right is None else right
    result = np.where(x < xp[0], below, np.where(x > xp[-1], above, np.where(x == xp[-1], fp[-1], inside)))
    return np.where(np.isnan(x), x, result)[()]


# ---- convolution -----------------------------------------------------------------------------------------------------


def full_convolution(a: Any, v: Any) -> Any:
    """The convolution of two vectors over every overlap."""
    return np.convolve(a, v)


@implements(full_convolution)
def _full_convolution(a: Any, v: Any) -> Any:
    x, y = st.as_value(a), st.as_value(v)
    common = np.result_type(x.dtype, y.dtype)
    return deliver(ir.host("numpy.convolve", [ir.cast(x, common), ir.cast(y, common)], [ArrayType(common, 1)]))


@defines(np.convolve)
def convolve(a: Any, v: Any, mode: Any = "full") -> Any:
    a, v = np.array(a, ndmin=1), np.array(v, ndmin=1)
    if len(a) == 0 or len(v) == 0:
        raise ValueError("convolve() arguments cannot be empty")
    return _overlaps(full_convolution(a, v), a, v, mode, False)


@defines(np.correlate)
def correlate(a: Any, v: Any, mode: Any = "valid") -> Any:
    a, v = np.array(a, ndmin=1), np.array(v, ndmin=1)
    return _overlaps(full_convolution(a, np.conj(v)[::-1]), a, v, mode, len(v) > len(a))


def _overlaps(full: Any, a: Any, v: Any, mode: str, swapped: Any) -> Any:
    """The part of a full convolution that ``mode`` asks for."""
    if mode == "full":
        return full
    short, long = np.minimum(len(a), len(v)), np.maximum(len(a), len(v))
    if mode == "valid":
        return full[short - 1 : long]
    if mode != "same":
        raise ValueError(f"mode must be one of 'valid', 'same', or 'full' (got {mode!r})")
    start = short // 2 if swapped else (short - 1) // 2
    return full[start : start + long]
