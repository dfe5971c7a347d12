"""C4 and C5: concatenating the heads, and what W_O does to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from results.claims.claim import Claim, Number, Part, Unit
from results.claims.rules import Statement, above, exactly, unasked

if TYPE_CHECKING:
    from results.claims.evidence import Evidence

DENSE = 1e-3
"""A derivative above a thousandth of the median one is dependence, not rounding (1e-16 in float64)."""


def round_trips(evidence: Evidence) -> list[Part]:
    """C4: split and concatenated again, bit for bit, over random shapes."""
    tried = evidence.observed.round_trips
    if not tried:
        return [unasked("split and concatenated again", "it was not tried")]
    shapes, changed = sum(one.shapes for one in tried), sum(one.changed for one in tried)
    scrambled = sum(one.scrambled for one in tried)
    told = (
        f"of {shapes} random shapes {{}} differ in any bit after split and concatenation, or the reverse (after a "
        f"reshape without the transpose {scrambled} do, so that the test can fail)"
    )
    found = (
        changed if scrambled else "a reshape without the transpose scrambled none: the test could not fail"
    )
    return [exactly(found, 0, Statement("shapes that a round trip changes", told, told))]


def dependence(evidence: Evidence) -> list[Part]:
    """C5: derivatives of features by heads, before and after W_O."""
    seeds = evidence.observed.dependence
    if not seeds:
        return [unasked("derivatives of features by heads", "none were taken")]
    leak = max(one.others_largest for one in seeds)
    own = min(one.own_least for one in seeds)
    ratios = [one.mixed_least / one.mixed_median if one.mixed_median else 0.0 for one in seeds]
    before = (
        f"without W_O the largest derivative of a feature by another head is {{}} (by its own at least {own:.3g}; "
        f"{len(seeds)} seeds)"
    )
    alone = leak if own else "a feature has no derivative by its own head: the test could not fail"
    after = "after W_O the smallest derivative of any feature by any head is {} of the median one"
    return [
        exactly(alone, 0, Statement("derivatives by other heads before W_O", before, before)),
        above(
            Number(min(ratios), Unit.SHARE),
            DENSE,
            Statement(
                "the smallest derivative after W_O ÷ the median", after, f"{after}: some hardly depend"
            ),
        ),
    ]


C4 = Claim(
    "C4",
    "Concatenating the heads loses nothing in shape: it is the exact inverse of the split.",
    "no bit differs after split and concatenation, nor after concatenation and split, over random shapes",
    round_trips,
    experiments=("round_trips",),
)
C5 = Claim(
    "C5",
    "Without W_O the heads stay isolated; after W_O every output feature depends on every head.",
    "derivatives by autograd in float64: exactly 0 off the diagonal before W_O; after it all above 0.1 % of the median",
    dependence,
    experiments=("dependence",),
)
