"""C1 and C2: one projection for all heads against one a head, by calls and by throughput."""

from __future__ import annotations

from typing import TYPE_CHECKING

from results.claims.claim import Cases, Claim, Number, Part, Unit
from results.claims.kernels import matmuls
from results.claims.lesson import D_MODEL, N_HEAD
from results.claims.rules import Statement, above, exactly, not_in_run, unasked
from results.peaks import burst_flops_per_s, peak_flops_per_s, why_no_peak
from results.tensor_use import NO_WORK

if TYPE_CHECKING:
    from results.claims.evidence import Evidence, Place
    from results.ranking import Standing

PER_HEAD, FUSED = (("qkv", name) for name in ("per_head", "fused"))
CASES = Cases(("qkv",), ("per_head", "fused", "fused_qkv"), (D_MODEL,), (N_HEAD,))

FASTER = 1.10
"""What wins must be a tenth faster: less than that nobody arranges weights for."""

PEAK = 0.90
"""Of what a large matmul reaches on the same GPU in the same run: from there on it is at the peak."""


def calls(evidence: Evidence) -> list[Part]:
    """C1: matrix products that PyTorch was asked for, and on a GPU the matmul kernels that it launched."""
    parts = [part for one in evidence.observed.calls[-1:] for part in _asked(one.matmuls, one.n_head)]
    about = "matrix products of each projection"
    if not evidence.on_gpu:
        return parts or [unasked(about, "they were not counted")]
    for place in evidence.places((PER_HEAD, FUSED), D_MODEL, N_HEAD):
        parts += _launched(evidence, place)
    return parts or [not_in_run(evidence, about, (PER_HEAD, FUSED), D_MODEL, N_HEAD)]


def _asked(counts: dict[str, int], n_head: int) -> list[Part]:
    return [
        exactly(
            counts.get(variant, "it was not counted"),
            due,
            Statement(
                f"products that {variant} asks PyTorch for",
                f"{variant} asks PyTorch for {{}} matrix product{_of_each(due)}",
                f"{variant} asks PyTorch for {{}} matrix products, not {due}",
            ),
        )
        for variant, due in _due(n_head).items()
    ]


def _launched(evidence: Evidence, place: Place) -> list[Part]:
    return [
        exactly(
            matmuls(standing),
            due,
            Statement(
                f"matmul kernels of {variant}",
                f"{variant} launches {{}} matmul kernel{_of_each(due)}",
                f"{variant} launches {{}} matmul kernels, not {due}",
                evidence.words(place),
            ),
        )
        for variant, due in _due(place.n_head).items()
        if (standing := evidence.standing(("qkv", variant), place))
    ]


def _due(n_head: int) -> dict[str, int]:
    """Products for Q, K and V together."""
    return {"per_head": 3 * n_head, "fused": 3, "fused_qkv": 1}


def _of_each(due: int) -> str:
    """The lesson counts a projection, of which there are three."""
    return f"s, {due // 3} for each of Q, K and V" if due > 1 else " for Q, K and V"


def throughput(evidence: Evidence) -> list[Part]:
    """C2: what the fused matmul reaches of the peak, and what the heads apart lose, in kernels and in launches."""
    places = evidence.places((PER_HEAD, FUSED), D_MODEL, N_HEAD)
    if not places:
        about = "the fused projection against one matmul a head"
        return [not_in_run(evidence, about, (PER_HEAD, FUSED), D_MODEL, N_HEAD)]
    return [part for place in places for part in _at(evidence, place)]


def _at(evidence: Evidence, place: Place) -> list[Part]:
    fused, apart = evidence.standing(FUSED, place), evidence.standing(PER_HEAD, place)
    assert fused is not None
    assert apart is not None
    at = evidence.words(place)
    if not evidence.on_gpu:
        told = "heads apart take {} the fused projection's time"
        asked = Statement("one matmul for all heads against one a head", told, f"{told}: no tenth more", at)
        return [
            _peak(evidence, fused, place),
            above(evidence.ratio((PER_HEAD,), (FUSED,), place), FASTER, asked),
        ]
    told = f"replayed without launches, heads apart take {{}} the fused time{_active(apart, fused)}"
    kernels = Statement(
        "kernels of all heads in one matmul against one a head", told, f"{told}: no tenth more", at
    )
    told = f"a Python caller waits {{}} as long for heads apart{_waiting(apart)}"
    caller = Statement("the same for a Python caller", told, f"{told}: no tenth more", at)
    return [
        _peak(evidence, fused, place),
        above(evidence.ratio((PER_HEAD,), (FUSED,), place, "graph"), FASTER, kernels),
        above(evidence.ratio((PER_HEAD,), (FUSED,), place, "eager"), FASTER, caller),
    ]


def _peak(evidence: Evidence, fused: Standing, place: Place) -> Part:
    """The share of what a large matmul reached in this run, else of the datasheet's peak."""
    if not evidence.on_gpu:
        return unasked("the fused projection's rate", "tensor cores are a GPU's; this run is on a CPU")
    burst = burst_flops_per_s(fused.ceilings, place.dtype)
    peak = burst or peak_flops_per_s(fused.manifest, place.dtype)
    of = "what a large matmul reaches here" if burst else "the datasheet's peak"
    flops = fused.record.useful_flops
    found: Number | str = NO_WORK if peak else why_no_peak(fused.manifest, place.dtype)
    if peak and flops:
        found = "an interval needs at least 2 replicates"
    if peak and flops and (times := evidence.bounds(FUSED, place)):
        value, high, low = (flops / one / peak for one in times)
        found = Number(value, Unit.SHARE, low, high)
    told = f"the fused matmuls do {{}} of {of}"
    about = f"the fused projection's rate as a share of {of}"
    return above(found, PEAK, Statement(about, told, f"{told}, not {100 * PEAK:g} %", evidence.words(place)))


def _active(apart: Standing, fused: Standing) -> str:
    """`; tensor pipes are active 20 % of the time against 73 %`, where counters know."""
    shares = [one.record.gpm and one.record.gpm.tensor_active_percent for one in (apart, fused)]
    if None in shares:
        return ""
    return f" (tensor pipes active {shares[0]:.0f} % of the time against {shares[1]:.0f} %)"


def _waiting(apart: Standing) -> str:
    """What of the eager time is launches: eager − graph."""
    eager, graph = apart.record.estimates.get("eager"), apart.record.estimates.get("graph")
    if not eager or not graph or eager.value_s <= graph.value_s:
        return ""
    return f", {100 * (1 - graph.value_s / eager.value_s):.0f} % of it for launches"


C1 = Claim(
    "C1",
    "A fused projection issues one BLAS call instead of twelve.",
    "counts, exactly: 3 × n_head products head by head, 3 fused, 1 where Q, K and V are fused too; as asked of "
    "PyTorch, and as matmul kernels on a GPU: of the two, whichever was counted",
    calls,
    (CASES,),
    ("calls",),
)
C2 = Claim(
    "C2",
    "Tensor cores reach peak throughput on a matmul of the fused size; twelve per-head matmuls under-use the hardware.",
    "the fused matmuls reach 90 % of a large matmul's rate on this GPU; heads apart take more than 1.10 × their time",
    throughput,
    (CASES,),
)
