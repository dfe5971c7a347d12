"""What is said loudly or last: doubts, an unfinished run, where it is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len

from results.store import read
from tests.reports import runs
from tests.reports.test_terminal import WIDTHS, narrow, table
from tests.results import builders

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("width", WIDTHS)
def test_a_time_too_fast_to_be_true_stands_in_its_place_unranked_and_is_told_loudly(width: int) -> None:
    text = runs.rendered(narrow(runs.run(runs.gpu_trials({"per_head": 1e-4, "does_nothing": 1e-7}))), width)
    rows = table(text, "qkv forward")
    assert [row.split()[:2] for row in rows[1:3]] == [["!", "does_nothing"], ["▸", "per_head"]]
    assert "! implausibly fast, not ranked" in text
    remark = "faster than the datasheet's peak allows: does `call` do all the work?"
    assert f"    implausible  does_nothing: {remark}" in " ".join(
        text.replace("\n                 ", " ").split("\n")
    )
    assert "does_nothing" not in "".join(table(text, "fastest of each group"))
    end = " ".join(text[text.index("2 cases · 2 ok · 1 implausibly fast") :].split())
    assert f"NOT RANKED, too fast to be true: implausible: does_nothing in qkv: {remark}" in end


def test_a_run_without_a_plausible_time_has_no_winner() -> None:
    text = runs.rendered(runs.run(runs.gpu_trials({"per_head": 1e-7})))
    assert "fastest of each group" not in text
    assert "▸" not in text


@pytest.mark.parametrize("width", WIDTHS)
def test_a_run_without_trials_says_so_everywhere(width: int) -> None:
    cases = [builders.case(variant) for variant in ("per_head", "fused")]
    text = runs.rendered(narrow(runs.run([], cases)), width)
    assert "measured   0 of 2 cases in 1 group · 3 replicates, each a fresh process" in text
    assert "precision  nothing was timed" in text
    assert "took" not in text
    assert "verified   nothing was compared with the reference" in text
    assert "\n2 cases · 2 not measured\nunfinished: 6 trials missing; measure what is missing with\n" in text
    assert max(map(cell_len, text.splitlines())) <= width


def test_of_merged_runs_each_unfinished_one_is_resumed_by_its_own_path(tmp_path: Path) -> None:
    first, second = (
        builders.manifest([builders.case(name)], run_id=f"run-{name}", created_utc=f"2026-01-0{day}")
        for day, name in ((1, "per_head"), (2, "fused"))
    )
    for of in (first, second):
        builders.stored(tmp_path, of, builders.trials(of)[:2])
    text = runs.rendered(read(tmp_path))
    assert (
        "measured   2 of 2 cases in 1 group · merged 2 runs, newest of each case: run-per_head, run-fused\n"
        in text
    )
    assert "budget 120 s" not in text
    assert "unfinished: 2 trials missing" in text
    for name in ("per_head", "fused"):
        assert f"\n  python -m harness run --resume {tmp_path / f'run-{name}'}\n" in text


def test_a_finished_run_says_where_it_is_and_how_to_show_it() -> None:
    text = runs.rendered(runs.gpu_run())
    path = "results/runs/20260102T030405Z-nvidia-h200-ab12"
    assert text.endswith(f"\nstored in {path}\nshow again: python -m harness report {path}\n")
    assert "--resume" not in text


def test_an_unfinished_run_says_how_much_is_missing_and_how_to_resume() -> None:
    text = runs.rendered(runs.every_outcome())
    assert "unfinished: 3 trials missing" in text
    assert "\n  python -m harness run --resume results/runs/20260102T030405Z-nvidia-h200-ab12\n" in text
