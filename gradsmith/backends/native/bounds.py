"""Bounds of indices: Python's wrapping and IndexError, and checks moved out of loops.

In a loop the fast version of a program proves indices in range before the loop, for its first and last iteration, where
the index is affine in the loop's variable; otherwise it compares once. Whatever is not plainly in range, a negative
index included, sends the call to the *checked* version, which wraps and checks every index where it is used and raises
the real errors.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from gradsmith.backends.native.emit import Ix
from gradsmith.backends.native.lower import Lowering
from gradsmith.backends.native.shapes import Dim
from gradsmith.ir.ops import consumed_axes
from gradsmith.ir.program import Block, Const, Op, Value


@dataclass
class Affine:
    """``coefficient * i + sum(sign * value) + constant`` with values defined outside the loop."""

    coefficient: int = 0
    terms: list[tuple[int, Value]] = field(default_factory=list)
    constant: int = 0

    def plus(self, other: Affine, sign: int) -> Affine:
        terms = self.terms + [(sign * s, v) for s, v in other.terms]
        return Affine(self.coefficient + sign * other.coefficient, terms, self.constant + sign * other.constant)

    def times(self, k: int) -> Affine:
        return Affine(k * self.coefficient, [(k * s, v) for s, v in self.terms], k * self.constant)


def affine(value: Value, variable: Value, inside: set[Value], lo: Lowering) -> Affine | None:
    """``value`` as an affine function of the loop variable; None if it is not one."""
    if value is variable:
        return Affine(1)
    if isinstance(value, Const):
        return Affine(constant=int(value.data))
    if value not in inside:
        return Affine(terms=[(1, value)])
    op = value.op
    if op is None:
        return None
    if op.name == "dim":
        n = lo.shapes.of(op.args[0])[op.attrs["axis"]]
        return Affine(constant=n) if isinstance(n, int) else None
    if op.name == "neg":
        x = affine(op.args[0], variable, inside, lo)
        return x and x.times(-1)
    if op.name not in ("add", "sub", "mul"):
        return None
    x, y = (affine(a, variable, inside, lo) for a in op.args)
    if x is None or y is None:
        return None
    if op.name != "mul":
        return x.plus(y, 1 if op.name == "add" else -1)
    if not y.coefficient and not y.terms:
        return x.times(y.constant)
    return y.times(x.constant) if not x.coefficient and not x.terms else None


def integer_entries(op: Op) -> list[tuple[int, int, Value]]:
    """For every integer entry of an index spec: number of the entry, axis it indexes, argument."""
    out, axis = [], 0
    parts = consumed_axes(op.attrs["spec"], op.args[1 if op.name == "index" else 2 :])
    for k, (entry, args, count) in enumerate(parts):
        if entry == "i":
            out.append((k, axis, args[0]))
        axis += count
    return out


def defined_inside(body: Block) -> set[Value]:
    """The values that a loop's body defines."""
    inside = set(body.params)
    for op in body.walk():
        inside.update(op.results)
        for region in op.regions:
            inside.update(region.params)
    return inside


def affine_entry(
    lo: Lowering, op: Op, axis: int, arg: Value, variable: Value, inside: set[Value]
) -> tuple[Dim, Affine] | None:
    """The length of the axis that an integer entry indexes and its index; None if that is not affine."""
    n = lo.shapes.of(op.args[0])[axis] if not isinstance(op.args[0], Const) else op.args[0].data.shape[axis]
    where = affine(arg, variable, inside, lo)
    return None if where is None or not lo.available(n) else (n, where)


def hoist(lo: Lowering, loop: Op, first: Ix, last: Ix, count: Ix, early: Collection[Op] = ()) -> None:
    """Check, before a ``for`` loop, the affine indices of its body for the loop's first and last index.

    ``early``: reads that run before their place, and so before what their being in range may rest on.
    """
    if lo.checked:
        return
    body = loop.regions[0]
    inside = defined_inside(body)
    done: set[tuple[object, ...]] = set()
    for op in body.ops:
        if op.name not in ("index", "set", "add_at") or (op.attrs.get("checked") and op not in early):
            continue
        for entry, axis, arg in integer_entries(op):
            found = affine_entry(lo, op, axis, arg, body.params[0], inside)
            if found is None:
                continue
            n, where = found
            lo.proven.add((op, entry))
            key = (n, where.coefficient, tuple(where.terms), where.constant)
            if key not in done:
                done.add(key)
                _prove(lo, where, lo.length(n), first, last, count)


def _prove(lo: Lowering, where: Affine, n: Ix, first: Ix, last: Ix, count: Ix) -> None:
    em = lo.em
    rest: Ix = where.constant
    for sign, value in where.terms:
        rest = em.add(rest, em.mul(sign, lo.number_of(value)))
    if where.coefficient == 0 and isinstance(rest, int) and rest < 0:
        rest = em.add(n, rest)
    good = em.ins(f"icmp eq i64 {count}, 0")
    inside = None
    for end in {0: [first], 1: [first, last]}[int(where.coefficient != 0)]:
        at = em.add(rest, em.mul(where.coefficient, end))
        test = em.ins(f"icmp ult i64 {at}, {n}")
        inside = test if inside is None else em.ins(f"and i1 {inside}, {test}")
    lo.require(em.ins(f"or i1 {good}, {inside}"), "unsafe")


def resolve(lo: Lowering, op: Op, entry: int, axis: int, arg: Value, n: Ix) -> Ix:
    """The non-negative index that an integer entry stands for, checked as its place demands."""
    em = lo.em
    if isinstance(arg, Const):
        return _constant(lo, op, axis, int(arg.data), n, (op, entry) in lo.proven)
    i = lo.scalar(arg)
    if op.attrs.get("checked") or (op, entry) in lo.proven:
        return i
    if lo.loop_depth and not lo.checked:
        lo.require(em.ins(f"icmp ult i64 {i}, {n}"), "unsafe")
        return i
    wrapped = em.ins(f"select i1 {em.ins(f'icmp slt i64 {i}, 0')}, i64 {em.add(i, n)}, i64 {i}")
    lo.require(em.ins(f"icmp ult i64 {wrapped}, {n}"), "index", op, [i, str(n)], axis)
    return wrapped


def _constant(lo: Lowering, op: Op, axis: int, i: int, n: Ix, proven: bool) -> Ix:
    em = lo.em
    at = i if i >= 0 else em.add(n, i)
    if op.attrs.get("checked") or proven or (isinstance(n, int) and isinstance(at, int) and 0 <= at < n):
        return at
    if isinstance(at, int) and isinstance(n, int):
        lo.require("false", "index", op, [str(i), str(n)], axis)
        return at
    lo.require(em.ins(f"icmp ult i64 {at}, {n}"), "index", op, [str(i), str(n)], axis)
    return at
