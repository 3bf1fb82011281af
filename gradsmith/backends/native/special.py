"""Pointers to SciPy's C implementations: special functions (cython_special) and BLAS (cython_blas)."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from gradsmith.backends.native.engine import add_symbol

#: operations that are one C function double → double of SciPy, and the symbol under which native code knows it
SPECIAL = {name: f"gradsmith_special_{name}" for name in ("gamma", "gammaln", "digamma")}
_CYTHON_NAMES = {"gamma": "__pyx_fuse_1gamma", "gammaln": "gammaln", "digamma": "__pyx_fuse_1psi"}


def capsule_address(capsule: Any) -> int:
    """The C pointer in a capsule of a Cython module's ``__pyx_capi__``."""
    get_name = ctypes.pythonapi.PyCapsule_GetName
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = get(capsule, get_name(capsule))
    assert address
    return address


@functools.cache
def register_special() -> None:
    """Make the special functions known to native code."""
    from scipy.special import cython_special

    for name, symbol in SPECIAL.items():
        add_symbol(symbol, capsule_address(cython_special.__pyx_capi__[_CYTHON_NAMES[name]]))


@functools.cache
def blas(name: str) -> str:
    """The symbol of a BLAS routine such as ``dgemm``."""
    from scipy.linalg import cython_blas

    symbol = f"gradsmith_blas_{name}"
    add_symbol(symbol, capsule_address(cython_blas.__pyx_capi__[name]))
    return symbol
