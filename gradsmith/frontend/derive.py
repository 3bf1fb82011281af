"""Derivatives of staged functions: a call staged as a block of its own, and its derivative emitted in place of the call.

These run at the top of a staging and inside it alike, so derivatives nest: ``grad`` inside a function that is differentiated.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from gradsmith import tree
from gradsmith.errors import NotDifferentiable, UnsupportedCode
from gradsmith.frontend import catching, indexing, recording
from gradsmith.frontend import stage as st
from gradsmith.frontend.calls import enter
from gradsmith.frontend.stage import Stage
from gradsmith.frontend.values import Array, Scalar, Symbolic, fresh, is_number, is_weak, next_birth, share
from gradsmith.ir import builder as ir
from gradsmith.ir.ops import ELEMENTWISE
from gradsmith.ir.program import Block, Input, Output, Program, Value
from gradsmith.ir.types import ArrayType
from gradsmith.transforms.forward import jvp, jvps
from gradsmith.transforms.removable import see_through
from gradsmith.transforms.reverse import vjp
from gradsmith.transforms.simplify import simplify


class Leaves:
    """The differentiable leaves of chosen arguments of a call."""

    def __init__(self, args: Sequence[Any], kwargs: dict[str, Any], names: Sequence[int | str], f: Any = None):
        self.args = list(args)
        self.kwargs = dict(kwargs)
        self.names = [n if n in kwargs or isinstance(n, int) else _position(f, n) for n in names]
        self.names = [n % len(args) if isinstance(n, int) and -len(args) <= n < 0 else n for n in self.names]
        if len(set(self.names)) < len(self.names):
            raise NotDifferentiable(f"argnums={tuple(names)} names an argument twice")
        self.trees: list[tuple[list[Any], tree.Tree]] = []
        self.chosen: list[tuple[int, int]] = []  # (which argument, which leaf of it)
        for n, name in enumerate(self.names):
            leaves, structure = tree.flatten(self._argument(name))
            self.trees.append((leaves, structure))
            for k, leaf in enumerate(leaves):
                if is_inexact(leaf):
                    self.chosen.append((n, k))
                elif tree.is_leaf(structure):
                    raise NotDifferentiable(f"{self._label(name)} is {say(leaf)}: {_advice(leaf)}")
            if not any(m == n for m, _ in self.chosen):
                raise NotDifferentiable(f"{self._label(name)} has no float or complex number or array in it")

    def _argument(self, name: int | str) -> Any:
        if isinstance(name, str):
            return self.kwargs[name]
        try:
            return self.args[name]
        except IndexError:
            raise NotDifferentiable(f"argnums={name}, but the call has {len(self.args)} positional arguments") from None

    @staticmethod
    def _label(name: int | str) -> str:
        return f"argument {name!r}" if isinstance(name, str) else f"argument {name}"

    @property
    def leaves(self) -> list[Any]:
        return [self.trees[n][0][k] for n, k in self.chosen]

    def replaced(self, new: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments with the chosen leaves replaced."""
        args, kwargs = list(self.args), dict(self.kwargs)
        for name, value in zip(self.names, self._rebuilt(new, keep=True), strict=True):
            if isinstance(name, str):
                kwargs[name] = value
            else:
                args[name] = value
        return args, kwargs

    def structured(self, new: Sequence[Any]) -> list[Any]:
        """For every chosen argument its structure with ``new`` for the chosen leaves; see :func:`without_derivative`."""
        return self._rebuilt(new, keep=False)

    def _rebuilt(self, new: Sequence[Any], keep: bool) -> list[Any]:
        parts = [list(leaves if keep else map(without_derivative, leaves)) for leaves, _ in self.trees]
        for (n, k), value in zip(self.chosen, new, strict=True):
            parts[n][k] = value
        return [tree.unflatten(structure, part) for (_, structure), part in zip(self.trees, parts, strict=True)]


def _position(f: Any, name: str) -> int:
    """The position of the parameter ``name`` of ``f``, which was not passed by keyword."""
    try:
        parameters = list(inspect.signature(f).parameters)
    except (TypeError, ValueError):
        parameters = []
    if name not in parameters:
        raise NotDifferentiable(f"no argument named {name!r}; argnums names arguments by position or by name")
    return parameters.index(name)


