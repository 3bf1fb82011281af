"""Pointers to SciPy's C implementations: special functions (cython_special) and BLAS (cython_blas)."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
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
    symbol = f"gradsmith_blas_{name}"
    add_symbol(symbol, capsule_address(_cython_blas().__pyx_capi__[name]))
    return symbol


@functools.cache
def _cython_blas() -> Any:
    """The module ``scipy.linalg.cython_blas``, without the rest of ``scipy.linalg``, whose import takes long."""
    import scipy

    name = "scipy.linalg.cython_blas"
    folder = Path(scipy.__file__).parent / "linalg"
    files = [file for suffix in EXTENSION_SUFFIXES if (file := folder / f"cython_blas{suffix}").exists()]
    if "scipy.linalg" in sys.modules or not files:
        return importlib.import_module(name)
    spec = importlib.util.spec_from_file_location(name, files[0])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules.pop(name, None)  # it enters itself; an import by the user must still bind it in its package
    return module
