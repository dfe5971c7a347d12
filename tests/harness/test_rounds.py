"""The rounds under a scripted clock: exact statistics, a fair share for every case, and samples that are never lost."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import groupby
from statistics import median

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import binom

from harness.clocks import Cooling
from harness.fakes import ScriptedBracket, ScriptedClock, bimodal, constant, drifting
from harness.rounds import LONGEST_BLOCK_S, ROUNDS, Surroundings, measure
from harness.sensors.nvml import Reading
from harness.series import (
    FEWEST_SAMPLES,
    FEWEST_WARMUPS,
    FIXED_SAMPLES,
    MOST_SAMPLES,
    MOST_WARMUPS,
    PRECISE_BLOCKS,
    SAMPLES_TO_JUDGE,
    Series,
)

TICK = 1 / 1024
"""A span that adds up without rounding, and is stored rounded to 0.1 ns."""


@dataclass
class Bench:
    """Series on one scripted clock, and who was sampled in which order."""

    clock: ScriptedClock = field(default_factory=ScriptedClock)
    blocks: list[tuple[str, str]] = field(default_factory=list)
    sampled: list[str] = field(default_factory=list)
    cooling: Cooling = field(default_factory=Cooling)

    def series(self, spans_s, case="a", mode="eager", flags=None, sm_clock_mhz=lambda: None) -> Series:
        bracket = ScriptedBracket(self.clock, spans_s, flags, lambda: self.sampled.append(case), sm_clock_mhz)
        return Series(case, mode, bracket, self.cooling)

    def measure(self, series, seconds, seed=0) -> None:
        def before_block(one):
            self.blocks.append((one.case_key, one.mode))

        around = Surroundings(self.clock, before_block)
        measure(series, seconds, random.Random(seed), around)


def test_a_constant_stream_fills_its_time_exactly_in_five_blocks():
    bench = Bench()
    one = bench.series(constant(TICK))
    bench.measure([one], 20 * TICK)
    timing = one.timing()
    assert timing.span_s == (round(TICK, 10),) * 20
    assert timing.block_samples == (6, 4, 4, 3, 3)
    assert timing.warmup_samples == FEWEST_WARMUPS
    assert (timing.precision, timing.stopped) == (0.0, "share spent")
    assert (timing.calls_per_sample, timing.resolution_s, timing.floor_s) == (1, 1e-9, 2e-6)
    assert bench.clock.now == 20 * TICK


@pytest.mark.parametrize("mode", ["isolated", "graph"])
def test_a_mode_that_is_known_precisely_stops_and_says_so(mode):
    bench = Bench()
    one = bench.series(constant(TICK), mode=mode)
    bench.measure([one], 1000 * TICK)
    assert one.block_samples == [FEWEST_WARMUPS + SAMPLES_TO_JUDGE, SAMPLES_TO_JUDGE, SAMPLES_TO_JUDGE]
    assert one.timing().stopped == "precise"


def test_a_long_budget_means_more_rounds_and_never_a_block_without_a_sign_of_life():
    bench = Bench()
    series = [bench.series(bimodal(0.25, 0.26), case, "graph") for case in "ab"]
    bench.measure(series, 100.0)
    for one in series:
        assert max(one.block_samples) * 0.25 <= LONGEST_BLOCK_S + FEWEST_WARMUPS * 0.25
        assert len(one.block_samples) > ROUNDS
    assert bench.clock.now == pytest.approx(100.0, abs=2 * LONGEST_BLOCK_S)


def test_eager_takes_its_fixed_share_however_precise_it_is_and_leaves_the_rest_to_others():
    bench = Bench()
    eager, isolated = (bench.series(constant(TICK), mode=mode) for mode in ("eager", "isolated"))
    bench.measure([eager, isolated], 1000 * TICK)
    assert (eager.stopped, isolated.stopped) == ("fixed number", "precise")
    assert eager.block_samples == [FEWEST_WARMUPS + FIXED_SAMPLES // ROUNDS] + [FIXED_SAMPLES // ROUNDS] * (
        ROUNDS - 1
    )
    assert bench.clock.now < 100 * TICK


def test_a_bimodal_stream_is_never_called_precise():
    bench = Bench()
    one = bench.series(bimodal(TICK, 2 * TICK), mode="isolated")
    bench.measure([one], 300 * TICK)
    timing = one.timing()
    assert set(timing.used_s) == {round(TICK, 10), round(2 * TICK, 10)}
    expected = TICK / 2 / median(timing.used_s)  # the interval reaches from one mode to the other
    assert timing.precision == pytest.approx(expected, rel=1e-6)
    assert timing.stopped == "share spent"


def test_blocks_that_disagree_are_not_precise_though_the_ranks_of_all_samples_see_the_middle_one_alone():
    bench = Bench()
    steps = [TICK] * (FEWEST_WARMUPS + 10) + [1.04 * TICK] * 10 + [1.08 * TICK] * 10
    one = bench.series(iter(steps), mode="isolated")
    bench.measure([one], 31 * TICK)
    assert len(one.block_samples) >= PRECISE_BLOCKS
    assert one.timing().precision > 0.03
    assert one.timing().stopped != "precise"


def test_a_drifting_stream_is_at_least_as_imprecise_as_its_ranks_say():
    bench = Bench()
    one = bench.series(drifting(100 * TICK, TICK), mode="graph")
    bench.measure([one], 5000 * TICK)
    used = [round((100 + i) * TICK, 10) for i in range(FEWEST_WARMUPS, len(one.spans_s))]
    assert one.used == used
    rank = max(r for r in range(len(used)) if binom.cdf(r, len(used), 0.5) <= 0.025)
    expected = (used[-1 - rank] - used[rank]) / 2 / median(used)
    assert one.timing().precision >= expected > 0.005
    assert one.stopped == "share spent"


def test_the_warm_up_ends_with_the_first_sample_that_is_no_longer_faster_and_none_of_it_is_used():
    bench = Bench()
    one = bench.series(iter([TICK * spans for spans in (100, 50, 25, 24.9)] + [TICK] * 30), mode="isolated")
    bench.measure([one], 10_000 * TICK)
    timing = one.timing()
    assert timing.warmup_samples == 4  # 24.9 is within 2 % of 25
    assert set(timing.used_s) == {round(TICK, 10)}
    assert timing.precision == 0.0
    assert timing.span_s[:3] == (round(TICK * 100, 10), round(TICK * 50, 10), round(TICK * 25, 10))


def test_a_stream_that_gets_faster_for_ever_has_warmed_up_enough_at_last():
    bench = Bench()
    one = bench.series((TICK * 0.9**i for i in range(1000)), mode="isolated")
    bench.measure([one], TICK)
    assert one.timing().warmup_samples == MOST_WARMUPS


@pytest.mark.parametrize("seconds", [-1e9, -1.0, 0.0, 1e-12, 3 * TICK])
@pytest.mark.parametrize("mode", ["isolated", "eager", "graph"])
def test_every_case_keeps_its_fewest_samples_however_small_the_budget(seconds, mode):
    bench = Bench()
    series = [bench.series(constant(TICK), case, mode) for case in "abcdefgh"]
    bench.measure(series, seconds)
    assert [len(one.used) for one in series] == [FEWEST_SAMPLES] * 8
    assert all(one.stopped == "share spent" for one in series)


def test_one_slow_case_takes_nobody_elses_fewest_samples():
    bench = Bench()
    slow, fast = bench.series(constant(1000 * TICK), "slow"), bench.series(constant(TICK), "fast")
    bench.measure([slow, fast], 100 * TICK)
    assert len(slow.used) == FEWEST_SAMPLES
    assert len(fast.used) >= FEWEST_SAMPLES


def test_a_stored_series_does_not_grow_without_bound():
    bench = Bench()
    eager = bench.series(constant(TICK))
    noisy = bench.series(bimodal(TICK, 2 * TICK), "b", "isolated")
    bench.measure([eager, noisy], 1e9)
    assert [len(one.used) for one in (eager, noisy)] == [FIXED_SAMPLES, MOST_SAMPLES]
    assert [one.stopped for one in (eager, noisy)] == ["fixed number", "limit"]


def test_a_clock_that_stands_still_does_not_loop_for_ever():
    bench = Bench()
    one = bench.series(constant(0.0), mode="isolated")
    bench.measure([one], 1.0)
    assert len(one.used) == MOST_SAMPLES
    assert one.timing().stopped == "limit"


def test_cases_take_turns_and_none_is_sampled_only_at_the_end():
    bench = Bench()
    cases = "abcdef"
    series = [bench.series(bimodal(TICK, 2 * TICK), case) for case in cases]
    bench.measure(series, 600 * TICK)
    rounds = [bench.blocks[i : i + len(cases)] for i in range(0, len(bench.blocks), len(cases))]
    assert len(rounds) == ROUNDS
    assert all(sorted(case for case, _ in one) == sorted(cases) for one in rounds)
    assert len(set(map(tuple, rounds))) > 1  # a fresh order each time
    for case in cases:
        places = [i for i, sampled in enumerate(bench.sampled) if sampled == case]
        assert places[0] < len(bench.sampled) / 3
        assert places[-1] > len(bench.sampled) * 2 / 3


def test_the_modes_of_a_case_are_neighbours_in_every_round():
    bench = Bench()
    modes = ["isolated", "eager", "graph"]
    series = [
        bench.series(bimodal(TICK, 2 * TICK), case, mode) for mode in modes for case in "abcd"
    ]  # not in order
    bench.measure(series, 1200 * TICK)
    per_round = len(series)
    for start in range(0, len(bench.blocks), per_round):
        one = bench.blocks[start : start + per_round]
        assert [len(list(of)) for _, of in groupby(one, key=lambda block: block[0])] == [3, 3, 3, 3]


def test_the_order_depends_on_the_seed_alone():
    def order(seed, span):
        bench = Bench()
        bench.measure([bench.series(constant(span), case) for case in "abcdef"], 600 * TICK, seed)
        return bench.blocks

    assert order(1, TICK) == order(1, 2 * TICK)
    assert len({tuple(order(seed, TICK)) for seed in range(5)}) == 5


def test_flags_land_on_the_samples_they_mark_warm_ups_included():
    bench = Bench()
    flags = {0: "released_by_timeout", 5: "throttled", 21: "throttled", 22: "released_by_timeout"}
    one = bench.series(constant(TICK), flags=flags)
    bench.measure([one], 100 * TICK)
    assert one.timing().flags == {"released_by_timeout": [0, 22], "throttled": [5, 21]}


def test_the_gpu_is_read_once_after_each_block_never_inside():
    bench = Bench()
    one = bench.series(constant(TICK))
    readings = [Reading(mhz, 100.0 + mhz, 40.0, 4) for mhz in (1980.0, 1755.0, 1500.0, 1440.0, 1200.0)]
    coming = iter(readings)
    sampled_when_read = []

    def read():
        sampled_when_read.append(len(one.spans_s))
        return next(coming)

    measure([one], 100 * TICK, random.Random(0), Surroundings(bench.clock, read=read))
    timing = one.timing()
    assert timing.sm_clock_mhz == (1980.0, 1755.0, 1500.0, 1440.0, 1200.0)
    assert timing.power_w == tuple(100.0 + mhz for mhz in timing.sm_clock_mhz)
    assert (timing.temperature_c, timing.clock_event_reasons) == ((40.0,) * 5, (4,) * 5)
    assert sampled_when_read == [7, 12, 17, 22, 27]


def test_a_gpu_that_tells_nothing_leaves_nothing_and_no_zero():
    bench = Bench()
    one = bench.series(constant(TICK))
    bench.measure([one], 100 * TICK)
    timing = one.timing()
    for values in (timing.sm_clock_mhz, timing.power_w, timing.temperature_c, timing.clock_event_reasons):
        assert values == (None,) * len(timing.block_samples)


def test_a_clock_measured_with_the_samples_goes_before_the_drivers_which_may_be_old():
    bench = Bench()
    clocks = iter([1980.0] * 7 + [1700.0, 1720.0, 1740.0] * 20)
    one = bench.series(constant(TICK), sm_clock_mhz=lambda: next(clocks))
    measure(
        [one], 100 * TICK, random.Random(0), Surroundings(bench.clock, read=lambda: Reading(1980.0, 650.0))
    )
    assert one.timing().sm_clock_mhz[0] == 1980.0
    assert set(one.timing().sm_clock_mhz[1:]) == {1720.0}
    assert set(one.timing().power_w) == {650.0}


def test_a_block_whose_clock_was_not_measured_has_none_and_makes_no_other_a_throttled_one():
    bench = Bench()
    clocks = iter([None] * 7 + [1755.0] * 5 + [None] * 5 + [1754.0] * 100)
    one = bench.series(constant(TICK), sm_clock_mhz=lambda: next(clocks))
    measure([one], 100 * TICK, random.Random(0), Surroundings(bench.clock, read=lambda: Reading(1980.0)))
    timing = one.timing()
    assert timing.sm_clock_mhz == (None, 1755.0, None, 1754.0, 1754.0)
    assert timing.flags == {}
    assert (
        rested_s((1980.0, 300.0, [None]), (1980.0, 300.0, [None, 1755.0]), (1980.0, 300.0, [1755.0, None]))
        == 0
    )


def test_samples_of_a_block_at_a_lowered_clock_are_flagged_and_kept():
    bench = Bench()
    clocks = iter([1880.0] * 12 + [1700.0] * 10 + [1879.0] * 100)
    one = bench.series(constant(TICK), mode="graph", sm_clock_mhz=lambda: next(clocks))
    bench.measure([one], 1000 * TICK)
    assert one.timing().flags == {"throttled": list(range(12, 22))}
    assert len(one.timing().span_s) == 32


def rested_s(*blocks, measuring_s=2.0, block_s=0.03) -> float:
    """How long a 700 W GPU rested after blocks that ended with (driver's clock, power, clocks measured so far)."""
    rests = []
    cooling = Cooling(power_limit_w=700.0, sleep=rests.append)
    cooling.allow(measuring_s)
    for mhz, watts, measured in blocks:
        cooling.note(Reading(mhz, watts), measured, block_s)
        cooling.rest()
        cooling.rest()  # once is enough
    return sum(rests)


def test_the_gpu_rests_as_long_as_a_hot_block_took():
    assert rested_s((1980.0, 300.0, [1880.0]), (1980.0, 300.0, [1880.0, 1700.0])) == pytest.approx(0.03)
    assert rested_s((1980.0, 300.0, []), (1700.0, 300.0, [])) == pytest.approx(0.03)
    assert rested_s((1980.0, 680.0, [1700.0])) == pytest.approx(0.03)
    assert rested_s((1980.0, 680.0, [1700.0]), block_s=0.001) == pytest.approx(0.02)


def test_a_clock_that_is_a_cases_own_or_locked_or_unknown_is_no_reason_to_rest():
    assert (
        rested_s((1980.0, 300.0, [1979.0]), (1980.0, 300.0, [1650.0]), (1980.0, 300.0, [1650.0, 1648.0])) == 0
    )
    assert rested_s((1410.0, 300.0, [1400.0]), (1410.0, 300.0, [1400.0, 1395.0])) == 0
    assert rested_s((None, None, []), (None, None, [])) == 0


def test_rests_take_half_of_the_time_and_no_more_where_the_gpu_stays_hot():
    assert rested_s(*[(1980.0, 680.0, [1700.0])] * 100, measuring_s=2.0) == pytest.approx(1.0)


def test_what_a_series_wanted_is_what_it_took_if_it_is_precise_else_as_many_samples_as_its_scatter_asks_for():
    bench = Bench()
    precise = bench.series(constant(TICK), "precise", "isolated")
    noisy = bench.series(bimodal(TICK, 1.02 * TICK), "noisy", "isolated")
    bench.measure([precise, noisy], 220 * TICK)
    assert precise.wanted_s() == precise.spent_s
    half_width = noisy.timing().precision
    samples = len(noisy.used) * (half_width / 0.005) ** 2
    assert noisy.wanted_s() == pytest.approx(noisy.spent_s * samples / len(noisy.used))
    assert noisy.wanted_s() > noisy.spent_s


def test_time_given_back_by_a_series_that_stops_early_goes_to_the_others():
    bench = Bench()
    early = bench.series(constant(TICK), "early", "isolated")
    noisy = [bench.series(bimodal(TICK, 2 * TICK), case, "graph") for case in ("b", "c")]
    bench.measure([early, *noisy], 900 * TICK)
    assert len(early.spans_s) == FEWEST_WARMUPS + PRECISE_BLOCKS * SAMPLES_TO_JUDGE
    assert bench.clock.now == pytest.approx(900 * TICK, abs=2 * TICK)
    spent = [sum(one.spans_s) / TICK for one in noisy]
    assert spent == pytest.approx([434, 434], abs=4)


def test_a_case_that_raises_leaves_the_others_to_be_measured_to_their_end():
    bench = Bench()
    good = bench.series(bimodal(TICK, 1.1 * TICK), "good", "graph")
    bad = bench.series(iter([TICK] * 20), "bad")  # the 21st sample raises
    with pytest.raises(StopIteration):
        bench.measure([good, bad], 200 * TICK)
    bench.measure([good], 200 * TICK - bench.clock.now)
    assert bench.clock.now == pytest.approx(200 * TICK, abs=2 * TICK)
    timing = good.timing()
    assert sum(timing.block_samples) == len(timing.span_s)


def test_nothing_to_measure_is_no_fault():
    Bench().measure([], 1.0)


@given(
    spans=st.lists(st.floats(1e-7, 0.5), min_size=1, max_size=6),
    modes=st.sets(st.sampled_from(["isolated", "eager", "graph"]), min_size=1),
    seconds=st.floats(-1.0, 5.0),
    seed=st.integers(0, 9),
)
# Blocks of which some end by time and some by number once added up to more than the most.
@example(
    spans=[0.00390625, 6.103515625e-05, 6.103515625e-05, 0.001953125],
    modes={"isolated", "eager", "graph"},
    seconds=0.75,
    seed=0,
)
def test_whatever_the_spans_and_the_budget_every_sample_has_its_block(spans, modes, seconds, seed):
    bench = Bench()
    series = [
        bench.series(bimodal(span, 1.1 * span), str(case), mode)
        for case, span in enumerate(spans)
        for mode in sorted(modes)
    ]
    bench.measure(series, seconds, seed)
    for one in series:
        timing = one.timing()
        assert sum(timing.block_samples) == len(timing.span_s)
        assert len(timing.sm_clock_mhz) == len(timing.block_samples)
        assert FEWEST_SAMPLES <= len(timing.used_s) <= MOST_SAMPLES
        assert timing.stopped in ("precise", "limit", "share spent", "fixed number")
    # Past its time the rounds only fill up to the fewest: warm-up, those, and the sample in hand.
    overrun = (FEWEST_WARMUPS + FEWEST_SAMPLES + 1) * 1.1 * len(modes) * sum(spans)
    assert bench.clock.now <= max(seconds, 0.0) + overrun
