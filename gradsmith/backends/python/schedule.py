"""Which values become part of their user's expression, and the order of operations that follows.

An operation whose unnamed result is used once becomes a part of the statement that uses it, if it may be evaluated
there. It is moved right in front of that statement: liveness and in-place updates are planned on the order in which the
source is evaluated.
"""

from __future__ import annotations

from collections import Counter

from gradsmith.ir.ops import CONTROL, EFFECTS
from gradsmith.ir.program import Block, Const, Op, Value

#: a rough measure of the length of an expression, in characters
_LONGEST = 100
_LEAF = 6
_STATEMENTS = (
    CONTROL | EFFECTS | {"set", "add_at", "seq_new", "seq_push", "seq_pop", "seq_add", "seq_zeros", "seq_unstack"}
)
_RAISING = frozenset({"index", "reshape", "broadcast_to", "concatenate", "matmul", "host"})


def schedule(block: Block) -> set[Op]:
    """Reorder the operations of ``block`` and its regions; returns the operations that are written inside others."""
    _wrap_where_used(block)
    inlined: set[Op] = set()
    _block(block, _count_uses(block), inlined)
    return inlined


def is_wrapped(op: Op) -> bool:
    """Whether ``op`` makes a number an array of one element."""
    return op.name == "index" and list(op.attrs["spec"]) == ["n"]


def _wrap_where_used(block: Block) -> None:
    """Numbers that are joined are made arrays by an operation of each join's own, so that they may be read in its place."""
    for op in [op for op in block.walk() if op.name == "concatenate"]:
        for k, a in enumerate(op.args):
            if a.op is not None and is_wrapped(a.op):
                op.args[k] = Op("index", a.op.args, a.op.attrs, (), [a.type], op.loc).result
    uses = _count_uses(block)
    for inner in [block, *(region for op in block.walk() for region in op.regions)]:
        ops = [op for op in inner.ops if not (is_wrapped(op) and not uses[op.result])]
        inner.ops = [
            x
            for op in ops
            for x in (*((a.op for a in op.args if a.op and is_wrapped(a.op)) if op.name == "concatenate" else ()), op)
        ]


def _count_uses(block: Block) -> Counter[Value]:
    uses: Counter[Value] = Counter(block.results)
    for op in block.walk():
        uses.update(op.args)
        for region in op.regions:
            uses.update(region.results)
    return uses


def is_statement(op: Op) -> bool:
    """Whether ``op`` is always written as a statement of its own."""
    return op.name in _STATEMENTS or len(op.results) != 1


def _block(block: Block, uses: Counter[Value], inlined: set[Op]) -> None:
    end = len(block.ops)
    position = {op: k for k, op in enumerate(block.ops)}
    barriers = [0]  # number of statements with effects before each position
    for op in block.ops:
        barriers.append(barriers[-1] + is_statement(op))
    user: dict[Value, int] = {}  # where a value of this block is used as an operand, when it is used once
    needs_name = {op.args[0] for op in block.ops if op.name in ("set", "add_at")}
    for k, op in enumerate(block.ops):
        user.update((a, k) for a in op.args)
        for region in op.regions:
            _block(region, uses, inlined)
    user.update((r, end) for r in block.results)

    statement = list(range(end + 1))  # the position of the statement that an operation is written in
    line = list(range(end + 1))  # likewise the line: what a loop starts with is assigned one by one
    children: dict[int, list[int]] = {}
    size: dict[Op, int] = {op: _own_size(op) for op in block.ops}
    total = Counter({k: size[op] for op, k in position.items()})
    for k in range(end - 1, -1, -1):
        op = block.ops[k]
        if is_statement(op) or uses[op.results[0]] != 1 or op.results[0].name or op.results[0] in needs_name:
            continue
        if (place := user.get(op.results[0])) is None:
            continue  # used in a region
        target = statement[place]
        if op.name in _RAISING and target < end and block.ops[target].loc != op.loc:
            continue  # an error names the line of the statement
        reads_memory = any(_is_array(a) for a in op.args)  # of an array that a statement between may write to
        if barriers[target] != barriers[k + 1] and (reads_memory or op.name == "pow"):
            continue
        starts = place == target < end and block.ops[target].name in CONTROL
        if not starts and total[line[place]] + size[op] - _LEAF > _LONGEST:
            continue
        line[k] = k if starts else line[place]
        total[line[k]] += 0 if starts else size[op] - _LEAF
        statement[k] = target
        children.setdefault(place, []).append(k)
        inlined.add(op)
    block.ops = _order(block, statement, children)


def _order(block: Block, statement: list[int], children: dict[int, list[int]]) -> list[Op]:
    """The operations with every inlined one in front of its user."""
    ordered: list[Op] = []
    end = len(block.ops)
    for k in range(end + 1):
        if statement[k] != k:
            continue
        stack = [(k, False)]
        while stack:
            node, done = stack.pop()
            if done:
                if node < end:
                    ordered.append(block.ops[node])
                continue
            stack.append((node, True))
            stack.extend((child, False) for child in children.get(node, ()))
    return ordered


def _is_array(value: Value) -> bool:
    return not isinstance(value, Const) and getattr(value.type, "ndim", 1) > 0


def _own_size(op: Op) -> int:
    """The length of ``op`` written on variables."""
    leaves = sum(len(a.name) or (3 if isinstance(a, Const) else _LEAF) for a in op.args)
    if op.name in ("index", "set", "add_at"):
        return leaves + 2 * len(op.args) + 2
    return leaves + (3 if len(op.args) == 2 and op.name != "strong_mul" else 5 + len(op.name))
