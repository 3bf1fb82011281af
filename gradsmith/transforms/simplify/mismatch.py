"""Keeps the error of arrays that do not broadcast together when the operation that would raise it is dead.

Shapes are simplified on the ground that earlier operations have not raised: after ``x + y`` of two arrays whose axes
are not of length one, the axes are equally long. If the operation is not needed, a check takes its place.
"""

from __future__ import annotations

import numpy as np

from gradsmith.ir.ops import infer
from gradsmith.ir.program import Block, Const, Op, Value
from gradsmith.transforms.simplify.rewrite import Rewriter
from gradsmith.transforms.simplify.shapes import Key


def keep_mismatches(block: Block, rewriter: Rewriter) -> None:
    """Put checks in front of ``block`` for its removed operations that shapes rely on."""
    if not rewriter.mismatches:
        return
    alive = set(block.ops)
    checks: list[Op] = []
    for op, pairs in rewriter.mismatches.items():
        if op not in alive:
            message, shown = _message(op, rewriter)
            for pair in pairs:
                equal = _emit(checks, op, "eq", [_length(checks, op, key) for key in pair])
                lengths = [_length(checks, op, key) for key in shown]
                checks.append(Op("check", [equal, *lengths], {"error": ValueError, "message": message}, loc=op.loc))
    block.ops[:0] = checks


def _message(op: Op, rewriter: Rewriter) -> tuple[str, list[Key]]:
    """NumPy's message with the shapes of the operands, and the keys of the lengths that it shows."""
    shapes = [rewriter.shapes.dims(a) for a in op.args if rewriter.shapes.dims(a)]
    params = {key[0] for pair in rewriter.mismatches[op] for key in pair if isinstance(key, tuple)}
    text = []
    shown: list[Key] = []
    for dims in shapes:
        known = [key for key in dims if isinstance(key, int) or (isinstance(key, tuple) and key[0] in params)]
        shown += known
        text.append("({})".format(",".join("{}" if key in known else "?" for key in dims) + "," * (len(dims) == 1)))
    return f"operands could not be broadcast together with shapes {' '.join(text)}", shown


def _length(ops: list[Op], like: Op, key: Key) -> Value:
    if isinstance(key, int):
        return Const(np.int64(key))
    assert isinstance(key, tuple)
    return _emit(ops, like, "dim", [key[0]], axis=key[1])


def _emit(ops: list[Op], like: Op, name: str, args: list[Value], **attrs: object) -> Value:
    ops.append(Op(name, args, attrs, (), infer(name, args, attrs), like.loc))
    return ops[-1].result
