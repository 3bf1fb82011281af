"""Shapes as symbols: which lengths are equal, known constants, or computed from what.

A length (``Dim``) is an int or a :class:`Sym` with a key that says how to compute it. Equal keys are equal lengths.
Operations that need equal lengths (broadcasting) make them equal in the rest of their block (the lowering emits the
check that justifies this), so that elementwise operations over one shape can share a loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from gradsmith.ir.ops import ELEMENTWISE, REDUCTIONS, consumed_axes
from gradsmith.ir.program import Block, Const, Op, Program, Value
from gradsmith.ir.types import ArrayType, SeqType


class Sym:
    """A length known at run time."""

    __slots__ = ("key",)

    def __init__(self, key: tuple[Any, ...]):
        self.key = key

    def __repr__(self) -> str:
        return f"<{self.key}>"


Dim = int | Sym
Dims = tuple[Dim, ...]


class Shapes:
    """The shapes of all arrays of a Program.

    ``dims[v]``: the lengths of array ``v``, computable where v is defined. ``space[op]``: the canonical shape over
    which a (reducing or elementwise) operation iterates. ``summed[op]``: the axes that an ``unbroadcast`` sums over.
    ``varying[op]``: pairs (carried value, axis) of a loop whose length changes from iteration to iteration.
    """

    def __init__(self, program: Program):
        self.dims: dict[Value, Dims] = {}
        self.space: dict[Op, Dims] = {}
        self.summed: dict[Op, tuple[int, ...]] = {}
        self.varying: dict[Op, set[tuple[int, int]]] = {}
        self._syms: dict[tuple[Any, ...], Sym] = {}
        self._parent: dict[Sym, Dim] = {}
        self._trail: list[Sym] = []
        for k, (param, spec) in enumerate(zip(program.block.params, program.inputs, strict=True)):
            if isinstance(param.type, ArrayType) and param.ndim:
                unit = spec.unit_axes or (False,) * param.ndim
                self.dims[param] = tuple(1 if unit[a] else self.sym("in", k, a) for a in range(param.ndim))
        self._block(program.block)

    def sym(self, *key: Any) -> Sym:
        if key not in self._syms:
            self._syms[key] = Sym(key)
        return self._syms[key]

    def find(self, dim: Dim) -> Dim:
        while isinstance(dim, Sym) and dim in self._parent:
            dim = self._parent[dim]
        return dim

    def of(self, value: Value) -> Dims:
        """The lengths of a value; () for a scalar."""
        if isinstance(value, Const):
            return tuple(np.shape(value.data))
        return self.dims.get(value, ())

    def unify(self, a: Dim, b: Dim) -> None:
        a, b = self.find(a), self.find(b)
        if a is b or a == b:
            return
        if isinstance(a, int):
            a, b = b, a
        if isinstance(a, Sym):
            self._parent[a] = b
            self._trail.append(a)

    def length(self, value: Value) -> Dim:
        """An int64 scalar as a length."""
        if isinstance(value, Const):
            return int(value.data)
        if value.op is not None and value.op.name == "dim":
            return self.of(value.op.args[0])[value.op.attrs["axis"]]
        return self.sym("value", value)

    def minus(self, n: Dim, k: int) -> Dim:
        """max(n - k, 0)"""
        if k == 0:
            return n
        if isinstance(n, int):
            return max(n - k, 0)
        if n.key[0] == "sub":
            return self.sym("sub", n.key[1], n.key[2] + k)
        return self.sym("sub", n, k)

    def sliced(self, n: Dim, entry: tuple[Any, ...], args: Sequence[Value]) -> Dim:
        """The length of a Python slice of an axis of length ``n``."""
        given = iter(args)
        bounds = [next(given) if present else None for present in entry[1:]]
        numbers = [int(b.data) if isinstance(b, Const) else b for b in bounds]
        start, stop, step = numbers
        if isinstance(n, int) and not any(isinstance(b, Value) for b in numbers):
            return len(range(*slice(start, stop, step).indices(n))) if step != 0 else 0
        n = self.find(n) if isinstance(self.find(n), Sym) else n
        if step in (None, 1) and not isinstance(start, Value) and not isinstance(stop, Value):
            low, high = start or 0, stop
            if low >= 0 and (high is None or high < 0):
                return self.minus(n, low - (high or 0))
            if high is None or (low == 0 and high >= 0):
                return self.sym("min", n, -low if high is None else high)
        if step == -1 and start is None and stop is None:
            return n
        return self.sym("slice", n, entry, tuple(numbers))

    def _block(self, block: Block) -> None:
        for op in block.ops:
            self._op(op)
        for op in block.ops:
            if op in self.space:
                self.space[op] = tuple(map(self.find, self.space[op]))

    @contextmanager
    def _scope(self) -> Iterator[None]:
        """The equalities found inside end with it."""
        mark = len(self._trail)
        yield
        while len(self._trail) > mark:
            del self._parent[self._trail.pop()]

    def _op(self, op: Op) -> None:
        name = op.name
        if name in ELEMENTWISE:
            self._elementwise(op)
        elif name == "if":
            self._if(op)
        elif name in ("for", "while"):
            self._loop(op)
        elif name in REDUCTIONS:
            self._reduction(op, op.attrs["axes"], op.attrs.get("keepdims", False))
        elif name in _DIMS:
            dims = _DIMS[name](self, op)
            if op.result.type.ndim:  # type: ignore[union-attr]
                self.dims[op.result] = dims
        else:
            self._opaque(op)

    def _opaque(self, op: Op) -> None:
        for k, result in enumerate(op.results):
            if isinstance(result.type, ArrayType) and result.ndim:
                self.dims[result] = tuple(self.sym("op", op, k, axis) for axis in range(result.ndim))

    def broadcast(self, shapes: Iterable[Dims]) -> Dims:
        """The broadcast shape; lengths that are not known to be 1 become equal."""
        shapes = [s for s in shapes if s]
        ndim = max((len(s) for s in shapes), default=0)
        out: list[Dim] = []
        for k in range(-ndim, 0):
            candidates = [s[k] for s in shapes if len(s) >= -k and self.find(s[k]) != 1]
            for other in candidates[1:]:
                self.unify(candidates[0], other)
            known = [c for c in candidates if isinstance(c, int)]
            out.append(known[0] if known else candidates[0] if candidates else 1)
        return tuple(out)

    def _elementwise(self, op: Op) -> None:
        if op.result.ndim:
            dims = self.broadcast(self.of(a) for a in op.args)
            self.dims[op.result] = self.space[op] = dims

    def _reduction(self, op: Op, axes: Sequence[int], keepdims: bool) -> None:
        dims = self.of(op.args[0])
        self.space[op] = dims
        if op.result.ndim:
            kept = [1 if k in axes else n for k, n in enumerate(dims) if keepdims or k not in axes]
            self.dims[op.result] = tuple(kept)

    def _if(self, op: Op) -> None:
        for region in op.regions:
            with self._scope():
                self._block(region)
        for k, result in enumerate(op.results):
            if isinstance(result.type, ArrayType) and result.ndim:
                pairs = zip(*(self.of(region.results[k]) for region in op.regions), strict=True)
                self.dims[result] = tuple(
                    a if self.find(a) == self.find(b) and self._outside(a, op) else self.sym("if", op, k, axis)
                    for axis, (a, b) in enumerate(pairs)
                )

    def _outside(self, dim: Dim, op: Op) -> bool:
        """Whether ``dim`` is computed from nothing inside the regions of ``op``."""
        if isinstance(dim, int):
            return True
        inner = _inner(op)

        def outside(part: Any) -> bool:
            if isinstance(part, Sym):
                return all(map(outside, part.key))
            if isinstance(part, tuple):
                return all(map(outside, part))
            return not (isinstance(part, Value | Op) and part in inner)

        return outside(dim)

    def _loop(self, op: Op) -> None:
        bounds = 3 if op.name == "for" else 0
        inits = op.args[bounds:]
        varying = self.varying.setdefault(op, set())
        while True:
            before = len(varying)
            carried = [
                tuple(self.sym("phi", op, k, a) if (k, a) in varying else n for a, n in enumerate(self.of(init)))
                for k, init in enumerate(inits)
            ]
            for region in op.regions:
                params = region.params[1:] if bounds else region.params
                for param, dims in zip(params, carried, strict=True):
                    if dims:
                        self.dims[param] = dims
            for region in op.regions:
                with self._scope():
                    self._block(region)
                    if region is op.regions[-1]:
                        for k, (old, new) in enumerate(zip(carried, map(self.of, region.results), strict=True)):
                            pairs = enumerate(zip(old, new, strict=True))
                            varying.update((k, a) for a, (m, n) in pairs if self.find(m) != self.find(n))
            if len(varying) == before:
                break
        for result, dims in zip(op.results, carried, strict=True):
            if dims:
                self.dims[result] = dims

    def _unbroadcast(self, op: Op) -> Dims:
        dims = self.of(op.args[0])
        targets = tuple(self.length(a) for a in op.args[1:])
        lead = len(dims) - len(targets)
        summed = list(range(lead))
        for k, (n, target) in enumerate(zip(dims[lead:], targets, strict=True)):
            if self.find(n) == self.find(target):
                continue
            if self.find(target) == 1:
                summed.append(lead + k)
            else:
                self.unify(n, target)
        self.summed[op] = tuple(summed)
        self.space[op] = dims
        return targets

    def _index(self, op: Op) -> Dims:
        return self.indexed(self.of(op.args[0]), op, 1)

    def indexed(self, dims: Dims, op: Op, first: int) -> Dims:
        """The shape of ``x[...]`` for x of shape ``dims``, index arguments being ``op.args[first:]``."""
        parts = consumed_axes(op.attrs["spec"], op.args[first:])
        kinds = [e for e, _, _ in parts]
        if "m" in kinds or kinds.count("a") > 1 or ("a" in kinds and "i" in kinds) or not constant_steps(parts):
            return tuple(self.sym("op", op, 0, axis) for axis in range(op.result.ndim))
        out: list[Dim] = []
        axis = 0
        for entry, args, count in parts:
            if entry == ":":
                out.append(dims[axis])
            elif entry == "n":
                out.append(1)
            elif entry == "a":
                out.extend(self.of(args[0]))
            elif entry != "i":
                out.append(self.sliced(dims[axis], entry, args))
            axis += count
        return tuple(out)

    def _update(self, op: Op) -> Dims:
        kinds = {e if isinstance(e, str) else "s" for e in op.attrs["spec"]}
        if not kinds & {"a", "m"} and constant_steps(consumed_axes(op.attrs["spec"], op.args[2:])):
            region = self.indexed(self.of(op.args[0]), op, 2)
            if region:
                self.space[op] = region
                for n, v in zip(reversed(region), reversed(self.of(op.args[1])), strict=False):
                    if self.find(v) != 1 and self.find(n) != 1:
                        self.unify(n, v)
        return self.of(op.args[0])

    def _matmul(self, op: Op) -> Dims:
        x, y = (self.of(a) for a in op.args)
        self.unify(x[-1], y[-2] if len(y) > 1 else y[0])
        batch = self.broadcast([x[:-2], y[:-2]])
        return (*batch, *x[-2:-1], *(y[-1:] if len(y) > 1 else ()))

    def _concatenate(self, op: Op) -> Dims:
        axis = op.attrs["axis"]
        shapes = [self.of(a) for a in op.args]
        for other in shapes[1:]:
            for k, (m, n) in enumerate(zip(shapes[0], other, strict=True)):
                if k != axis:
                    self.unify(m, n)
        joined = [s[axis] for s in shapes]
        known = [n for n in joined if isinstance(n, int)]
        total: Dim = sum(known) if len(known) == len(joined) else self.sym("op", op, 0, axis)
        return (*shapes[0][:axis], total, *shapes[0][axis + 1 :])

    def _seq_stack(self, op: Op) -> Dims:
        assert isinstance(op.args[0].type, SeqType)
        return tuple(self.sym("op", op, 0, axis) for axis in range(op.result.ndim))

    def _without(self, op: Op) -> Dims:
        axis = op.attrs["axis"]
        return tuple(n for k, n in enumerate(self.of(op.args[0])) if k != axis)

    def _lengths(self, op: Op) -> Dims:
        return tuple(self.length(a) for a in op.args[1:])

    def _broadcast_to(self, op: Op) -> Dims:
        targets = self._lengths(op)
        for n, target in zip(reversed(self.of(op.args[0])), reversed(targets), strict=False):
            if self.find(n) != 1:
                self.unify(n, target)
        self.space[op] = targets
        return targets

    def _iota(self, op: Op) -> Dims:
        dims = (self.length(op.args[0]),)
        self.space[op] = dims
        return dims


def constant_steps(parts: Iterable[tuple[Any, list[Value], int]]) -> bool:
    """Whether the slices of an index have steps that are known and not 0."""
    slices = [(entry, args) for entry, args, _ in parts if isinstance(entry, tuple)]
    return all(not entry[3] or (isinstance(args[-1], Const) and args[-1].data != 0) for entry, args in slices)


def _inner(op: Op) -> set[Any]:
    """The operations, parameters and results inside the regions of ``op``."""
    out: set[Any] = set()
    for region in op.regions:
        out.update(region.params)
        for inner in region.walk():
            out.add(inner)
            out.update(inner.results)
            for r in inner.regions:
                out.update(r.params)
    return out


_DIMS: dict[str, Any] = {
    "full": Shapes._lengths,
    "reshape": Shapes._lengths,
    "broadcast_to": Shapes._broadcast_to,
    "unbroadcast": Shapes._unbroadcast,
    "iota": Shapes._iota,
    "dim": lambda self, op: (),
    "transpose": lambda self, op: tuple(self.of(op.args[0])[a] for a in op.attrs["perm"]),
    "index": Shapes._index,
    "set": Shapes._update,
    "add_at": Shapes._update,
    "concatenate": Shapes._concatenate,
    "cumsum": lambda self, op: self.of(op.args[0]),
    "cumprod": lambda self, op: self.of(op.args[0]),
    "argmax": Shapes._without,
    "argmin": Shapes._without,
    "matmul": Shapes._matmul,
}
