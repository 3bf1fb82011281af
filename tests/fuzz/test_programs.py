"""Random Python functions: plain Python against both back ends, forward against reverse mode, both against differences."""

from __future__ import annotations

import copy
import functools
import hashlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gradsmith as gs
from gradsmith.backends.native import program
from gradsmith.errors import UnsupportedCode
from tests.fuzz.source_programs import arguments, source

MOVING = (0, 1, 2, 3, 4)


@pytest.fixture(autouse=True)
def unoptimised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "compile_module", functools.partial(program.compile_module, level=0))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("programs")


@st.composite
def sources(draw: Any) -> str:
    return source(lambda n: draw(st.integers(0, n - 1)), draw(st.integers(3, 14)))


_QUIET = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]


@settings(max_examples=80, deadline=None, suppress_health_check=_QUIET)
@given(sources(), st.integers(0, 1000))
def test_random_functions(folder: Path, text: str, seed: int) -> None:
    check(function(text, folder), seed)


@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=_QUIET)
@given(sources(), st.integers(0, 1000))
def test_many_random_functions(folder: Path, text: str, seed: int) -> None:
    check(function(text, folder), seed)


def function(text: str, folder: Path) -> Callable[..., Any]:
    """``f`` of the module with this source, written to a file of its own."""
    name = "program_" + hashlib.sha256(text.encode()).hexdigest()[:16]
    path = folder / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.f


def check(f: Callable[..., Any], seed: int) -> bool:
    """Judge ``f`` at several points with the same compiled objects; False when the source front end refuses it."""
    values = {b: gs.jit(f, backend=b, engine="source") for b in ("python", "native")}
    reverse = {b: gs.grad(f, MOVING, backend=b, engine="source") for b in ("python", "native")}
    forward = {b: gs.jacobian(f, MOVING, mode="forward", backend=b, engine="source") for b in ("python", "native")}
    for k in range(3):
        args = arguments(seed + 1000 * k)
        plain = copy.deepcopy(args)
        expected = f(*plain)
        if not np.isfinite(expected):
            continue
        try:
            for backend, compiled in values.items():
                own = copy.deepcopy(args)
                close([compiled(*own)], [expected], 1e-9, f"value ({backend})")
                close(own, plain, 1e-9, f"arguments after the call ({backend})")
            if not isinstance(expected, float):
                continue
            found = {f"{mode} {b}": d[b](*args) for mode, d in (("reverse", reverse), ("forward", forward)) for b in d}
        except UnsupportedCode:
            return False
        close(args, arguments(seed + 1000 * k), 0.0, "arguments after a derivative")
        names = list(found)
        for name in names[1:]:
            close(found[name], found[names[0]], 1e-7, f"{name} against {names[0]}")
        compare_with_differences(f, args, found[names[0]])
    return True


def close(found: Any, expected: Any, tolerance: float, what: str) -> None:
    scale = 1.0 + max(np.max(np.abs(e), initial=0.0) for e in expected)
    for a, b in zip(found, expected, strict=True):
        assert np.shape(a) == np.shape(b), f"{what}: shape {np.shape(a)}, expected {np.shape(b)}"
        assert np.all(np.abs(np.subtract(a, b)) <= tolerance * scale), f"{what}: {a}, expected {b}"


def compare_with_differences(f: Callable[..., Any], args: list[Any], gradient: Any) -> None:
    """Along a random direction, unless differences of two steps disagree: a kink is near, or rounding spoils them."""
    rng = np.random.default_rng(0)
    directions = [rng.uniform(-1.0, 1.0, np.shape(args[k])) for k in MOVING]

    def at(h: float) -> float:
        moved = copy.deepcopy(args)
        for k, d in zip(MOVING, directions, strict=True):
            moved[k] = moved[k] + h * d if isinstance(moved[k], np.ndarray) else float(moved[k] + h * d)
        return float(f(*moved))

    coarse, fine = ((8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h) for h in (1e-4, 3e-5))
    scale = 1.0 + abs(fine)
    if abs(coarse - fine) <= 1e-7 * scale:
        slope = sum(np.sum(g * d) for g, d in zip(gradient, directions, strict=True))
        assert abs(slope - fine) <= 1e-5 * scale, f"the derivative is {slope}, differences give {fine}"