def without_derivative(leaf: Any) -> Any:
    """What a gradient holds in place of a leaf that has none: None for a number, the leaf for a name, a function, a layer."""
    return None if is_number(leaf) or isinstance(leaf, Symbolic | np.ndarray) else leaf


def is_inexact(x: Any) -> bool:
    return (is_number(x) or isinstance(x, Array | np.ndarray)) and st.as_value(x).type.inexact


def say(x: Any) -> str:
    if isinstance(x, Scalar):
        return f"a number of type {x.python_type.__name__}"
    if isinstance(x, Array | np.ndarray):
        return f"an array of dtype {x.dtype}"
    return f"of type {type(x).__name__}"


def _advice(x: Any) -> str:
    if is_number(x) or isinstance(x, Array | np.ndarray):
        return "there is no derivative with respect to integers or bools; pass a float (3.0, or x.astype(float))"
    return "only floats, complex numbers, arrays of them and containers of those can be differentiated"


class Sub:
    """A call staged as a block whose parameters stand for the chosen leaves; other values are free in it."""

    def __init__(self, stage: Stage, f: Any, chosen: Leaves):
        self.stage = stage
        leaves = chosen.leaves
        self.args = [st.as_value(x) for x in leaves]
        params = [Value(v.type, v.name) for v in self.args]
        stand_ins = [stand_in(p, x) for p, x in zip(params, leaves, strict=True)]
        share([x for x, (n, _) in zip(stand_ins, chosen.chosen, strict=True) if not tree.is_leaf(chosen.trees[n][1])])
        self.inputs = []
        for param, arg in zip(params, self.args, strict=True):
            stage.data.add(param)
            units: tuple[bool, ...] = ()
            if stage.peekable(arg):
                found = stage.known[param] = stage.peek(arg)
                units = tuple(n == 1 for n in np.shape(found))
            self.inputs.append(Input("array", units))
        mark = stage.heap.mark()
        try:
            with stage.builder.region(params) as block:
                self.result = self._call(f, chosen, stand_ins)
                self.leaves, self.structure = tree.flatten(self.result)
                self.symbolic = [k for k, x in enumerate(self.leaves) if isinstance(x, Scalar | Array)]
                block.results = [self.leaves[k].value for k in self.symbolic]
        except Exception:
            catching.carry_guard(stage, block, self.args)
            raise
        stage.heap.rollback(mark)  # a derivative leaves its arguments as they are
        see_through(block, params)
        self.block = simplified(block, self.inputs)

    def _call(self, f: Any, chosen: Leaves, stand_ins: list[Any]) -> Any:
        stage = self.stage
        point, birth, loses = stage.checkpoint(), next_birth(), stage.loses_writes
        args, kwargs = chosen.replaced(stand_ins)
        result = enter(stage, f, args, kwargs)
        stage.loses_writes = loses  # a derivative leaves its arguments as they are
        if not any(slot.kind == "cell" and slot.owner.birth < birth for slot in stage.heap.written(point[1])):
            return result
        stage.writes_arguments = True
        ids = [id(x) for x in chosen.leaves]
        others = [id(x) for x in tree.flatten((args, kwargs))[0] if isinstance(x, Array)]
        if set(ids) & set(others):
            raise UnsupportedCode(
                "one array is passed as an argument to differentiate and as another, and the function writes it; pass a copy"
            )
        if len(set(ids)) == len(ids):
            return result
        # one array passed twice and written: both names see the write, so they share one cell (and one gradient)
        stage.restore(point)
        args, kwargs = chosen.replaced([stand_ins[ids.index(i)] for i in ids])
        return enter(stage, f, args, kwargs)

    def emit_primal(self) -> list[Value]:
        return self.stage.builder.inline(self.block, self.args)

    def vjp(self) -> tuple[list[Value], Any]:
        """Results of the block, and their pullback to all chosen leaves."""
        return vjp(self.stage.builder, self.block, self.args, range(len(self.args)), self.inputs)

    def jvp(self, tangents: Sequence[Value | None]) -> tuple[list[Value], list[Value | None]]:
        return jvp(self.stage.builder, self.block, self.args, tangents)

    def jvps(self, directions: Sequence[Sequence[Value | None]]) -> tuple[list[Value], list[list[Value | None]]]:
        """:meth:`jvp` along several directions at once."""
        return jvps(self.stage.builder, self.block, self.args, directions)

    def rebuilt(self, values: Sequence[Value]) -> Any:
        """The result of the call with these Values."""
        return self.with_leaves([stand_in(v, self.leaves[k]) for k, v in zip(self.symbolic, values, strict=True)])

    def with_leaves(self, new: Sequence[Any]) -> Any:
        leaves = list(self.leaves)
        for k, x in zip(self.symbolic, new, strict=True):
            leaves[k] = x
        return tree.unflatten(self.structure, leaves)


