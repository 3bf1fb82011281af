"""The plan of a block: which operations share a loop nest, in which order everything runs, and when arrays die.

Every operation gets a *level*. A fusable operation that reads the elements of a result of the same shape may stay at
its producer's level; any other use of a fused result is one level up. Operations of one level and one shape then form
a *cluster*, one loop nest: no path leads out of a cluster and back into it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from gradsmith.backends.native.elementwise import supported
from gradsmith.backends.native.emit import representable
from gradsmith.backends.native.shapes import Dims, Shapes, constant_steps
from gradsmith.ir.ops import CONTROL, EFFECTS, ELEMENTWISE, REDUCTIONS, consumed_axes
from gradsmith.ir.program import Block, Const, Op, Value, free_values
from gradsmith.ir.types import ArrayType, SeqType

UPDATES = frozenset({"set", "add_at"})

#: operations in one loop nest: LLVM's time grows with the square of its length
LONGEST = 256


@dataclass
class Unit:
    """One operation, or the operations of one loop nest in program order."""

    ops: list[Op]
    fused: bool


@dataclass
class Plan:
    """Units in order; ``last[v]``: the position of the last unit that uses v or a view of it (``end``: the results).

    ``dying[k]``: the values whose last use is the unit at position k. ``stored``: the elementwise results that are used
    outside of their loop nest, so that they need memory.
    """

    units: list[Unit]
    last: dict[Value, int]
    dying: list[list[Value]]
    stored: set[Value]

    @property
    def end(self) -> int:
        return len(self.units)


class Planner:
    """Plans blocks and answers questions about operations that need the shapes."""

    def __init__(self, shapes: Shapes):
        self.shapes = shapes
        self._plans: dict[Block, Plan] = {}
        self._captured: dict[Op, list[Value]] = {}

    def plan(self, block: Block) -> Plan:
        if block not in self._plans:
            units = _Scheduler(self, block).units()
            last: dict[Value, int] = {}
            for position, unit in enumerate(units):
                for op in unit.ops:
                    for value in self.uses(op):
                        self._mark(value, position, last)
            for value in block.results:
                self._mark(value, len(units), last)
            dying: list[list[Value]] = [[] for _ in range(len(units) + 1)]
            for value, position in last.items():
                dying[position].append(value)
            self._plans[block] = Plan(units, last, dying, self._stored(block, units))
        return self._plans[block]

    def _stored(self, block: Block, units: list[Unit]) -> set[Value]:
        stored = set(block.results)
        for unit in units:
            inside = {r for op in unit.ops for r in op.results} if unit.fused else set()
            stored.update(v for op in unit.ops for v in self.uses(op) if v not in inside)
        return stored

    def _mark(self, value: Value | None, position: int, last: dict[Value, int]) -> None:
        while value is not None and not isinstance(value, Const):
            last[value] = position
            value = self.view_base(value)

    def captured(self, op: Op) -> list[Value]:
        """The values of outer blocks that the regions of ``op`` use."""
        if not op.regions:
            return []
        if op not in self._captured:
            self._captured[op] = list(dict.fromkeys(v for region in op.regions for v in free_values(region)))
        return self._captured[op]

    def uses(self, op: Op) -> list[Value]:
        return op.args + self.captured(op) if op.regions else op.args

    def view_base(self, value: Value) -> Value | None:
        """The array whose memory ``value`` may share because it is a view of it."""
        op = value.op
        if op is None or not (op.name in ("transpose", "reshape") or self.is_view(op)):
            return None
        base = op.args[0]
        return base if base.ndim else None

    def is_view(self, op: Op) -> bool:
        """Whether ``op`` is basic indexing with an array result."""
        return op.name == "index" and op.result.ndim > 0 and basic(op, 1)

    def is_splat(self, op: Op) -> bool:
        """Whether the result is one scalar everywhere, so that it needs no memory."""
        return op.name == "full" or (op.name == "broadcast_to" and op.args[0].ndim == 0)

    def elementwise(self, op: Op) -> bool:
        """Whether each element of the (array) result is computed from the elements at its place."""
        if op.name in ELEMENTWISE:
            return op.result.ndim > 0 and supported(op)
        if op.name == "unbroadcast":
            return op.result.ndim > 0 and not self.shapes.summed[op]
        return op.name == "iota" or (op.name == "broadcast_to" and op.args[0].ndim > 0)

    def reducing(self, op: Op) -> bool:
        dtype = op.args[0].dtype if op.args and isinstance(op.args[0].type, ArrayType) else None
        if dtype is None or not representable(dtype) or dtype.str[1:] == "f2":
            return False
        if op.name == "unbroadcast":
            return bool(self.shapes.summed[op]) and dtype.kind != "b"
        if op.name not in REDUCTIONS:
            return False
        if op.name in ("any", "all"):
            return dtype.kind == "b"
        return dtype.kind in ("fiuc" if op.name in ("sum", "prod") else "fiub")

    def reduced_axes(self, op: Op) -> tuple[int, ...]:
        return self.shapes.summed[op] if op.name == "unbroadcast" else op.attrs["axes"]

    def writing(self, op: Op) -> bool:
        """Whether ``op`` updates a region of an array by a loop."""
        return op.name in UPDATES and op in self.shapes.space and basic(op, 2)

    def updated(self, block: Block) -> set[Value]:
        """Arrays that ``block`` updates, directly or by handing them to loops that do."""
        out: set[Value] = set()
        for op in block.ops:
            if op.name in UPDATES:
                out.add(op.args[0])
            for region in op.regions:
                inner = self.updated(region)
                out |= inner
                if op.name in ("for", "while"):
                    inits = op.args[3:] if op.name == "for" else op.args
                    params = region.params[1:] if op.name == "for" else region.params
                    out.update(i for i, p in zip(inits, params, strict=True) if p in inner)
        return out

    def member(self, op: Op) -> bool:
        return self.elementwise(op) or self.reducing(op) or self.writing(op)

    def storage(self, value: Value) -> Value:
        """The array at the root of a chain of views."""
        while (base := self.view_base(value)) is not None:
            value = base
        return value


def basic(op: Op, first: int) -> bool:
    """Whether the index spec has only integers, slices with constant steps, whole axes and new axes."""
    parts = consumed_axes(op.attrs["spec"], op.args[first:])
    return all(entry not in ("a", "m") for entry, _, _ in parts) and constant_steps(parts)


class _Scheduler:
    """Assigns the levels of one block."""

    def __init__(self, planner: Planner, block: Block):
        self.planner = planner
        self.block = block
        self.here = set(block.ops)
        self.position = {op: k for k, op in enumerate(block.ops)}
        self.member = {op for op in block.ops if planner.member(op)}
        self.level: dict[Op, int] = {}
        self.updates: dict[Value, list[Op]] = defaultdict(list)  # of the arrays of a storage, in program order

    def units(self) -> list[Unit]:
        if not self.member:
            return [Unit([op], False) for op in self.block.ops]
        self._assign()
        self._sink()
        order = {op: k for k, op in enumerate(self.block.ops)}
        clusters: dict[tuple[int, Dims], list[Op]] = defaultdict(list)
        keyed: list[tuple[int, int, int, Unit]] = []
        for op in self.block.ops:
            if op in self.member:
                key = self.level[op], self.planner.shapes.space[op]
                if len(clusters[key]) == LONGEST:
                    del clusters[key]  # the rest is a loop nest of its own, which runs after this one
                if not clusters[key]:
                    keyed.append((self.level[op], 1, order[op], Unit(clusters[key], True)))
                clusters[key].append(op)
            else:
                keyed.append((self.level[op], 0, order[op], Unit([op], False)))
        return [unit for *_, unit in sorted(keyed, key=lambda k: k[:3])]

    def _assign(self) -> None:
        readers: dict[Value, list[Op]] = defaultdict(list)
        effect = 0
        for op in self.block.ops:
            level = max((self._after(value, op) for value in self.planner.uses(op)), default=0)
            while self._overwritten(op, level):
                level += 1
            if op.name in UPDATES:
                for reader in readers[self.planner.storage(op.args[0])]:
                    level = max(level, self.level[reader] + self._separate(reader, op))
            if _has_effect(op):
                level = effect = max(level, effect)
            self.level[op] = level
            if op.name in UPDATES:
                self.updates[self.planner.storage(op.args[0])].append(op)
            for value in self.planner.uses(op):
                if not isinstance(value, Const):
                    readers[self.planner.storage(value) if isinstance(value.type, ArrayType) else value].append(op)

    def _after(self, value: Value, op: Op) -> int:
        """The lowest level of ``op`` as a user of ``value``."""
        producer = value.op
        if producer is None or producer not in self.here:
            return 0
        together = producer in self.member and self._streams(value, op)
        return self.level[producer] + (0 if together or producer not in self.member else 1)

    def _streams(self, value: Value, op: Op) -> bool:
        """Whether ``op`` can take ``value`` element by element in the loop that computes it."""
        producer = value.op
        if producer is None or op not in self.member or not self.planner.elementwise(producer):
            return False
        if op.name in UPDATES and value in (op.args[0], *op.args[2:]):
            return False
        return self.planner.shapes.space[producer] == self.planner.shapes.space[op]

    def _overwritten(self, op: Op, level: int) -> bool:
        """Whether ``op`` at this level would share a loop nest with an earlier update in place of what it reads."""
        if op not in self.member:
            return False
        spaces = self.planner.shapes.space
        arrays = [a for a in op.args if not isinstance(a, Const) and a.ndim]
        return any(
            update in self.member and self.level[update] == level and spaces[update] == spaces[op]
            for array in arrays
            for update in self.updates[self.planner.storage(array)]
            if self.position[update] < self.position[op]
        )

    def _separate(self, reader: Op, update: Op) -> int:
        """How many levels an update must stay above an earlier reader of its array."""
        if reader not in self.member:
            return 0
        spaces = self.planner.shapes.space
        same = update in self.member and reader.name not in UPDATES and spaces[reader] == spaces[update]
        return 0 if same else 1

    def _sink(self) -> None:
        """Move elementwise operations up to the level of their first user, to fuse with it instead of being stored."""
        users: dict[Value, list[Op]] = defaultdict(list)
        for op in self.block.ops:
            for value in self.planner.uses(op):
                users[value].append(op)
        kept = set(self.block.results)
        for op in reversed(self.block.ops):
            if op not in self.member or not self.planner.elementwise(op) or op.result in kept:
                continue
            after = users[op.result]
            if not after or not all(self._streams(op.result, user) for user in after):
                continue
            level = min(self.level[user] for user in after)
            for arg in op.args:
                if isinstance(arg, Const) or not arg.ndim:
                    continue
                for update in self.updates[self.planner.storage(arg)]:
                    if self.position[update] > self.position[op]:
                        level = min(level, self.level[update] - self._separate(op, update))
            if not self._overwritten(op, level):
                self.level[op] = max(self.level[op], level)


def _has_effect(op: Op) -> bool:
    """Whether the order of ``op`` among others of its kind matters: it may raise, give up, or not terminate."""
    if op.name in EFFECTS or op.name in ("host", "while"):
        return True
    if op.name in CONTROL:
        return any(_has_effect(inner) for region in op.regions for inner in region.ops)
    if op.name in ("index", "set", "add_at"):
        return (
            "i" in op.attrs["spec"]
            and not op.attrs.get("checked")
            or bool({"a", "m"} & set(map(str, op.attrs["spec"])))
        )
    return bool(op.args) and isinstance(op.args[0].type, SeqType)
