"""C8: heads as a stride against heads that are contiguous, and what making them contiguous costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from results.claims.claim import Cases, Claim, Part
from results.claims.kernels import launched, products_s
from results.claims.lesson import D_MODEL, N_HEAD
from results.claims.rules import Statement, above, not_in_run
from results.words import counted

if TYPE_CHECKING:
    from results.claims.evidence import Evidence, Named, Place

STRIDED = "_strided"
"""How the name ends of an attention variant that is given its heads as a stride of the fused projection's output."""

FASTER = 1.01
"""What contiguous heads must gain; a percent is the least that verdicts tell apart."""

COPIED = ("attention", "sdpa_contiguous_copies")
"""PyTorch's attention given strided heads, after a copy of each of Q, K and V in the same call."""

SDPA = tuple(f"sdpa{backend}" for backend in ("", "_cudnn", "_flash", "_efficient", "_math"))
OURS = ("flash_portable", "flash_hopper")
STORED = ("materialized", "per_head_loop")
"""Their scores are stored, their products launched apart and told apart: at batch 32 an H200 spends a sixth of the time
in them. The last asks what the lesson's sentence says, a product Q_h · K_hᵀ for each head alone."""

KERNELS = (*SDPA, *OURS, *STORED)

RELAYOUT_PAID = "strided ÷ (relayout + contiguous)"
RELAYOUT = Cases(
    ("split",),
    ("torch_contiguous", "torch_permute", "torch_copy", "relayout"),
    d_model=(D_MODEL,),
    n_head=(N_HEAD,),
)
CASES = Cases(
    ("attention",),
    (*(f"{name}{end}" for name in KERNELS for end in ("", STRIDED)), COPIED[1]),
    (D_MODEL,),
    (N_HEAD,),
)


def parts(evidence: Evidence) -> list[Part]:
    """C8: each kernel on both layouts; then what it takes to make heads contiguous added to the contiguous one."""
    found: list[Part] = []
    for name in KERNELS:
        contiguous, strided = ("attention", name), ("attention", f"{name}{STRIDED}")
        for place in evidence.places((contiguous, strided), D_MODEL, N_HEAD):
            found += _gained(evidence, contiguous, strided, place)
            found += _relayout_paid(evidence, contiguous, strided, place)
    plain, strided = ("attention", "sdpa"), ("attention", f"sdpa{STRIDED}")
    for place in evidence.places((strided, COPIED), D_MODEL, N_HEAD):
        found += _copies_paid(evidence, strided, place)
    if not found:
        about = "attention on strided heads against contiguous ones"
        return [not_in_run(evidence, about, (plain, strided), D_MODEL, N_HEAD)]
    if not evidence.variants("split"):
        found.append(not_in_run(evidence, RELAYOUT_PAID, (("split", "…"),), D_MODEL, N_HEAD))
    return found


def _gained(evidence: Evidence, contiguous: Named, strided: Named, place: Place) -> list[Part]:
    told = f"{contiguous[1]} takes {{}} the time on heads as a stride that it takes on contiguous ones"
    told += _kernels_more(evidence, contiguous, strided, place)
    told += _products(evidence, contiguous, strided, place)
    about = "strided ÷ contiguous"
    asked = Statement(about, told, f"{told}: no percent gained", evidence.words(place), contiguous[1])
    return [above(evidence.ratio((strided,), (contiguous,), place), FASTER, asked)]


def _kernels_more(evidence: Evidence, contiguous: Named, strided: Named, place: Place) -> str:
    """What tells a matmul that is slower on strided heads from one that PyTorch gives copies of them."""
    found = [evidence.standing(named, place) for named in (strided, contiguous)]
    counts = [launched(one) for one in found if one]
    more = [count for count in counts if not isinstance(count, str)]
    if len(more) < 2 or more[0] <= more[1]:
        return ""
    return f", with {counted(round(more[0] - more[1]), 'kernel')} more"


def _products(evidence: Evidence, contiguous: Named, strided: Named, place: Place) -> str:
    """What the matmuls alone take, from one pass under a profiler: no interval, and so nothing that decides."""
    found = [evidence.standing(named, place) for named in (strided, contiguous)]
    over, under = (products_s(one) if one and one.variant.startswith(STORED) else None for one in found)
    return f" (its products alone {over / under:.2f} ×, under a profiler)" if over and under else ""


def _relayout_paid(evidence: Evidence, contiguous: Named, strided: Named, place: Place) -> list[Part]:
    """Against the contiguous time and the fastest relayout's, measured apart; nothing where no relayout was."""
    if (relayout := _fastest_split(evidence, place)) is None:
        return []
    told = (
        f"with the relayout by split/{relayout[1]} paid, {contiguous[1]} on strided heads takes {{}} the time"
    )
    lost, at = f"{told}: the relayout does not pay", evidence.words(place)
    asked = Statement(RELAYOUT_PAID, told, lost, at, contiguous[1])
    return [above(evidence.ratio((strided,), (contiguous, relayout), place, _warm(evidence)), 1.0, asked)]


def _copies_paid(evidence: Evidence, strided: Named, place: Place) -> list[Part]:
    """Against three copies and the contiguous kernel in one call, as PyTorch's user writes it."""
    told = "sdpa on strided heads takes {} the time of three copies and sdpa on contiguous ones, in one call"
    about = "strided ÷ (copies + contiguous)"
    asked = Statement(about, told, f"{told}: the copies do not pay", evidence.words(place))
    return [above(evidence.ratio((strided,), (COPIED,), place, _warm(evidence)), 1.0, asked)]


def _warm(evidence: Evidence) -> str | None:
    """The mode to add up in, on a GPU the warm one: what a relayout has just written is what the attention reads."""
    return "graph" if evidence.on_gpu else None


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