def simplified(block: Block, inputs: Sequence[Input]) -> Block:
    """The block simplified; values free in it stay."""
    program = Program("block", block, list(inputs), [Output()] * len(block.results))
    return simplify(program).block


def stand_in(value: Value, like: Any) -> Any:
    """A front-end value of the kind of ``like``."""
    if isinstance(like, Array | np.ndarray):
        return fresh(value, like.contiguous if isinstance(like, Array) else like.flags.c_contiguous)
    return Scalar(value, is_weak(like))


# ---- gradients ------------------------------------------------------------------------------------------------------


def value_and_grad(stage: Stage, f: Any, chosen: Leaves, has_aux: bool) -> tuple[Any, list[Any], Any]:
    """(value, gradients of the chosen leaves, aux)."""
    return value_and_grad_of(stage, f, Sub(stage, f, chosen), chosen.leaves, has_aux)


def value_and_grad_of(
    stage: Stage, f: Any, sub: Sub, wanted: Sequence[Any], has_aux: bool
) -> tuple[Any, list[Any], Any]:
    """(value, gradients of the leaves ``wanted`` that the parameters of ``sub`` stand for, aux)."""
    values_of = sub.result
    if has_aux:
        if not isinstance(sub.result, tuple) or len(sub.result) != 2:
            raise NotDifferentiable("has_aux=True: the function must return a pair (value, aux)")
        values_of = sub.result[0]
    _check_scalar(stage, f, values_of)
    if not isinstance(values_of, Scalar | Array):  # a constant
        results = sub.emit_primal()
        grads: list[Value | None] = [None] * len(sub.args)
    else:
        results, pullback = sub.vjp()
        at = sub.symbolic.index(next(k for k, x in enumerate(sub.leaves) if x is values_of))
        seeds: list[Value | None] = [None] * len(results)
        seeds[at] = ir.const_like(1, results[at])
        grads = pullback(seeds)
    rebuilt = sub.rebuilt(results)
    value, aux = rebuilt if has_aux else (rebuilt, None)
    return value, [_cotangent(g, a, x) for g, a, x in zip(grads, sub.args, wanted, strict=True)], aux


def _cotangent(g: Value | None, arg: Value, like: Any) -> Any:
    if g is None:
        return stand_in(ir.zeros_like(arg), like)
    for n, m in zip(ir.shape(g), ir.shape(arg), strict=True):
        # true unless an operation of the function that the gradient does not need would have raised
        same = Scalar(ir.elementwise("eq", n, m), weak=True)
        st.current().check(
            same,
            ValueError,
            "shapes of operands do not fit together: lengths {} and {}",
            Scalar(n, True),
            Scalar(m, True),
        )
    return stand_in(g, like)


def _check_scalar(stage: Stage, f: Any, y: Any) -> None:
    name = getattr(f, "__name__", "the function")
    if y is None:
        raise NotDifferentiable(f"{name} returned None; grad needs a real number (is a return missing?)")
    if isinstance(y, Array | np.ndarray) and y.ndim:
        raise NotDifferentiable(
            f"{name} returned an array of {y.ndim} dimensions; grad needs a real number. Sum it, take an element (y[0]), "
            "or use jacobian or vjp"
        )
    if not is_number(y) and not isinstance(y, Array):
        raise NotDifferentiable(
            f"{name} returned something {say(y)}; grad needs a real number (has_aux=True returns more than one)"
        )
    kind = st.as_value(y).dtype.kind
    if kind == "c":
        raise NotDifferentiable(
            f"{name} returned a complex number; grad needs a real one: return its real part or abs(z)**2, or use "
            "derivative(f, holomorphic=True), jacobian or vjp"
        )
    if kind != "f":
        found = say(y) if isinstance(y, Scalar | Array | np.ndarray) else f"a number {say(y)}"
        raise NotDifferentiable(f"{name} returned {found}; grad needs a real (float) number")


# ---- jvp, vjp -------------------------------------------------------------------------------------------------------


