"""The native back end: a Program as machine code, made by LLVM, that Python calls directly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradsmith.backends.native.fallback import interpreted
from gradsmith.backends.native.lower import Unsupported
from gradsmith.backends.native.program import NativeProgram
from gradsmith.ir.program import Program


def compile(program: Program) -> Callable[..., Any]:
    """A callable that runs ``program`` as machine code.

    It takes the flat arguments positionally and returns one object, or a tuple for several results; ``NotImplemented``
    when an argument is not what the Program was made for or a guard failed. It raises Python's own exceptions.
    """
    try:
        native = NativeProgram(program)
    except Unsupported:
        return interpreted(program)
    return native.function()
