"""Elementwise operations on scalars in registers, with NumPy's semantics for every dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradsmith.backends.native.emit import Emitter, float_literal, literal, reg_type
from gradsmith.backends.native.libm import C_FUNCTIONS, Functions
from gradsmith.backends.native.special import SPECIAL, register_special
from gradsmith.ir.ops import COMPLEX_OF, ELEMENTWISE
from gradsmith.ir.program import Const, Op

_COMPLEX = frozenset(
    {"neg", "add", "sub", "mul", "div", "strong_mul", "conj", "real", "imag", "eq", "ne", "where", "abs"}
)
_COMPLEX |= {"cast", "detach", "isnan", "isinf", "isfinite"}
_FLOAT_ONLY = frozenset({"div", "sqrt", "copysign", "expit", "logaddexp", "complex", "signbit", *C_FUNCTIONS}) - {"pow"}
_HALF, _SINGLE = np.dtype(np.float16), np.dtype(np.float32)
_BITS = frozenset({"and", "or", "xor", "not"})
_BOOL = _BITS | {
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "add",
    "mul",
    "where",
    "cast",
}
_BOOL |= {"detach", "isnan", "isinf", "isfinite"}


def supported(op: Op) -> bool:
    """Whether the elementwise operation ``op`` is emitted inline (otherwise it is a host call)."""
    name = op.name
    if name not in ELEMENTWISE:
        return False
    if name == "detach":
        return True
    dtype = op.args[-1].dtype
    if name in SPECIAL:
        return dtype == np.float64
    if dtype.kind == "c":
        return name in _COMPLEX
    if dtype.kind == "b":
        return name in _BOOL
    if dtype.kind in "iu":
        if name == "pow":
            return _small_exponent(op.args[1], 0) is not None
        return name not in _FLOAT_ONLY
    if dtype.itemsize == 2 and name == "nextafter":
        return False
    return name not in _BITS and name not in ("shl", "shr", "polygamma")


def _small_exponent(value: Any, least: int) -> int | None:
    """The exponent if it is a small whole constant, so that the power is a chain of products."""
    if isinstance(value, Const) and value.ndim == 0 and least <= value.data <= 64 and value.data == int(value.data):
        return int(value.data)
    return None


class Scalars:
    """Emits elementwise operations at the emitter's place."""

    def __init__(self, em: Emitter, functions: Functions):
        self.em = em
        self.functions = functions
        self.intrinsics: set[str] = set()  # declarations of the intrinsics used

    def emit(self, op: Op, args: list[str]) -> str:
        """The register with the result of ``op`` for operands in registers."""
        dtype = op.args[-1].dtype
        if op.name == "detach":
            return args[0]
        if op.name == "cast":
            return self.cast(args[0], dtype, op.result.dtype)
        if op.name == "pow":
            return self._pow(op, args, dtype)
        return self.apply(op.name, dtype, args)

    def apply(self, name: str, dtype: np.dtype, args: list[str]) -> str:
        """An elementwise operation other than cast on operands (the last ones) of ``dtype``."""
        if dtype.kind == "f" and dtype.itemsize == 2 and (name in C_FUNCTIONS or name in ("expit", "logaddexp")):
            single = np.dtype(np.float32)
            out = self.apply(name, single, [self.cast(a, dtype, single) for a in args])
            return self.cast(out, single, dtype)
        if name in SPECIAL:
            return self._special(name, args)
        if dtype.kind != "c" and name in C_FUNCTIONS:
            return self._libm(C_FUNCTIONS[name][0], dtype, args)
        kind = {"b": _BOOL_OPS, "i": _INT_OPS, "u": _INT_OPS, "f": _FLOAT_OPS, "c": _COMPLEX_OPS}[dtype.kind]
        return kind[name](self, reg_type(dtype), dtype, *args)

    def _libm(self, name: str, dtype: np.dtype, args: list[str]) -> str:
        return self.em.ins(self.functions.call(name, reg_type(dtype), args))

    def _special(self, name: str, args: list[str]) -> str:
        register_special()
        return self.em.ins(self.functions.pure(SPECIAL[name], "double", args, ", i32 0"))

    def intrinsic(self, name: str, type: str, *args: str) -> str:
        suffix = {"double": "f64", "float": "f32", "half": "f16"}.get(type, type)
        self.intrinsics.add(f"declare {type} @llvm.{name}.{suffix}({', '.join([type] * len(args))})")
        return self.em.ins(f"call {type} @llvm.{name}.{suffix}({', '.join(f'{type} {a}' for a in args)})")

    def select(self, cond: str, type: str, yes: str, no: str) -> str:
        return self.em.ins(f"select i1 {cond}, {type} {yes}, {type} {no}")

    def fcmp(self, how: str, type: str, a: str, b: str) -> str:
        return self.em.ins(f"fcmp {how} {type} {a}, {b}")

    def icmp(self, how: str, type: str, a: str, b: str) -> str:
        return self.em.ins(f"icmp {how} {type} {a}, {b}")

    def binary(self, instruction: str, type: str, a: str, b: str) -> str:
        return self.em.ins(f"{instruction} {type} {a}, {b}")

    def parts(self, type: str, z: str) -> tuple[str, str, str]:
        """The element type, real part and imaginary part of a complex register."""
        re = self.em.ins(f"extractelement {type} {z}, i32 0")
        im = self.em.ins(f"extractelement {type} {z}, i32 1")
        return type[5:-1], re, im

    def join(self, part: str, re: str, im: str) -> str:
        first = self.em.ins(f"insertelement <2 x {part}> zeroinitializer, {part} {re}, i32 0")
        return self.em.ins(f"insertelement <2 x {part}> {first}, {part} {im}, i32 1")

    def cast(self, x: str, source: np.dtype, target: np.dtype) -> str:
        """Conversion by the rules of the ``cast`` operation."""
        if source == target:
            return x
        if source.kind == "c" and target.kind != "c":
            if target.kind == "b":
                return self.apply("ne", source, [x, literal(0j, source)])
            part, re, _ = self.parts(reg_type(source), x)
            return self.cast(re, _part_dtype(source), target)
        if target.kind == "c":
            part_dtype = _part_dtype(target)
            if source.kind == "c":
                cast = "fpext" if target.itemsize > source.itemsize else "fptrunc"
                return self.em.ins(f"{cast} {reg_type(source)} {x} to {reg_type(target)}")
            re = self.cast(x, source, part_dtype)
            return self.join(reg_type(part_dtype), re, float_literal(0.0, reg_type(part_dtype)))
        return self._cast_real(x, source, target)

    def _cast_real(self, x: str, source: np.dtype, target: np.dtype) -> str:
        from_type, to_type = reg_type(source), reg_type(target)
        if "half" in (from_type, to_type) and {source, target} != {_HALF, _SINGLE}:
            # half precision converts to and from single precision only
            return self._cast_real(self._to_single(x, source, target), _SINGLE, target)
        if target.kind == "b":
            if source.kind == "f":
                return self.fcmp("une", from_type, x, float_literal(0.0, from_type))
            return self.icmp("ne", from_type, x, "0")
        if source.kind == "f" and target.kind == "f":
            return self.em.ins(
                f"{'fpext' if target.itemsize > source.itemsize else 'fptrunc'} {from_type} {x} to {to_type}"
            )
        if source.kind == "f":
            if target.kind == "u" and target.itemsize == 8:
                return self.em.ins(f"fptoui {from_type} {x} to i64")
            wide = "i64" if target.itemsize == 8 or target.kind == "u" else "i32"
            out = self.em.ins(f"fptosi {from_type} {x} to {wide}")
            return out if wide == to_type else self.em.ins(f"trunc {wide} {out} to {to_type}")
        unsigned = source.kind in "bu"
        if target.kind == "f":
            return self.em.ins(f"{'uitofp' if unsigned else 'sitofp'} {from_type} {x} to {to_type}")
        bits, wanted = 1 if source.kind == "b" else 8 * source.itemsize, 8 * target.itemsize
        if bits == wanted:
            return x
        how = "trunc" if wanted < bits else "zext" if unsigned else "sext"
        return self.em.ins(f"{how} {from_type} {x} to {to_type}")

    def _to_single(self, x: str, source: np.dtype, target: np.dtype) -> str:
        """``x`` in single precision; a double on its way to half precision is rounded to odd, not to round twice."""
        single = self._cast_real(x, source, _SINGLE)
        if source.itemsize != 8 or source.kind != "f" or target != _HALF:
            return single
        back = self._cast_real(single, _SINGLE, source)
        bits = self.em.ins(f"bitcast float {single} to i32")
        even = self.icmp("eq", "i32", self.binary("and", "i32", bits, "1"), "0")
        adjust = self.binary("and", "i1", self.fcmp("one", "double", back, x), even)
        above = self.fcmp("ogt", "double", self.intrinsic("fabs", "double", back), self.intrinsic("fabs", "double", x))
        odd = self.binary("add", "i32", bits, self.select(above, "i32", "-1", "1"))
        return self.em.ins(f"bitcast i32 {self.select(adjust, 'i32', odd, bits)} to float")

    def _pow(self, op: Op, args: list[str], dtype: np.dtype) -> str:
        type = reg_type(dtype)
        if dtype.kind in "iu":
            return self._chain(args[0], _small_exponent(op.args[1], 0) or 0, type, "mul", "1")
        exponent = op.args[1]
        if not isinstance(exponent, Const) or exponent.ndim:
            return self.apply("pow", dtype, args)
        one = float_literal(1.0, type)
        if exponent.data == 0.5 and op.result.ndim:
            return self.intrinsic("sqrt", type, args[0])  # as NumPy does for arrays
        if exponent.data == 0.5:
            # pow(-0, 0.5) is +0 and pow(-inf, 0.5) is inf, unlike sqrt
            root = self.intrinsic("sqrt", type, self.binary("fadd", type, args[0], float_literal(0.0, type)))
            infinite = self.fcmp("oeq", type, args[0], float_literal(-np.inf, type))
            return self.select(infinite, type, float_literal(np.inf, type), root)
        if np.isfinite(exponent.data) and exponent.data == int(exponent.data):
            if 0 <= exponent.data <= 4:
                return self._chain(args[0], int(exponent.data), type, "fmul", one)
            if -4 <= exponent.data < 0:
                inverse = self.binary("fdiv", type, one, args[0])
                return self._chain(inverse, -int(exponent.data), type, "fmul", one)
        return self.apply("pow", dtype, args)

    def _chain(self, x: str, n: int, type: str, multiply: str, one: str) -> str:
        """``x`` to the power ``n`` by repeated squaring."""
        out = ""
        while n:
            if n & 1:
                out = self.binary(multiply, type, out, x) if out else x
            n >>= 1
            if n:
                x = self.binary(multiply, type, x, x)
        return out or one


