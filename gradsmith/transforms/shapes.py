"""Symbolic lengths of axes: what a ``dim`` is in terms of values known earlier.

An expression is a nested tuple: ``("const", n)``, ``("value", v)`` (an integer scalar), ``("dim", x, axis)`` (nothing
more is known), ``("broadcast", a, b)``, ``("clamp", i, n)`` (a slice bound brought into ``0 … n``) or an elementwise
integer operation on expressions. Equal expressions are equal lengths.

The shape of a sequence is that of its elements: ``("any",)`` while it has none, ``("dim", s, axis)`` if they differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from gradsmith.ir.builder import elementwise, emit, i64, where
from gradsmith.ir.ops import ELEMENTWISE, consumed_axes, index_ndim
from gradsmith.ir.program import Const, Op, Value
from gradsmith.ir.types import ArrayType, SeqType
from gradsmith.transforms.activity import defined_inside, loop_slots

Expr: TypeAlias = tuple[Any, ...]
_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "maximum": max,
    "minimum": min,
}


ANY: Expr = ("any",)


def const(n: int) -> Expr:
    return ("const", int(n))


def arithmetic(name: str, a: Expr, b: Expr) -> Expr:
    """An integer operation on two expressions, done now if both are constants."""
    if a[0] == b[0] == "const" and not (name == "floordiv" and b[1] == 0):
        return const(_ARITHMETIC[name](a[1], b[1]))
    return (name, a, b)


def shortened(n: Expr, k: int) -> Expr:
    """``max(n - k, 0)`` for ``k ≥ 0``; cuts of a cut length add up."""
    if k == 0:
        return n
    if n[0] == "maximum" and n[2] == const(0) and n[1][0] == "add" and n[1][2][0] == "const":
        return shortened(n[1][1], k - n[1][2][1])
    return arithmetic("maximum", arithmetic("add", n, const(-k)), const(0))


def clamp(bound: Expr, n: Expr) -> Expr:
    if bound[0] == "const":
        return shortened(n, -bound[1]) if bound[1] < 0 else arithmetic("minimum", bound, n)
    return ("clamp", bound, n)


def atoms(expr: Expr) -> Iterator[Value]:
    """The Values an expression is made of."""
    for part in expr[1:]:
        if isinstance(part, Value):
            yield part
        elif isinstance(part, tuple):
            yield from atoms(part)


def evaluate(expr: Expr) -> Value:
    """Emit the operations that compute ``expr``."""
    head, *rest = expr
    if head == "const":
        return i64(rest[0])
    if head == "value":
        return rest[0]
    if head == "dim":
        return emit("dim", rest[0], axis=rest[1])
    a, b = map(evaluate, rest)
    if head == "broadcast":
        return where(elementwise("eq", a, 1), b, a)
    if head == "clamp":
        return where(a < 0, elementwise("maximum", a + b, 0), elementwise("minimum", a, b))
    return elementwise(head, a, b)


class Shapes:
    """Lengths of the axes of the values defined by ``ops`` and by the regions below.

    ``unit_axes`` says for some array values which of their axes have length one; all others have another length.
    """

    def __init__(self, ops: Sequence[Op], unit_axes: Mapping[Value, Sequence[bool]] | None = None):
        self._known: dict[Any, Expr] = {}
        self._loop_of: dict[Value, Op] = {}
        self._not_one: set[Expr] = set()
        self._equal: dict[Expr, Expr] = {}  # lengths that have been broadcast together, neither being one
        self._register(ops)
        for x, units in (unit_axes or {}).items():
            for axis, unit in enumerate(units):
                self._known[x, axis] = const(1) if unit else ("dim", x, axis)
            self._not_one.update(("dim", x, axis) for axis, unit in enumerate(units) if not unit)
        for op in ops:
            self._scan(op)
            if op.name in ELEMENTWISE:  # it runs in every execution, so what it requires of shapes holds
                self._learn(op)

    def _register(self, ops: Iterable[Op]) -> None:
        for op in ops:
            if op.name in ("for", "while"):
                self._loop_of.update(dict.fromkeys(loop_slots(op)[1], op))
            for region in op.regions:
                self._register(region.ops)

    def _scan(self, op: Op) -> None:
        """Note the shapes of the results, inner operations before outer ones, so that no recursion goes deep."""
        if op.name in ("for", "while"):
            if ("loop", op) not in self._known:
                self._assume_invariant(op)
        else:
            for region in op.regions if op.name != "call" else ():
                for inner in region.ops:
                    self._scan(inner)
        for result in op.results:
            self.shape(result)

    def _learn(self, op: Op) -> None:
        """Lengths other than one that are broadcast together are equal."""
        for axis in range(-op.result.ndim, 0):
            lengths = dict.fromkeys(self.dim(a, a.ndim + axis) for a in op.args if a.ndim + axis >= 0)
            known = sorted((n for n in lengths if self._is_not_one(n) and n != const(1)), key=lambda n: n[0] != "const")
            self._equal.update((n, known[0]) for n in known[1:] if n[0] != "const")

    def dim(self, x: Value, axis: int) -> Expr:
        """The length of ``axis`` of ``x``."""
        key = (x, axis)
        if key not in self._known:
            loop = self._loop_of.get(x) or (x.op if x.op is not None and x.op.name in ("for", "while") else None)
            if loop is not None and ("loop", loop) not in self._known:
                self._assume_invariant(loop)
            if key not in self._known:
                self._known[key] = self._dim(x, axis) or ("dim", x, axis)
        return self._find(self._known[key])

    def _find(self, expr: Expr) -> Expr:
        while expr in self._equal:
            expr = self._equal[expr]
        return expr

    def _broadcast(self, a: Expr, b: Expr) -> Expr:
        if a == b or b == const(1):
            return a
        if a == const(1):
            return b
        return a if self._is_not_one(a) else b if self._is_not_one(b) else ("broadcast", a, b)

    def _is_not_one(self, expr: Expr) -> bool:
        return expr[0] == "const" or expr in self._not_one

    def shape(self, x: Value) -> list[Expr]:
        return [self.dim(x, k) for k in range(_axes(x))]

    def elements(self, s: Value) -> list[Expr] | None:
        """The shape that all elements of the sequence ``s`` have, if that is known."""
        dims = self.shape(s)
        if not isinstance(s.type, SeqType) or not isinstance(s.type.elem, ArrayType):
            return None
        return None if any(map(_unknown, dims)) else [const(0) if d == ANY else d for d in dims]

    def same(self, x: Value, y: Value) -> bool:
        """Whether ``x`` and ``y`` are known to have equal shapes."""
        return x.ndim == y.ndim and self.shape(x) == self.shape(y)

    def fills(self, update: Op) -> bool:
        """Whether the value written by a ``set`` or ``add_at`` is known to have the shape of what it overwrites."""
        x, value, *args = update.args
        read = Op("index", [x, *args], update.attrs)
        region = [self._index(read, k) for k in range(index_ndim(x.ndim, update.attrs["spec"], args))]
        return None not in region and region == self.shape(value)

    def integer(self, v: Value, depth: int = 20) -> Expr:
        """An integer scalar as an expression."""
        if isinstance(v, Const):
            return const(int(v.data))
        op = v.op
        if op is not None and op.name == "dim":
            return self.dim(op.args[0], op.attrs["axis"])
        if op is not None and op.name in _ARITHMETIC:
            return arithmetic(op.name, *(self.integer(a, depth - 1) if depth else ("value", a) for a in op.args))
        return ("value", v)

    def _assume_invariant(self, loop: Op) -> None:
        """Assume that what ``loop`` carries keeps its shape; withdraw the assumption where the body breaks it."""
        inits, params = loop_slots(loop)
        ends = loop.regions[-1].results
        slots = [
            (init, param, end, result, axis)
            for init, param, end, result in zip(inits, params, ends, loop.results, strict=True)
            for axis in range(_axes(param))
        ]
        self._known["loop", loop] = const(0)
        assumed = {(p, a): self.dim(init, a) for init, p, _, _, a in slots}
        before = dict(self._known)
        while True:
            self._known = {**before, **assumed}
            for op in loop.regions[-1].ops:
                self._scan(op)
            broken = {
                (p, a): self._outside(loop, self.dim(end, a)) if assumed[p, a] == ANY else None
                for _, p, end, _, a in slots
                if assumed[p, a] != ("dim", p, a) and self.dim(end, a) != assumed[p, a]
            }
            if not broken:
                break
            assumed.update({(p, a): dim or ("dim", p, a) for (p, a), dim in broken.items()})
        for _, p, _, result, axis in slots:
            self._known[result, axis] = (
                ("dim", result, axis) if assumed[p, axis] == ("dim", p, axis) else assumed[p, axis]
            )

    def _outside(self, op: Op, dim: Expr) -> Expr | None:
        """``dim`` unless it is known inside the regions of ``op`` only."""
        return dim if not any(defined_inside(region).intersection(atoms(dim)) for region in op.regions) else None

    def _dim(self, x: Value, axis: int) -> Expr | None:
        if isinstance(x, Const):
            return const(np.shape(x.data)[axis])
        op = x.op
        if op is None:
            return None
        if op.name in ELEMENTWISE:
            return self._elementwise(op, axis)
        if op.name == "call":
            return self._call(op, x, axis)
        if op.name == "if":
            k = op.results.index(x)
            dim = _join(*(self.dim(region.results[k], axis) for region in op.regions))
            return dim and self._outside(op, dim)
        if op.name == "seq_pop":
            return self.dim(op.args[0], axis) if x is op.results[0] else self._element(op, axis)
        rule = _RULES.get(op.name)
        return rule(self, op, axis) if rule else None

    def _call(self, op: Op, x: Value, axis: int) -> Expr | None:
        """A length in the called region, if it is made of lengths of the operands."""
        body = op.regions[0]
        for param, arg in zip(body.params, op.args, strict=True):
            for k in range(param.ndim if isinstance(param.type, ArrayType) else 0):
                self._known.setdefault((param, k), self.dim(arg, k))
        expr = self.dim(body.results[op.results.index(x)], axis)
        return None if defined_inside(body).intersection(atoms(expr)) else expr

    def _elementwise(self, op: Op, axis: int) -> Expr:
        ndim = op.result.ndim
        length = const(1)
        for arg in op.args:
            if arg.ndim > ndim - 1 - axis:
                length = self._broadcast(length, self.dim(arg, axis - ndim + arg.ndim))
        return length

    def _first_operand(self, op: Op, axis: int) -> Expr:
        return self.dim(op.args[0], axis)

    def _given(self, op: Op, axis: int) -> Expr:
        return self.integer(op.args[1 + axis])

    def _push(self, op: Op, axis: int) -> Expr | None:
        s, value = op.args
        return _join(self.dim(s, axis), self.dim(value, axis))

    def _element(self, op: Op, axis: int) -> Expr | None:
        dim = self.dim(op.args[0], axis)
        return None if dim == ANY or _unknown(dim) else dim

    def _stack(self, op: Op, axis: int) -> Expr | None:
        return self._element(op, axis - 1) if axis else None

    def _transpose(self, op: Op, axis: int) -> Expr:
        return self.dim(op.args[0], op.attrs["perm"][axis])

    def _reduction(self, op: Op, axis: int) -> Expr:
        axes = op.attrs["axes"]
        if op.attrs.get("keepdims"):
            return const(1) if axis in axes else self.dim(op.args[0], axis)
        return self.dim(op.args[0], [k for k in range(op.args[0].ndim) if k not in axes][axis])

    def _arg_reduction(self, op: Op, axis: int) -> Expr:
        return self.dim(op.args[0], axis + (axis >= op.attrs["axis"]))

    def _concatenate(self, op: Op, axis: int) -> Expr:
        if axis != op.attrs["axis"]:
            return self.dim(op.args[0], axis)
        length = const(0)
        for arg in op.args:
            length = arithmetic("add", length, self.dim(arg, axis))
        return length

    def _matmul(self, op: Op, axis: int) -> Expr | None:
        x, y = op.args
        if x.ndim == 2 and y.ndim <= 2:
            return self.dim(x, 0) if axis == 0 else self.dim(y, 1)
        return self.dim(y, 1) if x.ndim == 1 and y.ndim == 2 else None

    def _index(self, op: Op, axis: int) -> Expr | None:
        """The length of an axis of ``x[...]`` without array entries."""
        source = position = 0
        for entry, args, consumed in consumed_axes(op.attrs["spec"], op.args[1:]):
            if entry in ("a", "m"):
                return None
            if entry != "i":
                if position == axis:
                    return const(1) if entry == "n" else self._sliced(op.args[0], source, entry, args)
                position += 1
            source += consumed
        return None

    def _sliced(self, x: Value, axis: int, entry: Any, args: list[Value]) -> Expr | None:
        n = self.dim(x, axis)
        if entry == ":":
            return n
        given = iter(args)
        start, stop, step = (self.integer(next(given)) if present else None for present in entry[1:])
        if step is not None and step[0] != "const":
            return None
        stride = 1 if step is None else step[1]
        if stride == -1 and start is None and stop is None:
            return n
        if stride < 1:
            return None
        length = _between(start or const(0), stop, n)
        if stride == 1:
            return length
        return arithmetic("floordiv", arithmetic("add", length, const(stride - 1)), const(stride))


def _between(start: Expr, stop: Expr | None, n: Expr) -> Expr:
    """The length of ``x[start:stop]`` for an ``x`` of length ``n``."""
    if start[0] == "const" and start[1] >= 0:
        if stop is None or (stop[0] == "const" and stop[1] < 0):
            return shortened(n, start[1] - (stop[1] if stop else 0))
        return shortened(clamp(stop, n), start[1])
    high = n if stop is None else clamp(stop, n)
    return arithmetic("maximum", arithmetic("sub", high, clamp(start, n)), const(0))


def _axes(x: Value) -> int:
    """The number of axes of an array or of the elements of a sequence."""
    type = x.type.elem if isinstance(x.type, SeqType) else x.type
    return type.ndim if isinstance(type, ArrayType) else 0


def _unknown(dim: Expr) -> bool:
    return dim[0] == "dim" and isinstance(dim[1].type, SeqType)


def _join(a: Expr, b: Expr) -> Expr | None:
    """A length that is one or the other."""
    return b if a == ANY else a if b in (a, ANY) else None


_RULES: dict[str, Any] = {
    "seq_new": lambda self, op, axis: ANY,
    "seq_push": Shapes._push,
    **dict.fromkeys(["seq_add", "seq_zeros"], Shapes._first_operand),
    "seq_get": Shapes._element,
    "seq_stack": Shapes._stack,
    "seq_unstack": lambda self, op, axis: self.dim(op.args[0], axis + 1),
    **dict.fromkeys(["set", "add_at", "cumsum", "cumprod"], Shapes._first_operand),
    **dict.fromkeys(["full", "reshape", "broadcast_to", "unbroadcast"], Shapes._given),
    "iota": lambda self, op, axis: self.integer(op.args[0]),
    "transpose": Shapes._transpose,
    **dict.fromkeys(["sum", "prod", "max", "min", "any", "all"], Shapes._reduction),
    **dict.fromkeys(["argmax", "argmin"], Shapes._arg_reduction),
    "concatenate": Shapes._concatenate,
    "matmul": Shapes._matmul,
    "index": Shapes._index,
}
