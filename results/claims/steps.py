"""C13: five steps a layer, twelve layers deep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from results.claims.claim import Answer, Cases, Claim, Number, Part, Unit
from results.claims.kernels import launched, matmuls
from results.claims.lesson import D_MODEL, N_HEAD
from results.claims.rules import Statement, missing, not_in_run, unasked, within

if TYPE_CHECKING:
    from collections.abc import Sequence

    from results.claims.evidence import Evidence, Named, Place

PROJECTIONS, ATTENTION, OUTPUT = STEPS = (
    ("qkv", "fused"),
    ("attention", "sdpa"),
    ("output", "concat_matmul"),
)
LAYER, STACK = ("sublayer", "fused_sdpa"), ("stack", "fused_sdpa")

FUSED, STRIDED, UNCOPIED = ("qkv", "fused_qkv"), ("attention", "sdpa_strided"), ("output", "strided_matmul")
"""The steps as that layer takes them: Q, K and V in one matmul, heads a stride throughout, nothing copied."""

CASES = Cases(
    ("qkv", "attention", "output", "sublayer", "stack"),
    ("fused", "fused_qkv", "sdpa", "sdpa_strided", "concat_matmul", "strided_matmul", "fused_sdpa"),
    (D_MODEL,),
    (N_HEAD,),
)

ADDS_UP = 1.10
"""A whole is the sum of its steps where the two are within a tenth of one another."""

DUE = {PROJECTIONS: 3, ATTENTION: 1, OUTPUT: 1}
"""Kernels that do a step's work."""


def parts(evidence: Evidence) -> list[Part]:
    """C13: kernels of each step, times of the steps against the layer's, a layer's against a stack's."""
    needs = (*STEPS, LAYER)
    places = evidence.places(needs, D_MODEL, N_HEAD)
    if not places:
        return [not_in_run(evidence, "a layer against its five steps", needs, D_MODEL, N_HEAD)]
    parts = [part for place in places for test in (_kernels, _sum) for part in test(evidence, place)]
    return parts + _depths(evidence, places)


def _kernels(evidence: Evidence, place: Place) -> list[Part]:
    """Kernels that do the steps' work; on a GPU only, where there are any."""
    if not evidence.on_gpu:
        return []
    asked = Statement("kernels of the five steps", "", "", evidence.words(place))
    counts = [_count(evidence, named, place) for named in STEPS]
    known = [count for count in counts if not isinstance(count, str)]
    if len(known) < len(counts):
        return [missing(asked, next(why for why in counts if isinstance(why, str)))]
    told = f"the steps are {{}} kernels ({' + '.join(f'{count:g}' for count in known)}){_beside(evidence, place)}"
    answer = Answer.HOLDS if known == list(DUE.values()) else Answer.FAILS
    return [Part(asked.about, asked.at, told, answer, "3 + 1 + 1", Number(sum(known), Unit.COUNT))]


def _count(evidence: Evidence, named: Named, place: Place) -> float | str:
    standing = evidence.standing(named, place)
    assert standing is not None
    return launched(standing) if named == ATTENTION else matmuls(standing)


def _beside(evidence: Evidence, place: Place) -> str:
    """What the concatenation launches beside its matmul, and what the whole layer does."""
    output, layer = evidence.standing(OUTPUT, place), evidence.standing(LAYER, place)
    every, whole = (launched(one) if one else "" for one in (output, layer))
    if isinstance(every, str) or isinstance(whole, str):
        return ""
    return f" and {every - 1:g} copy to concatenate; the layer in one piece, fusing Q, K and V, is {whole:g}"


def _sum(evidence: Evidence, place: Place) -> list[Part]:
    """The steps that the layer takes: the lesson's five copy, and project three times, which it does not."""
    taken = (FUSED, STRIDED if evidence.standing(STRIDED, place) else ATTENTION, UNCOPIED)
    named = ", ".join("/".join(one) for one in taken)
    told = f"the steps that a layer takes ({named}), measured apart, take {{}} its time"
    lessons = _timed(evidence, STEPS, place)
    if isinstance(lessons, Number):
        told += f" (the lesson's five, with a copy to concatenate, {lessons.value:.2f} ×)"
    asked = Statement("Σ of the steps' times ÷ the layer's", told, f"{told}: no sum", evidence.words(place))
    return [within(_timed(evidence, taken, place), 1 / ADDS_UP, ADDS_UP, asked)]


def _depths(evidence: Evidence, places: Sequence[Place]) -> list[Part]:
    """A stack against its layer wherever there is one: by default a run has stacks at its first batch alone."""
    about = "a stack's time ÷ its layers'"
    stacked = [place for place in places if evidence.standing(STACK, place)]
    if not stacked:
        return [not_in_run(evidence, about, (STACK,), D_MODEL, N_HEAD)]
    return [part for place in stacked for part in _depth(evidence, place, about)]


def _depth(evidence: Evidence, place: Place, about: str) -> list[Part]:
    """A stack's depth is what it has in parameters of its layers."""
    stack, layer = evidence.standing(STACK, place), evidence.standing(LAYER, place)
    assert stack is not None
    assert layer is not None
    if not (stack.record.parameters and layer.record.parameters):
        return [unasked(about, "the run does not say how many parameters they have")]
    depth = stack.record.parameters / layer.record.parameters
    found = _timed(evidence, (STACK,), place)
    told = f"a stack takes {{}} the time of {depth:g} layers{_residuals(evidence, place)}"
    asked = Statement(about, told, f"{told}: they do not add up", evidence.words(place))
    return [
        within(found.times(1 / depth) if isinstance(found, Number) else found, 1 / ADDS_UP, ADDS_UP, asked)
    ]


def _residuals(evidence: Evidence, place: Place) -> str:
    """How many kernels more a stack is than its layers."""
    stack, layer = (
        launched(one) if one else "" for one in (evidence.standing(of, place) for of in (STACK, LAYER))
    )
    if isinstance(stack, str) or isinstance(layer, str):
        return ""
    return f" ({stack:g} kernels, a layer is {layer:g}: a stack adds residuals)"


def _timed(evidence: Evidence, over: Sequence[Named], place: Place) -> Number | str:
    """Against the layer's, caches warm on a GPU: between the steps of a layer they are."""
    return evidence.ratio(over, (LAYER,), place, "graph" if evidence.on_gpu else None)


C13 = Claim(
    "C13",
    "A layer is five steps: three matmuls on the input, one attention kernel for all heads, one matmul on the "
    "concatenated heads; twelve layers deep.",
    "kernels that do the work: 3, 1 and 1; the times of the steps that a layer takes add up to the layer's, and "
    "layers' to the stack's, within a factor of 1.10",
    parts,
    (CASES,),
)
