"""A table of NumPy, SciPy and math calls: plain functions with sample arguments, judged by the libraries themselves.

Each case has a name, a function in plain NumPy, kinds of arguments, and whether its result is differentiable.
:func:`samples` draws the arguments in two variants with different lengths, so that a Program staged with one is run
with the other.
"""

# ruff: noqa: B008

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.fft
import scipy.linalg
import scipy.special

SIZES = [(4, 3), (6, 5)]
Draw = Callable[[np.random.Generator, int, int], Any]

#: kinds of arguments, for sizes n (even) and m (odd)
KINDS: dict[str, Draw] = {
    "s": lambda r, n, m: float(r.uniform(0.2, 0.9)),
    "S": lambda r, n, m: float(r.uniform(1.2, 2.5)),
    "z": lambda r, n, m: complex(r.uniform(0.2, 0.9), r.uniform(0.2, 0.9)),
    "k": lambda r, n, m: int(r.integers(1, 3)),
    "g": lambda r, n, m: np.float64(r.uniform(0.2, 0.9)),
    "0": lambda r, n, m: np.array(r.uniform(0.2, 0.9)),
    "v": lambda r, n, m: r.uniform(-2, 2, n),
    "u": lambda r, n, m: r.uniform(0.1, 0.9, n),
    "w": lambda r, n, m: r.uniform(-2, 2, m),
    "p": lambda r, n, m: r.uniform(1.1, 3, n),
    "f": lambda r, n, m: r.uniform(0.1, 0.9, n).astype(np.float32),
    "i": lambda r, n, m: r.integers(-5, 6, n),
    "j": lambda r, n, m: r.integers(0, 3, n),
    "b": lambda r, n, m: r.permutation(np.arange(n) % 3 == 0),
    "c": lambda r, n, m: r.uniform(-1, 1, n) + 1j * r.uniform(-1, 1, n),
    "o": lambda r, n, m: np.sort(r.uniform(-2, 2, n)),
    "M": lambda r, n, m: r.uniform(-2, 2, (n, m)),
    "N": lambda r, n, m: r.uniform(-2, 2, (m, n)),
    "U": lambda r, n, m: r.uniform(0.1, 0.9, (n, m)),
    "Z": lambda r, n, m: r.uniform(-1, 1, (n, m)) + 1j * r.uniform(-1, 1, (n, m)),
    "F": lambda r, n, m: r.uniform(-1, 1, (n, m)).astype(np.float32),
    "I": lambda r, n, m: r.integers(-5, 6, (n, m)),
    "B": lambda r, n, m: r.permutation(np.arange(n * m) % 3 == 0).reshape(n, m),
    "Q": lambda r, n, m: r.uniform(-1, 1, (n, n)) + n * np.eye(n),
    "H": lambda r, n, m: _positive(r.uniform(-1, 1, (n, n))),
    "C": lambda r, n, m: r.uniform(-1, 1, (n, n)) + 1j * r.uniform(-1, 1, (n, n)) + n * np.eye(n),
    "T": lambda r, n, m: r.uniform(-2, 2, (2, n, m)),
    "K": lambda r, n, m: r.uniform(-1, 1, (2, n, n)) + n * np.eye(n),
}


def _positive(x: np.ndarray) -> np.ndarray:
    return x @ x.T + len(x) * np.eye(len(x))


@dataclass(frozen=True)
class Case:
    """``function(*arguments)`` with arguments of these kinds (one letter each)."""

    name: str
    function: Callable[..., Any]
    kinds: str
    differentiable: bool = True


def samples(case: Case, variant: int) -> list[Any]:
    """Arguments for a case; variants 0 and 1 have different lengths and values."""
    rng = np.random.default_rng(sum(map(ord, case.name)) + 1000 * variant)
    return [KINDS[k](rng, *SIZES[variant]) for k in case.kinds]


CASES: list[Case] = []


def smooth(name: str, function: Callable[..., Any], *kinds: str) -> None:
    """Differentiable cases, one for each string of kinds."""
    for kind in kinds:
        CASES.append(Case(f"{name} {kind}", function, kind))


def discrete(name: str, function: Callable[..., Any], *kinds: str) -> None:
    """Cases whose result is integer, bool or piecewise constant, or whose arguments are not real numbers."""
    for kind in kinds:
        CASES.append(Case(f"{name} {kind}", function, kind, False))


# ---- ufuncs ----------------------------------------------------------------------------------------------------------

for _name in """sin cos tan sinh cosh tanh arcsinh arctan exp exp2 expm1 cbrt square positive negative absolute fabs
    deg2rad rad2deg degrees radians sinc i0""".split():
    smooth(_name, lambda x, f=getattr(np, _name): f(x), "v", "s", "0", "M", "f")
for _name in "sqrt log log2 log10 log1p arcsin arccos arctanh reciprocal".split():
    smooth(_name, lambda x, f=getattr(np, _name): f(x), "u", "s", "g", "U", "f")
smooth("arccosh", lambda x: np.arccosh(x), "p", "S")
for _name in """add subtract multiply divide arctan2 hypot maximum minimum fmax fmin logaddexp logaddexp2
    copysign""".split():
    smooth(_name, lambda x, y, f=getattr(np, _name): f(x, y), "vv", "vs", "sv", "ss", "Mw", "ff")
smooth("power", lambda x, y: np.power(x, y), "uv", "us", "su", "ff")
smooth("float_power", lambda x, y: np.float_power(x, y), "uv", "us")
smooth("fmod", lambda x, y: np.fmod(x, y), "vp", "vS")
smooth("mod", lambda x, y: np.mod(x, y), "vp", "vS")
smooth("remainder", lambda x, y: np.remainder(x, y), "sS")
smooth("divmod", lambda x, y: np.divmod(x, y), "vp", "sS")
smooth("modf", lambda x: np.modf(x), "v", "s")
smooth("frexp", lambda x: np.frexp(x)[0], "v", "s")
discrete("frexp exponent", lambda x: np.frexp(x), "v", "s")
smooth("ldexp", lambda x: np.ldexp(x, 3), "v", "s")
smooth("ldexp array", lambda x, j: np.ldexp(x, j), "vj")
smooth("heaviside", lambda x, y: np.heaviside(x, y), "vs")
for (
    _name
) in "sign floor ceil trunc rint fix isnan isinf isfinite signbit spacing isposinf isneginf logical_not".split():
    discrete(_name, lambda x, f=getattr(np, _name): f(x), "v", "s", "f", "0")
