"""What `docs/using.md` answers on 8 or 12 heads: each figure, and each "level", is the recorded run's."""

from __future__ import annotations

import re
from functools import cache
from itertools import product
from typing import TYPE_CHECKING

import results
from reports import units
from results.ranking import apart, overlap
from results.schema import Outcome
from tests.test_readme import PAGES, marked

if TYPE_CHECKING:
    from results.record import Record
    from results.statistics import Estimate

HEADS = (8, 12)
ATTENTION, TRAINED_ATTENTION = ("attention", "forward"), ("attention", "step")
LAYER, TRAINED_LAYER = ("sublayer", "forward"), ("sublayer", "step")
STACK, TRAINED_STACK = ("stack", "forward"), ("stack", "step")


@cache
def run() -> results.Run:
    return results.read("nvidia-h200/heads_768")


@cache
def records() -> dict[tuple[str, str, str, int], Record]:
    """By stage, direction, variant and n_head."""
    return {
        (case.stage, case.direction, case.variant, case.n_head): record
        for record in run().records()
        if (case := record.case) and record.outcome is Outcome.OK
    }


def time(of: tuple[str, str], variant: str, n_head: int, mode: str = "isolated") -> Estimate:
    return records()[(*of, variant, n_head)].estimates[mode]


def ratio(one: Estimate, other: Estimate) -> float:
    """One time over the other, which intervals must keep apart."""
    assert apart(one, other)
    return one.value_s / other.value_s


def in_both(of: tuple[str, str], one: str, other: str) -> str:
    """One variant's time over the other's, at 8 and at 12 heads."""
    return units.ratio_range(ratio(time(of, one, n_head), time(of, other, n_head)) for n_head in HEADS)


def of_heads(of: tuple[str, str], variant: str, longer: int) -> str:
    """The variant's time with so many heads over that with the other number."""
    return units.ratio(ratio(time(of, variant, longer), time(of, variant, sum(HEADS) - longer)))


def test_the_figures_are_the_recorded_runs() -> None:
    steps = [time(TRAINED_STACK, "fused_sdpa", n_head) for n_head in HEADS]
    copies, strided = "sdpa_contiguous_copies", "sdpa_strided"
    told = [
        *(f"{units.duration(one.value_s)} ± {units.interval(one.half_width)}" for one in steps),
        of_heads(TRAINED_LAYER, "fused_sdpa", longer=8),
        of_heads(ATTENTION, "sdpa", longer=8),
        of_heads(LAYER, "custom", longer=12),
        of_heads(STACK, "custom", longer=12),
        in_both(STACK, "fused_sdpa", "custom"),
        in_both(ATTENTION, copies, strided),
        in_both(TRAINED_ATTENTION, copies, strided),
    ]
    said = " ".join(marked("heads answer").split())
    figures = r"\d[\d.]* ms ± [\d.]+ %|(?:\d[\d.]* to )?\d[\d.]* ×(?! \d)"
    assert re.findall(figures, said) == told


def test_what_is_called_level_is_level() -> None:
    for of in (TRAINED_STACK, LAYER, STACK):
        assert overlap(*(time(of, "fused_sdpa", n_head) for n_head in HEADS))
    for n_head in HEADS:
        assert overlap(*(time(STACK, variant, n_head, "eager") for variant in ("custom", "fused_sdpa")))
    for of, n_head in product((ATTENTION, TRAINED_ATTENTION), HEADS):
        assert overlap(time(of, "sdpa", n_head), time(of, "sdpa_strided", n_head))


def test_both_models_do_the_same_work_in_as_many_processes_and_minutes_as_is_said() -> None:
    for stage, direction in (TRAINED_ATTENTION, TRAINED_LAYER, TRAINED_STACK):
        work = {record.useful_flops for place, record in records().items() if place[:2] == (stage, direction)}
        assert len(work) == 1, stage
    assert len({record.parameters for (stage, *_), record in records().items() if stage == "stack"}) == 1
    assert run().manifest.replicates == 3
    assert f"three processes, {units.elapsed(run().took_s())})" in PAGES["docs/using.md"]
