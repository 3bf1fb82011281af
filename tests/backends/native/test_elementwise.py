"""Every elementwise operation, on scalars and arrays of every dtype, against NumPy."""

import numpy as np
import pytest

from gradsmith.ir.builder import cast, emit
from gradsmith.ir.ops import ELEMENTWISE
from gradsmith.ir.program import Const
from tests.backends.native.native_programs import agrees

FLOATS = ["float64", "float32", "float16"]
INTS = ["int64", "int32", "int16", "int8", "uint8", "uint32", "uint64"]
COMPLEX = ["complex128", "complex64"]
FLOAT_ONLY = {
    "div",
    "sqrt",
    "cbrt",
    "copysign",
    "nextafter",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sin",
    "cos",
}
FLOAT_ONLY |= {
    "tan",
    "arcsin",
    "arccos",
    "arctan",
    "sinh",
    "cosh",
    "tanh",
    "arcsinh",
    "arccosh",
    "arctanh",
    "arctan2",
    "hypot",
}
FLOAT_ONLY |= {
    "logaddexp",
    "erf",
    "erfc",
    "gamma",
    "gammaln",
    "digamma",
    "expit",
    "polygamma",
    "complex",
    "signbit",
    "fmod",
}
BITS = {"and", "or", "xor", "not", "shl", "shr"}
NO_COMPLEX = {
    "cbrt",
    "floordiv",
    "mod",
    "fmod",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "copysign",
    "nextafter",
    "floor",
    "ceil",
}
NO_COMPLEX |= {
    "trunc",
    "rint",
    "arctan2",
    "hypot",
    "logaddexp",
    "erf",
    "erfc",
    "gamma",
    "gammaln",
    "digamma",
    "expit",
    "polygamma",
}
NO_COMPLEX |= {"complex", "lt", "le", "gt", "ge", "signbit", "sign"} | BITS


def values(dtype: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype).kind
    if kind == "f":
        special = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -2.5, 3.0]
        return np.concatenate([rng.permutation(special), rng.normal(size=27) * 2]).astype(dtype)
    if kind == "c":
        z = rng.normal(size=20) + 1j * rng.normal(size=20)
        return np.concatenate([z, [0, 1, 1j, -1]]).astype(dtype)
    if kind == "b":
        return rng.random(37) < 0.5
    limits = np.iinfo(dtype)
    return (
        np.concatenate([rng.integers(0, 8, 20), [0, 1, 2, 3]]).astype(dtype)
        if kind == "u"
        else np.concatenate([rng.integers(-8, 8, 24), [0, -1, 1, limits.min, limits.max]]).astype(dtype)
    )


def names(kind: str) -> list[str]:
    out = [n for n in ELEMENTWISE if n not in ("cast", "polygamma", "complex")]
    if kind == "f":
        return [n for n in out if n not in BITS]
    if kind == "c":
        return [n for n in out if n not in NO_COMPLEX]
    if kind == "b":
        keep = {
            "and",
            "or",
            "xor",
            "not",
            "eq",
            "ne",
            "lt",
            "le",
            "gt",
            "ge",
            "maximum",
            "minimum",
            "where",
            "add",
            "mul",
        }
        return [n for n in out if n in keep]
    return [n for n in out if n not in FLOAT_ONLY | {"pow", "rint"}]


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS, *COMPLEX, "bool"])
def test_operations(dtype: str) -> None:
    kind = np.dtype(dtype).kind
    chosen = names(kind)
    if dtype == "float16":
        chosen = [
            n
            for n in chosen
            if n not in ("complex", "nextafter", "gamma", "gammaln", "digamma", "erf", "erfc", "expit")
        ]
    kinds = {n: ELEMENTWISE[n][0] for n in chosen}
    x, y = values(dtype, 0), values(dtype, 1)
    if kind in "iu":
        y = np.where(np.abs(y.astype(float)) > 100, np.array(3, dtype), y)
    c = np.arange(x.size) % 3 == 0
    y = y[: x.size]

    def define(x, y, c):
        out = []
        for name, arity in kinds.items():
            args = {"where": [c, x, y]}.get(name, [x, y][:arity])
            if name in ("shl", "shr"):
                args = [x, emit("abs", y)]
            out.append(emit(name, *args))
        return out

    if dtype == "float16":
        return _half(chosen, x, y, c, kinds)
    agrees([x, y, c], define, rtol=1e-12)
    for k in range(0, x.size, 5):
        agrees([x[k], y[k], c[k]], define, rtol=1e-12)


