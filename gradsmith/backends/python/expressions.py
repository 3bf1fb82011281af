"""Operations as Python expressions over NumPy.

A scalar is *weak* if at run time it may be a Python number (a literal, a loop index, a length): Python's arithmetic on
two such numbers differs from NumPy's (division by zero raises, powers overflow), so it is then written as a NumPy call.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from gradsmith.backends import host, hosted
from gradsmith.backends.effects import Effect
from gradsmith.backends.python.schedule import is_wrapped
from gradsmith.ir.ops import ELEMENTWISE, consumed_axes
from gradsmith.ir.program import Const, Op, Value
from gradsmith.ir.types import F64, I64, ArrayType, Type, real_dtype

# binding strength of Python's operators
TERNARY, OR, AND, NOT, COMPARE, BIT_OR, XOR, BIT_AND, SHIFT, SUM, PRODUCT, UNARY, POWER, ATOM = range(14)

_BINARY = {
    **{"add": ("+", SUM), "sub": ("-", SUM), "mul": ("*", PRODUCT), "div": ("/", PRODUCT)},
    **{"floordiv": ("//", PRODUCT), "mod": ("%", PRODUCT), "pow": ("**", POWER), "matmul": ("@", PRODUCT)},
    **{"eq": ("==", COMPARE), "ne": ("!=", COMPARE), "lt": ("<", COMPARE), "le": ("<=", COMPARE)},
    **{"gt": (">", COMPARE), "ge": (">=", COMPARE), "and": ("&", BIT_AND), "or": ("|", BIT_OR), "xor": ("^", XOR)},
    **{"shl": ("<<", SHIFT), "shr": (">>", SHIFT)},
}
#: Python's result for two Python numbers differs from NumPy's, or it raises
_STRONG_ONLY = frozenset({"div", "floordiv", "mod", "pow", "shl", "shr"})
#: dtypes whose scalars Python numbers stand for
_PYTHON_DTYPES = {np.dtype(t) for t in (bool, np.int64, np.float64, np.complex128)}
_INTEGRAL_POWER = 64
#: Python's functions on Python integers, which lengths and loop indices are
_OF_INTEGERS = {"maximum": "max", "minimum": "min"}


@dataclass(frozen=True)
class Expr:
    """Source text, how strongly its outermost operator binds, and whether it may be a Python number.

    ``negated`` is the text of its negation if that is simply another comparison.
    """

    text: str
    strength: int = ATOM
    weak: bool = False
    negated: str = ""
    update: tuple[str, str, str] = ("", "", "")  # (x, symbol, y) if it is ``x symbol y``, so that x = … is an update

    def at(self, strength: int) -> str:
        """The text as an operand that must bind at least as strongly as ``strength``."""
        return self.text if self.strength >= strength else f"({self.text})"


def call(function: str, *args: str) -> Expr:
    return Expr(f"{function}({', '.join(args)})")


# --- constants ---


#: numbers with a meaning
_KNOWN = {
    **{np.pi: ("np.pi", ATOM), 2 * np.pi: ("2.0 * np.pi", PRODUCT), np.pi / 2: ("np.pi / 2.0", PRODUCT)},
    **{np.pi / 180: ("np.pi / 180.0", PRODUCT), 180 / np.pi: ("180.0 / np.pi", PRODUCT), np.e: ("np.e", ATOM)},
    **{float(np.sqrt(2.0)): ("np.sqrt(2.0)", ATOM), float(1 / np.sqrt(2.0)): ("1.0 / np.sqrt(2.0)", PRODUCT)},
    **{float(np.log(2 * np.pi)): ("np.log(2.0 * np.pi)", ATOM), float(np.log(2.0)): ("np.log(2.0)", ATOM)},
    **{float(2 / np.sqrt(np.pi)): ("2.0 / np.sqrt(np.pi)", PRODUCT)},
}


def literal(data: Any) -> Expr:
    """A Python literal for a bool, an int, a float or a complex number."""
    value = data.item() if hasattr(data, "item") else data
    if isinstance(value, complex):
        parts = [literal(part) for part in (value.real, value.imag)]
        if all(p.text[0].isdigit() for p in parts) and not np.signbit(value.real):
            return Expr(f"({parts[0].text} + {parts[1].text}j)", weak=True)
        return Expr(f"complex({parts[0].text}, {parts[1].text})", weak=True)
    if isinstance(value, float) and not np.isfinite(value):
        text = "np.nan" if np.isnan(value) else "np.inf"
        return Expr(f"-{text}", UNARY, True) if value < 0 else Expr(text, weak=True)
    if isinstance(value, float) and abs(value) in _KNOWN and not isinstance(data, np.float32 | np.float16):
        known, strength = _KNOWN[abs(value)]
        return Expr(known, strength, True) if value > 0 else Expr(f"-{known}", min(strength, UNARY), True)
    text = str(data) if isinstance(data, np.float32 | np.float16) else repr(value)  # the shortest that rounds to it
    return Expr(text, UNARY if text.startswith("-") else ATOM, True)


def constant(value: Const) -> Expr:
    """A constant; of other dtypes than Python's it is typed, as is every array."""
    if value.ndim and not value.data.size:
        return call("np.zeros", str(value.data.shape), dtype_name(value.dtype))
    if value.ndim:
        return call("np.array", nested(value.data.tolist()), dtype_name(value.dtype))
    plain = literal(value.data)
    return plain if value.dtype in _PYTHON_DTYPES else call(f"np.{value.dtype.name}", plain.text)


