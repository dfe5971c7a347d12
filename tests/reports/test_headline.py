"""What is said around the tables: how sure the winners are, counts that agree, what every group lacks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from results.figures import Matmul
from results.schema import Ceilings, Outcome
from results.store import read
from tests.reports import runs
from tests.reports.test_terminal import WIDTHS, table
from tests.results import builders, h200

if TYPE_CHECKING:
    from results.run import Run


def noisy_run() -> Run:
    """Three groups of two variants each: one clear, two where the intervals overlap."""
    scatter = (1.0, 1.3, 1.7)
    return runs.run(
        builders.trial(
            builders.case(variant, batch=batch), n, median_s=time_s * (scatter[n] if batch > 1 else 1.0)
        )
        for batch in (1, 2, 4)
        for n in range(3)
        for variant, time_s in (("per_head", 1.5e-4), ("fused", 1e-4))
    )


@pytest.mark.parametrize("width", WIDTHS)
def test_where_a_third_of_the_groups_are_noise_the_summary_says_so_and_what_helps(width: int) -> None:
    text = runs.rendered(noisy_run(), width)
    rows = table(text, "fastest of each group")
    assert " ".join(rows[4:]) == (
        "2 of 3 groups have no clear winner: close other programs, or take more --replicates (and a larger --budget)"
    )
    winners = [table(text, f"qkv forward · batch {batch} ")[1] for batch in (1, 2, 4)]
    ratios = [found[0] for winner in winners if (found := re.findall(r"~?1\.50\b", winner))]
    assert ratios == ["1.50", "~1.50", "~1.50"]
    assert "~: intervals overlap, exceed ± 25 % or are unknown, or runs differ" in text


def test_two_steady_variants_that_are_level_are_an_answer_and_no_noise() -> None:
    scatter = (1.0, 1.004, 0.997)
    text = runs.rendered(
        runs.run(
            builders.trial(builders.case(variant), n, median_s=1e-4 * scatter[n] * factor)
            for n in range(3)
            for variant, factor in (("per_head", 1.0), ("fused", 1.001))
        )
    )
    assert "level with" in text
    assert "no clear winner" not in text


def test_the_header_counts_what_was_tried_and_tells_budget_and_time_taken() -> None:
    text = runs.rendered(runs.cpu_run(settings={"budget_s": 75.0}, created_utc="2026-01-02T02:54:01Z"))
    assert "measured   6 of 9 cases in 2 groups · 3 replicates, each a fresh process\n" in text
    assert "           budget 75 s, took 10 min 5 s · 2026-01-02T02:54:01Z\n" in text
    assert "verified   6 of 6 timed cases agree with the reference, before and after timing\n" in text
    assert "\n9 cases · 6 ok · 3 unavailable\n" in text


@pytest.mark.parametrize(("replicates", "warned"), [(2, True), (3, False)])
def test_what_an_interval_of_two_processes_is_worth_is_said(replicates: int, warned: bool) -> None:
    text = runs.rendered(runs.run(runs.gpu_trials(runs.QKV, replicates=replicates)), 200)
    said = "two processes a time: an interval is 12.7 standard errors, and level means not told apart"
    assert (said in text) is warned


@pytest.mark.parametrize(
    ("uuids", "told"),
    [(("a", "b"), "merged 2 runs of 2 machines, newest"), (("a", "a"), "merged 2 runs, newest")],
)
def test_runs_merged_from_several_gpus_say_so_in_the_header(
    tmp_path, uuids: tuple[str, str], told: str
) -> None:
    for day, (uuid, variant) in enumerate(zip(uuids, ("per_head", "fused"), strict=True), 1):
        of = builders.manifest(
            [builders.case(variant)],
            run_id=variant,
            created_utc=f"2026-01-0{day}T00:00:00+00:00",
            environment={"device": "cuda:0", "gpu": {"name": "H200", "uuid": uuid}},
        )
        builders.stored(tmp_path, of)
    assert told in runs.rendered(read(tmp_path), 200)


def test_a_case_that_disagrees_is_counted_beside_those_that_were_timed() -> None:
    wrong = runs.failed("bad", Outcome.INCORRECT, "after timing: off")
    text = runs.rendered(runs.run([*runs.gpu_trials({"per_head": 1e-4}), wrong]))
    assert "verified   1 of 1 timed case agree" in text
    assert "1 disagrees and has no time" in text


def test_what_every_group_lacks_stands_in_the_header_and_in_no_table() -> None:
    text = runs.rendered(runs.cpu_run())
    head, tables = text.split("\nqkv forward", 1)
    said = " ".join(head.split())
    assert f"unavailable: sdpa_cudnn, sdpa_flash, sdpa_efficient in attention: {runs.ONLY_CUDA}" in said
    assert "sdpa_cudnn" not in tables


def test_a_shape_is_written_alike_in_titles_and_in_the_summary() -> None:
    wide = runs.gpu_trials(runs.QKV, d_model=1536, n_head=24)
    text = runs.rendered(runs.run([*runs.gpu_trials(runs.QKV), *wide]))
    assert "· d_model 1536 = 24×64 ·" in text
    assert "d_model" in table(text, "fastest of each group")[0].split()
    assert "1536 = 24×64" in table(text, "fastest of each group")[2]


@pytest.mark.parametrize(
    ("ceilings", "told"),
    [
        (
            h200.CEILINGS,
            "bf16 matmul 8192³: burst 792 TFLOP/s at 1980 MHz, sustained 692 TFLOP/s at 1440 MHz",
        ),
        (Ceilings({"bf16": Matmul(8192, 792e12)}), "bf16 matmul 8192³: burst 792 TFLOP/s"),
        (
            Ceilings({"bf16": Matmul(8192, 792e12, reason="fewer than two batches ended")}),
            "bf16 matmul 8192³: burst 792 TFLOP/s, fewer than two batches ended",
        ),
        (Ceilings({"bf16": Matmul(8192, reason="out of memory")}), "bf16 matmul 8192³: out of memory"),
        (Ceilings({"fp32": Matmul(4096, 50e12)}, reason="the rest was lost"), "ceilings the rest was lost"),
    ],
)
def test_what_the_machine_reached_stands_in_the_header(ceilings: Ceilings, told: str) -> None:
    of = runs.gpu_run()
    of.ceilings = ceilings
    assert told in " ".join(runs.rendered(of, 120).split())


def test_a_run_that_looked_for_no_ceilings_has_no_line_for_them() -> None:
    assert "ceilings" not in runs.rendered(runs.gpu_run())
