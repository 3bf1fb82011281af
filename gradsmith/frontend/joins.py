"""Descriptions of what a slot holds, and how two of them join: after a branch, and at the head of a loop.

A description says which numbers and arrays a (possibly nested) object holds; everything else in it must be the same object on
both paths. ``leaves`` turns a fitting object into Values for a region's results; ``rebuild`` makes the object again from the
results of the operation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gradsmith.errors import UnsupportedCode
from gradsmith.frontend import layout
from gradsmith.frontend import stage as st
from gradsmith.frontend.heap import MISSING, Slot
from gradsmith.frontend.values import (
    Array,
    Cell,
    Grown,
    Maybe,
    Scalar,
    Symbolic,
    dtype_of,
    is_number,
    is_weak,
    promotion_sample,
)
from gradsmith.ir import builder as ir
from gradsmith.ir.program import Const, Value
from gradsmith.ir.types import BOOL, I64, ArrayType, SeqType, Type


class JoinFailure(UnsupportedCode):
    """Two paths leave objects in one slot that have no common description."""


class Desc:
    """What a slot holds."""

    def types(self) -> list[Type]:
        """Types of the Values."""
        raise NotImplementedError

    def leaves(self, x: Any) -> list[Value]:
        """The Values of ``x``, cast to the types; emits at the builder's place."""
        raise NotImplementedError

    def rebuild(self, values: Iterator[Value], ambiguous: str) -> Any:
        """The object with these Values."""
        raise NotImplementedError

    def signature(self) -> Any:
        """Equal for descriptions that fit the same objects."""
        return (type(self).__name__, tuple(self.types()))

    def placeholder(self) -> list[Value]:
        """Values of the right types for a path on which the object is never looked at."""
        return [placeholder(t) for t in self.types()]


def hold(item: Any) -> None:
    """A list that grows in a loop holds the present elements of an array: writes to the array would not be seen in it."""
    if isinstance(item, Array) and not item.cell.ambiguous:
        st.current().heap.write(Slot("attr", item.cell, "ambiguous"), HELD)


HELD = (
    "writing into an array that a list which grows in a loop holds too; append a copy, rows.append(x.copy()), or write "
    "before appending"
)


def converted(seq: Value, dtype: np.dtype) -> Value:
    """The sequence with elements of this dtype."""
    assert isinstance(seq.type, SeqType) and isinstance(seq.type.elem, ArrayType)
    if seq.type.elem.dtype == dtype:
        return seq
    elem = ArrayType(dtype, seq.type.elem.ndim)
    i, new, builder = Value(I64), Value(SeqType(elem)), st.current().builder
    with builder.region([i, new]) as body:
        body.results = [ir.emit("seq_push", new, ir.cast(ir.emit("seq_get", seq, i), dtype))]
    bounds = [ir.i64(0), ir.emit("seq_len", seq), ir.i64(1)]
    return builder.emit_control("for", [*bounds, ir.emit("seq_new", elem=elem)], [body]).result


def placeholder(type: Type) -> Value:
    if isinstance(type, SeqType):
        return ir.emit("seq_new", elem=type.elem)
    zero = Const(0, ArrayType(type.dtype))
    return ir.full(zero, [0] * type.ndim) if type.ndim else zero


class Same(Desc):
    """One and the same object (or equal constants) on every path."""

    def __init__(self, value: Any):
        self.value = value

    def signature(self) -> Any:
        atom = self.value is None or isinstance(self.value, int | float | complex | str | bytes | np.generic)
        return ("Same", type(self.value), repr(self.value) if atom else id(self.value))

    def types(self) -> list[Type]:
        return []

    def leaves(self, x: Any) -> list[Value]:
        return []

    def rebuild(self, values: Iterator[Value], ambiguous: str) -> Any:
        return self.value


class Number(Desc):
    """A number."""

    def __init__(self, dtype: np.dtype, weak: bool):
        self.dtype = dtype
        self.weak = weak

    def signature(self) -> Any:
        return ("Number", self.dtype, self.weak)

    def types(self) -> list[Type]:
        return [ArrayType(self.dtype)]

    def leaves(self, x: Any) -> list[Value]:
        return [st.as_value(x, self.dtype)]

    def rebuild(self, values: Iterator[Value], ambiguous: str) -> Any:
        return Scalar(next(values), self.weak)


