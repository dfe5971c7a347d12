"""C4 and C5: concatenating the heads, and what W_O does to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from results.claims.claim import Claim, Number, Part, Unit
from results.claims.rules import above, exactly, missing

if TYPE_CHECKING:
    from results.claims.evidence import Evidence

DENSE = 1e-3
"""A derivative above a thousandth of the median one is dependence, not rounding (1e-16 in float64)."""

MEASURE = "to try it: python -m harness claims"


def round_trips(evidence: Evidence) -> list[Part]:
    """C4: split and concatenated again, bit for bit, over random shapes."""
    tried = evidence.observed.round_trips
    if not tried:
        return [missing("split and concatenated again", f"{MEASURE} C4")]
    shapes, changed = sum(one.shapes for one in tried), sum(one.changed for one in tried)
    scrambled = sum(one.scrambled for one in tried)
    return [
        exactly(
            changed,
            0,
            f"shapes of {shapes} whose features differ after splitting and concatenating",
            f"{{}} of {shapes} random shapes differ in any bit after splitting and concatenating, and after the reverse",
            f"{{}} of {shapes} random shapes differ after splitting and concatenating",
        ),
        above(
            Number(scrambled, Unit.COUNT),
            0,
            "shapes that a reshape without the transpose scrambles (or the test could not fail)",
            "a reshape without the transpose scrambles {} of them, so the test can fail",
            "a reshape without the transpose scrambles {} of them, so the test cannot fail",
        ),
    ]


def dependence(evidence: Evidence) -> list[Part]:
    """C5: derivatives of features by heads, before and after W_O."""
    seeds = evidence.observed.dependence
    if not seeds:
        return [missing("derivatives of output features by heads", f"{MEASURE} C5")]
    leak = max(one.others_largest for one in seeds)
    mixed = min(one.mixed_least / one.mixed_median if one.mixed_median else 0.0 for one in seeds)
    own = min(one.own_least for one in seeds)
    told = f"over {len(seeds)} seeds"
    return [
        exactly(
            leak,
            0,
            "largest derivative of a head's features by another head, without W_O",
            f"without W_O the largest derivative of a head's features by another head is {{}} {told}",
            f"without W_O a head's features depend on another: {{}} {told}",
        ),
        above(
            Number(own, Unit.COUNT),
            0,
            "smallest derivative by the own head",
            "by its own head each has one, at least {}",
            "a feature depends on no head: {}",
        ),
        above(
            Number(mixed, Unit.SHARE),
            DENSE,
            "smallest derivative of an output feature by any head after W_O, as a share of the median",
            "after W_O the weakest dependence of any feature on any head is {} of the median one",
            "after W_O some feature hardly depends on some head: {} of the median",
        ),
    ]


C4 = Claim(
    "C4",
    "Concatenating the heads loses nothing in shape: it is the exact inverse of the split.",
    "no bit differs after split and concatenation, nor after concatenation and split, over random shapes",
    round_trips,
    trials=("round_trips",),
)
C5 = Claim(
    "C5",
    "Without W_O the heads stay isolated; after W_O every output feature depends on every head.",
    "derivatives by autograd in float64: exactly 0 off the diagonal before W_O; after it all above 0.1 % of the median",
    dependence,
    trials=("dependence",),
)
