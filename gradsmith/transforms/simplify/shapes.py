"""Symbolic shapes: for every array value a *key* for the length of each of its axes.

Two axes with equal keys have equal lengths in every execution. A key is

- an int: the length itself;
- an int64 scalar Value: the length is that value;
- ``(root, axis)``: the length of that axis of the Value ``root``;
- ``("len", key, c)``: ``max(length - c, 0)``, the length of a slice such as ``x[a:-b]`` with ``a + b == c``;
- ``("slice", key, …)``: the length of any other slice, equal for equal slices of equally long axes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeAlias

import numpy as np

from gradsmith.ir.ops import CONTROL, ELEMENTWISE, REDUCTIONS, consumed_axes
from gradsmith.ir.program import Block, Const, Op, Program, Value
from gradsmith.ir.types import ArrayType

Key: TypeAlias = Hashable
Dims: TypeAlias = tuple[Key, ...]

#: how often the shapes of loop-carried arrays are guessed before the rest is given up
_TRIALS = 3


class Shapes:
    """Shapes of the values of a Program, asked for while it is walked in program order."""

    def __init__(self, program: Program, replaced: dict[Value, Value]):
        self.replaced = replaced  # values that the walk has replaced by others
        self._memo: dict[Value | Op, Dims] = {}
        self._trail: list[Value | Op] = []  # keys of _memo in order of entry: undone when a guess fails
        self._equal: dict[Key, Key] = {}  # lengths that must be equal, else an earlier operation had raised
        self._learned: list[Key] = []
        self._not_one: set[Key] = set()
        for param, given in zip(program.block.params, program.inputs, strict=True):
            if isinstance(param.type, ArrayType) and len(given.unit_axes) == param.ndim > 0:
                self._memo[param] = tuple(1 if one else (param, k) for k, one in enumerate(given.unit_axes))
                self._not_one.update(key for key in self._memo[param] if key != 1)

    def dims(self, value: Value) -> Dims:
        """The keys of the axes of ``value``; a scalar and a sequence have none."""
        value = self.replaced.get(value, value)
        if not isinstance(value.type, ArrayType) or value.type.ndim == 0:
            return ()
        if isinstance(value, Const):
            return np.shape(value.data)
        if value not in self._memo:
            self._compute(value)
        memo = self._memo[value]
        return tuple(self.find(key) for key in memo) if self._equal or self.replaced else memo

    def length(self, scalar: Value) -> Key:
        """The key of a length given as an int64 scalar."""
        scalar = self.replaced.get(scalar, scalar)
        if isinstance(scalar, Const):
            return int(scalar.data) if scalar.dtype.kind in "iu" else scalar
        if scalar.op is not None and scalar.op.name == "dim":
            return self.dims(scalar.op.args[0])[scalar.op.attrs["axis"]]
        return scalar

    def find(self, key: Key) -> Key:
        """The representative of a key."""
        while key in self._equal:
            key = self._equal[key]
        if isinstance(key, tuple) and isinstance(key[0], Value) and key[0] in self.replaced:
            value = self.replaced[key[0]]
            return np.shape(value.data)[key[1]] if isinstance(value, Const) else self.dims(value)[key[1]]
        if isinstance(key, Value) and key in self.replaced:
            return self.length(key)
        return key

    def is_length(self, key: Key) -> bool:
        """Whether ``key`` is known to be the length of something, hence not negative."""
        return key >= 0 if isinstance(key, int) else isinstance(key, tuple)

    def compatible(self, args: Sequence[Value]) -> bool:
        """Whether ``args`` certainly broadcast together."""
        arrays = [d for d in map(self.dims, args) if d]
        if len(arrays) < 2:
            return True
        first, *rest = arrays
        if all(d == first for d in rest):
            return True
        return all(
            len({d[-k] for d in arrays if len(d) >= k and d[-k] != 1}) <= 1 for k in range(1, max(map(len, arrays)) + 1)
        )

    def broadcast(self, all_dims: Sequence[Dims], opaque: Callable[[int], Key]) -> Dims:
        """The shape that arrays of these shapes broadcast to; ``opaque(axis)`` names a length that is not known."""
        ndim = max(map(len, all_dims))
        out: list[Key] = []
        for axis in range(ndim):
            keys = [k for d in all_dims if len(d) >= ndim - axis and (k := d[axis - ndim]) != 1]
            if any(k != keys[0] for k in keys):
                keys = [k for k in keys if self._is_not_one(k)] or [opaque(axis)]
            out.append(min(keys, key=_order) if keys else 1)
        return tuple(out)

    def contradiction(self, args: Sequence[Value]) -> str:
        """The shapes of arrays that certainly do not broadcast together (known lengths differ, none is one), else ''."""
        arrays = [d for d in map(self.dims, args) if d]
        for k in range(1, max(map(len, arrays), default=0) + 1):
            if len({n for d in arrays if len(d) >= k and isinstance(n := d[-k], int) and n != 1}) > 1:
                shown = [[str(n) if isinstance(n, int) else "?" for n in d] for d in arrays]
                return " ".join(f"({','.join(lengths)}{',' * (len(lengths) == 1)})" for lengths in shown)
        return ""

    def learn(self, args: Sequence[Value]) -> list[tuple[Key, Key]]:
        """Note that ``args`` have broadcast together, so lengths other than one are equal. Returns what is new."""
        arrays = [d for d in map(self.dims, args) if d]
        news = []
        for k in range(1, max(map(len, arrays), default=0) + 1):
            keys = sorted((d[-k] for d in arrays if len(d) >= k and self._is_not_one(d[-k])), key=_order)
            for key in keys[1:]:
                if self.learn_equal(keys[0], key):
                    news.append((keys[0], key))
        return news

    def learn_equal(self, key: Key, other: Key) -> bool:
        """Note that two axes of the program's inputs that are not of length one are equally long."""
        key, other = sorted((self.find(key), self.find(other)), key=_order)
        if key == other or isinstance(other, int) or not (self._is_not_one(key) and self._is_not_one(other)):
            return False
        self._equal[other] = key
        self._learned.append(other)
        return True

    def mark(self) -> int:
        """A point to :meth:`forget` back to, at the entry of a region."""
        return len(self._learned)

    def forget(self, mark: int) -> None:
        """Drop what was learned since ``mark``: it holds only where the region runs."""
        while len(self._learned) > mark:
            del self._equal[self._learned.pop()]

    def enter_loop(self, op: Op) -> None:
        """Find which carried arrays of a loop keep their initial shape; note the shapes of parameters and results."""
        if op in self._memo:
            return
        body = op.regions[-1]
        first = len(body.params) - len(op.results)
        initial = op.args[len(op.args) - len(op.results) :]
        guess = {k: d for k, d in enumerate(map(self.dims, initial)) if d}
        for trial in range(_TRIALS):
            trail, learned = len(self._trail), self.mark()
            for k, dims in guess.items():
                for region in op.regions:
                    self._note(region.params[k + first if region is body else k], dims)
            self._scan(body)
            wrong = [k for k, dims in guess.items() if self.dims(body.results[k]) != tuple(map(self.find, dims))]
            self.forget(learned)
            if not wrong:
                break
            while len(self._trail) > trail:
                del self._memo[self._trail.pop()]
            guess = {k: d for k, d in guess.items() if k not in wrong} if trial < _TRIALS - 2 else {}
        self._note(op, ())
        for k, dims in guess.items():
            self._note(op.results[k], dims)

    def leave_if(self, op: Op) -> None:
        """Note the shapes of the results of an ``if`` whose regions have been walked."""
        for k, result in enumerate(op.results):
            if isinstance(result.type, ArrayType) and result.ndim:
                then, other = (self.dims(region.results[k]) for region in op.regions)
                same = (a if a == b else (result, axis) for axis, (a, b) in enumerate(zip(then, other, strict=True)))
                self._note(result, tuple(same))

    def _scan(self, block: Block) -> None:
        for op in block.ops:
            if op.name not in CONTROL:
                if op.name in ELEMENTWISE and len(op.args) > 1:
                    self.learn(op.args)
            elif op.name == "if":
                for region in op.regions:
                    mark = self.mark()
                    self._scan(region)
                    self.forget(mark)
                self.leave_if(op)
            else:
                self.enter_loop(op)
            for result in op.results:
                self.dims(result)

    def _note(self, value: Value | Op, dims: Dims) -> None:
        if value not in self._memo:
            self._trail.append(value)
        self._memo[value] = dims

    def _is_not_one(self, key: Key) -> bool:
        return key != 1 if isinstance(key, int) else key in self._not_one

    def _compute(self, value: Value) -> None:
        op = value.op
        dims = None
        if op is not None and len(op.results) == 1 and op.name not in CONTROL:
            rule = _RULES.get("elementwise" if op.name in ELEMENTWISE else op.name)
            dims = rule(self, op, value) if rule else None
        self._note(value, dims or _opaque(value))