def nested(data: Any) -> str:
    """Nested lists of literals."""
    return f"[{', '.join(map(nested, data))}]" if isinstance(data, list) else literal(data).text


def dtype_name(dtype: np.dtype) -> str:
    return "bool" if dtype.kind == "b" else f"np.{dtype.name}"


def typed(expr: Expr, type: Type) -> Expr:
    """``expr`` certainly as a NumPy scalar."""
    if not expr.weak or not isinstance(type, ArrayType):
        return expr
    name = "np.bool" if type.dtype.kind == "b" else f"np.{type.dtype.name}"
    return call(name, expr.text)


# --- operations ---


class Expressions:
    """Writes operations as expressions; ``read`` gives the expression for an operand."""

    def __init__(self, read: Callable[[Value], Expr], shown: bool = False, pending: Container[Value] = ()):
        self.read = read
        self.pending = pending  # values that are parts of the expression of their only user
        self.shown = shown  # without gradsmith: functions of its own are written out
        self.helpers: dict[str, None] = {}  # helper functions in use, in order
        self.imports: dict[str, None] = {}
        self.objects: dict[str, Any] = {}  # Python objects that the source refers to by name

    def expression(self, op: Op) -> Expr:
        """The expression for an operation with one result that is no update, no effect and no control flow."""
        if op.name in ELEMENTWISE:
            return self._elementwise(op)
        return getattr(self, f"_{op.name}")(op)

    # operands

    def atom(self, value: Value) -> str:
        """An operand something is called on, a NumPy object for certain."""
        return typed(self.read(value), value.type).at(ATOM)

    def argument(self, value: Value) -> str:
        """An operand of a call; a constant that another operand gives its dtype to is a plain literal."""
        return self.read(value).text

    def operand(self, value: Value, other: Value) -> Expr:
        """An operand of a binary operator: a scalar constant is a plain literal beside a NumPy object of its dtype."""
        if isinstance(value, Const) and value.ndim == 0 and not self.read(other).weak and not isinstance(other, Const):
            return literal(value.data)
        made = value.op
        if made is not None and made.name == "cast" and made.args[0].type == I64 and value.type == F64:
            if self.shown and not value.name and not isinstance(other, Const) and not self.read(other).weak:
                return self.read(made.args[0])  # NumPy makes it a float
        return self.read(value)

    def shape(self, dims: Sequence[Value]) -> str:
        texts = [self.argument(d) for d in dims]
        return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"

    # elementwise

    def _elementwise(self, op: Op) -> Expr:
        name = op.name
        special = getattr(self, f"_elementwise_{name}", None)
        expr = special(op) if special else self._binary(op) if name in _BINARY else self._ufunc(op)
        result = op.results[0].type
        assert isinstance(result, ArrayType)
        natural = _natural_dtype(name, tuple(a.dtype for a in op.args))
        if natural is not None and natural != result.dtype and name != "cast":
            return _convert(expr, result)
        return expr

    def _ufunc(self, op: Op) -> Expr:
        if op.name in host.SPECIAL:
            self.imports["scipy.special"] = None
            return call(f"scipy.special.{op.name}", *map(self._typed_argument, op.args))
        if op.name in _OF_INTEGERS and all(a.type == I64 for a in op.args):
            return Expr(call(_OF_INTEGERS[op.name], *map(self.argument, op.args)).text, weak=True)
        name = op.name if op.name in ("abs", "conj") else host.numpy_name(op.name)
        return call(f"np.{name}", *self._ufunc_arguments(op.args))

    def _ufunc_arguments(self, args: Sequence[Value]) -> list[str]:
        """Literals keep their dtype only beside a NumPy object, unless it is the one Python's numbers have."""
        strong = any(not isinstance(a, Const) and not self.read(a).weak for a in args)
        return [
            literal(a.data).text if strong and isinstance(a, Const) and a.ndim == 0 else self.argument(a) for a in args
        ]

    def _typed_argument(self, value: Value) -> str:
        return constant(value).text if isinstance(value, Const) else self.argument(value)

    def _binary(self, op: Op) -> Expr:
        x, y = op.args
        symbol, strength = _BINARY[op.name]
        left, right = self.operand(x, y), self.operand(y, x)
        weak = left.weak and right.weak
        if weak and (op.name in _STRONG_ONLY or (isinstance(x, Const) and isinstance(y, Const))):
            return call(f"np.{host.numpy_name(op.name)}", left.text, right.text)
        if op.name == "pow":
            return self._power(op, left, right)
        if op.name == "add" and x is y:
            return Expr(f"{literal(x.dtype.type(2)).text} * {right.at(UNARY)}", PRODUCT, weak)
        if op.name == "mul" and isinstance(y, Const) and not isinstance(x, Const) and not y.ndim:
            left, right = right, left
        if op.name in ("add", "sub") and _is_negative(right):
            symbol, right = "-" if symbol == "+" else "+", Expr(right.text[1:], PRODUCT, right.weak)
        if op.name in ("and", "or", "xor") and op.results[0].ndim == 0 and x.dtype.kind == "b":
            symbol, strength = {"and": ("and", AND), "or": ("or", OR), "xor": ("!=", COMPARE)}[op.name]
        update = (left.text, symbol, right.text) if symbol in ("+", "-", "*", "/") else ("", "", "")
        if symbol == "*" and right.strength == ATOM and not left.text.isidentifier():
            update = (right.text, symbol, left.text)
        left_text, right_text = left.at(strength + (strength == COMPARE)), right.at(strength + 1)
        opposite = {"==": "!=", "!=": "=="}.get(symbol, "") if strength == COMPARE else ""
        negated = f"{left_text} {opposite} {right_text}" if opposite and not op.results[0].ndim else ""
        return Expr(f"{left_text} {symbol} {right_text}", strength, weak, negated, update)

    def _power(self, op: Op, left: Expr, right: Expr) -> Expr:
        exponent = op.args[1]
        if isinstance(exponent, Const) and exponent.ndim == 0 and exponent.dtype.kind == "f":
            if float(exponent.data).is_integer() and abs(exponent.data) < _INTEGRAL_POWER:
                right = literal(int(exponent.data))
        return Expr(f"{left.at(ATOM)} ** {right.at(UNARY)}", POWER)

    def _elementwise_neg(self, op: Op) -> Expr:
        expr = self.read(op.args[0])
        return Expr(f"-{expr.at(UNARY)}", UNARY, expr.weak)

    def _elementwise_not(self, op: Op) -> Expr:
        expr = self.read(op.args[0])
        if op.args[0].type == ArrayType(np.dtype(bool)):
            return Expr(f"not {expr.at(NOT)}", NOT, True)
        return Expr(f"~{expr.at(UNARY)}", UNARY, expr.weak)

    def _elementwise_where(self, op: Op) -> Expr:
        c, x, y = op.args
        if op.results[0].ndim:
            return call("np.where", self.argument(c), *self._ufunc_arguments([x, y]))
        exprs = self.read(x), self.read(y)
        text = f"{exprs[0].at(OR)} if {self.read(c).at(OR)} else {exprs[1].at(TERNARY)}"
        return Expr(text, TERNARY, any(e.weak for e in exprs))

    def _elementwise_strong_mul(self, op: Op) -> Expr:
        self.helpers["strong_mul"] = None
        g, d = op.args
        return call("strong_mul", self._typed_argument(g), self.argument(d))

    def _elementwise_complex(self, op: Op) -> Expr:
        x, y = map(self.read, op.args)
        return Expr(f"{x.at(SUM)} + 1j * {y.at(POWER)}", SUM, x.weak and y.weak)

    def _elementwise_real(self, op: Op) -> Expr:
        if self.shown and not op.args[0].ndim:
            return call(f"np.{op.name}", self.argument(op.args[0]))
        return Expr(f"{self.atom(op.args[0])}.{op.name}")

    _elementwise_imag = _elementwise_real

    def _elementwise_cast(self, op: Op) -> Expr:
        (x,) = op.args
        result = op.results[0].type
        assert isinstance(result, ArrayType)
        if result.dtype.kind == "b":
            expr = self.read(x)
            return Expr(f"{expr.at(BIT_OR)} != 0", COMPARE, expr.weak)
        if x.dtype.kind == "c" and result.dtype.kind != "c":
            real = Expr(f"{self.atom(x)}.real")
            same = result.ndim == 0 and result.dtype == real_dtype(x.dtype)
            return real if same else _convert(real, result, lossy=result.dtype.kind != "f")
        lossy = x.dtype.kind in "iuf" and result.dtype.kind in "iu"
        if lossy and self.shown and not x.ndim:  # perhaps a Python number
            return Expr(f"np.asarray({self.argument(x)}).astype({dtype_name(result.dtype)})[()]")
        return _convert(self.read(x), result, lossy, origin=x.type)

    # shapes

    def _full(self, op: Op) -> Expr:
        v, *dims = op.args
        if not dims:
            return self.read(v)
        if (like := _array_of_shape(dims)) is not None and like.op is None and like.type == op.result.type:
            for number, name in ((0, "np.zeros_like"), (1, "np.ones_like")):
                if isinstance(v, Const) and v.data == number and not np.signbit(np.real(v.data)):
                    return call(name, self.argument(like))
        shape = self.shape(dims)
        dtype = [] if v.dtype == np.float64 else [dtype_name(v.dtype)]
        for number, name in ((0, "np.zeros"), (1, "np.ones")):
            if isinstance(v, Const) and v.data == number and not np.signbit(np.real(v.data)):
                return call(name, shape, *dtype)
        return call("np.full", shape, self._typed_argument(v))

    def _iota(self, op: Op) -> Expr:
        dtype = [] if op.attrs["dtype"] == np.int64 else [f"dtype={dtype_name(np.dtype(op.attrs['dtype']))}"]
        return call("np.arange", self.argument(op.args[0]), *dtype)

    def _dim(self, op: Op) -> Expr:
        x = self.atom(op.args[0])
        return Expr(f"{x}.shape[{op.attrs['axis']}]" if op.attrs["axis"] else f"len({x})", weak=True)

    def _reshape(self, op: Op) -> Expr:
        x, *dims = op.args
        if self.shown and not x.ndim and dims:
            return call("np.reshape", self._typed_argument(x), f"({', '.join(map(self.argument, dims))},)")
        shaped = call(f"{self.atom(x)}.reshape", ", ".join(map(self.argument, dims)) or "()")
        return shaped if dims else Expr(f"{shaped.text}[()]")

    def _broadcast_to(self, op: Op) -> Expr:
        x, *dims = op.args
        return call("np.broadcast_to", self._typed_argument(x), self.shape(dims)) if dims else self.read(x)

    def _unbroadcast(self, op: Op) -> Expr:
        x, *dims = op.args
        self.helpers["unbroadcast"] = None
        shape = ", ".join(map(self.argument, dims)) + "," * (len(dims) == 1)
        return call("unbroadcast", self._typed_argument(x), f"({shape})")

    def _transpose(self, op: Op) -> Expr:
        perm = op.attrs["perm"]
        if tuple(perm) == tuple(reversed(range(len(perm)))):
            return Expr(f"{self.atom(op.args[0])}.T")
        return call(f"{self.atom(op.args[0])}.transpose", ", ".join(map(str, perm)))

    def _concatenate(self, op: Op) -> Expr:
        axis = op.attrs["axis"]
        scalars = [a.op.args[0] for a in op.args if a.op and a in self.pending and is_wrapped(a.op)]
        if len(scalars) == len(op.args) and op.result.dtype in _PYTHON_DTYPES:
            return call("np.array", f"[{', '.join(map(self.argument, scalars))}]")
        return call(
            "np.concatenate", f"[{', '.join(map(self.argument, op.args))}]", *([f"axis={axis}"] if axis else [])
        )

    # indexing

    def subscript(self, op: Op) -> str:
        """What stands in the brackets of an index, set or add_at."""
        entries = []
        for entry, args, _ in consumed_axes(op.attrs["spec"], op.args[1 if op.name == "index" else 2 :]):
            if entry == ":":
                entries.append(":")
            elif entry == "n":
                entries.append("None")
            elif isinstance(entry, tuple):
                bounds = iter(args)
                texts = [self.argument(next(bounds)) if given else "" for given in entry[1:]]
                entries.append(":".join(texts if entry[3] else texts[:2]))
            else:
                entries.append(self.argument(args[0]))
        while len(entries) > 1 and entries[-1] == ":" and "None" not in entries:
            entries.pop()
        return ", ".join(entries) or "()"

    def _index(self, op: Op) -> Expr:
        x = op.args[0]
        if not x.ndim and not op.attrs["spec"]:
            return self.read(x)
        if self.shown and not x.ndim:  # perhaps a Python number
            if len(op.attrs["spec"]) == 1:
                return call("np.array", f"[{self._typed_argument(x)}]")
            return call("np.reshape", self._typed_argument(x), repr((1,) * len(op.attrs["spec"])))
        return Expr(f"{self.atom(x)}[{self.subscript(op)}]")

    # reductions, products

    def _reduction(self, op: Op) -> Expr:
        (x,) = op.args
        axes, keepdims = op.attrs["axes"], op.attrs.get("keepdims", False)
        args = [self._typed_argument(x)]
        if len(axes) < x.ndim or not axes:
            args.append(f"axis={axes[0] if len(axes) == 1 else tuple(axes)}")
        if keepdims:
            args.append("keepdims=True")
        return self._with_dtype(op, call(f"np.{op.name}", *args))

    _sum = _prod = _max = _min = _any = _all = _reduction

    def _along_axis(self, op: Op) -> Expr:
        (x,) = op.args
        axis = [f"axis={op.attrs['axis']}"] if x.ndim > 1 else []
        return self._with_dtype(op, call(f"np.{op.name}", self.argument(x), *axis))

    _argmax = _argmin = _cumsum = _cumprod = _along_axis

    def _with_dtype(self, op: Op, expr: Expr) -> Expr:
        result = op.results[0].type
        assert isinstance(result, ArrayType)
        return expr if _reduced_dtype(op.name, op.args[0].dtype) == result.dtype else _convert(expr, result)

    def _matmul(self, op: Op) -> Expr:
        x, y = map(self.read, op.args)
        return Expr(f"{x.at(PRODUCT)} @ {y.at(UNARY)}", PRODUCT)

    def _host(self, op: Op) -> Expr:
        expr = self.host_call(op)
        result = op.results[0].type
        assert isinstance(result, ArrayType)
        if expr.text.startswith("raises("):
            return expr
        if returns_its_types(op) and result.dtype.kind != "c" and result.ndim:
            return expr
        return _exact(expr, result)

    def host_call(self, op: Op) -> Expr:
        """The call of a host function, its results as they come."""
        args = [self._typed_argument(a) for a in op.args]
        tried = getattr(op.attrs["fn"], "op", None)  # an operation of which it is asked whether it raises
        if self.shown and isinstance(tried, Op):
            self.helpers["raises"] = None
            again = Op(tried.name, op.args, tried.attrs, (), [r.type for r in tried.results], op.loc)
            return call("raises", f"lambda: {self.host_call(again).text}")
        if not isinstance(op.attrs["fn"], str):
            return call(self.object_name(op.attrs["fn"]), *args)
        name: str = op.attrs["fn"]
        if name == "numpy.einsum":
            optimize = ["optimize=True"] if len(args) > 2 else []
            return call("np.einsum", repr(op.attrs["kwargs"]["subscripts"]), *args, *optimize)
        if self.shown and name.startswith(_HOSTED):
            text = name.removeprefix(_HOSTED)
            self.helpers.update(dict.fromkeys([*_needs(text), text]))
        elif name.startswith("numpy."):
            text = "np." + name.removeprefix("numpy.")
        else:
            text = name
            self.imports[_module_of(name)] = None
        kwargs = [f"{k}={_static(v)}" for k, v in op.attrs["kwargs"].items()]
        return call(text, *args, *kwargs)

    def object_name(self, x: Any) -> str:
        """The name by which the source refers to a Python object."""
        for name, known in self.objects.items():
            if known is x:
                return name
        name = re.sub(r"\W+", "_", getattr(x, "__name__", type(x).__name__)).strip("_")
        name = f"_{name or 'f'}{len(self.objects) + 1}"
        self.objects[name] = x
        return name

    def effect(self, op: Op, shown: bool) -> str:
        """The statement or expression of an effect; ``shown``: as a person would write it, else to be executed."""
        effect: Effect = op.attrs["fn"]
        args = [self._typed_argument(a) for a in op.args]
        if shown and effect.text:
            return effect.text.format(*args)
        return call(self.object_name(effect), *args).text

    # sequences

    def _seq_get(self, op: Op) -> Expr:
        sequence, position = op.args
        made = position.op if position in self.pending else None
        if made is not None and made.name == "add" and isinstance(made.args[0], Const) and made.args[0].data < 0:
            length = made.args[1].op
            if length is not None and length.name == "seq_len" and length.args[0] is sequence:
                return Expr(f"{self.atom(sequence)}[{int(made.args[0].data)}]")
        return Expr(f"{self.atom(sequence)}[{self.argument(position)}]")

    def _seq_len(self, op: Op) -> Expr:
        return Expr(f"len({self.argument(op.args[0])})", weak=True)

    def _seq_stack(self, op: Op) -> Expr:
        elem = op.args[0].type.elem  # type: ignore[union-attr]
        if elem.ndim == 0:  # type: ignore[union-attr]  # there may be none
            return call("np.array", self.argument(op.args[0]), dtype_name(elem.dtype))  # type: ignore[union-attr]
        return call("np.stack", self.argument(op.args[0]))

    def _seq_unstack(self, op: Op) -> Expr:
        return call("list", self.argument(op.args[0]))

    def _seq_new(self, op: Op) -> Expr:
        return Expr("[]")

    def _seq_zeros(self, op: Op) -> Expr:
        return Expr(f"[np.zeros_like(v)[()] for v in {self.argument(op.args[0])}]")


