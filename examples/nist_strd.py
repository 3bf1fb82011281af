"""Fit the 27 nonlinear regression problems of NIST's Statistical Reference Datasets with exact Jacobians.

Every model below is an ordinary NumPy function. `gs.jacobian(model)` compiles its derivative; SciPy's
Levenberg-Marquardt does the rest. The certified parameters of NIST judge the result: digits of agreement are log
relative errors, -log10(|b - certified| / |certified|), the worst over the parameters, capped at 11 (as many as NIST
certifies).

    python examples/nist_strd.py
    python examples/nist_strd.py --problems Misra1a,ENSO --out out/
"""

from __future__ import annotations

import argparse
import functools
import re
import sys
import timeit
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from scipy.optimize import OptimizeResult, least_squares
from scipy.optimize._numdiff import approx_derivative  # what least_squares itself runs for jac="2-point"
from tqdm import tqdm

import gradsmith as gs

DATA = Path(__file__).parent / "data" / "nist_strd"
MAX_DIGITS = 11.0
ENOUGH_DIGITS = 6.0
MAY_FAIL = 2  # of 27, from start 2
PLOTTED = ("Gauss2", "ENSO", "Hahn1", "Thurber", "Eckerle4", "Rat43")

Model = Callable[[np.ndarray, np.ndarray], np.ndarray]

# --- the models, as NIST states them --------------------------------------------------------------


def bennett5(b, x):
    return b[0] * (b[1] + x) ** (-1 / b[2])


def boxbod(b, x):
    return b[0] * (1 - np.exp(-b[1] * x))


def chwirut(b, x):
    return np.exp(-b[0] * x) / (b[1] + b[2] * x)


def danwood(b, x):
    return b[0] * x ** b[1]


def eckerle4(b, x):
    return b[0] / b[1] * np.exp(-0.5 * ((x - b[2]) / b[1]) ** 2)


def enso(b, x):
    y = b[0] + b[1] * np.cos(2 * np.pi * x / 12) + b[2] * np.sin(2 * np.pi * x / 12)
    for k in (3, 6):
        phase = 2 * np.pi * x / b[k]
        y += b[k + 1] * np.cos(phase) + b[k + 2] * np.sin(phase)
    return y


def gauss(b, x):
    decay = b[0] * np.exp(-b[1] * x)
    return decay + b[2] * np.exp(-(((x - b[3]) / b[4]) ** 2)) + b[5] * np.exp(-(((x - b[6]) / b[7]) ** 2))


def cubic_ratio(b, x):
    return (b[0] + b[1] * x + b[2] * x**2 + b[3] * x**3) / (1 + b[4] * x + b[5] * x**2 + b[6] * x**3)


def kirby2(b, x):
    return (b[0] + b[1] * x + b[2] * x**2) / (1 + b[3] * x + b[4] * x**2)


def lanczos(b, x):
    y = np.zeros(len(x))
    for k in range(0, len(b), 2):
        y += b[k] * np.exp(-b[k + 1] * x)
    return y


def mgh09(b, x):
    return b[0] * (x**2 + x * b[1]) / (x**2 + x * b[2] + b[3])


def mgh10(b, x):
    return b[0] * np.exp(b[1] / (x + b[2]))


def mgh17(b, x):
    return b[0] + b[1] * np.exp(-x * b[3]) + b[2] * np.exp(-x * b[4])


def misra1a(b, x):
    return b[0] * (1 - np.exp(-b[1] * x))


def misra1b(b, x):
    return b[0] * (1 - (1 + b[1] * x / 2) ** -2)


def misra1c(b, x):
    return b[0] * (1 - (1 + 2 * b[1] * x) ** -0.5)


def misra1d(b, x):
    return b[0] * b[1] * x * (1 + b[1] * x) ** -1


def nelson(b, x):
    time, temperature = x
    return b[0] - b[1] * time * np.exp(-b[2] * temperature)


