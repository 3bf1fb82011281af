"""Matrix products by the BLAS that SciPy ships."""

from __future__ import annotations

from collections.abc import Callable

from gradsmith.backends.native.lower import Lowering
from gradsmith.ir.program import Op

HANDLERS: dict[str, Callable[[Lowering, Op], bool]] = {}
