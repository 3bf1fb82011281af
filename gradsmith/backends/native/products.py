"""Matrix products as one function for each type of element, compiled at its first use: all programs call the same.

``gradsmith_product_d(a, row stride, column stride, b, row stride, column stride, out, rows, inner, columns)`` writes
the product of two matrices, one stride of each of which is 1, to a contiguous one. Small products are loops, others go
to the BLAS that SciPy ships, with flags instead of copies for transposed operands. The result is not zero when a
length is too large for BLAS.

BLAS matrices are column-major, ours row-major: a row-major matrix is the transpose of a column-major one, so
``C = A B`` is computed as ``C' = B' A'``.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradsmith.backends.native.elementwise import Scalars
from gradsmith.backends.native.emit import Emitter, Ix, Scope, literal, mem_type, reg_type
from gradsmith.backends.native.engine import add_symbol, compile_module
from gradsmith.backends.native.libm import Functions
from gradsmith.backends.native.special import blas

#: products with at most so many multiplications are loops: calling BLAS costs more
SMALL = 128
_LETTERS = {"f4": "s", "f8": "d", "c8": "c", "c16": "z"}
_engines: list[Any] = []  # own the code


@functools.cache
def product(dtype: np.dtype) -> str | None:
    """The symbol of the product of matrices of ``dtype``; None if BLAS has none."""
    letter = _LETTERS.get(dtype.str[1:])
    if letter is None:
        return None
    symbol = f"gradsmith_product_{letter}"
    engine, addresses = compile_module(_Product(dtype, letter, symbol).text(), [symbol], level=1)
    _engines.append(engine)
    add_symbol(symbol, addresses[symbol])
    return symbol


def declaration(symbol: str) -> str:
    """The declaration of :func:`product`'s symbol, for modules that call it."""
    memory = "memory(argmem: readwrite, inaccessiblemem: readwrite)"
    return f"declare i64 @{symbol}(ptr, i64, i64, ptr, i64, i64, ptr, i64, i64, i64) nounwind {memory}"


@dataclass
class _Matrix:
    """An operand. ``transposed``: whether its columns, not its rows, are contiguous (a register)."""

    ptr: str
    rows: str
    columns: str
    row_stride: str
    column_stride: str
    transposed: str = ""