def _part_dtype(dtype: np.dtype) -> np.dtype:
    return np.dtype(f"f{dtype.itemsize // 2}")


Emit = Callable[..., str]


def _inst(instruction: str) -> Emit:
    return lambda s, t, d, a, b: s.binary(instruction, t, a, b)


def _by_sign(signed: str, unsigned: str) -> Emit:
    return lambda s, t, d, a, b: s.binary(signed if d.kind == "i" else unsigned, t, a, b)


def _float_compare(how: str) -> Emit:
    return lambda s, t, d, a, b: s.fcmp(how, t, a, b)


def _where(s: Scalars, t: str, d: np.dtype, c: str, a: str, b: str) -> str:
    return s.select(c, t, a, b)


def _constant(text: str) -> Emit:
    return lambda s, t, d, *args: text


def _identity(s: Scalars, t: str, d: np.dtype, a: str) -> str:
    return a


# floating point


def _zero(t: str) -> str:
    return float_literal(0.0, t)


def _strong_mul(s: Scalars, t: str, d: np.dtype, g: str, x: str) -> str:
    product = s.binary("fmul", t, g, x)
    return s.select(s.fcmp("oeq", t, g, _zero(t)), t, _zero(t), product)


def _sign(s: Scalars, t: str, d: np.dtype, x: str) -> str:
    positive = s.select(s.fcmp("ogt", t, x, _zero(t)), t, float_literal(1.0, t), _zero(t))
    signed = s.select(s.fcmp("olt", t, x, _zero(t)), t, float_literal(-1.0, t), positive)
    return s.select(s.fcmp("uno", t, x, x), t, x, signed)


