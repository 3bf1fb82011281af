"""Names for what the user gave no name: after what it is."""

from __future__ import annotations

import re
from collections.abc import Callable

from gradsmith.ir.ops import ELEMENTWISE, consumed_axes
from gradsmith.ir.program import Const, Op, Value
from gradsmith.ir.types import I64, SeqType

#: operations named by a word of their own
_WORDS = {
    **{"add": "total", "sub": "difference", "mul": "product", "strong_mul": "product", "div": "ratio", "pow": "power"},
    **{"floordiv": "quotient", "mod": "remainder", "matmul": "product", "where": "choice", "concatenate": "joined"},
    **{"maximum": "larger", "minimum": "smaller", "iota": "indices", "full": "filled", "seq_stack": "stacked"},
    **{"seq_new": "items", "seq_zeros": "items", "seq_unstack": "items", "seq_get": "item", "seq_pop": "item"},
    **{"seq_len": "count", "and": "both", "or": "either", "not": "opposite", "cast": "converted"},
    **dict.fromkeys(["eq", "ne", "lt", "le", "gt", "ge"], "holds"),
}
#: operations named after their operand: ``x_sum``
_AFTER = {
    **{name: name for name in ("sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "cumsum", "cumprod")},
    **{"transpose": "T", "reshape": "reshaped", "broadcast_to": "spread", "unbroadcast": "summed", "real": "real"},
    **{"imag": "imag", "cast": "converted"},
}
_AXES = {1: ("len",), 2: ("rows", "cols")}
_LONGEST = 24


def describe(op: Op, text_of: Callable[[Value], str]) -> str:
    """A name for the result of ``op``; ``text_of`` gives the source text of an operand."""
    texts = [text_of(a) for a in op.args]
    operands = [text if text.isidentifier() else "" for text in texts]
    first = operands[0] if operands else ""
    if len(first) > _LONGEST:
        first = ""
    if op.name in ("set", "add_at", "seq_push", "seq_add", "detach"):
        return first or "values"
    if op.name == "dim":
        words = _AXES.get(op.args[0].ndim, ())
        axis = op.attrs["axis"]
        return "_".join(filter(None, [first, words[axis] if axis < len(words) else f"dim{axis}"]))
    if op.name == "index":
        return _element(op, first, operands)
    if any(map(_has_adjoint, texts)):
        return "total_bar" if op.name == "add" else "term_bar"
    if op.name in ELEMENTWISE and op.result.type == I64:
        return "n"
    if op.name in _AFTER and first:
        return f"{first}_{_AFTER[op.name]}"
    if op.name == "neg":
        return f"minus_{first}" if first else "opposite"
    if op.name in _WORDS:
        return _WORDS[op.name]
    if op.regions:
        return "result"
    word = op.name
    if op.name in ("host", "effect"):
        function = op.attrs["fn"]
        word = function if isinstance(function, str) else getattr(function, "__name__", "value")
        word = re.sub(r"\W+", "_", word.rpartition(".")[2]).strip("_") or "value"
    return f"{word}_{first}" if first else f"{word}_value"


def _has_adjoint(text: str) -> bool:
    return re.search(r"_bar(_|\b)", text) is not None


def _element(op: Op, first: str, operands: list[str]) -> str:
    """``x_i`` for ``x[i]``, ``x_part`` for a slice."""
    if isinstance(op.args[0].type, SeqType):
        return "item"
    base = first or "part"
    words = []
    for entry, args, _ in consumed_axes(op.attrs["spec"], op.args[1:]):
        if entry in (":", "n"):
            continue
        if entry != "i":
            return f"{base}_{'part' if isinstance(entry, tuple) else 'picked'}" if first else "part"
        (index,) = args
        if isinstance(index, Const):
            words.append(
                str(int(index.data)) if index.data >= 0 else "last" if index.data == -1 else f"m{-int(index.data)}"
            )
        else:
            words.append(operands[op.args.index(index)] or "item")
    if not words:
        return f"{base}_column" if "n" in op.attrs["spec"] else base
    name = "_".join([base, *words])
    return name if len(name) <= 2 * _LONGEST else "element"
