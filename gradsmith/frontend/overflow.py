"""Python's integers do not overflow, those of a Program have 64 bits: what may not fit is checked at run time."""

from __future__ import annotations

import numpy as np

from gradsmith.frontend import stage as st
from gradsmith.ir import builder as ir
from gradsmith.ir.program import Const, Value

_WIDTH = 63  # bits of an int64 without its sign
_COUNT = 32  # of loop indices and lengths
_GIVEN = 62  # of integers passed in
_DEPTH = 6
_LIMIT = 9.2e18
_MESSAGE = "an integer needs more than 64 bits; compute with floats (write 1.0 instead of 1)"


def check(symbol: str, a: Value, b: Value, result: Value) -> None:
    """Raise OverflowError at run time if ``a symbol b``, which is ``result`` modulo 2**64, does not fit."""
    if isinstance(result, Const) or symbol not in _FITS or _bits_of(symbol, a, b, 0) <= _WIDTH:
        return
    st.current().check(_FITS[symbol](a, b, result), OverflowError, _MESSAGE)


def _signs(x: Value, y: Value) -> Value:
    return ir.elementwise("ge", ir.emit("and", x, y), 0)


def _xor(x: Value, y: Value) -> Value:
    return ir.emit("xor", x, y)


def _small(x: Value) -> Value:
    return ir.elementwise("lt", ir.abs_(x), _LIMIT)


def _float(x: Value) -> Value:
    return ir.cast(x, np.float64)


_FITS = {
    "+": lambda a, b, r: _signs(_xor(a, r), _xor(b, r)),
    "-": lambda a, b, r: _signs(_xor(a, b), _xor(a, r)),
    "*": lambda a, b, r: _small(ir.elementwise("mul", _float(a), _float(b))),
    "**": lambda a, b, r: _small(ir.elementwise("pow", _float(a), _float(b))),
    "<<": lambda a, b, r: _small(ir.elementwise("mul", _float(a), ir.elementwise("exp2", _float(b)))),
}
_SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "pow": "**", "shl": "<<"}


def _bits_of(symbol: str, a: Value, b: Value, depth: int) -> int:
    """How many bits the result may need."""
    m, n = _bits(a, depth), _bits(b, depth)
    if symbol in "+-":
        # something that grows by a constant would take too many steps to overflow
        return max(m, n) if isinstance(a, Const) or isinstance(b, Const) else max(m, n) + 1
    if symbol == "*":
        return m + n
    if isinstance(b, Const) and b.data >= 0:
        return m * int(b.data) if symbol == "**" else m + int(b.data)
    return 64


def _bits(value: Value, depth: int) -> int:
    if isinstance(value, Const):
        return int(value.data).bit_length()
    op, stage = value.op, st.current()
    if op is None:
        return _COUNT if value in stage.indices else _GIVEN if value in stage.known else _WIDTH
    if op.name in ("dim", "seq_len"):
        return _COUNT
    if op.name == "cast" and op.args[0].dtype.kind in "biu":
        source = op.args[0].dtype
        return 1 if source.kind == "b" else min(_bits(op.args[0], depth + 1), 8 * source.itemsize)
    if depth > _DEPTH:
        return _WIDTH
    if op.name in _SYMBOLS:
        return min(_WIDTH, _bits_of(_SYMBOLS[op.name], op.args[0], op.args[1], depth + 1))
    if op.name in ("neg", "abs", "floordiv", "maximum", "minimum"):
        return max(_bits(a, depth + 1) for a in op.args)
    if op.name == "mod":
        return _bits(op.args[1], depth + 1)
    return _WIDTH