def _divmod(s: Scalars, t: str, a: str, b: str) -> tuple[str, str]:
    """NumPy's ``floor_divide`` and ``remainder`` (npy_divmod): the remainder has the sign of the divisor."""
    zero, one = _zero(t), float_literal(1.0, t)
    mod = s.binary("frem", t, a, b)
    div = s.binary("fdiv", t, s.binary("fsub", t, a, mod), b)
    nonzero = s.fcmp("une", t, mod, zero)
    signs = s.binary("xor", "i1", s.fcmp("olt", t, b, zero), s.fcmp("olt", t, mod, zero))
    adjust = s.binary("and", "i1", nonzero, signs)
    div = s.select(adjust, t, s.binary("fsub", t, div, one), div)
    moved = s.select(adjust, t, s.binary("fadd", t, mod, b), mod)
    mod_out = s.select(nonzero, t, moved, s.intrinsic("copysign", t, zero, b))
    floor = s.intrinsic("floor", t, div)
    excess = s.fcmp("ogt", t, s.binary("fsub", t, div, floor), float_literal(0.5, t))
    floor = s.select(excess, t, s.binary("fadd", t, floor, one), floor)
    ratio = s.binary("fdiv", t, a, b)
    floor = s.select(s.fcmp("une", t, div, zero), t, floor, s.intrinsic("copysign", t, zero, ratio))
    by_zero = s.fcmp("oeq", t, b, zero)
    return s.select(by_zero, t, ratio, floor), s.select(by_zero, t, s.binary("frem", t, a, b), mod_out)


