"""Make a failing function ``f`` smaller: statements are left out and expressions replaced by their parts while it still fails."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator


def reduced(text: str, fails: Callable[[str], bool]) -> str:
    """The smallest source found for which ``fails`` is still true, as it is for ``text``."""
    tree = ast.parse(text)
    progress = True
    while progress:
        progress = False
        for change in range(10**6):
            smaller = _changed(tree, change)
            if smaller is None:
                break
            while smaller is not None and fails(ast.unparse(smaller)):
                tree, progress = smaller, True
                smaller = _changed(tree, change)  # what now stands at this place
    return ast.unparse(tree)


def _changed(tree: ast.Module, number: int) -> ast.Module | None:
    """A copy with one of the possible changes made, or None when there are not so many."""
    tree = copy.deepcopy(tree)
    function = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "f")
    for k, change in enumerate(_changes(function)):
        if k == number:
            change()
            return ast.fix_missing_locations(tree)
    return None


def _changes(tree: ast.FunctionDef) -> Iterator[Callable[[], None]]:
    for node in ast.walk(tree):
        for name, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                for k, statement in enumerate(value):
                    yield lambda value=value, k=k: _replace(value, k, [])
                    inner = [s for part in ("body", "orelse", "finalbody") for s in getattr(statement, part, [])]
                    if inner and not isinstance(statement, ast.FunctionDef | ast.ClassDef):
                        yield lambda value=value, k=k, inner=inner: _replace(value, k, inner)
            elif isinstance(value, list) and value and isinstance(value[0], ast.excepthandler) and len(value) > 1:
                yield lambda value=value: value.pop()
            elif isinstance(value, ast.expr) and isinstance(getattr(value, "ctx", ast.Load()), ast.Load):
                for part in _parts(value):
                    yield lambda node=node, name=name, part=part: setattr(node, name, part)


def _parts(expression: ast.expr) -> Iterator[ast.expr]:
    """Simpler expressions: the operands, and a constant."""
    if isinstance(expression, ast.Constant | ast.Name | ast.Slice):
        return
    for child in ast.iter_child_nodes(expression):
        children = [child] if not isinstance(child, ast.comprehension) else [child.iter]
        yield from (c for c in children if isinstance(c, ast.expr) and not isinstance(c, ast.Slice))
    yield ast.Constant(0.5)


def _replace(statements: list[ast.stmt], k: int, new: list[ast.stmt]) -> None:
    statements[k : k + 1] = new
    if not statements:
        statements.append(ast.Pass())
