"""Random well-formed Programs with arguments that they run on without an error, for tests of passes and back ends.

    @given(programs())
    def test(case):
        program, args = case

The generator knows the shape of every value for the arguments it makes, so operations fit together; whether they fit
for other shapes is not said. ``random_case(seed)`` gives the same without hypothesis.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from gradsmith.ir import builder as b
from gradsmith.ir.program import Const, Input, Output, Program, Value
from gradsmith.ir.types import BOOL, C128, F32, F64, I64, ArrayType, SeqType

Case = tuple[Program, list[Any]]
Shape = tuple[int, ...]

_FLOAT_UNARY = ["neg", "sin", "cos", "tanh", "exp", "abs", "sqrt", "floor", "sign", "arctan", "expit", "erf"]
_FLOAT_BINARY = ["add", "sub", "mul", "div", "maximum", "minimum", "strong_mul", "arctan2", "copysign", "pow"]
_COMPLEX_UNARY = ["neg", "sin", "exp", "conj"]
_INT_BINARY = ["add", "sub", "mul", "maximum", "minimum", "floordiv", "mod", "and", "xor"]
_COMPARISONS = ["lt", "le", "eq", "ne", "gt", "ge"]


@st.composite
def programs(draw: Any, size: int = 12, dtypes: Sequence[ArrayType] = (F64, F64, F32, C128, I64)) -> Case:
    """A Program of about ``size`` operations and arguments for it."""
    return Generator(lambda n: draw(st.integers(0, n - 1)), dtypes).case(size)


def random_case(seed: int, size: int = 25, dtypes: Sequence[ArrayType] = (F64, F64, F32, C128, I64)) -> Case:
    """The case of a seed, drawn without hypothesis (quicker, for longer runs)."""
    return Generator(random.Random(seed).randrange, dtypes).case(size)


class Generator:
    """Builds one Program; ``choose(n)`` draws an integer below n."""

    def __init__(self, choose: Callable[[int], int], dtypes: Sequence[ArrayType]):
        self.choose = choose
        self.dtypes = dtypes
        self.builder = b.Builder()
        self.scope: list[Value] = []  # values that may be used at this place
        self.shape: dict[Value, Shape] = {}
        self.loops: list[tuple[Value, int]] = []  # loop indices around this place with their bounds
        self.depth = 0

    def case(self, size: int) -> Case:
        inputs, args = [], []
        for k in range(1 + self.choose(3)):
            type = self.pick(self.dtypes).with_ndim(self.pick([0, 1, 1, 2]))
            shape = tuple(self.pick([1, 2, 3, 3]) for _ in range(type.ndim))
            param = Value(type, f"x{k}")
            self.builder.block.params.append(param)
            self.add(param, shape)
            args.append(self.numbers(type, shape))
            kind = self.pick(["array"] if type.ndim or type == F32 else ["py", "np", "array"])
            args[-1] = args[-1].item() if kind == "py" else np.asarray(args[-1]) if kind == "array" else args[-1]
            inputs.append(Input(kind, tuple(n == 1 for n in shape)))
        with self.builder:
            self.operations(size)
        results = [v for v in self.scope if isinstance(v.type, ArrayType)]
        results = [self.pick(results) for _ in range(1 + self.choose(5))] + results[-1:]
        self.builder.block.results = results
        outputs = [Output("py" if r.ndim == 0 and r.dtype in (float, int, bool, complex) else "array") for r in results]
        return Program("f", self.builder.block, inputs, outputs), args

    # --- choices ---

    def pick(self, items: Sequence[Any]) -> Any:
        return items[self.choose(len(items))]

    def numbers(self, type: ArrayType, shape: Shape) -> Any:
        data = np.array([self.choose(13) - 6 for _ in range(int(np.prod(shape)))]).reshape(shape)
        if type.dtype.kind == "c":
            data = data * (1 + 0.5j)
        return (data / 4 if type.inexact else data).astype(type.dtype)[()]

    def add(self, value: Value, shape: Shape, name: bool = True) -> Value:
        self.shape[value] = shape
        self.scope.append(value)
        if name and not value.name and not isinstance(value, Const) and self.choose(3) == 0:
            value.name = self.pick(["a", "b", "u", "acc", "x0"])
        return value

    def find(self, want: Callable[[Value], bool]) -> Value | None:
        found = [v for v in self.scope if isinstance(v.type, ArrayType) and want(v)]
        return self.pick(found[-8:]) if found else None

    def const(self, type: ArrayType, shape: Shape = ()) -> Value:
        value = Const(self.numbers(type, shape), type.with_ndim(len(shape)))
        self.shape[value] = shape
        return value

    def partner(self, x: Value) -> Value:
        """A second operand: of the dtype of ``x``, broadcasting with it."""
        shape = self.shape[x]
        found = self.find(lambda v: v.dtype == x.dtype and _broadcast(self.shape[v], shape) is not None)
        if found is None or self.choose(5) == 0:
            return self.const(x.type.with_ndim(0))
        return found

    def dims(self, shape: Shape) -> list[Value]:
        """Lengths as constants or as ``dim`` of some array."""
        return [self.length(n) for n in shape]

    def length(self, n: int) -> Value:
        source = self.find(lambda v: n in self.shape[v])
        if source is None or self.choose(2):
            return b.i64(n)
        return b.emit("dim", source, axis=self.shape[source].index(n))

    def position(self, n: int) -> Value:
        """An index into an axis of length n > 0."""
        fitting = [i for i, bound in self.loops if bound <= n]
        if fitting and self.choose(3):
            return self.pick(fitting)
        return b.i64(self.choose(2 * n) - n)

    # --- operations ---

    def operations(self, size: int) -> None:
        steps = [self.unary, self.binary, self.binary, self.compare, self.reduction, self.index, self.update]
        steps += [self.update, self.shaping, self.cast, self.where, self.advanced]
        control = [self.for_loop, self.while_loop, self.branch, self.stack_loop]
        for _ in range(size):
            self.pick(steps + control * (self.depth < 2))()

    def unary(self) -> None:
        x = self.find(lambda v: v.type.inexact)
        if x is not None:
            name = self.pick(_COMPLEX_UNARY if x.dtype.kind == "c" else _FLOAT_UNARY)
            self.add(b.emit(name, x), self.shape[x])

    def binary(self) -> None:
        x = self.find(lambda v: v.dtype.kind != "b")
        if x is None:
            return
        y = self.partner(x)
        names = {"c": ["add", "sub", "mul", "strong_mul"], "f": _FLOAT_BINARY}.get(x.dtype.kind, _INT_BINARY)
        args = [x, y] if self.choose(2) else [y, x]
        self.add(b.emit(self.pick(names), *args), _broadcast(self.shape[x], self.shape[y]))

    def compare(self) -> None:
        x = self.find(lambda v: v.dtype.kind in "fi")
        if x is not None:
            y = self.partner(x)
            self.add(b.emit(self.pick(_COMPARISONS), x, y), _broadcast(self.shape[x], self.shape[y]))

    def where(self) -> None:
        c = self.find(lambda v: v.dtype.kind == "b")
        x = c and self.find(lambda v: _broadcast(self.shape[v], self.shape[c]) is not None)
        if x is None:
            return
        y = self.partner(x)
        shape = _broadcast(self.shape[x], self.shape[y])
        if _broadcast(shape, self.shape[c]) is not None:
            self.add(b.emit("where", c, x, y), _broadcast(shape, self.shape[c]))

    def cast(self) -> None:
        x = self.find(lambda v: True)
        if x is not None:
            type = self.pick([F64, F64, F32, C128, I64, BOOL])
            if type.dtype.kind != "i" or x.dtype.kind in "bi":
                self.add(b.emit("cast", x, dtype=type.dtype), self.shape[x])

    def reduction(self) -> None:
        x = self.find(lambda v: v.ndim > 0 and v.dtype.kind != "b")
        if x is None:
            return
        axes = tuple(k for k in range(x.ndim) if self.choose(2)) or (0,)
        keep = bool(self.choose(2))
        name = self.pick(["sum", "sum", "prod"] if x.dtype.kind == "c" else ["sum", "sum", "prod", "max", "min"])
        if name in ("max", "min") and 0 in self.shape[x]:
            return
        shape = tuple(1 if k in axes else n for k, n in enumerate(self.shape[x]) if keep or k not in axes)
        self.add(b.emit(name, x, axes=axes, keepdims=keep), shape)

    def shaping(self) -> None:
        x = self.find(lambda v: v.dtype.kind != "b")
        if x is None:
            return
        shape = self.shape[x]
        kind = self.choose(6)
        if kind == 0 and x.ndim == 2:
            self.add(b.emit("transpose", x, perm=(1, 0)), shape[::-1])
        elif kind == 1 and x.ndim:
            self.add(b.emit("reshape", x, b.i64(int(np.prod(shape)))), (int(np.prod(shape)),))
        elif kind == 2 and x.ndim < 2:
            new = (self.pick([1, 2, 3]), *shape)
            self.add(b.emit("broadcast_to", x, *self.dims(new)), new)
        elif kind == 3 and x.ndim:
            target = tuple(1 if self.choose(3) == 0 else n for n in shape[self.choose(x.ndim) :])
            self.add(b.emit("unbroadcast", x, *self.dims(target)), target)
        elif kind == 4:
            new = tuple(self.pick([1, 2, 3]) for _ in range(1 + self.choose(2)))
            self.add(b.emit("full", self.const(x.type.with_ndim(0)), *self.dims(new)), new)
        elif kind == 5 and x.ndim == 2 and shape[0] == shape[1] and x.type.inexact:
            self.add(b.emit("matmul", x, x), shape)

    def basic_spec(self, shape: Shape) -> tuple[list[Any], list[Value], Shape] | None:
        """An index of integers, slices and new axes, its arguments, and the shape it selects."""
        spec: list[Any] = []
        args: list[Value] = []
        out: list[int] = []
        for n in shape:
            kind = self.choose(4)
            if kind == 0 and n:
                spec.append("i")
                args.append(self.position(n))
            elif kind == 1:
                spec.append(":")
                out.append(n)
            else:
                bounds = [self.choose(2 * n + 1) - n, self.choose(2 * n + 1) - n, self.pick([1, 1, 2, -1])]
                given = [bool(self.choose(2)), bool(self.choose(2)), self.choose(4) == 0]
                spec.append(("s", *given))
                args += [b.i64(v) for v, g in zip(bounds, given, strict=True) if g]
                chosen = [v if g else None for v, g in zip(bounds, given, strict=True)]
                out.append(len(range(*slice(*chosen).indices(n))))
        if self.choose(8) == 0 and len(out) < 2:
            spec.append("n")
            out.append(1)
        return spec, args, tuple(out)

    def index(self) -> None:
        x = self.find(lambda v: v.ndim > 0)
        if x is not None:
            spec, args, shape = self.basic_spec(self.shape[x])
            if 0 not in shape:
                self.add(b.emit("index", x, *args, spec=tuple(spec)), shape)

    def update(self) -> None:
        x = self.find(lambda v: v.ndim > 0 and v.dtype.kind != "b")
        if x is None:
            return
        spec, args, shape = self.basic_spec(self.shape[x])
        v = self.find(lambda v: v.dtype == x.dtype and _broadcast(self.shape[v], shape) == shape)
        if v is None or v.ndim > len(shape):
            v = self.const(x.type.with_ndim(0))
        new = self.add(b.emit(self.pick(["set", "add_at"]), x, v, *args, spec=tuple(spec)), self.shape[x])
        if self.choose(3):  # mostly the old value is not used any more, as in user code
            self.scope.remove(x)
            new.name = x.name

    def advanced(self) -> None:
        """Fancy indices and masks, read and added to."""
        x = self.find(lambda v: v.ndim > 0 and v.dtype.kind != "b" and self.shape[v][0] > 0)
        if x is None:
            return
        n, *rest = self.shape[x]
        spec = (self.pick(["a", "a", "m"]), *":" * len(rest))
        if spec[0] == "m":
            index: Value = Const(np.array([bool(self.choose(2)) for _ in range(n)], dtype=bool))
            length = int(index.data.sum())
        else:
            length = 1 + self.choose(3)
            index = Const(np.array([self.choose(n) for _ in range(length)], dtype=np.int64))
        if self.choose(2) and length:
            self.add(b.emit("index", x, index, spec=spec), (length, *rest))
        else:
            v = self.const(x.type.with_ndim(0))
            self.add(b.emit(self.pick(["set", "add_at"]), x, v, index, spec=spec), self.shape[x])

    # --- control flow ---

    def carried(self) -> list[Value]:
        found = [self.find(lambda v: v.dtype.kind != "b") for _ in range(1 + self.choose(3))]
        out = [v for v in found if v is not None]
        return out or [self.const(F64)]

    def body(self, params: Sequence[Value], initial: Sequence[Value], size: int) -> list[Value]:
        """Operations of a region with carried ``params``, and a result for each of them."""
        outer, self.scope = self.scope, list(self.scope)
        for param, init in zip(params, initial, strict=True):
            self.add(param, self.shape[init], name=False)
        self.depth += 1
        self.operations(size)
        results = []
        for param in params:
            same = self.find(lambda v, p=param: v.type == p.type and self.shape[v] == self.shape[p])
            results.append(param if same is None else same)
        self.scope = outer
        self.depth -= 1
        return results

    def for_loop(self) -> None:
        initial = self.carried()
        params = [Value(v.type, v.name) for v in initial]
        index, count = Value(I64, "i"), self.choose(4)
        start = self.choose(2)
        bounds = [b.i64(start), self.length(count), b.i64(1)]
        self.loops.append((index, max(count, 1)))
        with self.builder.region([index, *params]) as region:
            self.add(index, ())
            region.results = self.body(params, initial, 1 + self.choose(5))
            self.scope.remove(index)
        self.loops.pop()
        op = self.builder.emit_control(
            "for", [*bounds, *initial], [region], **({"reverse": True} if self.choose(3) == 0 else {})
        )
        self.finish(op.results, initial)

    def while_loop(self) -> None:
        initial = self.carried()
        initial = [b.i64(0), *initial]
        self.shape[initial[0]] = ()
        conditions = [Value(v.type) for v in initial]
        params = [Value(v.type, v.name) for v in initial]
        with self.builder.region(conditions) as condition:
            condition.results = [b.emit("lt", conditions[0], b.i64(self.choose(4)))]
        with self.builder.region(params) as region:
            _, *results = self.body(params, initial, 1 + self.choose(5))
            region.results = [b.emit("add", params[0], b.i64(1)), *results]
        op = self.builder.emit_control("while", initial, [condition, region])
        self.finish(op.results, initial)

    def branch(self) -> None:
        c = self.find(lambda v: v.type == BOOL) or self.truth()
        handed = self.carried()
        regions = []
        for _ in range(2):
            outer = list(self.scope)
            with self.builder.region() as region:
                self.scope = [v for v in self.scope if v not in handed] + handed
                region.results = self.body(handed, handed, 1 + self.choose(4))
            self.scope = outer
            regions.append(region)
        op = self.builder.emit_control("if", [c], regions)
        self.finish(op.results, handed)

    def truth(self) -> Value:
        x = self.find(lambda v: v.ndim == 0 and v.dtype.kind in "fi")
        c = Const(bool(self.choose(2))) if x is None else b.emit("gt", x, self.const(x.type))
        self.shape[c] = ()
        return c

    def stack_loop(self) -> None:
        """Push values in one loop, pop or stack them afterwards: how reverse passes save."""
        x = self.find(lambda v: v.type.inexact)
        if x is None:
            return
        sequence, count = SeqType(x.type), 1 + self.choose(3)
        s0 = b.emit("seq_new", elem=x.type)
        index, s, v = Value(I64, "k"), Value(sequence), Value(x.type, "v")
        with self.builder.region([index, s, v]) as region:
            s1 = b.emit("seq_push", s, v)
            (new,) = self.body([v], [x], 1 + self.choose(3))
            region.results = [s1, new]
        op = self.builder.emit_control("for", [b.i64(0), b.i64(count), b.i64(1), s0, x], [region])
        self.finish(op.results[1:], [x])
        if self.choose(3) == 0:
            self.add(b.emit("seq_stack", op.results[0]), (count, *self.shape[x]))
            return
        index, s, g = Value(I64, "k"), Value(sequence), Value(x.type, "g")
        with self.builder.region([index, s, g]) as region:
            s1, saved = b.emit("seq_pop", s)
            self.shape[saved] = self.shape[x]
            region.results = [s1, b.emit("mul", g, saved)]
        one = b.emit("mul", x, self.const(x.type.with_ndim(0)))
        loop = self.builder.emit_control(
            "for", [b.i64(0), b.i64(count), b.i64(1), op.results[0], one], [region], reverse=True
        )
        self.finish(loop.results[1:], [x])

    def finish(self, results: Sequence[Value], initial: Sequence[Value]) -> None:
        for result, init in zip(results, initial, strict=True):
            self.add(result, self.shape[init])


def _broadcast(x: Shape, y: Shape) -> Shape | None:
    try:
        return np.broadcast_shapes(x, y)
    except ValueError:
        return None
