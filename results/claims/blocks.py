"""C9: one thread block a (batch, head) pair, against what libraries do with the same heads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from results.claims.claim import Cases, Claim, Number, Part, Unit
from results.claims.kernels import launched
from results.claims.rules import above, exactly, missing, not_in_run

if TYPE_CHECKING:
    from results.claims.evidence import Evidence, Place

OURS, LIBRARY = ("attention", "block_per_head"), ("attention", "sdpa")
CASES = Cases(("attention",), ("block_per_head", "sdpa"), (768,), (12,), needs_gpu=True)

COMPETITIVE = 1 / 1.10
"""The library's time ÷ ours: a tenth slower still counts as using the parallelism."""


def parts(evidence: Evidence) -> list[Part]:
    """C9: launches, blocks against multiprocessors, and time against the library's kernel."""
    about = "the lesson's kernel against the library's"
    if not evidence.on_gpu:
        return [missing(about, "thread blocks are a GPU's; this run is on a CPU")]
    places = evidence.places((OURS, LIBRARY), 768, 12)
    if not places:
        return [not_in_run(evidence, about, (OURS, LIBRARY), CASES, 768, 12)]
    return [part for place in places for part in _at(evidence, place)]


def _at(evidence: Evidence, place: Place) -> list[Part]:
    ours = evidence.standing(OURS, place)
    assert ours is not None
    count = launched(ours)
    known, reason = (None, count) if isinstance(count, str) else (count, "")
    parts = [
        exactly(
            known,
            1,
            f"launches for all heads, {place}",
            f"at {place} all heads are {{}} launch",
            f"at {place} all heads are {{}} launches",
            reason,
        )
    ]
    blocks = place.batch * place.n_head
    if sms := evidence.sm_count:
        filled = Number(blocks / sms, Unit.TIMES)
        says = f"at {place} the grid of {blocks} blocks is {{}} this GPU's {sms} multiprocessors"
        parts.append(
            above(filled, 1.0, f"blocks ÷ multiprocessors, {place}", says, f"{says}: most of them idle")
        )
    found = evidence.ratio((LIBRARY,), (OURS,), place)
    slower = evidence.ratio((OURS,), (LIBRARY,), place)
    number = slower if isinstance(slower, Number) else None
    told = f"at {place} it takes {{}} the time of the library's kernel"
    judged = above(found, COMPETITIVE, f"the library's time ÷ its own, {place}", told, told)
    return [*parts, Part(judged.says, judged.answer, judged.rule, number, judged.reason)]


C9 = Claim(
    "C9",
    "One attention kernel runs all heads in parallel: a thread block takes one (batch, head) pair, its threads share "
    "the seq_len × head_dim tile, and the launch grid supplies the parallelism.",
    "one launch; at least a block for every multiprocessor; and at most 1.10 × the library kernel's time",
    parts,
    (CASES,),
)
