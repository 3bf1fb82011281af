"""Types of the values of a Program: (dtype, number of dimensions). Shapes are dynamic and never part of a type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np


@dataclass(frozen=True, slots=True)
class ArrayType:
    """A scalar (``ndim == 0``) or an array of a fixed dtype and number of dimensions."""

    dtype: np.dtype
    ndim: int = 0

    @property
    def inexact(self) -> bool:
        """Whether values of this type can carry a derivative (real or complex floating point)."""
        return self.dtype.kind in "fc"

    def with_ndim(self, ndim: int) -> ArrayType:
        return ArrayType(self.dtype, ndim)

    def with_dtype(self, dtype: object) -> ArrayType:
        return ArrayType(np.dtype(dtype), self.ndim)  # type: ignore[call-overload]

    def __str__(self) -> str:
        return self.dtype.name + (f"[{','.join(':' * self.ndim)}]" if self.ndim else "")


@dataclass(frozen=True, slots=True)
class SeqType:
    """A growable sequence (last in, first out at its end) of values of one type; element shapes may differ."""

    elem: Type

    inexact = property(lambda self: self.elem.inexact)

    def __str__(self) -> str:
        return f"seq<{self.elem}>"


Type: TypeAlias = ArrayType | SeqType

BOOL = ArrayType(np.dtype(bool))
I64 = ArrayType(np.dtype(np.int64))
F32 = ArrayType(np.dtype(np.float32))
F64 = ArrayType(np.dtype(np.float64))
C128 = ArrayType(np.dtype(np.complex128))


def real_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of the real part of ``dtype``."""
    return np.empty(0, dtype).real.dtype
