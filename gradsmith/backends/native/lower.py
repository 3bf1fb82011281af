"""A Program as one LLVM function: values, ownership of memory, blocks and control flow.

Scalars are registers. An array is a pointer with lengths and strides; its memory belongs to a *root*: a counted buffer
of the runtime, or memory that nobody counts (arguments, constants). Every region holds references to the buffers it
owns and gives each up at the last use of its array: to the operation that updates it in place, to the region's result,
or to the pool. An array may be updated in place when its reference is the only one, which is usually known here
(``unique``) and otherwise asked at run time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from gradsmith.backends.native import runtime
from gradsmith.backends.native.elementwise import Scalars
from gradsmith.backends.native.emit import Emitter, Ix, Scope, literal, mem_type, reg_type
from gradsmith.backends.native.fuse import Plan, Planner, Unit
from gradsmith.backends.native.libm import Functions
from gradsmith.backends.native.shapes import Dim, Shapes, Sym
from gradsmith.ir.program import Block, Const, Op, Program, Value
from gradsmith.ir.types import ArrayType, Type

T = TypeVar("T")


#: instructions after which a basic block is cut
LONG_BLOCK = 400

#: added to the codes of the checked version, which may run while another thread still runs the fast one
CHECKED = 1 << 20


class Unsupported(Exception):
    """A Program that native code cannot hold at all: it is interpreted."""


@dataclass(eq=False)
class Root:
    """Memory that arrays live in. ``owner``: register with the buffer's header; None when the memory is not counted."""

    owner: str | None
    unique: bool
    scope: Scope
    holder: Value | None = None  # the array with whose last use the reference ends


@dataclass(eq=False)
class SequenceRoot(Root):
    """The buffer of a sequence; ``free`` emits the release of its elements and of itself."""

    free: Callable[[Lowering, Root], None] = lambda lo, root: None


@dataclass(eq=False)
class Array:
    """An array at run time. ``strides`` (in elements) is None when C-contiguous. ``splat``: the one value of all
    elements, which then have no memory."""

    dtype: np.dtype
    ptr: str
    dims: list[Ix]
    strides: list[Ix] | None
    root: Root
    splat: str | None = None
    forward: bool = True  # no stride is negative


@dataclass(eq=False)
class Sequence_:
    """A growable sequence: a buffer of records (see ``sequences.py``)."""

    elem: Type
    root: Root


Lowered = str | Array | Sequence_


@dataclass(eq=False)
class Site:
    """Why a call may end early: see ``entry.py`` for what happens then."""

    kind: str  # index, check, guard, deopt, unsafe, memory, host, interrupt
    op: Op | None = None
    axis: int = 0


@dataclass
class HostSite:
    """A host call: the operation and the first slot of each operand and result."""

    op: Op
    args: list[int] = field(default_factory=list)
    results: list[int] = field(default_factory=list)


