"""Control flow: if, for, while, check, guard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from gradsmith.backends.native import bounds, fission
from gradsmith.backends.native.emit import Ix, Phi, Scope, reg_type
from gradsmith.backends.native.lower import Array, Lowered, Lowering, Root, Sequence_, SequenceRoot
from gradsmith.backends.native.shapes import Sym
from gradsmith.ir.program import Block, Op, Value
from gradsmith.ir.types import ArrayType

_DOUBLE, _INT = np.dtype(np.float64), np.dtype(np.int64)

#: loops that can be long look for Ctrl-C once in so many iterations
POLL_MASK = (1 << 16) - 1
CHUNK = 1 << 22


class Join:
    """A value that several predecessors of a label give: one phi for each register it consists of."""

    def __init__(self, lo: Lowering, value: Value, sample: Lowered, varying: Sequence[tuple[int, Sym]], unique: bool):
        self.varying = varying
        em = lo.em
        self.phis: list[Phi] = []
        self.value: Lowered
        if isinstance(sample, str):
            assert isinstance(value.type, ArrayType)
            self.phis.append(em.phi(reg_type(value.type.dtype)))
            self.value = self.phis[0].name
            return
        owner = em.phi("ptr")
        if isinstance(sample, Sequence_):
            self.phis.append(owner)
            assert isinstance(sample.root, SequenceRoot)
            root: Root = SequenceRoot(owner.name, True, Scope(), value, sample.root.free)
            self.value = Sequence_(sample.elem, root)
            return
        ptr = em.phi("ptr")
        self.phis += [owner, ptr]
        for _, sym in varying:
            phi = em.phi("i64")
            self.phis.append(phi)
            lo.set_length(sym, phi.name)
        root = Root(owner.name, unique, Scope(), value)
        self.value = Array(sample.dtype, ptr.name, lo.dims(value), None, root)

    def add(self, given: Lowered, label: str) -> None:
        """``given`` arrives from ``label``."""
        if isinstance(given, str):
            self.phis[0].add(given, label)
            return
        assert not isinstance(self.value, str)
        self.value.root.scope.join(given.root.scope)
        self.phis[0].add(given.root.owner or "null", label)
        if isinstance(given, Array):
            self.phis[1].add(given.ptr, label)
            for phi, (axis, _) in zip(self.phis[2:], self.varying, strict=True):
                phi.add(given.dims[axis], label)


def _if(lo: Lowering, op: Op) -> bool:
    em = lo.em
    labels = em.new_label("then"), em.new_label("else")
    merge = em.new_label("endif")
    for k, result in enumerate(op.results):
        open_lengths = {sym for _, sym in _varying_if(lo, op, k, result)}
        for dim in lo.shapes.of(result):
            if dim not in open_lengths:
                lo.length(dim)
    dying = [h for h in lo.owned if lo.plan.last.get(h) == lo.position]
    handed = {h: lo.owned.pop(h) for h in dying}
    em.cond_br(lo.scalar(op.args[0]), *labels)
    arrivals: list[tuple[list[Lowered], str]] = []
    for region, label in zip(op.regions, labels, strict=True):
        em.place(label)
        results = lo.region(region, dict(handed), lambda r=region: lo.claims(r.results, [False] * len(r.results)))  # type: ignore[misc]
        arrivals.append((results, em.label))
        em.br(merge)
    em.place(merge)
    joins = []
    for k, result in enumerate(op.results):
        varying = _varying_if(lo, op, k, result)
        pair = [results[k] for results, _ in arrivals]
        unique = all(not isinstance(p, str) and p.root.unique for p in pair)
        join = Join(lo, result, pair[0], varying, unique)
        for given, (_, label) in zip(pair, arrivals, strict=True):
            join.add(given, label)
        joins.append(join)
    for result, join in zip(op.results, joins, strict=True):
        lo.define(result, join.value)
    return True


def _varying_if(lo: Lowering, op: Op, k: int, result: Value) -> list[tuple[int, Sym]]:
    """The axes of a result of ``if`` whose length depends on the branch."""
    dims = lo.shapes.of(result)
    return [(a, n) for a, n in enumerate(dims) if isinstance(n, Sym) and n.key == ("if", op, k, a)]


class _Loop:
    """What ``for`` and ``while`` share: carried values, their uniqueness and their joins at the loop's head."""

    def __init__(self, lo: Lowering, op: Op, inits: Sequence[Value], body: Block, params: Sequence[Value]):
        self.lo, self.op, self.body, self.params = lo, op, body, params
        updated = lo.planner.updated(body)
        for init in inits:
            lo.dims(init)
        self.unique = [p in updated for p in params]
        self.inits = lo.claims(inits, self.unique, lo.planner.captured(op))
        self.joins: list[Join] = []
        lo.has_loops = True

    def head(self, before: str) -> None:
        """The phis of the carried values."""
        self.joins = self.joined(self.inits, before)

    def joined(self, values: Sequence[Lowered], before: str) -> list[Join]:
        """Phis of the carried values, where ``values`` arrive from ``before``."""
        lo = self.lo
        varying = lo.shapes.varying[self.op]
        joins = []
        for k, (param, value) in enumerate(zip(self.params, values, strict=True)):
            axes = [(a, lo.shapes.sym("phi", self.op, k, a)) for j, a in sorted(varying) if j == k]
            join = Join(lo, param, value, axes, self.unique[k])
            join.add(value, before)
            joins.append(join)
        return joins

    def enter(self) -> dict[Value, Root]:
        """The body's parameters; returns the references that the body owns."""
        owned = {}
        for param, join in zip(self.params, self.joins, strict=True):
            self.lo.env[param] = join.value
            if not isinstance(join.value, str):
                owned[param] = join.value.root
        return owned

    def run_body(self) -> None:
        lo = self.lo
        lo.loop_depth += 1
        results = lo.region(self.body, self.enter(), lambda: lo.claims(self.body.results, self.unique))
        lo.loop_depth -= 1
        for join, result in zip(self.joins, results, strict=True):
            join.add(result, lo.em.label)

    def leave(self) -> None:
        """The loop's results: the carried values at its head."""
        for result, join in zip(self.op.results, self.joins, strict=True):
            given = join.value
            if isinstance(given, Array):
                root = given.root
                given = Array(given.dtype, given.ptr, given.dims, None, Root(root.owner, root.unique, root.scope))
            elif isinstance(given, Sequence_):
                root = given.root
                assert isinstance(root, SequenceRoot)
                given = Sequence_(given.elem, SequenceRoot(root.owner, True, root.scope, None, root.free))
            self.lo.define(result, given)

    def poll(self) -> Callable[[], None]:
        """Count iterations at the head; the function returned emits, in the latch, the look for a pending signal."""
        em, before = self.lo.em, self.before
        counter = em.phi("i64")
        counter.add(0, before)

        def latch() -> None:
            following = em.ins(f"add i64 {counter.name}, 1")
            due = em.ins(f"icmp eq i64 {em.ins(f'and i64 {counter.name}, {POLL_MASK}')}, {POLL_MASK}")
            look, done = em.new_label("poll"), em.new_label("polled")
            em.cond_br(due, look, done)
            em.place(look)
            _look_for_signals(self.lo)
            em.br(done)
            em.place(done)
            counter.add(following, em.label)

        return latch

    before = ""