def matching_leaves(what: str, structure: tree.Tree, likes: Sequence[Any], given: Any) -> list[Any]:
    """Leaves of ``given`` (keys of dicts in any order), which must have the structure of ``likes``."""
    try:
        return tree.flatten_up_to(structure, given)
    except ValueError as error:
        raise TypeError(f"{what} must have the structure of what they belong to: {error}") from None


def pushforward(stage: Stage, f: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """(f(*primals), its derivative along ``tangents``)."""
    chosen = Leaves(primals, {}, range(len(primals)))
    given: list[Any] = []
    for n, tangent in enumerate(tangents):
        leaves = matching_leaves("tangents", chosen.trees[n][1], chosen.trees[n][0], tangent)
        given += [leaves[k] for m, k in chosen.chosen if m == n]
    sub = Sub(stage, f, chosen)
    seeds = [_like(t, a, "tangent") for t, a in zip(given, sub.args, strict=True)]
    results, out = sub.jvp(seeds)
    return sub.rebuilt(results), tangent_result(sub, results, out)


def tangent_result(sub: Sub, results: Sequence[Value], out: Sequence[Value | None]) -> Any:
    tangents = [ir.zeros_like(r) if t is None else t for r, t in zip(results, out, strict=True)]
    leaves: list[Any] = [0.0 if isinstance(x, float) else None for x in sub.leaves]
    for k, t in zip(sub.symbolic, tangents, strict=True):
        leaves[k] = stand_in(t, sub.leaves[k]) if t.type.inexact else None
    return tree.unflatten(sub.structure, leaves)


def _like(x: Any, value: Value, what: str) -> Value:
    """The Value of a tangent or cotangent, with the dtype and number of dimensions of its primal."""
    given = st.as_value(x)
    if given.ndim != value.ndim:
        raise ValueError(f"a {what} of {given.ndim} dimensions for a value of {value.ndim} dimensions")
    if not np.can_cast(given.dtype, value.dtype, "same_kind"):
        raise TypeError(f"a {what} of dtype {given.dtype} for a value of dtype {value.dtype}")
    stage = st.current()
    for n, m in zip(ir.shape(given), ir.shape(value), strict=True):
        stage.check(
            Scalar(ir.elementwise("eq", n, m), weak=True),
            ValueError,
            f"{what} of length {{}} for a value of length {{}}",
            Scalar(n, True),
            Scalar(m, True),
        )
    return ir.cast(given, value.dtype)


def pullback(stage: Stage, f: Any, primals: Sequence[Any], cotangents: Any) -> tuple[Any, ...]:
    """Cotangents of the primals for cotangents of the result."""
    chosen = Leaves(primals, {}, range(len(primals)))
    sub = Sub(stage, f, chosen)
    given = matching_leaves("cotangents", sub.structure, sub.leaves, cotangents)
    results, back = sub.vjp()
    seeds = [
        _like(given[k], r, "cotangent") if r.type.inexact else None for k, r in zip(sub.symbolic, results, strict=True)
    ]
    grads = back(seeds)
    new = [_cotangent(g, a, x) for g, a, x in zip(grads, sub.args, chosen.leaves, strict=True)]
    return tuple(chosen.structured(new))


# ---- results in given arrays -------------------------------------------------------------------------------------------


def write_result(stage: Stage, result: Any, out: Any) -> Any:
    """Write the arrays of ``result`` to those of ``out``, which has its structure; returns ``out``, with numbers filled in."""
    leaves, structure = tree.flatten(result)
    places = matching_leaves("out", structure, leaves, out)
    filled = [x if place is None else _written(stage, place, x) for place, x in zip(places, leaves, strict=True)]
    return out if all(isinstance(p, Array | np.ndarray) for p in places) else tree.unflatten(structure, filled)


def _written(stage: Stage, place: Any, x: Any) -> Any:
    """The array ``place`` with the elements of ``x``, which has its shape."""
    if not isinstance(place, Array | np.ndarray):
        return x
    target = stage.wrap(place)
    value = st.as_value(x)
    if target.ndim != value.ndim:
        raise ValueError(f"out: an array of {target.ndim} dimensions for a result of {value.ndim} dimensions")
    for n, m in zip(ir.shape(target.value), ir.shape(value), strict=True):
        same = Scalar(ir.elementwise("eq", n, m), weak=True)
        message = "out: an array of length {} for a result of length {}"
        stage.check(same, ValueError, message, Scalar(n, True), Scalar(m, True))
    indexing.setitem(target, Ellipsis, x)
    return place


# ---- derivative of a function of one number -------------------------------------------------------------------------


def elementwise_derivative(stage: Stage, f: Any, x: Any, holomorphic: bool) -> Any:
    """f′(x) for a number; for an array f′ at every element."""
    if not is_inexact(x):
        raise NotDifferentiable(f"argument 0 is {say(x)}: {_advice(x)}")
    value = st.as_value(x)
    if value.dtype.kind == "c" and not holomorphic:
        raise NotDifferentiable(
            "derivative of a complex number: say derivative(f, holomorphic=True) if f is holomorphic"
        )
    if not isinstance(x, Array) or x.ndim == 0:
        like = x if not isinstance(x, Array) else Scalar(value, weak=False)
        tangent = _scalar_derivative(stage, f, like)
        return fresh(tangent) if isinstance(x, Array) else stand_in(tangent, x)
    if stage.engine == "tape":
        loop, every = partial(_looped_derivative, stage, f, value), partial(_derivatives, stage, f, value)
        return recording.first_possible(stage, loop, every)
    return _looped_derivative(stage, f, value)


def _derivatives(stage: Stage, f: Any, x: Value) -> Any:
    """f′ of every element, one after the other: for a recorded function that branches."""
    dims = ir.shape(x)
    lengths = [int(stage.concrete(st.integer(n))) for n in dims]
    places = np.ndindex(*lengths)
    tangents = [_scalar_derivative(stage, f, Scalar(ir.index(x, ["i"] * x.ndim, k), weak=False)) for k in places]
    return fresh(ir.reshape(stacked(tangents) if tangents else x, dims))


def stacked(values: Sequence[Value]) -> Value:
    """The values along a new first axis."""
    return ir.emit("concatenate", *(ir.index(v, ["n"] + [":"] * v.ndim) for v in values), axis=0)


def _looped_derivative(stage: Stage, f: Any, value: Value) -> Any:
    element = Value(ArrayType(value.dtype), value.name)
    stage.data.add(element)
    with stage.builder.region([element]) as block:
        block.results = [_scalar_derivative(stage, f, Scalar(element, weak=False))]
    block = simplified(block, [Input("np")])
    if all(op.name in ELEMENTWISE for op in block.ops):
        # no control flow: every operation serves the whole array at once
        out = _broadcast_block(block, value)
        return fresh(out if out.ndim else ir.broadcast_to(out, ir.shape(value)))
    return fresh(_mapped(stage, block, value))


def _scalar_derivative(stage: Stage, f: Any, x: Any) -> Value:
    sub = Sub(stage, f, Leaves([x], {}, [0]))
    y = sub.result
    if isinstance(y, Array) and y.ndim or not (is_number(y) or isinstance(y, Array)):
        raise NotDifferentiable(
            f"derivative needs a function from number to number; it returned {say(y)}; use jacobian or jvp"
        )
    zero = ir.const_like(0, sub.args[0])
    if not sub.symbolic:
        return zero
    results, out = sub.jvp([ir.const_like(1, sub.args[0])])
    if not results[0].type.inexact:
        raise NotDifferentiable(f"the function returned {say(y)}, which has no derivative")
    return zero if out[0] is None else out[0]


def _broadcast_block(block: Block, x: Value) -> Value:
    mapping: dict[Value, Value] = {block.params[0]: x}
    for op in block.ops:
        args = [mapping.get(a, a) for a in op.args]
        new = ir.current().emit(op.name, args, op.result.name, **op.attrs)
        mapping[op.result] = new
    return mapping.get(block.results[0], block.results[0])


def _mapped(stage: Stage, block: Block, x: Value) -> Value:
    """The block run for every element of x."""
    dims = ir.shape(x)
    size: Value = ir.i64(1)
    for n in dims:
        size = ir.elementwise("mul", size, n)
    flat = ir.reshape(x, [size])
    start = ir.full(0, [size], block.results[0].dtype)
    index, carried = Value(ir.I64, "i"), Value(start.type, "out")
    with stage.builder.region([index, carried]) as body:
        (y,) = stage.builder.inline(block, [ir.index(flat, ["i"], [index])])
        body.results = [ir.set_at(carried, y, ["i"], [index])]
    loop = stage.builder.emit_control("for", [ir.i64(0), size, ir.i64(1), start], [body])
    return ir.reshape(loop.result, dims)
