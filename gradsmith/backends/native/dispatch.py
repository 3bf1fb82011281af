"""Which part of the lowering emits which operation."""

from __future__ import annotations

from collections.abc import Callable

from gradsmith.backends.native import arrays, blas, control, hostcalls, nests, sequences
from gradsmith.backends.native.elementwise import supported
from gradsmith.backends.native.emit import reg_type
from gradsmith.backends.native.fuse import Unit
from gradsmith.backends.native.lower import Lowering
from gradsmith.ir.program import Op

#: emitters of operations that are not fused; one that returns False leaves the operation to the host
_HANDLERS: dict[str, Callable[[Lowering, Op], bool]] = {
    **control.HANDLERS,
    **arrays.HANDLERS,
    **sequences.HANDLERS,
    **blas.HANDLERS,
}


def lower_unit(lo: Lowering, unit: Unit) -> None:
    """Emit one unit of a block's plan."""
    if unit.fused:
        nests.lower_cluster(lo, unit.ops)
        return
    (op,) = unit.ops
    handler = _HANDLERS.get(op.name)
    if handler is not None and handler(lo, op):
        return
    if op in lo.reassociated:
        x, y = (lo.scalar(a) for a in op.args)
        lo.env[op.result] = lo.em.ins(f"fadd reassoc {reg_type(op.result.dtype)} {x}, {y}")
        return
    if op.results and lo.is_scalar(op.results[0]) and supported(op):
        lo.env[op.result] = lo.scalars.emit(op, [lo.scalar(a) for a in op.args])
        return
    hostcalls.lower(lo, op)
