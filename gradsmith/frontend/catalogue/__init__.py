"""The fate of library functions called with symbolic values: an implementation on front-end values, or a definition.

An *implementation* (:func:`implements`) receives the call's arguments as they are (concrete objects and
:class:`~gradsmith.frontend.values.Scalar` / :class:`~gradsmith.frontend.values.Array`) and emits operations.
A *definition* (:func:`defines`) is plain NumPy code that is staged in place of the function, like the user's own.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

_IMPLEMENTATIONS: dict[Any, Callable[..., Any]] = {}
_DEFINITIONS: dict[Any, Callable[..., Any]] = {}
#: name of an ndarray / NumPy scalar method → implementation taking the array first
METHODS: dict[str, Callable[..., Any]] = {}
#: name of an ndarray / NumPy scalar attribute → implementation taking the array
ATTRIBUTES: dict[str, Callable[..., Any]] = {}


def implements(*functions: Any, method: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register an implementation for library ``functions``, and for the ndarray method of name ``method``."""

    def register(implementation: Callable[..., Any]) -> Callable[..., Any]:
        for function in functions:
            _IMPLEMENTATIONS[function] = implementation
        if method:
            METHODS[method] = implementation
        return implementation

    return register


def defines(*functions: Any, method: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register plain NumPy code to be staged in place of library ``functions`` and of the ndarray method ``method``."""

    def register(definition: Callable[..., Any]) -> Callable[..., Any]:
        for function in functions:
            _DEFINITIONS[function] = definition
        if method:
            METHODS[method] = definition
            _DEFINITIONS[definition] = definition
        return definition

    return register


def attribute(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the implementation of an ndarray attribute."""

    def register(implementation: Callable[..., Any]) -> Callable[..., Any]:
        ATTRIBUTES[name] = implementation
        return implementation

    return register


def alias(function: Any, original: Any) -> None:
    """Give ``function`` the fate of ``original``."""
    for table in (_IMPLEMENTATIONS, _DEFINITIONS):
        if original in table:
            table[function] = table[original]


def find(function: Any) -> Callable[..., Any] | None:
    """The implementation of a library function, or None."""
    load()
    try:
        return _IMPLEMENTATIONS.get(function)
    except TypeError:  # an unhashable callable has no entry
        return None


def find_definition(function: Any) -> Callable[..., Any] | None:
    """The plain NumPy code to stage in place of a library function, or None."""
    load()
    try:
        return _DEFINITIONS.get(function)
    except TypeError:
        return None


def is_definition(implementation: Any) -> bool:
    """Whether what :func:`find` or :func:`find_definition` gave is plain NumPy code to stage."""
    return implementation in _definitions(len(_DEFINITIONS))


@functools.lru_cache(maxsize=1)
def _definitions(number: int) -> frozenset[Any]:
    return frozenset(_DEFINITIONS.values())


#: part of the catalogue → the library it is about (None: always there). A part is loaded once the user's program has
#: imported its library: importing SciPy takes longer than anything else here
_PARTS: dict[str, str | None] = {
    **dict.fromkeys(["elementwise", "creation", "shaping", "joining", "placing", "reductions", "linalg", "einsum"]),
    **dict.fromkeys(["python_math", "definitions", "iteration", "statistics", "calculus", "polynomials", "norms"]),
    "special": "scipy.special",
    "scipy_linalg": "scipy.linalg",
    "fft": "numpy.fft",
    "scipy_fft": "scipy.fft",
    "polynomial_bases": "numpy.polynomial",
}
_waiting = dict(_PARTS)
_imported = 0  # how many modules there were when parts were loaded last


def load() -> None:
    """Load the parts whose library is there."""
    global _imported
    if _waiting and _imported != len(sys.modules):
        _imported = len(sys.modules)
        for part in [p for p, library in _waiting.items() if library is None or library in sys.modules]:
            del _waiting[part]
            importlib.import_module(f"{__name__}.{part}")
        for name, found in METHODS.items():  # np.ndarray.sum(x) has the fate of x.sum()
            function = getattr(np.ndarray, name, None)
            if function is not None:
                (_DEFINITIONS if found in _DEFINITIONS else _IMPLEMENTATIONS).setdefault(function, found)
