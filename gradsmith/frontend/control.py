"""Control over derivatives in staged code: rules, checkpoints, values without a derivative.

What has a derivative of its own becomes a ``call`` operation. Its regions are staged here with the values at hand and
are closed afterwards: whatever they use from outside becomes an operand of the call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradsmith import tree
from gradsmith.backends import effects
from gradsmith.errors import MissingRule, NotDifferentiable, SourceUnavailable, UnsupportedCode
from gradsmith.frontend import derive, jacobians
from gradsmith.frontend import stage as st
from gradsmith.frontend.calls import call
from gradsmith.frontend.flow import DeadPath
from gradsmith.frontend.generators import Handle, is_generator, rewinding
from gradsmith.frontend.heap import Slot
from gradsmith.frontend.stage import Stage
from gradsmith.frontend.values import Array, Scalar, Symbolic, contains_symbolic, fresh, is_number, next_birth
from gradsmith.ir import builder as ir
from gradsmith.ir.program import Block, Const, Input, Op, Value, free_values
from gradsmith.ir.types import ArrayType, SeqType
from gradsmith.transforms.activity import defined_inside
from gradsmith.transforms.edit import replace_values, rewrite_ops
from gradsmith.transforms.expand import bind, close, expand
from gradsmith.transforms.reverse import Pullback


class Zero:
    """The type of :data:`zero`."""

    def __repr__(self) -> str:
        return "gradsmith.zero"


#: a derivative that is exactly zero: what a rule may return, as None, for an argument that does not matter
zero = Zero()


def stage_region(stage: Stage, run: Callable[[], Any], params: Sequence[Value] = ()) -> tuple[Block, Any]:
    """What ``run()`` stages as a block of its own, and what it returns."""
    with stage.builder.region(params) as block:
        try:
            result = run()
        except DeadPath:
            dead, result = True, None
        else:
            dead = False
    if dead:
        stage.builder.block.ops += block.ops
        raise DeadPath
    return block, result


def _simplified(stage: Stage, block: Block, values: Sequence[Value]) -> Block:
    """A closed block simplified; ``values`` are its first operands."""
    inputs = [
        Input("array", tuple(n == 1 for n in np.shape(stage.known[v])) if v in stage.known else ()) for v in values
    ]
    return derive.simplified(block, inputs + [Input()] * (len(block.params) - len(inputs)))


def run_rule(stage: Stage, f: Any, args: Sequence[Any], kwargs: dict[str, Any] | None = None) -> Any:
    """``f(*args, **kwargs)``, a part of a rule. Rules branch on adjoints, and are staged from their source on a tape, too."""
    if stage.engine != "tape" or contains_symbolic(f):  # made by a recorded function, with values of its own
        return call(stage, f, args, kwargs or {})
    point = stage.checkpoint()
    try:
        with stage.run_by("source"):
            return call(stage, f, args, kwargs or {})
    except (UnsupportedCode, MissingRule, SourceUnavailable):
        stage.restore(point)
    return call(stage, f, args, kwargs or {})


# ---- rules ----------------------------------------------------------------------------------------------------------

#: how often the rule of a function may call the function itself, which is the highest order of its derivatives
MAX_ORDER = 3

#: (arguments) → (result, pullback), all on front-end values; the pullback gives a cotangent for every argument
Vjp = Callable[[list[Any]], tuple[Any, Callable[[Any], Sequence[Any]]]]
#: (arguments, tangents) → (result, tangent of the result)
Jvp = Callable[[list[Any], list[Any]], tuple[Any, Any]]


class _Arguments:
    """The arguments of a function with a rule: stand-ins that the function may not write, and their leaves."""

    def __init__(self, args: Sequence[Any], nondiff: Sequence[int]):
        self.trees: list[tuple[list[Any], tree.Tree]] = []
        self.args: list[Any] = []
        self.wrt: list[tuple[int, int]] = []  # (argument, leaf) of every leaf that a derivative reaches
        self.values: list[Value] = []
        for n, arg in enumerate(args):
            leaves, structure = tree.flatten(arg)
            moving = n not in nondiff and any(isinstance(x, Scalar | Array) and x.value.type.inexact for x in leaves)
            stood_in = [fresh(x.value) if isinstance(x, Array) else x for x in leaves] if moving else leaves
            self.trees.append((stood_in, structure))
            self.args.append(tree.unflatten(structure, stood_in) if moving else arg)
            if not moving:
                continue
            for k, leaf in enumerate(stood_in):
                if isinstance(leaf, Scalar | Array) and leaf.value.type.inexact:
                    self.wrt.append((n, k))
                    self.values.append(leaf.value)

    def tangents(self, values: Sequence[Value]) -> list[Any]:
        """The arguments with ``values`` for the leaves that a derivative reaches, and zero for all other numbers."""
        given = dict(zip(self.wrt, values, strict=True))
        out = []
        for n, (leaves, structure) in enumerate(self.trees):
            new: list[Any] = []
            for k, leaf in enumerate(leaves):
                if (n, k) in given:
                    new.append(_like(given[n, k], leaf))
                else:
                    new.append(0.0 if is_number(leaf) or isinstance(leaf, Array) else None)
            out.append(tree.unflatten(structure, new))
        return out

    def cotangents(self, given: Any, name: str, nondiff: Sequence[int]) -> list[Value]:
        """The Values of the cotangents that a pullback returned, one for each leaf that a derivative reaches."""
        differentiable = [n for n in range(len(self.trees)) if n not in nondiff]
        if not isinstance(given, tuple):
            given = (given,) if len(differentiable) == 1 else tuple(given) if isinstance(given, list) else given
        if not isinstance(given, tuple) or len(given) != len(differentiable):
            count = len(given) if isinstance(given, tuple) else 1
            raise TypeError(
                f"the pullback of {name} must return {len(differentiable)} cotangents, one per argument, not {count}"
            )
        parts = dict(zip(differentiable, given, strict=True))
        leaves: dict[int, list[Any]] = {}
        for n in {n for n, _ in self.wrt}:
            structure = self.trees[n][1]
            if _is_zero(parts[n]):
                leaves[n] = [None] * len(self.trees[n][0])
            else:
                leaves[n] = _leaves_up_to(structure, parts[n], f"the cotangent of argument {n} of {name}")
        out = []
        for (n, k), value in zip(self.wrt, self.values, strict=True):
            g = leaves[n][k]
            what = f"cotangent of argument {n} of {name}"
            out.append(ir.zeros_like(value) if _is_zero(g) else derive._like(g, value, what))
        return out


def _is_zero(x: Any) -> bool:
    return x is None or isinstance(x, Zero)


def _leaves_up_to(structure: tree.Tree, x: Any, what: str) -> list[Any]:
    """The leaves of ``x``, which has the structure of an argument or result, with None where it has None for a leaf."""
    try:
        return tree.flatten_up_to(structure, x)
    except ValueError as error:
        raise TypeError(f"{what} has the wrong structure: {error}") from None


def _like(value: Value, like: Any) -> Any:
    return (
        fresh(value)
        if isinstance(like, Array | np.ndarray)
        else Scalar(value, not isinstance(like, Scalar) or like.weak)
    )


class _Result:
    """The result of a function with a rule: its structure and its symbolic leaves."""

    def __init__(self, x: Any):
        self.leaves, self.structure = tree.flatten(x)
        self.symbolic = [k for k, leaf in enumerate(self.leaves) if isinstance(leaf, Scalar | Array)]
        self.values = [self.leaves[k].value for k in self.symbolic]
        for leaf in self.leaves:
            if not isinstance(leaf, Scalar | Array) and contains_symbolic(leaf):
                raise UnsupportedCode(f"a function with a derivative rule that returns {leaf!r}")

    def rebuilt(self, values: Sequence[Value]) -> Any:
        leaves = list(self.leaves)
        for k, value in zip(self.symbolic, values, strict=True):
            leaves[k] = _like(value, self.leaves[k])
        return tree.unflatten(self.structure, leaves)

    def inexact(self) -> list[int]:
        """The symbolic leaves that have a derivative."""
        return [k for k, value in zip(self.symbolic, self.values, strict=True) if value.type.inexact]

    def derivative(self, values: Sequence[Value]) -> Any:
        """A tangent or cotangent of the result: ``values`` for the leaves that have one, None for the others."""
        leaves: list[Any] = [None] * len(self.leaves)
        for k, value in zip(self.inexact(), values, strict=True):
            leaves[k] = _like(value, self.leaves[k])
        return tree.unflatten(self.structure, leaves)

    def same(self, x: Any, what: str) -> list[Value]:
        """The Values of ``x``, which must be a result like this one."""
        leaves = _leaves_up_to(self.structure, x, what)
        out = []
        for k, value in zip(self.symbolic, self.values, strict=True):
            found = st.as_value(leaves[k])
            if found.ndim != value.ndim:
                raise TypeError(f"{what} has {found.ndim} dimensions where the function returns {value.ndim}")
            out.append(ir.cast(found, value.dtype))
        return out

    def tangents(self, x: Any, primals: Sequence[Value], name: str) -> list[Value]:
        """The Values of the tangents that a rule returned with the result ``primals``."""
        leaves = [None] * len(self.leaves)
        if not _is_zero(x):
            leaves = _leaves_up_to(self.structure, x, f"the tangent of {name}")
        out = []
        for k, value in zip(self.symbolic, primals, strict=True):
            if not value.type.inexact:
                continue
            out.append(
                ir.zeros_like(value) if _is_zero(leaves[k]) else derive._like(leaves[k], value, f"tangent of {name}")
            )
        return out


def with_rule(
    stage: Stage,
    key: Any,
    name: str,
    value: Callable[[list[Any]], Any],
    args: Sequence[Any],
    vjp: Vjp | None = None,
    jvp: Jvp | None = None,
    nondiff: Sequence[int] = (),
    body: bool = False,
) -> Any:
    """Stage ``value(args)`` with a derivative of its own; ``key`` identifies the rule.

    ``body``: a mode without a rule differentiates the value.
    """
    arguments = _Arguments(args, nondiff)
    mark, birth = stage.heap.mark(), next_birth()
    if not arguments.values and (body or not contains_symbolic(args)):
        return value(arguments.args)
    order = stage.rules.get(key, 0)
    rewind = rewinding(_drawn_from(stage, args))
    primal, found = stage_region(stage, lambda: value(arguments.args))
    with stage.reopen(primal):
        result = _Result(found)
    primal.results = list(result.values)
    _refuse_writes(stage, mark, birth, name)
    regions: dict[str, Block] = {}
    stage.rules[key] = order + 1
    try:
        if order < MAX_ORDER:
            if vjp is not None:
                rewind()
                regions |= _stage_vjp(stage, name, vjp, arguments, result, nondiff)
            if jvp is not None:
                rewind()
                regions |= _stage_jvp(stage, name, jvp, arguments, result)
    finally:
        stage.rules[key] = order
    _refuse_writes(stage, mark, birth, name)
    ruled = vjp is not None or jvp is not None
    return _emit(stage, name, arguments, result, {"body": primal, **regions}, body, ruled)


def _drawn_from(stage: Stage, args: Sequence[Any]) -> list[Any]:
    """Generators among ``args`` that Python draws from while it records, once for each region of a call."""
    if stage.engine != "tape":
        return []
    leaves = tree.flatten(tuple(args))[0]
    handles = [effects.object_of(stage.known[x.number.value]) for x in leaves if isinstance(x, Handle)]
    return handles + [x for x in leaves if is_generator(x)]


def _refuse_writes(stage: Stage, mark: int, birth: int, name: str) -> None:
    for slot in stage.heap.written(mark):
        if stage.heap.birth(slot.owner) < birth and not (slot.kind == "attr" and slot.key == "ambiguous"):
            raise UnsupportedCode(
                f"{name} has a derivative rule and writes {slot} that it did not create; return it instead, or have "
                "Python write it in each call: gs.host(function)"
            )


def _stage_vjp(
    stage: Stage, name: str, vjp: Vjp, arguments: _Arguments, result: _Result, nondiff: Sequence[int]
) -> dict[str, Block]:
    forward, (found, pull) = stage_region(stage, lambda: vjp(arguments.args))
    with stage.reopen(forward):
        forward.results = result.same(found, f"the value in the rule of {name}")
    params = [Value(result.leaves[k].value.type) for k in result.inexact()]

    def run() -> list[Value]:
        return arguments.cotangents(pull(result.derivative(params)), name, nondiff)

    pullback, cotangents = stage_region(stage, run, params)
    pullback.results = cotangents
    return {"forward": forward, "pullback": pullback}


def _stage_jvp(stage: Stage, name: str, jvp: Jvp, arguments: _Arguments, result: _Result) -> dict[str, Block]:
    params = [Value(v.type, f"{v.name}_dot" if v.name else "") for v in arguments.values]

    def run() -> list[Value]:
        found, tangent = jvp(arguments.args, arguments.tangents(params))
        primals = result.same(found, f"the value in the rule of {name}")
        return [*primals, *result.tangents(tangent, primals, name)]

    pushforward, values = stage_region(stage, run, params)
    pushforward.results = values
    return {"pushforward": pushforward}


def _emit(
    stage: Stage, name: str, arguments: _Arguments, result: _Result, regions: dict[str, Block], body: bool, ruled: bool
) -> Any:
    """The ``call`` operation with its regions closed."""
    if "forward" in regions:
        _hand_over_residuals(regions["forward"], regions["pullback"])
    operands = list(arguments.values)
    own = defined_inside(regions["forward"]) if "forward" in regions else set()
    for block in regions.values():
        operands += [v for v in free_values(block) if v not in operands and v not in own]
    if any(isinstance(v.type, SeqType) for v in operands):
        raise UnsupportedCode(
            f"{name} has a derivative rule and reads a list that grew in a loop; make an array of it first"
        )
    residuals = regions["forward"].results if "forward" in regions else []
    for what, block in regions.items():
        bind(block, [*operands, *residuals] if what == "pullback" else operands)
    simple = [_simplified(stage, block, operands) for block in regions.values()]
    attrs: dict[str, Any] = {what: k for k, what in enumerate(regions) if what != "body"}
    if len(regions) == 1 and not body:
        attrs["exhausted"] = (
            f"a derivative of higher order than the rule of {name}, which calls it, provides"
            if ruled
            else f"{name} was given no derivative: define_rule takes vjp or jvp"
        )
    if body:
        attrs["body"] = True
    wrt = tuple(range(len(arguments.values)))
    primal, *rules = simple
    op = stage.builder.emit_control("call", operands, [*rules, primal], wrt=wrt, function=name, **attrs)
    op.regions = simple
    for old, new in zip(result.values, op.results, strict=True):
        new.name = old.name
    return result.rebuilt(op.results)


def _hand_over_residuals(forward: Block, pullback: Block) -> None:
    """What the pullback uses of the values that ``forward`` defines becomes results of ``forward``."""
    own = defined_inside(forward)
    known = set(forward.results)
    forward.results += [v for v in free_values(pullback) if v in own and v not in known]


# ---- modes ----------------------------------------------------------------------------------------------------------


def forward_mode(stage: Stage, f: Any, name: str, args: Sequence[Any]) -> Any:
    """``f(*args)``, whose Jacobian is computed by forward mode when a reverse pass needs it."""

    def vjp(args: list[Any]) -> tuple[Any, Callable[[Any], Sequence[Any]]]:
        chosen = _chosen(args, name)
        sub = derive.Sub(stage, f, chosen)
        if any(map(stage.acts, sub.block.ops)):  # forward mode would print and draw once for each column
            results, back = sub.vjp()
            return sub.rebuilt(results), lambda g: _spread(chosen, _pulled(back, results, sub.args, g), args)
        results = sub.emit_primal()
        columns = [_columns(stage, sub, j, results) for j in range(len(sub.args))]

        def pull(cotangent: Any) -> Sequence[Any]:
            given = tree.flatten(cotangent)[0]
            seeds = [st.as_value(g) for g in given]
            moving = [i for i, r in enumerate(results) if r.type.inexact]
            grads = []
            for arg, column in zip(sub.args, columns, strict=True):
                total = None
                for i, g in zip(moving, seeds, strict=True):
                    part = _contract(column[i], g, arg)
                    total = part if total is None else total + part
                grads.append(ir.zeros_like(arg) if total is None else total)
            return _spread(chosen, grads, args)

        return sub.rebuilt(results), pull

    return with_rule(stage, ("forward_mode", f), name, lambda args: call(stage, f, args, {}), args, vjp=vjp, body=True)


def _pulled(back: Pullback, results: Sequence[Value], args: Sequence[Value], cotangent: Any) -> list[Value]:
    """The cotangents of ``args`` by the pullback ``back``."""
    given = iter(tree.flatten(cotangent)[0])
    grads = back([st.as_value(next(given)) if r.type.inexact else None for r in results])
    return [ir.zeros_like(a) if g is None else g for g, a in zip(grads, args, strict=True)]


def reverse_mode(stage: Stage, f: Any, name: str, args: Sequence[Any]) -> Any:
    """``f(*args)``, whose Jacobian is computed by reverse mode when a forward pass needs it."""

    def jvp(args: list[Any], tangents: list[Any]) -> tuple[Any, Any]:
        chosen = _chosen(args, name)
        sub = derive.Sub(stage, f, chosen)
        results, back = sub.vjp()
        along = [tree.flatten(tangents[n])[0] for n in _positions(args)]
        dots = [st.as_value(along[m][k]) for m, k in chosen.chosen]
        out: list[Value | None] = []
        for i, y in enumerate(results):
            if not y.type.inexact:
                out.append(None)
                continue

            def row(ks: Sequence[Value], i: int = i, y: Value = y) -> tuple[list[list[Value | None]], list[Value]]:
                seeds: list[Value | None] = [None] * len(results)
                seeds[i] = jacobians.one_hot(y, ks[0])
                return [back(seeds)], []

            rows = jacobians.rows_along(stage, y, sub.args, row)
            parts = [_along(r, d, a, y) for r, d, a in zip(rows, dots, sub.args, strict=True)]
            total = parts[0]
            for part in parts[1:]:
                total = total + part
            out.append(total)
        return sub.rebuilt(results), derive.tangent_result(sub, results, out)

    return with_rule(stage, ("reverse_mode", f), name, lambda args: call(stage, f, args, {}), args, jvp=jvp, body=True)


def _chosen(args: Sequence[Any], name: str) -> derive.Leaves:
    """The arguments with a float in them."""
    chosen = derive.Leaves(args, {}, _positions(args))
    if any(st.as_value(x).dtype.kind == "c" for x in chosen.leaves):
        raise NotDifferentiable(f"{name}: a mode can be chosen for functions of real numbers only")
    return chosen


def _positions(args: Sequence[Any]) -> list[int]:
    return [n for n, a in enumerate(args) if any(map(derive.is_inexact, tree.flatten(a)[0]))]


def _spread(chosen: derive.Leaves, grads: Sequence[Value], args: Sequence[Any]) -> tuple[Any, ...]:
    """Gradients of the chosen leaves as one cotangent for each argument."""
    new = [_like(g, x) for g, x in zip(grads, chosen.leaves, strict=True)]
    out: list[Any] = [None] * len(args)
    for n, part in zip(_positions(args), chosen.structured(new), strict=True):
        out[n] = part
    return tuple(out)


def _columns(stage: Stage, sub: derive.Sub, j: int, results: Sequence[Value]) -> list[Value]:
    """For every result its derivative along each element of argument ``j``, stacked along a first axis."""
    return jacobians.forward_rows(sub, j, results, jacobians.chunk_size(stage, sub, sub.args[j]))


def _inner(x: Value, g: Value, axes: Sequence[int]) -> Value:
    """The real inner product of ``x`` with ``g`` over ``axes``."""
    product = ir.real(ir.conj(x) * g) if x.dtype.kind == "c" else x * g
    return ir.sum_(product, axes)


def _contract(column: Value, g: Value, arg: Value) -> Value:
    """``sum(column[k] * g)`` for every element ``k`` of ``arg``."""
    if not arg.ndim:
        return ir.cast(_inner(column, g, range(g.ndim)), arg.dtype)
    spread = ir.index(g, ["n", *[":"] * g.ndim]) if g.ndim else g
    return ir.reshape(ir.cast(_inner(column, spread, range(1, column.ndim)), arg.dtype), ir.shape(arg))


def _along(rows: Value, tangent: Value, arg: Value, result: Value) -> Value:
    """``sum(rows[k] * tangent)`` for every element ``k`` of the result."""
    axes = range(rows.ndim - arg.ndim, rows.ndim)
    product = ir.cast(_inner(rows, tangent, axes) if arg.ndim else rows * tangent, result.dtype)
    return ir.reshape(product, ir.shape(result)) if result.ndim else product


# ---- checkpoints ----------------------------------------------------------------------------------------------------


class _CannotExport(Exception):
    """What a checkpointed function leaves behind cannot be told from what it computes."""


def checkpoint(stage: Stage, f: Any, args: Sequence[Any], kwargs: dict[str, Any], name: str) -> Any:
    """``f(*args, **kwargs)``, run again in the backward sweep instead of storing what it computes."""
    mark, birth = stage.heap.mark(), next_birth()
    block, result = stage_region(stage, lambda: call(stage, f, args, kwargs))
    exports = _Exports(stage, birth)
    try:
        with stage.reopen(block):
            rebuild = exports.export(result)
            writes = [
                (slot, exports.export(slot.get()))
                for slot in stage.heap.written(mark)
                if stage.heap.birth(slot.owner) < birth and not (slot.kind == "attr" and slot.key == "ambiguous")
            ]
        closed = Block((), block.ops, exports.values)
        sequences = any(isinstance(v.type, SeqType) for v in (*free_values(closed), *exports.values))
        if sequences or not _keeps_draws(closed):
            raise _CannotExport
        expand(closed, lambda op: "checkpoint" in op.attrs and _draws(op))
    except _CannotExport:
        stage.builder.block.ops += block.ops
        return result
    operands = close(closed)
    closed = _simplified(stage, closed, operands)
    op = stage.builder.emit_control("call", operands, [closed], checkpoint=True, function=name)
    for old, new in zip(exports.values, op.results, strict=True):
        new.name = old.name
    for slot, value in writes:
        stage.heap.write(slot, value(op.results))
    return rebuild(op.results)


def _draws(op: Op) -> bool:
    """Whether running ``op`` gives random numbers or other results of Python's, which cannot be computed again."""
    return op.name == "effect" and bool(op.results) or any(_draws(o) for r in op.regions for o in r.ops)


