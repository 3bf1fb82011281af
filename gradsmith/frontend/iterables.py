"""Iterables with a length known only at run time: what ``range``, ``zip``, ``enumerate``, ``reversed`` and arrays give to a loop."""

from __future__ import annotations

from typing import Any


from gradsmith.frontend import indexing, objects
from gradsmith.frontend import stage as st
from gradsmith.frontend.arithmetic import binary
from gradsmith.frontend.values import Array, Scalar, is_grown
from gradsmith.ir import builder as ir
from gradsmith.ir.program import Const, Value


class Lazy:
    """An iterable: ``staged_length()`` items, the k-th is ``staged_item(k)``."""

    def staged_length(self) -> Any:
        raise NotImplementedError

    def staged_item(self, k: Any) -> Any:
        raise NotImplementedError


class Range(Lazy):
    """``range(start, stop, step)`` with run-time bounds."""

    def __init__(self, start: Any, stop: Any, step: Any):
        self.start, self.stop, self.step = (st.index_value(x) for x in (start, stop, step))
        st.current().check(
            objects.arithmetic.python_number(objects.arithmetic.fold("ne", [self.step, ir.i64(0)])),
            ValueError,
            "range() arg 3 must not be zero",
        )

    def staged_length(self) -> Any:
        fold = objects.arithmetic.fold
        if isinstance(self.step, Const):
            away = 1 if self.step.data > 0 else -1
            span = fold("add", [fold("sub", [self.stop, self.start]), ir.i64(int(self.step.data) - away)])
            return st.integer(fold("maximum", [fold("floordiv", [span, self.step]), ir.i64(0)]))
        span = ir.elementwise("sub", self.stop, self.start)
        # ceil division for either sign of the step
        steps = ir.elementwise("neg", ir.elementwise("floordiv", ir.elementwise("neg", span), self.step))
        return Scalar(ir.elementwise("maximum", steps, ir.i64(0)), weak=True)

    def staged_item(self, k: Any) -> Any:
        return binary_int("+", st.integer(self.start), binary_int("*", k, st.integer(self.step)))

    def tail(self) -> Range:
        out = Range.__new__(Range)
        out.start = objects.arithmetic.fold("add", [self.start, self.step])
        out.stop, out.step = self.stop, self.step
        return out


def binary_int(symbol: str, x: Any, y: Any) -> Any:
    if isinstance(x, Scalar) or isinstance(y, Scalar):
        return binary(symbol, x, y)
    return objects.arithmetic.BINARY[symbol][1](x, y)


class Zip(Lazy):
    """``zip(*parts)``."""

    def __init__(self, parts: list[Any], strict: bool = False):
        self.parts = parts
        self.strict = strict

    def staged_length(self) -> Any:
        stage = st.current()
        lengths = [objects.length(stage, p) for p in self.parts]
        shortest = lengths[0]
        for n in lengths[1:]:
            if self.strict:
                stage.check(objects.compare(stage, "==", n, shortest), ValueError, "zip() arguments have different lengths")
            if isinstance(n, Scalar) or isinstance(shortest, Scalar):
                shortest = Scalar(ir.elementwise("minimum", st.index_value(n), st.index_value(shortest)), weak=True)
            else:
                shortest = min(n, shortest)
        return shortest

    def staged_item(self, k: Any) -> Any:
        return tuple(item(p, k) for p in self.parts)


class Enumerate(Lazy):
    """``enumerate(xs, start)``."""

    def __init__(self, xs: Any, start: Any):
        self.xs = xs
        self.start = start

    def staged_length(self) -> Any:
        return objects.length(st.current(), self.xs)

    def staged_item(self, k: Any) -> Any:
        return binary_int("+", k, self.start), item(self.xs, k)


class Reversed(Lazy):
    """``reversed(xs)``."""

    def __init__(self, xs: Any):
        self.xs = xs

    def staged_length(self) -> Any:
        return objects.length(st.current(), self.xs)

    def staged_item(self, k: Any) -> Any:
        last = binary_int("-", self.staged_length(), 1)
        return item(self.xs, binary_int("-", last, k))


class Tail(Lazy):
    """All items but the first."""

    def __init__(self, xs: Any):
        self.xs = xs

    def staged_length(self) -> Any:
        return binary_int("-", objects.length(st.current(), self.xs), 1)

    def staged_item(self, k: Any) -> Any:
        return item(self.xs, binary_int("+", k, 1))


def item(xs: Any, k: Any) -> Any:
    """The k-th item, without a bounds check: k is a loop index."""
    if isinstance(xs, Array):
        return indexing.getitem(xs, k)
    if isinstance(xs, range) and isinstance(k, Scalar):
        return binary("+", binary("*", k, xs.step), xs.start)
    return objects.getitem(st.current(), xs, k)


def runs_as_loop(xs: Any) -> bool:
    """Whether a loop over ``xs`` is tried as a loop of the Program rather than unrolled."""
    if isinstance(xs, Zip):
        return any(map(runs_as_loop, xs.parts))
    if isinstance(xs, Enumerate | Reversed | Tail):
        return runs_as_loop(xs.xs)
    if isinstance(xs, range):
        return len(xs) > 8
    if isinstance(xs, Array):
        return xs.ndim > 0
    return isinstance(xs, Range) or is_grown(xs)


def loop_bounds(xs: Any) -> tuple[Value, Value, Value]:
    """(start, stop, step) of the loop over ``xs``."""
    if isinstance(xs, Range):
        return xs.start, xs.stop, xs.step
    if isinstance(xs, range):
        return ir.i64(xs.start), ir.i64(xs.stop), ir.i64(xs.step)
    return ir.i64(0), st.index_value(objects.length(st.current(), xs)), ir.i64(1)


def loop_item(xs: Any, i: Any) -> Any:
    """The item of the iteration with loop index ``i``."""
    return i if isinstance(xs, Range | range) else item(xs, i)


