"""Lines of source that are too long, broken as a formatter would."""

from __future__ import annotations

import re
from collections.abc import Iterator

LONGEST = 110
_HEAD = re.compile(r"return |[^=(]+? [-+*/]?= ")  # of a statement that an expression ends
_INDENT = "    "
#: where an expression is broken, the loosest first
_OPERATORS = ((" if ", " else "), (" or ",), (" and ",), (" + ", " - "), (" * ", " / ", " @ ", " // ", " % "))


def broken(line: str) -> list[str]:
    """``line`` as one line or several, each of a readable length if there is a place to break."""
    text = line.lstrip()
    indent = line[: len(line) - len(text)]
    if len(line) <= LONGEST or text.startswith("#"):
        return [line]
    opening, inside, closing = _last_group(text)
    if opening and len(indent) + len(opening) <= LONGEST and len(indent) + len(closing) <= LONGEST:
        return [indent + opening, *_entries(inside, indent + _INDENT), indent + closing]
    head = _HEAD.match(text)
    if head is None:
        return [line]
    expression = text[head.end() :]
    if any(c == "," and depth == 0 for c, depth in _depths(expression)):
        return [indent + head[0] + "(", *_entries(expression, indent + _INDENT), indent + ")"]
    parts = _operands(expression)
    return [indent + head[0] + "(", *(indent + _INDENT + p for p in parts), indent + ")"] if parts else [line]


def _entries(text: str, indent: str) -> list[str]:
    """What stands between brackets: on one line if it fits, else a line or more for each entry."""
    if len(indent) + len(text) <= LONGEST:
        return [indent + text]
    cuts = [k for k, (c, depth) in enumerate(_depths(text)) if c == "," and depth == 0]
    if not cuts:
        return [indent + p for p in _operands(text)] or [indent + text]
    entries = [text[a:b].strip() for a, b in zip([0, *(k + 1 for k in cuts)], [*cuts, len(text)], strict=True)]
    return [line for entry in entries if entry for line in broken(f"{indent}{entry},")]


def _operands(text: str) -> list[str]:
    """An expression broken in front of its loosest operators."""
    depths = [depth for _, depth in _depths(text)]
    for symbols in _OPERATORS:
        cuts = [k for k in range(1, len(text)) if depths[k] == 0 and text.startswith(symbols, k)]
        if cuts:
            return [text[a:b].strip() for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    return []


def _last_group(text: str) -> tuple[str, str, str]:
    """The text up to the outermost bracket that closes at its end, what is in it, and the rest; ('', '', '') if none does."""
    depths = list(_depths(text))
    end = len(text) - 1
    while end >= 0 and text[end] in ":,":
        end -= 1
    if end < 0 or text[end] not in ")]}" or depths[end][1] != 0:
        return "", "", ""
    start = end - 1
    while start >= 0 and depths[start][1] != 0:
        start -= 1
    before = text[:start]
    if any(symbol.strip() and before.find(symbol) >= 0 for group in _OPERATORS[3:] for symbol in group):
        return "", "", ""  # the last operand of an operator
    return (text[: start + 1], text[start + 1 : end], text[end:]) if text[:start].strip() else ("", "", "")


def _depths(text: str) -> Iterator[tuple[str, int]]:
    """Every character with the number of brackets (and strings) around it; a bracket is outside of itself."""
    depth, quote = 0, ""
    for k, c in enumerate(text):
        if quote:
            if c == quote and text[k - 1] != "\\":
                quote = ""
            yield c, depth + 1
        elif c in "'\"":
            quote = c
            yield c, depth + 1
        elif c in "([{":
            yield c, depth
            depth += 1
        elif c in ")]}":
            depth -= 1
            yield c, depth
        else:
            yield c, depth
