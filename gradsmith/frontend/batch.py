"""``vmap``: a staged function run for every entry along an axis of its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from gradsmith import tree
from gradsmith.errors import UnsupportedCode
from gradsmith.frontend import recording
from gradsmith.frontend import stage as st
from gradsmith.frontend.calls import enter
from gradsmith.frontend.derive import simplified, stacked
from gradsmith.frontend.stage import Stage
from gradsmith.frontend.values import Array, Scalar, fresh, is_number
from gradsmith.ir import builder as ir
from gradsmith.ir.program import Block, Input, Value, copy_block, free_values

#: an axis, None, or a structure of them that an argument or a result begins with
Axes = Any


def vmap(
    stage: Stage, f: Any, args: Sequence[Any], kwargs: dict[str, Any], axes: Sequence[Axes], out_axes: Axes
) -> Any:
    """``f`` for every entry along an axis of the arguments, as one loop; results stacked along ``out_axes``."""
    leaves, structure, mapped = _mapped_leaves((*args, kwargs), axes)
    arrays = [(k, axis) for k, axis in enumerate(mapped) if axis is not None]
    length = _common_length(stage, [(leaves[k].value, axis) for k, axis in arrays])
    if stage.engine == "tape":
        loop = partial(_looped, stage, f, leaves, structure, arrays, length, out_axes)
        every = partial(_unrolled, stage, f, leaves, structure, arrays, length, out_axes)
        return recording.first_possible(stage, loop, every)
    return _looped(stage, f, leaves, structure, arrays, length, out_axes)


def _call(stage: Stage, f: Any, arguments: Sequence[Any]) -> tuple[list[Any], tree.Tree]:
    """Leaves and structure of what ``f`` returns for arguments of which the last are those passed by name."""
    *args, kwargs = arguments
    return tree.flatten(enter(stage, f, args, kwargs))


def _unrolled(
    stage: Stage, f: Any, leaves: list[Any], structure: Any, arrays: Any, length: Value, out_axes: Axes
) -> Any:
    """One entry after the other: for a recorded function that branches."""
    rows, out, out_structure = list[list[Value]](), list[Any](), None
    for i in range(int(stage.concrete(st.integer(length)))):
        entries = list(leaves)
        for k, axis in arrays:
            value = ir.index(leaves[k].value, [":"] * axis + ["i"] + [":"] * (leaves[k].ndim - axis - 1), [i])
            entries[k] = fresh(value) if value.ndim else Scalar(value, weak=False)
        out, out_structure = _call(stage, f, tree.unflatten(structure, entries))
        rows.append([st.as_value(x) for x in filter(_is_numeric, out)])
    if out_structure is None:
        raise UnsupportedCode("vmap over an axis of length zero of a function that Python runs")
    return _result(out_structure, out, [stacked(column) for column in zip(*rows, strict=True)], out_axes)


def _looped(stage: Stage, f: Any, leaves: list[Any], structure: Any, arrays: Any, length: Value, out_axes: Axes) -> Any:
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
        out_leaves, out_structure = _call(stage, f, tree.unflatten(structure, stand_ins))
        block.results = [st.as_value(x) for x in filter(_is_numeric, out_leaves)]
    stage.heap.rollback(mark)
    start = [
        ir.full(0, [length, *dims], y.dtype)
        for dims, y in zip(_result_dims(stage, block, arrays, entry), block.results, strict=True)
    ]
    index, carried = Value(ir.I64, "i"), [Value(s.type, "out") for s in start]
    with stage.builder.region([index, *carried]) as body:
        ys = stage.builder.inline(block, [entry(k, axis, index) for k, axis in arrays])
        body.results = [
            ir.set_at(c, y, ["i"] + [":"] * y.ndim, [index], checked=True) for c, y in zip(carried, ys, strict=True)
        ]
    loop = stage.builder.emit_control("for", [ir.i64(0), length, ir.i64(1), *start], [body])
    return _result(out_structure, out_leaves, loop.results, out_axes)


def _is_numeric(leaf: Any) -> bool:
    return is_number(leaf) or isinstance(leaf, Array | np.ndarray)


def _result(structure: tree.Tree, leaves: Sequence[Any], stacks: Sequence[Value], out_axes: Axes) -> Any:
    """The result with rows stacked along a first axis, which is moved to where ``out_axes`` says.

    ``leaves`` are those of one entry; names, functions and the like in it are the result's.
    """
    axes = _spread("out_axes", out_axes, tree.unflatten(structure, leaves))
    rows = iter(stacks)
    stacked = [fresh(_moved_axis(next(rows), a)) if _is_numeric(x) else x for x, a in zip(leaves, axes, strict=True)]
    return tree.unflatten(structure, stacked)


def _spread(what: str, axes: Axes, x: Any) -> list[int | None]:
    """The axis of every leaf of ``x``; ``axes`` is one for all, or a structure of them that ``x`` begins with."""
    if axes is None or isinstance(axes, int):
        return [axes] * len(tree.flatten(x)[0])
    parts, given = tree.parts(x), tree.parts(axes)
    if parts is None or given is None or parts.keys() != given.keys():
        raise ValueError(f"vmap: {what} is an axis, None, or has the structure of what it belongs to; not {axes!r}")
    return [axis for key, part in parts.items() for axis in _spread(what, given[key], part)]


def _mapped_leaves(args: Sequence[Any], axes: Sequence[Axes]) -> tuple[list[Any], tree.Tree, list[int | None]]:
    """Leaves of the arguments, their structure, and for each the axis that is mapped over, if any."""
    leaves, structure = tree.flatten(tuple(args))
    given = (axis for a, arg in zip(axes, args, strict=True) for axis in _spread("in_axes", a, arg))
    mapped = [_own_axis(leaf, axis) for leaf, axis in zip(leaves, given, strict=True)]
    if all(axis is None for axis in mapped):
        raise ValueError("vmap needs at least one argument with an axis to map over")
    return [x if m is None else fresh(st.as_value(x)) for x, m in zip(leaves, mapped, strict=True)], structure, mapped


def _own_axis(leaf: Any, axis: int | None) -> int | None:
    """The axis to map a leaf over; names, functions and the like in a structure are passed as they are."""
    if axis is None or not _is_numeric(leaf):
        return None
    ndim = st.as_value(leaf).ndim
    if not -ndim <= axis < ndim:
        raise ValueError(f"vmap over axis {axis} of an argument with {ndim} dimensions")
    return axis % ndim


def _common_length(stage: Stage, arrays: Sequence[tuple[Value, int]]) -> Value:
    lengths = [ir.shape(value)[axis] for value, axis in arrays]
    for other in lengths[1:]:
        same = Scalar(ir.elementwise("eq", other, lengths[0]), weak=True)
        stage.check(
            same,
            ValueError,
            "vmap over axes of different lengths {} and {}",
            Scalar(lengths[0], True),
            Scalar(other, True),
        )
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
    _keep_pure(stage, copied)
    found = iter(stage.builder.inline(copied, [entry(k, axis, ir.i64(0)) for k, axis in arrays]))
    return [[next(found) for _ in range(count)] for count in counts]


def _keep_pure(stage: Stage, block: Block) -> None:
    """Keep only what the results of ``block`` need, so that no effect runs for the sake of a shape."""
    needed, pending = set(), list(block.results)
    while pending:
        op = pending.pop().op
        if op is not None and op in block.ops and op not in needed:
            needed.add(op)
            pending += [*op.args, *(v for region in op.regions for v in free_values(region))]
    if any(map(stage.acts, needed)):
        raise UnsupportedCode(
            "vmap of a function whose result has a shape that depends on random draws or on what Python returns"
        )
    block.ops = [op for op in block.ops if op in needed]


def _moved_axis(x: Value, out_axis: int | None) -> Value:
    """The first axis moved to ``out_axis``."""
    if out_axis is None or not -x.ndim <= out_axis < x.ndim:
        raise ValueError(f"vmap: out_axes {out_axis} for results that have {x.ndim} dimensions together")
    at = out_axis % x.ndim
    perm = list(range(1, x.ndim))
    perm.insert(at, 0)
    return ir.transpose(x, perm)
