"""NumPy functions that are compositions of others, in plain NumPy: staged like code of the user's own."""

from __future__ import annotations

from typing import Any


def reduce_loop(function: Any) -> Any:
    """``function.reduce`` as a loop along the axis."""
    import numpy as np

    def reduce(array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: Any = False) -> Any:
        rows = np.moveaxis(np.asarray(array, dtype), axis, 0)
        total = rows[0]
        for k in range(1, len(rows)):
            total = function(total, rows[k])
        return np.expand_dims(total, axis) if keepdims else total

    return reduce


def accumulate_loop(function: Any) -> Any:
    """``function.accumulate`` as a loop along the axis."""
    import numpy as np

    def accumulate(array: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Any:
        rows = np.array(np.moveaxis(np.asarray(array, dtype), axis, 0))
        for k in range(1, len(rows)):
            rows[k] = function(rows[k - 1], rows[k])
        return np.moveaxis(rows, 0, axis)

    return accumulate