for (
    _name
) in "floor_divide equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor".split():
    discrete(_name, lambda x, y, f=getattr(np, _name): f(x, y), "vv", "vs", "ii", "ik")
for _name in "bitwise_and bitwise_or bitwise_xor gcd lcm".split():
    discrete(_name, lambda x, y, f=getattr(np, _name): f(x, y), "ii", "ik")
for _name in "left_shift right_shift".split():
    discrete(_name, lambda x, y, f=getattr(np, _name): f(x, y), "ij", "ik")
for _name in "invert negative absolute sign square floor ceil isfinite isnan conj bitwise_count sqrt exp sin".split():
    discrete(_name + " int", lambda x, f=getattr(np, _name): f(x * x + 1), "i")
for _name in "add multiply maximum minimum logical_and bitwise_xor".split():
    discrete(_name + " bool", lambda x, f=getattr(np, _name): f(x, ~x), "b")
discrete("nextafter", lambda x, y: np.nextafter(x, y), "vv", "vs")
discrete("int power", lambda x, y: np.power(x, y), "jj")
smooth("power 2", lambda x: x**2, "v", "s", "f")
discrete("power 2", lambda x: x**2, "i")
smooth("power -1", lambda x: x**-1.0, "u")
for _name in "sin exp log sqrt conj square reciprocal tanh".split():
    discrete(_name + " complex", lambda x, f=getattr(np, _name): f(x), "c", "z", "Z")
smooth("abs complex", lambda x: np.abs(x), "c", "z")
smooth("angle", lambda x: np.angle(x), "c", "z")
smooth("angle deg", lambda x: np.angle(x, deg=True), "c")
smooth("real", lambda x: np.real(x), "c", "z", "v", "s")
smooth("imag", lambda x: np.imag(x), "c", "z", "v")
smooth("real_if", lambda x: x.real + x.imag, "c", "v", "z", "g")
discrete("isreal", lambda x: (np.isreal(x), np.iscomplex(x)), "c", "v")
smooth("where", lambda x, y: np.where(x > 0, x * y, y), "vv", "vs", "Mw")
smooth("where weak", lambda x: np.where(x > 0.5, x, 0), "f", "v")
smooth("clip", lambda x: np.clip(x, -1, 1), "v", "M", "f", "s")
smooth("clip method", lambda x, y: x.clip(y), "vv")
smooth("clip max", lambda x: np.clip(x, None, 0.5), "v")
smooth("clip keywords", lambda x: np.clip(x, min=-0.5, max=0.5), "v")
discrete("clip int", lambda x: np.clip(x, -1, 2), "i")
smooth("select", lambda x: np.select([x < -1, x < 0.5], [x, x**2], 3.0), "v")
smooth("piecewise", lambda x: np.piecewise(x, [x < 0, x >= 1], [lambda t: -t, lambda t: t**2, 0.5]), "v")
smooth("choose", lambda x, y, i: np.choose(i, [x, y, x * y]), "vvj")
smooth("nan_to_num", lambda x: np.nan_to_num(np.where(x > 1, np.nan, np.where(x < -1, np.inf, x)), posinf=1.0), "v")
smooth("round", lambda x: np.round(x, 1), "v", "s")
discrete("round method", lambda x: x.round(2), "v", "g")
discrete("round int", lambda x: (np.round(x), np.round(x, -1)), "i")
smooth("ufunc out", lambda x, y: np.multiply(x, y, out=np.zeros_like(x)), "vv")
smooth("ufunc where", lambda x: np.log(x, out=np.zeros_like(x), where=x > 0), "v")
smooth("ufunc dtype", lambda x: np.add(x, 1, dtype=np.float64), "f")
smooth("add.reduce", lambda x: np.add.reduce(x), "M", "v")
smooth("add.reduce axis", lambda x: np.add.reduce(x, axis=None), "M")
smooth("maximum.reduce", lambda x: np.maximum.reduce(x, axis=1), "M")
smooth("multiply.outer", lambda x, y: np.multiply.outer(x, y), "vw", "Mv", "sv")
smooth("add.outer", lambda x, y: np.add.outer(x, y), "vw")
smooth("add.accumulate", lambda x: np.add.accumulate(x, axis=0), "M", "v")
smooth("maximum.accumulate", lambda x: np.maximum.accumulate(x), "v")
smooth("logaddexp.reduce", lambda x: np.logaddexp.reduce(x), "v", "M")
smooth("hypot.reduce", lambda x: np.hypot.reduce(x, axis=0), "v", "M")


def _add_at(x: Any, y: Any) -> Any:
    out = x * 1.0
    np.add.at(out, [0, 1, 0], y[:3])
    return out


smooth("add.at", _add_at, "vv")
discrete("isclose", lambda x, y: np.isclose(x, y, rtol=1.0), "vv", "vs")
discrete("allclose", lambda x, y: np.allclose(x, y, atol=9.0), "vv")

# ---- making arrays ---------------------------------------------------------------------------------------------------

