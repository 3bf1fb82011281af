"""The Program: typed, functional (single assignment, immutable arrays), structured (blocks with regions, no gotos).

A *Value* is defined once: as a block parameter or as a result of an *Op*. A *Const* is a value known when the Program
is built; it belongs to no block and may be an operand anywhere. A *Block* has parameters, operations in program order and
results. A region of an operation is a Block that may use every value defined before the operation in the blocks around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from gradsmith.ir.types import ArrayType, Type


@dataclass(frozen=True, slots=True)
class Location:
    """Where in the user's source an operation comes from."""

    filename: str
    line: int
    function: str = ""
    caller: Location | None = field(default=None, compare=False, repr=False)  # the call of that function, if known

    def __str__(self) -> str:
        return f"{self.filename}:{self.line}" + (f" in {self.function}" if self.function else "")


class Value:
    """One value of a Program. Compared and hashed by identity. ``name`` is the user's name for it, or ''."""

    __slots__ = ("type", "name", "op", "__weakref__")
    # NumPy must not try to treat a Value as an array in `array * value`.
    __array_ufunc__ = None

    def __init__(self, type: Type, name: str = "", op: Op | None = None):
        self.type = type
        self.name = name
        self.op = op  # the defining operation; None for block parameters and constants

    @property
    def dtype(self) -> np.dtype:
        assert isinstance(self.type, ArrayType)
        return self.type.dtype

    @property
    def ndim(self) -> int:
        assert isinstance(self.type, ArrayType)
        return self.type.ndim

    def __repr__(self) -> str:
        return f"<{self.name or 'value'}: {self.type}>"

    if TYPE_CHECKING:  # ir/builder.py gives Values their operators, which emit into the current builder

        def _operator(self, other: Any) -> Value: ...

        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _operator
        __pow__ = __rpow__ = __and__ = __or__ = __lt__ = __le__ = __gt__ = __ge__ = _operator

        def __neg__(self) -> Value: ...


_FLOAT64 = np.dtype(np.float64)


class Const(Value):
    """A constant: a NumPy scalar for ``ndim == 0``, else a read-only ndarray of exactly the type's dtype."""

    __slots__ = ("data",)

    def __init__(self, data: Any, type: ArrayType | None = None):
        if type is None:
            data = np.asarray(data)
            type = ArrayType(data.dtype, data.ndim)
        super().__init__(type)
        if data.__class__ is float and type.dtype is _FLOAT64 and type.ndim == 0:
            self.data: Any = np.float64(data)
        elif type.ndim == 0:
            self.data = np.asarray(data).astype(type.dtype)[()]
        else:
            self.data = np.array(data, dtype=type.dtype)
            self.data.flags.writeable = False

    def __repr__(self) -> str:
        return f"{self.data!r}"


class Op:
    """One operation: ``results = name[attrs](args) {regions}``. See ``ir/ops.py`` for the meaning of every name."""

    __slots__ = ("name", "args", "attrs", "regions", "results", "loc")

    def __init__(
        self,
        name: str,
        args: Sequence[Value],
        attrs: dict[str, Any] | None = None,
        regions: Sequence[Block] = (),
        result_types: Sequence[Type] = (),
        loc: Location | None = None,
    ):
        self.name = name
        self.args = list(args)
        self.attrs = attrs or {}
        self.regions = list(regions)
        self.results = [Value(t, op=self) for t in result_types]
        self.loc = loc

    @property
    def result(self) -> Value:
        """The only result."""
        (value,) = self.results
        return value

    def add_result(self, type: Type, name: str = "") -> Value:
        """Append one more result (used when a loop gets one more carried value)."""
        self.results.append(Value(type, name, self))
        return self.results[-1]

    def __repr__(self) -> str:
        return f"<op {self.name} @ {self.loc}>"


class Block:
    """Parameters, operations, results."""

    __slots__ = ("params", "ops", "results")

    def __init__(self, params: Sequence[Value] = (), ops: Sequence[Op] = (), results: Sequence[Value] = ()):
        self.params = list(params)
        self.ops = list(ops)
        self.results = list(results)

    def walk(self) -> Iterator[Op]:
        """All operations, outer before inner, in program order."""
        for op in self.ops:
            yield op
            for region in op.regions:
                yield from region.walk()


@dataclass
class Input:
    """What the caller passes for one parameter of a Program.

    ``kind`` is "py" (a Python float, int, bool, complex), "np" (a NumPy scalar) or "array" (an ndarray, 0-d included).
    ``unit_axes`` says for every axis of an array whether its length is one: a fact the caller guarantees (a call where it
    differs is a different specialisation), so that broadcasting is known when the Program is compiled.
    """

    kind: str = "array"
    unit_axes: tuple[bool, ...] = ()
    label: str = ""  # how messages name it: "x", "params['w']"


@dataclass
class Output:
    """The kind of object a result becomes: "py", "np" or "array", as for ``Input``."""

    kind: str = "array"


@dataclass
class Program:
    """A function: ``block.params`` are described by ``inputs``, ``block.results`` by ``outputs``."""

    name: str
    block: Block
    inputs: list[Input] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)

    def __str__(self) -> str:
        from gradsmith.ir.printer import print_program

        return print_program(self)


def free_values(block: Block) -> list[Value]:
    """Values used inside ``block`` (regions included) but defined outside it, in order of first use; no constants."""
    defined: set[Value] = set()
    free: dict[Value, None] = {}

    def visit(block: Block) -> None:
        defined.update(block.params)
        for op in block.ops:
            for arg in op.args:
                use(arg)
            for region in op.regions:
                visit(region)
            defined.update(op.results)
        for result in block.results:
            use(result)

    def use(value: Value) -> None:
        if value not in defined and not isinstance(value, Const):
            free[value] = None

    visit(block)
    return list(free)


def copy_block(block: Block, mapping: dict[Value, Value]) -> Block:
    """A deep copy of ``block``. ``mapping`` replaces free values; it is extended by every value defined inside."""
    params = [Value(p.type, p.name) for p in block.params]
    mapping.update(zip(block.params, params, strict=True))
    ops = [copy_op(op, mapping) for op in block.ops]
    return Block(params, ops, [mapping.get(r, r) for r in block.results])


def copy_op(op: Op, mapping: dict[Value, Value]) -> Op:
    """A deep copy of ``op``; ``mapping`` as in :func:`copy_block`."""
    args = [mapping.get(a, a) for a in op.args]
    regions = [copy_block(r, mapping) for r in op.regions]
    new = Op(op.name, args, dict(op.attrs), regions, [r.type for r in op.results], op.loc)
    for old_result, new_result in zip(op.results, new.results, strict=True):
        new_result.name = old_result.name
        mapping[old_result] = new_result
    return new
