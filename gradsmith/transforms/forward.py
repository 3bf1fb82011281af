"""Forward mode: every value that depends on the inputs gets a tangent; the structure of the Program is mirrored."""

from __future__ import annotations

from collections.abc import Sequence

from gradsmith import errors
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
    if any(map(has_residuals, block.walk())):
        block = copy_block(block, {})
        expand(block, has_residuals)
    with b:
        return _Forward(b, block, tangents).run(block, args, tangents)


class _Forward:
    def __init__(self, b: Builder, block: Block, tangents: Sequence[Value | None]):
        self.b = b
        self.used = {a for op in block.walk() for values in (op.args, *(r.results for r in op.regions)) for a in values}
        self.used.update(block.results)
        seeds = [p for p, t in zip(block.params, tangents, strict=True) if t is not None and p.type.inexact]
        self.varied = Activity(block.ops).varied(seeds)
        #: the new value and the tangent of every value of the block
        self.primal: dict[Value, Value] = {}
        self.tangent: dict[Value, Value] = {}

    def run(
        self, block: Block, args: Sequence[Value], tangents: Sequence[Value | None]
    ) -> tuple[list[Value], list[Value | None]]:
        self.primal.update(zip(block.params, args, strict=True))
        self.tangent.update((p, t) for p, t in zip(block.params, tangents, strict=True) if t is not None)
        loc = self.b.loc
        for op in block.ops:
            self.b.loc = op.loc
            self._op(op)
        self.b.loc = loc
        return [self.primal.get(r, r) for r in block.results], [self.tangent.get(r) for r in block.results]

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
        tangents = [self.tangent.get(a) for a in op.args]
        if all(t is None for t in tangents):
            self.b.block.ops.append(copy_op(op, self.primal))
            return
        args = [self.primal.get(a, a) for a in op.args]
        if isinstance(args[0].type, SeqType) and tangents[0] is None:
            tangents[0] = zeros_like(args[0])  # before the operation uses the sequence up
        new = copy_op(op, self.primal)
        self.b.block.ops.append(new)
        used = [r in self.used for r in op.results]
        self._set(op.results, self._pushforward(new, args, tangents, used))

    def _pushforward(
        self, op: Op, args: Sequence[Value], tangents: Sequence[Value | None], used: Sequence[bool]
    ) -> Sequence[Value | None]:
        if op.name in ELEMENTWISE:
            return [elementwise.pushforward(op, op.result, args, tangents)]
        if op.name == "host":
            return host.pushforward(op, args, op.results, tangents, used)
        rule = structural.PUSHFORWARDS.get(op.name)
        if rule is None:
            raise errors.MissingRule(f"no derivative is known for {op.name} at {op.loc}")
        return rule(op, args, op.results, tangents)

    def _set(self, values: Sequence[Value], tangents: Sequence[Value | None]) -> None:
        for value, tangent in zip(values, tangents, strict=True):
            if tangent is not None and value in self.varied:
                if value.name and not tangent.name and not isinstance(tangent, Const):
                    tangent.name = f"{value.name}_dot"
                self.tangent[value] = tangent

    def _or_zeros(self, value: Value) -> Value:
        """The tangent of ``value``, an array of zeros if it has none."""
        return self.tangent.get(value) or zeros_like(self.primal.get(value, value))

    # Calls ------------------------------------------------------------------------------------------------------------

    def _call(self, op: Op) -> None:
        args = [self.primal.get(a, a) for a in op.args]
        dots = [self.tangent.get(a) for a in op.args]
        moving = [k for k, d in enumerate(dots) if d is not None]
        if not moving:
            self.b.block.ops.append(copy_op(op, self.primal))
            return
        if "wrt" in op.attrs:
            check_declared(op, moving)
        given = [dots[k] or zeros_like(args[k]) for k in op.attrs.get("wrt", ())]
        if "pushforward" in op.attrs:
            out = self.b.inline(op.regions[op.attrs["pushforward"]], [*args, *given])
            results, tangents = out[: len(op.results)], out[len(op.results) :]
        elif op.attrs.get("body"):
            results, found = jvp(self.b, op.regions[0], args, dots)
            tangents = [t or zeros_like(r) for r, t in zip(results, found, strict=True) if r.type.inexact]
        elif "pullback" in op.attrs:
            results, tangents = self._transposed(op, args, given)
        else:
            results, tangents = self._recomputable(op, args, dots, moving)
        self.primal.update(zip(op.results, results, strict=True))
        self._set([r for r in op.results if r.type.inexact], tangents)

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
        self, op: Op, args: list[Value], dots: list[Value | None], moving: list[int]
    ) -> tuple[list[Value], list[Value]]:
        """A checkpoint stays one: a call of the region with its derivative."""
        params = [Value(a.type, a.name) for a in args]
        directions = {k: Value(args[k].type) for k in moving}
        with self.b.region([*params, *directions.values()]) as block:
            results, found = jvp(self.b, op.regions[0], params, [directions.get(k) for k in range(len(args))])
            tangents = [t or zeros_like(r) for r, t in zip(results, found, strict=True) if r.type.inexact]
            block.results = [*results, *tangents]
        operands = [*args, *(d for d in dots if d is not None)]
        new = self.b.emit_control("call", operands, [block], checkpoint=True, function=op.attrs["function"])
        return new.results[: len(op.results)], new.results[len(op.results) :]

    # Control flow -----------------------------------------------------------------------------------------------------

    def _if(self, op: Op) -> None:
        slots = [k for k, r in enumerate(op.results) if r in self.varied]
        regions = []
        for region in op.regions:
            with self.b.region() as block:
                results, _ = self.run(region, [], [])
                block.results = results + [self._or_zeros(region.results[k]) for k in slots]
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
        cond.params += [Value(op.results[k].type) for k in slots]
        self._finish(op, self.b.emit_control("while", starts, [cond, body], **op.attrs), slots)

    def _starts(self, op: Op, slots: Sequence[int]) -> list[Value]:
        inits = loop_slots(op)[0]
        tangents = [self._or_zeros(inits[k]) for k in slots]
        return [self.primal.get(a, a) for a in inits] + tangents

    def _body(self, op: Op, slots: Sequence[int], index: list[Value]) -> Block:
        body = op.regions[-1]
        carried = [Value(r.type, p.name) for r, p in zip(op.results, loop_slots(op)[1], strict=True)]
        dots = [Value(op.results[k].type) for k in slots]
        tangents: list[Value | None] = [None] * len(body.params)
        for k, dot in zip(slots, dots, strict=True):
            tangents[k + len(index)] = dot
        with self.b.region([*index, *carried, *dots]) as block:
            results, _ = self.run(body, [*index, *carried], tangents)
            block.results = results + [self._or_zeros(body.results[k]) for k in slots]
        return block

    def _finish(self, op: Op, new: Op, slots: Sequence[int]) -> None:
        """Register the results of a mirrored ``if`` or loop: the primal ones, then the tangents of ``slots``."""
        for old, value in zip(op.results, new.results, strict=False):
            value.name = old.name
            self.primal[old] = value
        self._set([op.results[k] for k in slots], new.results[len(op.results) :])
