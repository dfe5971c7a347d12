"""Which pairs are measured, in which order and for how long; the runners are scripted and the clock is theirs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import pairs
from harness.errors import HeadbenchError
from harness.pairs import PairMeasurement, order
from results.schema import MODES, Outcome
from tests.results import builders, sessions

ONE, TWO = builders.case("one"), builders.case("two")
STEADY = dict(enumerate(sessions.STEADY * 4))
UNSTEADY = {pair: 1 + 0.03 * (-1) ** pair for pair in range(20)}
ONCE_SLOWER = {**dict.fromkeys(range(10), 1.03), **dict.fromkeys(range(10, 20), 1.0)}


class Clock:
    now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


class ScriptedRunner:
    """Takes `start_s` and the seconds it is given; its trials are 100 µs times what the script says of each pair."""

    def __init__(self, side, run, clock, script, log, start_s=2.0):
        self._side, self._run, self._clock, self._script, self._log = side, run, clock, script, log
        self.start_s = start_s

    def replicate(self, replicate, cases, seconds):
        self._log.append((replicate, self._side, tuple(case.variant for case in cases), round(seconds, 9)))
        self._clock.now_s += self.start_s + seconds
        for case in cases:
            said = self._script.get(case.variant, STEADY).get(replicate, 1.0)
            if isinstance(said, Exception):
                raise said
            if isinstance(said, Outcome):
                trial = builders.trial(case, replicate, outcome=said, reason="so it is", timings={})
            else:
                trial = sessions.trial(case, replicate, dict.fromkeys(MODES, 1e-4 * said))
            self._run.trials.append(trial)


class Shown:
    def __init__(self):
        self.parts, self.notes, self.added = [], [], []

    def begin(self, part):
        self.parts.append(part)

    def note(self, text):
        self.notes.append(text)

    def more(self, trials, seconds):
        self.added.append((trials, seconds))


@pytest.fixture
def session(monkeypatch):
    """Measure two cases whose head does what the scripts say; what was measured, in order, and what was shown."""
    clock = Clock()
    monkeypatch.setattr(pairs, "time", clock)

    def measure(budget_s=1000.0, seed=0, base=None, **head):
        log, shown = [], Shown()
        runs = sessions.runs([], [], cases=(ONE, TWO))
        runners = {
            side: ScriptedRunner(side, run, clock, script, log)
            for side, run, script in (("base", runs.base, base or {}), ("head", runs.head, head))
        }
        measure.runs, measure.log, measure.shown = runs, log, shown
        PairMeasurement(runners, runs, shown, seed).measure((ONE, TWO), budget_s)
        return log, shown

    return measure


def replicates(log, side, variant):
    return [pair for pair, of, variants, _ in log if of == side and variant in variants]


def test_what_five_pairs_decide_is_not_measured_again(session):
    log, shown = session()
    assert [pair for pair, *_ in log] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert all(variants == ("one", "two") for _, _, variants, _ in log)
    assert shown.notes == []
    assert sorted(shown.parts[:2]) == ["1/5 base", "1/5 head"]


def test_what_five_leave_open_gets_five_more_and_nothing_else_does(session):
    log, shown = session(two=UNSTEADY)
    for side in ("base", "head"):
        assert replicates(log, side, "one") == list(range(5))
        assert replicates(log, side, "two") == list(range(10))
    assert shown.notes == ["5 more pairs of 1 case, for what 5 leave undecided"]
    assert shown.added[0][0] == 10


def test_what_is_slower_is_measured_in_ten_fresh_pairs(session):
    log, shown = session(one=ONCE_SLOWER)
    for side in ("base", "head"):
        assert replicates(log, side, "one") == [*range(5), *range(10, 20)]
        assert replicates(log, side, "two") == list(range(5))
    assert shown.notes == ["10 more pairs of 1 case, to confirm what is slower"]
    (row,) = [row for row in session.runs.comparisons().rows if (row.case, row.mode) == (ONE, "graph")]
    assert (row.verdict.value, row.confirmed) == ("undecided", False)


def test_what_is_faster_needs_no_confirmation(session):
    log, _ = session(one=dict.fromkeys(range(20), 0.9))
    assert replicates(log, "head", "one") == list(range(5))


@pytest.mark.parametrize("failing", ["base", "head"])
def test_a_case_that_fails_on_a_side_is_tried_once_on_the_other_and_left_alone_after(session, failing):
    script = {"one": {1: Outcome.CRASHED}}
    log, _ = session(base=script) if failing == "base" else session(**script)
    for side in ("base", "head"):
        assert replicates(log, side, "one") == [0, 1]
        assert replicates(log, side, "two") == list(range(5))


def test_when_every_case_has_failed_no_process_is_started_for_nothing(session):
    log, _ = session(one={0: Outcome.INCORRECT}, two={0: Outcome.CRASHED})
    assert [pair for pair, *_ in log] == [0, 0]


def test_a_side_whose_worker_cannot_start_is_named(session):
    with pytest.raises(HeadbenchError, match=r"^base: a worker could not start: no torch$"):
        session(base={"one": {0: HeadbenchError("a worker could not start: no torch")}})


def test_the_budget_holds_ten_pairs_with_their_starts_and_half_of_it_five(session):
    log, _ = session(budget_s=200.0)  # twenty processes of 10 s, 2 s of each its start
    assert [seconds for *_, seconds in log] == pytest.approx([8.0] * 10)


def test_both_sides_of_a_pair_get_the_same_seconds_and_a_case_the_same_in_every_pair_after_the_first_look(
    session,
):
    log, shown = session(budget_s=200.0, two=UNSTEADY)
    assert [seconds for pair, *_, seconds in log if pair >= 5] == pytest.approx([4.0] * 10)
    assert shown.added == [(10, pytest.approx(10 * (2.0 + 4.0)))]


def test_a_budget_below_what_the_starts_take_gives_each_case_its_least(session):
    log, _ = session(budget_s=5.0)
    assert {seconds for *_, seconds in log} == {0.0}


@given(st.integers(0, 2**31), st.integers(0, 9))
def test_of_each_two_pairs_one_begins_with_the_base_and_the_other_with_the_head(seed, two):
    assert {order(2 * two, seed), order(2 * two + 1, seed)} == {("base", "head"), ("head", "base")}
    assert order(2 * two, seed) == order(2 * two, seed)


def test_which_side_begins_is_drawn_from_the_seed():
    firsts = {tuple(order(pair, seed)[0] for pair in range(20)) for seed in range(50)}
    assert len(firsts) > 40
    heads = sum(first == "head" for one in firsts for first in one[::2])
    assert 0.4 < heads / (10 * len(firsts)) < 0.6


def test_both_sides_of_a_pair_measure_in_the_drawn_order_with_one_replicate_number(session):
    log, _ = session(seed=7)
    assert [(pair, side) for pair, side, *_ in log] == [
        (pair, side) for pair in range(5) for side in order(pair, 7)
    ]