class Elements(Desc):
    """An array, or (``cell``) the contents of one."""

    def __init__(self, dtype: np.dtype, ndim: int, contiguous: bool, cell: bool = False):
        self.dtype = dtype
        self.ndim = ndim
        self.contiguous = contiguous
        self.cell = cell

    def signature(self) -> Any:
        return ("Elements", self.dtype, self.ndim, self.contiguous, self.cell)

    def types(self) -> list[Type]:
        return [ArrayType(self.dtype, self.ndim)]

    def leaves(self, x: Any) -> list[Value]:
        return [ir.cast(x if isinstance(x, Value) else x.value, self.dtype)]

    def rebuild(self, values: Iterator[Value], ambiguous: str) -> Any:
        value = next(values)
        layout.note(value, self.contiguous)
        return value if self.cell else Array(Cell(value, self.contiguous, ambiguous))


class Items(Desc):
    """A tuple, named tuple, list or dict with a fixed number of items."""

    def __init__(self, like: Any, items: Sequence[Desc]):
        self.like = like
        self.items = items

    def _parts(self, x: Any) -> list[Any]:
        return [x[k] for k in self.like] if isinstance(self.like, dict) else list(x)

    def signature(self) -> Any:
        return ("Items", type(self.like), tuple(item.signature() for item in self.items))

    def types(self) -> list[Type]:
        return [t for item in self.items for t in item.types()]

    def leaves(self, x: Any) -> list[Value]:
        return [v for item, part in zip(self.items, self._parts(x), strict=True) for v in item.leaves(part)]

    def rebuild(self, values: Iterator[Value], ambiguous: str) -> Any:
        parts = [item.rebuild(values, ambiguous) for item in self.items]
        if isinstance(self.like, dict):
            return st.current().heap.born(dict(zip(self.like, parts, strict=True)))
        if hasattr(self.like, "_fields"):
            return type(self.like)(*parts)
        return st.current().heap.born(type(self.like)(parts))


class Growing(Desc):
    """The contents of a list whose length is known only at run time."""

    def __init__(self, elem: Number | Elements):
        self.elem = elem

    def types(self) -> list[Type]:
        return [SeqType(self.elem.types()[0])]

    def leaves(self, x: Any) -> list[Value]:
        if x and isinstance(x[0], Grown):
            seq, rest = converted(x[0].seq, self.elem.dtype), x[1:]
        else:
            seq, rest = ir.emit("seq_new", elem=self.elem.types()[0]), x
        for item in rest:
            seq = ir.emit("seq_push", seq, self.elem.leaves(item)[0])
            hold(item)
        return [seq]

    def rebuild(self, values: Iterator[Value], ambiguous: str) -> Any:
        return [Grown(next(values), isinstance(self.elem, Number) and self.elem.weak)]


class Optional(Desc):
    """Something that only some paths assign."""

    def __init__(self, inner: Desc):
        self.inner = inner

    def signature(self) -> Any:
        return ("Optional", self.inner.signature())

    def types(self) -> list[Type]:
        return [BOOL, *self.inner.types()]

    def leaves(self, x: Any) -> list[Value]:
        if x is MISSING:
            return [Const(False), *self.inner.placeholder()]
        if isinstance(x, Maybe):
            return [st.as_value(x.defined), *self.inner.leaves(x.value)]
        return [Const(True), *self.inner.leaves(x)]

    def rebuild(self, values: Iterator[Value], ambiguous: str) -> Any:
        defined = Scalar(next(values), weak=True)
        return Maybe(self.inner.rebuild(values, ambiguous), defined)


def describe(x: Any) -> Desc:
    """The description of one object."""
    if isinstance(x, Scalar):
        return Number(x.dtype, x.weak)
    if isinstance(x, Array):
        return Elements(x.dtype, x.ndim, x.contiguous)
    if isinstance(x, Value):
        return Elements(x.dtype, x.ndim, layout.c_ordered(x), cell=True)
    if isinstance(x, Maybe):
        return Optional(describe(x.value))
    if isinstance(x, Grown):
        return Same(x)
    if isinstance(x, list) and x and isinstance(x[0], Grown):
        assert isinstance(x[0].seq.type, SeqType)
        elem = x[0].seq.type.elem
        assert isinstance(elem, ArrayType)
        return Growing(Number(elem.dtype, x[0].weak) if elem.ndim == 0 else Elements(elem.dtype, elem.ndim, True))
    if type(x) in (list, tuple) or (isinstance(x, tuple) and hasattr(x, "_fields")):
        return Items(x, [describe(y) for y in x])
    if type(x) is dict:
        return Items(x, [describe(y) for y in x.values()])
    return Same(x)


