"""A compared with itself; samples that are deleted, warm-ups that are used."""

from __future__ import annotations

import random
from itertools import chain, cycle, repeat
from statistics import median, quantiles

import numpy as np
import pytest
from scipy import stats

import results
from harness.clocks import Cooling
from harness.fakes import ScriptedBracket, ScriptedClock
from harness.rounds import Surroundings, measure
from harness.series import Series
from results.record import assemble
from results.statistics import t_quantile
from results.verdict import Verdict, judge
from tests.results import builders

DECLARED = 0.012
"""The rate at which identical code may be called different."""
DIFFERENT = (Verdict.FASTER, Verdict.SLOWER)
TRIALS = 4_000


def identical(between: float, within: float = 0.01, processes: int = 10, calls: int = 30) -> np.ndarray:
    """Logs of times of the same code, [side, trial, process, call]: processes differ, and calls within them."""
    rng = np.random.default_rng(3)
    offsets = rng.normal(0, between, (2, TRIALS, processes, 1))
    return offsets + rng.normal(0, within, (2, TRIALS, processes, calls))


@pytest.mark.parametrize("between", [0.005, 0.01, 0.1])
def test_a_compared_with_itself_is_never_faster_or_slower_beyond_the_declared_rate(between):
    """A naive tool takes calls as samples, though those of one process share its luck."""
    base, head = identical(between)
    naive = stats.ttest_ind(*(side.reshape(TRIALS, -1) for side in (base, head)), axis=1).pvalue < 0.01
    assert naive.mean() > 0.19
    medians = np.median(base, axis=-1), np.median(head, axis=-1)
    assert np.isin(judge(medians[1] - medians[0]), DIFFERENT).mean() <= DECLARED


def test_a_compared_with_itself_is_not_looked_at_until_something_shows():
    """A naive tool looks after every pair and stops at the first that seems to differ."""
    base, head = np.median(identical(0.01, processes=20), axis=-1)
    ratios = head - base
    seems = np.zeros(TRIALS, dtype=bool)
    for pairs in range(2, 21):
        seen = ratios[:, :pairs]
        margin = t_quantile(0.99, pairs - 1) * seen.std(axis=1, ddof=1) / pairs**0.5
        seems |= np.abs(seen.mean(axis=1)) > margin
    assert seems.mean() > 4 * DECLARED
    assert np.isin(judge(ratios), DIFFERENT).mean() <= DECLARED


def test_a_difference_that_noise_hides_is_undecided_and_never_called_the_same():
    """A naive tool takes "not significant" for "no regression"."""
    rng = np.random.default_rng(4)
    ratios = rng.normal(0.03, 0.1, (TRIALS, 10))  # 3 % slower, among processes that differ by 10 %
    naive_same = stats.ttest_1samp(ratios, 0, axis=1).pvalue > 0.01
    assert naive_same.mean() > 0.9
    verdicts = judge(ratios)
    assert (verdicts == Verdict.SAME).mean() < 0.001
    assert (verdicts == Verdict.UNDECIDED).mean() > 0.9


def taken(spans_s, mode: str = "isolated", seconds: float = 1.0):
    """What is stored of a series with this stream of times."""
    clock = ScriptedClock()
    series = Series("case", mode, ScriptedBracket(clock, spans_s), Cooling())
    measure([series], seconds, random.Random(0), Surroundings(clock))
    return series.timing()


def without_outliers(samples):
    """What many tools do before they look: away with all that is beyond 1.5 quartile distances."""
    low, _, high = quantiles(samples, n=4)
    reach = 1.5 * (high - low)
    return [one for one in samples if low - reach <= one <= high + reach]


def test_samples_are_never_deleted_however_far_out_they_lie(tmp_path):
    """A naive tool deletes outliers, and with them every sign that a kernel has a second, slower mode."""
    stream = [1e-3, 1e-3, 1e-3, 1e-3, 1.1e-3]
    timing = taken(cycle(stream))
    kept = without_outliers(timing.used_s)
    assert set(kept) == {1e-3}, "nobody could tell any more"
    assert timing.span_s == tuple(stream[i % 5] for i in range(len(timing.span_s)))
    assert sum(timing.block_samples) == len(timing.span_s)
    trial = builders.trial(timings={"isolated": timing})
    path = builders.stored(tmp_path, builders.manifest([trial.case], replicates=1), [trial])
    read = results.read(path)
    assert read.trials[0].timings["isolated"].span_s == timing.span_s
    assert sorted(read.samples()["span_s"]) == sorted(timing.span_s)


def test_warm_ups_are_kept_and_not_used():
    """A naive tool averages from the first call on, or throws the first calls away unseen."""
    first = [0.5, 0.02, 0.002]
    timing = taken(chain(first, repeat(1e-3)))
    assert timing.span_s[:3] == tuple(first)
    assert timing.warmup_samples >= 4
    assert set(timing.used_s) == {1e-3}
    assert sum(timing.span_s) / len(timing.span_s) > 5 * median(timing.used_s)
    trial = builders.trial(timings={"isolated": timing})
    (record,) = assemble(builders.manifest([trial.case], replicates=1), [trial])
    assert record.estimates["isolated"].value_s == pytest.approx(1e-3)
