"""Which operations may run earlier than written: code motion must not raise what would not have been raised."""

from __future__ import annotations

from gradsmith.ir.ops import ELEMENTWISE, consumed_axes, distinct_places
from gradsmith.ir.program import Const, Op
from gradsmith.transforms.simplify.ranges import Ranges
from gradsmith.transforms.simplify.shapes import Shapes

#: never raise, whatever the operands
_SAFE = frozenset({"dim", "transpose", "sum", "prod", "any", "all", "cumsum", "cumprod", "seq_len", "iota"})
#: never worth moving: a fresh buffer that an update may overwrite, or bound to a place by linear use or effects
_FIXED = frozenset({"full", "seq_new", "seq_push", "seq_pop", "seq_add", "seq_zeros", "seq_stack", "seq_unstack"})
#: cheap enough on scalars to run although their result may not be needed
_CHEAP = frozenset("add sub mul neg not and or eq ne lt le gt ge maximum minimum where cast".split())


def fixed(op: Op) -> bool:
    """Whether ``op`` stays in its block in any case."""
    return op.name in _FIXED


def cheap(op: Op) -> bool:
    """Whether ``op`` may run in vain: moving it out of a branch costs next to nothing."""
    return op.name == "dim" or (op.name in _CHEAP and op.results[0].type.ndim == 0)  # type: ignore[union-attr]


def uses_shapes(op: Op) -> bool:
    """Whether the answer of :func:`cannot_raise` rests on what is known of shapes."""
    return op.name not in _SAFE and not (op.name in ELEMENTWISE and sum(a.type.ndim > 0 for a in op.args) < 2)  # type: ignore[union-attr]


def cannot_raise(op: Op, shapes: Shapes, ranges: Ranges) -> bool:
    """Whether ``op`` certainly raises nothing, wherever its operands are available."""
    name = op.name
    if name in _SAFE:
        return True
    if name in ELEMENTWISE:
        if name == "pow" and op.results[0].type.dtype.kind in "iu":  # type: ignore[union-attr]
            return isinstance(op.args[1], Const) and bool((op.args[1].data >= 0).all())
        return shapes.compatible(op.args)
    if name == "index":
        return ranges.proves(op)
    if name == "broadcast_to":
        return op.args[0].ndim == 0 and all(shapes.is_length(shapes.length(n)) for n in op.args[1:])
    if name == "matmul":
        x, y = map(shapes.dims, op.args)
        return len(x) <= 2 and len(y) <= 2 and x[-1] == (y[-2] if len(y) > 1 else y[0])
    return False


def names_once(op: Op) -> bool:
    """Whether an index names every element at most once: integers, slices, new axes, arrays without repetitions."""
    first = 1 if op.name == "index" else 2
    return all(e not in ("a", "m") for e, _, _ in consumed_axes(op.attrs["spec"], op.args[first:])) or distinct_places(
        op
    )
