"""Definitions in plain NumPy: norms, condition numbers, powers and other functions of numpy.linalg."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from gradsmith.frontend.catalogue import defines
from gradsmith.frontend.catalogue.statistics import reduced_last, root


@defines(np.linalg.norm)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: Any = False) -> Any:
    x = np.asarray(x)
    if x.dtype.kind in "biu":
        x = x.astype(float)
    if axis is None:
        flat = ord is None or (ord in ("f", "fro") and x.ndim == 2) or (ord == 2 and x.ndim == 1)
        if flat:
            return root(np.sum(_squares(x), keepdims=keepdims))
        axes = tuple(range(x.ndim))
    else:
        axes = normalize_axis_tuple(axis, x.ndim)
    if len(axes) == 1:
        return _vector_norm(x, 2 if ord is None else ord, axes[0], keepdims)
    if len(axes) != 2:
        raise ValueError("Improper number of dimensions to norm.")
    result = _matrix_norm(x, "fro" if ord is None else ord, axes)
    return np.expand_dims(result, tuple(sorted(axes))) if keepdims else result


def _squares(x: Any) -> Any:
    return np.real(x * np.conj(x)) if np.iscomplexobj(x) else x * x


def _vector_norm(x: Any, ord: Any, axis: Any, keepdims: Any) -> Any:
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order '{ord}' for vectors")
    if ord == np.inf:
        return np.max(np.abs(x), axis=axis, keepdims=keepdims)
    if ord == -np.inf:
        return np.min(np.abs(x), axis=axis, keepdims=keepdims)
    if ord == 0:
        return np.sum((x != 0).astype(np.real(x).dtype), axis=axis, keepdims=keepdims)
    if ord == 1:
        return np.sum(np.abs(x), axis=axis, keepdims=keepdims)
    if ord == 2:
        return root(np.sum(_squares(x), axis=axis, keepdims=keepdims))
    total = np.sum(np.abs(x) ** ord, axis=axis, keepdims=keepdims)
    positive = total > 0
    return np.where(positive, np.where(positive, total, 1) ** (1 / ord), total)[()]


def _matrix_norm(x: Any, ord: Any, axes: Any) -> Any:
    x = np.moveaxis(x, axes, (-2, -1))
    if ord in ("fro", "f"):
        return root(np.sum(_squares(x), axis=(-2, -1)))
    if ord == "nuc":
        return np.sum(np.linalg.svdvals(x), axis=-1)
    if ord == 2:
        return np.max(np.linalg.svdvals(x), axis=-1)
    if ord == -2:
        return np.min(np.linalg.svdvals(x), axis=-1)
    if ord == 1:
        return np.max(np.sum(np.abs(x), axis=-2), axis=-1)
    if ord == -1:
        return np.min(np.sum(np.abs(x), axis=-2), axis=-1)
    if ord == np.inf:
        return np.max(np.sum(np.abs(x), axis=-1), axis=-1)
    if ord == -np.inf:
        return np.min(np.sum(np.abs(x), axis=-1), axis=-1)
    raise ValueError("Invalid norm order for matrices.")


@defines(np.linalg.vector_norm)
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: Any = False, ord: Any = 2) -> Any:
    x = np.asarray(x)
    axes = tuple(range(x.ndim)) if axis is None else normalize_axis_tuple(axis, x.ndim)
    rows, _ = reduced_last(x, axes)
    result = np.linalg.norm(rows, ord=ord, axis=-1)
    return np.expand_dims(result, tuple(sorted(axes))) if keepdims else result


@defines(np.linalg.matrix_norm)
def matrix_norm(x: Any, /, *, keepdims: Any = False, ord: Any = "fro") -> Any:
    return np.linalg.norm(x, ord=ord, axis=(-2, -1), keepdims=keepdims)


@defines(np.linalg.cond)
def cond(x: Any, p: Any = None) -> Any:
    x = np.asarray(x)
    if p is None or p == 2 or p == -2:
        s = np.linalg.svdvals(x)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    return np.linalg.norm(x, p, axis=(-2, -1)) * np.linalg.norm(np.linalg.inv(x), p, axis=(-2, -1))


@defines(np.linalg.matrix_power)
def matrix_power(a: Any, n: Any) -> Any:
    a = np.asarray(a)
    if n == 0:
        return np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape).copy()
    if n < 0:
        a, n = np.linalg.inv(a), -n
    result = None
    while True:
        if n % 2:
            result = a if result is None else result @ a
        n = n // 2
        if n == 0:
            return result
        a = a @ a


@defines(np.linalg.multi_dot)
def multi_dot(arrays: Any, *, out: Any = None) -> Any:
    """From the end that is a vector, else from the left."""
    parts = [np.asarray(x) for x in arrays]
    if len(parts) < 2:
        raise ValueError("Expecting at least two arrays.")
    if parts[-1].ndim == 1:
        result = parts[-1]
        for x in parts[-2::-1]:
            result = np.dot(x, result)
    else:
        result = parts[0]
        for x in parts[1:]:
            result = np.dot(result, x)
    if out is None:
        return result
    out[...] = result
    return out


@defines(np.linalg.tensorsolve)
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    a, b = np.asarray(a), np.asarray(b)
    if axes is not None:
        moved = [k % a.ndim for k in axes]
        a = np.transpose(a, [k for k in range(a.ndim) if k not in moved] + moved)
    old = a.shape[b.ndim :]
    size = b.size
    return np.reshape(np.linalg.solve(np.reshape(a, (size, size)), np.ravel(b)), old)


@defines(np.linalg.tensorinv)
def tensorinv(a: Any, ind: Any = 2) -> Any:
    a = np.asarray(a)
    if ind <= 0:
        raise ValueError("Invalid ind argument.")
    size = 1
    for n in a.shape[ind:]:
        size = size * n
    return np.reshape(np.linalg.inv(np.reshape(a, (size, size))), a.shape[ind:] + a.shape[:ind])


@defines(np.linalg.cross)
def linalg_cross(x1: Any, x2: Any, /, *, axis: Any = -1) -> Any:
    x1, x2 = np.asarray(x1), np.asarray(x2)
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise ValueError("Both input arrays must be (arrays of) 3-dimensional vectors")
    return np.cross(x1, x2, axis=axis)


@defines(np.cross)
def cross(a: Any, b: Any, axisa: Any = -1, axisb: Any = -1, axisc: Any = -1, axis: Any = None) -> Any:
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = np.moveaxis(np.asarray(a), axisa, -1), np.moveaxis(np.asarray(b), axisb, -1)
    n, m = a.shape[-1], b.shape[-1]
    if n not in (2, 3) or m not in (2, 3):
        raise ValueError("incompatible dimensions for cross product\n(dimension must be 2 or 3)")
    a0, a1, b0, b1 = a[..., 0], a[..., 1], b[..., 0], b[..., 1]
    third = a0 * b1 - a1 * b0
    if n == 2 and m == 2:
        return third
    if n == 3 and m == 3:
        first, second = a1 * b[..., 2] - a[..., 2] * b1, a[..., 2] * b0 - a0 * b[..., 2]
    elif n == 3:
        first, second = -a[..., 2] * b1, a[..., 2] * b0
    else:
        first, second = a1 * b[..., 2], -a0 * b[..., 2]
    return np.moveaxis(np.stack(np.broadcast_arrays(first, second, third), axis=-1), -1, axisc)