def _for(lo: Lowering, op: Op) -> bool:
    em = lo.em
    body = op.regions[0]
    start, stop, step = (lo.number_of(a) for a in op.args[:3])
    first, count, stride = _iterations(lo, start, stop, step)
    last = em.add(first, em.mul(em.sub(count, 1), stride))
    with lo.scoped():
        leaf = not any(inner.name in ("for", "while") for inner in body.walk()) and not lo.shapes.varying[op]
        lo.reassociated |= _accumulations(op)
        ahead = fission.plan(lo, op, lo.reassociated) if leaf else None
        bounds.hoist(lo, op, first, last, count, ahead.ahead if ahead else ())
        loop = _Loop(lo, op, op.args[3:], body, body.params[1:])
        if op.attrs.get("reverse"):
            first, stride = last, em.sub(0, stride)
        if leaf:
            _leaf_loop(lo, loop, first, stride, count, ahead)
        else:
            _polling_loop(lo, loop, first, stride, count)
    _restore_varying(lo, loop)
    loop.leave()
    return True


def _polling_loop(lo: Lowering, loop: _Loop, first: Ix, stride: Ix, count: Ix) -> None:
    """A loop that looks for Ctrl-C itself."""
    em = lo.em
    head, inside, done = em.new_label("for"), em.new_label("body"), em.new_label("endfor")
    loop.before = em.label
    em.br(head)
    em.place(head)
    counter = em.phi("i64")
    counter.add(0, loop.before)
    loop.head(loop.before)
    latch = loop.poll()
    em.cond_br(em.ins(f"icmp slt i64 {counter.name}, {count}"), inside, done)
    em.place(inside)
    lo.env[loop.body.params[0]] = str(em.add(first, em.mul(counter.name, stride)))
    loop.run_body()
    exits = em.label
    latch()
    _relabel(loop, exits, em.label)
    counter.add(em.ins(f"add nuw nsw i64 {counter.name}, 1"), em.label)
    em.br(head)
    em.place(done)