def _float_extremum(how: str, keep_nan: bool) -> Emit:
    """maximum and minimum propagate NaN; fmax and fmin ignore it."""

    def emit(s: Scalars, t: str, d: np.dtype, a: str, b: str) -> str:
        nan = s.fcmp("uno", t, a, a) if keep_nan else s.fcmp("uno", t, b, b)
        return s.select(s.binary("or", "i1", s.fcmp(how, t, a, b), nan), t, a, b)

    return emit


def _expit(s: Scalars, t: str, d: np.dtype, x: str) -> str:
    one = float_literal(1.0, t)
    magnitude = s.intrinsic("fabs", t, x)
    e = s.apply("exp", d, [s.em.ins(f"fneg {t} {magnitude}")])
    top = s.select(s.fcmp("olt", t, x, _zero(t)), t, e, one)
    return s.binary("fdiv", t, top, s.binary("fadd", t, e, one))


def _logaddexp(s: Scalars, t: str, d: np.dtype, a: str, b: str) -> str:
    difference = s.binary("fsub", t, a, b)
    negative = s.em.ins(f"fneg {t} {s.intrinsic('fabs', t, difference)}")
    larger = s.select(s.fcmp("ogt", t, a, b), t, a, b)
    out = s.binary("fadd", t, larger, s.apply("log1p", d, [s.apply("exp", d, [negative])]))
    # equal infinities have no difference
    equal = s.binary("fadd", t, a, float_literal(float(np.log(2.0)), t))
    return s.select(s.fcmp("oeq", t, a, b), t, equal, out)


def _complex(s: Scalars, t: str, d: np.dtype, re: str, im: str) -> str:
    assert d in COMPLEX_OF
    return s.join(t, re, im)


def _signbit(s: Scalars, t: str, d: np.dtype, x: str) -> str:
    bits = f"i{8 * d.itemsize}"
    return s.icmp("slt", bits, s.em.ins(f"bitcast {t} {x} to {bits}"), "0")


def _unary_intrinsic(name: str) -> Emit:
    return lambda s, t, d, x: s.intrinsic(name, t, x)