class _Product:
    """The text of the module of one type of element."""

    def __init__(self, dtype: np.dtype, letter: str, symbol: str):
        self.dtype, self.letter, self.symbol = dtype, letter, symbol
        self.type = mem_type(dtype)
        self.em = Emitter()
        self.functions = Functions()
        self.scalars = Scalars(self.em, self.functions)
        self.reading, self.writing = Scope(), Scope()
        self.a = _Matrix("%a", "%m", "%k", "%a.row", "%a.column")
        self.b = _Matrix("%b", "%k", "%n", "%b.row", "%b.column")

    def text(self) -> str:
        em = self.em
        self._choose()
        body, metadata = em.text(first_metadata=1)
        zero, one = (literal(self.dtype.type(x), self.dtype) for x in (0, 1))
        routines = {f"{self.letter}gemv": 11, f"{self.letter}gemm": 13}
        return "\n".join(
            [
                f"define i64 @{self.symbol}(ptr noalias readonly %a, i64 %a.row, i64 %a.column, ptr noalias readonly %b, "
                "i64 %b.row, i64 %b.column, ptr noalias %out, i64 %m, i64 %k, i64 %n) {",
                f"start:\n  %slots = alloca [8 x i32]\n{body}\n}}",
                *(f"declare void @{blas(name)}({', '.join(['ptr'] * count)})" for name, count in routines.items()),
                f"@zero = private constant {reg_type(self.dtype)} {zero}",
                f"@one = private constant {reg_type(self.dtype)} {one}",
                "@N = private constant i8 78\n@T = private constant i8 84",
                "declare i64 @llvm.smax.i64(i64, i64)",
                "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
                *sorted(self.scalars.intrinsics),
                self.functions.text(),
                '!0 = !{!"branch_weights", i32 1048575, i32 1}',
                *metadata,
            ]
        )

    def _choose(self) -> None:
        """Loops, or the routine of BLAS that suits the operands."""
        em = self.em
        small = em.ins(f"icmp ule i64 {em.product(['%m', '%k', '%n'])}, {SMALL}")
        one_column = em.ins("icmp eq i64 %n, 1")
        one_row = em.ins("icmp eq i64 %m, 1")
        em.cond_br(small, "small", "large")
        em.place("small")
        self._by_loops()
        em.do("ret i64 0")
        em.place("large")
        for matrix in (self.a, self.b):
            matrix.transposed = em.ins(f"icmp ne i64 {matrix.column_stride}, 1")
        em.cond_br(one_column, "vector", "matrix")
        em.place("vector")
        not_a = em.ins(f"xor i1 {self.a.transposed}, true")
        self._gemv(self.a, self.b.ptr, self.b.row_stride, not_a, "%m")
        em.place("matrix")
        em.cond_br(one_row, "covector", "matrices")
        em.place("covector")
        self._gemv(self.b, self.a.ptr, self.a.column_stride, self.b.transposed, "%n")
        em.place("matrices")
        self._gemm()

    # loops

    def _at(self, ptr: str, index: Ix, stride: Ix = 1) -> str:
        return self.em.gep(self.type, ptr, self.em.mul(index, stride))

    def _clear(self, ptr: str, count: str) -> None:
        size = self.em.mul(count, self.dtype.itemsize)
        self.em.do(f"call void @llvm.memset.p0.i64(ptr {ptr}, i8 0, i64 {size}, i1 false)")

    def _by_loops(self) -> None:
        em, zero = self.em, literal(self.dtype.type(0), self.dtype)
        with em.loop("row", "%m") as i:
            row, place = self._at("%a", i.index, "%a.row"), self._at("%out", i.index, "%n")
            with em.loop("column", "%n") as j:
                column = self._at("%b", j.index, "%b.column")
                loop = em.loop("dot", "%k")
                slot = loop.carry(reg_type(self.dtype), zero)
                with loop:
                    p = em.load(self.dtype, self._at(row, loop.index, "%a.column"), self.reading)
                    q = em.load(self.dtype, self._at(column, loop.index, "%b.row"), self.reading)
                    term = self.scalars.apply("mul", self.dtype, [p, q])
                    loop.next(slot, self.scalars.apply("add", self.dtype, [loop.value(slot), term]))
                em.store(self.dtype, loop.value(slot), self._at(place, j.index), self.writing)

    # BLAS

    def _gemv(self, matrix: _Matrix, vector: str, increment: str, transpose: str, count: str) -> None:
        """``out = op(M) v`` for the column-major matrix M whose columns are contiguous."""
        em = self.em
        self._clear("%out", count)  # some versions of BLAS multiply what is in the result by zero
        rows, columns, leading = self._column_major(matrix)
        m, n, lead, step, unit = self._integers([rows, columns, leading, str(em.max(increment, 1)), "1"])
        flag = self._flag(transpose)
        self._call("gemv", [flag, m, n, "@one", matrix.ptr, lead, vector, step, "@one", "%out", unit])

    def _gemm(self) -> None:
        a, b = self.a, self.b
        leading_a, leading_b = self._column_major(a)[2], self._column_major(b)[2]
        n, m, k, ldb, lda = self._integers(["%n", "%m", "%k", leading_b, leading_a])
        flags = [self._flag(b.transposed), self._flag(a.transposed)]
        self._call("gemm", [*flags, n, m, k, "@one", b.ptr, ldb, a.ptr, lda, "@zero", "%out", n])

    def _flag(self, transpose: str) -> str:
        return self.em.ins(f"select i1 {transpose}, ptr @T, ptr @N")

    def _column_major(self, matrix: _Matrix) -> tuple[str, str, str]:
        """Rows, columns and leading dimension of the column-major matrix that lies where ``matrix`` lies."""
        em = self.em
        pairs = [
            (matrix.rows, matrix.columns),
            (matrix.columns, matrix.rows),
            (matrix.column_stride, matrix.row_stride),
        ]
        rows, columns, stride = (em.ins(f"select i1 {matrix.transposed}, i64 {x}, i64 {y}") for x, y in pairs)
        # the stride of an axis of length one means nothing, but BLAS wants a valid one
        return rows, columns, str(em.max(em.max(stride, rows), 1))

    def _integers(self, numbers: Sequence[str]) -> list[str]:
        """The addresses of ``numbers`` as 32-bit integers; the function ends with 1 where one is too large."""
        em = self.em
        largest = functools.reduce(lambda x, y: str(em.max(x, y)), [n for n in numbers if n != "1"])
        fits, large = em.new_label("fits"), em.new_label("huge")
        em.cond_br(em.ins(f"icmp ule i64 {largest}, {2**31 - 1}"), fits, large, likely=True)
        em.place(large)
        em.do("ret i64 1")
        em.place(fits)
        places = []
        for k, number in enumerate(numbers):
            places.append(em.gep("i32", "%slots", k))
            em.do(f"store i32 {em.ins(f'trunc i64 {number} to i32')}, ptr {places[-1]}")
        return places

    def _call(self, routine: str, args: Sequence[str]) -> None:
        self.em.do(f"call void @{blas(self.letter + routine)}({', '.join(f'ptr {a}' for a in args)})")
        self.em.do("ret i64 0")
