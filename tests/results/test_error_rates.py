"""How often the rule errs, by simulation of the rule itself: fixed seeds, 20,000 trials or suites each.

A process's log median is its own share of chance (`between`, and in a two-mode process one of two levels 6 % apart)
plus what the calls leave: the median of n normal calls of σ is all but normal itself, with σ √(π / 2n).
"""

import math

import numpy as np
import pytest

from results import welch
from results.verdict import Verdict, confirmed, decide, judge, log_ratios

TRIALS = 20_000
CALLS = 51
WITHIN = 0.01
SUITE = 200
DIFFERENT = (Verdict.FASTER, Verdict.SLOWER)

PROCESSES = {
    **{f"sigma {between:.1%}": (between, False) for between in (0.0, 0.003, 0.005, 0.01, 0.1)},
    "two modes 6 % apart": (0.0, True),
    "two modes 6 % apart and sigma 0.5 %": (0.005, True),
}
noises = pytest.mark.parametrize(("between", "two_modes"), PROCESSES.values(), ids=PROCESSES)


def pairs(rng, shape, between, two_modes=False, change=0.0):
    """Log ratios of fresh pairs. The difference of two processes' chance is normal too, √2 as wide."""
    sigma = math.sqrt(2 * (between**2 + WITHIN**2 * math.pi / (2 * CALLS)))
    ratios = rng.standard_normal(shape[::-1]) * sigma + math.log1p(change)
    if two_modes:  # −1, 0, 0 or 1: the mode of one process minus that of the other
        ratios += np.array([-1, 0, 0, 1])[rng.integers(0, 4, ratios.shape, dtype=np.int8)] * math.log(1.06)
    return ratios.T  # pairs lie apart in memory: NumPy sums ten long rows faster than many short ones


def measured(rng, cases, between, two_modes=False, change=0.0):
    """(verdicts, confirmed) of so many cases, measured as `ab` does: more pairs only for those that need them."""
    first = pairs(rng, (cases, 5), between, two_modes, change)
    verdicts = judge(first)
    still_open = np.flatnonzero(verdicts == Verdict.UNDECIDED)
    second = pairs(rng, (still_open.size, 5), between, two_modes, change)
    verdicts[still_open] = judge(np.concatenate([first[still_open], second], axis=1))
    slower = np.flatnonzero(verdicts == Verdict.SLOWER)
    alarms = np.zeros(cases, dtype=bool)
    alarms[slower] = confirmed(pairs(rng, (slower.size, 10), between, two_modes, change))
    return verdicts, alarms


@noises
def test_identical_code_is_called_different_in_at_most_1_2_percent(between, two_modes):
    verdicts, _ = measured(np.random.default_rng(1), TRIALS, between, two_modes)
    assert np.isin(verdicts, DIFFERENT).mean() <= 0.012


@noises
def test_two_hundred_identical_cases_raise_an_alarm_in_at_most_1_percent_of_suites(between, two_modes):
    rng = np.random.default_rng(2)
    verdicts, _ = measured(rng, 10 * TRIALS, between, two_modes)
    slower = (verdicts == Verdict.SLOWER).mean()
    # The confirming pairs are fresh, hence independent of what called for them.
    alarm = slower * confirmed(pairs(rng, (10 * TRIALS, 10), between, two_modes)).mean()
    assert 1 - (1 - alarm) ** SUITE <= 0.01


