"""C9: one thread block a (batch, head) pair, against what libraries do with the same heads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from results.claims.claim import Cases, Claim, Part
from results.claims.kernels import launched
from results.claims.lesson import D_MODEL, N_HEAD
from results.claims.rules import Statement, at_least, below, exactly, missing, not_in_run, unasked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from results.claims.evidence import Evidence, Place

OURS, LIBRARY = ("attention", "block_per_head"), ("attention", "sdpa")
CASES = Cases(("attention",), ("block_per_head", "sdpa"), (D_MODEL,), (N_HEAD,), needs_gpu=True)

PARALLEL = 0.5
"""Of the time that more heads would take one after the other: in parallel they take less than half of it."""

COMPETITIVE = 1.10
"""Its time ÷ the library's: a tenth slower still counts as using the parallelism."""


def parts(evidence: Evidence) -> list[Part]:
    """C9: launches, blocks against multiprocessors, time as heads are added and against the library's kernel."""
    about = "the lesson's kernel against the library's"
    if not evidence.on_gpu:
        return [unasked(about, "thread blocks are a GPU's; this run is on a CPU")]
    places = evidence.places((OURS, LIBRARY), D_MODEL, N_HEAD)
    if not places:
        return [not_in_run(evidence, about, (OURS, LIBRARY), D_MODEL, N_HEAD)]
    return [part for place in places for part in _at(evidence, place)] + _in_parallel(evidence, places)


def _at(evidence: Evidence, place: Place) -> list[Part]:
    ours, at = evidence.standing(OURS, place), evidence.words(place)
    assert ours is not None
    all_heads = Statement(
        "launches for all heads", "all heads are {} launch", "all heads are {} launches", at
    )
    told = "a block for each head, without tensor cores, takes {} the time of the library's kernel"
    time = Statement("its time ÷ the library's", told, told, at)
    return [
        exactly(launched(ours), 1, all_heads),
        _grid(evidence, place),
        below(evidence.ratio((OURS,), (LIBRARY,), place), COMPETITIVE, time),
    ]


def _grid(evidence: Evidence, place: Place) -> Part:
    """Whether there is a block for every multiprocessor."""
    blocks, sms, at = _blocks(place), evidence.sm_count(OURS, place), evidence.words(place)
    about = "blocks for multiprocessors"
    if sms is None:
        return missing(Statement(about, about, about, at), "the run does not know how many the GPU has")
    told = f"the grid has {{}} blocks for {sms} multiprocessors"
    asked = Statement(about, told, f"{told}: {sms - blocks} of them idle", at)
    return at_least(blocks, sms, asked)


def _in_parallel(evidence: Evidence, places: Sequence[Place]) -> list[Part]:
    """The time of the largest batch against one that leaves multiprocessors idle: one head after the other would take
    as many times more. Nothing where there are no two such batches.
    """
    most, least = places[0], min(places, key=lambda place: place.batch)
    sms = evidence.sm_count(OURS, least)
    if most == least or most._replace(batch=least.batch) != least or not sms or _blocks(least) >= sms:
        return []
    factor = most.batch / least.batch
    told = f"{factor:g} × as many heads as at batch {least.batch} take {{}} the time"
    asked = Statement("time as heads are added", told, f"{told}: hardly in parallel", evidence.words(most))
    return [below(evidence.ratio((OURS,), (OURS,), most, under_place=least), PARALLEL * factor, asked)]


def _blocks(place: Place) -> int:
    return place.batch * place.n_head


C9 = Claim(
    "C9",
    "One attention kernel runs all heads in parallel: a thread block takes one (batch, head) pair, its threads share "
    "the seq_len × head_dim tile, and the launch grid supplies the parallelism.",
    "one launch; at least a block for every multiprocessor; as many times more heads take less than half as many times "
    "the time; and at most 1.10 × the library kernel's time",
    parts,
    (CASES,),
)