smooth("array list", lambda x, y: np.array([x, y, 1.0]), "ss")
smooth("array nested", lambda x, y: np.array([[x, 1], [2.0, y]]), "ss", "gs")
smooth("array of rows", lambda x: np.array([x, x * 2]), "v")
smooth("array copy", lambda x: np.array(x), "v", "s")
smooth("array ndmin", lambda x: np.array(x, ndmin=2), "v", "s")
smooth("array dtype", lambda x: np.array(x, dtype=float), "f", "v")
smooth("asarray", lambda x: np.asarray(x), "v", "s", "g")
smooth("asarray list", lambda x: np.asarray([x, 2.0]), "s")
smooth("asanyarray", lambda x: np.asanyarray(x), "v")
smooth("ascontiguousarray", lambda x: np.ascontiguousarray(x.T), "M", "v")
smooth("copy", lambda x: (x.copy(), np.copy(x)), "v")
smooth("astype", lambda x: x.astype(np.float64), "f", "v", "g")
discrete("astype int", lambda x: (x.astype(int), x.astype(bool), x.astype(np.complex128)), "v")
smooth("float64", lambda x: np.float64(x), "s", "v", "g", "0")
discrete("float32", lambda x: np.float32(x), "f", "s")
discrete("int64", lambda x: (np.int64(x), np.int32(x), np.bool_(x), np.complex128(x)), "s", "v")
smooth("zeros_like", lambda x: x * np.zeros_like(x) + np.ones_like(x) + np.full_like(x, 2), "v", "M", "f")
smooth("full", lambda x, k: np.full((3, k), x), "sk")
smooth("full array", lambda x, k: np.full((k, len(x)), x), "vk")
discrete(
    "zeros", lambda x: (np.zeros(len(x)), np.ones(x.shape), np.empty(x.shape).shape, np.zeros(x.shape, int)), "M", "v"
)
discrete(
    "arange",
    lambda k: (np.arange(k), np.arange(k, 7), np.arange(7, k, -2), np.arange(k + 0.0), np.arange(k, 9, 2.0)),
    "k",
)
smooth("arange float", lambda s: np.arange(s, s + 2.1, 0.25), "s")
smooth("arange scaled", lambda x: np.arange(len(x)) * x, "v")
smooth("linspace", lambda x, y: np.linspace(x, y, 7), "ss", "vv", "gS")
smooth("linspace options", lambda x, y: np.linspace(x, y, 5, endpoint=False, retstep=True), "ss")
smooth("linspace len", lambda x: np.linspace(0, 1, len(x)) * x, "v")
smooth("logspace", lambda x, y: np.logspace(x, y, 5), "ss")
smooth("geomspace", lambda x, y: np.geomspace(x, y, 5), "sS")
discrete(
    "eye", lambda x: (np.eye(len(x)), np.eye(len(x), 3, 1), np.identity(len(x)), np.eye(3, len(x), -1, dtype=int)), "v"
)
discrete("tri", lambda x: (np.tri(len(x)), np.tri(len(x), 3, -1, dtype=int)), "v")
smooth("diag", lambda x: (np.diag(x), np.diag(x, 1), np.diag(x, -2)), "v")
smooth("diag of matrix", lambda x: (np.diag(x), np.diag(x, 1), np.diag(x, -1)), "M")
smooth("diagflat", lambda x: np.diagflat(x), "v")
smooth("triu", lambda x: (np.triu(x), np.triu(x, 1), np.tril(x, -1)), "M", "T")
smooth("triu vector", lambda x: np.triu(x), "v")
smooth("vander", lambda x: (np.vander(x), np.vander(x, 3, increasing=True)), "v")
smooth("meshgrid", lambda x, y: np.meshgrid(x, y), "vw")
smooth("meshgrid ij", lambda x, y: np.meshgrid(x, y, indexing="ij", sparse=True), "vw")
discrete("indices", lambda x: np.indices(x.shape), "M")
smooth("fromfunction", lambda x: np.fromfunction(lambda i, j: i * x + j, (3, 4)), "s")
smooth("broadcast_to", lambda x: np.broadcast_to(x, (3, len(x))), "v")
smooth("broadcast_arrays", lambda x, y: np.broadcast_arrays(x, y), "Mw")
discrete(
    "shape", lambda x: (x.shape[0] * x.size, x.ndim, np.shape(x), np.size(x), np.size(x, 0), len(x), x.nbytes), "M", "v"
)
discrete("triu_indices", lambda x: np.triu_indices(len(x), 1) + np.tril_indices(len(x)), "v")
smooth("item", lambda x: (x.item(0), x[:1].item()), "v")
discrete("array_equal", lambda x: (np.array_equal(x, x), np.array_equal(x, x + 1), np.array_equiv(x, x)), "v")

# ---- rearranging -----------------------------------------------------------------------------------------------------