def test_so_it_is_when_twenty_thousand_whole_suites_are_measured():
    rng = np.random.default_rng(2)
    suites, alarmed = 1000, 0
    for _ in range(TRIALS // suites):
        _, alarms = measured(rng, suites * SUITE, between=0.01)
        alarmed += alarms.reshape(suites, SUITE).any(axis=1).sum()
    assert alarmed / TRIALS <= 0.01


def test_without_confirmation_most_suites_would_raise_an_alarm():
    verdicts, _ = measured(np.random.default_rng(3), 1000 * SUITE, between=0.01)
    alarmed = (verdicts == Verdict.SLOWER).reshape(1000, SUITE).any(axis=1).mean()
    assert alarmed > 0.5


@pytest.mark.parametrize(("change", "between"), [(0.03, 0.01), (0.01, 0.003)])
def test_a_true_slowdown_is_found_and_confirmed_in_at_least_95_percent(change, between):
    verdicts, alarms = measured(np.random.default_rng(4), TRIALS, between, change=change)
    assert (verdicts == Verdict.SLOWER).mean() >= 0.95
    assert alarms.mean() >= 0.95


@pytest.mark.parametrize(("change", "between"), [(0.03, 0.01), (0.01, 0.003)])
def test_a_true_speedup_is_found_as_often(change, between):
    verdicts, _ = measured(np.random.default_rng(5), TRIALS, between, change=1 / (1 + change) - 1)
    assert (verdicts == Verdict.FASTER).mean() >= 0.95


def test_noise_is_undecided_not_different():
    verdicts, _ = measured(np.random.default_rng(6), TRIALS, between=0.1)
    assert (verdicts == Verdict.UNDECIDED).mean() >= 0.98


def test_steady_code_is_found_to_be_the_same():
    verdicts, _ = measured(np.random.default_rng(7), TRIALS, between=0.0)
    assert (verdicts == Verdict.SAME).mean() >= 0.99


@pytest.mark.parametrize("between", [0.003, 0.01])
def test_a_change_of_1_5_percent_is_rarely_called_the_same(between):
    verdicts, _ = measured(np.random.default_rng(8), TRIALS, between, change=0.015)
    assert (verdicts == Verdict.SAME).mean() <= 0.01


def as_processes(base_s, head_s):
    """The rule: a process is one sample."""
    return judge(log_ratios(np.median(base_s, axis=-1), np.median(head_s, axis=-1)))


def as_calls(base_s, head_s):
    """What most tools do: all calls are samples, and two means differ where a 99 % interval of them excludes 0."""
    logs = [np.log(side).reshape(len(side), -1) for side in (base_s, head_s)]
    centre = logs[1].mean(axis=1) - logs[0].mean(axis=1)
    error = np.sqrt(sum(side.var(axis=1, ddof=1) / side.shape[1] for side in logs))
    return np.where(np.abs(centre) > 2.58 * error, Verdict.SLOWER, Verdict.UNDECIDED)


@pytest.mark.parametrize(("rule", "honest"), [(as_processes, True), (as_calls, False)])
@pytest.mark.parametrize("between", [0.005, 0.01])
def test_a_rule_that_takes_calls_for_samples_fails_where_this_one_passes(rule, honest, between):
    rng = np.random.default_rng(9)
    trials, of_pairs = 4000, 10
    processes = rng.normal(math.log(1e-4), between, (2, trials, of_pairs, 1))
    base_s, head_s = np.exp(processes + rng.normal(0, WITHIN, (2, trials, of_pairs, CALLS)))
    wrong = np.isin(rule(base_s, head_s), DIFFERENT).mean()
    assert bool(wrong <= 0.012) is honest
    assert honest or wrong >= 0.19


@pytest.mark.parametrize(("sample", "honest"), [("run", True), ("process", False)])
def test_sessions_that_differ_by_1_percent_are_not_called_different_where_the_run_is_the_sample(
    sample, honest
):
    rng = np.random.default_rng(11)
    trials = 5000
    shift = rng.normal(0, 0.01, (trials, 2, 3, 1))  # what all processes of a run share
    processes = shift + rng.normal(0, 0.003, (trials, 2, 3, 5))
    logs = processes.mean(axis=3) if sample == "run" else processes.reshape(trials, 2, 15)
    found = np.array([welch.interval(base, head, 0.99) for base, head in logs.tolist()])
    wrong = np.isin(decide(found[:, 0], found[:, 1]), DIFFERENT).mean()
    assert bool(wrong <= 0.012) is honest


@pytest.mark.parametrize("between", [0.0, 0.003, 0.01])
def test_a_short_kernel_that_a_coarse_timer_reads_is_not_called_different(between):
    rng = np.random.default_rng(10)
    tick_s, kernel_s = 32e-9, 3e-6 + rng.uniform(0, 32e-9, (TRIALS, 1))
    base_s, head_s = kernel_s * np.exp(rng.normal(0, math.hypot(between, 0.00175), (2, TRIALS, 10)))
    read = [np.round(side / tick_s) * tick_s for side in (base_s, head_s)]
    resolution = tick_s / np.minimum(*(side.min(axis=1) for side in read))
    verdicts = judge(log_ratios(*read), resolution)
    assert np.isin(verdicts, DIFFERENT).mean() <= 0.012
