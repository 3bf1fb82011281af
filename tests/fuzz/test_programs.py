"""Random Python functions: plain Python against both back ends, forward against reverse mode, both against differences.

More of them, for longer: ``python -m tests.fuzz.run --minutes 20``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gradsmith.backends.native import program
from tests.fuzz.judge import WAYS, Refused, check, function
from tests.fuzz.source_programs import source
from tests.fuzz.wide_programs import random_wide_source

_QUIET = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]


@pytest.fixture(autouse=True)
def unoptimised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "compile_module", functools.partial(program.compile_module, level=0))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("programs")


@st.composite
def sources(draw: Any) -> str:
    return source(lambda n: draw(st.integers(0, n - 1)), draw(st.integers(3, 14)))


def right_or_refused(judge: Callable[..., None], f: Callable[..., Any], seed: int) -> None:
    try:
        judge(f, seed)
    except Refused:
        pass


@settings(max_examples=80, deadline=None, suppress_health_check=_QUIET)
@given(sources(), st.integers(0, 1000))
def test_random_functions(folder: Path, text: str, seed: int) -> None:
    right_or_refused(check, function(text, folder), seed)


@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=_QUIET)
@given(sources(), st.integers(0, 1000))
def test_many_random_functions(folder: Path, text: str, seed: int) -> None:
    right_or_refused(check, function(text, folder), seed)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "seed", [*range(3000, 3002), *(pytest.param(s, marks=pytest.mark.slow) for s in range(3002, 3040))]
)
def test_random_functions_of_a_wider_kind(folder: Path, seed: int, way: str) -> None:
    right_or_refused(WAYS[way], function(random_wide_source(seed, 3 + seed % 14), folder), seed)
