"""A Program as text: one operation a line, regions indented, values named after the user's variables."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradsmith.ir.program import Block, Const, Op, Program, Value


def print_program(program: Program) -> str:
    """The typed Program as text."""
    names = _Names()
    params = ", ".join(f"{names[p]}: {p.type}" for p in program.block.params)
    lines = [f"program {program.name}({params}):", *_block(program.block, names, "  ")]
    lines.append("  return " + ", ".join(f"{names[r]}: {r.type}" for r in program.block.results))
    return "\n".join(lines)


class _Names:
    def __init__(self) -> None:
        self.taken: dict[str, int] = {}
        self.names: dict[Value, str] = {}

    def __getitem__(self, value: Value) -> str:
        if isinstance(value, Const):
            return str(value.data) if value.ndim == 0 else f"const{np.shape(value.data)}"
        if value not in self.names:
            base = value.name or "v"
            count = self.taken[base] = self.taken.get(base, -1) + 1
            self.names[value] = base if count == 0 and value.name else f"{base}.{count}"
        return self.names[value]


def _block(block: Block, names: _Names, indent: str) -> list[str]:
    return [line for op in block.ops for line in _op(op, names, indent)]


def _attr(value: Any) -> str:
    return value.__name__ if isinstance(value, type) else str(value)


def _op(op: Op, names: _Names, indent: str) -> list[str]:
    args = ", ".join(names[a] for a in op.args)
    attrs = ", ".join(f"{k}={_attr(v)}" for k, v in op.attrs.items() if k != "types")
    results = ", ".join(f"{names[r]}: {r.type}" for r in op.results)
    head = f"{results} = " if results else ""
    lines = [f"{indent}{head}{op.name}({args})" + (f" [{attrs}]" if attrs else "") + (" {" if op.regions else "")]
    for k, region in enumerate(op.regions):
        if k:
            lines.append(indent + "} {")
        if region.params:
            lines.append(f"{indent}  params " + ", ".join(f"{names[p]}: {p.type}" for p in region.params))
        lines += _block(region, names, indent + "  ")
        if region.results:
            lines.append(f"{indent}  yield " + ", ".join(names[r] for r in region.results))
    if op.regions:
        lines.append(indent + "}")
    return lines
