"""Arrays outside of loop nests: views, element access, updates, and what is assembled from copies."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gradsmith.backends.native import gather
from gradsmith.backends.native.emit import Ix, literal, mem_type, reg_type
from gradsmith.backends.native.fuse import basic
from gradsmith.backends.native.lower import Array, Lowering, Root
from gradsmith.backends.native.views import name_lengths, target, view
from gradsmith.ir.program import Op, Value


def _index(lo: Lowering, op: Op) -> bool:
    if not basic(op, 1):
        return gather.gather(lo, op)
    source = op.args[0]
    if lo.is_scalar(source):
        if op.result.ndim == 0:
            lo.env[op.result] = lo.scalar(source)
        else:
            lo.env[op.result] = splat(lo, op.result, lo.scalar(source))
        return True
    base = lo.array(source)
    region = view(lo, op, base, 1)
    if op.result.ndim:
        name_lengths(lo, lo.shapes.of(op.result), region)
        lo.env[op.result] = region
    elif region.splat is not None:
        lo.env[op.result] = region.splat
    else:
        lo.env[op.result] = lo.em.load(region.dtype, region.ptr, region.root.scope)
    return True


def splat(lo: Lowering, value: Value, register: str) -> Array:
    """An array all of whose elements are one scalar."""
    return Array(value.dtype, "null", lo.dims(value), None, Root(None, False, lo.input_scope), register)


def _full(lo: Lowering, op: Op) -> bool:
    if op.result.ndim == 0:
        lo.env[op.result] = lo.scalar(op.args[0])
        return True
    if not lo.is_scalar(op.args[0]):
        return False
    lo.env[op.result] = splat(lo, op.result, lo.scalar(op.args[0]))
    return True


def _dim(lo: Lowering, op: Op) -> bool:
    lo.env[op.result] = str(lo.length(lo.shapes.of(op.args[0])[op.attrs["axis"]]))
    return True


def _transpose(lo: Lowering, op: Op) -> bool:
    if lo.is_scalar(op.args[0]):
        lo.env[op.result] = lo.scalar(op.args[0])
        return True
    a = lo.array(op.args[0])
    perm = op.attrs["perm"]
    dims = [a.dims[k] for k in perm]
    if a.splat is not None:
        lo.env[op.result] = Array(a.dtype, a.ptr, dims, None, a.root, a.splat)
        return True
    strides = lo.strides_of(a)
    same = list(perm) == list(range(len(perm)))
    lo.env[op.result] = Array(
        a.dtype, a.ptr, dims, a.strides if same else [strides[k] for k in perm], a.root, forward=a.forward
    )
    return True


def _reshape(lo: Lowering, op: Op) -> bool:
    em = lo.em
    dims = lo.dims(op.result) if op.result.ndim else []
    if lo.is_scalar(op.args[0]):
        lo.require_equal(em.product(dims), 1)
        lo.env[op.result] = splat(lo, op.result, lo.scalar(op.args[0])) if dims else lo.scalar(op.args[0])
        return True
    a = lo.array(op.args[0])
    lo.require_equal(em.product(dims), em.product(a.dims))
    if a.splat is not None:
        lo.env[op.result] = Array(a.dtype, a.ptr, dims, None, a.root, a.splat) if dims else a.splat
        return True
    if not dims:
        lo.env[op.result] = em.load(a.dtype, a.ptr, a.root.scope)
        return True
    flat = lo.contiguous(a)
    out = Array(a.dtype, flat.ptr, dims, None, flat.root)
    if flat is a:
        lo.env[op.result] = out
    else:
        lo.define(op.result, out)
    return True


def _update(lo: Lowering, op: Op) -> bool:
    """set and add_at at one element; regions are loop nests."""
    if not basic(op, 2) or lo.is_scalar(op.args[0]):
        return gather.scatter(lo, op)
    assert lo.is_scalar(op.args[1]), "a region is updated by a loop nest"
    value = lo.scalar(op.args[1])
    # the index is checked before anything is copied
    where = view(lo, op, lo.array(op.args[0]), 2)
    before = lo.array(op.args[0])
    out = target(lo, op)
    if out.ptr != before.ptr:
        where = view(lo, op, out, 2)
    if op.name == "add_at":
        old = lo.em.load(out.dtype, where.ptr, out.root.scope)
        value = lo.scalars.apply("add", out.dtype, [old, value])
    lo.em.store(out.dtype, value, where.ptr, out.root.scope)
    lo.define(op.result, out)
    return True


def _concatenate(lo: Lowering, op: Op) -> bool:
    em = lo.em
    axis = op.attrs["axis"]
    parts = [lo.array(a) for a in op.args]
    if any(not isinstance(p, Array) for p in parts):
        return False
    total: Ix = 0
    for part in parts:
        total = em.add(total, part.dims[axis])
        for k, (m, n) in enumerate(zip(parts[0].dims, part.dims, strict=True)):
            if k != axis:
                lo.require_equal(m, n)
    dims = [*parts[0].dims[:axis], total, *parts[0].dims[axis + 1 :]]
    for sym, n in zip(lo.shapes.of(op.result), dims, strict=True):
        lo.set_length(sym, n)
    out = lo.alloc(op.result.dtype, dims)
    strides = lo.strides_of(out)
    at: Ix = 0
    for part in parts:
        ptr = em.gep(mem_type(out.dtype), out.ptr, em.mul(at, strides[axis]))
        region = Array(out.dtype, ptr, part.dims, None if axis == 0 else strides, out.root)
        lo.copy_elements(part, region)
        at = em.add(at, part.dims[axis])
    lo.define(op.result, out)
    return True


def _scan(lo: Lowering, op: Op) -> bool:
    """cumsum and cumprod."""
    em = lo.em
    dtype = op.result.dtype
    if op.args[0].ndim == 0 or dtype.kind not in "fiuc" or dtype.str[1:] == "f2":
        return False
    a = lo.array(op.args[0])
    axis = op.attrs["axis"]
    out = lo.alloc(dtype, a.dims)
    name, start = ("add", 0) if op.name == "cumsum" else ("mul", 1)

    def body(source: str, result: str, strides: tuple[Ix, Ix]) -> None:
        loop = em.loop("scan", a.dims[axis])
        k = loop.carry(reg_type(dtype), literal(np.asarray(start, dtype)[()], dtype))
        with loop:
            element = a.splat or em.load(
                dtype, em.gep(mem_type(dtype), source, em.mul(loop.index, strides[0])), a.root.scope
            )
            total = lo.scalars.apply(name, dtype, [loop.value(k), element])
            em.store(dtype, total, em.gep(mem_type(dtype), result, em.mul(loop.index, strides[1])), out.root.scope)
            loop.next(k, total)

    _lines(lo, a, out, axis, body)
    lo.define(op.result, out)
    return True


def _lines(lo: Lowering, a: Array, out: Array, axis: int, body: Callable[[str, str, tuple[Ix, Ix]], None]) -> None:
    """Run ``body`` on every line of ``a`` along ``axis`` and the line (or element) of ``out`` at its place."""
    em = lo.em
    strides, out_strides = lo.strides_of(a), lo.strides_of(out)
    reduced = len(out.dims) < len(a.dims)
    loops = []
    source, result = a.ptr, out.ptr
    for k, n in enumerate(a.dims):
        if k == axis:
            continue
        loop = em.loop("line", n)
        loop.__enter__()
        loops.append(loop)
        if a.splat is None:
            source = em.gep(mem_type(a.dtype), source, em.mul(loop.index, strides[k]))
        place = k - 1 if reduced and k > axis else k
        result = em.gep(mem_type(out.dtype), result, em.mul(loop.index, out_strides[place]))
    body(source, result, (strides[axis], 0 if reduced else out_strides[axis]))
    for loop in reversed(loops):
        loop.__exit__()


def _argextremum(lo: Lowering, op: Op) -> bool:
    """argmax and argmin: the first extremum, or the first NaN."""
    em = lo.em
    dtype = op.args[0].dtype
    if op.args[0].ndim == 0 or dtype.kind not in "fiu" or dtype.str[1:] == "f2":
        return False
    a = lo.array(op.args[0])
    if a.splat is not None:
        return False
    axis = op.attrs["axis"]
    lo.require(em.ins(f"icmp ne i64 {a.dims[axis]}, 0"), "deopt")
    result = op.result
    type, index_type = reg_type(dtype), np.dtype(np.int64)
    scalar = result.ndim == 0
    out = None if scalar else lo.alloc(index_type, [n for k, n in enumerate(a.dims) if k != axis])
    compare = ("gt" if op.name == "argmax" else "lt", dtype)
    found = ""

    def body(source: str, place: str, strides: tuple[Ix, Ix]) -> None:
        nonlocal found
        first = em.load(dtype, source, a.root.scope)
        loop = em.loop("arg", a.dims[axis])
        best, where = loop.carry(type, first), loop.carry("i64", "0")
        with loop:
            x = em.load(dtype, em.gep(mem_type(dtype), source, em.mul(loop.index, strides[0])), a.root.scope)
            better = lo.scalars.apply(compare[0], compare[1], [x, loop.value(best)])
            if dtype.kind == "f":
                x_nan = lo.scalars.fcmp("uno", type, x, x)
                best_nan = lo.scalars.fcmp("uno", type, loop.value(best), loop.value(best))
                first_nan = em.ins(f"and i1 {x_nan}, {em.ins(f'xor i1 {best_nan}, true')}")
                better = em.ins(f"or i1 {better}, {first_nan}")
            loop.next(best, lo.scalars.select(better, type, x, loop.value(best)))
            loop.next(where, lo.scalars.select(better, "i64", loop.index, loop.value(where)))
        found = loop.value(where)
        if out is not None:
            em.store(index_type, found, place, out.root.scope)

    if out is None:
        body(a.ptr, "", (lo.strides_of(a)[axis], 0))
        lo.env[result] = found
    else:
        _lines(lo, a, out, axis, body)
        lo.define(result, out)
    return True


HANDLERS: dict[str, Callable[[Lowering, Op], bool]] = {
    **{
        "index": _index,
        "full": _full,
        "broadcast_to": _full,
        "dim": _dim,
        "transpose": _transpose,
        "reshape": _reshape,
    },
    **{"set": _update, "add_at": _update, "concatenate": _concatenate, "cumsum": _scan, "cumprod": _scan},
    **{"argmax": _argextremum, "argmin": _argextremum},
}
