"""C6 and C7: what heads become in training, and whether several are better than one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from results.claims.claim import Cases, Claim, Number, Part, Unit
from results.claims.evidence import mean_interval
from results.claims.lesson import D_MODEL, N_HEAD
from results.claims.rules import above, missing, not_in_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from results.claims.evidence import Evidence, Named, Place
    from results.claims.observed import Learnt

LARGE_SHARE = 0.5
"""A head is positional, or syntactic, if it looks most where it should at more than half of the places."""

SMALLER = 1 / 1.05
"""A redundant head's gradients must be at least 5 % smaller."""

BETTER = 0.01
"""Of the loss: several heads must be a hundredth better than one."""

FASTER = 1.05
TRAIN = "to train: python -m harness claims"
CASES = Cases(("attention", "sublayer"), ("sdpa", "fused_sdpa"), (D_MODEL,), (1, N_HEAD))


def roles(evidence: Evidence) -> list[Part]:
    """C6: gradients of cloned heads, and where trained heads look."""
    several = [one for one in evidence.observed.learnt if one.n_head > 1]
    if not several:
        return [missing("a trained transformer's heads", f"{TRAIN} C6")]
    seeds = f"mean of {len(several)} seeds"
    return [
        _gradients(several, seeds),
        _looks(several, "previous", f"token before ({seeds})"),
        _looks(several, "matching", f"bracket that is to be closed next ({seeds})"),
        missing("a head that follows the latest entity", "its synthetic sequences know no entities"),
    ]


def _gradients(several: Sequence[Learnt], seeds: str) -> Part:
    logs = [one.redundant for one in several if one.redundant is not None]
    found = mean_interval(logs, Unit.TIMES)
    about = "gradients of a unique head ÷ those of a cloned one"
    if not isinstance(found, str):
        assert found.low is not None
        assert found.high is not None
        low, value, high = (math.exp(-one) for one in (found.high, found.value, found.low))
        found = Number(value, Unit.TIMES, low, high)
    says = f"cloning a head makes unique heads' gradients {{}} the clones' ({seeds})"
    return above(found, 1 / SMALLER, about, says, f"{says}: no smaller ones for the redundant")


def _looks(several: Sequence[Learnt], name: str, at: str) -> Part:
    trained = mean_interval([getattr(one, name) for one in several], Unit.SHARE)
    untrained = sum(getattr(one, f"{name}_untrained") for one in several) / len(several)
    says = f"the best trained head puts {{}} of its attention on the {at}, an untrained one {100 * untrained:.0f} %"
    return above(
        trained, LARGE_SHARE, f"attention of the best trained head on the {at}", says, f"{says}: no such head"
    )


def several_heads(evidence: Evidence) -> list[Part]:
    """C7: twelve heads against one, by speed, and by loss."""
    return [*_speed(evidence), _quality(evidence.observed.learnt)]


def _speed(evidence: Evidence) -> list[Part]:
    parts = []
    for named in (("attention", "sdpa"), ("sublayer", "fused_sdpa")):
        about = f"{'/'.join(named)} with 12 heads against one head"
        pairs = _pairs(evidence, named)
        for twelve, one in pairs:
            found = evidence.ratio((named,), (named,), one, under_place=twelve)
            says = f"{'/'.join(named)} with one head 768 wide takes {{}} the time of twelve at {twelve}"
            parts.append(above(found, FASTER, f"{about}, {twelve}", says, f"{says}: twelve are not faster"))
        if not pairs:
            lacking = 1 if evidence.places((named,), D_MODEL, N_HEAD) else N_HEAD
            parts.append(not_in_run(evidence, about, (named,), CASES, D_MODEL, lacking))
    return parts


def _pairs(evidence: Evidence, named: Named) -> list[tuple[Place, Place]]:
    """The same shape with twelve heads and with one."""
    ones = set(evidence.places((named,), D_MODEL, 1))
    twelves = evidence.places((named,), D_MODEL, N_HEAD)
    return [(twelve, twelve._replace(n_head=1)) for twelve in twelves if twelve._replace(n_head=1) in ones]


def _quality(learnt: Sequence[Learnt]) -> Part:
    """Seeds pair: both models saw the same sequences in the same order."""
    about = "loss of one head above that of several, as a share"
    one = {of.seed: of for of in learnt if of.n_head == 1}
    several = {of.seed: of for of in learnt if of.n_head > 1}
    shared = sorted(one.keys() & several.keys())
    if not shared:
        return missing(about, f"{TRAIN} C7")
    heads = several[shared[0]].n_head
    found = mean_interval([one[seed].loss / several[seed].loss - 1 for seed in shared], Unit.SHARE)
    says = (
        f"trained on letters and brackets, one head ends {{}} above the loss of {heads} ({len(shared)} seeds)"
    )
    return above(found, BETTER, about, says, f"{says}: several are no better there")


C6 = Claim(
    "C6",
    "Heads specialise by gradient pressure: a redundant head gets smaller gradients than a unique one; trained heads "
    "become positional (previous token), syntactic (matching bracket), semantic (latest entity).",
    "over seeds: gradients of a unique head more than 1.05 × those of a cloned one; a trained head that looks most "
    "at the token before in more than half of the cases, one at the matching bracket; entities are not measured",
    roles,
    trials=("learnt",),
)
C7 = Claim(
    "C7",
    "Twelve heads rather than one wide head at the same d_model.",
    "speed: one head takes more than 1.05 × the time of twelve; quality: its loss in a small training is more than 1 % "
    "higher, over seeds",
    several_heads,
    (CASES,),
    ("learnt",),
)