def _infinite(s: Scalars, t: str, x: str, how: str) -> str:
    return s.fcmp(how, t, s.intrinsic("fabs", t, x), float_literal(np.inf, t))


_FLOAT_OPS: dict[str, Emit] = {
    "neg": lambda s, t, d, x: s.em.ins(f"fneg {t} {x}"),
    "sign": _sign,
    "sqrt": _unary_intrinsic("sqrt"),
    "abs": _unary_intrinsic("fabs"),
    **{"add": _inst("fadd"), "sub": _inst("fsub"), "mul": _inst("fmul"), "div": _inst("fdiv"), "fmod": _inst("frem")},
    "floordiv": lambda s, t, d, a, b: _divmod(s, t, a, b)[0],
    "mod": lambda s, t, d, a, b: _divmod(s, t, a, b)[1],
    "strong_mul": _strong_mul,
    **{"maximum": _float_extremum("oge", True), "minimum": _float_extremum("ole", True)},
    **{"fmax": _float_extremum("oge", False), "fmin": _float_extremum("ole", False)},
    "copysign": lambda s, t, d, a, b: s.intrinsic("copysign", t, a, b),
    **{name: _unary_intrinsic(name) for name in ("floor", "ceil", "trunc", "rint")},
    **{"expit": _expit, "logaddexp": _logaddexp},
    **{"conj": _identity, "real": _identity, "detach": _identity, "complex": _complex},
    "imag": lambda s, t, d, x: _zero(t),
    **{"eq": _float_compare("oeq"), "ne": _float_compare("une"), "lt": _float_compare("olt")},
    **{"le": _float_compare("ole"), "gt": _float_compare("ogt"), "ge": _float_compare("oge")},
    "isnan": lambda s, t, d, x: s.fcmp("uno", t, x, x),
    "isinf": lambda s, t, d, x: _infinite(s, t, x, "oeq"),
    "isfinite": lambda s, t, d, x: _infinite(s, t, x, "olt"),
    "signbit": _signbit,
    "where": _where,
}


# integers


def _int_compare(signed: str, unsigned: str) -> Emit:
    return lambda s, t, d, a, b: s.icmp(signed if d.kind == "i" else unsigned, t, a, b)


def _int_extremum(signed: str, unsigned: str) -> Emit:
    return lambda s, t, d, a, b: s.intrinsic(signed if d.kind == "i" else unsigned, t, a, b)


def _safe_divisor(s: Scalars, t: str, d: np.dtype, a: str, b: str) -> tuple[str, str]:
    """A divisor that cannot trap (1 in place of 0, and of -1 where the quotient overflows), and whether ``b`` is 0."""
    zero = s.icmp("eq", t, b, "0")
    bad = zero
    if d.kind == "i":
        least = str(-(2 ** (8 * d.itemsize - 1)))
        overflow = s.binary("and", "i1", s.icmp("eq", t, a, least), s.icmp("eq", t, b, "-1"))
        bad = s.binary("or", "i1", zero, overflow)
    return s.select(bad, t, "1", b), zero


def _int_floordiv(s: Scalars, t: str, d: np.dtype, a: str, b: str) -> str:
    divisor, zero = _safe_divisor(s, t, d, a, b)
    if d.kind == "u":
        return s.select(zero, t, "0", s.binary("udiv", t, a, divisor))
    quotient, remainder = s.binary("sdiv", t, a, divisor), s.binary("srem", t, a, divisor)
    down = s.select(_opposite(s, t, remainder, divisor), t, s.binary("sub", t, quotient, "1"), quotient)
    return s.select(zero, t, "0", down)


def _int_mod(s: Scalars, t: str, d: np.dtype, a: str, b: str) -> str:
    divisor, zero = _safe_divisor(s, t, d, a, b)
    if d.kind == "u":
        return s.select(zero, t, "0", s.binary("urem", t, a, divisor))
    remainder = s.binary("srem", t, a, divisor)
    up = s.select(_opposite(s, t, remainder, divisor), t, s.binary("add", t, remainder, divisor), remainder)
    return s.select(zero, t, "0", up)


