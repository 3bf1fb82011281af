"""Jacobians with complex numbers: the same by forward and reverse mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradsmith as gs
from gradsmith.errors import NotDifferentiable

modes = pytest.mark.parametrize("mode", ["forward", "reverse", "auto"])
both = pytest.mark.parametrize("backend", ["native", "python"])

Z = np.array([1 + 2j, -0.5 + 0.3j, 0.7 - 1j])
X = np.array([0.3, 0.4, 0.9])


def columns(f: Any, x: Any, direction: complex = 1.0) -> Any:
    """Differences of ``f`` along ``direction`` in each element of ``x``."""
    steps = 1e-6 * direction * np.eye(len(x))
    return np.stack([(np.asarray(f(x + h)) - np.asarray(f(x - h))) / 2e-6 for h in steps], axis=-1)


@modes
@both
@pytest.mark.parametrize("f", [lambda z: z**2 * z[::-1], lambda z: np.sum(np.exp(z)), lambda z: np.outer(z, z)])
def test_holomorphic_functions(f: Any, mode: str, backend: str) -> None:
    got = gs.jacobian(f, mode=mode, holomorphic=True, backend=backend)(Z)
    np.testing.assert_allclose(got, columns(f, Z), rtol=1e-7, atol=1e-8)


@modes
@both
@pytest.mark.parametrize(
    "f", [lambda x: np.exp(1j * x) * x[0], lambda x: np.sum(np.exp(1j * x)), lambda x: np.fft.fft(x)[:2] * x[1]]
)
def test_complex_results_of_real_numbers(f: Any, mode: str, backend: str) -> None:
    got = gs.jacobian(f, mode=mode, backend=backend)(X)
    np.testing.assert_allclose(got, columns(f, X), rtol=1e-7, atol=1e-8)


@modes
@both
@pytest.mark.parametrize("f", [lambda z: np.abs(z) ** 2, lambda z: (z * z[::-1]).imag, lambda z: np.abs(np.sum(z))])
def test_rows_for_real_results_are_gradients(f: Any, mode: str, backend: str) -> None:
    got = gs.jacobian(f, mode=mode, backend=backend)(Z)
    np.testing.assert_allclose(got, columns(f, Z) + 1j * columns(f, Z, 1j), rtol=1e-7, atol=1e-8)


@modes
def test_results_and_arguments_of_both_kinds(mode: str) -> None:
    def f(x: Any, z: Any) -> Any:
        return x[0] * z**2, np.abs(z) * x

    (by_x, by_z), (real_by_x, real_by_z) = gs.jacobian(f, (0, 1), mode=mode, holomorphic=True)(X, Z)
    np.testing.assert_allclose(by_x, columns(lambda x: f(x, Z)[0], X), atol=1e-8)
    np.testing.assert_allclose(by_z, columns(lambda z: f(X, z)[0], Z), atol=1e-8)
    np.testing.assert_allclose(real_by_x, columns(lambda x: f(x, Z)[1], X), atol=1e-8)
    gradient = columns(lambda z: f(X, z)[1], Z) + 1j * columns(lambda z: f(X, z)[1], Z, 1j)
    np.testing.assert_allclose(real_by_z, gradient, atol=1e-8)


def test_what_is_no_complex_matrix_is_refused() -> None:
    for f in (gs.jacobian(np.conj), gs.hessian(lambda z: np.sum(np.abs(z) ** 4))):
        with pytest.raises(NotDifferentiable, match="holomorphic"):
            f(Z)
    with pytest.raises(NotDifferentiable, match="hvp"):
        gs.value_grad_hessian(lambda z: np.sum(np.abs(z) ** 4))(Z)
    assert gs.hvp(lambda z: np.sum(np.abs(z) ** 4))(Z, Z).dtype == complex


@both
def test_numbers(backend: str) -> None:
    options: Any = {"holomorphic": True, "backend": backend}
    assert gs.jacobian(lambda z: z**2, mode="reverse", **options)(1 + 2j) == 2 + 4j
    assert gs.jacobian(lambda z: z**2, mode="forward", **options)(1 + 2j) == 2 + 4j
    assert gs.jacobian(lambda x: 1j * x, mode="reverse", backend=backend)(2.0) == 1j
