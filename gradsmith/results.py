"""What a call returns: the user's result, made of what a compiled Program returns, and results in given arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradsmith import forms, tree


class Result:
    """The result of a call: ``structure`` with the Program's results as the leaves ``symbolic``, and fixed objects."""

    def __init__(self, leaves: Sequence[Any], structure: tree.Tree, symbolic: Sequence[int]):
        self.structure = structure
        self.symbolic = list(symbolic)
        self.fixed = {k: leaf for k, leaf in enumerate(leaves) if k not in set(symbolic)}
        one = len(symbolic) == 1 and tree.is_leaf(structure)
        flat = len(symbolic) > 1 and structure == tree.flatten(tuple(range(len(symbolic))))[1]
        self.direct = one or flat  # what the entry returns is the user's result
        self._make = maker(structure, self.fixed)

    def build(self, out: Any) -> Any:
        """The user's result from what the entry returned."""
        if self.direct:
            return out
        return self._make(*out) if len(self.symbolic) != 1 else self._make(out)

    def places(self, out: Any) -> Places:
        """The arrays of ``out``, which has the structure of the result, as places for its parts."""
        if isinstance(out, Places):
            if out.result is self:
                return out
            out = out.out
        try:
            found = tree.flatten_up_to(self.structure, out)
        except (ValueError, TypeError) as error:
            raise ValueError(f"out has not the structure of the result: {error}") from None
        return Places(self, [found[k] for k in self.symbolic], out)


#: what may stand in ``out``; numbers give way to new ones
_PLACES = (np.ndarray, np.generic, int, float, complex)


class Places:
    """Arrays that take the parts of a result. A part that is no array has none: it is returned as a new number."""

    def __init__(self, result: Result, given: Sequence[Any], out: Any):
        self.result = result
        self.out = out
        for x in given:
            if x is not None and not isinstance(x, _PLACES):
                raise TypeError(f"out: arrays (or None for a new result), not {type(x).__name__}")
        self.arrays = [x if isinstance(x, np.ndarray) else None for x in given]
        self.numbers = [n for n, x in enumerate(self.arrays) if x is None]
        if not self.numbers and not result.fixed:
            self._make: Callable[..., Any] = lambda: out
            return
        arrays = {k: x for k, x in zip(result.symbolic, self.arrays, strict=True) if x is not None}
        self._make = maker(result.structure, {**result.fixed, **arrays}, shared=True)

    def complete(self, results: Sequence[Any]) -> Any:
        """The user's result, once every part that has a place is there; ``results`` may be there already."""
        for place, new in zip(self.arrays, results, strict=True):
            if place is not None and new is not place:
                _copy(place, new)
        return self._make(*[results[n] for n in self.numbers])


def _copy(place: np.ndarray, new: Any) -> None:
    if place.shape != np.shape(new):
        raise ValueError(f"out: an array of shape {place.shape} for a result of shape {np.shape(new)}")
    if not place.flags.writeable:
        raise ValueError("out: an array that is read-only")
    np.copyto(place, new)


def maker(structure: tree.Tree, fixed: dict[int, Any], shared: bool = False) -> Callable[..., Any]:
    """A function from the leaves that are not fixed, in order, to a value of the structure.

    ``shared``: values may share containers that hold nothing but fixed leaves.
    """
    form = forms.maker(structure, fixed, shared)
    if form is not None:
        return form
    free = [k for k in range(structure.num_leaves) if k not in fixed]

    def make(*given: Any) -> Any:
        leaves = {**fixed, **dict(zip(free, given, strict=True))}
        return tree.unflatten(structure, [leaves[k] for k in range(structure.num_leaves)])

    return make
