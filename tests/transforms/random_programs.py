"""Random Programs with loops, whiles, branches, updates, slices and sequences, smooth where they are run."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from gradsmith.ir.builder import (
    add_at,
    broadcast_to,
    cast,
    current,
    elementwise,
    emit,
    full,
    i64,
    index,
    set_at,
    shape,
    sin,
    sum_,
    where,
)
from gradsmith.ir.program import Const, Program, Value
from gradsmith.ir.types import BOOL, F64, I64, ArrayType, SeqType
from tests.transforms.helpers import build

N = 4
VECTOR = ArrayType(np.dtype(float), 1)
INSIDE = ("s", True, True, False)


class Pool:
    """The values in scope: scalars, vectors of length N, vectors of any length ≥ 1, and loop indices."""

    def __init__(self, scalars: list[Value], vectors: list[Value], lists: list[Value], indices: list[Value]):
        self.scalars, self.vectors, self.lists, self.indices = scalars, vectors, lists, indices

    def copy(self) -> Pool:
        return Pool([*self.scalars], [*self.vectors], [*self.lists], [*self.indices])


class Writer:
    """Emits random statements; every value stays of moderate size."""

    def __init__(self, rng: random.Random):
        self.rng = rng

    def recent(self, values: list[Value]) -> Value:
        """A value, more often a late one."""
        return self.rng.choice(values[-3:] if self.rng.random() < 0.6 else values)

    def statements(self, pool: Pool, depth: int) -> None:
        for _ in range(self.rng.randint(1, 4)):
            simple = [self.scalar, self.vector, self.update, self.growing]
            control = [self.for_loop, self.while_loop, self.branch, self.sequence]
            self.rng.choice(simple + control * 2 if depth > 0 else simple)(pool, depth)

    def combine(self, x: Value, y: Value) -> Value:
        c = Const(round(self.rng.uniform(-1.5, 1.5), 2))
        return self.rng.choice(
            [
                lambda: sin(x) + c * y,
                lambda: sin(x * y),
                lambda: elementwise("tanh", x - c * y),
                lambda: x / (3.0 + elementwise("cos", y)),
                lambda: elementwise("exp", -(x * x)) * y,
                lambda: elementwise("maximum", x, y),
                lambda: where(x > 0.15, elementwise("log", where(x > 0.15, x, 1)), sin(y)),
                lambda: elementwise("sqrt", x * x + 1.0) - y,
            ]
        )()

    def position(self, pool: Pool) -> Value:
        """An index into a vector, now and then a negative one."""
        if pool.indices and self.rng.random() < 0.7:
            return elementwise("mod", self.recent(pool.indices), N) - i64(self.rng.choice([0, 0, 1]))
        return i64(self.rng.randint(-N, N - 1))

    def scalar(self, pool: Pool, depth: int) -> None:
        kind = self.rng.randint(0, 3)
        if kind == 0:
            value = index(self.recent(pool.vectors), ["i"], [self.position(pool)])
        elif kind == 1:
            value = elementwise("tanh", sum_(self.recent(pool.vectors + pool.lists), [0]))
        else:
            value = self.combine(self.recent(pool.scalars), self.recent(pool.scalars))
        pool.scalars.append(value)

    def vector(self, pool: Pool, depth: int) -> None:
        x = self.recent(pool.vectors)
        kind = self.rng.randint(0, 3)
        if kind == 0:
            parts = [index(x, [INSIDE], [a, a + N - 2]) for a in (0, 1, 2)]
            middle = self.combine(parts[0], parts[1] - parts[2])
            new = emit("concatenate", index(x, [INSIDE], [0, 1]), middle, index(x, [INSIDE], [-1, N]), axis=0)
            pool.vectors.append(new)
        elif kind == 1:
            pool.vectors.append(self.combine(x, self.recent(pool.scalars)))
        elif kind == 2:
            pool.vectors.append(broadcast_to(self.recent(pool.scalars), [N]) * x)
        else:
            pool.vectors.append(self.combine(x, self.recent(pool.vectors)))

    def update(self, pool: Pool, depth: int) -> None:
        x = self.recent(pool.vectors)
        if self.rng.random() < 0.5:
            write = self.rng.choice([set_at, add_at])
            new = write(x, self.recent(pool.scalars), ["i"], [self.position(pool)])
        else:
            middle = index(x, [INSIDE], [1, -1])
            left, right = index(x, [("s", False, True, False)], [-2]), index(x, [("s", True, False, False)], [2])
            value = self.combine(middle, left - right)
            new = self.rng.choice([set_at, add_at])(x, value, [INSIDE], [1, -1])
        pool.vectors.append(new)

    def growing(self, pool: Pool, depth: int) -> None:
        x = self.recent(pool.lists)
        y = full(self.recent(pool.scalars), [1])
        pool.lists.append(emit("concatenate", sin(x), y, axis=0) if self.rng.random() < 0.5 else self.combine(x, x))

    def carried(self, pool: Pool) -> list[Value]:
        scalars, vectors = self.rng.choice([(0, 1), (1, 0), (1, 1), (2, 0), (2, 1)])
        some = [self.recent(pool.scalars) for _ in range(scalars)]
        some += [self.recent(pool.vectors) for _ in range(vectors)]
        return some + [self.recent(pool.lists) for _ in range(self.rng.randint(0, 1))]

    def scoped(self, pool: Pool, params: list[Value], indices: list[Value], depth: int) -> list[Value]:
        """Random statements with ``params`` in scope; returns one new value for each of them."""
        inner = pool.copy()
        inner.indices += indices
        kinds = ["scalars" if p.ndim == 0 else "lists" if p.name == "list" else "vectors" for p in params]
        for p, kind in zip(params, kinds, strict=True):
            getattr(inner, kind).append(p)
        self.statements(inner, depth - 1)
        if self.rng.random() < 0.3:
            return [self.recent(getattr(inner, kind)) for kind in kinds]
        return [getattr(inner, kind)[-1] for kind in kinds]

    def params(self, pool: Pool, inits: list[Value]) -> list[Value]:
        return [Value(v.type, "list" if any(v is x for x in pool.lists) else "") for v in inits]

    def extend(self, pool: Pool, params: list[Value], results: list[Value]) -> None:
        for p, r in zip(params, results, strict=True):
            self.like(pool, p).append(r)

    @staticmethod
    def like(pool: Pool, p: Value) -> list[Value]:
        """The values of the kind of ``p``."""
        return pool.scalars if p.ndim == 0 else pool.lists if p.name == "list" else pool.vectors

    def for_loop(self, pool: Pool, depth: int) -> None:
        b, inits = current(), self.carried(pool)
        i, params = Value(I64, "i"), self.params(pool, inits)
        stop = i64(self.rng.randint(0, 4))
        if pool.indices and self.rng.random() < 0.5:
            stop = elementwise("mod", self.recent(pool.indices), 4)
        start, step = self.rng.choice([(i64(0), i64(1)), (i64(-1), i64(1)), (i64(0), i64(2)), (stop, i64(-1))])
        stop = i64(-1) if step.data < 0 else stop
        with b.region([i, *params]) as body:
            body.results = self.scoped(pool, params, [i], depth)
        reverse = self.rng.random() < 0.2
        loop = b.emit_control("for", [start, stop, step, *inits], [body], reverse=reverse)
        self.extend(pool, params, loop.results)

    def while_loop(self, pool: Pool, depth: int) -> None:
        b, inits = current(), self.carried(pool)
        more = cast(self.recent(pool.scalars) > 0.1, np.int64)
        limit = i64(self.rng.randint(0, 3)) + more
        k, params = Value(I64, "k"), self.params(pool, inits)
        test = Value(I64), *[Value(v.type) for v in inits]
        with b.region(list(test)) as cond:
            cond.results = [test[0] < limit]
        with b.region([k, *params]) as body:
            results = self.scoped(pool, params, [k], depth)
            body.results = [k + i64(1), *results]
        loop = b.emit_control("while", [i64(0), *inits], [cond, body])
        self.extend(pool, params, loop.results[1:])

    def branch(self, pool: Pool, depth: int) -> None:
        b = current()
        condition = self.recent(pool.scalars) > 0.12
        if pool.indices and self.rng.random() < 0.4:
            condition = elementwise("eq", elementwise("mod", self.recent(pool.indices), 2), 0)
        inits = self.carried(pool)
        kinds = self.params(pool, inits)
        regions = []
        for side in (True, False):
            with b.region() as block:
                inner = pool.copy()
                block.results = list(inits)
                if side or self.rng.random() < 0.6:
                    self.statements(inner, depth - 1)
                    block.results = [self.recent(self.like(inner, p)) for p in kinds]
            regions.append(block)
        assert condition.type == BOOL
        self.extend(pool, kinds, b.emit_control("if", [condition], regions).results)

    def sequence(self, pool: Pool, depth: int) -> None:
        b, init = current(), self.recent(pool.scalars)
        pushed = self.rng.choice([F64, VECTOR])
        s = emit("seq_new", elem=pushed)
        i, state, t = Value(I64, "i"), Value(F64), Value(SeqType(pushed))
        with b.region([i, state, t]) as body:
            (new,) = self.scoped(pool, [state], [i], depth)
            value = new * self.recent(pool.scalars)
            if pushed == VECTOR:
                value = self.recent(pool.vectors) * value
            body.results = [new, emit("seq_push", t, value)]
        loop = b.emit_control("for", [i64(0), i64(3), i64(1), init, s], [body])
        s = loop.results[1]
        if self.rng.random() < 0.5:
            pool.scalars.append(elementwise("tanh", loop.results[0]))
            s, value = emit("seq_pop", s)
            (pool.scalars if pushed == F64 else pool.vectors).append(value)
        if self.rng.random() < 0.5:
            value = emit("seq_get", s, i64(1))
            (pool.scalars if pushed == F64 else pool.vectors).append(value)
        stacked = emit("seq_stack", s)
        pool.lists.append(stacked if pushed == F64 else sum_(stacked, [1]))


def random_program(rng: random.Random, depth: int = 2) -> tuple[Program, list[Any]]:
    """A Program of two scalars and two vectors with one scalar result, and arguments for it."""
    values = np.random.default_rng(rng.randint(0, 10**6))
    args = [*map(np.float64, values.normal(size=2)), *values.normal(size=(2, N))]

    def f(*params: Value) -> Value:
        pool = Pool(list(params[:2]), list(params[2:]), [index(params[2], [INSIDE], [0, 2])], [])
        writer = Writer(rng)
        writer.statements(pool, depth)
        writer.statements(pool, depth)
        out = pool.scalars[-1] * pool.scalars[0]
        for v in (pool.vectors[-1], pool.lists[-1]):
            out = out + sum_(v * v, [0])
        assert len(shape(pool.vectors[-1])) == 1
        return elementwise("tanh", out * 0.2)

    return build(f, args), args