smooth("reshape", lambda x: (np.reshape(x, (2, -1)), x.reshape(-1), x.reshape(2, -1), x.reshape((1, -1, 1))), "v", "M")
smooth("reshape F", lambda x: np.reshape(x, (-1, 2), order="F"), "M")
smooth("ravel", lambda x: (np.ravel(x), x.ravel(), x.flatten(), x.T.ravel()), "M", "T")
smooth("transpose", lambda x: (x.T, np.transpose(x), x.transpose()), "M", "T", "v")
smooth("transpose axes", lambda x: (x.transpose(1, 0, 2), np.transpose(x, (2, 0, 1)), x.transpose((0, 2, 1))), "T")
smooth("swapaxes", lambda x: (np.swapaxes(x, 0, -1), x.swapaxes(0, 1)), "T", "M")
smooth("moveaxis", lambda x: (np.moveaxis(x, 0, -1), np.moveaxis(x, [0, 1], [-1, 0]), np.rollaxis(x, 2)), "T")
smooth("expand_dims", lambda x: (np.expand_dims(x, 0), np.expand_dims(x, (0, 2)), np.expand_dims(x, -1)), "v")
smooth("squeeze", lambda x: (np.squeeze(x[None]), x[:, None].squeeze(1), np.squeeze(x[None, :, None])), "v")
smooth("atleast", lambda x: (np.atleast_1d(x), np.atleast_2d(x), np.atleast_3d(x)), "v", "s", "M")
smooth("concatenate", lambda x, y: (np.concatenate([x, y]), np.concatenate((x, y, [1, 2]), axis=0)), "vw")
smooth("concatenate axis", lambda x: (np.concatenate([x, x * 2], axis=1), np.concatenate([x, x], None)), "M")
smooth("stack", lambda x, y: (np.stack([x, y]), np.stack([x, y], axis=1), np.stack((x, y), -1)), "vv")
smooth("stack numbers", lambda x, y: (np.stack([x, y]), np.stack((x, y), -1)), "ss")
smooth(
    "hstack",
    lambda x, y: (np.hstack([x, y]), np.vstack([x, y]), np.dstack([x, y]), np.column_stack([x, y])),
    "vv",
    "ss",
)
smooth("hstack matrix", lambda x: (np.hstack([x, x]), np.vstack([x, x[0]]), np.column_stack([x, x[:, 0]])), "M")
smooth("block", lambda x: np.block([[x, x * 2], [x, np.zeros_like(x)]]), "M", "s")
smooth("append", lambda x, y: (np.append(x, y), np.append(x, 3.0)), "vw", "Mv")
smooth("repeat", lambda x: (np.repeat(x, 2), x.repeat(3, axis=0)), "v", "M")
smooth("repeat counts", lambda x, j: np.repeat(x, j), "vj")
smooth("tile", lambda x: (np.tile(x, 2), np.tile(x, (2, 3)), np.tile(x, (2, 1, 2))), "v", "M", "s")
smooth("flip", lambda x: (np.flip(x), np.flip(x, 0), np.flipud(x)), "v", "M")
smooth("fliplr", lambda x: (np.fliplr(x), np.rot90(x), np.rot90(x, 2), np.rot90(x, -1)), "M")
smooth("roll", lambda x: (np.roll(x, 1), np.roll(x, -2), np.roll(x, 11)), "v", "M")
smooth("roll axis", lambda x: (np.roll(x, 1, axis=0), np.roll(x, (1, 2), axis=(0, 1))), "M")
smooth("split", lambda x: np.split(x, 2), "v", "M")
smooth("split at", lambda x: np.split(x, [1, 3]), "v", "M")
smooth("array_split", lambda x: np.array_split(x, 3), "v", "M")
smooth("hsplit", lambda x: np.hsplit(x, [1]) + np.vsplit(x, 2), "M")
smooth("diff", lambda x: (np.diff(x), np.diff(x, 2), np.diff(x, axis=0)), "v", "M")
smooth("diff prepend", lambda x: np.diff(x, prepend=0.0, append=x[:1]), "v")
smooth("ediff1d", lambda x: (np.ediff1d(x), np.ediff1d(x, to_begin=0.0, to_end=[1.0, 2.0])), "v")
smooth("diagonal", lambda x: (np.diagonal(x), x.diagonal(1), np.diagonal(x, -1, 1, 0)), "M")
smooth("diagonal 3", lambda x: (np.diagonal(x, 0, 1, 2), np.diagonal(x, axis1=0, axis2=2)), "T")
smooth("trace", lambda x: (np.trace(x), x.trace(1)), "M", "Q")
smooth("trace 3", lambda x: np.trace(x, axis1=1, axis2=2), "T")
smooth("take", lambda x: (np.take(x, [0, 2, 0]), x.take(1), np.take(x, [[0], [1]], mode="wrap")), "v")
smooth(
    "take axis",
    lambda x: (np.take(x, [0, 2, 0], axis=1), np.take(x, 1, axis=0), np.take(x, [7, -9], 0, mode="clip")),
    "M",
)
smooth("take_along_axis", lambda x: np.take_along_axis(x, np.argsort(x, axis=1), axis=1), "M")
smooth("compress", lambda x: (np.compress(x[:, 0] > 0, x, axis=0), x[:, 0].compress([True, False, True])), "M")
smooth("extract", lambda x: np.extract(x > 0, x), "v", "M")
smooth("delete", lambda x: (np.delete(x, 1, 0), np.delete(x, [0, 2], axis=0), np.delete(x, slice(0, 2), 0)), "v", "M")
smooth("insert", lambda x, s: (np.insert(x, 1, s), np.insert(x, [0, 2], [s, s * 2]), np.insert(x, [1], [s, 1.0])), "vs")
smooth("insert axis", lambda x: np.insert(x, 1, 5.0, axis=1), "M")
smooth("resize", lambda x: np.resize(x, (3, 5)), "v")
smooth("pad", lambda x: (np.pad(x, 1), np.pad(x, (1, 2), constant_values=3.0)), "v", "M")
smooth("pad edge", lambda x: (np.pad(x, 2, mode="edge"), np.pad(x, (1, 2), mode="wrap")), "v", "M")
smooth("pad reflect", lambda x: (np.pad(x, 2, mode="reflect"), np.pad(x, (1, 2), mode="symmetric")), "v", "M")
discrete("nonzero", lambda x: (np.nonzero(x > 0), np.flatnonzero(x > 0), np.argwhere(x > 0)), "v", "M")
discrete(
    "searchsorted", lambda x, y: (np.searchsorted(x, y), x.searchsorted(y, side="right"), np.digitize(y, x)), "ov", "oM"
)
smooth("where nonzero", lambda x: x[np.where(x > 0)], "v", "M")
discrete("argsort", lambda x: (np.argsort(x, axis=0), x.argsort(), np.lexsort((x, x))), "v")
smooth("sort", lambda x: (np.sort(x), np.sort(x, axis=0), np.sort(x, axis=None)), "v", "M")
smooth("partition", lambda x: np.partition(x, 1)[:2], "v")
smooth("unique", lambda x: np.unique(x), "v", "M")
discrete("unique options", lambda i: np.unique(i, return_index=True, return_inverse=True, return_counts=True), "i", "I")
discrete("unravel_index", lambda j: (np.unravel_index(j, (2, 5)), np.ravel_multi_index((j, j), (3, 4))), "j")
smooth("unstack", lambda x: np.unstack(x[:2]), "M")


def _write(write: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: Any, y: Any) -> Any:
        out = x * 2.0
        write(out, y)
        return out

    return run


