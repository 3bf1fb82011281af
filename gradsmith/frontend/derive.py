"""Derivatives of staged functions: a call staged as a block of its own, and its derivative emitted in place of the call.

These run at the top of a staging and inside it alike, so derivatives nest: ``grad`` inside a function that is differentiated.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradsmith import tree
from gradsmith.errors import NotDifferentiable, UnsupportedCode
from gradsmith.frontend import indexing
from gradsmith.frontend import stage as st
from gradsmith.frontend.calls import enter
from gradsmith.frontend.stage import NeedConcrete, Stage
from gradsmith.frontend.values import Array, Scalar, fresh, is_number, is_weak, next_birth
from gradsmith.ir import builder as ir
from gradsmith.ir.ops import ELEMENTWISE
from gradsmith.ir.program import Block, Const, Input, Output, Program, Value, copy_block
from gradsmith.ir.types import ArrayType
from gradsmith.transforms.forward import jvp, jvps
from gradsmith.transforms.reverse import vjp
from gradsmith.transforms.simplify import simplify


class Leaves:
    """The differentiable leaves of chosen arguments of a call."""

    def __init__(self, args: Sequence[Any], kwargs: dict[str, Any], names: Sequence[int | str], f: Any = None):
        self.args = list(args)
        self.kwargs = dict(kwargs)
        self.names = [n if n in kwargs or isinstance(n, int) else _position(f, n) for n in names]
        self.trees: list[tuple[list[Any], tree.Tree]] = []
        self.chosen: list[tuple[int, int]] = []  # (which argument, which leaf of it)
        for n, name in enumerate(self.names):
            leaves, structure = tree.flatten(self._argument(name))
            self.trees.append((leaves, structure))
            for k, leaf in enumerate(leaves):
                if _is_inexact(leaf):
                    self.chosen.append((n, k))
                elif tree.is_leaf(structure):
                    raise NotDifferentiable(f"{self._label(name)} is {_say(leaf)}: {_advice(leaf)}")
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
        """For every chosen argument its structure with ``new`` for the chosen leaves and None for the others."""
        return self._rebuilt(new, keep=False)

    def _rebuilt(self, new: Sequence[Any], keep: bool) -> list[Any]:
        parts = [list(leaves) if keep else [None] * len(leaves) for leaves, _ in self.trees]
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


def _is_inexact(x: Any) -> bool:
    return (is_number(x) or isinstance(x, Array | np.ndarray)) and st.as_value(x).type.inexact


def _say(x: Any) -> str:
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
        self.inputs = []
        for param, arg in zip(params, self.args, strict=True):
            stage.data.add(param)
            units: tuple[bool, ...] = ()
            if stage.peekable(arg):
                found = stage.known[param] = stage.peek(arg)
                units = tuple(n == 1 for n in np.shape(found))
            self.inputs.append(Input("array", units))
        mark = stage.heap.mark()
        with stage.builder.region(params) as block:
            self.result = self._call(f, chosen, stand_ins)
            self.leaves, self.structure = tree.flatten(self.result)
            self.symbolic = [k for k, x in enumerate(self.leaves) if isinstance(x, Scalar | Array)]
            block.results = [self.leaves[k].value for k in self.symbolic]
        stage.heap.rollback(mark)  # a derivative leaves its arguments as they are
        self.block = simplified(block, self.inputs)

    def _call(self, f: Any, chosen: Leaves, stand_ins: list[Any]) -> Any:
        stage = self.stage
        point, birth = stage.checkpoint(), next_birth()
        args, kwargs = chosen.replaced(stand_ins)
        result = enter(stage, f, args, kwargs)
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
    sub = Sub(stage, f, chosen)
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
    return value, [_cotangent(g, a, x) for g, a, x in zip(grads, sub.args, chosen.leaves, strict=True)], aux


def _cotangent(g: Value | None, arg: Value, like: Any) -> Any:
    if g is None:
        return stand_in(ir.zeros_like(arg), like)
    for n, m in zip(ir.shape(g), ir.shape(arg), strict=True):
        # true unless an operation of the function that the gradient does not need would have raised
        same = Scalar(ir.elementwise("eq", n, m), weak=True)
        st.current().check(same, ValueError, "shapes of operands do not fit together: lengths {} and {}", Scalar(n, True), Scalar(m, True))
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
        raise NotDifferentiable(f"{name} returned {_say(y)}; grad needs a real number (has_aux=True returns more than one)")
    kind = st.as_value(y).dtype.kind
    if kind == "c":
        raise NotDifferentiable(
            f"{name} returned a complex number; grad needs a real one: return its real part or abs(z)**2, or use "
            "derivative(f, holomorphic=True), jacobian or vjp"
        )
    if kind != "f":
        raise NotDifferentiable(f"{name} returned {_say(y)}; grad needs a real (float) number")


# ---- jvp, vjp -------------------------------------------------------------------------------------------------------


def matching_leaves(what: str, structure: tree.Tree, likes: Sequence[Any], given: Any) -> list[Any]:
    """Leaves of ``given`` (keys of dicts in any order), which must have the structure of ``likes``."""
    tree.flatten(given)  # registers classes
    try:
        return structure.flatten_up_to(given)
    except ValueError:
        found = tree.flatten(given)[1]
        raise TypeError(f"{what} must have the structure of what they belong to: {structure}, not {found}") from None


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
        stage.check(Scalar(ir.elementwise("eq", n, m), weak=True), ValueError, f"{what} of length {{}} for a value of length {{}}", Scalar(n, True), Scalar(m, True))
    return ir.cast(given, value.dtype)


def pullback(stage: Stage, f: Any, primals: Sequence[Any], cotangents: Any) -> tuple[Any, ...]:
    """Cotangents of the primals for cotangents of the result."""
    chosen = Leaves(primals, {}, range(len(primals)))
    sub = Sub(stage, f, chosen)
    given = matching_leaves("cotangents", sub.structure, sub.leaves, cotangents)
    results, back = sub.vjp()
    seeds = [_like(given[k], r, "cotangent") if r.type.inexact else None for k, r in zip(sub.symbolic, results, strict=True)]
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
    if not _is_inexact(x):
        raise NotDifferentiable(f"argument 0 is {_say(x)}: {_advice(x)}")
    value = st.as_value(x)
    if value.dtype.kind == "c" and not holomorphic:
        raise NotDifferentiable("derivative of a complex number: say derivative(f, holomorphic=True) if f is holomorphic")
    if not isinstance(x, Array) or x.ndim == 0:
        like = x if not isinstance(x, Array) else Scalar(value, weak=False)
        tangent = _scalar_derivative(stage, f, like)
        return fresh(tangent) if isinstance(x, Array) else stand_in(tangent, x)
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
        raise NotDifferentiable(f"derivative needs a function from number to number; it returned {_say(y)}; use jacobian or jvp")
    zero = ir.const_like(0, sub.args[0])
    if not sub.symbolic:
        return zero
    results, out = sub.jvp([ir.const_like(1, sub.args[0])])
    if not results[0].type.inexact:
        raise NotDifferentiable(f"the function returned {_say(y)}, which has no derivative")
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


# ---- Jacobians ------------------------------------------------------------------------------------------------------


def jacobian(stage: Stage, f: Any, chosen: Leaves, mode: str, single: bool, chunk_size: int | None = None) -> Any:
    """For every leaf of the result the structure of the chosen arguments, each leaf of shape result.shape + argument.shape."""
    sub = Sub(stage, f, chosen)
    name = getattr(f, "__name__", "the function")
    if sub.result is None:
        raise NotDifferentiable(f"{name} returned None, which has no derivative (is a return missing?)")
    for leaf in sub.leaves:
        if not _is_inexact(leaf):
            raise NotDifferentiable(f"{name} returned {_say(leaf)}, which has no derivative")
    if mode == "auto":
        mode = _choose_mode(stage, sub)
    if any(map(stage.acts, sub.block.ops)):
        mode = "reverse"  # forward mode would print and draw once for each column
    rows = _forward_jacobian(stage, sub, chunk_size) if mode == "forward" else _reverse_jacobian(stage, sub)
    leaves: list[Any] = []
    for k, leaf in enumerate(sub.leaves):
        if k in sub.symbolic:
            parts = [number_like(v, leaf, x) for v, x in zip(rows[sub.symbolic.index(k)], chosen.leaves, strict=True)]
        else:
            parts = [number_like(ir.zeros_like(a), leaf, x) for a, x in zip(sub.args, chosen.leaves, strict=True)]
        structured = chosen.structured(parts)
        leaves.append(structured[0] if single else tuple(structured))
    return tree.unflatten(sub.structure, leaves)


def number_like(value: Value, result: Any, argument: Any) -> Any:
    """An entry of a Jacobian: a number only if both sides are numbers."""
    if value.ndim:
        return fresh(value)
    arrays = isinstance(result, Array) or isinstance(argument, Array | np.ndarray)
    return fresh(value) if arrays else Scalar(value, is_weak(argument))


def _choose_mode(stage: Stage, sub: Sub) -> str:
    """Forward with no more inputs than outputs, else reverse, by the sizes in this call."""
    try:
        inputs = sum(np.size(stage.peek(a)) for a in sub.args)
        outputs = sum(_peek_size(stage, r) for r in sub.block.results)
    except NeedConcrete:
        return "reverse" if all(r.ndim == 0 for r in sub.block.results) else "forward"
    return "forward" if inputs <= outputs else "reverse"


def _peek_size(stage: Stage, result: Value) -> int:
    """The size of a result, from the shapes of the arguments where they determine it."""
    with stage.builder.region():
        dims = ir.shape(result)
        return int(np.prod([int(stage.peek(n)) for n in dims], dtype=np.int64))


def _size(dims: Sequence[Value]) -> Value:
    size: Value = ir.i64(1)
    for n in dims:
        size = n if isinstance(size, Const) else ir.elementwise("mul", size, n)
    return size


def _one_hot(value: Value, k: Value) -> Value:
    """The k-th unit vector in the shape of ``value``."""
    if value.ndim == 0:
        return ir.const_like(1, value)
    dims = ir.shape(value)
    flat = ir.set_at(ir.full(0, [_size(dims)], value.dtype), ir.const_like(1, value), ["i"], [k], checked=True)
    return flat if value.ndim == 1 else ir.reshape(flat, dims)


def _rows(stage: Stage, along: Value, targets: Sequence[Value], rows: Any, chunk: int = 1) -> list[Value]:
    """The rows for the elements of ``along``, stacked: for each target an array of shape (size of along, *target.shape).

    ``rows(ks)`` gives, for each of ``chunk`` element numbers, what belongs to the targets.
    """
    if along.ndim == 0:
        (row,) = rows([ir.i64(0)])
        return [ir.zeros_like(t) if v is None else v for v, t in zip(row, targets, strict=True)]
    size = _size(ir.shape(along))
    start = [ir.full(0, [size, *ir.shape(t)], t.dtype) for t in targets]
    index, carried = Value(ir.I64, "k"), [Value(s.type, "J") for s in start]
    with stage.builder.region([index, *carried]) as body:
        # a chunk that is not full does its last row several times
        ks = [ir.elementwise("minimum", index + c, size - 1) if c else index for c in range(chunk)]
        stacked: list[Value] = list(carried)
        for k, row in zip(ks, rows(ks), strict=True):
            stacked = [
                c if v is None else ir.set_at(c, v, ["i"] + [":"] * v.ndim, [k], checked=True)
                for c, v in zip(stacked, row, strict=True)
            ]
        body.results = stacked
    return stage.builder.emit_control("for", [ir.i64(0), size, ir.i64(chunk), *start], [body]).results


#: so many directions share one evaluation of the function in forward mode, and so many operations at most are made of it
_LARGEST_CHUNK, _CHUNK_OPERATIONS = 8, 1500


def _chunk_size(stage: Stage, sub: Sub, arg: Value) -> int:
    """How many columns to compute at once: one unless there are loops, which are run again for every chunk."""
    ops = list(sub.block.walk())
    if not any(op.name in ("for", "while") for op in ops):
        return 1
    largest = max(1, min(_LARGEST_CHUNK, _CHUNK_OPERATIONS // len(ops)))
    try:
        size = max(1, int(np.size(stage.peek(arg))))
    except NeedConcrete:
        return largest
    return -(-size // -(-size // largest))


def _forward_jacobian(stage: Stage, sub: Sub, chunk_size: int | None) -> list[list[Value]]:
    primal = sub.emit_primal()
    columns = []
    for j, arg in enumerate(sub.args):

        def rows(ks: Sequence[Value], j: int = j, arg: Value = arg) -> list[list[Value | None]]:
            seeds: list[list[Value | None]] = [[None] * len(sub.args) for _ in ks]
            for seed, k in zip(seeds, ks, strict=True):
                seed[j] = _one_hot(arg, k)
            return sub.jvps(seeds)[1]

        chunk = 1 if arg.ndim == 0 else chunk_size or _chunk_size(stage, sub, arg)
        stacked = _rows(stage, arg, primal, rows, chunk)
        columns.append([_moved(s, arg, y, first_is_input=True) for s, y in zip(stacked, primal, strict=True)])
    return [[column[i] for column in columns] for i in range(len(primal))]


def _reverse_jacobian(stage: Stage, sub: Sub) -> list[list[Value]]:
    results, back = sub.vjp()
    out = []
    for i, y in enumerate(results):

        def rows(ks: Sequence[Value], i: int = i, y: Value = y) -> list[list[Value | None]]:
            seeds: list[Value | None] = [None] * len(results)
            seeds[i] = _one_hot(y, ks[0])
            return [back(seeds)]

        stacked = _rows(stage, y, sub.args, rows)
        out.append([_moved(s, y, a, first_is_input=False) for s, a in zip(stacked, sub.args, strict=True)])
    return out


def _moved(stacked: Value, along: Value, target: Value, first_is_input: bool) -> Value:
    """Rows stacked along a flat first axis as an array of shape result.shape + argument.shape."""
    if along.ndim == 0:
        return stacked
    if along.ndim > 1:
        stacked = ir.reshape(stacked, [*ir.shape(along), *ir.shape(target)])
    if not first_is_input:
        return stacked
    a, t = along.ndim, target.ndim
    return ir.transpose(stacked, [*range(a, a + t), *range(a)])


# ---- vmap -----------------------------------------------------------------------------------------------------------


def vmap(stage: Stage, f: Any, args: Sequence[Any], axes: Sequence[int | None], out_axis: int) -> Any:
    """``f`` for every entry along an axis of the arguments, as one loop; results stacked along ``out_axis``."""
    leaves, structure, mapped = _mapped_leaves(args, axes)
    arrays = [(k, axis) for k, axis in enumerate(mapped) if axis is not None]
    length = _common_length(stage, [(leaves[k].value, axis) for k, axis in arrays])

    def entry(k: int, axis: int, i: Value) -> Value:
        spec: list[Any] = [":"] * leaves[k].ndim
        spec[axis] = "i"
        return ir.index(leaves[k].value, spec, [i], checked=True)

    params = [Value(leaves[k].value.type.with_ndim(leaves[k].ndim - 1), leaves[k].value.name) for k, _ in arrays]
    stand_ins = list(leaves)
    for (k, _), p in zip(arrays, params, strict=True):
        stand_ins[k] = fresh(p) if p.ndim else Scalar(p, weak=False)
        stage.data.add(p)
    mark = stage.heap.mark()
    with stage.builder.region(params) as block:
        result = enter(stage, f, tree.unflatten(structure, stand_ins), {})
        out_leaves, out_structure = tree.flatten(result)
        block.results = [st.as_value(x) for x in out_leaves]
    stage.heap.rollback(mark)
    start = [ir.full(0, [length, *dims], y.dtype) for dims, y in zip(_result_dims(stage, block, arrays, entry), block.results, strict=True)]
    index, carried = Value(ir.I64, "i"), [Value(s.type, "out") for s in start]
    with stage.builder.region([index, *carried]) as body:
        ys = stage.builder.inline(block, [entry(k, axis, index) for k, axis in arrays])
        body.results = [ir.set_at(c, y, ["i"] + [":"] * y.ndim, [index], checked=True) for c, y in zip(carried, ys, strict=True)]
    loop = stage.builder.emit_control("for", [ir.i64(0), length, ir.i64(1), *start], [body])
    return tree.unflatten(out_structure, [fresh(_moved_axis(r, out_axis)) for r in loop.results])


def _mapped_leaves(args: Sequence[Any], axes: Sequence[int | None]) -> tuple[list[Any], tree.Tree, list[int | None]]:
    leaves, structure = tree.flatten(tuple(args))
    mapped: list[int | None] = []
    for axis, arg in zip(axes, args, strict=True):
        for leaf in tree.flatten(arg)[0]:
            if axis is None:
                mapped.append(None)
                continue
            ndim = st.as_value(leaf).ndim
            if not -ndim <= axis < ndim:
                raise ValueError(f"vmap over axis {axis} of an argument with {ndim} dimensions")
            mapped.append(axis % ndim)
    if all(axis is None for axis in mapped):
        raise ValueError("vmap needs at least one argument with an axis to map over")
    return [x if m is None else fresh(st.as_value(x)) for x, m in zip(leaves, mapped, strict=True)], structure, mapped


def _common_length(stage: Stage, arrays: Sequence[tuple[Value, int]]) -> Value:
    lengths = [ir.shape(value)[axis] for value, axis in arrays]
    for other in lengths[1:]:
        same = Scalar(ir.elementwise("eq", other, lengths[0]), weak=True)
        stage.check(same, ValueError, "vmap over axes of different lengths {} and {}", Scalar(lengths[0], True), Scalar(other, True))
    return lengths[0]


def _result_dims(stage: Stage, block: Block, arrays: Sequence[tuple[int, int]], entry: Any) -> list[list[Value]]:
    """The shape of every result of one entry, from the shapes of the arguments where they determine it."""
    mapping: dict[Value, Value] = {}
    copied = copy_block(block, mapping)
    with stage.reopen(copied):
        dims = [ir.shape(y) for y in copied.results]
    counts = [len(d) for d in dims]
    copied.results = [n for d in dims for n in d]
    copied = simplified(copied, [Input("array", (False,) * p.ndim) for p in copied.params])
    found = iter(stage.builder.inline(copied, [entry(k, axis, ir.i64(0)) for k, axis in arrays]))
    return [[next(found) for _ in range(count)] for count in counts]


def _moved_axis(x: Value, out_axis: int) -> Value:
    """The first axis moved to ``out_axis``."""
    at = out_axis % x.ndim
    perm = list(range(1, x.ndim))
    perm.insert(at, 0)
    return ir.transpose(x, perm)
