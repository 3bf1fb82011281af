"""Loop fission: in a loop that cannot be vectorised as a whole, functions of what each iteration just reads run ahead.

``a[i] = 0.5 * a[i - 1] + np.sin(x[i])`` has to run step by step, but the sines need not: the loop runs in tiles, and
before each tile a vectorisable loop writes the sines of its iterations to a buffer, from where the tile takes them.
What runs ahead has no effect, raises nothing, and reads only arrays from outside of the loop, at proven indices.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gradsmith.backends.native import bounds
from gradsmith.backends.native.elementwise import supported
from gradsmith.backends.native.emit import Ix, Scope, mem_type
from gradsmith.backends.native.fuse import UPDATES, Unit, basic
from gradsmith.backends.native.lower import Lowering
from gradsmith.ir.ops import ELEMENTWISE
from gradsmith.ir.program import Block, Const, Op, Value
from gradsmith.ir.types import ArrayType, SeqType

#: iterations in a tile: the buffers stay in the first-level cache
TILE = 512
#: values buffered in one program: its buffers are on the stack
BUFFERS = 16
_EXACT = frozenset({"add", "sub", "mul", "neg", "cast"})


@dataclass
class Fission:
    """What of a loop's body runs ahead.

    ``ahead``: the operations of the loop in front of a tile. ``moved``: those that the tile leaves out. ``kept``: the
    results of these that the tile takes from buffers.
    """

    ahead: list[Op]
    moved: set[Op]
    kept: list[Value]
    buffers: dict[Value, tuple[str, Scope]] = field(default_factory=dict)


def plan(lo: Lowering, loop: Op, reassociated: set[Op]) -> Fission | None:
    """What of a leaf loop should run ahead; None if there is nothing to gain."""
    body = loop.regions[0]
    if lo.checked or not _sequential(body, reassociated):
        return None
    free = _independent(lo, body)
    heavy: set[Value] = set()  # results of vectorisable functions, and of what depends on them
    for op in body.ops:
        if op in free and (_vectorised(lo, op) or any(a in heavy for a in op.args)):
            heavy.add(op.result)
    moved = {op for op in free if op.result in heavy}
    used = set(body.results)
    for op in body.ops:
        if op not in moved:
            used.update(lo.planner.uses(op))
    kept = [op.result for op in body.ops if op in moved and op.result in used]
    if not kept or lo.buffers + len(kept) > BUFFERS:
        return None
    return Fission(_needed(body, free, kept), moved, kept)


def _sequential(body: Block, reassociated: set[Op]) -> bool:
    """Whether an iteration waits for the one before, so that LLVM does not vectorise the loop."""
    reads = {op.args[0] for op in body.ops if op.name == "index"}
    for param, result in zip(body.params[1:], body.results, strict=True):
        if isinstance(param.type, SeqType) or any(op.regions for op in body.ops):
            return True
        if result is param:
            continue
        if param.ndim == 0:
            if result.op not in reassociated:
                return True
            continue
        versions, writes = {param}, 0
        for op in body.ops:
            if op.name in UPDATES and op.args[0] in versions:
                versions.add(op.result)
                writes += 1
        if writes > 1 or (writes and versions & reads):
            return True
    return False


def _independent(lo: Lowering, body: Block) -> set[Op]:
    """The scalar operations of a body that can run before the iterations in front of them."""
    inside = bounds.defined_inside(body)
    known: set[Value] = {body.params[0]}
    out = set()
    for op in body.ops:
        if _pure(op) or _reads_outside(lo, op, body, inside):
            if all(isinstance(a, Const) or a not in inside or a in known for a in op.args):
                known.add(op.result)
                out.add(op)
    return out


def _pure(op: Op) -> bool:
    """Whether ``op`` is arithmetic on scalars that needs nothing to be checked before it."""
    if op.name not in ELEMENTWISE or op.result.ndim or not supported(op):
        return False
    dtypes = [op.result.dtype, *(a.dtype for a in op.args)]
    if any(d.kind == "c" or d.str[1:] == "f2" for d in dtypes):
        return False
    return op.result.dtype.kind != "i" and op.result.dtype.kind != "u" or op.name in _EXACT


def _reads_outside(lo: Lowering, op: Op, body: Block, inside: set[Value]) -> bool:
    """Whether ``op`` reads an element of an array from outside at indices that can be proven in range."""
    if op.name != "index" or op.result.ndim or op.args[0].ndim == 0 or op.args[0] in inside or not basic(op, 1):
        return False
    if op.result.dtype.kind == "c" or op.result.dtype.str[1:] == "f2":
        return False
    entries = bounds.integer_entries(op)
    return all(bounds.affine_entry(lo, op, axis, arg, body.params[0], inside) for _, axis, arg in entries)


def _vectorised(lo: Lowering, op: Op) -> bool:
    dtype = op.args[-1].dtype
    if op.name == "pow" and isinstance(op.args[1], Const):
        return False  # mostly a product or a square root
    return dtype.kind == "f" and lo.functions.vectorised(op.name, dtype.itemsize == 4)


def _needed(body: Block, free: set[Op], kept: list[Value]) -> list[Op]:
    """The operations that the values ``kept`` are computed by, in order."""
    wanted, out = set(kept), []
    for op in reversed(body.ops):
        if op in free and op.result in wanted:
            wanted.update(a for a in op.args if not isinstance(a, Const))
            out.append(op)
    return out[::-1]


def run_ahead(lo: Lowering, fission: Fission, variable: Value, first: Ix, stride: Ix, base: str, limit: Ix) -> None:
    """Emit, in front of a tile of the iterations from ``base`` to ``limit``, the loop that fills its buffers."""
    em = lo.em
    for value in fission.kept:
        place = em.gep("i8", "%buffers", TILE * 8 * lo.buffers)
        fission.buffers[value] = place, Scope()
        lo.buffers += 1
    loop = em.loop("ahead", em.sub(limit, base))
    loop.parallel = True
    with lo.scoped(), loop:
        em.group = em.node("distinct !{}")
        lo.env[variable] = str(em.add(first, em.mul(em.add(base, loop.index), stride)))
        for op in fission.ahead:
            lo.lower_unit(lo, Unit([op], False))
        for value, (place, scope) in fission.buffers.items():
            assert isinstance(value.type, ArrayType)
            em.store(value.dtype, lo.scalar(value), em.gep(mem_type(value.dtype), place, loop.index), scope)
    em.group = None


def take(lo: Lowering, fission: Fission, position: Ix, op: Op) -> None:
    """Emit, in a tile, what stands for an operation that ran ahead: its result comes from a buffer, if it is needed."""
    if op.result in fission.buffers:
        place, scope = fission.buffers[op.result]
        lo.env[op.result] = lo.em.load(op.result.dtype, lo.em.gep(mem_type(op.result.dtype), place, position), scope)