smooth("put", _write(lambda x, y: np.put(x, [0, 2], y)), "vv", "Mv", "vs")
smooth("place", _write(lambda x, y: np.place(x, x > 0, y)), "vv", "Mv")
smooth("putmask", _write(lambda x, y: np.putmask(x, x > 0, y)), "vv", "vw")
smooth("copyto", _write(lambda x, y: np.copyto(x, y, where=x > 0)), "vv", "vs")
smooth("fill_diagonal", _write(lambda x, y: np.fill_diagonal(x, y)), "Ms", "Mv")
smooth("fill", _write(lambda x, y: x.fill(y)), "vs")
smooth("sort in place", _write(lambda x, y: x.sort()), "vs", "Ms")
smooth("put_along_axis", _write(lambda x, y: np.put_along_axis(x, np.argmax(x, 1)[:, None], y, 1)), "Ms")


def _write_flat(x: Any, y: Any) -> Any:
    out = x * 2.0
    out.T.flat[2] = y
    return out


smooth("flat", _write_flat, "Ms")


def _write_views(x: Any, y: Any) -> Any:
    a = x * 1.0
    a.T[0] = y
    a.reshape(-1)[1] = 5.0
    np.expand_dims(a, 0)[0, 1] *= 2
    np.flip(a, 0)[0] += 1
    np.swapaxes(a, 0, 1)[1, 2] = 7.0
    np.split(a, 2)[1][:] *= 3
    return a


smooth("write views", _write_views, "Mv", "Ms")

# ---- reductions ------------------------------------------------------------------------------------------------------

for _name in "sum mean prod max min ptp var std nansum nanmean nanprod nanmax nanmin nanvar nanstd".split():
    smooth(
        _name, lambda x, f=getattr(np, _name): (f(x), f(x, axis=0), f(x, axis=-1, keepdims=True)), "M", "T", "v", "f"
    )
    smooth(_name + " axes", lambda x, f=getattr(np, _name): f(x, axis=(0, 2)), "T")
for _name in "sum mean prod max min var std".split():
    smooth(_name + " method", lambda x, f=_name: (getattr(x, f)(), getattr(x, f)(0), getattr(x, f)(axis=0)), "M", "v")
    discrete(_name + " int", lambda x, f=getattr(np, _name): f(x, axis=0), "i", "I")
    smooth(_name + " number", lambda x, f=getattr(np, _name): f(x), "s", "g", "0")
    smooth(_name + " list", lambda x, y, f=getattr(np, _name): f([x, y, 3.0]), "ss")
for _name in "any all count_nonzero argmax argmin".split():
    discrete(
        _name, lambda x, f=getattr(np, _name): (f(x), f(x, axis=0), f(x, axis=-1, keepdims=True)), "M", "T", "v", "B"
    )
smooth("sum dtype", lambda x: np.sum(x, dtype=np.float64), "f")
smooth("sum where", lambda x: np.sum(x, axis=0, where=x > 0, initial=2.0), "M")
discrete("sum bool", lambda x: (np.sum(x > 0), np.mean(x > 0), (x > 0).any(), (x > 0).all(0)), "M")
smooth("max initial", lambda x: (np.max(x, initial=0.5), np.min(x, axis=0, initial=0.0, where=x > 0)), "M")
smooth("mean where", lambda x: np.mean(x, axis=0, where=x > -1.5), "M")
smooth("var ddof", lambda x: (np.var(x, ddof=1), np.std(x, axis=0, ddof=1)), "M")
smooth("var complex", lambda x: (np.var(x), np.mean(x).real, np.sum(x).imag), "c")
smooth("cumsum", lambda x: (np.cumsum(x), np.cumsum(x, axis=0), x.cumsum(-1)), "M", "v", "f")
smooth("cumprod", lambda x: (np.cumprod(x), x.cumprod(0)), "M", "v")
smooth("average", lambda x, y: (np.average(x), np.average(x, weights=y)), "vu")
smooth("average axis", lambda x, u: (np.average(x, axis=0, weights=u), np.average(x, 1)), "Mu")
smooth("median", lambda x: (np.median(x), np.median(x, axis=0), np.median(x, axis=1, keepdims=True)), "M")
smooth("median odd", lambda x: np.median(x), "w", "v")
smooth("percentile", lambda x: (np.percentile(x, 30), np.percentile(x, [10, 75], axis=0)), "M", "v")
smooth("quantile", lambda x, s: (np.quantile(x, s), np.quantile(x, 0.25, axis=-1, keepdims=True)), "Ms")
discrete("nanargmax", lambda x: (np.nanargmax(x), np.nanargmin(x, axis=0)), "M")
smooth("nanmedian", lambda x: np.nanmean(np.where(x > 1, np.nan, x)), "M")
smooth("cov", lambda x: (np.cov(x), np.cov(x, rowvar=False), np.cov(x[0], x[1])), "M")
smooth("corrcoef", lambda x: (np.corrcoef(x), np.corrcoef(x[0], x[1])), "M")
discrete(
    "histogram", lambda x: (np.histogram(x, 4, (-2.0, 2.0))[0], np.histogram(x, bins=[-2.0, -1.0, 0.5, 2.0])[0]), "v"
)
smooth("histogram edges", lambda x: np.histogram(x, 3)[1], "v")
smooth("bincount", lambda j, x: np.bincount(j, weights=x, minlength=4), "jv")
discrete("bincount counts", lambda j: np.bincount(j), "j")

# ---- calculus and signals --------------------------------------------------------------------------------------------

smooth("gradient", lambda x: (np.gradient(x), np.gradient(x, 0.5), np.gradient(x, edge_order=2)), "v")
smooth("gradient axis", lambda x: np.gradient(x), "M")
smooth("gradient spaced", lambda x, y: np.gradient(x, y), "vo")
smooth("trapezoid", lambda x: (np.trapezoid(x), np.trapezoid(x, dx=0.1)), "v", "M")
smooth("trapezoid x", lambda x, y: np.trapezoid(x, y), "vo")
smooth("interp", lambda x, y, z: np.interp(x, y, z), "vov", "sov", "Mov")
smooth("interp options", lambda x, y, z: np.interp(x, y, z, left=0.0, right=1.0), "vov")
smooth("convolve", lambda x, y: (np.convolve(x, y), np.convolve(x, y, "same"), np.convolve(x, y, "valid")), "vw")
smooth("correlate", lambda x, y: (np.correlate(x, y), np.correlate(x, y, "full"), np.correlate(x, y, "same")), "vw")
smooth("polyval", lambda p, x: np.polyval(p, x), "vs", "vv", "vM")
smooth("polyval list", lambda s, x: np.polyval([s, 1.0, 2.0], x), "sv")
smooth("polyder", lambda p: (np.polyder(p), np.polyint(p), np.polymul(p, p), np.polyadd(p, [1.0, 2.0])), "v")
smooth("polyfit", lambda x, y: np.polyfit(x, y, 2), "ov")
smooth("unwrap", lambda x: np.unwrap(x * 4), "v")
smooth("vectorize", lambda x: np.vectorize(lambda t: t * t + 1.0)(x), "v", "M")
smooth("apply_along_axis", lambda x: np.apply_along_axis(lambda row: row / row.sum(), 1, x), "U")