def _half(chosen, x, y, c, kinds) -> None:
    for name in chosen:
        args = [c, x, y] if name == "where" else [x, y][: kinds[name]]
        agrees(args, lambda *a, name=name: emit(name, *a))


@pytest.mark.parametrize("source", [*FLOATS, "int64", "int8", "uint8", "uint64", *COMPLEX, "bool"])
def test_casts(source: str) -> None:
    x = values(source, 2)
    if x.dtype.kind in "fc":
        x = x[np.isfinite(x)]
    if x.dtype.kind == "i":
        x = x[np.abs(x.astype(float)) < 100]
    targets = ["float64", "float32", "int64", "int32", "complex128", "bool", "float16", "complex64"]
    if x.dtype.kind in "ui":
        targets += ["uint8", "int8", "uint64"]
    agrees([x], lambda x: [emit("cast", x, dtype=np.dtype(t)) for t in targets])
    agrees([x[1]], lambda x: [emit("cast", x, dtype=np.dtype(t)) for t in targets])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 4, -1, -2, -3, 0.5, -0.5, 1.5, 7, 100, np.inf, np.nan])
def test_constant_powers(dtype: str, exponent: float) -> None:
    x = values(dtype, 3)
    agrees([x], lambda x: emit("pow", x, Const(np.asarray(exponent, dtype)[()])), rtol=1e-12)
    agrees([x[3]], lambda x: emit("pow", x, Const(np.asarray(exponent, dtype)[()])), rtol=1e-12)


def test_integer_powers() -> None:
    x = np.arange(-5, 6)
    for n in (0, 1, 2, 3, 5, 10):
        agrees([x], lambda x, n=n: emit("pow", x, Const(np.int64(n))))
    agrees([x, np.abs(x)], lambda x, y: emit("pow", x, y))
    agrees([x, x], lambda x, y: emit("pow", x, y))  # NumPy refuses negative exponents


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_complex_parts(dtype: str) -> None:
    x, y = np.linspace(-2, 2, 9).astype(dtype), np.linspace(3, 1, 9).astype(dtype)
    agrees([x, y], lambda x, y: emit("complex", x, y))
    agrees([x[0], y[0]], lambda x, y: emit("complex", x, y))


def test_polygamma() -> None:
    agrees([np.array([1.0, 2.0]), np.array([1.5, 2.5])], lambda n, x: emit("polygamma", n, x))


def test_broadcasting() -> None:
    rng = np.random.default_rng(0)
    x, row, column, s = rng.normal(size=(4, 5)), rng.normal(size=5), rng.normal(size=(4, 1)), 2.5
    agrees([x, row, column, s], lambda x, r, c, s: [x * r + c * s, c * r, (x + s) * (c * r), emit("lt", r, c)])
    # lengths that only turn out to be one when called
    agrees([x, row], lambda x, r: x * r, [x, rng.normal(size=1)], [rng.normal(size=(1, 5)), row], units=False)
    agrees([x, row], lambda x, r: x * r, [x, rng.normal(size=4)], units=False)  # does not broadcast


def test_empty_and_zero_dimensional() -> None:
    agrees([np.zeros((0, 3)), np.ones(3)], lambda x, y: [x + y, emit("sin", x)])
    agrees([np.array(2.0), np.ones(3)], lambda x, y: [x + y, x * x])
    assert isinstance(agrees([np.array(2.0)], lambda x: cast(x, np.float32)), object)
