"""Reverse mode: the pullback of a block, by a structured walk backwards.

Every active value (it depends on the inputs, and the outputs depend on it) has an adjoint; a structural zero is
``None``. A loop becomes a loop over the same iterations backwards. It carries the adjoints of what the loop carries and
an accumulator for each active value that the body takes from outside. An ``if`` becomes an ``if`` on its condition.
Where primal values come from is the affair of :mod:`gradsmith.transforms.save`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from gradsmith import errors
from gradsmith.ir.builder import Builder, emit, i64, unbroadcast
from gradsmith.ir.checker import CONSUMES_SEQUENCE
from gradsmith.ir.describe import describe
from gradsmith.ir.ops import ELEMENTWISE
from gradsmith.ir.program import Block, Const, Input, Op, Value, copy_block, free_values
from gradsmith.ir.types import I64, SeqType
from gradsmith.rules import elementwise, host, structural
from gradsmith.rules.structural import Contribution, Scatter, SequenceScatter, zeros_like
from gradsmith.transforms.activity import Activity, defined_inside, loop_slots, reach
from gradsmith.transforms.edit import replace_values, rewrite_ops
from gradsmith.transforms.expand import bind, expand, has_residuals
from gradsmith.transforms.save import Frame, Saver, Stack
from gradsmith.transforms.shapes import Shapes

Pullback: TypeAlias = Callable[[Sequence[Value | None]], list[Value | None]]
Adjoints: TypeAlias = dict[Value, Value]


def vjp(
    b: Builder, block: Block, args: Sequence[Value], wrt: Sequence[int], inputs: Sequence[Input] = ()
) -> tuple[list[Value], Pullback]:
    """Emit the forward sweep of ``block`` and return its results and their pullback.

    ``args`` are the values of the block's parameters, ``wrt`` the positions of those that want an adjoint; what else
    the block uses is constant. ``pullback(cotangents)`` takes one cotangent per result (``None``: zero) and gives
    one adjoint per ``wrt`` (``None``: zero). It emits the backward sweep at the builder's place at that time, which is
    the forward sweep's block or a region after it, and adds to the forward sweep what has to be saved.

    ``inputs``, one per argument, say which axes have length one: with it shapes need fewer operations.
    """
    with b:
        args = _distinct(block, args, wrt)
        start = len(b.block.ops)
        inlined = Block((), (), b.inline(block, args))
        inlined.ops, b.block.ops[start:] = b.block.ops[start:], []
        expand(inlined, has_residuals)
        b.block.ops += inlined.ops
    forward, ops, results = b.block, inlined.ops, inlined.results
    wanted = [args[k] for k in wrt]
    units = {a: x.unit_axes for a, x in zip(args, inputs, strict=False) if len(x.unit_axes) > 0}

    def pullback(cotangents: Sequence[Value | None]) -> list[Value | None]:
        seeds = [(r, g) for r, g in zip(results, cotangents, strict=True) if g is not None]
        with b:
            return _Reverse(b, forward, ops, wanted, [r for r, _ in seeds], units).run(seeds)

    return results, pullback


def _distinct(block: Block, args: Sequence[Value], wrt: Sequence[int]) -> list[Value]:
    """``args`` with a value of its own for every input, also where the same value comes in twice."""
    out = list(args)
    free = set(free_values(block))
    for k in wrt:
        ambiguous = isinstance(out[k], Const) or out[k] in free or out.count(out[k]) > 1
        if ambiguous and structural.is_array(out[k]):
            out[k] = emit("cast", out[k], dtype=out[k].dtype)
    return out


class _Reverse:
    """One backward sweep."""

    def __init__(
        self,
        b: Builder,
        block: Block,
        ops: Sequence[Op],
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        unit_axes: Mapping[Value, Sequence[bool]],
    ):
        self.b = b
        self.ops = ops
        self.inputs = inputs
        self.activity = Activity(ops)
        self.varied = self.activity.varied(v for v in inputs if v.type.inexact)
        self.active = self.varied & self.activity.useful(outputs)
        self.shapes = Shapes(ops, unit_axes)
        self.saver = Saver(b, self.shapes, linear=b.block is block)
        self.top = Frame(None, block, None, set())

    def run(self, seeds: Iterable[tuple[Value, Value]]) -> list[Value | None]:
        loc = self.b.loc
        adjoints: Adjoints = {}
        for result, g in seeds:
            self._add(adjoints, result, g)
        self._walk(self.top, self.ops, adjoints)
        self.b.loc = loc
        return [adjoints.get(v) for v in self.inputs]

    def _walk(self, frame: Frame, ops: Sequence[Op], adjoints: Adjoints) -> None:
        """Add to ``adjoints`` what flows backwards through ``ops``."""
        for op in reversed(ops):
            self._start_sequences(op, adjoints)
            g = [adjoints.get(r) for r in op.results]
            if all(a is None for a in g):
                continue
            self.b.loc = op.loc
            if op.name == "if":
                self._if(frame, op, adjoints)
            elif op.name == "call":
                self._call(frame, op, adjoints)
            elif op.regions:
                self._loop(frame, op, adjoints)
            else:
                for operand, contribution in zip(op.args, self._pullback(op, g), strict=False):
                    self._add(adjoints, operand, contribution)

    def _start_sequences(self, op: Op, adjoints: Adjoints) -> None:
        """The last version of a sequence of which an earlier one needs an adjoint starts with zeros."""
        if op.regions or op.name in CONSUMES_SEQUENCE:
            for r in op.results:
                if isinstance(r.type, SeqType) and r in self.active and r not in adjoints:
                    adjoints[r] = zeros_like(r)

    def _pullback(self, op: Op, g: Sequence[Value | None]) -> Sequence[Contribution]:
        wanted = [a in self.active for a in op.args]
        if op.name in ELEMENTWISE:
            assert g[0] is not None
            parts = elementwise.pullback(op, g[0], wanted)
            return [p if p is None else self._operand_shape(p, a, op) for p, a in zip(parts, op.args, strict=True)]
        if op.name == "host":
            return host.pullback(op, g, wanted)
        rule = structural.PULLBACKS.get(op.name)
        if rule is None:
            raise structural.missing(op)
        out = list(rule(op, g, wanted))
        if op.name in ("set", "add_at") and isinstance(out[1], Value) and not self.shapes.fills(op):
            out[1] = structural.like(out[1], op.args[1])
        return out

    def _operand_shape(self, part: Value, operand: Value, op: Op) -> Value:
        """An adjoint in the shape of an elementwise result, summed to the shape of an operand."""
        return part if self.shapes.same(operand, op.result) else unbroadcast(part, operand)

    def _add(self, adjoints: Adjoints, value: Value, contribution: Contribution) -> None:
        """Add a contribution to the adjoint of ``value``."""
        if contribution is None or value not in self.active:
            return
        present = adjoints.get(value)
        if isinstance(contribution, Scatter | SequenceScatter):
            total = contribution.into(present, value)
        else:
            total = contribution if present is None else emit("add", present, contribution)
        if not total.name and total.op is not None and not isinstance(total, Const):
            total.name = _bar(_word(value) if isinstance(contribution, Scatter) else value.name)
        adjoints[value] = total

    def _accumulated(self, body: Block, ends: Iterable[Value]) -> list[Value]:
        """The active values from outside that get contributions in a region whose results ``ends`` have adjoints."""
        reached = reach(self.activity.backward, ends, within=defined_inside(body))
        return [v for v in free_values(body) if v in reached and v in self.active]

    # Calls ------------------------------------------------------------------------------------------------------------

    def _call(self, frame: Frame, op: Op, adjoints: Adjoints) -> None:
        wanted = [k for k, a in enumerate(op.args) if a in self.active]
        if not wanted:
            return
        if "wrt" not in op.attrs:
            parts = self._recomputed(op, wanted, adjoints)
            frame.owned.update(op.results)
        else:
            check_declared(op, wanted)
            if "pullback" not in op.attrs:
                add_pullback(op)
            if "residuals" not in op.attrs:
                _run_forward(op)
                frame.owned.update(op.results)
            own = op.results[: len(op.results) - op.attrs["residuals"]]
            given = [self._or_zeros(adjoints, r) for r in own if r.type.inexact]
            pullback = op.regions[op.attrs["pullback"]]
            cotangents = self.b.inline(pullback, [*op.args, *op.results, *given])
            parts = list(zip(op.attrs["wrt"], cotangents, strict=True))
        for k, part in parts:
            self._add(adjoints, op.args[k], part)

    def _recomputed(self, op: Op, wanted: Sequence[int], adjoints: Adjoints) -> list[tuple[int, Value | None]]:
        """The pullback of a call that the backward sweep runs again."""
        start = len(self.b.block.ops)
        _, pullback = vjp(self.b, _without_effects(op), op.args, wanted)
        again = {r for inner in self.b.block.ops[start:] for r in inner.results}
        middle = len(self.b.block.ops)
        cotangents = pullback([adjoints.get(r) for r in op.results])
        spared = free_values(Block((), self.b.block.ops[middle:], [c for c in cotangents if c is not None]))
        op.attrs["recomputed"] = [v for v in spared if v in again]
        return list(zip(wanted, cotangents, strict=True))

    # Control flow -----------------------------------------------------------------------------------------------------

    def _loop(self, frame: Frame, op: Op, adjoints: Adjoints) -> None:
        inits, params = loop_slots(op)
        body = op.regions[-1]
        slots = [k for k, r in enumerate(op.results) if r in self.active]
        outer = self._accumulated(body, [body.results[k] for k in slots])
        starts = [self._or_zeros(adjoints, op.results[k]) for k in slots] + [self._or_zeros(adjoints, v) for v in outer]
        if op.name == "for":
            bounds, backwards = list(op.args[:3]), not op.attrs.get("reverse", False)
        else:
            bounds, backwards = [i64(0), self.saver.count_iterations(frame, op), i64(1)], True

        index = Value(I64, body.params[0].name or "i" if op.name == "for" else "k")
        names = [params[k].name or op.results[k].name for k in slots] + [_word(v) for v in outer]
        carried = [Value(v.type, _bar(name)) for v, name in zip(starts, names, strict=True)]
        inner = Frame.of(op, body, frame, index)
        with self.b.region([index, *carried]) as backward:
            local = dict(zip(outer, carried[len(slots) :], strict=True))
            for k, g in zip(slots, carried, strict=False):
                self._add(local, body.results[k], g)
            self._walk(inner, list(body.ops), local)
            self.b.loc = op.loc
            backward.results = [self._or_zeros(local, params[k]) for k in slots] + [local[v] for v in outer]
        self.saver.resolve(inner, backward)
        self.b.loc = op.loc
        total = self._emit_loop(frame, inner, bounds, starts, backward, backwards)
        for v, g in zip(outer, total[len(slots) :], strict=True):
            adjoints[v] = g
        for k, g in zip(slots, total, strict=False):
            self._add(adjoints, inits[k], g)

    def _or_zeros(self, adjoints: Adjoints, value: Value) -> Value:
        if value in adjoints:
            return adjoints[value]
        zeros = zeros_like(value)
        if zeros.op is not None and not zeros.name:
            zeros.name = _bar(value.name)
        return zeros

    def _emit_loop(
        self, frame: Frame, inner: Frame, bounds: list[Value], starts: list[Value], backward: Block, backwards: bool
    ) -> list[Value]:
        """Emit the backward loop; returns what the values that start as ``starts`` are in the end."""
        final = list(starts)
        varying = _drop_invariant(backward, final)
        inits = [final[k] for k in varying]
        pure = not inner.stacks and all(_accumulates(backward, k) for k in range(len(varying)))
        for stack, (entry, leaving) in inner.stacks.items():
            backward.params.append(entry)
            backward.results.append(leaving)
            inits.append(frame.stacks[stack][1] if stack in frame.stacks else stack.entry)
        if not backward.results:
            return final
        op = self.b.emit_control("for", [*bounds, *inits], [backward], reverse=backwards and not pure)
        for position, k in enumerate(varying):
            final[k] = op.results[position]
        for stack, result in zip(inner.stacks, op.results[len(varying) :], strict=True):
            if stack in frame.stacks:
                frame.stacks[stack][1] = result
        return final

    def _if(self, frame: Frame, op: Op, adjoints: Adjoints) -> None:
        ends = [k for k, r in enumerate(op.results) if r in adjoints]
        outer: dict[Value, None] = {}
        for region in op.regions:
            outer.update(dict.fromkeys(self._accumulated(region, [region.results[k] for k in ends])))
        inner, backward = [], []
        for region in op.regions:
            branch = Frame.of(op, region, frame)
            with self.b.region() as block:
                local = {v: adjoints[v] for v in outer if v in adjoints}
                for k in ends:
                    self._add(local, region.results[k], adjoints[op.results[k]])
                self._walk(branch, list(region.ops), local)
                self.b.loc = op.loc
                block.results = [self._or_zeros(local, v) for v in outer]
            inner.append(branch)
            backward.append(block)
        for branch, block in zip(inner, backward, strict=True):
            self.saver.resolve(branch, block)
        stacks = self._join_stacks(inner, backward)
        if not backward[0].results:
            return
        self.b.loc = op.loc
        new = self.b.emit_control("if", op.args, backward)
        for v, result in zip(outer, new.results, strict=False):
            result.name = _bar(v.name)
        adjoints.update(zip(outer, new.results, strict=False))
        for stack, result in zip(stacks, new.results[len(outer) :], strict=True):
            if stack in frame.stacks:
                frame.stacks[stack][1] = result

    def _join_stacks(self, branches: Sequence[Frame], backward: Sequence[Block]) -> list[Stack]:
        """Add what the branches have popped to the results of both."""
        stacks = [(stack, entry) for branch in branches for stack, (entry, _) in branch.stacks.items()]
        for stack, entry in stacks:
            for branch, block in zip(branches, backward, strict=True):
                block.results.append(branch.stacks[stack][1] if stack in branch.stacks else entry)
        return [stack for stack, _ in stacks]


def check_declared(op: Op, active: Iterable[int]) -> None:
    """A derivative reaches a call with a rule through its declared operands only."""
    name = op.attrs["function"]
    if "exhausted" in op.attrs:
        raise errors.NotDifferentiable(f"{op.attrs['exhausted']} ({op.loc})")
    for k in active:
        if k not in op.attrs["wrt"]:
            raise errors.NotDifferentiable(
                f"{name} has a derivative rule that does not cover {op.args[k].name or 'a value'}, which depends on "
                "the inputs: pass it as an argument (not in nondiff_argnums), or keep the derivative away with "
                "stop_gradient" + (f" ({op.loc})" if op.loc else "")
            )


def _without_effects(op: Op) -> Block:
    """The region of a checkpoint as the backward sweep runs it: nothing is printed again, and random draws are kept."""
    body = op.regions[0]
    drawn = [r for inner in body.ops if inner.name == "effect" for r in inner.results]
    for r in drawn:
        if r not in body.results:
            body.results.append(r)
            op.add_result(r.type, r.name)
    kept, copies = dict(zip(body.results, op.results, strict=True)), dict[Value, Value]()
    again = copy_block(body, copies)
    rewrite_ops(again, lambda inner: [] if inner.name == "effect" else None)
    replace_values(again, {copies[r]: kept[r] for r in drawn})
    return again


def _run_forward(op: Op) -> None:
    """Have a call with a pullback compute what the pullback needs."""
    own = len(op.results)
    if "forward" in op.attrs:
        op.regions[0] = op.regions[op.attrs["forward"]]
        for value in op.regions[0].results[own:]:
            op.add_result(value.type, value.name)
    op.attrs["residuals"] = len(op.results) - own


def add_pullback(op: Op) -> None:
    """Give a call that has a pushforward, or none, the regions ``forward`` and ``pullback``: its transpose."""
    params = [Value(a.type, a.name) for a in op.args]
    b = Builder(Block(params))
    b.loc = op.loc
    own = [r for r in op.results if r.type.inexact]
    given = [Value(r.type, f"{r.name}_bar" if r.name else "") for r in own]
    with b:
        if "pushforward" in op.attrs and not op.attrs.get("body"):
            zeros = [emit("cast", zeros_like(params[k]), dtype=params[k].dtype) for k in op.attrs["wrt"]]
            linear = range(len(params), len(params) + len(zeros))
            results, pullback = vjp(b, op.regions[op.attrs["pushforward"]], [*params, *zeros], linear)
            seeds: list[Value | None] = [*[None] * len(op.results), *given]
        else:
            results, pullback = vjp(b, op.regions[0], params, op.attrs["wrt"])
            left = iter(given)
            seeds = [next(left) if r.type.inexact else None for r in op.results]
        results = results[: len(op.results)]
        with b.region(given) as block:
            adjoints = pullback(seeds)
            block.results = [
                zeros_like(params[k]) if g is None else g for k, g in zip(op.attrs["wrt"], adjoints, strict=True)
            ]
    known = {*params, *results}
    b.block.results = [*results, *(v for v in free_values(block) if v not in known)]
    bind(block, [*params, *b.block.results])
    op.attrs["forward"], op.attrs["pullback"] = len(op.regions), len(op.regions) + 1
    op.regions += [b.block, block]


def _word(value: Value) -> str:
    """The user's name for a value, else a description of it."""
    return value.name or (describe(value.op, lambda a: a.name) if value.op is not None else "")


