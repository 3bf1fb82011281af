"""Loop nests: elementwise operations, reductions and updates of regions over one shape, fused into one pass.

Axes that every array passes over contiguously are merged, so that most nests are one loop that LLVM vectorises. Sums
use ``reassoc`` within blocks, and the blocks are added with compensation: more accurate than pairwise summation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gradsmith.backends.native.emit import CountedLoop, Ix, literal, mem_type, reg_type
from gradsmith.backends.native.fuse import UPDATES
from gradsmith.backends.native.lower import Array, Lowering
from gradsmith.backends.native.views import copied_around, name_lengths, target, view
from gradsmith.ir.program import Const, Op, Value

Pointers = dict["Access", str]
States = dict["Reduction", list[str]]

#: elements summed with reassociation before the compensated addition
BLOCK = 2048


@dataclass(eq=False)
class Access:
    """An array that the nest walks over: ``strides`` has one entry (elements) for each axis of the nest."""

    array: Array
    strides: list[Ix]
    adjacent: list[bool]  # whether axis k continues into axis k + 1 without a gap


@dataclass(eq=False)
class Reduction:
    """A reducing member. ``depth``: its accumulator lives in registers inside the loops from this level on; None when
    it accumulates in memory (``out``) because an inner loop runs over an axis that is kept."""

    op: Op
    dtype: np.dtype
    kind: str
    out: Array | None = None
    depth: int | None = None

    @property
    def compensated(self) -> bool:
        return self.kind == "sum" and self.dtype.kind in "fc"


def lower_cluster(lo: Lowering, ops: Sequence[Op]) -> None:
    """Emit the loop nest of a cluster, and what must wait until after it."""
    late: list[Op] = []
    targets: dict[Op, Array] = {}
    extra: set[Value] = set()
    for op in ops:
        if op.name in UPDATES:
            clash = _clashes(lo, op, ops)
            if not clash:
                view(lo, op, lo.array(op.args[0]), 2)  # index errors come before copies
                targets[op] = target(lo, op, covers=True)
            elif _fixed_region(op):
                targets[op] = copied_around(lo, op, lo.array(op.args[0]))
            else:
                late.append(op)
                extra.add(op.args[1])
    members = [op for op in ops if op not in late]
    if members:
        Nest(lo, members, targets, extra, {}).emit()
    for op in late:
        _write_late(lo, op)


def _write_late(lo: Lowering, op: Op) -> None:
    """An update whose value was computed from other elements of the array it updates."""
    value = op.args[1]
    replaced: dict[Value, Array] = {}
    temporary: Array | None = None
    if not lo.is_scalar(value):
        a = lo.array(value)
        if a.root is lo.array(op.args[0]).root:
            temporary = replaced[value] = lo.copied(a)
    Nest(lo, [op], {op: target(lo, op, covers=True)}, set(), replaced).emit()
    if temporary is not None:
        lo.release(temporary.root)


def _clashes(lo: Lowering, update: Op, ops: Sequence[Op]) -> bool:
    """Whether updating in place would overwrite elements that the same nest still reads at other places."""
    a = lo.array(update.args[0])
    if a.splat is not None or a.root.owner is None or not lo.movable(a.root):
        return False
    for op in ops:
        for value in op.args[1:2] if op.name in UPDATES else op.args:
            read = lo.env.get(value)
            if (
                isinstance(read, Array)
                and read.root is a.root
                and read.splat is None
                and not _same_region(update, value)
            ):
                return True
    return False


def _same_region(update: Op, value: Value) -> bool:
    """Whether ``value`` is exactly the region that ``update`` writes."""
    if value is update.args[0]:
        return all(entry == ":" for entry in update.attrs["spec"])
    op = value.op
    if op is None or op.name != "index" or op.args[0] is not update.args[0]:
        return False
    if op.attrs["spec"] != update.attrs["spec"]:
        return False
    pairs = zip(op.args[1:], update.args[2:], strict=True)
    return all(
        a is b or (isinstance(a, Const) and isinstance(b, Const) and a.ndim == b.ndim == 0 and a.data == b.data)
        for a, b in pairs
    )


def _fixed_region(op: Op) -> bool:
    """Whether an update covers an array up to a fixed border, so that copying the array first costs little."""
    return "i" not in op.attrs["spec"] and all(isinstance(a, Const) for a in op.args[2:])


class Nest:
    """One loop nest under construction."""

    def __init__(
        self, lo: Lowering, ops: Sequence[Op], targets: dict[Op, Array], extra: set[Value], replaced: dict[Value, Array]
    ):
        self.lo = lo
        self.em = lo.em
        self.ops = ops
        self.targets = targets
        self.extra = extra
        self.replaced = replaced
        self.dims: list[Ix] = []
        self.groups: list[list[int]] = []
        self.counts: list[Ix] = []
        self.regions: dict[Op, Array] = {}
        self.reads: dict[Value, Access] = {}
        self.outputs: dict[Op, Access] = {}
        self.reductions: list[Reduction] = []
        self.members = {op.result for op in ops}
        self.index: Ix = 0

    def emit(self) -> None:
        lo = self.lo
        self._find_dims()
        self._find_reads()
        self._make_outputs()
        self._merge_axes()
        self._place_reductions()
        independent = all(r.depth is not None for r in self.reductions)
        self.em.group = self.em.node("distinct !{}") if independent else None
        self._level(0, {a: a.array.ptr for a in (*self.reads.values(), *self.outputs.values())}, {})
        self.em.group = None
        if self.reductions and not any(self.lo.functions.is_call(op.name) for op in self.ops):
            lo.interleave = True
        for op in self.ops:
            if op in self.targets:
                lo.define(op.result, self.targets[op])

    # shape

    def _find_dims(self) -> None:
        lo = self.lo
        for op in self.ops:
            if op.name in UPDATES:
                base = lo.shapes.indexed(lo.shapes.of(op.args[0]), op, 2)
                region = view(lo, op, self.targets[op], 2)
                name_lengths(lo, base, region)
                self.regions[op] = region
                dims = region.dims
            else:
                dims = lo.dims(op.args[0]) if lo.planner.reducing(op) else lo.dims(op.result)
            if not self.dims:
                self.dims = list(dims)
            for mine, n in zip(self.dims, dims, strict=True):
                lo.require_equal(mine, n)

    def _streamed(self, op: Op) -> Sequence[Value]:
        """The operands that ``op`` reads element by element."""
        if op.name in UPDATES:
            return op.args[1:2]
        if op.name == "iota":
            return ()
        return op.args[:1] if op.name in ("broadcast_to", "unbroadcast") else op.args

    def _find_reads(self) -> None:
        lo = self.lo
        for op in self.ops:
            for value in self._streamed(op):
                if value in self.members or lo.is_scalar(value) or value in self.reads:
                    continue
                array = self.replaced.get(value) or lo.array(value)
                lead = len(self.dims) - len(array.dims)
                for k, n in enumerate(array.dims):
                    if n != 1:
                        lo.require_equal(self.dims[lead + k], n)
                if array.splat is None:
                    self.reads[value] = self._access(array)

    def _access(self, array: Array) -> Access:
        """How the nest walks over ``array``, broadcast to the shape of the nest."""
        own = self.lo.strides_of(array)
        lead = len(self.dims) - len(array.dims)
        strides: list[Ix] = [0] * lead
        strides += [0 if n == 1 else s for n, s in zip(array.dims, own, strict=True)]
        adjacent = []
        for k in range(len(self.dims) - 1):
            both_fixed = strides[k] == 0 and strides[k + 1] == 0
            inside = k >= lead and array.strides is None and array.dims[k - lead] != 1 and array.dims[k + 1 - lead] != 1
            adjacent.append(both_fixed or inside)
        return Access(array, strides, adjacent)

    def _make_outputs(self) -> None:
        lo = self.lo
        for op in self.ops:
            if op.name in UPDATES:
                self.outputs[op] = self._access(self.regions[op])
            elif lo.planner.reducing(op):
                self._make_reduction(op)
            elif op.result in lo.plan.stored or op.result in self.extra:
                array = lo.alloc(op.result.dtype, self.dims)
                lo.define(op.result, array)
                self.outputs[op] = self._access(array)

    def _make_reduction(self, op: Op) -> None:
        lo = self.lo
        kind = "sum" if op.name == "unbroadcast" else op.name
        reduction = Reduction(op, op.args[0].dtype, kind)
        self.reductions.append(reduction)
        axes = lo.planner.reduced_axes(op)
        if kind in ("max", "min"):
            size = self.em.product([self.dims[a] for a in axes])
            lo.require(self.em.ins(f"icmp ne i64 {size}, 0"), "deopt")
        if op.result.ndim == 0:
            return
        out = lo.alloc(op.result.dtype, lo.dims(op.result))
        lo.define(op.result, out)
        reduction.out = out
        own = iter(lo.strides_of(out))
        keep = op.attrs.get("keepdims") or op.name == "unbroadcast"
        lead = len(self.dims) - len(out.dims) if op.name == "unbroadcast" else 0
        strides: list[Ix] = []
        for k in range(len(self.dims)):
            if k in axes:
                if keep and k >= lead:
                    next(own)
                strides.append(0)
            else:
                strides.append(next(own))
                if op.name == "unbroadcast":
                    lo.require_equal(self.dims[k], out.dims[k - lead])
        reduced = [k in axes for k in range(len(self.dims))]
        pairs = zip(reduced, reduced[1:], strict=False)
        kept_together = [a == b for a, b in pairs]
        self.outputs[op] = Access(out, strides, kept_together)

    def _merge_axes(self) -> None:
        reduced = [set(self.lo.planner.reduced_axes(r.op)) for r in self.reductions]
        self._group([*self.reads.values(), *self.outputs.values()], reduced)

    def _group(self, accesses: Sequence[Access], reduced: Sequence[set[int]]) -> None:
        """Merge axes that every access passes over without a gap; drop axes of length 1."""
        groups: list[list[int]] = []
        for k, n in enumerate(self.dims):
            if n == 1:
                continue
            joins = bool(groups) and groups[-1][-1] == k - 1
            joins = joins and all(a.adjacent[k - 1] for a in accesses)
            joins = joins and all((k in axes) == (k - 1 in axes) for axes in reduced)
            if joins:
                groups[-1].append(k)
            else:
                groups.append([k])
        self.groups = groups
        self.counts = [self.em.product([self.dims[k] for k in group]) for group in groups]

    def _place_reductions(self) -> None:
        """Which accumulators live in registers."""
        levels = len(self.groups)
        for r in self.reductions:
            axes = set(self.lo.planner.reduced_axes(r.op))
            flags = [group[0] in axes for group in self.groups]
            depth = levels
            while depth and flags[depth - 1]:
                depth -= 1
            if any(flags[:depth]):
                assert r.out is not None
                self._clear(r)
            else:
                r.depth = depth

    def _clear(self, r: Reduction) -> None:
        assert r.out is not None
        out = r.out
        with self.em.loop("clear", self.em.product(out.dims)) as loop:
            place = self.em.gep(mem_type(out.dtype), out.ptr, loop.index)
            self.em.store(out.dtype, self._identity(r), place, out.root.scope)

    # loops

    def _advance(self, ptrs: Pointers, axis: int, index: Ix) -> Pointers:
        """The pointers of all accesses moved along an axis of the nest."""
        out = dict(ptrs)
        for access, ptr in ptrs.items():
            if access.strides[axis] != 0:
                offset = self.em.mul(index, access.strides[axis])
                out[access] = self.em.gep(mem_type(access.array.dtype), ptr, offset)
        return out

    def _level(self, level: int, ptrs: Pointers, states: States) -> States:
        """Emit the loops from ``level`` on; returns the accumulators that were passed in."""
        starting = [r for r in self.reductions if r.depth == level]
        inner = {**states, **{r: self._initial(r) for r in starting}}
        after = self._loop(level, ptrs, inner) if level < len(self.groups) else self._body(ptrs, inner)
        for r in starting:
            value = self._final(r, after[r])
            if r.out is None:
                self.lo.env[r.op.result] = value
            else:
                self.em.store(r.dtype, value, ptrs[self.outputs[r.op]], r.out.root.scope)
        return {r: after[r] for r in states}

    def _loop(self, level: int, ptrs: Pointers, states: States) -> States:
        count = self.counts[level]
        if level < len(self.groups) - 1 or not any(r.compensated for r in states):
            return self._simple_loop(level, count, 0, ptrs, states)
        if isinstance(count, int) and count <= BLOCK:
            return self._block(level, count, 0, ptrs, states)
        blocks = self.em.ins(f"udiv i64 {self.em.add(count, BLOCK - 1)}, {BLOCK}")
        loop = self.em.loop("block", blocks)
        slots = _carry(loop, states)
        with loop:
            base = self.em.mul(loop.index, BLOCK)
            size = self.em.min(self.em.sub(count, base), BLOCK)
            moved = self._advance(ptrs, self.groups[level][-1], base)
            _next(loop, slots, self._block(level, size, base, moved, _carried(loop, slots)))
        return _carried(loop, slots)

    def _simple_loop(self, level: int, count: Ix, base: Ix, ptrs: Pointers, states: States) -> States:
        loop = self.em.loop("nest", count)
        loop.parallel = level == len(self.groups) - 1
        slots = _carry(loop, states)
        with loop:
            moved = self._advance(ptrs, self.groups[level][-1], loop.index)
            self.index = self.em.add(base, loop.index)
            _next(loop, slots, self._level(level + 1, moved, _carried(loop, slots)))
        return _carried(loop, slots)

    def _block(self, level: int, count: Ix, base: Ix, ptrs: Pointers, states: States) -> States:
        """The innermost loop over at most BLOCK elements: sums run from zero and are then added with compensation."""
        partial = {r: [self._identity(r)] if r.compensated else state for r, state in states.items()}
        partial = self._simple_loop(level, count, base, ptrs, partial)
        return {
            r: self._two_sum(r, state, partial[r][0]) if r.compensated else partial[r] for r, state in states.items()
        }

    def _two_sum(self, r: Reduction, state: list[str], x: str) -> list[str]:
        """Add ``x`` to a sum kept as (sum, rounding errors)."""
        s, t = self.lo.scalars, reg_type(r.dtype)
        total, errors = state
        new = s.binary("fadd", t, total, x)
        part = s.binary("fsub", t, new, total)
        lost = s.binary(
            "fadd", t, s.binary("fsub", t, total, s.binary("fsub", t, new, part)), s.binary("fsub", t, x, part)
        )
        return [new, s.binary("fadd", t, errors, lost)]

    # accumulators

    def _identity(self, r: Reduction) -> str:
        dtype = r.dtype
        if r.kind in ("sum", "any"):
            return literal(np.zeros((), dtype)[()], dtype)
        if r.kind in ("prod", "all"):
            return literal(np.ones((), dtype)[()], dtype)
        if dtype.kind == "f":
            return literal(-np.inf if r.kind == "max" else np.inf, dtype)
        if dtype.kind == "b":
            return "false" if r.kind == "max" else "true"
        limits = np.iinfo(dtype)
        return str(limits.min if r.kind == "max" else limits.max)

    def _initial(self, r: Reduction) -> list[str]:
        return [self._identity(r)] * (2 if r.compensated and r.depth != len(self.groups) else 1)

    def _final(self, r: Reduction, state: list[str]) -> str:
        if len(state) == 1:
            return state[0]
        t = reg_type(r.dtype)
        total, errors = state
        added = self.em.ins(f"fadd {t} {total}, {errors}")
        # an infinite sum has no rounding error
        good = self.em.ins(f"fcmp ord {t} {errors}, {errors}")
        test = "i1" if r.dtype.kind == "f" else "<2 x i1>"
        return self.em.ins(f"select {test} {good}, {t} {added}, {t} {total}")

    def _combine(self, r: Reduction, state: str, x: str) -> str:
        dtype, t = r.dtype, reg_type(r.dtype)
        if r.kind == "sum" and dtype.kind in "fc":
            return self.em.ins(f"fadd reassoc {t} {state}, {x}")
        if r.kind in ("max", "min") and dtype.kind == "f":
            return self.lo.scalars.intrinsic("maximum" if r.kind == "max" else "minimum", t, state, x)
        name = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum", "any": "or", "all": "and"}[r.kind]
        return self.lo.scalars.apply(name, dtype, [state, x])

    # the body

    def _body(self, ptrs: Pointers, states: States) -> States:
        """One element: compute all members, store what is stored, accumulate what is reduced."""
        lo, em = self.lo, self.em
        elements: dict[Value, str] = {}

        def element(value: Value) -> str:
            if value in elements or lo.is_scalar(value):
                return elements[value] if value in elements else lo.scalar(value)
            access = self.reads.get(value)
            if access is None:
                register = lo.array(value).splat
                assert register is not None
            else:
                register = em.load(access.array.dtype, ptrs[access], access.array.root.scope)
            elements[value] = register
            return register

        states = dict(states)
        by_op = {r.op: r for r in self.reductions}
        for op in self.ops:
            args = [element(v) for v in self._streamed(op)]
            if op in by_op:
                self._accumulate(by_op[op], args[0], ptrs, states)
            elif op.name in UPDATES:
                self._write(op, args[0], ptrs)
            else:
                register = self._compute(op, args)
                elements[op.result] = register
                if op in self.outputs:
                    access = self.outputs[op]
                    em.store(op.result.dtype, register, ptrs[access], access.array.root.scope)
        return states

    def _compute(self, op: Op, args: list[str]) -> str:
        if op.name in ("broadcast_to", "unbroadcast"):
            return args[0]
        if op.name == "iota":
            return self.lo.scalars.cast(str(self.index), np.dtype(np.int64), op.result.dtype)
        return self.lo.scalars.emit(op, args)

    def _accumulate(self, r: Reduction, x: str, ptrs: Pointers, states: States) -> None:
        if r.depth is None:
            assert r.out is not None
            place, scope = ptrs[self.outputs[r.op]], r.out.root.scope
            old = self.em.load(r.dtype, place, scope)
            self.em.store(r.dtype, self._combine(r, old, x), place, scope)
        else:
            states[r] = [self._combine(r, states[r][0], x), *states[r][1:]]

    def _write(self, op: Op, x: str, ptrs: Pointers) -> None:
        access = self.outputs[op]
        place, root = ptrs[access], access.array.root
        if op.name == "add_at":
            x = self.lo.scalars.apply(
                "add", access.array.dtype, [self.em.load(access.array.dtype, place, root.scope), x]
            )
        self.em.store(access.array.dtype, x, place, root.scope)


def _carry(loop: CountedLoop, states: States) -> dict[Reduction, list[int]]:
    """Declare the accumulators as carried by ``loop``."""
    return {r: [loop.carry(reg_type(r.dtype), v) for v in state] for r, state in states.items()}


def _carried(loop: CountedLoop, slots: dict[Reduction, list[int]]) -> States:
    return {r: [loop.value(k) for k in ks] for r, ks in slots.items()}


def _next(loop: CountedLoop, slots: dict[Reduction, list[int]], states: States) -> None:
    for r, ks in slots.items():
        for k, value in zip(ks, states[r], strict=True):
            loop.next(k, value)
