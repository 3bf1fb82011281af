"""Makes shown source easier to read: the user's lines beside the reverse sweep; no checks that NumPy makes itself."""

from __future__ import annotations

import linecache
import re
from collections.abc import Sequence

from gradsmith.ir.ops import ELEMENTWISE
from gradsmith.ir.program import Block, Const, Location, Op, Value
from gradsmith.transforms.simplify.dce import remove_dead

_ADJOINT = re.compile(r"\s*(\w+, )*\w+_bar(_\w+)?(\[.*\])?(, \w+)* [-+*/]?= ")
_START = re.compile(r"\s*\w+ = (0\.0|np\.zeros.*)$")
_LONGEST = 72


def annotated(lines: Sequence[tuple[str, Location | None]]) -> list[tuple[str, Location | None]]:
    """The lines with a blank line in front of the reverse sweep, whose lines are preceded by those they belong to."""
    several = len({loc for _, loc in lines if loc is not None}) > 1
    out: list[tuple[str, Location | None]] = []
    reverse = False
    last: Location | None = None
    for text, loc in lines:
        stripped = text.lstrip()
        indent = text[: len(text) - len(stripped)]
        if not reverse and _ADJOINT.match(text):
            reverse, last = True, None
            if len(indent) == 4 and out:
                out.append(("", None))
        belongs = stripped.startswith(("else:", "elif ", "return ")) or _START.match(text) is not None
        if reverse and several and loc is not None and loc != last and not belongs:
            out.append((f"{indent}# {_origin(loc)}", None))
            last = loc
        out.append((text, loc))
    return out


def docstring(lines: Sequence[str]) -> list[str]:
    """A docstring of these lines, indented as the body of a function."""
    first, *rest = lines
    if not rest:
        return [f'    """{first}"""']
    return [f'    """{first}', "", *(f"    {line}" for line in rest), '    """']


def _origin(loc: Location) -> str:
    """The user's line: its number and text."""
    text = linecache.getline(loc.filename, loc.line).strip()
    if len(text) > _LONGEST:
        text = text[: _LONGEST - 2].rstrip() + " …"
    return f"line {loc.line}: {text}" if text else f"line {loc.line}"


def drop_implied_checks(block: Block) -> None:
    """Remove checks of lengths and of divisors: the NumPy code that follows makes them itself."""
    known: dict[Value, bool] = {}
    _drop(block, known)
    remove_dead(block)


def _drop(block: Block, known: dict[Value, bool]) -> None:
    block.ops = [op for op in block.ops if not (op.name == "check" and _is_implied(op, known))]
    for op in block.ops:
        for region in op.regions:
            _drop(region, known)


def _is_implied(op: Op, known: dict[Value, bool]) -> bool:
    if op.attrs["error"] is ZeroDivisionError:
        return True
    return op.attrs["error"] is ValueError and not isinstance(op.args[0], Const) and _of_lengths(op.args[0], known)


def _of_lengths(value: Value, known: dict[Value, bool]) -> bool:
    """Whether a number is computed from nothing but lengths of axes."""
    if value not in known:
        op = value.op
        known[value] = isinstance(value, Const) or (
            op is not None
            and (op.name == "dim" or (op.name in ELEMENTWISE and all(_of_lengths(a, known) for a in op.args)))
        )
    return known[value]
