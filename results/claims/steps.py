"""C13: five steps a layer, twelve layers deep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from results.claims.claim import Answer, Cases, Claim, Number, Part, Unit
from results.claims.kernels import launched, matmuls
from results.claims.lesson import D_MODEL, N_HEAD
from results.claims.rules import exactly, missing, not_in_run, within

if TYPE_CHECKING:
    from results.claims.evidence import Evidence, Named, Place

PROJECTIONS, ATTENTION, OUTPUT = STEPS = (
    ("qkv", "fused"),
    ("attention", "sdpa"),
    ("output", "concat_matmul"),
)
LAYER, STACK = ("sublayer", "fused_sdpa"), ("stack", "fused_sdpa")
CASES = Cases(
    ("qkv", "attention", "output", "sublayer", "stack"),
    ("fused", "sdpa", "concat_matmul", "fused_sdpa"),
    (D_MODEL,),
    (N_HEAD,),
)

ADDS_UP = 1.10
"""A whole is the sum of its steps where the two are within a tenth of one another."""

DUE = {PROJECTIONS: 3, ATTENTION: 1, OUTPUT: 1}
"""Kernels that do a step's work."""


def parts(evidence: Evidence) -> list[Part]:
    """C13: kernels of each step, times of the steps against the layer's, a layer's against a stack's."""
    about = "a layer against its five steps"
    places = evidence.places((*STEPS, LAYER), D_MODEL, N_HEAD)
    if not places:
        return [not_in_run(evidence, about, (*STEPS, LAYER), CASES, D_MODEL, N_HEAD)]
    return [
        part
        for place in places
        for part in (_launches(evidence, place), _sum(evidence, place), _depth(evidence, place))
    ]


def _launches(evidence: Evidence, place: Place) -> Part:
    about = f"kernels of the five steps, {place}"
    counts = {named: _kernels(evidence, named, place) for named in STEPS}
    if unknown := [why for why in counts.values() if isinstance(why, str)]:
        return missing(about, unknown[0])
    off = [f"{named[0]} {count:g}" for named, count in counts.items() if count != DUE[named]]
    copies = _copies(evidence, place)
    told = f"at {place} the steps are {{}} kernels: {counts[PROJECTIONS]:g} matmuls, {counts[ATTENTION]:g} attention "
    told += f"for all heads, {counts[OUTPUT]:g} matmul{copies}"
    total = sum(count for count in counts.values() if not isinstance(count, str))
    if off:
        return Part(told, Answer.FAILS, f"{about}: 3, 1 and 1", Number(total, Unit.COUNT))
    return exactly(total, 5, about, told, told)


def _kernels(evidence: Evidence, named: Named, place: Place) -> float | str:
    standing = evidence.standing(named, place)
    if standing is None:
        return f"no {'/'.join(named)} at {place}"
    return launched(standing) if named == ATTENTION else matmuls(standing)


def _copies(evidence: Evidence, place: Place) -> str:
    """What the concatenation launches beside its matmul, and what the whole layer does."""
    output, layer = evidence.standing(OUTPUT, place), evidence.standing(LAYER, place)
    assert output is not None
    assert layer is not None
    every, whole = launched(output), launched(layer)
    if isinstance(every, str) or isinstance(whole, str):
        return ""
    return f" (and {every - 1:g} copy to concatenate; the whole layer, Q, K and V in one matmul, is {whole:g} kernels)"


def _sum(evidence: Evidence, place: Place) -> Part:
    found = evidence.ratio(STEPS, (LAYER,), place, "graph" if evidence.on_gpu else None)
    told = f"at {place} the steps measured apart take {{}} the layer's time"
    about = f"Σ of the steps' times ÷ the layer's, {place}"
    return within(found, 1 / ADDS_UP, ADDS_UP, about, told, f"{told}: they do not add up")


def _depth(evidence: Evidence, place: Place) -> Part:
    """A stack's depth is what it has in parameters of its layers."""
    about = f"a stack's time ÷ its layers', {place}"
    stack, layer = evidence.standing(STACK, place), evidence.standing(LAYER, place)
    if stack is None or layer is None:
        return not_in_run(evidence, about, (STACK,), CASES, D_MODEL, N_HEAD)
    depth = stack.record.parameters / layer.record.parameters
    found = evidence.ratio((STACK,), (LAYER,), place, "graph" if evidence.on_gpu else None)
    if isinstance(found, Number):
        low, high = (None if one is None else one / depth for one in (found.low, found.high))
        found = Number(found.value / depth, Unit.TIMES, low, high)
    told = f"at {place} {depth:g} layers take {{}} as long as {depth:g} times one"
    return within(found, 1 / ADDS_UP, ADDS_UP, about, told, f"{told}: they do not add up")


C13 = Claim(
    "C13",
    "A layer is five steps: three matmuls on the input, one attention kernel for all heads, one matmul on the "
    "concatenated heads; twelve layers deep.",
    "kernels that do the work: 3, 1 and 1; the steps' times add up to the layer's, and layers' to the stack's, within "
    "a factor of 1.10",
    parts,
    (CASES,),
)