def _keeps_draws(block: Block) -> bool:
    """Whether what is drawn in ``block`` is drawn outside of loops and branches, where it can be kept."""
    return all(
        op.name == "effect" or not _draws(op) or ("checkpoint" in op.attrs and _keeps_draws(op.regions[0]))
        for op in block.ops
    )


class _Exports:
    """The Values that leave a block, and how to make the objects that hold them from the results of its operation."""

    def __init__(self, stage: Stage, birth: int):
        self.stage = stage
        self.birth = birth
        self.values: list[Value] = []

    def _add(self, value: Value) -> Callable[[Sequence[Value]], Value]:
        self.values.append(value)
        k = len(self.values) - 1
        return lambda results: results[k]

    def export(self, x: Any) -> Callable[[Sequence[Value]], Any]:
        if isinstance(x, Value):
            return self._add(x)
        if isinstance(x, Scalar):
            number = self._add(x.value)
            return lambda results: Scalar(number(results), x.weak)
        if isinstance(x, Array):
            return self._array(x)
        if not contains_symbolic(x):
            return lambda results: x
        if type(x) is tuple or hasattr(x, "_fields"):
            items = [self.export(y) for y in x]
            make = type(x)._make if hasattr(x, "_fields") else tuple
            return lambda results: make([item(results) for item in items])
        if self.stage.heap.birth(x) < self.birth:
            return lambda results: x  # its own slots are written
        return self._container(x)

    def _array(self, x: Array) -> Callable[[Sequence[Value]], Any]:
        if x.cell.birth < self.birth:
            return lambda results: x
        if x.views:
            elements = self._add(x.value)
            return lambda results: fresh(elements(results), x.contiguous)
        elements = self._add(x.cell.value)

        def whole(results: Sequence[Value]) -> Array:
            self.stage.heap.write(Slot("cell", x.cell), elements(results))
            return x

        return whole

    def _container(self, x: Any) -> Callable[[Sequence[Value]], Any]:
        """A list, dict or object made in the block: its items are replaced."""
        if isinstance(x, Symbolic):
            raise _CannotExport
        if type(x) is list:
            items = [self.export(y) for y in x]

            def refill(results: Sequence[Value]) -> Any:
                self.stage.heap.write(Slot("list", x), [item(results) for item in items])
                return x

            return refill
        kind, fields = ("key", x) if type(x) is dict else ("attr", getattr(x, "__dict__", None))
        if fields is None or callable(x):
            raise _CannotExport
        parts = {k: self.export(y) for k, y in fields.items()}

        def update(results: Sequence[Value]) -> Any:
            for k, part in parts.items():
                self.stage.heap.write(Slot(kind, x, k), part(results))
            return x

        return update