def _opposite(s: Scalars, t: str, remainder: str, divisor: str) -> str:
    """Whether a remainder is not 0 and its sign is not the divisor's."""
    differs = s.icmp("slt", t, s.binary("xor", t, remainder, divisor), "0")
    return s.binary("and", "i1", s.icmp("ne", t, remainder, "0"), differs)


def _int_fmod(s: Scalars, t: str, d: np.dtype, a: str, b: str) -> str:
    divisor, zero = _safe_divisor(s, t, d, a, b)
    return s.select(zero, t, "0", s.binary("srem" if d.kind == "i" else "urem", t, a, divisor))


def _int_sign(s: Scalars, t: str, d: np.dtype, x: str) -> str:
    positive = s.select(s.icmp("ne", t, x, "0"), t, "1", "0")
    return positive if d.kind == "u" else s.select(s.icmp("slt", t, x, "0"), t, "-1", positive)


def _int_abs(s: Scalars, t: str, d: np.dtype, x: str) -> str:
    return x if d.kind == "u" else s.select(s.icmp("slt", t, x, "0"), t, s.binary("sub", t, "0", x), x)


def _shift(s: Scalars, t: str, d: np.dtype, a: str, b: str, instruction: str) -> str:
    bits = 8 * d.itemsize
    large = s.icmp("uge", t, b, str(bits))
    amount = s.select(large, t, "0", b)
    beyond = s.binary("ashr", t, a, str(bits - 1)) if instruction == "ashr" else "0"
    return s.select(large, t, beyond, s.binary(instruction, t, a, amount))


_INT_OPS: dict[str, Emit] = {
    "neg": lambda s, t, d, x: s.binary("sub", t, "0", x),
    **{"sign": _int_sign, "abs": _int_abs},
    **{"add": _inst("add"), "sub": _inst("sub"), "mul": _inst("mul"), "strong_mul": _inst("mul")},
    **{"floordiv": _int_floordiv, "mod": _int_mod, "fmod": _int_fmod},
    **{"maximum": _int_extremum("smax", "umax"), "minimum": _int_extremum("smin", "umin")},
    **{"fmax": _int_extremum("smax", "umax"), "fmin": _int_extremum("smin", "umin")},
    **dict.fromkeys(["floor", "ceil", "trunc", "rint", "conj", "real", "detach"], _identity),
    "imag": _constant("0"),
    **{"and": _inst("and"), "or": _inst("or"), "xor": _inst("xor")},
    "not": lambda s, t, d, x: s.binary("xor", t, x, "-1"),
    "shl": lambda s, t, d, a, b: _shift(s, t, d, a, b, "shl"),
    "shr": lambda s, t, d, a, b: _shift(s, t, d, a, b, "ashr" if d.kind == "i" else "lshr"),
    **{"eq": _int_compare("eq", "eq"), "ne": _int_compare("ne", "ne"), "lt": _int_compare("slt", "ult")},
    **{"le": _int_compare("sle", "ule"), "gt": _int_compare("sgt", "ugt"), "ge": _int_compare("sge", "uge")},
    **{"isnan": _constant("false"), "isinf": _constant("false"), "isfinite": _constant("true")},
    "where": _where,
}

# bools

_BOOL_OPS: dict[str, Emit] = {
    **{"and": _inst("and"), "or": _inst("or"), "xor": _inst("xor"), "add": _inst("or"), "mul": _inst("and")},
    "not": lambda s, t, d, x: s.binary("xor", t, x, "true"),
    "detach": _identity,
    **{"maximum": _inst("or"), "fmax": _inst("or"), "minimum": _inst("and"), "fmin": _inst("and")},
    **{
        k: _int_compare(v, v)
        for k, v in {"eq": "eq", "ne": "ne", "lt": "ult", "le": "ule", "gt": "ugt", "ge": "uge"}.items()
    },
    **{"isnan": _constant("false"), "isinf": _constant("false"), "isfinite": _constant("true")},
    "where": _where,
}


# complex numbers


