"""Dead code elimination across regions: operations, branches' results and loop-carried values that nobody needs."""

from __future__ import annotations

from gradsmith.ir.ops import CONTROL, EFFECTS
from gradsmith.ir.program import Block, Const, Op, Value
from gradsmith.transforms.edit import runs_effects


def remove_dead(block: Block) -> bool:
    """Remove what neither the results of ``block`` nor an effect needs.

    Returns whether results of control operations are among it, so that simplifying again may find more.
    """
    marker = _Liveness(block)
    marker.run(block)
    return _sweep(block, marker)


class _Liveness:
    """Marks live values and operations, from results and effects back to definitions."""

    def __init__(self, block: Block):
        self.live: set[Value] = set()
        self.live_ops: set[Op] = set()
        self._work: list[Value] = []
        self._owner: dict[Op | Value, tuple[Op, Block]] = {}  # of an operation or a parameter in a region
        self._effects: list[Op] = []
        self._survey(block, None)

    def run(self, block: Block) -> None:
        for op in self._effects:
            self._keep(op)
            for arg in op.args:
                self.mark(arg)
        for result in block.results:
            self.mark(result)
        while self._work:
            self._follow(self._work.pop())

    def mark(self, value: Value) -> None:
        if value not in self.live and not isinstance(value, Const):
            self.live.add(value)
            self._work.append(value)

    def _survey(self, block: Block, owner: tuple[Op, Block] | None) -> None:
        for op in block.ops:
            if owner:
                self._owner[op] = owner
            if op.name in EFFECTS or (op.name == "call" and runs_effects(op)):
                self._effects.append(op)
            for region in op.regions if op.name != "call" else ():
                for param in region.params:
                    self._owner[param] = (op, region)
                self._survey(region, (op, region))

    def _follow(self, value: Value) -> None:
        op = value.op
        if op is None:
            if value in self._owner:
                self._follow_param(value)
            return
        self._keep(op)
        if op.name in CONTROL:
            self._follow_result(op, op.results.index(value) if len(op.results) > 1 else 0)
        else:
            for arg in op.args:
                self.mark(arg)

    def _follow_param(self, param: Value) -> None:
        op, region = self._owner[param]
        self._keep(op)
        carried = region.params.index(param) - (len(region.params) - len(op.results))
        if carried >= 0:
            self._follow_result(op, carried)

    def _follow_result(self, op: Op, k: int) -> None:
        """Result ``k`` of ``op``, or the carried parameter of that number, is live."""
        if op.name == "if":
            for region in op.regions:
                self.mark(region.results[k])
            return
        self.mark(op.args[len(op.args) - len(op.results) + k])
        body = op.regions[-1]
        self.mark(body.results[k])
        for value in [op.results[k], *(r.params[k - len(op.results)] for r in op.regions)]:
            self.live.add(value)

    def _keep(self, op: Op) -> None:
        """``op`` runs: so do the operations around it, which need their conditions and bounds."""
        if op in self.live_ops:
            return
        self.live_ops.add(op)
        if op.name in ("if", "for"):
            for arg in op.args[: 1 if op.name == "if" else 3]:
                self.mark(arg)
        elif op.name == "while":
            self.mark(op.regions[0].results[0])
        if op in self._owner:
            self._keep(self._owner[op][0])


def _sweep(block: Block, marker: _Liveness) -> bool:
    kept = [op for op in block.ops if op in marker.live_ops]
    block.ops = kept
    changed = False
    for op in kept:
        if op.name in CONTROL:
            changed |= _drop_results(op, marker.live)
            for region in op.regions:
                changed |= _sweep(region, marker)
    return changed


def _drop_results(op: Op, live: set[Value]) -> bool:
    """Remove the dead results of an ``if``, the dead carried values of a loop."""
    count = len(op.results)
    body = op.regions[-1]
    if op.name == "if":
        keep = [k for k in range(count) if op.results[k] in live]
    else:
        keep = [k for k in range(count) if body.params[len(body.params) - count + k] in live]
    if len(keep) == count:
        return False
    keep_carried(op, keep)
    return True


def keep_carried(op: Op, keep: list[int]) -> None:
    """Remove all results of a control operation, with what belongs to them, except those numbered in ``keep``."""
    count = len(op.results)
    if op.name != "if":
        first = len(op.args) - count
        op.args = op.args[:first] + [op.args[first + k] for k in keep]
        for region in op.regions:
            first = len(region.params) - count
            region.params = region.params[:first] + [region.params[first + k] for k in keep]
    for region in op.regions if op.name == "if" else op.regions[-1:]:
        region.results = [region.results[k] for k in keep]
    op.results = [op.results[k] for k in keep]
