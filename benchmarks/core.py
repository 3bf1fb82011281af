"""`python -m benchmarks.core`: the table of the README, as text, Markdown, JSON and a plot.

python -m benchmarks.core                    all rows, some minutes
python -m benchmarks.core --quick            all rows, fewer rounds
python -m benchmarks.core --only a,b,first   some rows
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

SINGLE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "NPROC": "1",  # XLA's thread pools
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
}
DOUBLE_PRECISION_CPU = {"JAX_ENABLE_X64": "1", "JAX_PLATFORMS": "cpu"}
SLOW_KERNELS = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")  # overrides of OpenBLAS's choice for this processor


def restart_with_settings() -> None:
    """Libraries read these variables when they are loaded, so the process starts again with them."""
    wanted = {**SINGLE_THREAD, **DOUBLE_PRECISION_CPU}
    if all(os.environ.get(name) == value for name, value in wanted.items()) and not any(
        name in os.environ for name in SLOW_KERNELS
    ):
        return
    environment = {name: value for name, value in os.environ.items() if name not in SLOW_KERNELS}
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**environment, **wanted})


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds: rough numbers in about two minutes")
    parser.add_argument("--only", metavar="ROWS", help="comma-separated names of rows")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder of the results (default: out)")
    options = parser.parse_args()
    restart_with_settings()

    from benchmarks import report
    from benchmarks.cases import calls, elementwise, loops, networks, processes
    from benchmarks.timing import FULL, QUICK

    cases = [case for part in (elementwise, calls, loops, networks, processes) for case in part.cases()]
    if options.only:
        names = options.only.split(",")
        if unknown := set(names) - {case.name for case in cases}:
            parser.error(f"unknown rows {', '.join(sorted(unknown))}; known: {', '.join(c.name for c in cases)}")
        cases = [case for case in cases if case.name in names]

    environment = report.environment()
    print(report.environment_text(environment), flush=True)
    rows = []
    for case in cases:
        row = report.Row(case, case.measure(QUICK if options.quick else FULL))
        print(report.row_text(row), flush=True)
        rows.append(row)
    print(report.summary_text(rows))
    report.write(rows, environment, options.out)
    print(f"written: {options.out}/core.json, core.txt, core.md, core.png")
    return int(any(row.outcome.failed for row in rows))


if __name__ == "__main__":
    sys.exit(main())
