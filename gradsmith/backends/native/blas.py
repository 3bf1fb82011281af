"""Matrix products: small ones by loops, others by the BLAS that SciPy ships; transposed operands by flags, not copies.

BLAS matrices are column-major, ours row-major: a row-major matrix is the transpose of a column-major one, so
``C = A B`` is computed as ``C' = B' A'``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gradsmith.backends.native.emit import CountedLoop, Ix, literal, mem_type, reg_type
from gradsmith.backends.native.lower import Array, Lowering
from gradsmith.backends.native.special import blas
from gradsmith.ir.program import Op

#: products with at most so many multiplications are loops: calling BLAS costs more
SMALL = 1024
_LETTER = {"f4": "s", "f8": "d", "c8": "c", "c16": "z"}


@dataclass
class Matrix:
    """A 2-d operand: ``rows`` × ``columns`` with strides in elements."""

    ptr: str
    rows: Ix
    columns: Ix
    row_stride: Ix
    column_stride: Ix

    @property
    def transposed(self) -> bool:
        """Whether its columns, not its rows, are contiguous in memory."""
        return self.column_stride != 1


def _matmul(lo: Lowering, op: Op) -> bool:
    dtype = op.result.dtype
    letter = _LETTER.get(dtype.str[1:])
    if letter is None:
        return False
    copies: list[Array] = []
    x, y = (_operand(lo, lo.memory(a), copies) for a in op.args)
    first, second = _as_matrices(lo, x, y)
    lo.require_equal(first.dims[-1], second.dims[-2])
    batch = _batch(lo, first, second)
    out = lo.alloc(dtype, [*batch, first.dims[-2], second.dims[-1]])
    _products(lo, letter, first, second, out, len(batch))
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


def _products(lo: Lowering, letter: str, x: Array, y: Array, out: Array, batches: int) -> None:
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
    first = Matrix(ptrs[0], x.dims[-2], x.dims[-1], x.strides[-2], x.strides[-1])
    second = Matrix(ptrs[1], y.dims[-2], y.dims[-1], y.strides[-2], y.strides[-1])
    _product(lo, letter, first, second, Array(out.dtype, ptrs[2], out.dims[-2:], None, out.root), x, y)
    for loop in reversed(loops):
        loop.__exit__()


def _product(lo: Lowering, letter: str, a: Matrix, b: Matrix, out: Array, x: Array, y: Array) -> None:
    em = lo.em
    size = em.product([a.rows, a.columns, b.columns])
    if isinstance(size, int):
        (_by_loops if size <= SMALL else _by_blas)(lo, letter, a, b, out, x, y)
        return
    small, large, done = em.new_label("small"), em.new_label("large"), em.new_label("product")
    em.cond_br(em.ins(f"icmp ule i64 {size}, {SMALL}"), small, large)
    em.place(small)
    _by_loops(lo, letter, a, b, out, x, y)
    em.br(done)
    em.place(large)
    _by_blas(lo, letter, a, b, out, x, y)
    em.br(done)
    em.place(done)


def _by_loops(lo: Lowering, letter: str, a: Matrix, b: Matrix, out: Array, x: Array, y: Array) -> None:
    em, dtype = lo.em, out.dtype
    type, zero = mem_type(dtype), literal(np.zeros((), dtype)[()], dtype)
    with em.loop("row", a.rows) as i:
        row = em.gep(type, a.ptr, em.mul(i.index, a.row_stride))
        place = em.gep(type, out.ptr, em.mul(i.index, out.dims[1]))
        with em.loop("column", b.columns) as j:
            column = em.gep(type, b.ptr, em.mul(j.index, b.column_stride))
            loop = em.loop("dot", a.columns)
            slot = loop.carry(reg_type(dtype), zero)
            with loop:
                p = em.load(dtype, em.gep(type, row, em.mul(loop.index, a.column_stride)), x.root.scope)
                q = em.load(dtype, em.gep(type, column, em.mul(loop.index, b.row_stride)), y.root.scope)
                product = lo.scalars.apply("mul", dtype, [p, q])
                loop.next(slot, em.ins(f"fadd reassoc {reg_type(dtype)} {loop.value(slot)}, {product}"))
            em.store(dtype, loop.value(slot), em.gep(type, place, j.index), out.root.scope)


def _by_blas(lo: Lowering, letter: str, a: Matrix, b: Matrix, out: Array, x: Array, y: Array) -> None:
    """A call of gemv where one operand is a vector (not complex: conventions of return values), else of gemm."""
    if b.columns == 1 and b.column_stride == 0:
        _gemv(lo, letter, a, b.ptr, b.row_stride, out, transpose=not a.transposed)
    elif a.rows == 1 and a.row_stride == 0:
        _gemv(lo, letter, b, a.ptr, a.column_stride, out, transpose=b.transposed)
    else:
        _gemm(lo, letter, a, b, out)


def _gemv(lo: Lowering, letter: str, matrix: Matrix, vector: str, increment: Ix, out: Array, transpose: bool) -> None:
    """``out = op(M) v`` for the column-major matrix M whose columns are contiguous."""
    em = lo.em
    count = em.product(out.dims)
    zero = literal(np.zeros((), out.dtype)[()], out.dtype)
    with em.loop("clear", count) as loop:  # BLAS leaves the result alone when the matrix is empty
        em.store(out.dtype, zero, em.gep(mem_type(out.dtype), out.ptr, loop.index), out.root.scope)
    rows, columns, leading = _column_major(lo, matrix)
    args = _Arguments(lo)
    ints = [args.integer(n) for n in (rows, columns, leading, increment, 1)]
    one = args.number(letter, 1)
    trans = args.letter("T" if transpose else "N")
    args.call(
        f"{letter}gemv", [trans, ints[0], ints[1], one, matrix.ptr, ints[2], vector, ints[3], one, out.ptr, ints[4]]
    )


def _gemm(lo: Lowering, letter: str, a: Matrix, b: Matrix, out: Array) -> None:
    args = _Arguments(lo)
    m, k, n = a.rows, a.columns, b.columns
    lda, ldb = _column_major(lo, a)[2], _column_major(lo, b)[2]
    ints = [args.integer(v) for v in (n, m, k, ldb, lda, lo.em.max(n, 1))]
    one, zero = args.number(letter, 1), args.number(letter, 0)
    flags = [args.letter("T" if matrix.transposed else "N") for matrix in (b, a)]
    args.call(f"{letter}gemm", [*flags, *ints[:3], one, b.ptr, ints[3], a.ptr, ints[4], zero, out.ptr, ints[5]])


def _column_major(lo: Lowering, matrix: Matrix) -> tuple[Ix, Ix, Ix]:
    """Rows, columns and leading dimension of the column-major matrix that lies where ``matrix`` lies."""
    em = lo.em
    if matrix.transposed:
        rows, columns, stride = matrix.rows, matrix.columns, matrix.column_stride
    else:
        rows, columns, stride = matrix.columns, matrix.rows, matrix.row_stride
    # the stride of an axis of length one means nothing, but BLAS wants a valid one
    return rows, columns, em.max(em.max(stride, rows), 1)


class _Arguments:
    """Memory for the arguments of one call: BLAS takes everything by pointer."""

    def __init__(self, lo: Lowering):
        self.lo = lo
        self.used = 0
        lo.blas_slots = max(lo.blas_slots, 8)

    def integer(self, n: Ix) -> str:
        em = self.lo.em
        place = em.word("%blas", self.used)
        self.used += 1
        if isinstance(n, str):
            self.lo.require(em.ins(f"icmp ule i64 {n}, {2**31 - 1}"), "deopt")
            n = em.ins(f"trunc i64 {n} to i32")
        em.do(f"store i32 {n}, ptr {place}")
        return place

    def letter(self, text: str) -> str:
        name = f"@blas.{text}"
        self.lo.declared[name] = f"{name} = private constant i8 {ord(text)}"
        return name

    def number(self, letter: str, value: int) -> str:
        dtype = np.dtype({v: k for k, v in _LETTER.items()}[letter])
        name = f"@blas.{letter}{value}"
        self.lo.declared[name] = f"{name} = private constant {reg_type(dtype)} {literal(dtype.type(value), dtype)}"
        return name

    def call(self, routine: str, args: list[str]) -> None:
        symbol = blas(routine)
        self.lo.declared[symbol] = f"declare void @{symbol}({', '.join(['ptr'] * len(args))})"
        self.lo.em.do(f"call void @{symbol}({', '.join(f'ptr {a}' for a in args)})")


HANDLERS: dict[str, Callable[[Lowering, Op], bool]] = {"matmul": _matmul}