# ---- linear algebra --------------------------------------------------------------------------------------------------

smooth("dot", lambda x, y: np.dot(x, y), "vv", "NM", "Mw", "sv", "vM", "TN")
smooth("dot method", lambda x, y: x.dot(y), "NM", "vv")
smooth("dot 3", lambda x, y: np.dot(x.T, y), "MT")
smooth("matmul", lambda x, y: (np.matmul(x, y), x @ y), "vv", "NM", "Mw", "vM", "TN")
smooth("matmul stack", lambda x: x @ x.transpose(0, 2, 1), "T")
smooth("inner", lambda x, y: np.inner(x, y), "vv", "MT", "sv")
smooth("outer", lambda x, y: np.outer(x, y), "vw", "Ms")
smooth("vdot", lambda x, y: np.vdot(x, y), "vv", "MM")
discrete("vdot complex", lambda x, y: (np.vdot(x, y), np.vecdot(x, y)), "cc")
smooth("vecdot", lambda x, y: (np.vecdot(x, y), np.linalg.vecdot(x, y, axis=0)), "MM", "vv")
smooth("tensordot", lambda x, y: (np.tensordot(x, y, 1), np.tensordot(x, y, 0)), "MN", "vv")
smooth("tensordot axes", lambda x, y: np.tensordot(x, y, ([1, 0], [2, 1])), "MT")
smooth("tensordot axes 2", lambda x, y: np.tensordot(x, y, axes=([1, 2], [1, 2])), "TT")
for _text, _kinds in {
    "ij,jk->ik": "MN",
    "ij,ji": "MN",
    "i,i->": "vv",
    "i,j->ij": "vw",
    "ij->ji": "M",
    "ii->i": "Q",
    "ii": "Q",
    "ij->": "M",
    "ij->j": "M",
    "aij,aij->a": "TT",
    "aij,ij->ai": "TM",
    "...ij,jk->...ik": "TN",
    "ij,ij->ij": "MM",
    "aij,j,i->a": "Twv",
    "ij,jk,kl->il": "MNM",
    "...j,...j": "MM",
    "aij,bij->ab": "TT",
    "aij,bkj->abik": "TT",
}.items():
    smooth(f"einsum {_text}", lambda *args, text=_text: np.einsum(text, *args), _kinds)
smooth("einsum lists", lambda x, y: np.einsum(x, [0, 1], y, [1, 2], [2, 0]), "MN")
smooth("kron", lambda x, y: np.kron(x, y), "vw", "MN", "vM")
smooth("cross", lambda x, y: np.cross(x[:, :3], y[:, :3]), "MM")
smooth("cross vectors", lambda x, y: (np.cross(x[:3], y[:3]), np.linalg.cross(x[:3], y[:3])), "vv")
smooth(
    "norm",
    lambda x: (np.linalg.norm(x), np.linalg.norm(x, axis=0), np.linalg.norm(x, axis=-1, keepdims=True)),
    "M",
    "v",
)
for _ord in (1, 2, 3, np.inf, -np.inf, 2.5):
    smooth(f"norm {_ord}", lambda x, o=_ord: (np.linalg.norm(x, o), np.linalg.norm(x, o, axis=0)), "v")
for _order in (1, -1, 2, -2, np.inf, -np.inf, "fro", "nuc"):
    smooth(f"matrix norm {_order}", lambda x, o=_order: (np.linalg.norm(x, o), np.linalg.matrix_norm(x, ord=o)), "M")
smooth("norm complex", lambda x: (np.linalg.norm(x), np.linalg.norm(x, 1, axis=0)), "Z", "c")
smooth("vector_norm", lambda x: np.linalg.vector_norm(x, axis=(0, 2)), "T")
smooth("solve", lambda a, b: np.linalg.solve(a, b), "Qv", "QM", "Hv")
smooth("solve stack", lambda a, b: np.linalg.solve(a, b[:, None] * np.ones((1, 2))), "Kv")
smooth("inv", lambda a: np.linalg.inv(a), "Q", "K")
smooth("det", lambda a: np.linalg.det(a), "Q", "K")
smooth("slogdet", lambda a: np.linalg.slogdet(a).logabsdet, "Q", "K")
smooth("cholesky", lambda a: np.linalg.cholesky((a + a.T) / 2), "H")
smooth("eigh", lambda a: np.linalg.eigh((a + a.T) / 2).eigenvalues, "Q")
smooth("eigh vectors", lambda a: np.abs(np.linalg.eigh((a + a.T) / 2)[1]), "H")
smooth("eigvalsh", lambda a: np.linalg.eigvalsh((a + a.T) / 2), "H")
smooth("svd values", lambda a: (np.linalg.svd(a, compute_uv=False), np.linalg.svdvals(a)), "M", "N")
smooth("svd", lambda a: [np.abs(x) for x in np.linalg.svd(a, full_matrices=False)], "M", "Q")
smooth("qr", lambda a: np.abs(np.linalg.qr(a)[1]), "M", "Q")
smooth("pinv", lambda a: np.linalg.pinv(a), "M", "Q")
smooth("lstsq", lambda a, b: np.linalg.lstsq(a, b)[:2], "Mv", "MM", "Nw")
discrete("lstsq rank", lambda a, b: np.linalg.lstsq(a, b)[2:], "Mv")
smooth("matrix_power", lambda a: (np.linalg.matrix_power(a, 3), np.linalg.matrix_power(a, -1)), "Q", "K")
smooth("multi_dot", lambda a, b, c: np.linalg.multi_dot([a, b, c]), "MNM", "MNv")
smooth("cond", lambda a: (np.linalg.cond(a), np.linalg.cond(a, 1)), "Q")
discrete("matrix_rank", lambda a: np.linalg.matrix_rank(a), "M", "Q")
discrete("inv complex", lambda a: (np.linalg.inv(a), np.linalg.det(a), np.linalg.solve(a, a[0])), "C")