def join(a: Any, b: Any, growing: bool = False) -> Desc:
    """A description that fits both objects. ``growing``: they are the contents of a list before and after appending."""
    if a is b:
        return Same(a)
    if growing and isinstance(a, list) and isinstance(b, list) and (len(a) != len(b) or _grown(a) or _grown(b)):
        if st.current().specialising:
            raise JoinFailure("a list that grows")
        return _join_growing(a, b)
    if a is MISSING or b is MISSING:
        return Optional(describe(b if a is MISSING else a))
    if isinstance(a, Maybe) or isinstance(b, Maybe):
        inner = [x.value if isinstance(x, Maybe) else x for x in (a, b)]
        return Optional(join(*inner))
    if is_number(a) and is_number(b):
        return _join_numbers(a, b)
    if isinstance(a, Array | Value) and isinstance(b, Array | Value):
        return _join_arrays(a, b)
    if type(a) is type(b) and isinstance(a, tuple | list | dict) and not isinstance(a, Symbolic):
        return _join_items(a, b)
    if type(a) is type(b) and not isinstance(a, Symbolic) and _equal(a, b):
        return Same(a)
    raise JoinFailure(f"{_say(a)} on one path and {_say(b)} on another")


def unchanged(joined: Desc, before: Desc) -> Desc:
    """``joined``, of a loop's head and end, where what the iteration leaves as it found it is still as described before.

    (The objects at the head stand for those of any iteration: they are not the same ones on every path.)
    """
    if isinstance(joined, Same):
        return before
    if isinstance(joined, Optional) and isinstance(before, Optional):
        return Optional(unchanged(joined.inner, before.inner))
    if isinstance(joined, Items) and isinstance(before, Items):
        return Items(joined.like, [unchanged(j, b) for j, b in zip(joined.items, before.items, strict=True)])
    return joined


def _grown(x: list[Any]) -> bool:
    return bool(x) and isinstance(x[0], Grown)


def _equal(a: Any, b: Any) -> bool:
    return isinstance(a, str | bytes | frozenset | slice | range) and a == b


def _join_numbers(a: Any, b: Any) -> Desc:
    if not isinstance(a, Scalar) and not isinstance(b, Scalar) and type(a) is type(b):
        if a == b and str(a) == str(b):  # str tells 0.0 from -0.0
            return Same(a)
    weak = is_weak(a) and is_weak(b)
    if weak:
        dtype = np.result_type(dtype_of(a), dtype_of(b))
    else:
        dtype = np.result_type(promotion_sample(a), promotion_sample(b))
    return Number(dtype, weak)


def _join_arrays(a: Any, b: Any) -> Desc:
    if isinstance(a, Array) and isinstance(b, Array) and a.cell is b.cell and a.views == b.views:
        return Same(a)
    if a.ndim != b.ndim:
        raise JoinFailure(f"an array of {a.ndim} dimensions on one path and of {b.ndim} on another")
    cell = isinstance(a, Value)
    contiguous = all(layout.c_ordered(x) if isinstance(x, Value) else x.contiguous for x in (a, b))
    return Elements(np.result_type(a.dtype, b.dtype), a.ndim, contiguous, cell)


def _join_items(a: Any, b: Any) -> Desc:
    if isinstance(a, dict):
        if list(a) != list(b):
            raise JoinFailure(f"a dict with keys {list(a)} on one path and {list(b)} on another")
        return Items(a, [join(a[k], b[k]) for k in a])
    if len(a) != len(b):
        raise JoinFailure(f"a {type(a).__name__} of length {len(a)} on one path and of length {len(b)} on another")
    return Items(a, [join(x, y) for x, y in zip(a, b, strict=True)])


def _join_growing(a: list[Any], b: list[Any]) -> Desc:
    items = [i for i in (*a, *b) if not isinstance(i, Grown)]
    elems = [describe([i]).elem for i in (*a, *b) if isinstance(i, Grown)]  # type: ignore[attr-defined]
    for item in items:
        if is_number(item):
            elems.append(Number(dtype_of(item), is_weak(item)))
        elif isinstance(item, Array):
            elems.append(Elements(item.dtype, item.ndim, True))
        else:
            raise JoinFailure(f"a list that grows in a loop and holds {_say(item)}")
    first = elems[0]
    for elem in elems[1:]:
        first = _join_elems(first, elem)
    return Growing(first)


def _join_elems(a: Any, b: Any) -> Any:
    if isinstance(a, Number) and isinstance(b, Number):
        return Number(np.result_type(a.dtype, b.dtype), a.weak and b.weak)
    if isinstance(a, Elements) and isinstance(b, Elements) and a.ndim == b.ndim:
        return Elements(np.result_type(a.dtype, b.dtype), a.ndim, True)
    raise JoinFailure(
        "a list that grows in a loop and holds both numbers and arrays, or arrays of different dimensions"
    )


def _say(x: Any) -> str:
    if x is None:
        return "None"
    if isinstance(x, Array):
        return f"an array of {x.ndim} dimensions"
    if is_number(x):
        return f"a number ({x.python_type.__name__ if isinstance(x, Scalar) else type(x).__name__})"
    return f"{x!r}" if isinstance(x, str | bytes) else f"an object of type {type(x).__name__}"
