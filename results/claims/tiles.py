"""C10, C11 and C12: head_dim 64, 32 and 72 on tensor cores, and 80, which is a multiple of 16 as 72 is not.

Of tiles only a GPU that is full tells: with idle multiprocessors a call takes as long for half the work.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from results.claims.claim import Answer, Cases, Claim, Number, Part, Unit
from results.claims.kernels import backend
from results.claims.rules import Statement, above, below, missing, not_in_run, unasked
from results.tensor_use import NO_WORK, tensor_use

if TYPE_CHECKING:
    from collections.abc import Callable

    from results.claims.evidence import Evidence, Named, Place

    Test = Callable[[Evidence, Named, Place], list[Part]]

LIBRARIES = ("sdpa", "sdpa_cudnn", "sdpa_flash", "sdpa_efficient")
"""Fused kernels of libraries; `sdpa` is the one that PyTorch chooses."""

OURS = "flash_portable"
"""A kernel of ours that pads no head_dim: what is forced on it is forced on everybody."""

HEADS = 12
CASES = Cases(
    ("attention",),
    (*LIBRARIES, OURS),
    head_dim=(32, 64, 72, 80),
    batch=(32,),
    masks=("full",),
    counters=True,
    needs_gpu=True,
)

NO_PADDING = 1.02
"""Issued ÷ useful up to which nothing is padded; without a mask it is 1 exactly."""

LOSES = 1.10
"""Useful work a second at 64 ÷ at the other head_dim, from which the tile is under-used."""


def fits_64(evidence: Evidence) -> list[Part]:
    """C10: nothing is padded at 64, nor at 80, and 64 does more useful work a second than what is no such multiple."""
    fits = [partial(_fits, head_dim=head_dim) for head_dim in (64, 80)]
    return _families(evidence, 72, [*fits, partial(_ahead_of, head_dim=72)])


def under_uses_32(evidence: Evidence) -> list[Part]:
    """C11: nothing is padded at 32, and less useful work is done a second than at 64."""
    return _families(evidence, 32, [partial(_fits, head_dim=32), partial(_ahead_of, head_dim=32)])


def falls_back_at_72(evidence: Evidence) -> list[Part]:
    """C12: padding at 72, and another kernel than at 64; both forced on every kernel, ours included."""
    tests: list[Test] = [_padded_72, partial(_ahead_of, head_dim=72), _fallback_72]
    return _families(evidence, 72, tests, (*LIBRARIES, OURS))


def _families(
    evidence: Evidence,
    other: int,
    tests: list[Test],
    names: tuple[str, ...] = LIBRARIES,
) -> list[Part]:
    """Every test of every kernel at every shape that has 64 and the other head_dim, told by the shape at 64."""
    if not evidence.on_gpu:
        return [unasked("what tensor cores execute", "tensor cores are a GPU's; this run is on a CPU")]
    width = HEADS * 64
    needs = [("attention", name) for name in names]
    at = {named: _swept(evidence, named, other) for named in needs}
    about = f"attention at head_dim {min(other, 64)} and {max(other, 64)}"
    if not any(at.values()):
        return [not_in_run(evidence, about, needs[:1], width, HEADS)]
    parts = [
        part
        for named in needs
        for place in at[named]
        for test in tests
        for part in test(evidence, named, place)
    ]
    # The claim is of every kernel: one that nobody measured must not pass for one that agrees.
    return parts + [not_in_run(evidence, about, (named,), width, HEADS) for named in needs if not at[named]]


def _swept(evidence: Evidence, named: Named, other: int) -> list[Place]:
    """A kernel's shapes at 64 that answer best: with the other head_dim, without a mask, on a full GPU, each if any.

    Other claims measure 64 under a causal mask: that they are in the same run must not leave this one open.
    """
    found = evidence.places((named,), HEADS * 64, HEADS)
    found = [place for place in found if evidence.has(named, _sized(place, other))] or found
    found = [place for place in found if not place.causal] or found
    return [place for place in found if not _idle(evidence, named, place)] or found


def _idle(evidence: Evidence, named: Named, place: Place) -> str | None:
    """Why times at this shape tell nothing of tiles: fewer heads than multiprocessors; None where they do."""
    heads, sms = place.batch * place.n_head, evidence.sm_count(named, place)
    if sms is None or heads >= sms:
        return None
    return f"{heads} heads do not fill {sms} multiprocessors, whatever their tiles: a larger --batch tells"


def _sized(place: Place, head_dim: int) -> Place:
    return place._replace(d_model=place.n_head * head_dim)


def _issued(evidence: Evidence, named: Named, place: Place) -> Number | str:
    """What the tensor cores executed ÷ the algorithm's FLOPs, without a mask: half-empty tiles would count, too."""
    standing = evidence.standing(named, place)
    if standing is None:
        return f"no time of {'/'.join(named)} at head_dim {place.d_model // place.n_head}"
    if place.causal:
        return (
            "with a causal mask, masked halves of tiles look like padding: --mask full --counters ncu tells"
        )
    use = tensor_use(standing)
    if use.issued_ratio is None:
        return use.missing.get("issued_ratio", "it was not counted")
    if use.issued_ratio == 0:
        return "it executes no matrix instruction"
    return Number(use.issued_ratio, Unit.TIMES)


