"""Views of arrays, and the choice between updating an array in place and updating a copy."""

from __future__ import annotations

from collections.abc import Sequence

from gradsmith.backends.native import bounds
from gradsmith.backends.native.emit import Ix, mem_type
from gradsmith.backends.native.lower import Array, Lowering, Root, slice_bounds
from gradsmith.backends.native.shapes import Dim
from gradsmith.ir.ops import consumed_axes
from gradsmith.ir.program import Op


def view(lo: Lowering, op: Op, base: Array, first: int) -> Array:
    """The region of ``base`` that the basic index of ``op`` (arguments from ``first`` on) selects."""
    em = lo.em
    strides = lo.strides_of(base)
    parts = consumed_axes(op.attrs["spec"], op.args[first:])
    offset: Ix = 0
    dims: list[Ix] = []
    kept: list[Ix] = []
    contiguous, forward, axis = base.strides is None, base.forward, 0
    for k, (entry, args, count) in enumerate(parts):
        if entry == "n":
            dims.append(1)
            kept.append(0)
            continue
        n, stride = base.dims[axis], strides[axis]
        if entry == "i":
            at = bounds.resolve(lo, op, k, axis, args[0], n)
            offset = em.add(offset, em.mul(at, stride))
            # a row of a contiguous array is contiguous; an index behind a longer axis is not
            contiguous = contiguous and all(d == 1 for d in dims)
        elif entry == ":":
            dims.append(n)
            kept.append(stride)
        else:
            given = iter(args)
            numbers = [lo.number_of(next(given)) if present else None for present in entry[1:]]
            start, length, step = slice_bounds(em, n, *numbers)
            offset = em.add(offset, em.mul(start, stride))
            forward = forward and step > 0
            contiguous = contiguous and step == 1 and all(d == 1 for d in dims)
            dims.append(length)
            kept.append(em.mul(stride, step))
        axis += count
    if base.splat is not None:
        return Array(base.dtype, base.ptr, dims, None, base.root, base.splat)
    ptr = em.gep(mem_type(base.dtype), base.ptr, offset)
    return Array(base.dtype, ptr, dims, None if contiguous else kept, base.root, forward=forward or contiguous)


def name_lengths(lo: Lowering, dims: Sequence[Dim], a: Array) -> None:
    """Lengths computed for the array ``a`` are the lengths ``dims``: one register for each."""
    for dim, n in zip(dims, a.dims, strict=True):
        lo.set_length(dim, n)
    a.dims = [lo.length(dim) for dim in dims]


def target(lo: Lowering, op: Op, covers: bool = False) -> Array:
    """The array that an update writes into: the operand's memory when it dies here, else a copy.

    ``covers``: all elements of the region get new values, so that a copy can leave them out.
    """
    a = lo.array(op.args[0])
    if a.splat is not None or a.strides is not None or not lo.movable(a.root) or a.root.owner is None:
        return copied_around(lo, op, a) if covers else lo.copied(a)
    assert a.root.holder is not None
    del lo.owned[a.root.holder]
    out = Array(a.dtype, a.ptr, a.dims, None, Root(a.root.owner, a.root.unique, a.root.scope))
    return out if a.root.unique else lo.made_unique(out)


def copied_around(lo: Lowering, op: Op, a: Array) -> Array:
    """A copy of ``a`` in which the elements that ``op`` sets are left undefined."""
    region = _box(lo, op, a) if a.splat is None and a.strides is None else None
    if region is None:
        return lo.copied(a)
    lo.copies += 1
    out = lo.alloc(a.dtype, a.dims)
    while region and region[-1] == (0, a.dims[len(region) - 1]):
        region.pop()
    _copy_border(lo, a, out, region, a.ptr, out.ptr)
    return out


def _box(lo: Lowering, op: Op, a: Array) -> list[tuple[Ix, Ix]] | None:
    """First index and length of the region of a ``set`` for each axis; None unless it is a box without gaps."""
    if op.name != "set":
        return None
    out: list[tuple[Ix, Ix]] = []
    for entry, args, count in consumed_axes(op.attrs["spec"], op.args[2:]):
        n = a.dims[len(out)] if count else 0
        if entry == ":":
            out.append((0, n))
        elif isinstance(entry, tuple):
            given = iter(args)
            start, length, step = slice_bounds(lo.em, n, *(lo.number_of(next(given)) if p else None for p in entry[1:]))
            if step != 1:
                return None
            out.append((start, length))
        elif entry != "n":
            return None
    return out


def _copy_border(
    lo: Lowering, a: Array, out: Array, region: list[tuple[Ix, Ix]], source: str, place: str, axis: int = 0
) -> None:
    """Copy what lies outside of ``region`` from ``axis`` on."""
    em, type = lo.em, mem_type(a.dtype)
    if axis == len(region):
        return
    size = em.product(a.dims[axis + 1 :])
    start, length = region[axis]
    stop = em.add(start, length)

    def part(first: Ix, count: Ix) -> None:
        offset, amount = em.mul(first, size), em.mul(em.mul(count, size), a.dtype.itemsize)
        p, q = em.gep(type, place, offset), em.gep(type, source, offset)
        em.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {p}, ptr {q}, i64 {amount}, i1 false)")

    part(0, start)
    part(stop, em.sub(a.dims[axis], stop))
    if axis + 1 < len(region):
        with em.loop("border", length) as loop:
            offset = em.mul(em.add(start, loop.index), size)
            _copy_border(lo, a, out, region, em.gep(type, source, offset), em.gep(type, place, offset), axis + 1)