def rat42(b, x):
    return b[0] / (1 + np.exp(b[1] - b[2] * x))


def rat43(b, x):
    return b[0] / (1 + np.exp(b[1] - b[2] * x)) ** (1 / b[3])


def roszman1(b, x):
    return b[0] - b[1] * x - np.arctan(b[2] / (x - b[3])) / np.pi


MODELS: dict[str, Model] = {
    # NIST's order: lower, average, higher level of difficulty
    "Misra1a": misra1a,
    "Chwirut2": chwirut,
    "Chwirut1": chwirut,
    "Lanczos3": lanczos,
    "Gauss1": gauss,
    "Gauss2": gauss,
    "DanWood": danwood,
    "Misra1b": misra1b,
    "Kirby2": kirby2,
    "Hahn1": cubic_ratio,
    "Nelson": nelson,
    "MGH17": mgh17,
    "Lanczos1": lanczos,
    "Lanczos2": lanczos,
    "Gauss3": gauss,
    "Misra1c": misra1c,
    "Misra1d": misra1d,
    "Roszman1": roszman1,
    "ENSO": enso,
    "MGH09": mgh09,
    "Thurber": cubic_ratio,
    "BoxBOD": boxbod,
    "Rat42": rat42,
    "MGH10": mgh10,
    "Eckerle4": eckerle4,
    "Rat43": rat43,
    "Bennett5": bennett5,
}

# --- NIST's files ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """One reference problem: data, two starting points, certified parameters."""

    name: str
    difficulty: str
    starts: np.ndarray  # (2, parameters)
    certified: np.ndarray  # (parameters,)
    x: np.ndarray  # (observations,), or (predictors, observations) if there are several
    y: np.ndarray  # (observations,); already log(y) where the model is stated for it


def read_problem(path: Path) -> Problem:
    """Parse one StRD file by its own line numbers ("Data (lines 61 to 188)") and check what it says about itself."""
    text = path.read_text(encoding="ascii")
    lines = text.splitlines()

    def section(title: str) -> list[str]:
        found = re.search(rf"{title}\s*\(lines\s*(\d+)\s*to\s*(\d+)\s*\)", text)
        if found is None:
            raise ValueError(f"{path.name}: the header does not say where to find '{title}'")
        return lines[int(found[1]) - 1 : int(found[2])]

    parameters = [
        [float(number) for number in line.split("=")[1].split()]
        for line in section("Starting Values")
        if re.match(r"\s*b\d+\s*=", line)
    ]
    rows = np.array([[float(number) for number in line.split()] for line in section("Data") if line.strip()])
    observations = re.search(r"(\d+)\s+Observations", text)
    difficulty = re.search(r"(\w+) Level of Difficulty", text)
    if observations is None or difficulty is None or len(rows) != int(observations[1]):
        raise ValueError(f"{path.name}: {len(rows)} rows of data do not fit the header")
    log_response = re.search(r"^\s*log\s*[\[(]\s*y\s*[\])]\s*=", text, re.MULTILINE) is not None
    start_1, start_2, certified, _ = np.array(parameters).T
    y, x = rows[:, 0], rows[:, 1:].T
    return Problem(
        name=path.stem,
        difficulty=difficulty[1].lower(),
        starts=np.array([start_1, start_2]),
        certified=certified,
        x=np.ascontiguousarray(x[0] if len(x) == 1 else x),
        y=np.log(y) if log_response else y.copy(),
    )


# --- one fit --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fit:
    """What one fit from one starting point gave."""

    problem: Problem
    start: int  # 1 or 2
    parameters: np.ndarray
    digits: float
    digits_by_differences: float  # of the same fit with SciPy's 2-point differences as the Jacobian
    evaluations: int  # of the model
    jacobians: int
    jacobian_seconds: float  # of one gradsmith Jacobian at the solution
    difference_seconds: float  # of SciPy's 2-point differences there


