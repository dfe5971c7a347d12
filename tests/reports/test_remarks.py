from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from reports import content, export
from results.figures import Counters, Gpm
from results.schema import Observation, Timing, Trial
from results.store import read
from tests.reports import runs, sweeps
from tests.results import builders, h200

if TYPE_CHECKING:
    from pathlib import Path

SILENT = Timing(reason="the hold was released by its timeout")


def said(of: runs.Run) -> set[tuple[str, str]]:
    """(kind, text) of every remark, of the run's and of its groups'."""
    report = content.from_run(of)
    remarks = [*report.remarks, *(remark for group in report.groups for remark in group.remarks)]
    return {(remark.kind, remark.text) for remark in remarks}


def replicates(*isolated: Timing | None) -> list[Trial]:
    """An ok trial of one case per replicate: its eager time and, unless None, this isolated one."""
    timings = [{"isolated": one} if one else {} for one in isolated]
    return [
        builders.trial(replicate=n, timings={**mode, "eager": builders.timing()})
        for n, mode in enumerate(timings)
    ]


@pytest.mark.parametrize(
    ("second", "third", "text"),
    [
        (builders.timing(), SILENT, f"isolated in 2 of 3 replicates: {SILENT.reason}"),
        (SILENT, SILENT, f"isolated in 1 of 3 replicates, no interval: {SILENT.reason}"),
        (builders.timing(), None, "isolated in 2 of 3 replicates: no reason was stored"),
    ],
)
def test_a_mode_timed_in_fewer_replicates_says_so_and_why(
    second: Timing, third: Timing | None, text: str
) -> None:
    found = said(runs.run(replicates(builders.timing(), second, third)))
    assert [one for kind, one in found if kind == "partial"] == [text]


def test_a_mode_timed_in_every_replicate_there_is_says_nothing_of_it() -> None:
    found = said(runs.run(replicates(builders.timing(), builders.timing())))
    assert [one for kind, one in found if kind == "partial"] == ["2 of 3 replicates"]


@pytest.mark.parametrize(("floor_s", "near"), [(1.9e-6, False), (2.1e-6, True), (None, False)])
def test_a_time_below_five_floors_is_near_the_floor(floor_s: float | None, near: bool) -> None:
    timings = {"isolated": builders.timing(1e-5, floor_s=floor_s)}
    found = said(runs.run([builders.trial(timings=timings)], replicates=1))
    remark = "isolated: an empty bracket reads 2.1 µs: the kernel itself is shorter than shown"
    assert (("near the floor", remark) in found) == near
    assert any(kind == "near the floor" for kind, _ in found) == near


def test_several_calls_in_one_bracket_share_its_floor() -> None:
    timings = {"graph": builders.timing(1e-6, floor_s=1.2e-6, calls_per_sample=100)}
    assert not any(
        kind == "near the floor"
        for kind, _ in said(runs.run([builders.trial(timings=timings)], replicates=1))
    )


@pytest.mark.parametrize(
    ("setting", "missing"),
    [
        (None, set()),
        ("none", set()),
        ("gpm", {"no GPM"}),
        ("ncu", {"no GPM", "no counters"}),
    ],
)
def test_counters_are_missed_where_the_run_asked_for_them(setting: str | None, missing: set[str]) -> None:
    of = h200.run(observed=h200.without("counters", "gpm"), settings={"counters": setting} if setting else {})
    kinds = {kind: text for kind, text in said(of) if kind in ("no GPM", "no counters")}
    assert set(kinds) == missing
    assert set(kinds.values()) <= {"not observed yet: run --resume does it"}


def test_why_counters_are_missing_is_said_once_for_the_run() -> None:
    def refused(seen: Observation) -> Observation:
        return replace(seen, counters=Counters(reason="ERR_NVGPUCTRPERM"), gpm=Gpm(reason="pre-Hopper"))

    report = content.from_run(h200.run(observed=refused))
    of_run = {remark.kind: remark.text for remark in report.remarks}
    assert of_run["no counters"] == "ERR_NVGPUCTRPERM"
    assert of_run["no GPM"] == "pre-Hopper"
    assert not any(remark.kind == "no GPM" for group in report.groups for remark in group.remarks)
    text = runs.rendered(h200.run(observed=refused))
    assert text.count("ERR_NVGPUCTRPERM") == 1


