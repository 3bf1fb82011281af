"""Functions that ``host`` operations call by their dotted name and that NumPy and SciPy do not have in this form."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

SUCCEEDED = f"{__name__}.succeeded"


def succeeded(result: Any) -> Any:
    """True: what made the result did not raise."""
    return np.True_


def exponent(x: Any) -> Any:
    """The binary exponent of ``numpy.frexp``."""
    return np.frexp(x)[1]


def insert_positions(positions: Any, length: Any) -> Any:
    """Where ``numpy.insert`` puts new elements in its result, for positions in an axis of ``length``."""
    positions = np.where(positions < 0, positions + length, positions)
    if np.any((positions < 0) | (positions > length)):
        raise IndexError(f"index is out of bounds for axis with size {length}")
    order = np.argsort(positions, kind="stable")
    places = positions.copy()
    places[order] += np.arange(len(positions))
    return places


def unique(x: Any, equal_nan: bool) -> tuple[Any, Any, Any]:
    """First occurrences, inverse and counts of ``numpy.unique`` for a 1-d array."""
    found = np.unique(x, return_index=True, return_inverse=True, return_counts=True, equal_nan=equal_nan)
    return found[1], found[2], found[3]


def cofactors(a: Any) -> Any:
    """``det(a) inv(a).T`` for square matrices, singular ones too.

    It is ``det(u vh) conj(u) diag(prod of the other s) conj(vh)``.
    """
    u, s, vh = np.linalg.svd(a)
    n = s.shape[-1]
    others = np.prod(np.where(np.eye(n, dtype=bool), 1, s[..., None, :]), axis=-1)
    phase = np.linalg.det(u) * np.linalg.det(vh)
    return phase[..., None, None] * ((u.conj() * others[..., None, :]) @ vh.conj())


def _order_and_runs(key: Any, axis: int) -> tuple[Any, Any]:
    """The sorting permutation of rows, and for every sorted position the number of the run of equal keys it is in."""
    rows = np.moveaxis(key, axis, -1)
    order = np.argsort(rows, axis=-1, kind="stable")
    ranked = np.take_along_axis(rows, order, -1)
    new = np.ones(ranked.shape, bool)
    new[..., 1:] = ranked[..., 1:] != ranked[..., :-1]
    return order, (np.cumsum(new.ravel()) - 1).reshape(new.shape)


def _average(x: Any, runs: Any) -> Any:
    """``x`` with every element replaced by the mean of its run."""
    totals = np.zeros(runs.size, x.dtype)
    np.add.at(totals, runs, x)
    return (totals / np.maximum(np.bincount(runs.ravel(), minlength=runs.size), 1))[runs].astype(x.dtype)


def sorted_like(key: Any, x: Any, axis: int) -> Any:
    """``x`` in the order that sorts ``key`` along ``axis``; equal keys get the mean of theirs."""
    order, runs = _order_and_runs(key, axis)
    return np.moveaxis(_average(np.take_along_axis(np.moveaxis(x, axis, -1), order, -1), runs), -1, axis)


def unsorted_like(key: Any, x: Any, axis: int) -> Any:
    """The transpose of :func:`sorted_like`: ``x`` moved back to the places of ``key``.

    Equal keys get the mean of theirs.
    """
    order, runs = _order_and_runs(key, axis)
    out = np.empty(order.shape, x.dtype)
    np.put_along_axis(out, order, _average(np.moveaxis(x, axis, -1), runs), -1)
    return np.moveaxis(out, -1, axis)


def least_squares(a: Any, b: Any, cutoff: Any) -> Any:
    """The solution of ``numpy.linalg.lstsq``."""
    return np.linalg.lstsq(a, b, rcond=cutoff)[0]


def fsum(x: Any) -> float:
    """``math.fsum`` of the elements of an array."""
    return math.fsum(x)
