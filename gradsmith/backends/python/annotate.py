"""Makes shown source easier to read: a docstring, and the user's lines beside the reverse sweep."""

from __future__ import annotations

import linecache
import re
from collections.abc import Sequence

from gradsmith.ir.program import Location

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
