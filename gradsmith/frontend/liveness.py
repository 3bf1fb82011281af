"""Which local names are read later: only those are joined after a branch and carried by a loop."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Names = frozenset[str]
NONE: Names = frozenset()


@dataclass(frozen=True)
class _Exits:
    """Names live where a jump leads to."""

    on_break: Names = NONE
    on_continue: Names = NONE


class Liveness:
    """Names of one function body that may be read after each of its statements, by backward data flow.

    Names read by nested functions are live everywhere: they are looked up whenever the function is called.
    """

    def __init__(self, body: Sequence[ast.stmt]):
        self._after: dict[ast.AST, Names] = {}
        self._head: dict[ast.AST, Names] = {}
        nested = (n for s in body for n in ast.walk(s) if isinstance(n, ast.FunctionDef | ast.Lambda | ast.ClassDef))
        self._always: Names = frozenset().union(*map(_uses, nested))
        self._block(body, NONE, _Exits())

    def after(self, node: ast.AST) -> Names | None:
        """Names live after a statement; None if unknown."""
        return self._after.get(node)

    def head(self, node: ast.AST) -> Names | None:
        """Names live where a loop decides on its next iteration, and so also those live after it; None if unknown."""
        return self._head.get(node)

    def stands_for(self, new: ast.AST, old: ast.AST) -> None:
        """``new`` is another form of the statement ``old``."""
        self._after[new], self._head[new] = self._after[old], self._head[old]

    def _block(self, nodes: Sequence[ast.stmt], out: Names, exits: _Exits) -> Names:
        """Names live before the statements, of those live after them."""
        for node in reversed(nodes):
            self._after[node] = out | self._always
            out = self._before(node, out, exits)
        return out

    def _before(self, node: ast.stmt, out: Names, exits: _Exits) -> Names:
        if isinstance(node, ast.Return | ast.Raise):
            return _uses(node)
        if isinstance(node, ast.Break):
            return exits.on_break
        if isinstance(node, ast.Continue):
            return exits.on_continue
        if isinstance(node, ast.If):
            return _uses(node.test) | self._block(node.body, out, exits) | self._block(node.orelse, out, exits)
        if isinstance(node, ast.For | ast.While):
            return self._before_loop(node, out, exits)
        if isinstance(node, ast.Match):
            cases = [_uses(c.pattern, c.guard) | self._block(c.body, out, exits) for c in node.cases]
            return _uses(node.subject).union(out, *cases)
        if isinstance(node, ast.With):
            return _uses(*node.items) | out | self._block(node.body, out, exits)
        if isinstance(node, ast.Try):
            return self._before_try(node, out, exits)
        if isinstance(node, ast.AugAssign):
            return out | _uses(node) | _stored(node.target)
        if isinstance(node, ast.FunctionDef):
            return (out - {node.name}) | _uses(node)
        return (out - _stored(node)) | _uses(node)

    def _before_loop(self, node: ast.For | ast.While, out: Names, exits: _Exits) -> Names:
        left = out | self._block(node.orelse, out, exits)
        head: Names = NONE
        while True:
            again = self._block(node.body, head, _Exits(out, head))
            if isinstance(node, ast.For):
                new = left | (again - _stored(node.target)) | _uses(node.target)
            else:
                new = left | again | _uses(node.test)
            if new == head:
                break
            head = new
        self._head[node] = head | self._always
        return head | (_uses(node.iter) if isinstance(node, ast.For) else NONE)

    def _before_try(self, node: ast.Try, out: Names, exits: _Exits) -> Names:
        # an exception may come from anywhere in the body: what the handlers read is live throughout
        after = self._block(node.finalbody, out, exits)
        handlers = frozenset().union(*(_uses(h.type) | self._block(h.body, after, exits) for h in node.handlers))
        outer, self._always = self._always, self._always | handlers | after
        try:
            return handlers | after | self._block([*node.body, *node.orelse], after, exits)
        finally:
            self._always = outer


def _uses(*nodes: ast.AST | None) -> Names:
    """Names read (or deleted) anywhere in the nodes."""
    return frozenset(
        n.id
        for node in nodes
        if node is not None
        for n in ast.walk(node)
        if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Store)
    )


def _stored(node: ast.AST) -> Names:
    """Names that a simple statement or target certainly assigns."""
    targets: Iterable[ast.AST]
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign):
        targets = [node.target] if node.value else []
    else:
        targets = [node] if isinstance(node, ast.expr) else []
    return frozenset(n.id for t in targets for n in _names(t))


def _names(target: ast.AST) -> Iterable[ast.Name]:
    if isinstance(target, ast.Name):
        yield target
    elif isinstance(target, ast.Tuple | ast.List):
        for t in target.elts:
            yield from _names(t)
    elif isinstance(target, ast.Starred):
        yield from _names(target.value)
