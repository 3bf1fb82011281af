"""Whether NumPy lays out an array in C order, which decides if ``ravel`` and ``reshape`` give a view of it or a copy.

NumPy keeps the order of the operands where it can, so the answer follows from how the array was made. What
is not certain counts as not in C order: writing through such a reshaped array is then refused instead of guessed.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from gradsmith.ir.ops import ELEMENTWISE, REDUCTIONS
from gradsmith.ir.program import Const, Op, Value
from gradsmith.ir.types import ArrayType

_known: WeakKeyDictionary[Value, bool] = WeakKeyDictionary()


def note(value: Value, ordered: bool) -> None:
    """Remember the order of an array that was made, unless its elements are those of one that is known already."""
    if isinstance(value.type, ArrayType) and value.ndim > 1:
        _known.setdefault(value, ordered)


def c_ordered(value: Value) -> bool:
    """Whether the elements certainly lie in C order without gaps in the array that NumPy makes."""
    pending = [value]
    while pending:
        v = pending[-1]
        needed = [] if _settled(v) else _kept_from(v)
        unknown = [] if needed is None else [n for n in needed if not _settled(n)]
        if unknown and len(pending) < _LONGEST:
            pending += unknown
            continue
        if not _settled(v):
            _known[v] = needed is not None and not unknown and all(map(_order, needed))
        pending.pop()
    return _order(value)


#: longer chains of operations are not followed
_LONGEST = 10_000


def _settled(value: Value) -> bool:
    plain = not isinstance(value.type, ArrayType) or value.ndim < 2 or isinstance(value, Const)
    return plain or value.op is None or value in _known


def _order(value: Value) -> bool:
    if not isinstance(value.type, ArrayType) or value.ndim < 2:
        return True
    if isinstance(value, Const):
        return bool(value.data.flags.c_contiguous)
    return _known.get(value, value.op is None)  # a parameter of a region stands for an array of known order


def _kept_from(value: Value) -> list[Value] | None:
    """The arrays that must be in C order for the result to be; None if it may not be in any case."""
    op = value.op
    assert op is not None
    if op.name in ("full", "iota", "seq_stack"):
        return []
    if op.name in _KEEPING or op.name in ELEMENTWISE or op.name in REDUCTIONS:
        return list(op.args)
    if op.name in ("set", "add_at", "reshape", "broadcast_to"):
        return [op.args[0]]
    if op.name == "index":
        return [op.args[0]] if _keeps_axes(op) else None
    if op.name == "host" and isinstance(op.attrs["fn"], str):
        return list(op.args) if op.attrs["fn"].startswith("numpy.") else None
    if op.name == "if":
        k = op.results.index(value)
        return [region.results[k] for region in op.regions]
    if op.name in ("for", "while"):
        k = op.results.index(value)
        return [op.args[len(op.args) - len(op.results) + k], op.regions[-1].results[k - len(op.results)]]
    return None


_KEEPING = frozenset({"matmul", "concatenate", "cumsum", "cumprod", "argmax", "argmin"})


def _keeps_axes(op: Op) -> bool:
    """Whether an index keeps the order of the axes: no arrays in it, or one along the first axis."""
    spec = op.attrs["spec"]
    advanced = [k for k, e in enumerate(spec) if isinstance(e, str) and e in ("a", "m")]
    return not advanced or (advanced == [0] and all(e == ":" for e in spec[1:]))
