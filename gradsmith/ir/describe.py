"""Names for what the user gave no name: after what it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from gradsmith.ir.ops import ELEMENTWISE, consumed_axes
from gradsmith.ir.program import Const, Op, Value
from gradsmith.ir.types import I64, SeqType

#: operations named by a word of their own
_WORDS = {
    **{"add": "total", "sub": "difference", "mul": "product", "strong_mul": "product", "div": "ratio", "pow": "power"},
    **{"floordiv": "quotient", "mod": "remainder", "matmul": "product", "where": "choice", "concatenate": "joined"},
    **{
        "maximum": "larger",
        "minimum": "smaller",
        "iota": "indices",
        "full": "filled",
        "broadcast_to": "spread",
        "seq_stack": "stacked",
    },
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
    if op.name in ("index", "seq_pop", "seq_get") and first.endswith("_saved"):
        return first.removesuffix("_saved")
    if op.name == "index":
        return _element(op, first, operands)
    if any(map(_has_adjoint, texts)):
        return "total_bar" if op.name == "add" else "term_bar"
    if op.name == "full" and isinstance(op.args[0], Const):
        data = op.args[0].data
        return "zeros" if bool(data == 0) else "ones" if bool(data == 1) else "filled"
    if op.name in _JOINED and (name := _joined(op, operands)):
        return name
    if op.name in ELEMENTWISE and op.result.type == I64:
        return "n"
    if op.name in _AFTER and first:
        return f"{first}_{_AFTER[op.name]}"
    if op.name == "neg":
        return f"minus_{first}" if first else "negative"
    if op.name in _WORDS:
        return _WORDS[op.name]
    if op.regions:
        return "result"
    word = op.name
    if op.name in ("host", "effect"):
        function = op.attrs["fn"]
        word = function if isinstance(function, str) else getattr(function, "__name__", "value")
        word = re.sub(r"\W+", "_", word.rpartition(".")[2]).strip("_") or "value"
    if first:
        return f"{word}_{first}"
    maker = _WORDS.get(_maker(op), "")
    return f"{word}_of_{maker}" if maker else f"{word}_value"


#: binary operations on variables and small constants, named by what they do
_JOINED = {"add": "plus", "sub": "minus", "mul": "times", "div": "over"}
_NUMBERS = {0.5: "half", 1.0: "one", 2.0: "two"}


def _joined(op: Op, operands: Sequence[str]) -> str:
    """``one_minus_p``, ``dt_over_dx``, ``half_h``: the operation in words, if that is short."""
    x, y = op.args
    words = [_number(a) if isinstance(a, Const) else name for a, name in zip(op.args, operands, strict=True)]
    if not all(words) or (isinstance(x, Const) and isinstance(y, Const)):
        return ""
    if op.name == "mul" and "half" in words:
        words.remove("half")
        return _short(f"half_{words[0]}")
    return _short(f"{words[0]}_{_JOINED[op.name]}_{words[1]}")


def _number(x: Const) -> str:
    """A small number as a word or digits."""
    if x.ndim or x.dtype.kind not in "fi":
        return ""
    value = float(x.data)
    return _NUMBERS.get(value, "") or (str(int(value)) if value.is_integer() and 0 <= value < 100 else "")


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST and name.count("_") <= 5 and not re.search(r"_\d+_", name) else ""


def _maker(op: Op) -> str:
    """The name of the operation that the first operand is made by."""
    made = op.args[0].op if op.args else None
    return made.name if made is not None else ""


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
            return f"{base}_{_slice(entry, args) if isinstance(entry, tuple) else 'picked'}" if first else "part"
        (index,) = args
        if isinstance(index, Const):
            words.append(_position(int(index.data)))
        else:
            words.append(operands[op.args.index(index)] or _NEIGHBOURS.get(_step(index), "item"))
    if not words:
        return f"{base}_column" if "n" in op.attrs["spec"] else base
    name = "_".join([base, *words])
    return name if len(name) <= 2 * _LONGEST else "element"


_NEIGHBOURS = {1: "next", -1: "prev"}


def _step(index: Value) -> int:
    """How far an index is from a variable, when it is computed as that and a number."""
    op = index.op
    if op is None or op.name not in ("add", "sub") or not isinstance(op.args[1], Const) or op.args[1].ndim:
        return 0
    return int(op.args[1].data) * (1 if op.name == "add" else -1)


def _position(index: int) -> str:
    return str(index) if index >= 0 else "last" if index == -1 else f"m{-index}"


def _slice(entry: tuple[object, ...], bounds: Sequence[Value]) -> str:
    """A word for a slice: ``tail`` for ``[1:]``, ``head`` for ``[:-1]``, ``inner`` for ``[1:-1]``."""
    known = [int(b.data) if isinstance(b, Const) else None for b in bounds]
    return _SLICES.get((tuple(map(bool, entry[1:])), tuple(known)), "part")


_SLICES: dict[object, str] = {
    ((True, False, False), (1,)): "tail",
    ((False, True, False), (-1,)): "head",
    ((True, True, False), (1, -1)): "inner",
    ((False, False, True), (-1,)): "reversed",
}
