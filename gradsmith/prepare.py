"""Prepared calls: everything that a call needs besides floats is allocated beforehand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradsmith import tracebacks
from gradsmith.api import Compiled, jit


class Prepared:
    """A compiled function with the arrays that its results are written to, made by :func:`prepare`.

    Calls take arguments of the same structure, types and shapes as those it was prepared with; results of other shapes
    than the prepared arrays are an error. **The arrays in a result
    belong to the prepared call: the next call writes into them.** Copy what has to last. One object serves one thread
    at a time; prepare one for each thread.
    """

    def __init__(self, compiled: Compiled, args: tuple[Any, ...], kwargs: dict[str, Any]):
        self._compiled = compiled
        self._places = compiled._cache.prepared(args, kwargs)

    @property
    def result(self) -> tuple[Any, ...]:
        """The arrays that results are written to, in the order in which they occur in the result."""
        return tuple(x for x in self._places.arrays if x is not None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._compiled._call(args, kwargs, self._places)
        except Exception as error:
            tracebacks.shorten(error)
            raise

    def __repr__(self) -> str:
        return f"<gradsmith prepared {self._compiled.__name__}>"


tracebacks.keep(Prepared.__call__)


@tracebacks.shortened
def prepare(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Prepared:
    """Compile a call and allocate its results, for calling it often.

    Args:
        f: a function made by :func:`grad`, :func:`value_and_grad` …, or a plain function, compiled as by :func:`jit`.
        *args: arguments of a call. They are left as they are.

    Returns:
        A :class:`Prepared` call: it takes arguments like ``args``; the arrays in its result are the same in every call.

    >>> import numpy as np
    >>> import gradsmith as gs
    >>> gradient = gs.prepare(gs.grad(lambda x: np.sum(x**2)), np.zeros(2))
    >>> first = gradient(np.array([1.0, 2.0]))
    >>> first
    array([2., 4.])
    >>> gradient(np.array([3.0, 4.0])) is first
    True
    """
    return Prepared(f if isinstance(f, Compiled) else jit(f), args, kwargs)
