"""Definitions in plain NumPy: polynomials as coefficient vectors from the highest power down, and numpy.poly1d."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradsmith.errors import MissingRule
from gradsmith.frontend.catalogue import defines


@defines(np.polyval)
def polyval(p: Any, x: Any) -> Any:
    x = np.asarray(x)
    if isinstance(p, list | tuple):
        y = np.zeros(x.shape, x.dtype)[()]
        for c in p:
            y = y * x + c
        return y
    y = np.zeros(x.shape, np.result_type(p, x))[()]
    for k in range(len(p)):
        y = y * x + p[k]
    return y


@defines(np.polyder)
def polyder(p: Any, m: Any = 1) -> Any:
    p = np.asarray(p)
    for _ in range(m):
        p = p[:-1] * np.arange(len(p) - 1, 0, -1)
    return p


@defines(np.polyint)
def polyint(p: Any, m: Any = 1, k: Any = None) -> Any:
    p = np.asarray(p)
    constants = [0.0] * m if k is None else [k] * m if np.ndim(k) == 0 else k
    for n in range(m):
        last = np.reshape(np.asarray(constants[n], float), (1,))
        p = np.concatenate((p / np.arange(len(p), 0, -1), last))
    return p


def _same_length(a: Any, b: Any) -> Any:
    """Two coefficient vectors with zeros in front of the shorter one."""
    a, b = np.atleast_1d(a), np.atleast_1d(b)
    n = np.maximum(len(a), len(b))
    return np.concatenate((np.zeros(n - len(a), a.dtype), a)), np.concatenate((np.zeros(n - len(b), b.dtype), b))


@defines(np.polyadd)
def polyadd(a1: Any, a2: Any) -> Any:
    a, b = _same_length(a1, a2)
    return a + b


@defines(np.polysub)
def polysub(a1: Any, a2: Any) -> Any:
    a, b = _same_length(a1, a2)
    return a - b


@defines(np.polymul)
def polymul(a1: Any, a2: Any) -> Any:
    return np.convolve(a1, a2)


@defines(np.polyfit)
def polyfit(x: Any, y: Any, deg: Any, rcond: Any = None, full: Any = False, w: Any = None, cov: Any = False) -> Any:
    if full or cov:
        raise MissingRule("numpy.polyfit with full or cov cannot be staged; leave the option out")
    x, y = np.asarray(x) + 0.0, np.asarray(y) + 0.0
    if rcond is None:
        rcond = len(x) * np.finfo(x.dtype).eps
    left = np.vander(x, deg + 1)
    if w is not None:
        w = np.asarray(w) + 0.0
        left = left * w[:, None]
        y = y * (w[:, None] if y.ndim == 2 else w)
    scale = np.sqrt(np.sum(left * left, axis=0))
    c = np.linalg.lstsq(left / scale, y, rcond)[0]
    return (c.T / scale).T


@defines(np.poly)
def poly(seq_of_zeros: Any) -> Any:
    """The coefficients of the polynomial with these roots."""
    roots = np.atleast_1d(seq_of_zeros)
    if roots.ndim != 1:
        raise MissingRule("numpy.poly of a matrix cannot be staged; give its eigenvalues")
    n = len(roots)
    a = np.zeros(n + 1, roots.dtype)
    a[0] = 1
    for k in range(n):
        a[1 : k + 2] = a[1 : k + 2] - roots[k] * a[: k + 1]
    return a


@defines(np.poly1d.__call__)
def poly1d_call(self: Any, val: Any) -> Any:
    return np.polyval(self.coeffs, val)
