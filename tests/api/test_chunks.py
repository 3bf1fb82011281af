"""Forward mode in chunks: the same Jacobians, whatever the chunk size."""

from typing import Any

import numpy as np
import pytest

import gradsmith as gs


def recurrence(x: np.ndarray) -> np.ndarray:
    out, s = np.zeros(len(x)), 0.3
    for _ in range(3):
        for i in range(len(x)):
            s = np.sin(s * x[i]) + 0.5 * x[i] ** 2
            out[i] += s
    return out


def newton(x: np.ndarray) -> Any:
    y = x[0]
    while abs(y * y - x[1]) > 1e-12:
        y = 0.5 * (y + x[1] / y) if y > 0 else -y
    return y * x


def stencil(u: np.ndarray) -> np.ndarray:
    u = u.copy()
    kept = []
    for _ in range(4):
        u[1:-1] += 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2]) * u[1:-1]
        kept.append(u.sum())
    return np.array(kept)


def checkpointed(x: np.ndarray) -> np.ndarray:
    return gs.checkpoint(recurrence)(x) * 2.0


def solved(x: np.ndarray) -> np.ndarray:
    y = x
    for _ in range(2):
        y = np.linalg.solve(np.outer(y, y) + np.eye(len(x)), x)
    return y


def complex_step(f: Any, x: np.ndarray) -> np.ndarray:
    columns = []
    for k in range(x.size):
        h = np.zeros(x.size)
        h[k] = 1e-6
        columns.append((f(x + h) - f(x - h)) / 2e-6)
    return np.stack(columns, -1)


@pytest.mark.parametrize("backend", ["native", "python"])
@pytest.mark.parametrize("f", [recurrence, newton, stencil, checkpointed, solved])
def test_every_chunk_size_gives_the_jacobian(f: Any, backend: str) -> None:
    x = np.array([0.7, 1.3, -0.4, 0.9, 1.1])
    expected = complex_step(f, x)
    for chunk in (None, 1, 2, 3, 5, 8):
        jacobian = gs.jacobian(f, mode="forward", chunk_size=chunk, backend=backend)
        np.testing.assert_allclose(jacobian(x), expected, rtol=1e-6, atol=1e-8)
        if f is not newton:
            np.testing.assert_allclose(jacobian(x[:4]), complex_step(f, x[:4]), rtol=1e-6, atol=1e-8)


def test_matrices_structures_numbers_and_empty_arguments() -> None:
    def f(p: dict[str, Any]) -> Any:
        total = np.zeros(2)
        for _ in range(2):
            total = np.tanh(p["w"] @ (total + p["b"])) * p["s"]
        return total

    p = {"w": np.array([[0.3, -0.2], [0.5, 0.1]]), "b": np.array([1.0, 2.0]), "s": 0.5}
    by_reverse = gs.jacobian(f, mode="reverse")(p)
    for chunk in (None, 1, 3):
        found = gs.jacobian(f, mode="forward", chunk_size=chunk)(p)
        for key in p:
            np.testing.assert_allclose(found[key], by_reverse[key], rtol=1e-12)
    assert gs.jacobian(recurrence, mode="forward", chunk_size=4)(np.zeros(0)).shape == (0, 0)


def test_hessians_use_chunks() -> None:
    def energy(x: np.ndarray) -> Any:
        total = 0.0
        for k in range(20):
            total += np.sin(total * x[k % 5]) + x[k % 5] ** 3
        return total

    x = np.linspace(0.1, 0.9, 5)
    expected = complex_step(gs.grad(energy), x)
    np.testing.assert_allclose(gs.hessian(energy)(x), expected, rtol=1e-5, atol=1e-7)


def test_columns_share_values_only() -> None:
    def diffusion(u: np.ndarray) -> np.ndarray:
        u = u.copy()
        for _ in range(4):
            u[1:-1] += 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
        return u

    def program(f: Any, chunk: int | None) -> str:
        return gs.jacobian(f, mode="forward", chunk_size=chunk).program(np.linspace(0.1, 0.9, 5))

    assert program(diffusion, None) == program(diffusion, 1)
    assert program(recurrence, None) == program(recurrence, 5) != program(recurrence, 1)


@pytest.mark.parametrize("chunk", [0, -1, 2.0, True])
def test_errors(chunk: Any) -> None:
    with pytest.raises(ValueError, match="chunk_size must be a positive integer"):
        gs.jacobian(recurrence, mode="forward", chunk_size=chunk)