def _leaf_loop(lo: Lowering, loop: _Loop, first: Ix, stride: Ix, count: Ix, ahead: fission.Fission | None) -> None:
    """A loop without loops inside: it runs in chunks, to be vectorisable, and looks for Ctrl-C between them."""
    em = lo.em
    variable = loop.body.params[0]
    outer, head, inside, chunk_end, look, done = map(
        em.new_label, ["chunk", "for", "body", "endchunk", "look", "endfor"]
    )
    before = em.label
    em.br(outer)
    em.place(outer)
    base = em.phi("i64")
    base.add(0, before)
    chunks = loop.joined(loop.inits, before)
    limit = em.min(em.add(base.name, fission.TILE if ahead else CHUNK), count)
    if ahead:
        fission.run_ahead(lo, ahead, variable, first, stride, base.name, limit)
    entered = em.label
    em.br(head)
    em.place(head)
    counter = em.phi("i64")
    counter.add(base.name, entered)
    loop.joins = loop.joined([join.value for join in chunks], entered)
    em.cond_br(em.ins(f"icmp slt i64 {counter.name}, {limit}"), inside, chunk_end)
    em.place(inside)
    lo.env[variable] = str(em.add(first, em.mul(counter.name, stride)))
    if ahead:
        take = partial(fission.take, lo, ahead, em.sub(counter.name, base.name))
        lo.ahead.update(dict.fromkeys(ahead.moved, take))
    loop.run_body()
    counter.add(em.ins(f"add nuw nsw i64 {counter.name}, 1"), em.label)
    em.br(head)
    em.place(chunk_end)
    em.cond_br(em.ins(f"icmp slt i64 {counter.name}, {count}"), look, done)
    em.place(look)
    if ahead:
        _after_many_tiles(lo, counter.name)
    else:
        _look_for_signals(lo)
    base.add(counter.name, em.label)
    for chunk, join in zip(chunks, loop.joins, strict=True):
        chunk.add(join.value, em.label)
    em.br(outer)
    em.place(done)


def _after_many_tiles(lo: Lowering, counter: str) -> None:
    """Look for signals once in POLL_MASK + 1 iterations, of which a tile is a part."""
    em = lo.em
    due = em.ins(f"icmp eq i64 {em.ins(f'and i64 {counter}, {POLL_MASK}')}, 0")
    look, done = em.new_label("poll"), em.new_label("polled")
    em.cond_br(due, look, done)
    em.place(look)
    _look_for_signals(lo)
    em.br(done)
    em.place(done)


def _look_for_signals(lo: Lowering) -> None:
    state = lo.em.ins("call i64 @gradsmith_poll(ptr %ctx)")
    lo.require(lo.em.ins(f"icmp eq i64 {state}, 0"), "interrupt")


def _accumulations(op: Op) -> set[Op]:
    """The additions of a ``for`` loop that only accumulate a carried float: their order may change, to vectorise."""
    body = op.regions[0]
    uses: Counter[Value] = Counter(body.results)
    for inner in body.walk():
        uses.update(inner.args)
        for region in inner.regions:
            uses.update(region.results)
    out: set[Op] = set()
    for param, result in zip(body.params[1:], body.results, strict=True):
        links: list[Op] = []
        value = result
        while (
            value is not param
            and uses[value] == 1
            and value.op is not None
            and value.op.name == "add"
            and value.op in body.ops
        ):
            links.append(value.op)
            x, y = value.op.args
            value = x if _reaches(x, param, body) else y
        if value is param and uses[param] == 1 and isinstance(param.type, ArrayType):
            if param.ndim == 0 and param.dtype.kind == "f":
                out.update(links)
    return out


def _reaches(value: Value, param: Value, body: Block) -> bool:
    """Whether a chain of additions leads from ``value`` back to ``param``."""
    while value is not param:
        if value.op is None or value.op.name != "add" or value.op not in body.ops:
            return False
        x, y = value.op.args
        if x is param or y is param:
            return True
        value = x
    return True