# ---- values without a derivative ------------------------------------------------------------------------------------


def detached(x: Any) -> Any:
    """A copy of ``x`` with every float in it made a constant of the derivative."""
    leaves, structure = tree.flatten(x)
    return tree.unflatten(structure, [_detached_leaf(leaf) for leaf in leaves])


def _detached_leaf(x: Any) -> Any:
    if not isinstance(x, Scalar | Array):
        return x
    value = x.value
    if value.type.inexact and not isinstance(value, Const):
        value = ir.emit("detach", value)
    return fresh(value) if isinstance(x, Array) else Scalar(value, x.weak)


class Ignoring:
    """A ``with ignore_derivatives()`` block that is being staged or recorded."""

    def __init__(self, stage: Stage, manager: Any):
        self.manager = manager
        self.stage = stage
        self.block = stage.builder.block
        self.start = len(self.block.ops)

    def leave(self) -> None:
        """Let what was emitted inside compute with constants, so that none of it carries a derivative."""
        inside = Block((), self.block.ops[self.start :])
        del self.block.ops[self.start :]
        outside = [v for v in free_values(inside) if isinstance(v.type, ArrayType) and v.type.inexact]
        replace_values(inside, {v: ir.emit("detach", v) for v in outside})
        rewrite_ops(inside, _detach_elements)
        self.block.ops += inside.ops


def _detach_elements(op: Op) -> list[Op] | None:
    """Elements that are read from a sequence, which itself has no constant version."""
    if op.name not in ("seq_get", "seq_pop", "seq_stack") or not op.results[-1].type.inexact:
        return None
    old = op.results[-1]
    constant = Op("detach", [Value(old.type, old.name, op)], {}, (), (), op.loc)
    op.results[-1] = constant.args[0]
    constant.results, old.op = [old], constant
    return [op, constant]
