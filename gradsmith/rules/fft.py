"""Pullbacks and pushforwards of the discrete Fourier transforms of ``numpy.fft``: linear host operations.

A complex transform ``L`` along whole axes is a symmetric matrix, so its adjoint is ``ḡ ↦ conj(L(conj(ḡ)))`` whatever
its normalisation. A transform padded or cut to another length is that of the padded or cut operand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradsmith.ir.builder import cast, conj, const_like, elementwise, emit, full, host, i64, index, set_at, shape, where
from gradsmith.ir.program import Op, Value
from gradsmith.ir.types import ArrayType
from gradsmith.rules.structural import Adjoints

COMPLEX = [f"numpy.fft.{name}" for name in ("fft", "ifft", "fft2", "ifft2", "fftn", "ifftn")]
RFFT, IRFFT = "numpy.fft.rfft", "numpy.fft.irfft"
OPPOSITE = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


def _complex(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Value | None]:
    assert g[0] is not None
    (x,), kwargs = op.args, op.attrs["kwargs"]
    whole = {k: v for k, v in kwargs.items() if k not in ("n", "s")}
    if "s" in kwargs and "axes" not in kwargs and op.attrs["fn"].endswith("n"):
        whole["axes"] = tuple(range(x.ndim - len(kwargs["s"]), x.ndim))
    out = conj(host(op.attrs["fn"], [conj(g[0])], [g[0].type], **whole))
    return [cast(_fit(out, x) if len(whole) != len(kwargs) else out, x.dtype)]


def _fit(out: Value, x: Value) -> Value:
    """``out`` cut or padded with zeros to the shape of ``x``."""
    spec = [("s", False, True, False)] * x.ndim
    cut = index(out, spec, shape(x))
    return set_at(full(const_like(0, out), shape(x)), cut, spec, shape(cut))


def _rfft(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Value | None]:
    (x,), kwargs = op.args, op.attrs["kwargs"]
    (gz,) = g
    assert gz is not None
    axis = kwargs.get("axis", -1) % x.ndim
    n = kwargs.get("n")
    dims = [(i64(n) if n is not None else m) if k == axis else m for k, m in enumerate(shape(x))]
    spec = [("s", False, True, False) if k == axis else ":" for k in range(x.ndim)]
    padded = set_at(full(const_like(0, gz), dims), gz, spec, [emit("dim", gz, axis=axis)])
    whole = {k: v for k, v in kwargs.items() if k != "n"}
    out = conj(host("numpy.fft.fft", [conj(padded)], [gz.type], **whole))
    return [cast(_fit(out, x) if n is not None else out, x.dtype)]


def _irfft(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Value | None]:
    (x,), kwargs = op.args, op.attrs["kwargs"]
    (gz,) = g
    assert gz is not None
    axis = kwargs.get("axis", -1) % x.ndim
    attrs = {"axis": axis, "norm": OPPOSITE[kwargs.get("norm")]}
    out = host(RFFT, [gz], [ArrayType(x.dtype, x.ndim)], **attrs)
    n, m = emit("dim", gz, axis=axis), emit("dim", out, axis=axis)
    k = emit("iota", m, dtype=n.dtype)
    single = elementwise("or", elementwise("eq", k, 0), elementwise("eq", k * 2, n))
    weight = where(single, const_like(1, x), const_like(2, x))
    spec = [":" if j == axis else "n" for j in range(x.ndim)]
    return [_fit(out * index(weight, spec), x)]


def _linear(op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints) -> Sequence[Value | None]:
    assert d[0] is not None
    return [host(op.attrs["fn"], [d[0]], [results[0].type], **op.attrs["kwargs"])]


PULLBACKS: dict[str, Any] = {**dict.fromkeys(COMPLEX, _complex), RFFT: _rfft, IRFFT: _irfft}
PUSHFORWARDS: dict[str, Any] = dict.fromkeys([*COMPLEX, RFFT, IRFFT], _linear)