def _iterations(lo: Lowering, start: Ix, stop: Ix, step: Ix) -> tuple[Ix, Ix, Ix]:
    """First index, number of iterations and step of ``range(start, stop, step)``."""
    em = lo.em
    if isinstance(step, int):
        span = em.sub(stop, start) if step > 0 else em.sub(start, stop)
        if abs(step) == 1:
            return start, em.max(span, 0), step
        rounded = em.max(em.add(span, abs(step) - 1), 0)
        count = rounded // abs(step) if isinstance(rounded, int) else em.ins(f"udiv i64 {rounded}, {abs(step)}")
        return start, count, step
    lo.require(em.ins(f"icmp ne i64 {step}, 0"), "deopt")
    down = em.ins(f"icmp slt i64 {step}, 0")
    size = em.ins(f"select i1 {down}, i64 {em.sub(0, step)}, i64 {step}")
    forward, backward = em.sub(stop, start), em.sub(start, stop)
    span = em.ins(f"select i1 {down}, i64 {backward}, i64 {forward}")
    rounded = em.max(em.add(span, em.sub(size, 1)), 0)
    return start, em.ins(f"udiv i64 {rounded}, {size}"), step


def _while(lo: Lowering, op: Op) -> bool:
    em = lo.em
    cond, body = op.regions
    with lo.scoped():
        loop = _Loop(lo, op, op.args, body, body.params)
        head, inside, done = em.new_label("while"), em.new_label("body"), em.new_label("endwhile")
        loop.before = em.label
        em.br(head)
        em.place(head)
        loop.head(loop.before)
        latch = loop.poll()
        for param, join in zip(cond.params, loop.joins, strict=True):
            lo.env[param] = _borrowed(join.value)
        lo.loop_depth += 1
        test = lo.region(cond, {}, lambda: lo.scalar(cond.results[0]))
        lo.loop_depth -= 1
        em.cond_br(test, inside, done)
        em.place(inside)
        loop.run_body()
        exits = em.label
        latch()
        _relabel(loop, exits, em.label)
        em.br(head)
        em.place(done)
    _restore_varying(lo, loop)
    loop.leave()
    return True


def _borrowed(value: Lowered) -> Lowered:
    """A carried value as the condition sees it: read, never released."""
    if isinstance(value, Array):
        return Array(value.dtype, value.ptr, value.dims, None, Root(value.root.owner, False, value.root.scope))
    if isinstance(value, Sequence_):
        assert isinstance(value.root, SequenceRoot)
        return Sequence_(value.elem, SequenceRoot(value.root.owner, False, value.root.scope, None, value.root.free))
    return value


def _relabel(loop: _Loop, old: str, new: str) -> None:
    """The latch got more blocks after the body's results were recorded."""
    for join in loop.joins:
        for phi in join.phis:
            phi.incoming = [(v, new if b == old else b) for v, b in phi.incoming]


def _restore_varying(lo: Lowering, loop: _Loop) -> None:
    """The lengths of the results that change in the loop are those at its head."""
    for join in loop.joins:
        if isinstance(join.value, Array):
            for axis, sym in join.varying:
                lo.set_length(sym, join.value.dims[axis])


def _check(lo: Lowering, op: Op) -> bool:
    values = []
    for arg in op.args[1:]:
        if not lo.is_scalar(arg):
            return False
        values.append(as_word(lo, arg))
    lo.require(lo.scalar(op.args[0]), "check", op, values)
    return True


def as_word(lo: Lowering, value: Value) -> str:
    """A scalar's bits as i64."""
    dtype = value.dtype
    register = lo.scalar(value)
    if dtype.kind == "f":
        wide = lo.scalars.cast(register, dtype, dtype if dtype.itemsize == 8 else _DOUBLE)
        return lo.em.ins(f"bitcast double {wide} to i64")
    if dtype.kind == "c":
        return lo.em.ins(f"bitcast double {lo.scalars.cast(register, dtype, _DOUBLE)} to i64")
    return lo.scalars.cast(register, dtype, _INT)


def _guard(lo: Lowering, op: Op) -> bool:
    lo.require(lo.scalar(op.args[0]), "guard")
    return True


HANDLERS: dict[str, Callable[[Lowering, Op], bool]] = {
    **{"if": _if, "for": _for, "while": _while, "check": _check, "guard": _guard},
}