def _fits(evidence: Evidence, named: Named, place: Place, head_dim: int) -> list[Part]:
    told = f"{named[1]} executes {{}} the FLOPs it needs at {head_dim} = {head_dim // 16} × 16"
    about, at = f"issued ÷ useful at {head_dim}", evidence.words(place)
    asked = Statement(about, told, f"{told}: it is padded", at, named[1])
    return [below(_issued(evidence, named, _sized(place, head_dim)), NO_PADDING, asked)]


def _padded_72(evidence: Evidence, named: Named, place: Place) -> list[Part]:
    told = f"{named[1]} executes {{}} the FLOPs it needs at 72"
    about, at = "issued ÷ useful at 72", evidence.words(place)
    asked = Statement(about, told, f"{told}: nothing is padded", at, named[1])
    return [above(_issued(evidence, named, _sized(place, 72)), NO_PADDING, asked)]


def _ahead_of(evidence: Evidence, named: Named, place: Place, head_dim: int) -> list[Part]:
    """Useful FLOP/s at 64 ÷ those at the other: times weighed with the work that was done in them."""
    other = _sized(place, head_dim)
    found = evidence.ratio((named,), (named,), other, under_place=place)
    if isinstance(found, Number) and (idle := _idle(evidence, named, place)):
        found = idle
    theirs, ours = evidence.standing(named, other), evidence.standing(named, place)
    if isinstance(found, Number) and theirs and ours:
        work = ours.record.useful_flops, theirs.record.useful_flops
        found = found.times(work[0] / work[1]) if all(work) else NO_WORK
    told = f"{named[1]} does {{}} the useful work a second at 64 that it does at {head_dim}"
    about = f"useful work a second at 64 ÷ at {head_dim}"
    return [above(found, LOSES, Statement(about, told, told, evidence.words(place), named[1]))]


def _fallback_72(evidence: Evidence, named: Named, place: Place) -> list[Part]:
    """Whether PyTorch's own choice leaves the library that it takes at 64: a forced backend cannot fall back."""
    if named[1] != LIBRARIES[0]:
        return []
    about, at, margin = "PyTorch's choice at 72", evidence.words(place), "another library than at 64"
    found = [evidence.standing(named, _sized(place, head_dim)) for head_dim in (64, 72)]
    used = [backend(one) if one else None for one in found]
    if None in used:
        return [missing(Statement(about, about, about, at), "its kernels were not recorded", margin)]
    if used[0] != used[1]:
        told = f"PyTorch goes from {used[0]} at 64 to {used[1]} at 72"
        return [Part(about, at, told, Answer.HOLDS, margin)]
    return [Part(about, at, f"PyTorch stays with {used[0]} at 72: no fallback", Answer.FAILS, margin)]


C10 = Claim(
    "C10",
    "Tensor cores (RTX 4090) prefer tiles in multiples of 16: head_dim 64 = 4 × 16 fits exactly.",
    "without a mask, on a full GPU, no library kernel executes more than 1.02 × the needed FLOPs at 64, nor at 80 = "
    "5 × 16, and each does more than 1.10 × the useful work a second at 64 that it does at 72",
    fits_64,
    (CASES,),
)
C11 = Claim(
    "C11",
    "head_dim 32 fits too but under-uses the tile.",
    "without a mask, on a full GPU, no library kernel executes more than 1.02 × the needed FLOPs at 32, and each does "
    "more than 1.10 × the useful work a second at 64",
    under_uses_32,
    (CASES,),
)
C12 = Claim(
    "C12",
    "head_dim 72 does not fit and forces fallback kernels.",
    "without a mask, on a full GPU, every kernel executes more than 1.02 × the needed FLOPs at 72 (one that does not "
    "shows that nothing forces it) and does more than 1.10 × the useful work a second at 64, and PyTorch leaves the "
    "library of 64",
    falls_back_at_72,
    (CASES,),
)
