"""Verdicts as content and on the terminal: the answer, what changed first, and nothing left unsaid."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest

from reports.terminal import new_console
from reports.verdict_terminal import render
from reports.verdicts import change, from_comparisons
from results.comparison import Comparison, Comparisons
from results.run import Run
from results.schema import Outcome
from results.unpaired import compare
from results.verdict import Verdict
from tests.results import builders
from tests.results.sessions import NOISY, SLOWER, STEADY, runs, session, side_trials, trial

CASE, OTHER = builders.case("fused"), builders.case("per_head")
ANSWER = (
    "REGRESSION: 2 of 10 guarded comparisons are slower, confirmed in 10 fresh pairs; "
    "FAILED: 1 case of the head"
)
REGRESSED = (*SLOWER, *[1.0] * 5, *SLOWER, *SLOWER)


def everything() -> Comparisons:
    """A row of each verdict in two modes, a failed case, and one case on each side only."""
    names = ("regressed", "improved", "noisy", "steady")
    ratios = (REGRESSED, [1 / one for one in SLOWER], NOISY * 2, STEADY)
    cases = dict(zip(map(builders.case, names), ratios, strict=True))
    of = session(cases)
    broken, gone, new = (builders.case(name) for name in ("broken", "gone", "new"))
    of.base.trials.extend(
        [*side_trials(broken, STEADY, ["isolated"]), *side_trials(gone, [1.0], ["isolated"])]
    )
    of.head.trials.append(builders.trial(broken, 0, outcome=Outcome.INCORRECT, reason="one head is zero"))
    of.head.trials.extend(side_trials(new, [1.0], ["isolated"]))
    planned = (builders.manifest([*cases, broken, extra]).cases for extra in (gone, new))
    sides = [
        replace(side, manifest=replace(side.manifest, cases=plan))
        for side, plan in zip((of.base, of.head), planned, strict=True)
    ]
    return replace(of, base=sides[0], head=sides[1]).comparisons()


def shown(of: Comparisons, width: int = 120) -> str:
    out = io.StringIO()
    render(of, new_console(out, width))
    return out.getvalue()


def test_a_table_begins_with_what_changed() -> None:
    verdicts = [line.cells[0] for line in from_comparisons(everything()).table.lines]
    assert verdicts == ["slower"] * 2 + ["faster"] * 2 + ["undecided"] * 2 + ["same"] * 2


def test_the_largest_change_comes_first() -> None:
    worse = [1.5 * one for one in REGRESSED]
    table = from_comparisons(session({CASE: REGRESSED, OTHER: worse}).comparisons()).table
    assert [line.cells[2] for line in table.lines] == ["per_head", "per_head", "fused", "fused"]


def test_a_regression_comes_first_and_hides_no_failure() -> None:
    of = from_comparisons(everything())
    assert of.sentence == ANSWER
    assert of.alarm == "regression"


def test_a_failed_case_is_the_answer_where_nothing_is_slower() -> None:
    head = [builders.trial(CASE, 0, outcome=Outcome.CRASHED, reason="illegal address")]
    base = side_trials(CASE, STEADY, ["isolated"])
    of = from_comparisons(runs(base, head).comparisons())
    assert (of.sentence, of.alarm) == ("FAILED: 1 case of the head; nothing could be compared", "failed")
    steady = side_trials(OTHER, STEADY, ["isolated", "graph"])
    of = from_comparisons(runs([*base, *steady], [*head, *steady]).comparisons())
    assert of.sentence == (
        "FAILED: 1 case of the head; no regression: of 4 guarded comparisons 2 same, 2 incomparable"
    )


def test_what_is_open_is_said_with_what_was_found() -> None:
    of = from_comparisons(session({CASE: STEADY, OTHER: NOISY * 2}).comparisons())
    assert of.sentence == "not everything is decided: of 4 guarded comparisons 2 undecided, 2 same"
    assert of.alarm == "undecided"


def test_all_the_same_is_fine() -> None:
    assert from_comparisons(session({CASE: STEADY}).comparisons()).alarm == "fine"


def test_nothing_to_compare_is_said() -> None:
    of = runs(side_trials(CASE, STEADY, ["isolated"]), side_trials(OTHER, STEADY, ["isolated"])).comparisons()
    assert from_comparisons(of).sentence == "nothing could be compared"


def test_a_guarded_mode_that_the_head_lost_is_no_all_clear() -> None:
    base = side_trials(CASE, STEADY, ["isolated", "graph"])
    of = from_comparisons(runs(base, side_trials(CASE, STEADY, ["isolated"])).comparisons())
    assert of.sentence == (
        "not everything is decided: of 2 guarded comparisons 1 same, 1 incomparable; head alone has no time for 1 of "
        "them"
    )
    assert of.alarm == "undecided"


def test_modes_that_are_not_guarded_are_no_answer() -> None:
    sides = [side_trials(CASE, STEADY, ["eager"])] * 2
    assert from_comparisons(runs(*sides).comparisons()).sentence == "nothing guarded could be compared"


def test_the_rule_is_told_in_its_own_numbers() -> None:
    assert from_comparisons(session({CASE: STEADY}).comparisons()).method == (
        "pairs of fresh processes, interleaved; 99.5 % interval of the mean log ratio, looked at after 5 and 10; "
        "same: within ± 1 %; slower, faster: excludes 0 and exceeds 0.5 %"
    )
    assert from_comparisons(Comparisons((), "runs", "base", "head")).method == (
        "Welch's 99 % interval of the difference of mean logs; a run is one sample"
    )


def test_every_mode_has_its_counts_and_eager_is_marked() -> None:
    times = {"isolated": 1e-4, "eager": 2e-4}
    sides = [[trial(CASE, n, times) for n in range(5)] for _ in ("base", "head")]
    of = replace(runs(*sides), guard=("isolated",)).comparisons()
    assert from_comparisons(of).counts == (("isolated", "1 same"), ("eager", "1 same (not guarded)"))


def test_a_reason_is_told_once_with_whom_it_holds_for() -> None:
    noisy = {builders.case(f"variant_{n}"): NOISY * 2 for n in range(8)}
    (reason,) = from_comparisons(session(noisy).comparisons()).reasons
    names = ", ".join(f"qkv variant_{n}" for n in range(5))
    assert reason == f"undecided in isolated and graph: too noisy for 10 pairs: {names} and 3 more"


def test_cases_of_one_side_are_listed() -> None:
    listed = from_comparisons(everything()).listed
    assert listed[0].startswith("only in base, not compared: 1 case: qkv/forward/")
    assert listed[0].endswith("/gone")
    assert listed[1].endswith("/new")


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (1.0302, "+3.02 %"),
        (0.97, "-3.00 %"),
        (1.123, "+12.3 %"),
        (1.0, "0.00 %"),
        (0.99999, "0.00 %"),
        (2.31, "2.31 ×"),
        (0.43, "0.430 ×"),
        (None, "–"),
    ],
)
def test_a_change_in_words(ratio: float | None, text: str) -> None:
    assert change(ratio) == text


def test_the_terminal_shows_the_answer_last() -> None:
    lines = shown(everything()).splitlines()
    assert lines[0] == "compared   main → working tree"
    assert lines[-1] == ANSWER
    (row,) = (line for line in lines if line.startswith("slower") and "isolated" in line)
    shown_row = " ".join(row.split())
    assert shown_row == "slower qkv regressed isolated 100.0 µs 103.0 µs +3.00 % +2.91 % … +3.09 % 10"


def test_the_terminal_tells_why_a_case_has_no_verdict() -> None:
    text = " ".join(shown(everything()).split())
    assert "incomparable in isolated and graph: head is incorrect: one head is zero: qkv broken" in text
    assert "only in head, not compared: 1 case" in text


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_of_a_table_is_wider_than_the_terminal_where_80_columns_are(width: int) -> None:
    long = builders.case("a_variant_whose_author_had_much_to_say_about_it_and_then_some")
    lines = shown(session({long: REGRESSED, CASE: STEADY}).comparisons(), width).splitlines()
    assert width < 80 or max(map(len, lines)) <= width


def test_names_and_labels_cannot_act_on_the_terminal() -> None:
    odd = builders.case("red\x1b[31m[bold]")
    of = replace(session({odd: NOISY * 2}).comparisons(), base="a\nb\x07", notes=("odd\x1b[2J",))
    text = shown(of)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[bold]" in text


def test_compare_says_that_it_is_advice_and_what_would_judge() -> None:
    one = Run(Path("run"), builders.manifest([CASE]), side_trials(CASE, STEADY, ["isolated"]))
    text = shown(compare([one], [one]))
    assert "recorded in different sessions: advisory" in text
    assert "1 run against 1: 3 a side would be judged" in text
    assert "no regression" not in text


def test_an_empty_comparison_is_shown() -> None:
    assert "nothing could be compared" in shown(Comparisons((), "pairs", "base", "head"))


def test_a_row_of_wild_numbers_is_shown() -> None:
    wild = Comparison(CASE, "isolated", True, Verdict.UNDECIDED, 1e300, 0.0, 1e304, 0.995, 1e-300, 1.0, 5, 6)
    assert "5 / 6" in shown(Comparisons((wild,), "runs", "base", "head"), 900)


def test_an_interval_that_says_next_to_nothing_is_cut_at_a_hundredth_and_a_hundredfold() -> None:
    wild = Comparison(CASE, "isolated", True, Verdict.UNDECIDED, 1.0, 7e-8, 4e7, 0.99, 1.0, 1.0, 2, 2)
    assert "<0.0100 × … >100 ×" in shown(Comparisons((wild,), "runs", "base", "head"))
    known = replace(wild, low=0.02, high=99.0)
    assert "0.0200 × … 99.0 ×" in shown(Comparisons((known,), "runs", "base", "head"))
