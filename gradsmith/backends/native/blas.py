"""Matrix products: operands as matrices, the loops over their leading axes; ``products.py`` multiplies two matrices."""

from __future__ import annotations

from collections.abc import Callable

from gradsmith.backends.native import products
from gradsmith.backends.native.emit import CountedLoop, Ix, mem_type
from gradsmith.backends.native.lower import Array, Lowering
from gradsmith.ir.program import Op


def _matmul(lo: Lowering, op: Op) -> bool:
    dtype = op.result.dtype
    symbol = products.product(dtype)
    if symbol is None:
        return False
    copies: list[Array] = []
    x, y = (_operand(lo, lo.memory(a), copies) for a in op.args)
    first, second = _as_matrices(lo, x, y)
    lo.require_equal(first.dims[-1], second.dims[-2])
    batch = _batch(lo, first, second)
    out = lo.alloc(dtype, [*batch, first.dims[-2], second.dims[-1]])
    _products(lo, symbol, first, second, out, len(batch))
    kept = [
        *batch,
        *([first.dims[-2]] if op.args[0].ndim > 1 else []),
        *([second.dims[-1]] if op.args[1].ndim > 1 else []),
    ]
    for copy in copies:
        lo.release(copy.root)
    if op.result.ndim == 0:
        lo.env[op.result] = lo.em.load(dtype, out.ptr, out.root.scope)
        lo.release(out.root)
        return True
    for dim, n in zip(lo.shapes.of(op.result), kept, strict=True):
        if lo.available(dim):
            lo.require_equal(lo.length(dim), n)
        lo.set_length(dim, n)
    lo.define(op.result, Array(dtype, out.ptr, lo.dims(op.result), None, out.root))
    return True


def _operand(lo: Lowering, a: Array, copies: list[Array]) -> Array:
    """``a``, or a copy when its last two axes do not form a matrix that BLAS can read."""
    if a.strides is None or (a.forward and 1 in a.strides[-2:] and len(a.dims) > 1):
        return a
    if len(a.dims) == 1 and a.forward and a.strides != [0]:
        return a
    out = lo.copied(a)
    copies.append(out)
    return out


def _as_matrices(lo: Lowering, x: Array, y: Array) -> tuple[Array, Array]:
    """Both operands with at least two axes: a vector is a row on the left, a column on the right."""
    xs, ys = lo.strides_of(x), lo.strides_of(y)
    if len(x.dims) == 1:
        x = Array(x.dtype, x.ptr, [1, *x.dims], [0, *xs], x.root)
    else:
        x = Array(x.dtype, x.ptr, x.dims, xs, x.root)
    if len(y.dims) == 1:
        y = Array(y.dtype, y.ptr, [*y.dims, 1], [*ys, 0], y.root)
    else:
        y = Array(y.dtype, y.ptr, y.dims, ys, y.root)
    return x, y


def _batch(lo: Lowering, x: Array, y: Array) -> list[Ix]:
    """The broadcast leading axes; lengths that are not known to be 1 must be equal."""
    a, b = x.dims[:-2], y.dims[:-2]
    out: list[Ix] = []
    for k in range(-max(len(a), len(b)), 0):
        lengths = [n for s in (a, b) if len(s) >= -k for n in [s[k]] if n != 1]
        for n in lengths[1:]:
            lo.require_equal(lengths[0], n)
        out.append(lengths[0] if lengths else 1)
    return out


def _products(lo: Lowering, symbol: str, x: Array, y: Array, out: Array, batches: int) -> None:
    """One product for each index of the leading axes."""
    em, type = lo.em, mem_type(out.dtype)
    loops: list[CountedLoop] = []
    ptrs = [x.ptr, y.ptr, out.ptr]
    own = lo.strides_of(out)
    for k in range(batches):
        loop = em.loop("batch", out.dims[k])
        loop.__enter__()
        loops.append(loop)
        for j, (a, strides) in enumerate([(x, x.strides), (y, y.strides), (out, own)]):
            axis = k - (batches + 2 - len(a.dims))
            if axis >= 0 and a.dims[axis] != 1 and strides is not None:
                ptrs[j] = em.gep(type, ptrs[j], em.mul(loop.index, strides[axis]))
    assert x.strides is not None and y.strides is not None
    args = [ptrs[0], *x.strides[-2:], ptrs[1], *y.strides[-2:], ptrs[2], *out.dims[-2:-1], x.dims[-1], *out.dims[-1:]]
    listed = ", ".join(f"{'ptr' if k in (0, 3, 6) else 'i64'} {a}" for k, a in enumerate(args))
    lo.declared[symbol] = products.declaration(symbol)
    code = em.ins(f"call i64 @{symbol}({listed})")
    lo.require(em.ins(f"icmp eq i64 {code}, 0"), "deopt")
    for loop in reversed(loops):
        loop.__exit__()


HANDLERS: dict[str, Callable[[Lowering, Op], bool]] = {"matmul": _matmul}