def _order(key: Key) -> int:
    """Prefer known lengths, then plain roots, as the name of a length."""
    return 0 if isinstance(key, int) else 1 if isinstance(key, Value) else 2


def _opaque(value: Value) -> Dims:
    return tuple((value, k) for k in range(value.ndim))


def _call(shapes: Shapes, op: Op, value: Value) -> Dims | None:
    """An operand that is handed through keeps its shape."""
    body = op.regions[0]
    return shapes.dims(op.args[body.params.index(body.results[0])]) if body.results[0] in body.params else None


def _given(shapes: Shapes, op: Op, value: Value) -> Dims:
    return tuple(map(shapes.length, op.args[1:]))


def _iota(shapes: Shapes, op: Op, value: Value) -> Dims | None:
    key = shapes.length(op.args[0])
    return (key,) if shapes.is_length(key) else None


def _reduced(shapes: Shapes, op: Op, value: Value) -> Dims:
    axes, keep = op.attrs["axes"], op.attrs.get("keepdims")
    dims = shapes.dims(op.args[0])
    return tuple(1 if k in axes else d for k, d in enumerate(dims) if keep or k not in axes)


def _without_axis(shapes: Shapes, op: Op, value: Value) -> Dims:
    return tuple(d for k, d in enumerate(shapes.dims(op.args[0])) if k != op.attrs["axis"])