def agreeing_digits(b: np.ndarray, certified: np.ndarray) -> float:
    """Log relative error, the worst over the parameters, within 0 … 11."""
    if not np.all(np.isfinite(b)):
        return 0.0
    with np.errstate(divide="ignore"):
        digits = -np.log10(np.abs(b - certified) / np.abs(certified))
    return float(np.clip(np.min(digits), 0.0, MAX_DIGITS))


def seconds_per_call(function: Callable[[], object]) -> float:
    """Best of five batches, each of about 2 ms."""
    timer = timeit.Timer(function)
    once = min(timer.repeat(repeat=3, number=1))
    number = max(1, round(2e-3 / max(once, 1e-7)))
    return min(timer.repeat(repeat=5, number=number)) / number


@functools.cache
def jacobian_of(model: Model) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """d model(b, x) / d b, of shape (observations, parameters); compiled once for all problems that share a model."""
    return gs.jacobian(model)


def solve(residuals: Callable[[np.ndarray], np.ndarray], start: np.ndarray, jacobian: Any) -> OptimizeResult:
    """Levenberg-Marquardt, until nothing changes any more."""
    with np.errstate(all="ignore"):  # a trial step may overflow: the solver then shortens it
        return least_squares(
            residuals,
            start,
            jac=jacobian,
            method="lm",
            x_scale="jac",
            xtol=1e-15,
            ftol=1e-15,
            gtol=1e-15,
            max_nfev=10_000,
        )


def fit(problem: Problem, start: int) -> Fit:
    """Least squares from one of NIST's starting points, with gradsmith's Jacobian and with differences."""
    model, x, y = MODELS[problem.name], problem.x, problem.y
    model_jacobian = jacobian_of(model)

    def residuals(b: np.ndarray) -> np.ndarray:
        return model(b, x) - y

    def jacobian(b: np.ndarray) -> np.ndarray:
        return model_jacobian(b, x)

    exact = solve(residuals, problem.starts[start - 1], jacobian)
    differences = solve(residuals, problem.starts[start - 1], "2-point")
    b, at_b = exact.x, exact.fun
    with np.errstate(all="ignore"):
        jacobian_seconds = seconds_per_call(lambda: jacobian(b))
        difference_seconds = seconds_per_call(lambda: approx_derivative(residuals, b, method="2-point", f0=at_b))
    return Fit(
        problem,
        start,
        b,
        agreeing_digits(b, problem.certified),
        agreeing_digits(differences.x, problem.certified),
        exact.nfev,
        exact.njev,
        jacobian_seconds,
        difference_seconds,
    )


def fit_all(problems: Sequence[Problem]) -> Iterator[Fit]:
    jobs = [(problem, start) for problem in problems for start in (1, 2)]
    progress = tqdm(jobs, unit="fit", disable=None)
    for problem, start in progress:
        progress.set_description(f"{problem.name}, start {start}")
        yield fit(problem, start)


# --- what a person sees ---------------------------------------------------------------------------


def why_missed(f: Fit) -> str:
    """A flat direction of the model at the point where the solver stopped, or simply where that was."""
    jacobian = jacobian_of(MODELS[f.problem.name])(f.parameters, f.problem.x)
    influence = np.linalg.norm(jacobian, axis=0) * np.abs(f.parameters)
    flat = [f"b{k + 1}" for k in np.flatnonzero(influence < 1e-12 * influence.max())]
    stopped = f"stopped at b = {np.array2string(f.parameters, precision=6, max_line_width=200)}"
    return stopped + (f", where the model no longer depends on {', '.join(flat)}" if flat else "")


def print_table(fits: Sequence[Fit]) -> None:
    print("                                  digits with           evaluations of       one Jacobian [µs]")
    print("problem   difficulty  start   gradsmith  2-point   model  Jacobian   gradsmith  2-point  ratio")
    print("-" * 95)
    for f in fits:
        name, difficulty = (f.problem.name, f.problem.difficulty) if f.start == 1 else ("", "")
        exact, differences = f.jacobian_seconds, f.difference_seconds
        print(
            f"{name:<9} {difficulty:<10}  {f.start:>5}   {f.digits:>9.1f}  {f.digits_by_differences:>7.1f}"
            f"   {f.evaluations:>5}  {f.jacobians:>8}"
            f"   {exact * 1e6:>9.1f}  {differences * 1e6:>7.1f}  {exact / differences:>5.2f}"
        )