# ---- math ------------------------------------------------------------------------------------------------------------

for (
    _name
) in "sqrt exp log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh atanh fabs erf erfc gamma".split():
    smooth(f"math.{_name}", lambda x, f=getattr(math, _name): f(x), "s", "g")
for _name in "lgamma degrees radians expm1 cbrt exp2".split():
    smooth(f"math.{_name}", lambda x, f=getattr(math, _name): f(x), "s", "g")
for _name in "pow atan2 hypot fmod remainder copysign log".split():
    smooth(f"math.{_name} 2", lambda x, y, f=getattr(math, _name): f(x, y), "sS", "Ss")
smooth("math.acosh", lambda x: math.acosh(x), "S")
smooth("math.modf", lambda x: math.modf(x), "S")
smooth("math.frexp", lambda x: math.frexp(x)[0], "S")
smooth("math.ldexp", lambda x: math.ldexp(x, 3), "S")
smooth("math sequences", lambda x, y: (math.fsum([x, y, 1]), math.prod([x, y]), math.dist((x, y), (1, 0))), "ss")
smooth("math.hypot 3", lambda x, y: math.hypot(x, y, 2.0), "ss")
discrete("math whole", lambda x: (math.floor(x), math.ceil(x), math.trunc(x)), "S", "g")
discrete("math tests", lambda x: (math.isnan(x), math.isinf(x), math.isfinite(x), math.isclose(x, x + 1e-12)), "s")
discrete("math integers", lambda k: (math.factorial(k), math.comb(5, k), math.gcd(k, 6)), "k")

# ---- SciPy -----------------------------------------------------------------------------------------------------------

for (
    _name
) in """erf erfc erfinv erfcinv erfcx erfi dawsn ndtr log_ndtr ndtri gamma gammaln digamma psi rgamma expit logit
    log_expit i0 i1 i0e i1e j0 j1 y0 y1 k0 k1 k0e k1e entr expi exp1 exprel spence ellipk ellipe cosm1 exp10""".split():
    smooth(f"special.{_name}", lambda x, f=getattr(scipy.special, _name): f(x), "u", "s", "f")
for _name in "beta betaln xlogy xlog1py rel_entr kl_div binom boxcox pseudo_huber".split():
    smooth(f"special.{_name}", lambda x, y, f=getattr(scipy.special, _name): f(x, y), "uu", "us", "su")
for _name in "jv yv iv kv ive kve expn gammainc gammaincc gammaincinv huber".split():
    smooth(f"special.{_name}", lambda y, f=getattr(scipy.special, _name): f(2, y), "u", "s")
smooth("special.betainc", lambda x: (scipy.special.betainc(2.0, 3.0, x), scipy.special.betaincinv(2.0, 3.0, x)), "u")
smooth("special.hyp1f1", lambda x: (scipy.special.hyp1f1(1.0, 2.5, x), scipy.special.hyp2f1(1, 2, 3, x)), "u")
smooth("special.polygamma", lambda x: (scipy.special.polygamma(1, x), scipy.special.zeta(2.0, x)), "u", "p")
smooth("special.logsumexp", lambda x: (scipy.special.logsumexp(x), scipy.special.logsumexp(x, axis=0)), "M", "v")
smooth("special.logsumexp options", lambda x: scipy.special.logsumexp(x, axis=1, keepdims=True), "M")
smooth("special.logsumexp b", lambda x, u: scipy.special.logsumexp(x, b=u), "vu")
smooth("special.softmax", lambda x: (scipy.special.softmax(x), scipy.special.softmax(x, axis=1)), "M")
smooth("special.log_softmax", lambda x: (scipy.special.log_softmax(x), scipy.special.log_softmax(x, axis=0)), "M")
smooth("special.multigammaln", lambda x: scipy.special.multigammaln(x, 2), "S")
smooth("special.inv_boxcox", lambda x, y: scipy.special.inv_boxcox(x, y), "uu")
smooth("scipy solve", lambda a, b: (scipy.linalg.solve(a, b), scipy.linalg.solve(a, b, transposed=True)), "Qv")
smooth("scipy solve pos", lambda a, b: scipy.linalg.solve(a, b, assume_a="pos"), "Hv")
smooth(
    "scipy inv", lambda a: (scipy.linalg.inv(a), scipy.linalg.det(a), scipy.linalg.pinv(a), scipy.linalg.norm(a)), "Q"
)
smooth("scipy expm", lambda a: scipy.linalg.expm(a / 4), "Q")
smooth("scipy cholesky", lambda a: scipy.linalg.cholesky((a + a.T) / 2, lower=True), "H")
smooth("scipy cholesky upper", lambda a: scipy.linalg.cholesky((a + a.T) / 2), "H")
smooth("scipy cho_solve", lambda a, b: scipy.linalg.cho_solve(scipy.linalg.cho_factor(a + a.T), b), "Hv", "HM")
smooth("scipy triangular", lambda a, b: scipy.linalg.solve_triangular(a, b, lower=True), "Qv", "QM")
smooth("scipy triangular T", lambda a, b: scipy.linalg.solve_triangular(a, b, trans=1), "Qv")
smooth("scipy eigh", lambda a: scipy.linalg.eigh((a + a.T) / 2, eigvals_only=True), "H")
smooth("scipy eigh b", lambda a, b: scipy.linalg.eigh((a + a.T) / 2, (b + b.T) / 2)[0], "HH")
smooth("scipy svd", lambda a: (scipy.linalg.svd(a)[1], scipy.linalg.svdvals(a)), "M")
smooth("scipy block_diag", lambda a, b: scipy.linalg.block_diag(a, b, [[1.0, 2.0]]), "MN")
smooth("scipy toeplitz", lambda a, b: (scipy.linalg.toeplitz(a), scipy.linalg.toeplitz(a, b)), "vv")
smooth("scipy circulant", lambda a: (scipy.linalg.circulant(a), scipy.linalg.hankel(a)), "v")

