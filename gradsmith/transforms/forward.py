"""Forward mode: every value that depends on the inputs gets a tangent; the structure of the Program is mirrored."""

from __future__ import annotations

from collections.abc import Sequence

from gradsmith.ir.builder import Builder
from gradsmith.ir.ops import ELEMENTWISE
from gradsmith.ir.program import Block, Const, Op, Value, copy_block, copy_op
from gradsmith.ir.types import I64, SeqType
from gradsmith.rules import elementwise, host, structural
from gradsmith.rules.structural import zeros_like
from gradsmith.transforms.activity import Activity, loop_slots
from gradsmith.transforms.expand import expand, has_residuals
from gradsmith.transforms.reverse import check_declared, vjp


def jvp(
    b: Builder, block: Block, args: Sequence[Value], tangents: Sequence[Value | None]
) -> tuple[list[Value], list[Value | None]]:
    """Emit ``block`` with its derivative along ``tangents``; returns its results and their tangents (``None``: zero).

    ``args`` and ``tangents`` belong to the block's parameters; other values that the block uses are constants.
    """
    results, (out,) = jvps(b, block, args, [tangents])
    return results, out


def jvps(
    b: Builder, block: Block, args: Sequence[Value], directions: Sequence[Sequence[Value | None]]
) -> tuple[list[Value], list[list[Value | None]]]:
    """:func:`jvp` along several directions at once: the values and partials are computed once for all of them."""
    if any(map(has_residuals, block.walk())):
        block = copy_block(block, {})
        expand(block, has_residuals)
    with b:
        return _Forward(b, block, directions).run(block, args, directions)


