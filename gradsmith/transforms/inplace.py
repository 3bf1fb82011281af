"""In-place planning: which updates may overwrite their operand, and which copies make that possible.

Arrays of a Program are immutable; a back end makes ``set`` and ``add_at`` cheap by writing into the operand's memory
when nobody reads the old value any more. Every array value belongs to a *storage*: values in one storage may share
memory. A storage is *owned* when the function may write into it (not the caller's arrays, not constants).

How to use a :class:`Plan`:

- ``op in plan.in_place`` (a ``set`` or ``add_at``): write into ``args[0]``, the result is that memory. Otherwise copy
  ``args[0]`` and write there.
- ``op in plan.copied_views`` (an ``index``, ``reshape`` or ``transpose``): copy the view where it is made. It is read
  after an update of its base, which then needs no copy as a whole.
- a loop's carried array ``k``: if ``(op, k) in plan.entry_copies`` copy the initial value before the loop; if
  ``(body, k) in plan.exit_copies`` copy the body's result ``k`` at the end of an iteration. In all other cases the
  parameter is the memory of the initial value, then of the last iteration's result: hand on the pointer (a back end
  with fixed buffers copies back all results at once, as a parallel move, where they are not in their place already).
- results of ``if``: hand on the pointer.
- a result of the Program: copy it unless ``plan.owned(value)``, it is no view (``plan.is_view``) and no other result
  has its storage (``plan.same_storage``).

Sequences hold their elements by pointer, in the storage of the sequence.
"""

from __future__ import annotations

from collections.abc import Sequence

from gradsmith.ir.ops import CONTROL, ELEMENTWISE, consumed_axes
from gradsmith.ir.program import Block, Const, Op, Value
from gradsmith.ir.types import ArrayType, SeqType

#: their result is, or may be, a view of the first operand
_VIEWS = frozenset({"reshape", "transpose", "broadcast_to", "unbroadcast", "real", "imag"})
#: views that may be copied instead of their base
_COPYABLE = frozenset({"index", "reshape", "transpose"})
UPDATES = frozenset({"set", "add_at"})


class _Storage:
    """A set of values that may share memory."""

    __slots__ = ("members", "owned", "assumes")

    def __init__(self, value: Value, owned: bool, assumes: Sequence[Value] = ()):
        self.members = [value]
        self.owned = owned
        self.assumes = set(assumes)  # loop parameters whose memory it may be: writing there relies on owning that


def plan(block: Block, reuse: bool = False) -> Plan:
    """Plan the updates in ``block``, whose parameters belong to the caller.

    With ``reuse`` also find the elementwise operations that may put their result into an operand (``Plan.reusable``).
    """
    result = Plan(block, reuse)
    for param in block.params:
        result.define(param, owned=False)
    result.plan_block(block)
    return result


