"""Proofs that an index is in range, from the bounds of the loops around it and the shapes of arrays."""

from __future__ import annotations

from gradsmith.ir.ops import consumed_axes
from gradsmith.ir.program import Const, Op, Value
from gradsmith.ir.types import I64
from gradsmith.transforms.simplify.shapes import Key, Shapes

_DEPTH = 8


class Ranges:
    """What is known about the values of integer scalars."""

    def __init__(self, shapes: Shapes):
        self.shapes = shapes
        self._loops: dict[Value, tuple[Value, Value, int]] = {}

    def enter_loop(self, op: Op) -> None:
        """Note the range of the index of a ``for`` with a constant step."""
        start, stop, step = op.args[:3]
        if isinstance(step, Const) and step.data != 0:
            self._loops[op.regions[0].params[0]] = (start, stop, int(step.data))

    def proves(self, op: Op) -> bool:
        """Whether all integer indices of an ``index``, ``set`` or ``add_at`` lie in ``0 <= i < n``."""
        parts = consumed_axes(op.attrs["spec"], op.args[1 if op.name == "index" else 2 :])
        lengths = iter(self.shapes.dims(op.args[0]))
        for entry, args, consumed in parts:
            taken = [next(lengths) for _ in range(consumed)]
            if entry == "i":
                if not (self.at_least(args[0], 0) and self._below(args[0], 0, taken[0], _DEPTH)):
                    return False
            elif isinstance(entry, tuple):
                if entry[3] and not (isinstance(args[-1], Const) and args[-1].data != 0):
                    return False
            elif entry in ("a", "m"):
                return False
        return True

    def at_least(self, value: Value, bound: int) -> bool:
        """Whether ``value >= bound`` certainly."""
        return self._not_negative(value, -bound, _DEPTH)

    def _affine(self, value: Value) -> tuple[Key | None, int]:
        """``(base, offset)`` with value = base + offset; base None for a constant."""
        offset = 0
        for _ in range(_DEPTH):
            value = self.shapes.replaced.get(value, value)
            op = value.op
            if op is None or op.name not in ("add", "sub") or value.type != I64:
                break
            x, y = op.args
            if isinstance(y, Const):
                value, offset = x, offset + (int(y.data) if op.name == "add" else -int(y.data))
            elif isinstance(x, Const) and op.name == "add":
                value, offset = y, offset + int(x.data)
            else:
                break
        key = self.shapes.length(value)
        return (None, offset + key) if isinstance(key, int) else (key, offset)

    def _not_negative(self, value: Value, offset: int, depth: int) -> bool:
        base, more = self._affine(value)
        offset += more
        if base is None or isinstance(base, tuple):
            return offset >= 0
        if base not in self._loops or depth == 0:
            return False
        start, stop, step = self._loops[base]  # type: ignore[index]
        return (
            self._not_negative(start, offset, depth - 1)
            if step > 0
            else self._not_negative(stop, offset + 1, depth - 1)
        )

    def _below(self, value: Value, offset: int, length: Key, depth: int) -> bool:
        """Whether ``value + offset < length`` certainly."""
        base, more = self._affine(value)
        if isinstance(length, tuple) and length[0] == "len" and base != length:
            return self._below(value, offset + length[2], length[1], depth)  # max(n - c, 0) is at least n - c
        offset += more
        if base is None:
            return isinstance(length, int) and offset < length
        if base == length:
            return offset < 0
        if base not in self._loops or depth == 0:
            return False
        start, stop, step = self._loops[base]  # type: ignore[index]
        if step < 0:
            return self._below(start, offset, length, depth - 1)
        end, shift = self._affine(stop)
        if isinstance(end, tuple) and end[0] == "len" and end[1] == length:
            return shift + offset - 1 - end[2] < 0  # the loop runs, so its end is n - c
        return self._below(stop, offset - 1, length, depth - 1)