def test_a_baseline_that_a_stage_lacks_everywhere_is_said_once_of_that_stage() -> None:
    report = content.from_run(read("nvidia-h200/heads_768"))
    missing = [remark.sentence for remark in report.remarks if remark.kind == "no ×"]
    assert missing == [
        f"in {stage}: the baseline {name} was not part of this run"
        for stage, name in (("attention", "per_head_loop"), ("sublayer", "per_head"))
    ]
    assert not any(remark.kind == "no ×" for group in report.groups for remark in group.remarks)


def test_a_baseline_that_a_stage_lacks_in_one_group_is_said_there() -> None:
    trials = [
        *runs.gpu_trials({"per_head": 4e-4, "fused": 1e-4}),
        *runs.gpu_trials({"fused": 1e-4}, batch=7),
        *runs.gpu_trials({"sdpa": 1e-4}, stage="attention"),
    ]
    report = content.from_run(runs.run(trials))
    assert not any(remark.kind == "no ×" for remark in report.remarks)
    told = [sum(remark.kind == "no ×" for remark in group.remarks) for group in report.groups]
    assert told == [0, 1, 1]


def test_counters_that_are_there_are_not_missed() -> None:
    assert {"no GPM", "no counters", "not alone"} & {kind for kind, _ in said(h200.run())} == set()


@pytest.mark.parametrize(("others", "who"), [(1, "1 other process"), (3, "3 other processes")])
def test_who_else_used_the_gpu_in_a_window_is_told(others: int, who: str) -> None:
    (text,) = (
        text
        for kind, text in said(h200.run(observed=sweeps.watched(other_processes=others)))
        if kind == "not alone"
    )
    assert text == f"{who} used the GPU in its window: what is told of the whole GPU includes that"


def test_the_table_and_the_frame_tell_the_same_numbers() -> None:
    no_isolated = [
        builders.trial(builders.case("late"), n, timings={"eager": builders.timing()}) for n in range(3)
    ]
    of = runs.run([*runs.gpu_trials({"per_head": 4e-4, "fused": 1e-4, "idle": 1e-8}), *no_isolated])
    frame = of.frame().set_index("variant")
    assert len(frame) == 4
    for row in content.from_run(of).rows:
        told = frame.loc[row.variant]
        shown = (row.flops_per_s, row.peak_fraction, row.speedup, row.time and row.time.value_s)
        stored = told[["flops_per_s", "peak_fraction", "speedup", "time_s"]]
        assert [None if number != number else number for number in stored] == list(shown)
        assert bool(row.implausible) == told["implausible"]
    assert "late" in export.to_csv(of)


def test_merged_cases_are_held_against_their_own_run_s_peaks_and_replicates(tmp_path: Path) -> None:
    slow = builders.GPU_ENVIRONMENT | {"peaks": {"bf16": {"flops_per_s": 98.9e12}}}
    old = builders.manifest([builders.case("old")], run_id="old", environment=slow, replicates=1)
    new = replace(builders.manifest([builders.case("new")], run_id="new"), created_utc="2026-02-01T00:00:00Z")
    builders.stored(tmp_path, old, [builders.trial(builders.case("old"))])
    builders.stored(tmp_path, new, [builders.trial(builders.case("new"))])
    report = content.from_run(read(tmp_path))
    fractions = {row.variant: row.peak_fraction or 0 for row in report.rows}
    assert fractions["old"] == pytest.approx(10 * fractions["new"])
    partial = [remark for remark in report.groups[0].remarks if remark.kind == "partial"]
    assert [remark.variants for remark in partial] == [("new",)]
    assert partial[0].text == "1 of 3 replicates, no interval"


def test_the_markdown_tells_of_doubts_as_loudly() -> None:
    text = export.to_markdown(runs.run(runs.gpu_trials({"per_head": 1e-4, "does_nothing": 1e-7})))
    assert "2 cases · 2 ok · 1 implausibly fast" in text
    assert "**NOT RANKED, too fast to be true:**" in text
    assert "- implausible: does_nothing in qkv: faster than the datasheet's peak allows" in text


def test_a_case_whose_activations_arrive_strided_says_so_and_others_do_not() -> None:
    trials = [
        builders.trial(builders.case(name, stage="attention"), arrives=arrives)
        for name, arrives in (("sdpa", "contiguous"), ("sdpa_strided", "strided"), ("older", None))
    ]
    report = content.from_run(runs.run(trials, replicates=1))
    found = [
        remark for group in report.groups for remark in group.remarks if remark.kind == "arrives strided"
    ]
    assert [remark.variants for remark in found] == [("sdpa_strided",)]