def _bar(name: str) -> str:
    """The name of the adjoint of what is called ``name``."""
    return f"{name}_bar" if name else ""


def _drop_invariant(body: Block, starts: list[Value]) -> list[int]:
    """Stop carrying what the body does not change; returns the positions of what is still carried."""
    kept = [k for k, (p, r) in enumerate(zip(body.params[1:], body.results, strict=True)) if p is not r]
    dropped = {p: starts[k] for k, p in enumerate(body.params[1:]) if k not in kept}
    body.params = [body.params[0], *(body.params[1 + k] for k in kept)]
    body.results = [body.results[k] for k in kept]
    replace_values(body, dropped)
    return kept


def _users(body: Block) -> dict[Value, list[Op]]:
    """The operations of ``body`` that use each value, in their regions too, once for every use as an operand."""
    users: dict[Value, list[Op]] = defaultdict(list)
    for op in body.ops:
        for value in (*op.args, *(v for region in op.regions for v in free_values(region))):
            users[value].append(op)
    return users


def _accumulates(body: Block, position: int) -> bool:
    """Whether all that happens to a carried value on its way to the results is that something is added to it."""
    users = _users(body)
    value = body.params[1 + position]
    while users[value]:
        op = users[value][0]
        at = op.args.index(value) if value in op.args else -1
        if len(users[value]) > 1 or value in body.results:
            return False
        if op.name == "add" or (op.name in ("sub", "add_at") and at == 0):
            value = op.result
        elif op.name == "for" and at >= 3 and _accumulates(op.regions[0], at - 3):
            value = op.results[at - 3]
        else:
            return False
    return body.results[position] is value and body.results.count(value) == 1
