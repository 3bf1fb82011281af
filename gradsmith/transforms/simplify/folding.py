"""Constant folding: an operation on constants becomes the constant that the interpreter would compute."""

from __future__ import annotations

import numpy as np

from gradsmith.backends import host
from gradsmith.ir.ops import ELEMENTWISE, REDUCTIONS
from gradsmith.ir.program import Const, Op
from gradsmith.ir.types import ArrayType

#: larger constants stay operations, which are shorter to write down and cheap to run
_LARGEST = 64
_FOLDED = {*ELEMENTWISE, *REDUCTIONS, *"dim reshape transpose unbroadcast index argmax argmin matmul".split()}


def fold(op: Op) -> Const | None:
    """The value of ``op`` if all its operands are constants and it is worth folding."""
    if op.name not in _FOLDED or not all(isinstance(a, Const) for a in op.args):
        return None
    data = [a.data for a in op.args if isinstance(a, Const)]
    if op.name != "dim" and any(np.size(d) > _LARGEST for d in data):
        return None
    try:
        with np.errstate(all="ignore"):
            (value,) = host.evaluate(op, data)
    except (ArithmeticError, ValueError, IndexError):
        return None  # it raises when the program runs, with the user's line
    type = op.results[0].type
    assert isinstance(type, ArrayType)
    return Const(value, type) if np.size(value) <= _LARGEST else None
