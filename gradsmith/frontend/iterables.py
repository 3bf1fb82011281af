"""Iterables with a length known only at run time: what ``range``, ``zip``, ``enumerate``, ``reversed`` and arrays give to a loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from gradsmith.errors import UnsupportedCode
from gradsmith.frontend import indexing, objects
from gradsmith.frontend import stage as st
from gradsmith.frontend.arithmetic import binary
from gradsmith.frontend.heap import Slot
from gradsmith.frontend.values import Array, Scalar, is_grown
from gradsmith.ir import builder as ir
from gradsmith.ir.program import Const, Value

#: how many iterations may be unrolled, and how many items an iterator may give
MAX_UNROLL = 20_000


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


#: where ``itertools.count()`` stops
_END = 2**62


def counting(start: int | Scalar, step: int | Scalar) -> Range:
    """``itertools.count`` of integers."""
    return Range(start, _END, step)


def endless(stop: Value) -> bool:
    """Whether a loop up to ``stop`` has no end."""
    return isinstance(stop, Const) and stop.data == _END


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
                stage.check(
                    objects.compare(stage, "==", n, shortest), ValueError, "zip() arguments have different lengths"
                )
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
    """All items but the first ``count``."""

    def __init__(self, xs: Any, count: int = 1):
        self.xs = xs
        self.count = count

    def staged_length(self) -> Any:
        return binary_int("-", objects.length(st.current(), self.xs), self.count)

    def staged_item(self, k: Any) -> Any:
        return item(self.xs, binary_int("+", k, self.count))


class Pulled:
    """The items of an iterator that Python runs, which may have no end: each is asked for once and kept."""

    def __init__(self, iterator: Iterator[Any]):
        self._iterator = iterator
        self._found: list[Any] = []

    def has(self, k: int) -> bool:
        """Whether there is a k-th item."""
        while len(self._found) <= k:
            if k >= MAX_UNROLL:
                raise UnsupportedCode(f"an iterator of more than {MAX_UNROLL} items")
            try:
                self._found.append(next(self._iterator))
            except StopIteration:
                return False
        return True

    def __getitem__(self, k: int) -> Any:
        return st.current().wrap(self._found[k])

    def rest(self, k: int = 0, most: int = MAX_UNROLL + 1) -> list[Any]:
        """The items from the k-th on, at most so many."""
        end = k
        while end < k + most and self.has(end):
            end += 1
        return [self[n] for n in range(k, end)]


class Once:
    """An iterator of staged code: items are handed out once. ``make`` gives them, when the first is asked for.

    ``position``: how many were handed out; ALL; or LOST when that is decided by run-time values.
    """

    ALL, LOST = -1, -2

    def __init__(self, make: Callable[[], Any]):
        self.make = make
        self.items: Any = None
        self.position: Any = 0
        st.current().heap.born(self)

    def move(self, position: int) -> None:
        st.current().heap.write(Slot("attr", self, "position"), position)

    def _here(self) -> Any:
        """The position; the items are there afterwards."""
        position = self.position
        if isinstance(position, Scalar):
            raise st.NeedConcrete(position.value)
        if position == self.LOST:
            raise UnsupportedCode(
                "an iterator that is used again after a loop or a zip that may not have used all of it"
            )
        if self.items is None:
            st.current().heap.write(Slot("attr", self, "items"), self.make())
        return position

    def take(self, left: int = ALL, whole: bool = True) -> Any:
        """The items that are left, as a list or a lazy iterable. The iterator is put to ``left``.

        Without ``whole`` they may also be :class:`Pulled`, of which not all need exist.
        """
        position = self._here()
        self.move(left)
        if position == self.ALL:
            return []
        if isinstance(self.items, Pulled):
            return self.items.rest(position) if whole or position else self.items
        if not position:
            return self.items
        return (
            self.items[position:]
            if isinstance(self.items, list | tuple) and not is_grown(self.items)
            else Tail(self.items, position)
        )

    def advance(self) -> Any:
        """The next item. Raises StopIteration."""
        position = self._here()
        if position == self.ALL or not self._has(position):
            raise StopIteration
        self.move(position + 1)
        return self.items[position] if isinstance(self.items, Pulled) else item(self.items, position)

    def _has(self, k: int) -> bool:
        stage = st.current()
        if isinstance(self.items, Pulled):
            return self.items.has(k)
        return bool(stage.concrete(objects.compare(stage, "<", k, objects.length(stage, self.items))))

    # Python's own code may iterate, too

    def __iter__(self) -> Once:
        return self

    def __next__(self) -> Any:
        return self.advance()


def taken(xs: Any) -> Any:
    """What can be iterated in place of ``xs``: of an iterator the items that are left; it has none from now on."""
    return xs.take() if isinstance(xs, Once) else xs


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
