"""``class`` statements in staged code: the body runs in a frame of its own, then Python makes the class."""

from __future__ import annotations
import __future__

import ast
import types
from collections.abc import Callable
from typing import Any

from gradsmith.frontend import calls
from gradsmith.frontend.expressions import compile_expr, elements
from gradsmith.frontend.frames import Frame, Scope
from gradsmith.frontend.liveness import Liveness


def compile_class(node: ast.ClassDef, scope: Scope) -> Callable[[Frame], Any]:
    """A closure that makes the class, decorated."""
    from gradsmith.frontend.statements import assigned_names, compile_block

    inner = Scope(assigned_names(node.body), scope, scope.filename, f"{scope.function}.{node.name}", quiet=scope.quiet)
    inner.is_class = True
    for statement in node.body:
        if isinstance(statement, ast.Global):
            inner.globals_declared.update(statement.names)
        elif isinstance(statement, ast.Nonlocal):
            inner.nonlocals.update(statement.names)
    inner.local -= inner.globals_declared | inner.nonlocals
    decorators = [compile_expr(d, scope) for d in node.decorator_list]
    bases = elements(node.bases, scope)
    keywords = [(k.arg, compile_expr(k.value, scope)) for k in node.keywords]
    body = compile_block(node.body, inner, Liveness(node.body))
    annotate = [
        _annotation(s, inner) for s in node.body if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)
    ]
    docs = ast.get_docstring(node)

    def run(frame: Frame) -> Any:
        stage = frame.stage
        wrap = [d(frame) for d in decorators]
        parents = tuple(bases(frame))
        options: dict[str, Any] = {}
        for name, value in keywords:
            options.update(value(frame) if name is None else {name: value(frame)})
        own = Frame(stage, frame, frame.globals, frame.cells, f"{frame.function}.{node.name}")
        body(own)
        namespace = {"__module__": frame.globals.get("__name__", ""), "__qualname__": node.name}
        if docs is not None:
            namespace["__doc__"] = docs
        annotations = dict(a(own) for a in annotate)
        if annotations:
            namespace["__annotations__"] = annotations
        namespace |= {name: value for name, value in own.vars.items() if not name.startswith("%")}

        def fill(target: dict[str, Any]) -> None:
            for name, value in namespace.items():
                target[name] = value

        cls: Any = types.new_class(node.name, parents, options, fill)
        own.cls = cls
        stage.heap.born(cls)
        for decorator in reversed(wrap):
            cls = calls.call(stage, decorator, [cls], {})
        if isinstance(cls, type):
            own.cls = cls  # dataclass(slots=True) makes another
            stage.heap.born(cls)
        return cls

    return run


def _annotation(node: ast.AnnAssign, scope: Scope) -> Callable[[Frame], tuple[str, Any]]:
    assert isinstance(node.target, ast.Name)
    name, text, value = node.target.id, ast.unparse(node.annotation), compile_expr(node.annotation, scope)

    def run(frame: Frame) -> tuple[str, Any]:
        postponed = frame.globals.get("annotations") is __future__.annotations
        return name, text if postponed else value(frame)

    return run