class Plan:
    """What :func:`plan` found; see the module's description."""

    def __init__(self, block: Block, reuse: bool):
        self.in_place: set[Op] = set()
        self.entry_copies: set[tuple[Op, int]] = set()
        self.exit_copies: set[tuple[Block, int]] = set()
        self.copied_views: set[Op] = set()
        #: for an elementwise operation the operands of its type that are dead afterwards and may be overwritten; their
        #: shape may still differ from the result's
        self.reusable: dict[Op, list[int]] = {}
        self._reuse = reuse
        self._storage: dict[Value, _Storage] = {}
        self._view: set[Value] = set()
        self._root: dict[Value, Value] = {}  # of a view, a view of it and so on: the first one
        self._relied: set[Value] = set()  # loop parameters that updates rely on owning
        self._last_use: dict[Block, dict[Value, int]] = {}
        self._home: dict[Value, Block] = {}
        self._place: dict[Op, tuple[Block, int]] = {}
        self._owner: dict[Block, Op] = {}
        self._survey(block)

    # --- questions ---

    def owned(self, value: Value) -> bool:
        """Whether the function may write into the memory of ``value``, and hand it out."""
        storage = self._storage.get(value)
        return storage is not None and storage.owned

    def is_view(self, value: Value) -> bool:
        """Whether ``value`` may be a part or another arrangement of memory that belongs to an earlier value."""
        return value in self._view

    def same_storage(self, x: Value, y: Value) -> bool:
        """Whether two arrays may share memory."""
        return x in self._storage and self._storage[x] is self._storage.get(y)

    def used_after(self, value: Value, op: Op) -> bool:
        """Whether ``value`` may be read after ``op`` has run (in a next iteration, too)."""
        home = self._home.get(value)
        while True:
            block, position = self._place[op]
            if self._last_use[block].get(value, -1) > position:
                return True
            if home is block or block not in self._owner:
                return False
            op = self._owner[block]
            if op.name != "if" and self.used_inside(value, op) and self._outside(value, block):
                return True

    def used_inside(self, value: Value, op: Op) -> bool:
        """Whether a region of ``op`` reads ``value``."""
        return any(value in self._last_use[region] for region in op.regions)

    # --- survey of uses ---

    def _survey(self, block: Block) -> dict[Value, int]:
        """Last use of every value in ``block``, nested regions included; results are used at the end."""
        last = self._last_use[block] = {}
        for value in block.params:
            self._home[value] = block
        for position, op in enumerate(block.ops):
            self._place[op] = (block, position)
            for arg in op.args:
                last[arg] = position
            for region in op.regions:
                self._owner[region] = op
                last.update(dict.fromkeys(self._survey(region), position))
            for value in op.results:
                self._home[value] = block
        last.update(dict.fromkeys(block.results, len(block.ops)))
        return last

    # --- storages ---

    def define(self, value: Value, owned: bool, assumes: Sequence[Value] = ()) -> None:
        """Give ``value`` a storage of its own (scalars have none)."""
        if isinstance(value.type, SeqType) or value.ndim:
            self._storage[value] = _Storage(value, owned, assumes)

    def _join(self, value: Value, *others: Value) -> None:
        """``value`` may share memory with ``others``."""
        for other in others:
            if isinstance(other, Const) and other.ndim and other not in self._storage:
                self.define(other, owned=False)
            a, b = self._storage.get(value), self._storage.get(other)
            if a is None or b is None or a is b:
                continue
            if len(a.members) < len(b.members):
                a, b = b, a
            a.members += b.members
            a.owned &= b.owned
            a.assumes |= b.assumes
            for member in b.members:
                self._storage[member] = a

    def _readers(self, value: Value, op: Op) -> list[Value]:
        """What may share memory with ``value`` and is read after ``op``."""
        storage = self._storage[value]
        block = self._place[op][0]
        last, position = self._last_use[block], self._place[op][1]
        # members of this very block that are dead now stay dead: forget them, or long chains cost quadratic time
        storage.members = [
            m for m in storage.members if self._home.get(m) is not block or m is value or last.get(m, -1) >= position
        ]
        return [m for m in storage.members if m not in op.results and self.used_after(m, op)]

    def _writable(self, value: Value, op: Op) -> bool:
        """Whether ``op`` may write into the memory of ``value``; views of it that are read later are copied."""
        storage = self._storage.get(value)
        if storage is None or not storage.owned or value in self._view:
            return False
        return self._copy_views(self._readers(value, op))

    def _copy_views(self, values: Sequence[Value]) -> bool:
        """Have the views ``values`` copied, so that they leave their base alone; False if some is no view."""
        if not all(v in self._root for v in values):
            return False
        for root in dict.fromkeys(self._root[v] for v in values):
            self._detach(root)
        return True

    def _detach(self, root: Value) -> None:
        """Make a view, and the views of it, memory of its own."""
        assert root.op is not None
        self.copied_views.add(root.op)
        mine = [m for m in self._storage[root].members if self._root.get(m) is root]
        self._storage[root].members = [m for m in self._storage[root].members if self._root.get(m) is not root]
        own = _Storage(root, owned=True)
        own.members = mine
        for member in mine:
            self._storage[member] = own
            del self._root[member]
        self._view.discard(root)

    def _rely(self, value: Value) -> None:
        self._relied |= self._storage[value].assumes

    # --- the walk ---

    def plan_block(self, block: Block) -> None:
        for op in block.ops:
            if op.name == "if":
                self._if(op)
            elif op.name in CONTROL:
                self._loop(op)
            elif op.name in UPDATES:
                self._update(op)
            else:
                self._other(op)

    def _update(self, op: Op) -> None:
        x, *others = op.args
        (result,) = op.results
        self.define(result, owned=True)
        if result.ndim and self._writable(x, op) and self._separate(x, others):
            self.in_place.add(op)
            self._rely(x)
            self._join(result, x)

    def _separate(self, x: Value, others: Sequence[Value]) -> bool:
        """Whether none of ``others`` shares memory with ``x``; views of it are copied."""
        return self._copy_views([o for o in others if self.same_storage(x, o)])

    def _other(self, op: Op) -> None:
        name, results = op.name, op.results
        sequence = name.startswith("seq_")
        for result in results:
            self.define(result, owned=not sequence or name == "seq_stack")
        if name in _VIEWS or (name == "index" and _is_view(op)):
            if results[0].ndim:
                self._join(results[0], op.args[0])
                self._view.add(results[0])
                if op.args[0] not in self._view:
                    if name in _COPYABLE:
                        self._root[results[0]] = results[0]
                elif op.args[0] in self._root:
                    self._root[results[0]] = self._root[op.args[0]]
        elif name == "host":
            for result in results:
                self._join(result, *op.args)  # it may return an operand
                self._view.add(result)
        elif sequence and name not in ("seq_stack", "seq_zeros", "seq_len"):
            if name == "seq_push" and op.args[1] in self._root and self.owned(op.args[1]):
                self._detach(self._root[op.args[1]])  # the sequence holds it while its base changes
            for result in results:
                self._join(result, *op.args)
                if isinstance(result.type, ArrayType):
                    self._view.add(result)
        elif self._reuse and name in ELEMENTWISE:
            self._find_reusable(op)

    def _find_reusable(self, op: Op) -> None:
        type = op.results[0].type
        found = [k for k, x in enumerate(op.args) if x.type == type and type.ndim and self._writable(x, op)]  # type: ignore[union-attr]
        if found:
            self.reusable[op] = found
            for k in found:
                self._rely(op.args[k])

    def _if(self, op: Op) -> None:
        for region in op.regions:
            self.plan_block(region)
        for k, result in enumerate(op.results):
            self.define(result, owned=True)
            self._join(result, *(region.results[k] for region in op.regions))
            if any(region.results[k] in self._view for region in op.regions):
                self._view.add(result)

    def _loop(self, op: Op) -> None:
        body = op.regions[-1]
        count = len(op.results)
        params = body.params[len(body.params) - count :]
        initial = op.args[len(op.args) - count :]
        for k, (param, init) in enumerate(zip(params, initial, strict=True)):
            sequence = isinstance(param.type, SeqType)
            self.define(param, owned=not sequence, assumes=[] if sequence else [param])
            if sequence:
                self._join(param, init)
            for condition in op.regions[:-1]:
                self.define(condition.params[k], owned=False)
        for region in op.regions:
            self.plan_block(region)
        self._edges(op, body, params, initial)

    def _edges(self, op: Op, body: Block, params: Sequence[Value], initial: Sequence[Value]) -> None:
        """Copies at the entry and the end of a loop, for parameters that are written into; what results share."""
        settled: set[int] = set()
        while rest := [k for k, param in enumerate(params) if param in self._relied and k not in settled]:
            settled.add(k := rest[0])  # handing on one parameter's memory to another relies on owning that, too
            if self._enters(op, k, initial):
                self._rely(initial[k])
            else:
                self.entry_copies.add((op, k))
            if self._leaves(body, k):
                self._rely(body.results[k])
            else:
                self.exit_copies.add((body, k))
        for k, (param, init, final, result) in enumerate(zip(params, initial, body.results, op.results, strict=True)):
            self.define(result, owned=True)
            self._join(result, param)
            for source, copied in ((init, (op, k) in self.entry_copies), (final, (body, k) in self.exit_copies)):
                if not copied:
                    self._join(result, source)
                    if source in self._view:
                        self._view.add(result)
        for param in params:  # what the loop's parameters assumed is settled
            if param in self._storage:
                self._storage[param].assumes.discard(param)

    def _enters(self, op: Op, k: int, initial: Sequence[Value]) -> bool:
        """Whether the parameter may take over the memory of its initial value."""
        init = initial[k]
        if not self._writable(init, op):
            return False
        inside = [m for m in self._storage[init].members if self.used_inside(m, op)]
        if not self._copy_views(inside):
            return False
        return not any(self.same_storage(init, other) for j, other in enumerate(initial) if j != k)

    def _leaves(self, body: Block, k: int) -> bool:
        """Whether the next iteration may take over the memory of a result of this one."""
        final = body.results[k]
        storage = self._storage.get(final)
        if storage is None or not storage.owned or final in self._view:
            return False
        if any(self.same_storage(final, other) for j, other in enumerate(body.results) if j != k):
            return False
        return not any(self._outside(member, body) for member in storage.members)

    def _outside(self, value: Value, body: Block) -> bool:
        """Whether ``value`` is defined outside ``body``, hence lives on in the next iteration."""
        block: Block | None = self._home.get(value)
        while block is not None and block is not body:
            owner = self._owner.get(block)
            block = self._place[owner][0] if owner is not None else None
        return block is not body


def _is_view(op: Op) -> bool:
    return all(e not in ("a", "m") for e, _, _ in consumed_axes(op.attrs["spec"], op.args[1:]))