_HOSTED = f"{hosted.__name__}."


def _needs(function: str) -> list[str]:
    """The functions beside it that one of ``backends/hosted.py`` calls."""
    words = set(re.findall(r"\w+", inspect.getsource(getattr(hosted, function)))) - {function}
    return [n for n, f in vars(hosted).items() if n in words and inspect.isfunction(f)]


def hosted_source(name: str) -> str:
    """The source of a function of ``backends/hosted.py``, without annotations."""
    text = inspect.getsource(getattr(hosted, name))
    text = re.sub(r"\) -> [^:]+:\n", "):\n", re.sub(r"(\w): (Any|bool|int)\b", r"\1", text))
    return text.replace("math.fsum", "__import__('math').fsum")


def quoted(text: str) -> str:
    """A string literal, in double quotes if it can be."""
    return repr(text) if '"' in text or "\\" in repr(text) else f'"{text}"'


def _is_negative(expr: Expr) -> bool:
    """Whether the text without its leading minus sign is the negation, exactly."""
    words = set(expr.text.split())
    return expr.text.startswith("-") and expr.strength in (PRODUCT, UNARY) and not words & {"//", "%"}


def _array_of_shape(dims: Sequence[Value]) -> Value | None:
    """The array that ``dims`` are the lengths of, all axes in order."""
    made = [d.op for d in dims]
    if any(op is None or op.name != "dim" or op.attrs["axis"] != k for k, op in enumerate(made)):
        return None
    arrays = {op.args[0] for op in made if op is not None}
    like = arrays.pop()
    return like if not arrays and like.ndim == len(dims) else None


