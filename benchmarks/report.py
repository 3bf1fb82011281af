"""The results of a run: text, Markdown, JSON, plot."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import gradsmith
from benchmarks.contest import GRADSMITH, Case, Outcome, Target
from benchmarks.timing import ratio

LIBRARIES = ("numpy", "scipy", "llvmlite", "numba", "autograd", "jax", "torch")
COLOURS = {
    "NumPy primal": "#4c78a8",
    "Numba primal": "#54a24b",
    "own primal": "#9d9da1",
    "autograd": "#b279a2",
    "JAX": "#f58518",
    "PyTorch": "#e45756",
    "Numba": "#54a24b",
    "NumPy": "#4c78a8",
}


@dataclass(frozen=True)
class Row:
    case: Case
    outcome: Outcome

    def verdicts(self) -> list[tuple[Target, float | None, bool | None]]:
        """Each target with what was measured and whether it is met; None where a side is missing."""
        values = [(target, target.value(self.outcome)) for target in self.case.targets]
        return [(target, value, None if value is None else value <= target.limit) for target, value in values]


# --- the machine -------------------------------------------------------------------------------


def environment() -> dict[str, Any]:
    """Machine, versions, settings: what a reader needs to judge the numbers."""
    versions = {"gradsmith": gradsmith.__version__}
    for name in LIBRARIES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed"
    limit_torch_threads()
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": versions,
        "threads": "one for every contestant",
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "blas": blas_kernels(),
    }


def limit_torch_threads() -> None:
    try:
        torch = importlib.import_module("torch")
    except ModuleNotFoundError:
        return
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    facts = dict(line.split(":", 1) for line in reversed(lines) if ":" in line)
    facts = {name.strip(): value.strip() for name, value in facts.items()}
    model = [facts.get("model name", platform.machine())]
    model += [f"family {facts['cpu family']} model {facts['model']}"] if "cpu family" in facts else []
    return ", ".join(model)


def blas_kernels() -> str:
    """The kernels of the loaded BLAS libraries, NumPy's and SciPy's."""
    try:
        threadpoolctl = importlib.import_module("threadpoolctl")
    except ModuleNotFoundError:
        return "unknown (threadpoolctl is not installed)"
    importlib.import_module("scipy.linalg")
    pools = [pool for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]
    return "; ".join(
        f"{pool['internal_api']} {pool['version']} {pool.get('architecture', '')}, {pool['num_threads']} thread"
        for pool in pools
    )


def environment_text(facts: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    return (
        f"{facts['processor']}, {facts['cores']} cores, Python {facts['python']}\n{versions}\n"
        f"threads: {facts['threads']}; BLAS: {facts['blas']}\n{load_text(facts['load'])}"
    )


def load_text(load: float | None) -> str:
    """A warning when other processes were busy at the start: interleaving evens that out only in part."""
    return (
        "" if load is None or load < 0.7 else f"WARNING: load average {load:.1f}, other processes disturb the times\n"
    )


# --- text --------------------------------------------------------------------------------------


def amount(value: float, unit: str) -> str:
    """Three digits with a fitting prefix."""
    if unit != "s":
        return f"{value:.0f} {unit}"
    for factor, name in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= factor:
            return f"{value / factor:.3g} {name}"
    return f"{value * 1e9:.3g} ns"


def verdict_text(target: Target, value: float | None, met: bool | None, unit: str) -> str:
    if target.contestant is None:
        wanted, shown = f"≤ {amount(target.limit, unit)}", "" if value is None else amount(value, unit)
    else:
        wanted, shown = f"≤ {target.limit:g} × {target.contestant}", "" if value is None else f"{value:.3g}"
    mark = {True: "met", False: "MISSED", None: "not measured"}[met]
    return f"{wanted}: {shown + ' ' if shown else ''}{mark}"


def row_text(row: Row) -> str:
    """A block of lines: one for each contestant with its ratio to gradsmith, then the targets."""
    case, outcome = row.case, row.outcome
    ours = outcome.samples.get(GRADSMITH)
    lines = [f"{case.name}: {case.title}"]
    for name, samples in outcome.samples.items():
        relative = f"  gradsmith / this = {ratio(ours, samples):.3g}" if ours and name != GRADSMITH else ""
        lines.append(f"    {name:<22} {amount(median(samples), case.unit):>10}{relative}")
    lines += [f"    {name:<22} {'—':>10}  {reason}" for name, reason in outcome.skipped.items()]
    lines += [f"    {name:<22} {'FAILED':>10}  {reason}" for name, reason in outcome.failed.items()]
    lines += [f"    note: {note}" for note in outcome.notes]
    lines += [f"    target {verdict_text(*verdict, case.unit)}" for verdict in row.verdicts()]
    return "\n".join(lines)


def summary_text(rows: Sequence[Row]) -> str:
    verdicts = [met for row in rows for _, _, met in row.verdicts()]
    missing = verdicts.count(None)
    text = f"{verdicts.count(True)} of {len(verdicts)} targets met"
    return text + (f", {missing} not measured" if missing else "")


def markdown(rows: Sequence[Row], facts: dict[str, Any]) -> str:
    """One table: times, ratios gradsmith / contestant in brackets, targets."""
    names = list(dict.fromkeys(name for row in rows for name in row.outcome.samples if name != GRADSMITH))
    names = [name for name in names if not name.startswith(GRADSMITH)]
    lines = [
        f"{facts['processor']}, {facts['cores']} cores, one thread; Python {facts['python']}; "
        + ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
        + ". In brackets: gradsmith's time divided by this one.",
        "",
        "| work | gradsmith | " + " | ".join(names) + " | targets |",
        "|" + " --- |" * (len(names) + 3),
    ]
    for row in rows:
        samples, ours = row.outcome.samples, row.outcome.samples.get(GRADSMITH)
        cells = [f"{row.case.name}. {row.case.title}", amount(median(ours), row.case.unit) if ours else "failed"]
        for name in names:
            theirs = samples.get(name)
            relative = f" ({ratio(ours, theirs):.3g})" if ours and theirs else ""
            cells.append(amount(median(theirs), row.case.unit) + relative if theirs else "–")
        cells.append("; ".join(verdict_text(*verdict, row.case.unit) for verdict in row.verdicts()))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


# --- files -------------------------------------------------------------------------------------


def as_json(rows: Sequence[Row], facts: dict[str, Any]) -> dict[str, Any]:
    def row_json(row: Row) -> dict[str, Any]:
        ours, samples = row.outcome.samples.get(GRADSMITH), row.outcome.samples.items()
        return {
            "name": row.case.name,
            "title": row.case.title,
            "unit": row.case.unit,
            "median": {name: median(seconds) for name, seconds in samples},
            "ratio": {name: ratio(ours, theirs) for name, theirs in samples if name != GRADSMITH} if ours else {},
            "samples": row.outcome.samples,
            "skipped": row.outcome.skipped,
            "failed": row.outcome.failed,
            "notes": row.outcome.notes,
            "targets": [
                {"contestant": target.contestant, "limit": target.limit, "value": value, "met": met}
                for target, value, met in row.verdicts()
            ],
        }

    return {"environment": facts, "rows": [row_json(row) for row in rows]}


def write(rows: Sequence[Row], facts: dict[str, Any], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = "\n".join([environment_text(facts), *(row_text(row) for row in rows), summary_text(rows), ""])
    (folder / "core.txt").write_text(text, encoding="utf-8")
    (folder / "core.md").write_text(markdown(rows, facts), encoding="utf-8")
    (folder / "core.json").write_text(json.dumps(as_json(rows, facts), indent=1, ensure_ascii=False), encoding="utf-8")
    plot(rows, folder / "core.png")


def plot(rows: Sequence[Row], path: Path) -> None:
    """Bars of the contestants' times divided by gradsmith's, on a logarithmic axis: right of 1, gradsmith is faster."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    drawn = [row for row in rows if row.case.unit == "s" and GRADSMITH in row.outcome.samples]
    if not drawn:
        return
    bars = [[name for name in row.outcome.samples if name in COLOURS] for row in drawn]
    height = sum(len(names) + 1.2 for names in bars)
    figure, axes = plt.subplots(figsize=(10, 1.6 + 0.2 * height), layout="constrained")
    y, ticks, labels, seen = 0.0, [], [], set()
    for row, names in zip(drawn, bars, strict=True):
        ours = row.outcome.samples[GRADSMITH]
        ticks.append(y + (len(names) - 1) / 2)
        labels.append(f"{row.case.name}\n{amount(median(ours), 's')}")
        for name in names:
            faster = 1 / ratio(ours, row.outcome.samples[name])
            axes.barh(
                y, faster - 1, left=1, color=COLOURS[name], label=None if COLOURS[name] in seen else name, height=0.82
            )
            axes.text(
                faster * (1.06 if faster >= 1 else 0.94),
                y,
                f"{faster:.2g}" if faster < 100 else f"{faster:,.0f}",
                va="center",
                ha="left" if faster >= 1 else "right",
                fontsize=7,
            )
            seen.add(COLOURS[name])
            y += 1
        y += 1.2
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.margins(x=0.12)
    axes.set_yticks(ticks, labels)
    axes.set_ylim(y - 0.6, -1)
    axes.set_xlabel("time of the contestant ÷ time of gradsmith's derivative (right of 1: gradsmith is faster)")
    axes.set_title("gradsmith's derivative (its time under each name) against primals and other libraries")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.03), ncols=6, fontsize=9)
    figure.savefig(path, dpi=150)
    plt.close(figure)
