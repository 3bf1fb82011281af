"""Random generators in staged code: a :class:`Handle` whose number stands for the generator of the running call."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from gradsmith.frontend.values import Scalar, Symbolic

#: classes whose instances are not part of a signature: every call passes its own
CLASSES = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random)


class Handle(Symbolic):
    """An object of class ``kind`` that only the running call knows."""

    __slots__ = ("number", "kind")

    def __init__(self, number: Scalar, kind: type):
        self.number = number
        self.kind = kind

    def __repr__(self) -> str:
        return f"<{self.kind.__name__}, known at run time>"


def is_generator(x: Any) -> bool:
    """Whether ``x`` is a random generator (or what drives one)."""
    return isinstance(x, CLASSES)


def rewinding(generators: Iterable[Any]) -> Callable[[], None]:
    """A function that sets the generators back to the state they have now."""
    undo = [_undoing(g) for g in generators]

    def rewind() -> None:
        for back in undo:
            back()

    return rewind


def _undoing(g: Any) -> Callable[[], None]:
    if isinstance(g, random.Random):
        return partial(g.setstate, g.getstate())
    if isinstance(g, np.random.RandomState):
        return partial(g.set_state, g.get_state())
    bits = g.bit_generator if isinstance(g, np.random.Generator) else g
    return partial(setattr, bits, "state", bits.state)