# ---- Fourier transforms ----------------------------------------------------------------------------------------------

for _name in "fft ifft rfft fft2 ifft2 fftn rfft2".split():
    smooth(f"fft.{_name}", lambda x, f=getattr(np.fft, _name): f(x), "M", "T")
for _name in "fft ifft irfft".split():
    smooth(f"fft.{_name} complex", lambda x, f=getattr(np.fft, _name): f(x), "c")
smooth("fft options", lambda x: (np.fft.fft(x, 5, axis=0, norm="ortho"), np.fft.rfft(x, 3, axis=0)), "M")
smooth("fft round trip", lambda x: np.fft.irfft(np.fft.rfft(x) * 2.0, 4), "v")
smooth("fft shift", lambda x: (np.fft.fftshift(x), np.fft.ifftshift(x, axes=0)), "M", "T")
discrete("fft freq", lambda x: (np.fft.fftfreq(len(x), 0.1), np.fft.rfftfreq(len(x))), "v")
smooth("scipy.fft", lambda x: scipy.fft.ifft(scipy.fft.fft(x)).real, "v")

# ---- windows, sets and other names -----------------------------------------------------------------------------------

for _name in "hanning hamming blackman bartlett".split():
    smooth(_name, lambda x, f=getattr(np, _name): x * f(len(x)), "v")
smooth("kaiser", lambda x, s: x * np.kaiser(len(x), s), "vs")
smooth("sliding_window_view", lambda x: np.lib.stride_tricks.sliding_window_view(x, 2), "v")
smooth("sliding_window_view 2", lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 3)), "M")
smooth("poly", lambda x: np.poly(x), "v")
smooth("union1d", lambda x, y: (np.union1d(x, y), np.setdiff1d(x, y[:2]), np.setxor1d(x, y)), "vw")
discrete("sets", lambda x, y: (np.intersect1d(x, y), np.isin(x, y), np.union1d(x, y)), "ij")
if hasattr(np, "cumulative_sum"):
    smooth("cumulative_sum", lambda x: (np.cumulative_sum(x), np.cumulative_prod(x, include_initial=True)), "v")

# ---- integers known only at run time ---------------------------------------------------------------------------------

discrete(
    "dynamic lengths", lambda k: (np.zeros((k, 2)), np.eye(k), np.tri(k, 3), np.linspace(0, 1, k + 2), np.ones(k)), "k"
)
smooth("dynamic shape", lambda x, k: (np.reshape(x, (2, -1)), np.tile(x, k), np.repeat(x, k), np.roll(x, k)), "vk")
smooth(
    "dynamic position", lambda x, k: (np.take(x, k), np.diag(x, k), np.delete(x, k), np.insert(x, k, 1.0), x[k:]), "vk"
)
smooth("dynamic axis", lambda x, k: (np.sum(x, axis=k), np.flip(x, k), np.moveaxis(x, 0, k), np.sort(x, axis=k)), "Tk")
smooth(
    "dynamic order", lambda x, k: (np.diff(x, k), np.vander(x, k), np.linalg.norm(x, k), np.trapezoid(x, dx=k)), "vk"
)
smooth("dynamic width", lambda x, k: (np.pad(x, k), np.pad(x, (k, 1), "edge"), np.triu(np.outer(x, x), k)), "vk")
smooth("dynamic sections", lambda x, k: np.array_split(x, k), "vk")
smooth("dynamic power", lambda a, k: np.linalg.matrix_power(a, k), "Qk")
smooth("scalar methods", lambda x: (x.sum(), x.mean(), x.reshape(1), x.item(), x.conj(), x.max(), x.round(1), x.T), "g")
discrete("scalar attributes", lambda x: (x.shape, x.ndim, x.size, x.itemsize, x.imag), "g")
smooth(
    "lists", lambda x, y: (np.dot([x, y], [1, 2]), np.hypot([x, y], 1.0), np.where([True, False], [x, y], 0.0)), "ss"
)
smooth("nested lists", lambda x, y: (np.linalg.solve([[2.0, x], [y, 3.0]], [1, x]), np.trace([[x, 1], [2, y]])), "ss")
smooth("r_", lambda x, y: (np.r_[x, 1.0, y], np.r_[0:3, x], np.r_[-1:1:5j, x]), "vw", "ss")
smooth("c_", lambda x: (np.c_[x, x * 2], np.c_[x, np.ones((len(x), 2))]), "v")
discrete("mgrid", lambda k: (np.mgrid[0:k, 1:4], np.ogrid[0:k, 0:2:3j], np.mgrid[0 : k + 1]), "k")
for _basis, _val in {
    "chebyshev": "chebval",
    "legendre": "legval",
    "hermite": "hermval",
    "hermite_e": "hermeval",
}.items():
    smooth(_val, lambda x, c, f=getattr(getattr(np.polynomial, _basis), _val): f(x, c), "vw", "sv")
smooth("lagval", lambda x, c: np.polynomial.laguerre.lagval(x, c), "vw", "sv")
smooth("polynomial polyval", lambda x, c: np.polynomial.polynomial.polyval(x, c), "vw", "sM")
_LINE, _CHEBYSHEV = np.poly1d([2.0, 1.0]), np.polynomial.Chebyshev([1.0, 2.0, 3.0], [0, 4])
smooth("polynomial objects", lambda x: (_LINE(x), _CHEBYSHEV(x)), "v")
smooth("unbound methods", lambda x: (np.ndarray.sum(x), np.ndarray.reshape(x, 1, -1), np.ndarray.var(x)), "v")
