"""Long fuzzing from a shell: random functions by seed, each judged in several ways.

    python -m tests.fuzz.run --minutes 20
    python -m tests.fuzz.run --kind wide --first 1234 --count 1 --show     # one seed again
    python -m tests.fuzz.run --way tape --way vmap --minutes 5

Every failure is printed with its seed; the exit status is 1 if there is one. Compiled without optimisation unless
``--optimised`` is given.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gradsmith.backends.native import program
from tests.fuzz.judge import WAYS, Refused, function
from tests.fuzz.open_judge import OPEN_WAYS
from tests.fuzz.open_programs import random_open_source
from tests.fuzz.reduce import reduced
from tests.fuzz.source_programs import random_source
from tests.fuzz.wide_programs import random_wide_source

#: what writes the functions of a kind, and how they are judged
KINDS = {
    "plain": (random_source, WAYS),
    "wide": (random_wide_source, WAYS),
    "open": (random_open_source, OPEN_WAYS),
}


Check = Callable[[Callable[..., Any], int], None]


class TooSlow(Exception):
    """A function takes longer than --limit seconds."""


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run", description=__doc__.split("\n\n")[0])
    parser.add_argument("--kind", choices=[*KINDS, "all"], default="all", help="which generator writes the functions")
    parser.add_argument(
        "--way", choices={**WAYS, **OPEN_WAYS}, action="append", help="how they are judged (default: all ways in turn)"
    )
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--first", type=int, default=None, help="the first seed (default: by the clock)")
    parser.add_argument("--count", type=int, default=None, help="how many seeds")
    parser.add_argument("--limit", type=int, default=60, help="seconds for one function in one way")
    parser.add_argument("--optimised", action="store_true", help="compile with LLVM's optimisation, as users do")
    parser.add_argument("--reduce", action="store_true", help="print a failing function made smaller")
    parser.add_argument("--show", action="store_true", help="print the functions")
    return parser.parse_args()


def main() -> int:
    chosen = options()
    if not chosen.optimised:
        program.compile_module = functools.partial(program.compile_module, level=0)
    signal.signal(signal.SIGALRM, _too_slow)
    warnings.simplefilter("ignore")
    first = int(time.time()) % 10**8 if chosen.first is None else chosen.first
    seeds = itertools.count(first) if chosen.count is None else range(first, first + chosen.count)
    kinds = list(KINDS) if chosen.kind == "all" else [chosen.kind]
    outcomes: Counter[tuple[str, str]] = Counter()
    reasons: Counter[str] = Counter()
    end = time.monotonic() + 60 * chosen.minutes
    with tempfile.TemporaryDirectory() as folder:
        for seed, kind in itertools.product(seeds, kinds) if chosen.count else ((s, k) for s in seeds for k in kinds):
            if time.monotonic() > end:
                break
            write, judges = KINDS[kind]
            ways = [way for way in chosen.way or judges if way in judges]
            try:
                text = write(seed, 3 + seed % 14)
            except RecursionError:  # an expression that grows without end
                continue
            if chosen.show:
                print(text)
            # "source" always; the other ways in turn, so that the time goes to many functions
            today = ways if chosen.count or len(ways) < 3 else [ways[0], ways[1 + seed % (len(ways) - 1)]]
            for way in today:
                outcome = judge(judges[way], function(text, Path(folder)), seed, way, chosen.limit, reasons)
                outcomes[way, outcome.split(":")[0]] += 1
                if outcome not in ("right", "refused"):
                    print(f"{kind} {seed} ({way}): {outcome}", flush=True)
                    if chosen.reduce:
                        print(smaller(judges[way], text, outcome, Path(folder), seed, way, chosen.limit), flush=True)
    for (way, outcome), count in sorted(outcomes.items()):
        print(f"{way:14} {outcome:10} {count}")
    for reason, count in reasons.most_common(12):
        print(f"refused {count:4} × {reason}")
    print(f"seeds {first} and on")
    return int(any(outcome not in ("right", "refused") for _, outcome in outcomes))


def judge(check: Check, f: Any, seed: int, way: str, limit: int, reasons: Counter[str]) -> str:
    """ "right", "refused", or what went wrong."""
    signal.setitimer(signal.ITIMER_REAL, limit, 1)  # again: a destructor swallows what is raised in it
    try:
        check(f, seed)
    except Refused as refusal:
        reasons[f"{way}: {str(refusal)[:110]}"] += 1
        return "refused"
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also what only a broken interpreter would raise
        return f"{type(error).__name__}: {str(error)[:300]}".replace("\n", " ")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return "right"


def smaller(check: Check, text: str, outcome: str, folder: Path, seed: int, way: str, limit: int) -> str:
    """A smaller function that fails with the same error and the same first words."""

    def fails(text: str) -> bool:
        try:
            f = function(text, folder)
        except (SyntaxError, NameError):
            return False
        return judge(check, f, seed, way, limit, Counter())[:30] == outcome[:30]

    return reduced(text, fails)


def _too_slow(*_: object) -> None:
    raise TooSlow


if __name__ == "__main__":
    sys.exit(main())
