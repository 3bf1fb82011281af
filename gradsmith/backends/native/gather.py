"""Indexing with one integer array: gather (``x[a]``), and scatter (``x[a] = v``, ``numpy.add.at``)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradsmith.backends.native.emit import CountedLoop, Ix, mem_type
from gradsmith.backends.native.lower import Array, Lowering
from gradsmith.backends.native.views import target
from gradsmith.ir.ops import consumed_axes
from gradsmith.ir.program import Op, Value

_INT64 = np.dtype(np.int64)


@dataclass
class _Walk:
    """Loops over the indices and, inside, over the other axes; ``at``: the indexed axis; ``position``: of the index."""

    indices: Array
    at: int
    kept: list[int]  # the other axes of the array
    loops: list[CountedLoop]
    position: str
    index: Ix


def axis_of(op: Op, first: int) -> tuple[int, Value] | None:
    """The axis and the index array of ``x[:, ..., a, ..., :]``; None for another kind of index."""
    parts = consumed_axes(op.attrs["spec"], op.args[first:])
    kinds = [entry for entry, _, _ in parts]
    if kinds.count("a") != 1 or kinds.count(":") != len(kinds) - 1:
        return None
    at = kinds.index("a")
    index = parts[at][1][0]
    return (at, index) if index.ndim and index.dtype.kind in "iu" else None


def _enter(lo: Lowering, op: Op, x: Array, indices: Array, at: int) -> _Walk:
    """Open the loops. Indices are wrapped and checked as Python does."""
    em = lo.em
    outer = em.loop("index", em.product(indices.dims))
    outer.__enter__()
    flat = em.gep(mem_type(indices.dtype), indices.ptr, outer.index)
    i = lo.scalars.cast(em.load(indices.dtype, flat, indices.root.scope), indices.dtype, _INT64)
    n = x.dims[at]
    if not op.attrs.get("checked"):
        wrapped = em.ins(f"select i1 {em.ins(f'icmp slt i64 {i}, 0')}, i64 {em.add(i, n)}, i64 {i}")
        lo.require(em.ins(f"icmp ult i64 {wrapped}, {n}"), "index", op, [i, str(n)], at)
        i = wrapped
    loops = [outer]
    kept = [k for k in range(len(x.dims)) if k != at]
    for k in kept:
        loop = em.loop("along", x.dims[k])
        loop.__enter__()
        loops.append(loop)
    return _Walk(indices, at, kept, loops, outer.index, i)


def _leave(walk: _Walk) -> None:
    for loop in reversed(walk.loops):
        loop.__exit__()


def _element(lo: Lowering, a: Array, walk: _Walk) -> str:
    """The address of the element of the indexed array."""
    em, strides = lo.em, lo.strides_of(a)
    offset = em.mul(walk.index, strides[walk.at])
    for k, loop in zip(walk.kept, walk.loops[1:], strict=True):
        offset = em.add(offset, em.mul(loop.index, strides[k]))
    return em.gep(mem_type(a.dtype), a.ptr, offset)


def _place(lo: Lowering, a: Array, walk: _Walk) -> str:
    """The address of the element of an array of the selection's shape (its index axes follow each other in memory)."""
    em, strides, extra = lo.em, lo.strides_of(a), len(walk.indices.dims) - 1
    offset = em.mul(walk.position, strides[walk.at + extra])
    for k, loop in zip(walk.kept, walk.loops[1:], strict=True):
        offset = em.add(offset, em.mul(loop.index, strides[k if k < walk.at else k + extra]))
    return em.gep(mem_type(a.dtype), a.ptr, offset)


def _indices(lo: Lowering, value: Value) -> tuple[Array, Array | None]:
    """The index array in contiguous memory, and the copy that was made for it."""
    a = lo.memory(value)
    flat = lo.contiguous(a)
    return flat, None if flat is a else flat


def gather(lo: Lowering, op: Op) -> bool:
    """``index`` with one integer array."""
    found = axis_of(op, 1)
    if found is None or lo.is_scalar(op.args[0]):
        return False
    at, value = found
    x = lo.memory(op.args[0])
    indices, copy = _indices(lo, value)
    out = lo.alloc(x.dtype, [*x.dims[:at], *indices.dims, *x.dims[at + 1 :]])
    walk = _enter(lo, op, x, indices, at)
    lo.em.store(
        x.dtype, lo.em.load(x.dtype, _element(lo, x, walk), x.root.scope), _place(lo, out, walk), out.root.scope
    )
    _leave(walk)
    if copy is not None:
        lo.release(copy.root)
    for dim, n in zip(lo.shapes.of(op.result), out.dims, strict=True):
        lo.set_length(dim, n)
    out.dims = lo.dims(op.result)
    lo.define(op.result, out)
    return True


def scatter(lo: Lowering, op: Op) -> bool:
    """``set`` and ``add_at`` with one integer array."""
    found = axis_of(op, 2)
    if found is None or lo.is_scalar(op.args[0]):
        return False
    at, value = found
    em = lo.em
    indices, copy = _indices(lo, value)
    x = lo.array(op.args[0])
    copies = [copy] if copy is not None else []
    shape = [*x.dims[:at], *indices.dims, *x.dims[at + 1 :]]
    given = None if lo.is_scalar(op.args[1]) else _given(lo, lo.array(op.args[1]), x, shape, copies)
    out = target(lo, op)
    walk = _enter(lo, op, out, indices, at)
    register = lo.scalar(op.args[1]) if given is None else given.splat
    if register is None:
        assert given is not None
        register = em.load(given.dtype, _place(lo, given, walk), given.root.scope)
    place = _element(lo, out, walk)
    if op.name == "add_at":
        register = lo.scalars.apply("add", out.dtype, [em.load(out.dtype, place, out.root.scope), register])
    em.store(out.dtype, register, place, out.root.scope)
    _leave(walk)
    for made in copies:
        lo.release(made.root)
    lo.define(op.result, out)
    return True


def _given(lo: Lowering, v: Array, x: Array, shape: list[Ix], copies: list[Array]) -> Array:
    """The values to scatter, as an array of the selection's shape whose index axes are contiguous with each other."""
    if v.splat is not None:
        return v
    lead = len(shape) - len(v.dims)
    broadcast = lead > 0
    for k, n in enumerate(v.dims):
        if n == 1 and shape[lead + k] != 1:
            broadcast = True
        else:
            lo.require_equal(n, shape[lead + k])
    own = lo.strides_of(v)
    strides: list[Ix] = [0] * lead
    strides += [0 if n == 1 else s for n, s in zip(v.dims, own, strict=True)]
    if not broadcast and v.strides is None and v.root is not x.root:
        return v
    out = lo.copied(Array(v.dtype, v.ptr, shape, strides, v.root))
    copies.append(out)
    return out
