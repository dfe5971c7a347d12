"""C9: one thread block a (batch, head) pair, against what libraries do with the same heads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from results.claims.claim import Cases, Claim, Part
from results.claims.kernels import launched
from results.claims.lesson import D_MODEL, N_HEAD
from results.claims.rules import Statement, at_least, below, exactly, missing, not_in_run, unasked

if TYPE_CHECKING:
    from results.claims.evidence import Evidence, Place

OURS, LIBRARY = ("attention", "block_per_head"), ("attention", "sdpa")
CASES = Cases(("attention",), ("block_per_head", "sdpa"), (D_MODEL,), (N_HEAD,), needs_gpu=True)

COMPETITIVE = 1.10
"""Its time ÷ the library's: a tenth slower still counts as using the parallelism."""


def parts(evidence: Evidence) -> list[Part]:
    """C9: launches, blocks against multiprocessors, and time against the library's kernel."""
    about = "the lesson's kernel against the library's"
    if not evidence.on_gpu:
        return [unasked(about, "thread blocks are a GPU's; this run is on a CPU")]
    places = evidence.places((OURS, LIBRARY), D_MODEL, N_HEAD)
    if not places:
        return [not_in_run(evidence, about, (OURS, LIBRARY), D_MODEL, N_HEAD)]
    return [part for place in places for part in _at(evidence, place)]


def _at(evidence: Evidence, place: Place) -> list[Part]:
    ours, at = evidence.standing(OURS, place), evidence.words(place)
    assert ours is not None
    all_heads = Statement(
        "launches for all heads", "all heads are {} launch", "all heads are {} launches", at
    )
    told = "a block for each head takes {} the time of the library's kernel"
    time = Statement("its time ÷ the library's", told, told, at)
    return [
        exactly(launched(ours), 1, all_heads),
        _grid(evidence, place),
        below(evidence.ratio((OURS,), (LIBRARY,), place), COMPETITIVE, time),
    ]


def _grid(evidence: Evidence, place: Place) -> Part:
    """Whether there is a block for every multiprocessor."""
    blocks, sms, at = place.batch * place.n_head, evidence.sm_count(OURS, place), evidence.words(place)
    about = "blocks for multiprocessors"
    if sms is None:
        return missing(Statement(about, about, about, at), "the run does not know how many the GPU has")
    told = f"the grid has {{}} blocks for {sms} multiprocessors"
    asked = Statement(about, told, f"{told}: {sms - blocks} of them idle", at)
    return at_least(blocks, sms, asked)


C9 = Claim(
    "C9",
    "One attention kernel runs all heads in parallel: a thread block takes one (batch, head) pair, its threads share "
    "the seq_len × head_dim tile, and the launch grid supplies the parallelism.",
    "one launch; at least a block for every multiprocessor; and at most 1.10 × the library kernel's time",
    parts,
    (CASES,),
)
