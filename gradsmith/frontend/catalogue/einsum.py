"""``numpy.einsum`` as diagonals, sums, transposes and matrix products of the Program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradsmith.frontend import indexing
from gradsmith.frontend import stage as st
from gradsmith.frontend.arithmetic import fold
from gradsmith.frontend.catalogue import implements
from gradsmith.frontend.catalogue.operands import deliver, equal, holds, iota, product, refuse
from gradsmith.frontend.values import Array
from gradsmith.ir import builder as ir
from gradsmith.ir.program import Value

Label = str | int  # a letter, or for an axis of the ellipsis its (negative) place from the right
Labels = tuple[Label, ...]
Term = tuple[Value, Labels]


@implements(np.einsum)
def einsum(*operands: Any, out: Any = None, dtype: Any = None, optimize: Any = False, **options: Any) -> Any:
    refuse("einsum", **{k: v for k, v in options.items() if k not in ("order", "casting")})
    if isinstance(operands[0], str):
        subscripts, arrays = operands[0], list(operands[1:])
    else:
        subscripts, arrays = _from_lists(operands)
    values = [st.as_value(x) for x in arrays]
    common = np.dtype(st.static(dtype)) if dtype is not None else np.result_type(*(v.dtype for v in values))
    terms, output = parse(subscripts, [ir.cast(v, common) for v in values])
    result = deliver(contract(terms, output), out, "einsum")
    if len(values) == 1 and out is None and isinstance(result, Array) and isinstance(arrays[0], Array):
        return indexing.maybe_view(arrays[0], result.value, "the result of numpy.einsum of one array")
    return result


def _from_lists(operands: Sequence[Any]) -> tuple[str, list[Any]]:
    """The form einsum(a, [0, 1], b, [1, 2], [0, 2]) as subscripts."""
    arrays, lists = list(operands[0:-1:2]), list(operands[1::2])
    output = operands[-1] if len(operands) % 2 else None

    def letters(labels: Sequence[Any]) -> str:
        return "".join("..." if x is Ellipsis else chr(ord("a") + x if x < 26 else ord("A") + x - 26) for x in labels)

    text = ",".join(map(letters, lists))
    return text if output is None else f"{text}->{letters(output)}", arrays


def parse(subscripts: str, values: Sequence[Value]) -> tuple[list[Term], Labels]:
    """Terms and output labels. ValueError for subscripts that do not fit the operands."""
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    parts = inputs.split(",")
    if len(parts) != len(values):
        raise ValueError("number of operands does not match the number of terms in the subscripts")
    terms = [(v, _labels(part, v.ndim)) for part, v in zip(parts, values, strict=True)]
    every = [label for _, labels in terms for label in labels]
    dots = tuple(sorted({x for x in every if isinstance(x, int)}))
    if arrow:
        if dots and "..." not in output:
            raise ValueError("output has no ellipsis but the operands have dimensions under theirs")
        head, _, tail = output.partition("...")
        labels: Labels = (*head, *dots, *tail) if "..." in output else tuple(output)
    else:
        letters = sorted({x for x in every if isinstance(x, str)})
        labels = (*dots, *(x for x in letters if every.count(x) == 1))
    for label in labels:
        if label not in every:
            raise ValueError(f"einstein sum subscripts string included output subscript '{label}' which never appeared")
    if len(set(labels)) != len(labels):
        raise ValueError("einstein sum subscripts string includes an output subscript multiple times")
    return terms, labels


def _labels(part: str, ndim: int) -> Labels:
    head, dots, tail = part.partition("...")
    hidden = ndim - len(head) - len(tail)
    if hidden < 0 or (hidden and not dots):
        raise ValueError("operand has another number of dimensions than its subscripts")
    return (*head, *range(-hidden, 0), *tail)


def contract(terms: list[Term], output: Labels) -> Value:
    """The sum over all labels that are not in ``output``; the pair with the smallest product goes first."""
    terms = [_diagonals(t) for t in terms]
    terms = [_summed(t, _wanted(terms[:k] + terms[k + 1 :], output)) for k, t in enumerate(terms)]
    while len(terms) > 1:
        pairs = [(i, j) for i in range(len(terms)) for j in range(i + 1, len(terms))]
        i, j = min(pairs, key=lambda p: _result_size(terms, p, output))
        rest = [t for k, t in enumerate(terms) if k not in (i, j)]
        terms = [_product(terms[i], terms[j], _wanted(rest, output)), *rest]
    value, labels = terms[0]
    return ir.transpose(value, [labels.index(x) for x in output])


def _wanted(terms: Sequence[Term], output: Labels) -> set[Label]:
    return {*output, *(x for _, labels in terms for x in labels)}


def _result_size(terms: Sequence[Term], pair: tuple[int, int], output: Labels) -> int:
    rest = [t for k, t in enumerate(terms) if k not in pair]
    mine = {*terms[pair[0]][1], *terms[pair[1]][1]}
    return len(mine & _wanted(rest, output))


def _diagonals(term: Term) -> Term:
    """The diagonal over every label that is there twice."""
    value, labels = term
    for label in labels:
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            rest = [k for k in range(value.ndim) if k not in (i, j)]
            n, m = ir.shape(value)[i], ir.shape(value)[j]
            st.current().check(holds(equal(n, m)), ValueError, f"dimensions of the repeated subscript '{label}' differ")
            steps = iota(n)
            value = ir.index(ir.transpose(value, [*rest, i, j]), [":"] * len(rest) + ["a", "a"], [steps, steps])
            labels = (*(labels[k] for k in rest), label)
    return value, labels


def _summed(term: Term, wanted: set[Label]) -> Term:
    """The sum over labels that nothing else has."""
    value, labels = term
    gone = [k for k, label in enumerate(labels) if label not in wanted]
    return ir.sum_(value, gone), tuple(x for x in labels if x in wanted)


def _product(x: Term, y: Term, wanted: set[Label]) -> Term:
    shared = [label for label in x[1] if label in y[1]]
    batch = [label for label in shared if label in wanted]
    gone = [label for label in shared if label not in wanted]
    free_x = [label for label in x[1] if label not in shared]
    free_y = [label for label in y[1] if label not in shared]
    if not gone:
        labels = [*batch, *free_x, *free_y]
        return fold("mul", [_aligned(x, labels), _aligned(y, labels)]), tuple(labels)
    left, right = _ordered(x, [*batch, *free_x, *gone]), _ordered(y, [*batch, *gone, *free_y])
    n, rows, columns = len(batch), len(free_x), len(free_y)
    dims_x, dims_y = ir.shape(left), ir.shape(right)
    inner = product(dims_x[n + rows :])
    left = _merged(left, [*dims_x[:n], product(dims_x[n : n + rows]), inner], rows == 1 and len(gone) == 1)
    right = _merged(
        right,
        [*dims_y[:n], product(dims_y[n : n + len(gone)]), product(dims_y[n + len(gone) :])],
        columns == 1 and len(gone) == 1,
    )
    found = ir.emit("matmul", left, right)
    dims = [*ir.shape(found)[:n], *dims_x[n : n + rows], *dims_y[n + len(gone) :]]
    found = found if rows == columns == 1 else ir.reshape(found, dims)
    return found, (*batch, *free_x, *free_y)


def _merged(value: Value, dims: list[Value], already: bool) -> Value:
    return value if already else ir.reshape(value, dims)


def _ordered(term: Term, labels: Sequence[Label]) -> Value:
    return ir.transpose(term[0], [term[1].index(x) for x in labels])


def _aligned(term: Term, labels: Sequence[Label]) -> Value:
    """The term with its axes in the order of ``labels`` and axes of length one for those it lacks."""
    mine = [x for x in labels if x in term[1]]
    value = _ordered(term, mine)
    return value if len(mine) == len(labels) else ir.index(value, [":" if x in mine else "n" for x in labels])
