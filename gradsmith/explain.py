"""What a compiled derivative does, in words: native and host operations, what the reverse pass stores, compile time."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from gradsmith.ir.describe import describe
from gradsmith.ir.program import Block, Const, Op, Program

if TYPE_CHECKING:
    from gradsmith.call import Specialisation


def explain(s: Specialisation) -> str:
    """A report on one specialisation."""
    program = s.program
    ops = list(program.block.walk())
    hosts = Counter(op.attrs["fn"] for op in ops if op.name == "host")
    loops = Counter(op.name for op in ops if op.name in ("for", "while", "if"))
    lines = [
        f"{program.name}: {len(ops)} operations ({', '.join(f'{n} {k}' for k, n in loops.items()) or 'no control flow'})",
        f"inputs: {', '.join(f'{p.name or p.type}: {p.type}' for p in program.block.params) or 'none'}"
        + (f" ({len(s.captures)} read from outside at each call)" if s.captures else ""),
        "host calls: " + (", ".join(f"{name} ({n})" for name, n in hosts.items()) if hosts else "none, all native"),
        "stored for the reverse pass: " + (", ".join(stored(program)) or "nothing"),
        *s.recomputed,
        f"staging {s.staging_seconds * 1e3:.1f} ms, compilation {s.compile_seconds * 1e3:.1f} ms",
    ]
    return "\n".join(lines)


def recomputation(op: Op) -> str:
    """What a checkpoint keeps for the backward sweep, and what that computes again instead of storing it."""
    kept = sorted({str(a.name or a.type) for a in op.args if not isinstance(a, Const)})
    spared = Counter(v.name or str(v.type) for v in op.attrs["recomputed"] if getattr(v.type, "ndim", 1))
    names = ", ".join(name if n == 1 else f"{n} × {name}" for name, n in spared.items())
    where = f" (line {op.loc.line})" if op.loc else ""
    keeps = f"checkpoint {op.attrs['function']}{where}: keeps {', '.join(kept) or 'nothing'}"
    return f"{keeps}; computed again instead of stored: {names or 'nothing'}"


def stored(program: Program) -> list[str]:
    """What loops push or write row by row for a later loop to read back."""
    found: list[str] = []

    def visit(block: Block, loop: Op | None) -> None:
        for op in block.ops:
            if op.attrs.get("saved"):
                value = op.args[1]
                if value.name.endswith("_saved"):
                    continue  # what an inner loop stored, whose own entry says so
                word = describe(value.op, lambda a: a.name) if value.op is not None else ""
                what = value.name or f"{value.type}{f' ({word})' if word else ''}"
                where = f" (line {loop.loc.line})" if loop is not None and loop.loc else ""
                found.append(f"{what} once per iteration of the loop{where}")
            for region in op.regions:
                visit(region, op if op.name in ("for", "while") else loop)

    visit(program.block, None)
    return [text if n == 1 else f"{n} × {text}" for text, n in Counter(found).items()]