class _Forward:
    def __init__(self, b: Builder, block: Block, directions: Sequence[Sequence[Value | None]]):
        self.b = b
        self.used = {a for op in block.walk() for values in (op.args, *(r.results for r in op.regions)) for a in values}
        self.used.update(block.results)
        moving = [any(t is not None for t in tangents) for tangents in zip(*directions, strict=True)]
        seeds = [p for p, moves in zip(block.params, moving, strict=True) if moves and p.type.inexact]
        self.varied = Activity(block.ops).varied(seeds)
        #: the new value of every value of the block, and its tangent along each direction
        self.primal: dict[Value, Value] = {}
        self.tangents: list[dict[Value, Value]] = [{} for _ in directions]

    def run(
        self, block: Block, args: Sequence[Value], directions: Sequence[Sequence[Value | None]]
    ) -> tuple[list[Value], list[list[Value | None]]]:
        self.primal.update(zip(block.params, args, strict=True))
        for tangent, given in zip(self.tangents, directions, strict=True):
            tangent.update((p, t) for p, t in zip(block.params, given, strict=True) if t is not None)
        loc = self.b.loc
        for op in block.ops:
            self.b.loc = op.loc
            self._op(op)
        self.b.loc = loc
        tangents = [[tangent.get(r) for r in block.results] for tangent in self.tangents]
        return [self.primal.get(r, r) for r in block.results], tangents

    def _op(self, op: Op) -> None:
        if not any(r in self.varied for r in op.results):
            self.b.block.ops.append(copy_op(op, self.primal))
        elif op.name == "call":
            self._call(op)
        elif op.name == "if":
            self._if(op)
        elif op.name == "for":
            self._for(op)
        elif op.name == "while":
            self._while(op)
        else:
            self._simple(op)

    def _simple(self, op: Op) -> None:
        moving = [d for d, tangent in enumerate(self.tangents) if any(a in tangent for a in op.args)]
        if not moving:
            self.b.block.ops.append(copy_op(op, self.primal))
            return
        args = [self.primal.get(a, a) for a in op.args]
        given: list[list[Value | None]] = [[self.tangents[d].get(a) for a in op.args] for d in moving]
        for tangents in given:
            if isinstance(args[0].type, SeqType) and tangents[0] is None:
                tangents[0] = zeros_like(args[0])  # before the operation uses the sequence up
        new = copy_op(op, self.primal)
        self.b.block.ops.append(new)
        used = [r in self.used for r in op.results]
        for d, tangents in zip(moving, given, strict=True):
            self._set(d, op.results, self._pushforward(new, args, tangents, used))

    def _pushforward(
        self, op: Op, args: Sequence[Value], tangents: Sequence[Value | None], used: Sequence[bool]
    ) -> Sequence[Value | None]:
        if op.name in ELEMENTWISE:
            return [elementwise.pushforward(op, op.result, args, tangents)]
        if op.name == "host":
            return host.pushforward(op, args, op.results, tangents, used)
        rule = structural.PUSHFORWARDS.get(op.name)
        if rule is None:
            raise structural.missing(op)
        return rule(op, args, op.results, tangents)

    def _set(self, d: int, values: Sequence[Value], tangents: Sequence[Value | None]) -> None:
        """The tangents of values along direction ``d``."""
        for value, tangent in zip(values, tangents, strict=True):
            if tangent is not None and value in self.varied:
                if value.name and not tangent.name and not isinstance(tangent, Const):
                    tangent.name = f"{value.name}_dot" if len(self.tangents) == 1 else f"{value.name}_dot{d}"
                self.tangents[d][value] = tangent

    def _or_zeros(self, values: Sequence[Value]) -> list[Value]:
        """The tangents of values along one direction after the other, arrays of zeros where there are none."""
        return [t.get(v) or zeros_like(self.primal.get(v, v)) for t in self.tangents for v in values]

    # Calls ------------------------------------------------------------------------------------------------------------

    def _call(self, op: Op) -> None:
        args = [self.primal.get(a, a) for a in op.args]
        dots: list[list[Value | None]] = [[tangent.get(a) for a in op.args] for tangent in self.tangents]
        moving = [k for k in range(len(args)) if any(dot[k] is not None for dot in dots)]
        if not moving:
            self.b.block.ops.append(copy_op(op, self.primal))
            return
        if "wrt" in op.attrs:
            check_declared(op, moving)
        given = [[dot[k] or zeros_like(args[k]) for k in op.attrs.get("wrt", ())] for dot in dots]
        if "pushforward" in op.attrs:
            region = op.regions[op.attrs["pushforward"]]
            out = [self.b.inline(region, [*args, *tangents]) for tangents in given]
            results, found = out[0][: len(op.results)], [o[len(op.results) :] for o in out]
        elif op.attrs.get("body"):
            results, some = jvps(self.b, op.regions[0], args, dots)
            found = _inexact_or_zeros(results, some)
        elif "pullback" in op.attrs:
            transposed = [self._transposed(op, args, tangents) for tangents in given]
            results, found = transposed[0][0], [tangents for _, tangents in transposed]
        else:
            results, found = self._recomputable(op, args, dots, moving)
        self.primal.update(zip(op.results, results, strict=True))
        for d, tangents in enumerate(found):
            self._set(d, [r for r in op.results if r.type.inexact], tangents)

    def _transposed(self, op: Op, args: list[Value], given: list[Value]) -> tuple[list[Value], list[Value]]:
        """The pullback of a call is linear in the cotangents: its own pullback maps tangents to tangents."""
        results = self.b.inline(op.regions[op.attrs.get("forward", 0)], args)
        own = [r for r in results[: len(op.results)] if r.type.inexact]
        zeros = [zeros_like(r) for r in own]
        linear = range(len(args) + len(results), len(args) + len(results) + len(own))
        _, back = vjp(self.b, op.regions[op.attrs["pullback"]], [*args, *results, *zeros], linear)
        tangents = [t or zeros_like(r) for t, r in zip(back(given), own, strict=True)]
        return results[: len(op.results)], tangents

    def _recomputable(
        self, op: Op, args: list[Value], dots: list[list[Value | None]], moving: list[int]
    ) -> tuple[list[Value], list[list[Value]]]:
        """A checkpoint stays one: a call of the region with its derivative."""
        params = [Value(a.type, a.name) for a in args]
        directions: list[list[Value | None]] = [
            [Value(args[k].type) if k in moving else None for k in range(len(args))] for _ in dots
        ]
        with self.b.region([*params, *(d for row in directions for d in row if d is not None)]) as block:
            results, some = jvps(self.b, op.regions[0], params, directions)
            tangents = _inexact_or_zeros(results, some)
            block.results = [*results, *(t for row in tangents for t in row)]
        operands = [*args, *(dot[k] or zeros_like(args[k]) for dot in dots for k in moving)]
        new = self.b.emit_control("call", operands, [block], checkpoint=True, function=op.attrs["function"])
        rest = iter(new.results[len(op.results) :])
        return new.results[: len(op.results)], [[next(rest) for _ in row] for row in tangents]

    # Control flow -----------------------------------------------------------------------------------------------------

    def _if(self, op: Op) -> None:
        slots = [k for k, r in enumerate(op.results) if r in self.varied]
        regions = []
        for region in op.regions:
            with self.b.region() as block:
                results, _ = self.run(region, [], [[]] * len(self.tangents))
                block.results = results + self._or_zeros([region.results[k] for k in slots])
            regions.append(block)
        new = self.b.emit_control("if", [self.primal.get(op.args[0], op.args[0])], regions)
        self._finish(op, new, slots)

    def _for(self, op: Op) -> None:
        slots = [k for k, r in enumerate(op.results) if r in self.varied]
        bounds = [self.primal.get(a, a) for a in op.args[:3]]
        starts = self._starts(op, slots)
        index = Value(I64, op.regions[0].params[0].name)
        body = self._body(op, slots, [index])
        self._finish(op, self.b.emit_control("for", [*bounds, *starts], [body], **op.attrs), slots)

    def _while(self, op: Op) -> None:
        slots = [k for k, r in enumerate(op.results) if r in self.varied]
        starts = self._starts(op, slots)
        body = self._body(op, slots, [])
        cond = copy_block(op.regions[0], dict(self.primal))
        cond.params += [Value(op.results[k].type) for _ in self.tangents for k in slots]
        self._finish(op, self.b.emit_control("while", starts, [cond, body], **op.attrs), slots)

    def _starts(self, op: Op, slots: Sequence[int]) -> list[Value]:
        inits = loop_slots(op)[0]
        tangents = self._or_zeros([inits[k] for k in slots])
        return [self.primal.get(a, a) for a in inits] + tangents

    def _body(self, op: Op, slots: Sequence[int], index: list[Value]) -> Block:
        body = op.regions[-1]
        carried = [Value(r.type, p.name) for r, p in zip(op.results, loop_slots(op)[1], strict=True)]
        dots = [[Value(op.results[k].type) for k in slots] for _ in self.tangents]
        directions: list[list[Value | None]] = []
        for row in dots:
            directions.append([None] * len(body.params))
            for k, dot in zip(slots, row, strict=True):
                directions[-1][k + len(index)] = dot
        with self.b.region([*index, *carried, *(dot for row in dots for dot in row)]) as block:
            results, _ = self.run(body, [*index, *carried], directions)
            block.results = results + self._or_zeros([body.results[k] for k in slots])
        return block

    def _finish(self, op: Op, new: Op, slots: Sequence[int]) -> None:
        """Register the results of a mirrored ``if`` or loop: the primal ones, then the tangents of ``slots``."""
        for old, value in zip(op.results, new.results, strict=False):
            value.name = old.name
            self.primal[old] = value
        rest = iter(new.results[len(op.results) :])
        for d in range(len(self.tangents)):
            self._set(d, [op.results[k] for k in slots], [next(rest) for _ in slots])


def _inexact_or_zeros(results: Sequence[Value], rows: Sequence[Sequence[Value | None]]) -> list[list[Value]]:
    """The tangents of the inexact results along every direction."""
    return [[t or zeros_like(r) for r, t in zip(results, row, strict=True) if r.type.inexact] for row in rows]
