"""What native code imports: no more of SciPy than it needs, and in a way that leaves SciPy whole for the user."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import numpy as np
import gradsmith as gs

def f(a):
    return np.sum(a @ a)

a = np.arange(1024.0).reshape(32, 32)
first = gs.grad(f)(a)
assert "scipy.linalg" not in sys.modules
import scipy.linalg
import scipy.linalg.cython_blas
assert scipy.linalg.cython_blas.__pyx_capi__["dgemm"]
np.testing.assert_allclose(scipy.linalg.blas.dgemm(1.0, a, a), a @ a)
np.testing.assert_array_equal(gs.grad(f)(a), first)
np.testing.assert_allclose(first, np.add.outer(a.sum(0), a.sum(1)))
"""


def test_a_matrix_product_does_not_import_scipy_linalg():
    subprocess.run([sys.executable, "-c", PROGRAM.replace("gs.grad(f)", "gs.grad(f, engine='tape')")], check=True)
