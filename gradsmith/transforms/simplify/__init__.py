"""Simplification: the same function with less work.

Constant folding, exact algebra, common subexpressions, loop-invariant code motion, checks and bounds that are decided,
branches and loops that are known, dead code. A walk is linear in the size of the Program; two or three of them suffice.

- ``rewrite``: the walk, with common subexpressions, code motion, branches and loops
- ``algebra``: rules that replace one operation; ``folding``: operations on constants
- ``shapes``: symbolic shapes; ``ranges``: proofs that indices are in range; ``motion``: what may run earlier
- ``dce``: dead code
"""

from __future__ import annotations

from gradsmith.ir.program import Program
from gradsmith.transforms.simplify.dce import remove_dead
from gradsmith.transforms.simplify.mismatch import keep_mismatches
from gradsmith.transforms.simplify.rewrite import Rewriter

_ROUNDS = 3


def simplify(program: Program) -> Program:
    """Simplify ``program`` in place, and return it.

    Results are equal to the bit (up to the sign of a zero adjoint). An operation that nobody needs is removed although
    it could have raised; arrays that do not broadcast together are still refused, since shapes rely on it.
    """
    block = program.block
    for _ in range(_ROUNDS):
        rewriter = Rewriter(program)
        rewriter.run(block)
        again = remove_dead(block) or rewriter.again
        keep_mismatches(block, rewriter)
        if not again:
            break
    return program
