"""Shown source of many programs: it runs alone, is the derivative on every path, and has nothing a reviewer would strike out."""

from __future__ import annotations

import ast
import inspect
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradsmith as gs
from tests.source.programs import cases

ALLOWED_IMPORTS = re.compile(r"import (numpy as np|scipy\.special|scipy\.linalg)$")


@pytest.fixture(scope="module")
def sources() -> dict[str, str]:
    return {name: derivative.source(*points[0]) for name, (derivative, points) in cases.CASES.items()}


def executed(derivative: Any, source: str) -> Any:
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    return namespace[derivative.__name__]


def call(derivative: Any, shown: Any, args: tuple[Any, ...]) -> Any:
    """Call shown source as the derivative itself, and give it what that reads from outside."""
    parameters = inspect.signature(shown).parameters
    owner = (derivative.__wrapped__.__self__,) if next(iter(parameters), "") == "self" else ()
    required = [p for p in parameters.values() if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    return shown(*owner, *args, **{p.name: getattr(cases, p.name) for p in required})


@pytest.mark.parametrize("name", cases.CASES)
def test_it_runs_alone_and_is_what_is_compiled(name: str, sources: dict[str, str]) -> None:
    derivative, points = cases.CASES[name]
    imports = [line for line in sources[name].splitlines() if line.startswith(("import ", "from "))]
    assert all(ALLOWED_IMPORTS.match(line) for line in imports), imports
    shown = executed(derivative, sources[name])
    for args in points:
        found, structure = gs.tree.flatten(call(derivative, shown, args))
        expected, expected_structure = gs.tree.flatten(derivative(*args))
        assert structure == expected_structure
        for x, y in zip(found, expected, strict=True):
            if isinstance(y, np.ndarray | float):
                np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)
            else:
                assert x == y


def test_a_linter_finds_nothing(sources: dict[str, str], tmp_path: Path) -> None:
    """No unused import or variable, no line of more than 120 characters."""
    if shutil.which("ruff") is None:
        pytest.skip("needs ruff")
    for name, source in sources.items():
        (tmp_path / f"{name.replace('#', '_')}.py").write_text(source)
    command = ["ruff", "check", "--isolated", "--select", "F,E501,E7,B007,PLR1711,PIE790", "--ignore", "E741"]
    found = subprocess.run([*command, "--line-length", "120", str(tmp_path)], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout


def number(node: ast.AST, value: float) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float) and node.value == value


def blemishes(tree: ast.AST) -> Iterator[str]:
    """Statements and expressions that do nothing."""
    for node in ast.walk(tree):
        text = ast.unparse(node) if isinstance(node, ast.stmt | ast.expr) else ""
        if isinstance(node, ast.BinOp):
            if isinstance(node.op, ast.Add) and (number(node.left, 0) or number(node.right, 0)):
                yield text
            if isinstance(node.op, ast.Mult) and (number(node.left, 1) or number(node.right, 1)):
                yield text
            if isinstance(node.op, ast.Div | ast.Pow) and number(node.right, 1):
                yield text
        if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.UnaryOp):
            if type(node.op) is type(node.operand.op):
                yield text
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add | ast.Sub) and number(node.value, 0):
            yield text
        if isinstance(node, ast.Assign) and [ast.unparse(t) for t in node.targets] == [ast.unparse(node.value)]:
            yield text
        if isinstance(node, ast.If | ast.IfExp) and isinstance(node.test, ast.Constant):
            yield text
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Name | ast.BinOp | ast.Subscript):
            yield text
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("np.add", "np.subtract", "np.multiply"):
            yield text


@pytest.mark.parametrize("name", cases.CASES)
def test_nothing_is_written_in_vain(name: str, sources: dict[str, str]) -> None:
    tree = ast.parse(sources[name])
    function = [node for node in tree.body if isinstance(node, ast.FunctionDef)][-1]
    assert list(blemishes(function)) == []
    names = [n for n in ast.walk(function) if isinstance(n, ast.Name)]
    stored = {n.id for n in names if isinstance(n.ctx, ast.Store)} - {"_"}
    assert stored <= {n.id for n in names if isinstance(n.ctx, ast.Load)}
    assert not {n for n in stored if re.fullmatch(r"[tcv]\d+|value(_\d+)?|filled(_\d+)?|saved(_\d+)?", n)}
    assert ast.get_docstring(function)
