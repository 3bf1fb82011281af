"""numpy.fft: host operations with rules; transforms over several axes as transforms along each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradsmith.errors import MissingRule
from gradsmith.frontend import stage as st
from gradsmith.frontend.catalogue import defines, implements
from gradsmith.frontend.catalogue.operands import axis_index
from gradsmith.frontend.values import fresh
from gradsmith.ir import builder as ir
from gradsmith.ir.types import ArrayType, real_dtype


def _transform(name: str) -> Callable[..., Any]:
    def call(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None, **options: Any) -> Any:
        if out is not None:
            raise MissingRule(f"numpy.fft.{name} with out= cannot be staged; assign the result")
        x = st.as_value(a)
        complex_dtype = np.result_type(x.dtype if x.dtype.kind in "fc" else np.float64, np.complex64)
        real = real_dtype(complex_dtype)
        x = ir.cast(x, real if name == "rfft" or x.dtype.kind != "c" and name != "irfft" else complex_dtype)
        if name == "rfft" and st.as_value(a).dtype.kind == "c":
            raise TypeError("ufunc 'rfft_n_even' did not contain a loop with signature matching complex input")
        options = {"axis": axis_index(axis, x.ndim)}
        if n is not None:
            options["n"] = int(st.static(n))
        if norm is not None:
            options["norm"] = st.static(norm)
        result = ArrayType(real if name == "irfft" else complex_dtype, x.ndim)
        return fresh(ir.host(f"numpy.fft.{name}", [x], [result], **options))

    call.__name__ = name
    return call


for _name in ("fft", "ifft", "rfft", "irfft"):
    implements(getattr(np.fft, _name))(_transform(_name))


def _axes(a: Any, s: Any, axes: Any) -> Any:
    """Pairs of axis and length."""
    if axes is None:
        axes = range(-len(s), 0) if s is not None else range(-a.ndim, 0)
    lengths = [None] * len(axes) if s is None else [None if n == -1 else n for n in s]
    return list(zip(axes, lengths, strict=True))


def _along_all(transform: Any) -> Callable[..., Any]:
    def call(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Any:
        a = np.asarray(a)
        for axis, n in reversed(_axes(a, s, axes)):
            a = transform(a, n, axis, norm)
        return a

    return call


def _along_two(transform: Any) -> Callable[..., Any]:
    def call(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: Any = None) -> Any:
        return transform(a, s, axes, norm)

    return call


defines(np.fft.fftn)(_along_all(np.fft.fft))
defines(np.fft.ifftn)(_along_all(np.fft.ifft))
for _name in ("fft2", "ifft2", "rfft2", "irfft2"):
    defines(getattr(np.fft, _name))(_along_two(getattr(np.fft, _name.replace("2", "n"))))


@defines(np.fft.rfftn)
def rfftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Any:
    pairs = _axes(np.asarray(a), s, axes)
    a = np.fft.rfft(a, pairs[-1][1], pairs[-1][0], norm)
    for axis, n in pairs[:-1]:
        a = np.fft.fft(a, n, axis, norm)
    return a


@defines(np.fft.irfftn)
def irfftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Any:
    pairs = _axes(np.asarray(a), s, axes)
    for axis, n in pairs[:-1]:
        a = np.fft.ifft(a, n, axis, norm)
    return np.fft.irfft(a, pairs[-1][1], pairs[-1][0], norm)


def _shifted(x: Any, axes: Any, forward: bool) -> Any:
    x = np.asarray(x)
    if axes is None:
        axes = tuple(range(x.ndim))
    for k in axes if isinstance(axes, tuple | list) else (axes,):
        n = x.shape[k]
        x = np.roll(x, n // 2 if forward else -(n // 2), k)
    return x


@defines(np.fft.fftshift)
def fftshift(x: Any, axes: Any = None) -> Any:
    return _shifted(x, axes, True)


@defines(np.fft.ifftshift)
def ifftshift(x: Any, axes: Any = None) -> Any:
    return _shifted(x, axes, False)


@defines(np.fft.fftfreq)
def fftfreq(n: Any, d: Any = 1.0, device: Any = None) -> Any:
    positive = (n - 1) // 2 + 1
    return np.concatenate((np.arange(0, positive), np.arange(-(n // 2), 0))) * (1.0 / (n * d))


@defines(np.fft.rfftfreq)
def rfftfreq(n: Any, d: Any = 1.0, device: Any = None) -> Any:
    return np.arange(0, n // 2 + 1) * (1.0 / (n * d))