class Lowering:
    """The state of lowering one Program. ``checked``: indices in loops are wrapped and checked where they are used,
    instead of being proven in range before the loop."""

    def __init__(self, program: Program, number: int, checked: bool, lower_unit: Callable[[Lowering, Unit], None]):
        self.program = program
        self.lower_unit = lower_unit
        self.number = number
        self.checked = checked
        self.em = Emitter()
        self.functions = Functions()
        self.scalars = Scalars(self.em, self.functions)
        self.shapes = Shapes(program)
        self.planner = Planner(self.shapes)
        self.env: dict[Value, Lowered] = {}
        self.lengths: dict[Sym, Ix] = {}
        self._length_log: list[Sym] = []
        self.equal: set[tuple[Ix, Ix]] = set()
        self._equal_log: list[tuple[Ix, Ix]] = []
        self.owned: dict[Value, Root] = {}
        self._undo: list[tuple[Value, Array]] = []
        self.plan = Plan([], {}, [], set())
        self.position = 0
        self.loop_depth = 0
        self.proven: set[tuple[Op, int]] = set()
        self.reassociated: set[Op] = set()  # additions whose order does not matter
        self.sites: list[Site] = []
        self._shared_sites: dict[str, int] = {}
        self._failures: list[tuple[str, int, list[str]]] = []
        self._failing: dict[int, str] = {}  # the label of a way to fail that says no values
        self.host_sites: list[HostSite] = []
        self.slots = 0
        self.ahead: dict[
            Op, Callable[[Op], None]
        ] = {}  # what ran before its loop (see ``fission.py``), and its stand-in
        self.buffers = 0  # of values that ran ahead
        self.copies = 0  # places that copy an array because it may not be updated or given away
        self.keep_alive: list[Any] = []
        self.input_scope = Scope()
        self.slot_scope = Scope()
        self.element_scope = Scope()  # arrays inside sequences
        self.cuts = False
        self.marks: list[tuple[int, str]] = []  # where an operation of the Program ends: a line, and the block it is in
        self.interleave = False  # whether several accumulators pay: sums of cheap elements
        self.has_loops = False
        self.uses_context = False
        self.declared: dict[str, str] = {}  # external functions by name

    # values

    def scalar(self, value: Value) -> str:
        """The register (or literal) of a scalar value."""
        if isinstance(value, Const):
            return literal(value.data, value.dtype)
        out = self.env[value]
        assert isinstance(out, str)
        return out

    def number_of(self, value: Value) -> Ix:
        """An int64 scalar as an index number, folded when constant."""
        return int(value.data) if isinstance(value, Const) else self.scalar(value)

    def array(self, value: Value) -> Array:
        """The array of a value (constants are read where NumPy holds them)."""
        if isinstance(value, Const) and value not in self.env:
            data = np.ascontiguousarray(value.data)
            self.keep_alive.append(data)
            ptr = f"inttoptr (i64 {data.ctypes.data} to ptr)"
            self.env[value] = Array(value.dtype, ptr, list(data.shape), None, Root(None, False, self.input_scope))
        out = self.env[value]
        assert isinstance(out, Array)
        return out

    def memory(self, value: Value) -> Array:
        """The array of a value, with its elements in memory."""
        out = self.array(value)
        if out.splat is None:
            return out
        # a value of an outer region is given memory inside this one: only this region knows it
        self._undo.append((value, out))
        out = self.filled(out)
        self.define(value, out)
        return out

    # lengths

    def length(self, dim: Dim) -> Ix:
        """A length as a number, computed here unless it is available."""
        if isinstance(dim, int):
            return dim
        if dim not in self.lengths:
            self.set_length(dim, self._compute_length(dim))
        return self.lengths[dim]

    def set_length(self, dim: Dim, number: Ix) -> None:
        if isinstance(dim, Sym) and dim not in self.lengths:
            self.lengths[dim] = number
            self._length_log.append(dim)

    def available(self, dim: Dim) -> bool:
        """Whether a length can be computed here from what is already emitted."""
        if isinstance(dim, int) or dim in self.lengths:
            return True
        kind = dim.key[0]
        if kind == "value":
            return dim.key[1] in self.env
        if kind in ("sub", "min"):
            return self.available(dim.key[1])
        if kind == "slice":
            numbers = [b for b in dim.key[3] if isinstance(b, Value)]
            return self.available(dim.key[1]) and all(b in self.env for b in numbers)
        return False

    def _compute_length(self, dim: Sym) -> Ix:
        em, kind = self.em, dim.key[0]
        if kind == "value":
            n = self.scalar(dim.key[1])
            # absurd lengths get NumPy's own error from the interpreter
            self.require(em.ins(f"icmp ult i64 {n}, {1 << 40}"), "deopt")
            return n
        if kind == "sub":
            return em.max(em.sub(self.length(dim.key[1]), dim.key[2]), 0)
        if kind == "min":
            return em.min(self.length(dim.key[1]), dim.key[2])
        assert kind == "slice", dim
        numbers = [self.number_of(b) if isinstance(b, Value) else b for b in dim.key[3]]
        return slice_bounds(em, self.length(dim.key[1]), *numbers)[1]

    def dims(self, value: Value) -> list[Ix]:
        """The lengths of an array value."""
        return [self.length(n) for n in self.shapes.of(value)]

    def require_equal(self, a: Ix, b: Ix) -> None:
        """Give the call to the interpreter unless two lengths are equal."""
        if a == b or (a, b) in self.equal:
            return
        if isinstance(a, int) and isinstance(b, int):
            self.require("false", "deopt")
            return
        self.require(self.em.ins(f"icmp eq i64 {a}, {b}"), "deopt")
        for pair in ((a, b), (b, a)):
            self.equal.add(pair)
            self._equal_log.append(pair)

    # early ends

    def require(self, cond: str, kind: str, op: Op | None = None, values: Sequence[str] = (), axis: int = 0) -> None:
        """End the call with a site of ``kind`` unless ``cond``; ``values`` are i64 registers for the message."""
        if kind in ("index", "check", "host"):
            self.sites.append(Site(kind, op, axis))
            code = len(self.sites)
        else:
            if kind not in self._shared_sites:
                self.sites.append(Site(kind))
                self._shared_sites[kind] = len(self.sites)
            code = self._shared_sites[kind]
        code += CHECKED if self.checked else 0
        good, bad = self.em.new_label("ok"), self._failing.get(code, "")
        if not bad:
            bad = self.em.new_label("bad")
            self._failures.append((bad, code, list(values)))
            if not values:
                self._failing[code] = bad
        self.em.cond_br(cond, good, bad, likely=True)
        self.em.place(good)

    def emit_failures(self, used: Collection[str]) -> None:
        """The blocks, of those that are ``used``, that record why a call ends early."""
        em = self.em
        failures = [failure for failure in self._failures if failure[0] in used]
        if not failures:
            return
        codes = []
        for label, code, values in failures:
            em.place(label)
            for k, value in enumerate(values):
                em.do(f"store i64 {value}, ptr {em.word('%ctx', runtime.VALUES + k)}")
            codes.append((code, label))
            em.br("fail")
        em.place("fail")
        code_phi = em.phi("i64")
        for code, label in codes:
            code_phi.add(code, label)
        em.do(f"ret i64 {code_phi.name}")

    # memory

    def alloc(self, dtype: np.dtype, dims: Sequence[Ix], holder: Value | None = None) -> Array:
        """A new contiguous array with a buffer of its own."""
        header = self.buffer(self.bytes_of(dtype, dims))
        ptr = self.em.ins(f"load ptr, ptr {self.em.word(header, runtime.DATA)}")
        root = Root(header, True, Scope(), holder)
        if holder is not None:
            self.owned[holder] = root
        return Array(dtype, ptr, list(dims), None, root)

    def bytes_of(self, dtype: np.dtype, dims: Sequence[Ix]) -> Ix:
        em = self.em
        unknown = [n for n in dims if isinstance(n, str)]
        if len(unknown) < 2:
            return em.mul(em.product(dims), dtype.itemsize)
        total: str = unknown[0]
        for n in unknown[1:]:
            pair = em.ins(f"call {{i64, i1}} @llvm.umul.with.overflow.i64(i64 {total}, i64 {n})")
            total = em.ins(f"extractvalue {{i64, i1}} {pair}, 0")
            overflow = em.ins(f"extractvalue {{i64, i1}} {pair}, 1")
            total = em.ins(f"select i1 {overflow}, i64 {1 << 57}, i64 {total}")
        total = str(em.min(total, 1 << 57))
        return em.mul(total, dtype.itemsize * int(np.prod([n for n in dims if isinstance(n, int)], dtype=object)))

    def buffer(self, size: Ix) -> str:
        """The header of a new buffer."""
        header = self.em.ins(f"call ptr @gradsmith_alloc(ptr %ctx, i64 {size})")
        self.require(self.em.ins(f"icmp ne ptr {header}, null"), "memory")
        return header

    def release(self, root: Root) -> None:
        if isinstance(root, SequenceRoot):
            root.free(self, root)
        elif root.owner is not None:
            self.em.do(f"call void @gradsmith_release(ptr %ctx, ptr {root.owner})")

    def retain(self, root: Root) -> None:
        """One more reference to the memory of ``root``, which is shared from now on."""
        if root.owner is not None:
            self.em.do(f"call void @gradsmith_retain(ptr {root.owner})")
            root.unique = False

    def filled(self, a: Array) -> Array:
        """A splat in memory."""
        assert a.splat is not None
        out = self.alloc(a.dtype, a.dims)
        with self.em.loop("fill", self.em.product(a.dims)) as loop:
            self.em.store(a.dtype, a.splat, self.em.gep(mem_type(a.dtype), out.ptr, loop.index), out.root.scope)
        return out

    def copied(self, a: Array) -> Array:
        """A contiguous copy of an array in memory of its own."""
        if a.splat is not None:
            return self.filled(a)
        self.copies += 1
        out = self.alloc(a.dtype, a.dims)
        self.copy_elements(a, out)
        return out

    def strides_of(self, a: Array) -> list[Ix]:
        """The strides of an array in elements."""
        if a.strides is not None:
            return a.strides
        out: list[Ix] = []
        stride: Ix = 1
        for k, n in enumerate(reversed(a.dims)):
            out.append(stride)
            if k < len(a.dims) - 1:
                stride = self.em.mul(stride, n)
        return out[::-1]

    def copy_elements(self, source: Array, out: Array) -> None:
        """Copy ``source`` into the memory of ``out``, an array of the same shape."""
        em, type = self.em, mem_type(out.dtype)
        if source.strides is None and out.strides is None and source.splat is None:
            size = em.mul(em.product(out.dims), out.dtype.itemsize)
            em.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {out.ptr}, ptr {source.ptr}, i64 {size}, i1 false)")
            return
        loops = []
        a, b = source.ptr, out.ptr
        for n, s, t in zip(out.dims, self.strides_of(source), self.strides_of(out), strict=True):
            loop = em.loop("copy", n)
            loop.__enter__()
            loops.append(loop)
            if source.splat is None:
                a = em.gep(type, a, em.mul(loop.index, s))
            b = em.gep(type, b, em.mul(loop.index, t))
        em.store(out.dtype, source.splat or em.load(out.dtype, a, source.root.scope), b, out.root.scope)
        for loop in reversed(loops):
            loop.__exit__()

    def contiguous(self, a: Array) -> Array:
        """``a`` itself, or a copy (owned by the caller) if its elements are not in memory in C order."""
        return a if a.splat is None and a.strides is None else self.copied(a)

    # ownership

    def claims(self, values: Sequence[Value], unique: Sequence[bool], captured: Sequence[Value] = ()) -> list[Lowered]:
        """References to ``values`` for somebody else (a region's result, a loop, a sequence), contiguous in memory.

        The last use of an array gives its reference away, other uses count one more; ``unique`` demands the only one.
        """
        held = {lowered.root for v in captured if not isinstance(lowered := self.env.get(v, ""), str)}
        remaining = Counter(self._root(v) for v in values)
        out: list[Lowered] = []
        for value, alone in zip(values, unique, strict=True):
            root = self._root(value)
            remaining[root] -= 1
            if root is None:
                out.append(self.scalar(value) if self.is_scalar(value) else self.copied(self.array(value)))
            else:
                out.append(self._claim(value, root, alone, remaining[root] == 0 and root not in held))
        return out

    def is_scalar(self, value: Value) -> bool:
        return isinstance(value.type, ArrayType) and value.ndim == 0

    def _root(self, value: Value) -> Root | None:
        """The memory of a value; None for scalars and splats."""
        if self.is_scalar(value):
            return None
        lowered = self.array(value) if isinstance(value.type, ArrayType) else self.env[value]
        assert not isinstance(lowered, str)
        return None if isinstance(lowered, Array) and lowered.splat is not None else lowered.root

    def movable(self, root: Root) -> bool:
        """Whether the current unit is the last user of the memory of ``root`` and this region owns it."""
        holder = root.holder
        return holder is not None and self.owned.get(holder) is root and self.plan.last.get(holder) == self.position

    def _claim(self, value: Value, root: Root, alone: bool, free: bool) -> Lowered:
        lowered = self.env[value]
        moved = free and self.movable(root)
        if isinstance(lowered, Sequence_):
            assert moved and root.holder is not None, "a sequence is used after it was consumed"
            del self.owned[root.holder]
            return lowered
        assert isinstance(lowered, Array)
        if lowered.strides is not None:
            return self.copied(lowered)
        if not moved:
            if alone:
                return self.copied(lowered)
            self.retain(root)
            return Array(lowered.dtype, lowered.ptr, lowered.dims, None, Root(root.owner, False, root.scope))
        assert root.holder is not None
        del self.owned[root.holder]
        given = Array(lowered.dtype, lowered.ptr, lowered.dims, None, Root(root.owner, root.unique, root.scope))
        return self.made_unique(given) if alone and not root.unique else given

    def made_unique(self, a: Array) -> Array:
        """``a`` (whose reference the caller has) if that reference is the only one, else a copy."""
        em = self.em
        if a.root.owner is None:
            return self.copied(a)
        alone = em.ins(f"call i1 @gradsmith_unique(ptr {a.root.owner})")
        shared, done, before = em.new_label("shared"), em.new_label("unique"), em.label
        em.cond_br(alone, done, shared)
        em.place(shared)
        copy = self.copied(a)
        self.release(a.root)
        after = em.label
        em.br(done)
        em.place(done)
        ptr, owner = em.phi("ptr"), em.phi("ptr")
        for array, label in ((a, before), (copy, after)):
            ptr.add(array.ptr, label)
            owner.add(array.root.owner or "null", label)
        scope = Scope()
        scope.join(a.root.scope)
        scope.join(copy.root.scope)
        return Array(a.dtype, ptr.name, a.dims, None, Root(owner.name, True, scope))

    def define(self, value: Value, lowered: Lowered) -> None:
        """``value`` is ``lowered``, whose reference (if any) belongs to this region from now on."""
        self.env[value] = lowered
        if not isinstance(lowered, str) and lowered.root.owner is not None:
            lowered.root.holder = value
            self.owned[value] = lowered.root

    # blocks

    @contextmanager
    def scoped(self) -> Iterator[None]:
        """Lengths and equalities found inside are known only there."""
        lengths, equal = len(self._length_log), len(self._equal_log)
        yield
        while len(self._length_log) > lengths:
            del self.lengths[self._length_log.pop()]
        while len(self._equal_log) > equal:
            self.equal.discard(self._equal_log.pop())

    def region(self, block: Block, owned: dict[Value, Root], finish: Callable[[], T]) -> T:
        """Emit a block that takes over the references ``owned``; ``finish`` claims its results."""
        saved = self.owned, self.plan, self.position, self._undo
        self.owned, self.plan, self._undo = owned, self.planner.plan(block), []
        with self.scoped():
            for holder in [h for h in owned if h not in self.plan.last]:
                self.release(owned.pop(holder))
            for position, unit in enumerate(self.plan.units):
                self.position = position
                self._unit(unit)
                self._cut()
                if block is self.program.block:
                    self.marks.append((len(self.em.lines), self.em.label))
            self.position = self.plan.end
            out = finish()
            for root in self.owned.values():
                self.release(root)
        for value, array in reversed(self._undo):
            self.env[value] = array
        self.owned, self.plan, self.position, self._undo = saved
        return out

    def _cut(self) -> None:
        """End a very long basic block (LLVM's time grows faster than its length) by a test that LLVM cannot decide."""
        em = self.em
        if len(em.lines) - em.placed > LONG_BLOCK:
            self.cuts = True
            zero = em.ins("load volatile i64, ptr @cut")
            self.require(em.ins(f"icmp eq i64 {zero}, 0"), "deopt")

    def _unit(self, unit: Unit) -> None:
        if (emit := self.ahead.get(unit.ops[0])) is not None:
            emit(unit.ops[0])
        else:
            self.lower_unit(self, unit)
        for value in self.plan.dying[self.position]:
            if value in self.owned:
                self.release(self.owned.pop(value))
        for op in unit.ops:
            for result in op.results:
                if result in self.owned and result not in self.plan.last:
                    self.release(self.owned.pop(result))