def _convert(expr: Expr, type: ArrayType, lossy: bool = False, origin: Type | None = None) -> Expr:
    """``expr`` converted to another dtype; ``lossy``: NaN and infinities become integers as in ``astype``, no error."""
    if type.ndim == 0 and not lossy:
        return call("np.bool" if type.dtype.kind == "b" else f"np.{type.dtype.name}", expr.text)
    if origin is not None:
        expr = typed(expr, origin)
    return call(f"{expr.at(ATOM)}.astype", dtype_name(type.dtype))


def _exact(expr: Expr, type: ArrayType) -> Expr:
    """What a foreign function returned, with exactly the type that the Program gives it."""
    array = call("np.asarray", expr.text, dtype_name(type.dtype))
    return array if type.ndim else Expr(f"{array.text}[()]")


def exact(text: str, type: Type) -> str:
    assert isinstance(type, ArrayType)
    return _exact(Expr(text), type).text


def returns_its_types(op: Op) -> bool:
    """Whether a host function returns real arrays of exactly the result types."""
    fn = op.attrs["fn"]
    return isinstance(fn, str) and fn.startswith("numpy.")


def _static(value: Any) -> str:
    """A static keyword argument."""
    if isinstance(value, np.dtype):
        return dtype_name(value)
    return getattr(value, "__name__", "") or repr(value)


def _module_of(name: str) -> str:
    """The module that holds a public function named by its dotted path."""
    module = name.rpartition(".")[0]
    while True:
        try:
            importlib.import_module(module)
            return module
        except ModuleNotFoundError:
            module = module.rpartition(".")[0]
            if not module:
                raise


@cache
def _natural_dtype(name: str, dtypes: tuple[np.dtype, ...]) -> np.dtype | None:
    """The dtype that NumPy gives an elementwise operation on operands of these dtypes; None if it refuses them."""
    if name in ("where", "cast", "strong_mul", "complex", "real", "imag"):
        return None
    try:
        with np.errstate(all="ignore"):
            return host.elementwise_function(name)(*(np.ones(1, d) for d in dtypes)).dtype
    except TypeError:
        return None


@cache
def _reduced_dtype(name: str, dtype: np.dtype) -> np.dtype:
    return getattr(np, name)(np.ones(1, dtype)).dtype
