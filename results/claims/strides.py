"""C8: heads as a stride against heads that are contiguous, and what making them contiguous costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from results.claims.claim import Cases, Claim, Part
from results.claims.lesson import D_MODEL, N_HEAD
from results.claims.rules import Statement, above, not_in_run

if TYPE_CHECKING:
    from results.claims.evidence import Evidence, Named, Place

STRIDED = "_strided"
"""How the name ends of an attention variant that is given its heads as a stride of the fused projection's output."""

FASTER = 1.01
"""What contiguous heads must gain; a percent is the least that verdicts tell apart."""

SDPA = tuple(f"sdpa{backend}" for backend in ("", "_cudnn", "_flash", "_efficient", "_math"))
KERNELS = (*SDPA, "materialized")
RELAYOUT = Cases(
    ("split",),
    ("torch_contiguous", "torch_permute", "torch_copy", "relayout"),
    d_model=(D_MODEL,),
    n_head=(N_HEAD,),
)
CASES = Cases(
    ("attention",),
    tuple(f"{name}{end}" for name in KERNELS for end in ("", STRIDED)),
    (D_MODEL,),
    (N_HEAD,),
)


def parts(evidence: Evidence) -> list[Part]:
    """C8: each kernel on both layouts; then the fastest relayout added to the contiguous one."""
    found: list[Part] = []
    for name in KERNELS:
        contiguous, strided = ("attention", name), ("attention", f"{name}{STRIDED}")
        for place in evidence.places((contiguous, strided), D_MODEL, N_HEAD):
            found += _pair(evidence, contiguous, strided, place)
    about = "attention on strided heads against contiguous ones"
    plain, strided = ("attention", "sdpa"), ("attention", f"sdpa{STRIDED}")
    return found or [not_in_run(evidence, about, (plain, strided), D_MODEL, N_HEAD)]


def _pair(evidence: Evidence, contiguous: Named, strided: Named, place: Place) -> list[Part]:
    at, name = evidence.words(place), contiguous[1]
    told = f"{name} takes {{}} the time on heads as a stride that it takes on contiguous ones"
    gain = Statement("strided ÷ contiguous", told, f"{told}: no percent gained", at)
    parts = [above(evidence.ratio((strided,), (contiguous,), place), FASTER, gain)]
    about = "strided ÷ (relayout + contiguous)"
    if (relayout := _fastest_split(evidence, place)) is None:
        return [*parts, not_in_run(evidence, about, (("split", "…"),), D_MODEL, N_HEAD)]
    told = f"with the relayout by split/{relayout[1]} paid, {name} on strided heads takes {{}} the time"
    paid = Statement(about, told, f"{told}: the relayout does not pay", at)
    # Warm, on a GPU: what a relayout has just written is what the attention reads.
    mode = "graph" if evidence.on_gpu else None
    return [*parts, above(evidence.ratio((strided,), (contiguous, relayout), place, mode), 1.0, paid)]


def _fastest_split(evidence: Evidence, place: Place) -> Named | None:
    """The split variant with the shortest time at this shape."""
    timed = {
        ("split", name): standing.time.value_s
        for name in evidence.variants("split")
        if (standing := evidence.standing(("split", name), place)) and standing.time
    }
    return min(timed, key=lambda named: timed[named], default=None)


C8 = Claim(
    "C8",
    "Heads are a stride in one fused tensor; after the transpose each head's seq_len × head_dim slice is contiguous, "
    "and the next matmul, Q_h · K_hᵀ, runs faster on contiguous tensors.",
    "the same kernel takes more than 1.01 × the time on strided heads; and more than 1.00 × once the relayout is paid",
    parts,
    (RELAYOUT, CASES),
)
