"""C6 and C7: what heads become in training, and whether several are better than one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from results.claims.claim import Cases, Claim, Number, Part, Unit
from results.claims.evidence import exp, mean_interval
from results.claims.kernels import backend
from results.claims.lesson import D_MODEL, N_HEAD
from results.claims.rules import Statement, above, not_in_run, unasked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from results.claims.evidence import Evidence, Named, Place
    from results.claims.observed import Learnt

LARGE_SHARE = 0.5
"""A head is positional, or syntactic, if it looks most where it should in more than half of all cases."""

SMALLER = 1.05
"""A head's gradients must be at least a twentieth larger where it is alone than beside its clone."""

BETTER = 0.01
"""Of the loss: several heads must be a hundredth better than one."""

FASTER = 1.05
"""Twelve heads must save a twentieth of one head's time."""

CASES = Cases(("attention", "sublayer"), ("sdpa", "fused_sdpa"), (D_MODEL,), (1, N_HEAD))


def roles(evidence: Evidence) -> list[Part]:
    """C6: a head's gradients beside its clone, and where trained heads look."""
    several = [*_of_seeds(evidence.observed.learnt, one_head=False).values()]
    if not several:
        return [unasked("a trained transformer's heads", "none was trained")]
    return [
        _gradients(several),
        _looks(several, "previous", "token before"),
        _looks(several, "matching", "bracket that is closed next"),
        unasked("a head that follows the latest entity", "synthetic sequences know no entities"),
    ]


def _gradients(several: Sequence[Learnt]) -> Part:
    logs = [-one.beside_clone for one in several if one.beside_clone is not None]
    found = mean_interval(logs, Unit.TIMES)
    if isinstance(found, Number):
        low, high = (exp(found.value if one is None else one) for one in (found.low, found.high))
        found = Number(exp(found.value), Unit.TIMES, low, high)
    told = (
        f"a head that does its work alone gets {{}} the gradients that it gets where a clone does half of it and all "
        f"else is alike (geometric mean of {len(logs)} seeds; by the chain rule it lies between 1 and 2)"
    )
    asked = Statement(
        "gradients of a unique head ÷ those of a redundant one", told, f"{told}: no twentieth more"
    )
    return above(found, SMALLER, asked)


def _looks(several: Sequence[Learnt], name: str, at: str) -> Part:
    trained = mean_interval([getattr(one, name) for one in several], Unit.SHARE)
    if isinstance(trained, Number) and trained.low is not None and trained.high is not None:
        trained = Number(trained.value, Unit.SHARE, max(0.0, trained.low), min(1.0, trained.high))
    untrained = sum(getattr(one, f"{name}_untrained") for one in several) / len(several)
    told = (
        f"the best trained head looks most at the {at} in {{}} of cases (untrained: {100 * untrained:.0f} %)"
    )
    asked = Statement(
        f"how often a trained head looks most at the {at}", told, f"{told}: in no more than half"
    )
    return above(trained, LARGE_SHARE, asked)


def several_heads(evidence: Evidence) -> list[Part]:
    """C7: twelve heads against one, by speed, and by loss."""
    return [*_speed(evidence), _quality(evidence.observed.learnt)]


def _speed(evidence: Evidence) -> list[Part]:
    parts = []
    for named in (("attention", "sdpa"), ("sublayer", "fused_sdpa")):
        about = f"{'/'.join(named)} with one head ÷ with twelve"
        pairs = _pairs(evidence, named)
        for twelve, one in pairs:
            told = f"{'/'.join(named)} with one head {D_MODEL} wide takes {{}} the time of {N_HEAD}"
            told += _whose(evidence, named, twelve, one)
            asked = Statement(about, told, f"{told}: twelve save no twentieth", evidence.words(twelve))
            parts.append(above(evidence.ratio((named,), (named,), one, under_place=twelve), FASTER, asked))
        if not pairs:
            lacking = 1 if evidence.places((named,), D_MODEL, N_HEAD) else N_HEAD
            parts.append(not_in_run(evidence, about, (named,), D_MODEL, lacking))
    return parts


def _whose(evidence: Evidence, named: Named, twelve: Place, one: Place) -> str:
    """Whose kernel PyTorch chose for each: a head that no fused kernel takes is another matter than a slow one."""
    found = [evidence.standing(named, place) for place in (twelve, one)]
    used = [backend(standing) if standing else None for standing in found]
    if None in used:
        return ""
    of_twelve, of_one = ("no fused kernel" if whose == "none" else whose for whose in used)
    return f" ({of_twelve} for {N_HEAD}, {of_one} for one)"


def _pairs(evidence: Evidence, named: Named) -> list[tuple[Place, Place]]:
    """The same shape with twelve heads and with one."""
    ones = set(evidence.places((named,), D_MODEL, 1))
    twelves = evidence.places((named,), D_MODEL, N_HEAD)
    return [(twelve, twelve._replace(n_head=1)) for twelve in twelves if twelve._replace(n_head=1) in ones]


def _quality(learnt: Sequence[Learnt]) -> Part:
    """Seeds pair: both models saw the same sequences in the same order."""
    about = "loss of one head above that of several, as a share"
    one, several = (_of_seeds(learnt, one_head=which) for which in (True, False))
    shared = sorted(one.keys() & several.keys())
    if not shared:
        return unasked(about, "no models were trained")
    heads = several[shared[0]].n_head
    found = mean_interval([one[seed].loss / several[seed].loss - 1 for seed in shared], Unit.SHARE)
    told = (
        f"trained on tokens that each ask for two looks back, a letter's and a bracket's, one head's loss is {{}} "
        f"above {heads} heads' (mean of {len(shared)} seeds)"
    )
    return above(found, BETTER, Statement(about, told, f"{told}: several are no hundredth better there"))


def _of_seeds(learnt: Sequence[Learnt], *, one_head: bool) -> dict[int, Learnt]:
    """The longest trainings, one a seed: the same seed again, from another run, is no other sample."""
    longest = max((of.steps for of in learnt), default=0)
    return {of.seed: of for of in learnt if of.steps == longest and (of.n_head == 1) is one_head}


C6 = Claim(
    "C6",
    "Heads specialise by gradient pressure: a redundant head gets smaller gradients than a unique one; trained heads "
    "become positional (previous token), syntactic (matching bracket), semantic (latest entity).",
    "over seeds: a head's gradients are more than 1.05 × as large where it is alone as where a clone does half of its "
    "work, in two models that compute the same; a trained head that looks most at the token before in more than half "
    "of the cases, one at the matching bracket; entities are not measured",
    roles,
    experiments=("learnt",),
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
