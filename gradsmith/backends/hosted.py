"""Functions that ``host`` operations call by their dotted name and that NumPy and SciPy do not have in this form."""

from __future__ import annotations

from typing import Any

import numpy as np


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
    _, *found = np.unique(x, return_index=True, return_inverse=True, return_counts=True, equal_nan=equal_nan)
    return tuple(found)
