"""Back ends for the edge cases. LLVM's optimiser takes most of the time, so it is left out but for the slow tests."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest

from gradsmith.backends.native import program


@pytest.fixture(params=["python", "native", pytest.param("optimised", marks=pytest.mark.slow)])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Each back end; the native one twice, without and with optimisation."""
    if request.param == "native":
        monkeypatch.setattr(program, "compile_module", functools.partial(program.compile_module, level=0))
    yield "python" if request.param == "python" else "native"
