"""The syntax tree of a function, found by its code object: never by name, so lambdas on one line are told apart."""

from __future__ import annotations

import ast
import inspect
import linecache
import types
from functools import lru_cache

from gradsmith.errors import SourceUnavailable, UnsupportedCode

FunctionNode = ast.FunctionDef | ast.Lambda


def function_node(code: types.CodeType) -> FunctionNode:
    """The ``def`` or ``lambda`` that ``code`` was compiled from, with the file's line numbers.

    Raises :class:`~gradsmith.errors.SourceUnavailable` when the source cannot be read or is not that of ``code``.
    """
    if code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        raise UnsupportedCode(f"the coroutine {code.co_name!r} (async def) cannot be staged")
    linecache.checkcache(code.co_filename)
    lines = tuple(linecache.getlines(code.co_filename))
    where = f"{code.co_name!r} ({code.co_filename}:{code.co_firstlineno})"
    if not lines:
        raise SourceUnavailable(
            f"no Python source for {where}: gradsmith differentiates source code. Define the function in a file or a "
            "notebook cell (code given to exec or python -c has no source), or give it a rule"
        )
    node = _lambda(code, lines) if code.co_name == "<lambda>" else _definition(code, lines)
    if node is None or not _belongs(node, code):
        raise SourceUnavailable(f"the source of {where} has changed since it was imported; import it again")
    return node


def _definition(code: types.CodeType, lines: tuple[str, ...]) -> FunctionNode | None:
    """Parse only the lines of the function: whole files take most of the time otherwise."""
    first = code.co_firstlineno
    last = max((p[1] or 0) for p in _positions(code))
    while last <= len(lines):
        cut = "".join(lines[first - 1 : last])
        indented = cut[:1] in " \t"
        try:
            tree = ast.parse("if 1:\n" + cut if indented else cut)
        except SyntaxError:
            last += 1  # the last statement goes on after its last instruction, e.g. a closing bracket
            continue
        ast.increment_lineno(tree, first - 1 - indented)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
                return node
        return None
    return None


def _positions(code: types.CodeType) -> list[tuple[int | None, ...]]:
    found: list[tuple[int | None, ...]] = list(code.co_positions())
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            found += _positions(const)
    return found


@lru_cache(maxsize=64)
def _lambdas(lines: tuple[str, ...]) -> list[ast.Lambda]:
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError:
        return []
    return [node for node in ast.walk(tree) if isinstance(node, ast.Lambda)]


def _lambda(code: types.CodeType, lines: tuple[str, ...]) -> FunctionNode | None:
    """The lambda whose body has the span of the code's instructions."""
    spans = [p for p in code.co_positions() if None not in p and (p[2], p[3]) != (0, 0)]
    candidates = [n for n in _lambdas(lines) if n.lineno <= code.co_firstlineno <= (n.body.end_lineno or 0)]
    if spans:
        start = min((p[0], p[2]) for p in spans)  # type: ignore[type-var]
        end = max((p[1], p[3]) for p in spans)  # type: ignore[type-var]
        exact = [
            n
            for n in candidates
            if (n.body.lineno, n.body.col_offset) == start and (n.body.end_lineno, n.body.end_col_offset) == end
        ]
        # parentheses around a body belong to the span of neither, and a constant may be folded: then fall through
        inside = [n for n in candidates if _span_within(n.body, start, end)]  # type: ignore[arg-type]
        candidates = exact or inside or candidates
    fitting = [n for n in candidates if _belongs(n, code)]
    return fitting[0] if fitting else None


def _span_within(node: ast.expr, start: tuple[int, int], end: tuple[int, int]) -> bool:
    first = (node.lineno, node.col_offset)
    last = (node.end_lineno or 0, node.end_col_offset or 0)
    return first <= start and end <= last


def _belongs(node: FunctionNode, code: types.CodeType) -> bool:
    """Whether the tree has the code's parameters and the names that it uses."""
    a = node.args
    params = [p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs)]
    params += [p.arg for p in (a.vararg, a.kwarg) if p]
    expected = code.co_varnames[: len(params)]
    # names such as __x are mangled in a class body
    if [p for p in params if p[:2] != "__"] != [
        p for p in expected if not p.startswith("_") or p in params and p[:2] != "__"
    ]:
        return False
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    names |= {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
    names |= set(params) | _statement_names(node)
    used = {n for n in (*code.co_names, *code.co_varnames) if not n.startswith((".", "_", "@"))}
    if any(n.startswith("@py") for n in code.co_varnames):
        names |= {"AssertionError", "locals"}  # pytest has rewritten the assert statements
    if not used <= names:
        return False
    numbers = {repr(n.value) for n in ast.walk(node) if isinstance(n, ast.Constant)}
    plain = {repr(c) for c in code.co_consts if isinstance(c, float) or (isinstance(c, int) and abs(c) > 256)}
    # constant folding makes new numbers (2 * np.pi does not fold, 1 / 3 does): only trees without such operations are compared
    folds = any(isinstance(n, ast.BinOp | ast.UnaryOp) for n in ast.walk(node))
    return folds or plain <= numbers


def _statement_names(node: ast.AST) -> set[str]:
    """Names bound by statements other than assignment."""
    names: set[str] = set()
    for n in ast.walk(node):
        if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(n.name)
        elif isinstance(n, ast.alias):
            names.update(n.name.split("."))
            names.add(n.asname or "")
        elif isinstance(n, ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
            names.add(n.name or "")
        elif isinstance(n, ast.ImportFrom):
            names.update((n.module or "").split("."))
        elif isinstance(n, ast.arg):
            names.add(n.arg)
        elif isinstance(n, ast.keyword):
            names.add(n.arg or "")
    return names