def slice_bounds(em: Emitter, n: Ix, start: Ix | None, stop: Ix | None, step: Ix | None) -> tuple[Ix, Ix, int]:
    """First index, length and step of a Python slice of an axis of length ``n``."""
    step = 1 if step is None else step
    assert isinstance(step, int)
    low, high = (0, n) if step > 0 else (-1, em.sub(n, 1))

    def clamp(bound: Ix | None, default: Ix) -> Ix:
        if bound is None:
            return default
        if isinstance(bound, int):
            wrapped = bound if bound >= 0 else em.add(n, bound)
            return em.min(wrapped, high) if bound >= 0 else em.max(wrapped, low)
        wrapped = em.ins(f"select i1 {em.ins(f'icmp slt i64 {bound}, 0')}, i64 {em.add(bound, n)}, i64 {bound}")
        return em.min(em.max(wrapped, low), high)

    first = clamp(start, low if step > 0 else high)
    last = clamp(stop, high if step > 0 else low)
    span = em.sub(last, first) if step > 0 else em.sub(first, last)
    if abs(step) == 1:
        return first, em.max(span, 0), step
    rounded = em.max(em.add(span, abs(step) - 1), 0)
    count = rounded // abs(step) if isinstance(rounded, int) else em.ins(f"udiv i64 {rounded}, {abs(step)}")
    return first, count, step


def zero(type: ArrayType) -> str:
    return literal(np.zeros((), type.dtype)[()], type.dtype)


def llvm_type(type: Type) -> str:
    """The LLVM type of a scalar value."""
    assert isinstance(type, ArrayType)
    return reg_type(type.dtype)
