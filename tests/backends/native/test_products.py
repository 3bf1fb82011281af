"""Matrix products of every form: loops and BLAS, vectors, transposed and strided operands, lengths of zero and one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import gradsmith as gs

FORMS = {
    "A B": lambda a, b: a @ b,
    "A' B": lambda a, b: a.T @ b,
    "A B'": lambda a, b: a @ b.T,
    "A' B'": lambda a, b: a.T @ b.T,
    "columns of A left out": lambda a, b: a[:, ::2] @ b,
    "parts": lambda a, b: a[1:] @ b[:, 1:],
    "rows of A reversed": lambda a, b: a[::-1] @ b,
    "A b": lambda a, b: a @ b[:, 0],
    "a B": lambda a, b: a[0] @ b,
    "column of A times B": lambda a, b: a[:, 0] @ b,
    "A times one column": lambda a, b: a @ b[:, 0:1],
    "one row times B": lambda a, b: a[0:1] @ b,
    "a b": lambda a, b: a[0] @ b[:, 0],
    "strided A and b": lambda a, b: a[:, ::2] @ b[::2, 0],
}


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("form", FORMS)
def test_products(form, dtype):
    f = FORMS[form]
    compiled = gs.jit(f)
    random = np.random.default_rng(0)
    tolerance = 1e-3 if dtype in ("f4", "c8") else 1e-11

    def matrix(shape):
        return (random.standard_normal(shape) + (0 if dtype[0] == "f" else 1j * random.standard_normal(shape))).astype(
            dtype
        )

    for rows, inner, columns in itertools.product((0, 1, 3, 24), repeat=3):
        a = matrix((inner, rows) if form.startswith("A'") else (rows, inner))
        b = matrix((columns, inner) if form.endswith("B'") else (inner, columns))
        try:
            expected = f(a, b)
        except (ValueError, IndexError):
            continue
        np.testing.assert_allclose(compiled(a, b), expected, rtol=tolerance, atol=tolerance)