def _complex_mul(s: Scalars, t: str, d: np.dtype, x: str, y: str) -> str:
    part, a, b = s.parts(t, x)
    _, c, e = s.parts(t, y)
    re = s.binary("fsub", part, s.binary("fmul", part, a, c), s.binary("fmul", part, b, e))
    im = s.binary("fadd", part, s.binary("fmul", part, a, e), s.binary("fmul", part, b, c))
    return s.join(part, re, im)


def _complex_div(s: Scalars, t: str, d: np.dtype, x: str, y: str) -> str:
    """Smith's algorithm, as NumPy."""
    part, a, b = s.parts(t, x)
    _, c, e = s.parts(t, y)
    wide = s.fcmp("oge", part, s.intrinsic("fabs", part, c), s.intrinsic("fabs", part, e))
    big, small = s.select(wide, part, c, e), s.select(wide, part, e, c)
    first, second = s.select(wide, part, a, b), s.select(wide, part, b, a)
    ratio = s.binary("fdiv", part, small, big)
    scale = s.binary(
        "fdiv", part, float_literal(1.0, part), s.binary("fadd", part, big, s.binary("fmul", part, small, ratio))
    )
    re = s.binary("fmul", part, s.binary("fadd", part, first, s.binary("fmul", part, second, ratio)), scale)
    lifted = s.binary("fmul", part, first, ratio)
    im = s.binary("fmul", part, s.binary("fsub", part, second, lifted), scale)
    # with the roles of the parts exchanged the imaginary part changes its sign
    im = s.select(wide, part, im, s.em.ins(f"fneg {part} {im}"))
    zero = s.binary("and", "i1", s.fcmp("oeq", part, c, _zero(part)), s.fcmp("oeq", part, e, _zero(part)))
    magnitude = s.intrinsic("fabs", part, c)
    re = s.select(zero, part, s.binary("fdiv", part, a, magnitude), re)
    im = s.select(zero, part, s.binary("fdiv", part, b, magnitude), im)
    return s.join(part, re, im)


def _complex_equal(s: Scalars, t: str, d: np.dtype, x: str, y: str) -> str:
    part, a, b = s.parts(t, x)
    _, c, e = s.parts(t, y)
    return s.binary("and", "i1", s.fcmp("oeq", part, a, c), s.fcmp("oeq", part, b, e))


def _complex_conj(s: Scalars, t: str, d: np.dtype, x: str) -> str:
    part, a, b = s.parts(t, x)
    return s.join(part, a, s.em.ins(f"fneg {part} {b}"))


def _complex_abs(s: Scalars, t: str, d: np.dtype, x: str) -> str:
    _, a, b = s.parts(t, x)
    return s.apply("hypot", _part_dtype(d), [a, b])


def _complex_strong_mul(s: Scalars, t: str, d: np.dtype, g: str, x: str) -> str:
    zero = literal(0j, d)
    return s.select(_complex_equal(s, t, d, g, zero), t, zero, _complex_mul(s, t, d, g, x))


def _complex_test(name: str, combine: str) -> Emit:
    def emit(s: Scalars, t: str, d: np.dtype, x: str) -> str:
        _, a, b = s.parts(t, x)
        real = _part_dtype(d)
        return s.binary(combine, "i1", s.apply(name, real, [a]), s.apply(name, real, [b]))

    return emit


_COMPLEX_OPS: dict[str, Emit] = {
    "neg": lambda s, t, d, x: s.em.ins(f"fneg {t} {x}"),
    **{"add": _inst("fadd"), "sub": _inst("fsub"), "mul": _complex_mul, "div": _complex_div},
    **{"strong_mul": _complex_strong_mul, "conj": _complex_conj, "abs": _complex_abs, "detach": _identity},
    "real": lambda s, t, d, x: s.parts(t, x)[1],
    "imag": lambda s, t, d, x: s.parts(t, x)[2],
    "eq": _complex_equal,
    "ne": lambda s, t, d, x, y: s.binary("xor", "i1", _complex_equal(s, t, d, x, y), "true"),
    **{"isnan": _complex_test("isnan", "or"), "isinf": _complex_test("isinf", "or")},
    **{"isfinite": _complex_test("isfinite", "and"), "where": _where},
}
