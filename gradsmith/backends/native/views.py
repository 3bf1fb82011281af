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


def target(lo: Lowering, op: Op) -> Array:
    """The array that an update writes into: the operand's memory when it dies here, else a copy."""
    source = op.args[0]
    a = lo.array(source)
    if a.splat is not None or a.strides is not None or not lo.movable(a.root) or a.root.owner is None:
        out = lo.copied(a)
    else:
        assert a.root.holder is not None
        del lo.owned[a.root.holder]
        out = Array(a.dtype, a.ptr, a.dims, None, Root(a.root.owner, a.root.unique, a.root.scope))
        if not a.root.unique:
            out = lo.made_unique(out)
    return out