def print_summary(fits: Sequence[Fit]) -> None:
    for start in (1, 2):
        group = [f for f in fits if f.start == start]
        missed = [f for f in group if f.digits < ENOUGH_DIGITS]
        agreed = f"{len(group) - len(missed)} of {len(group)} agree with NIST to {ENOUGH_DIGITS:.0f} digits or more"
        by_differences = sum(f.digits_by_differences >= ENOUGH_DIGITS for f in group)
        print(f"from start {start}: {agreed} ({by_differences} with 2-point differences)")
        for f in missed:
            print(f"  {f.problem.name}: {f.digits:.1f} digits, {why_missed(f)}")
    ratio = np.median([f.jacobian_seconds / f.difference_seconds for f in fits])
    print(f"one Jacobian takes {ratio:.2f} × the time of SciPy's 2-point differences (median)")


def plot(fits: Sequence[Fit], path: Path) -> None:
    """Data, fitted curve and residuals of up to six problems with one predictor."""
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    drawable = {f.problem.name: f for f in fits if f.start == 2 and f.problem.x.ndim == 1}
    names = [name for name in PLOTTED if name in drawable] or list(drawable)[: len(PLOTTED)]
    if not names:
        return
    columns = min(3, len(names))
    rows = -(-len(names) // columns)
    figure = plt.figure(figsize=(4.6 * columns, 4.1 * rows), layout="constrained")
    figure.suptitle("NIST StRD nonlinear regression: exact Jacobians by gradsmith, Levenberg–Marquardt by SciPy")
    for subfigure, name in zip(figure.subfigures(rows, columns, squeeze=False).flat, names, strict=False):
        f, model = drawable[name], MODELS[name]
        x, y = f.problem.x, f.problem.y
        curve = np.linspace(x.min(), x.max(), 600)
        above, below = subfigure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        above.plot(x, y, "o", color="#7f8c9b", markersize=3.5, markeredgewidth=0, alpha=0.75, label="data")
        above.plot(curve, model(f.parameters, curve), color="#c0392b", linewidth=1.8, label="fit")
        above.set_title(f"{name}: {len(f.parameters)} parameters, {f.digits:.1f} digits", fontsize=11)
        above.legend(frameon=False, fontsize=9)
        below.axhline(0, color="#c0392b", linewidth=1)
        below.plot(x, y - model(f.parameters, x), "o", color="#7f8c9b", markersize=2.5, markeredgewidth=0)
        below.set_ylabel("residual", fontsize=9)
        below.set_xlabel("x", fontsize=9)
        for axes in (above, below):
            axes.spines[["top", "right"]].set_visible(False)
            axes.tick_params(labelsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder of the plot (default: out)")
    parser.add_argument("--problems", default=",".join(MODELS), help="comma-separated names (default: all 27)")
    options = parser.parse_args(arguments)
    names = [name.strip() for name in options.problems.split(",")]
    if unknown := [name for name in names if name not in MODELS]:
        parser.error(f"unknown problem {', '.join(unknown)}; known: {', '.join(MODELS)}")

    fits = list(fit_all([read_problem(DATA / f"{name}.dat") for name in names]))
    print_table(fits)
    print_summary(fits)
    picture = options.out / "nist_strd.png"
    plot(fits, picture)
    print(f"plot: {picture}")
    missed = sum(f.start == 2 and f.digits < ENOUGH_DIGITS for f in fits)
    return int(missed > (MAY_FAIL if len(names) == len(MODELS) else 0))


if __name__ == "__main__":
    sys.exit(main())
