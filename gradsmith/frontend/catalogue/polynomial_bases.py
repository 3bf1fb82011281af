"""Definitions in plain NumPy of numpy.polynomial: coefficients from the lowest order up, by Clenshaw's recurrence."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.polynomial import _polybase, chebyshev, hermite, hermite_e, laguerre, legendre, polynomial, polyutils

from gradsmith.frontend.catalogue import defines


def _series(x: Any, c: Any, tensor: Any) -> Any:
    """Argument and coefficients as every ``val`` function of numpy.polynomial takes them."""
    c, x = np.array(c, ndmin=1), np.asarray(x)
    if c.dtype.kind in "biu":
        c = c.astype(float)
    if tensor and x.ndim and c.ndim > 1:
        c = np.reshape(c, c.shape + (1,) * x.ndim)
    return x, c


def _start(x: Any, c: Any) -> Any:
    """Zero in the shape and type of the result."""
    return (np.zeros(x.shape, np.result_type(x, c)) * c[0] * 0)[()]


@defines(polynomial.polyval)
def polynomial_polyval(x: Any, c: Any, tensor: Any = True) -> Any:
    x, c = _series(x, c, tensor)
    y = _start(x, c)
    for k in range(len(c)):
        y = y * x + c[len(c) - 1 - k]
    return y


@defines(chebyshev.chebval)
def chebval(x: Any, c: Any, tensor: Any = True) -> Any:
    x, c = _series(x, c, tensor)
    b1, b2 = _start(x, c), _start(x, c)
    for k in range(len(c) - 1):
        b1, b2 = c[len(c) - 1 - k] + 2 * x * b1 - b2, b1
    return c[0] + x * b1 - b2


@defines(legendre.legval)
def legval(x: Any, c: Any, tensor: Any = True) -> Any:
    x, c = _series(x, c, tensor)
    b1, b2 = _start(x, c), _start(x, c)
    for k in range(len(c) - 1):
        n = len(c) - 1 - k
        b1, b2 = c[n] + (2 * n + 1) / (n + 1) * x * b1 - (n + 1) / (n + 2) * b2, b1
    return c[0] + x * b1 - 0.5 * b2


@defines(hermite.hermval)
def hermval(x: Any, c: Any, tensor: Any = True) -> Any:
    x, c = _series(x, c, tensor)
    b1, b2 = _start(x, c), _start(x, c)
    for k in range(len(c) - 1):
        n = len(c) - 1 - k
        b1, b2 = c[n] + 2 * x * b1 - 2 * (n + 1) * b2, b1
    return c[0] + 2 * x * b1 - 2 * b2


@defines(hermite_e.hermeval)
def hermeval(x: Any, c: Any, tensor: Any = True) -> Any:
    x, c = _series(x, c, tensor)
    b1, b2 = _start(x, c), _start(x, c)
    for k in range(len(c) - 1):
        n = len(c) - 1 - k
        b1, b2 = c[n] + x * b1 - (n + 1) * b2, b1
    return c[0] + x * b1 - b2


@defines(laguerre.lagval)
def lagval(x: Any, c: Any, tensor: Any = True) -> Any:
    x, c = _series(x, c, tensor)
    b1, b2 = _start(x, c), _start(x, c)
    for k in range(len(c) - 1):
        n = len(c) - 1 - k
        b1, b2 = c[n] + (2 * n + 1 - x) / (n + 1) * b1 - (n + 1) / (n + 2) * b2, b1
    return c[0] + (1 - x) * b1 - 0.5 * b2


@defines(polyutils.mapdomain)
def mapdomain(x: Any, old: Any, new: Any) -> Any:
    width = old[1] - old[0]
    return np.asarray((old[1] * new[0] - old[0] * new[1]) / width + (new[1] - new[0]) / width * np.asarray(x))[()]


@defines(_polybase.ABCPolyBase.__call__)
def polynomial_call(self: Any, arg: Any) -> Any:
    return self._val(polyutils.mapdomain(arg, self.domain, self.window), self.coef)
