"""Curves of useful FLOP/s on the terminal and in Markdown: where there are places enough, and only there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import results
from reports import run_markdown
from reports.content import from_run
from reports.curves import curve_grids
from tests.reports import runs

if TYPE_CHECKING:
    from results.run import Run


def swept(places: dict[int, float], **case: object) -> Run:
    """`fused` at these seq_len, each in so many times a microsecond a token."""
    trials = [
        trial
        for seq_len, cost in places.items()
        for trial in runs.gpu_trials({"fused": 1e-6 * cost * seq_len}, seq_len=seq_len, **case)
    ]
    return runs.run(trials)


def test_a_variant_has_a_line_from_the_first_place_to_the_last() -> None:
    ((title, grid),) = curve_grids(from_run(swept({128: 4.5, 256: 2.0, 512: 1.0})))
    assert title == "TFLOP/s over seq_len (128, 256, 512), from zero to the highest of each shape"
    (line,) = grid.lines
    stage, variant, first, drawn, last = line.cells
    assert (stage, variant, drawn) == ("qkv", "fused", "▂▅█")
    assert float(last) / float(first) > 4.4


def test_two_places_are_no_curve() -> None:
    assert curve_grids(from_run(swept({128: 1.0, 256: 1.0}))) == []


def test_a_place_without_a_time_is_a_dot() -> None:
    trials = runs.gpu_trials({"fused": 1e-4}, seq_len=128) + [
        trial
        for seq_len in (256, 512)
        for trial in runs.gpu_trials({"fused": 2e-4, "per_head": 4e-4}, seq_len=seq_len)
    ]
    ((_, grid),) = curve_grids(from_run(runs.run(trials)))
    cells = {line.cells[1]: line.cells[2:] for line in grid.lines}
    assert cells["per_head"][0] == "–"
    assert cells["per_head"][1].startswith("·")


def test_what_tells_the_curves_apart_has_a_column() -> None:
    ((title, grid),) = curve_grids(from_run(results.read("nvidia-h200/kernels_1024")))
    assert title.startswith("TFLOP/s over tokens (1024, 4096, 32768)")
    assert [column.title for column in grid.columns] == [
        "stage", "d_model", "mask", "variant", "1024", "", "32768"
    ]  # fmt: skip
    assert grid.lines[0].cells == (
        "attention", "384 = 12×32", "causal", "flash_hopper", "61.8", "▂▆█", "251"
    )  # fmt: skip


def test_the_terminal_and_markdown_draw_the_same_curves() -> None:
    of = swept({128: 4.5, 256: 2.0, 512: 1.0})
    for text in (runs.rendered(of), run_markdown.to_markdown(from_run(of))):
        assert "▂▅█" in text


def test_the_answers_are_told_on_the_terminal_and_first_in_markdown() -> None:
    of = runs.gpu_run()
    sentence = "the winner's 95 % interval meets no other's"
    assert sentence in " ".join(runs.rendered(of).split())
    page = run_markdown.to_markdown(from_run(of))
    assert page.index(sentence) < page.index("| stage |") < page.index("<details>")
