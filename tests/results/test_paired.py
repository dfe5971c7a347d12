"""An `ab` session as rows: looks, confirmation, what is missing, what failed."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.errors import StoreError
from results.paired import read_pairs
from results.schema import Outcome, Timing
from results.session import is_session
from results.verdict import Verdict
from tests.results import builders
from tests.results.sessions import NOISY, SLOWER, STEADY, runs, session, side_trials, stored, trial

CASE = builders.case("fused")
OTHER = builders.case("per_head")
CONFIRMED = (*SLOWER, *[1.0] * 5, *SLOWER, *SLOWER)
"""Slower at the first look; pairs 5 to 9 are not looked at; ten fresh pairs are slower too."""


def only_row(of, mode="isolated"):
    (row,) = [row for row in of.comparisons().rows if row.mode == mode]
    return row


def test_steady_pairs_are_the_same_and_need_nothing_more():
    of = session({CASE: STEADY})
    row = only_row(of)
    assert row.verdict is Verdict.SAME
    assert row.ratio == pytest.approx(1.0, abs=1e-3)
    assert row.low < 1 < row.high
    assert (row.base_count, row.head_count, row.confidence) == (5, 5, 0.995)
    assert (row.reason, row.needed, row.confirmed) == (None, None, None)
    assert not of.open_cases()
    assert not of.to_confirm()


def test_a_row_shows_the_geometric_mean_of_each_side_and_their_ratio():
    row = only_row(session({CASE: SLOWER}), "graph")
    assert row.base_s == pytest.approx(1e-4)
    assert row.head_s == pytest.approx(1e-4 * math.prod(SLOWER) ** 0.2)
    assert row.ratio == pytest.approx(row.head_s / row.base_s)


def test_a_case_that_a_first_look_leaves_open_is_given_five_more_pairs():
    of = session({CASE: NOISY, OTHER: STEADY})
    assert of.open_cases() == [CASE]
    assert only_row(session({CASE: NOISY})).verdict is Verdict.UNDECIDED
    more = session({CASE: (*NOISY, *[1.03] * 5)})
    assert not more.open_cases()
    assert only_row(more).base_count == 10


def test_a_case_whose_first_look_is_not_complete_is_not_open_yet():
    assert not session({CASE: NOISY[:4]}).open_cases()


def test_a_slower_is_not_believed_before_ten_fresh_pairs():
    of = session({CASE: SLOWER})
    assert of.to_confirm() == [CASE]
    row = only_row(of)
    assert row.verdict is Verdict.UNDECIDED
    assert row.confirmed is False
    assert row.reason == "slower by 3.0 % at first, not confirmed: 0 of 10 fresh pairs measured"
    assert not of.comparisons().regressions


def test_a_slower_that_fresh_pairs_confirm_is_a_regression_and_shows_the_fresh_pairs():
    fresh = [1.04, 1.041, 1.039, 1.0405, 1.0395] * 2
    of = session({CASE: (*SLOWER, *[1.0] * 5, *fresh)})
    row = only_row(of)
    assert row.verdict is Verdict.SLOWER
    assert row.confirmed is True
    assert row.ratio == pytest.approx(1.04, abs=1e-3)
    assert row.base_count == 10
    assert [one.mode for one in of.comparisons().regressions] == ["isolated", "graph"]
    assert not of.to_confirm()


def test_a_slower_that_fresh_pairs_do_not_confirm_is_undecided():
    row = only_row(session({CASE: (*SLOWER, *[1.0] * 5, *STEADY, *STEADY)}))
    assert row.verdict is Verdict.UNDECIDED
    assert row.confirmed is False
    assert row.reason == "slower by 3.0 % at first, not confirmed in 10 fresh pairs"


def test_confirmation_can_follow_the_first_look_at_once():
    """Replicates 10 to 19 are measured next; 5 to 9 need not exist."""
    base = side_trials(CASE, [1.0] * 20, ["isolated"])
    head = side_trials(CASE, CONFIRMED, ["isolated"])
    kept = [[one for one in side if one.replicate not in range(5, 10)] for side in (base, head)]
    of = runs(*kept)
    assert replace(of, guard=("isolated",)).comparisons().regressions
    assert not of.open_cases()


def test_faster_needs_no_confirmation():
    of = session({CASE: [1 / ratio for ratio in SLOWER]})
    assert only_row(of).verdict is Verdict.FASTER
    assert not of.to_confirm()


def test_a_mode_that_is_not_guarded_is_shown_and_asks_for_nothing():
    base = [trial(CASE, n, {"isolated": 1e-4, "eager": 2e-4}) for n in range(5)]
    head = [trial(CASE, n, {"isolated": 1e-4, "eager": 3e-4}) for n in range(5)]
    of = replace(runs(base, head), guard=("isolated",))
    row = only_row(of, "eager")
    assert (row.verdict, row.guarded, row.confirmed) == (Verdict.SLOWER, False, None)
    assert row.reason == "not guarded, so not measured again"
    assert not of.to_confirm()
    assert not of.comparisons().regressions


def test_on_a_cpu_eager_is_guarded_and_that_is_said():
    of = session({CASE: CONFIRMED}, modes=["eager"], environment=builders.CPU_ENVIRONMENT)
    found = of.comparisons()
    assert [(row.mode, row.guarded, row.verdict) for row in found.rows] == [("eager", True, Verdict.SLOWER)]
    assert found.notes == ("measured on a CPU, where eager is the only mode: it is guarded",)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_fewer_than_five_pairs_are_undecided(count):
    row = only_row(session({CASE: [2.0] * count}))
    assert row.verdict is Verdict.UNDECIDED
    assert row.reason == f"{count} of 5 pairs measured"


def test_one_pair_has_a_ratio_and_no_interval():
    row = only_row(session({CASE: [1.5]}))
    assert row.ratio == pytest.approx(1.5)
    assert (row.low, row.high, row.confidence, row.needed) == (None, None, None, None)


def test_a_replicate_that_one_side_lacks_is_no_pair():
    base = side_trials(CASE, [1.0] * 5, ["isolated"])
    head = side_trials(CASE, [1.5] * 5, ["isolated"])
    row = only_row(runs(base, head[1:]))
    assert row.verdict is Verdict.UNDECIDED
    assert row.base_count == 4


def test_pairs_are_of_one_replicate_in_whatever_order_the_trials_were_stored():
    drift = [1.0, 1.2, 1.5, 1.9, 2.6]
    base = side_trials(CASE, drift, ["isolated"])
    head = side_trials(CASE, [1.001 * one for one in drift], ["isolated"])
    row = only_row(runs(base, reversed(head)))
    assert row.verdict is Verdict.SAME
    assert row.ratio == pytest.approx(1.001)


def test_what_was_planned_and_not_measured_is_undecided():
    rows = runs([], [], cases=(CASE,)).comparisons().rows
    assert {(row.verdict, row.reason) for row in rows} == {(Verdict.UNDECIDED, "no pair measured yet")}


@pytest.mark.parametrize("outcome", [Outcome.INCORRECT, Outcome.CRASHED, Outcome.TIMED_OUT])
@pytest.mark.parametrize("replicate", [0, 12])
def test_a_case_that_fails_on_a_side_gets_no_verdict(outcome, replicate):
    base = side_trials(CASE, [1.0] * 20, ["isolated"])
    head = side_trials(CASE, CONFIRMED, ["isolated"])
    head[replicate] = builders.trial(CASE, replicate, outcome=outcome, reason="it broke")
    of = runs(base, head)
    found = of.comparisons()
    assert {row.verdict for row in found.rows} == {Verdict.INCOMPARABLE}
    assert found.rows[0].reason == f"head is {outcome.value.replace('_', ' ')}: it broke"
    assert found.failed == (CASE,)
    assert not found.comparable
    assert not of.open_cases()
    assert not of.to_confirm()


def test_a_case_that_failed_in_the_base_alone_is_no_fault_of_the_head():
    base = [builders.trial(CASE, 0, outcome=Outcome.CRASHED, reason="it broke")]
    found = runs(base, side_trials(CASE, STEADY, ["isolated"])).comparisons()
    assert found.rows[0].reason == "base is crashed: it broke"
    assert not found.failed


def test_a_case_that_neither_side_can_run_is_counted_and_not_shown():
    absent = builders.trial(OTHER, 0, outcome=Outcome.UNAVAILABLE, reason="needs Hopper")
    trials = side_trials(CASE, STEADY, ["isolated"])
    found = runs([absent, *trials], [absent, *trials]).comparisons()
    assert {row.case for row in found.rows} == {CASE}
    assert found.notes == ("1 case left out: unavailable or unsupported on both sides",)


def test_a_case_that_only_one_side_can_run_says_why():
    absent = builders.trial(CASE, 0, outcome=Outcome.UNSUPPORTED, reason="head_dim 72 is no multiple of 16")
    found = runs(side_trials(CASE, STEADY, ["isolated"]), [absent]).comparisons()
    assert found.rows[0].reason == "head is unsupported: head_dim 72 is no multiple of 16"
    assert found.rows[0].lost
    assert not found.failed
    assert not runs([absent], side_trials(CASE, STEADY, ["isolated"])).comparisons().rows[0].lost


def test_cases_of_one_side_are_listed_and_not_compared():
    found = runs(
        side_trials(CASE, STEADY, ["isolated"]), side_trials(OTHER, STEADY, ["isolated"])
    ).comparisons()
    assert (found.rows, found.only_base, found.only_head) == ((), (CASE,), (OTHER,))


def test_a_mode_that_one_side_cannot_be_timed_in_says_why():
    base = side_trials(CASE, STEADY, ["isolated", "graph"])
    uncaptured = {
        "isolated": base[0].timings["isolated"],
        "graph": Timing(reason="it synchronises, which a capture forbids"),
    }
    head = [builders.trial(CASE, n, timings=uncaptured) for n in range(5)]
    row = only_row(runs(base, head), "graph")
    assert row.verdict is Verdict.INCOMPARABLE
    assert row.reason == "head has no graph time: it synchronises, which a capture forbids"
    assert row.lost
    of_zero = side_trials(CASE, STEADY, ["isolated"]), side_trials(CASE, [0.0] * 5, ["isolated"])
    assert only_row(runs(*of_zero), "isolated").lost
    assert not only_row(runs(*of_zero[::-1]), "isolated").lost
    neither, gained = (only_row(of, "graph") for of in (runs(head, head), runs(head, base)))
    assert neither.reason.startswith("neither side has a graph time: it sync")
    assert not neither.lost
    assert not gained.lost


def test_what_the_head_alone_lacks_leaves_a_session_undecided_and_what_it_gains_does_not():
    captured = side_trials(CASE, STEADY, ["isolated", "graph"])
    uncaptured = side_trials(CASE, STEADY, ["isolated"])
    assert not runs(captured, uncaptured).comparisons().decided
    assert runs(uncaptured, captured).comparisons().decided
    assert runs(uncaptured, uncaptured).comparisons().decided
    assert replace(runs(captured, uncaptured), guard=("isolated",)).comparisons().decided


@pytest.mark.parametrize("wrong", [0.0, -1e-6])
def test_a_median_that_is_no_time_gives_no_verdict(wrong):
    head = side_trials(CASE, SLOWER, ["isolated"])
    head[3] = trial(CASE, 3, {"isolated": wrong})
    row = only_row(runs(side_trials(CASE, STEADY, ["isolated"]), head))
    assert row.verdict is Verdict.INCOMPARABLE
    assert row.reason == f"head has a median of {wrong} s, which is not a time"


def test_a_timers_step_can_leave_a_short_kernel_open_and_is_named():
    step = {"resolution_s": 32e-9}
    base = [trial(CASE, n, {"isolated": 94 * 32e-9}, **step) for n in range(10)]
    head = [trial(CASE, n, {"isolated": 95 * 32e-9}, **step) for n in range(10)]
    row = only_row(runs(base, head))
    assert row.verdict is Verdict.UNDECIDED
    assert row.reason == "the timer's step is 1.1 % of the time: nothing finer can be told"
    assert row.needed is None


def test_calls_timed_together_share_one_step():
    step = {"resolution_s": 32e-9, "calls_per_sample": 100}
    base = [trial(CASE, n, {"isolated": 3e-6}, **step) for n in range(5)]
    assert only_row(runs(base, base)).verdict is Verdict.SAME


def test_an_undecided_row_says_why_and_asks_for_no_pairs_that_nobody_measures():
    ratios = (1.02, 1.0, 1.03, 0.99, 1.0)
    row = only_row(session({CASE: ratios * 2}))
    assert row.verdict is Verdict.UNDECIDED
    assert row.reason == "too noisy for 10 pairs"
    assert row.needed is None
    assert only_row(session({CASE: ratios})).reason == "too noisy for 5 pairs, 5 of 10 measured"


def test_a_session_is_read_back_as_it_was(tmp_path):
    of = session({CASE: CONFIRMED, OTHER: STEADY})
    folder = stored(tmp_path, of)
    assert is_session(folder)
    read = read_pairs(folder)
    assert read.guard == ("isolated", "graph")
    assert read.comparisons() == of.comparisons()
    assert (read.comparisons().base, read.comparisons().head) == ("main", "working tree")


def test_the_guard_of_a_session_is_recorded(tmp_path):
    folder = stored(tmp_path, replace(session({CASE: STEADY}), guard=("eager", "graph")))
    assert read_pairs(folder).guard == ("eager", "graph")


@pytest.mark.parametrize("missing", ["base", "head"])
def test_a_folder_without_both_sides_is_no_session(tmp_path, missing):
    folder = stored(tmp_path, session({CASE: STEADY}))
    (folder / missing / "manifest.json").unlink()
    assert not is_session(folder)
    with pytest.raises(StoreError, match="is not an ab session"):
        read_pairs(folder)


def test_a_run_is_no_session(tmp_path):
    assert not is_session(builders.stored(tmp_path))


def test_a_damaged_side_is_named(tmp_path):
    folder = stored(tmp_path, session({CASE: STEADY}))
    (folder / "head" / "manifest.json").write_text("{}")
    with pytest.raises(StoreError, match="head"):
        read_pairs(folder)


def test_a_line_cut_off_by_a_kill_is_a_note(tmp_path):
    folder = stored(tmp_path, session({CASE: STEADY}))
    with (folder / "head" / "trials.jsonl").open("a") as file:
        file.write('{"case": {"sta')
    (note,) = read_pairs(folder).comparisons().notes
    assert note.startswith("head: line 6 of trials.jsonl is cut off")


@given(st.lists(st.floats(0.9, 1.1), min_size=1, max_size=20), st.integers(0, 20))
def test_identical_medians_are_never_different_whatever_was_measured(times, missing):
    trials = side_trials(CASE, times, ["isolated"])
    of = runs(trials, trials[:missing] or trials)
    for row in of.comparisons().rows:
        assert row.verdict not in (Verdict.FASTER, Verdict.SLOWER)
    assert not of.to_confirm()


def test_modes_that_are_not_guarded_make_a_session_neither_comparable_nor_undecided():
    base = [trial(CASE, n, {"isolated": 1e-4, "eager": 1e-4}) for n in range(5)]
    head = [trial(CASE, n, {"eager": 1e-4}) for n in range(5)]
    found = replace(runs(base, head), guard=("isolated",)).comparisons()
    assert [row.verdict for row in found.rows] == [Verdict.INCOMPARABLE, Verdict.SAME]
    assert not found.comparable
    assert replace(runs(base, head), guard=("eager",)).comparisons().decided


def test_a_session_says_whether_it_is_a_self_check():
    assert session({CASE: STEADY}, settings={"ab": {"self_check": True}}).is_self_check
    assert not session({CASE: STEADY}, settings={"ab": {"self_check": False}}).is_self_check
    assert not session({CASE: STEADY}, settings={}).is_self_check


def test_rows_as_a_table():
    frame = session({CASE: CONFIRMED, OTHER: [1.5]}).comparisons().frame()
    assert list(frame["verdict"]) == ["slower", "slower", "undecided", "undecided"]
    assert frame.loc[0, "ratio"] == pytest.approx(1.03, abs=1e-3)
    assert frame["low"].isna().tolist() == [False, False, True, True]
    assert frame["confirmed"].isna().tolist() == [False, False, True, True]
    assert list(frame["variant"]) == ["fused", "fused", "per_head", "per_head"]


def test_a_session_without_a_trial_is_a_table_of_what_was_planned():
    frame = runs([], [], cases=(CASE, OTHER)).comparisons().frame()
    assert list(frame["verdict"]) == ["undecided"] * 4
    assert frame["ratio"].isna().all()