def _concatenate(shapes: Shapes, op: Op, value: Value) -> Dims:
    dims, axis = [*shapes.dims(op.args[0])], op.attrs["axis"]
    lengths, others = [], set()
    for d in map(shapes.dims, op.args):
        lengths.append(d[axis])
        others.add(d[:axis] + d[axis + 1 :])
    known = [n for n in lengths if isinstance(n, int)]
    certain = len(others) == 1 and len(known) == len(lengths)  # else it may raise an error, and is needed
    dims[axis] = sum(known) if certain else (value, axis)
    return tuple(dims)


def _matmul(shapes: Shapes, op: Op, value: Value) -> Dims:
    x, y = map(shapes.dims, op.args)
    core = (x[-2:-1] if len(x) > 1 else ()) + (y[-1:] if len(y) > 1 else ())
    batch = shapes.broadcast([x[:-2], y[:-2]], lambda axis: (value, axis))
    return batch + core


def index_dims(shapes: Shapes, op: Op, opaque: Value) -> Dims:
    """The shape of ``x[...]`` for an index, set or add_at; ``opaque`` owns the lengths that are not known."""
    spec = op.attrs["spec"]
    parts = consumed_axes(spec, op.args[1 if op.name == "index" else 2 :])
    advanced = any(e in ("a", "m") for e, _, _ in parts)
    lengths = iter(shapes.dims(op.args[0]))
    basic: list[Key] = []
    where: list[int] = []  # positions of advanced entries
    before = 0  # basic axes in front of the first advanced entry
    arrays: list[Dims] = []
    for position, (entry, args, consumed) in enumerate(parts):
        taken = [next(lengths) for _ in range(consumed)]
        if entry == "n":
            basic.append(1)
        elif entry == ":":
            basic.append(taken[0])
        elif isinstance(entry, tuple):
            basic.append(slice_length(shapes, taken[0], entry, args))
        elif advanced:
            before = before if where else len(basic)
            where.append(position)
            arrays.append(((opaque, "mask", position),) if entry == "m" else shapes.dims(args[0]))
    if not advanced:
        return tuple(basic)
    if where[-1] - where[0] != len(where) - 1:
        before = 0
    middle = shapes.broadcast(arrays, lambda axis: (opaque, "mask", axis))
    dims = (*basic[:before], *middle, *basic[before:])
    return tuple((opaque, k) if isinstance(d, tuple) and d[1] == "mask" else d for k, d in enumerate(dims))


def slice_length(shapes: Shapes, length: Key, entry: tuple[Any, ...], args: Sequence[Value]) -> Key:
    """The length of a slice of an axis of the given length."""
    if not any(entry[1:]):
        return length
    bounds = iter(args)
    start, stop, step = (shapes.length(next(bounds)) if given else None for given in entry[1:])
    if isinstance(length, int) and all(b is None or isinstance(b, int) for b in (start, stop, step)) and step != 0:
        return len(range(*slice(start, stop, step).indices(length)))  # type: ignore[arg-type]
    left = 0 if start is None else start
    right = 0 if stop is None else -stop if isinstance(stop, int) else None
    if step in (None, 1) and isinstance(left, int) and right is not None and left >= 0 and (stop is None or right > 0):
        if left + right == 0:
            return length
        inner, cut = length[1:] if isinstance(length, tuple) and length[0] == "len" else (length, 0)
        return ("len", inner, cut + left + right)
    return ("slice", length, start, stop, step)


_RULES: dict[str, Callable[[Shapes, Op, Value], Dims | None]] = {
    "elementwise": lambda s, op, value: s.broadcast([s.dims(a) for a in op.args], lambda axis: (value, axis)),
    **dict.fromkeys(["full", "reshape", "broadcast_to", "unbroadcast"], _given),
    "iota": _iota,
    "call": _call,
    "transpose": lambda s, op, value: tuple(s.dims(op.args[0])[k] for k in op.attrs["perm"]),
    **dict.fromkeys(["set", "add_at", "cumsum", "cumprod"], lambda s, op, value: s.dims(op.args[0])),
    **dict.fromkeys(REDUCTIONS, _reduced),
    **dict.fromkeys(["argmax", "argmin"], _without_axis),
    "concatenate": _concatenate,
    "matmul": _matmul,
    "index": index_dims,
}
