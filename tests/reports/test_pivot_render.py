"""A pivoted run as text: cells that can be read at a glance, in whatever width there is."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from markdown_it import MarkdownIt
from rich.cells import cell_len

from reports import pivot, pivot_grids, pivot_markdown, pivot_terminal
from reports.pivot_cells import Use
from results.figures import Counters
from results.schema import Outcome
from tests.reports import sweeps
from tests.reports.pivoted import MANY, RUNS, rendered
from tests.results import builders, h200

if TYPE_CHECKING:
    from results.run import Run


def shown(of: Run, width: int = 100, by: str = "head_dim", peak: str = "datasheet") -> str:
    return rendered(of, Use(peak), width, by)


def page(of: Run, by: str = "head_dim") -> str:
    return pivot_markdown.to_markdown(pivot.from_run(of, by, Use()))


@pytest.mark.parametrize("width", [80, 100])
def test_the_recorded_run_fits_with_variants_down_and_head_dim_across(width: int) -> None:
    lines = shown(h200.run(), width).splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("variant"))
    assert lines[start : start + 3] == [
        "variant         head_dim 32      head_dim 64      head_dim 72",
        "sdpa_cudnn  ▸22 / 46 / 2.00  ▸44 / 46 / 1.00  ▸35 / 66 / 1.78",
        "sdpa_flash   19 / 30 / 1.00   29 / 44 / 1.00   22 / 45 / 1.33",
    ]


def test_the_title_says_what_stays_and_what_follows() -> None:
    text = shown(h200.run(), 120)
    assert (
        "attention forward · batch 32 · seq_len 1024 · n_head 12 · d_model follows head_dim · full · bf16"
        in text
    )


@pytest.mark.parametrize(
    ("by", "left_out", "said"),
    [
        ("batch", "batch 32", "d_model 768 = 12×64"),
        ("mask", " · full", "batch 32"),
        ("dtype", "bf16 ·", "full"),
    ],
)
def test_what_a_run_is_pivoted_by_is_no_part_of_the_title(by: str, left_out: str, said: str) -> None:
    of = h200.run([("sdpa_cudnn", 64)])
    titles = [" · ".join(pivot_grids.title(table, Use())) for table in pivot.from_run(of, by, Use()).tables]
    assert all(left_out not in title and said in title for title in titles)


def test_every_term_is_explained_in_the_legend() -> None:
    text = " ".join(shown(h200.run()).split())
    for meaning in (
        "each cell: useful % / active % / issued ×",
        "useful: the algorithm's FLOP/s ÷ the datasheet's peak",
        "active: share of cycles with a tensor pipe busy (Nsight Compute, kernel by kernel)",
        "issued: FLOPs that the tensor cores executed ÷ the algorithm's",
        "▸ fastest",
    ):
        assert meaning in text


@pytest.mark.parametrize(
    ("peak", "means", "cell"),
    [
        ("held", "at the SM clock it ran at", "35 / 66 / 1.78"),
        ("burst", "a large matmul's burst on this GPU", "44 / 66 / 1.78"),
        ("sustained", "what a large matmul sustained", "45 / 66 / 1.78"),
    ],
)
def test_another_peak_changes_the_useful_share_and_says_so(peak: str, means: str, cell: str) -> None:
    text = shown(h200.run(), peak=peak)
    assert means in " ".join(text.split())
    assert cell in text
    assert f"--by head_dim --peak {peak}" in text


def test_ceilings_stand_in_the_header() -> None:
    text = " ".join(shown(h200.run()).split())
    assert "bf16 matmul 8192³: burst 792 TFLOP/s at 1980 MHz, sustained 692 TFLOP/s at 1440 MHz" in text
    assert "copy 4.30 TB/s read and written" in text


def test_a_figure_that_is_missing_is_a_dash_and_its_reason_stands_once_below() -> None:
    refused = "ERR_NVGPUCTRPERM: counters need a permission"
    of = h200.run(observed=lambda seen: replace(seen, counters=Counters(reason=refused)))
    text = shown(of)
    assert "▸44 / 45 / –" in text
    assert " / 0" not in text
    assert text.count(refused) == 1
    assert "NVML's GPM, a window of the whole GPU" in text


def test_a_case_that_failed_shows_its_outcome_in_its_cell() -> None:
    of = h200.run()
    failed = builders.trial(h200.case("sdpa_flash", 72), outcome=Outcome.OUT_OF_MEMORY, reason="2 GiB short")
    of.trials = [one for one in of.trials if one.case != failed.case] + [failed]
    (line,) = (line for line in shown(of).splitlines() if line.startswith("sdpa_flash  "))
    assert line.endswith("out of memory")
    assert "sdpa_flash at 72: 2 GiB short" in shown(of)


def test_a_fine_sweep_has_values_down_in_as_many_tables_as_it_takes_and_a_line_for_each_variant() -> None:
    text = shown(sweeps.sweep(range(16, 257, 8), MANY))
    titles = [line.split() for line in text.splitlines() if line.startswith("head_dim ")]
    assert sorted(name for title in titles for name in title[1:]) == sorted(MANY)
    assert len(titles) == 2
    assert len(re.findall(r"^ +72 ", text, flags=re.MULTILINE)) == 2
    assert "useful, 0 to 40 %, at head_dim 16 to 256" in text
    bars = re.findall(r"^\w+ +([▁▂▃▄▅▆▇█]{31})$", text, flags=re.MULTILINE)
    assert len(bars) == len(MANY)


def test_the_line_draws_the_cliff_and_keeps_the_place_of_what_is_missing() -> None:
    of = sweeps.sweep(range(16, 257, 8))
    gone = builders.trial(h200.case("padding", 24), outcome=Outcome.CRASHED, reason="lost")
    of.trials = [one for one in of.trials if one.case != gone.case] + [gone]
    (table,) = pivot.from_run(of, "head_dim", Use()).tables
    ((_, bars),) = pivot_grids.sparklines(table, Use())
    at = dict(zip(table.values, bars, strict=True))
    assert (at[16], at[24], at[64], at[72], at[128]) == ("▃", "·", "█", "▅", "█")


def test_a_few_values_are_not_drawn() -> None:
    (table,) = pivot.from_run(h200.run(), "head_dim", Use()).tables
    assert pivot_grids.sparklines(table, Use()) == []


def test_without_any_useful_share_nothing_is_drawn() -> None:
    of = sweeps.sweep(range(16, 257, 8))
    of.ceilings = None
    (table,) = pivot.from_run(of, "head_dim", Use("burst")).tables
    assert pivot_grids.sparklines(table, Use("burst")) == []


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("width", [80, 100, 200])
@pytest.mark.parametrize("by", ["head_dim", "mask"])
def test_no_line_is_wider_than_the_terminal_and_nothing_acts_on_it(name: str, width: int, by: str) -> None:
    for line in shown(RUNS[name](), width, by).splitlines():
        assert line.startswith(("show again: ", "stored in ")) or cell_len(line) <= width
        assert line.isprintable()


def test_a_width_without_room_for_a_cell_still_shows_every_figure() -> None:
    text = shown(h200.run(), 24)
    assert text.count(" / 1.78") == 1
    assert text.count(" / 1.00") == 3


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("by", list(pivot.BY))
def test_every_table_of_the_page_is_rectangular(name: str, by: str) -> None:
    text = page(RUNS[name](), by)
    for block in re.findall(r"(?:^\|.*\|$\n?)+", text, flags=re.MULTILINE):
        assert len({row.count("|") for row in block.splitlines()}) == 1
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(text)
    inline = [child for token in tokens for child in token.children or ()]
    assert all("<!--" in child.content for child in inline if child.type == "html_inline")


def test_the_page_says_what_the_terminal_says() -> None:
    text = page(h200.run())
    assert "| sdpa_cudnn | ▸22 / 46 / 2.00 | ▸44 / 46 / 1.00 | ▸35 / 66 / 1.78 |" in text
    assert (
        "- sdpa_cudnn runs 72 in a 128-wide kernel: 1.78 × issued, 19 % less useful work a second than 64"
        in text
    )
    assert "useful: the algorithm's FLOP/s ÷ the datasheet's peak" in text
    fine = page(sweeps.sweep(range(16, 257, 8)))
    assert "| head_dim | padding |" in fine
    assert re.search(r"- padding [▁▂▃▄▅▆▇█]{31}", fine)


def test_reasons_stand_on_the_page() -> None:
    of = h200.run(observed=h200.without("counters"), settings={"counters": "gpm"})
    assert "- no issued – this run did not ask for it: --counters ncu does" in page(of)


def test_what_was_left_out_is_counted_in_both() -> None:
    of = sweeps.run(
        [
            *(sweeps.observed(h200.case("padding", n), 64) for n in (32, 64)),
            sweeps.observed(h200.case("padding", 64, n_head=24, d_model=1536), 64),
        ]
    )
    for text in (shown(of), page(of)):
        assert "1 group with one head" in text
        assert "only: not shown" in text


def test_where_nothing_is_known_to_hold_it_against_the_useful_rate_itself_is_shown() -> None:
    of = sweeps.sweep((64, 128))
    environment = {**of.manifest.environment, "peaks": {}}
    of.manifest = replace(of.manifest, environment=environment)
    (table,) = pivot.from_run(of, "head_dim", Use()).tables
    assert "useful in TFLOP/s" in pivot_grids.title(table, Use())
    (line,) = pivot_grids.variants_down(table, Use()).lines
    assert line.cells[1].lstrip("▸≈ ").startswith("400 / ")
    assert any(
        "its share is not known" in said for said in pivot_grids.legend(pivot.from_run(of, "head_dim", Use()))
    )


def test_where_shares_are_known_no_rate_is_shown() -> None:
    (table,) = pivot.from_run(sweeps.sweep((64, 128)), "head_dim", Use()).tables
    assert not any("useful in" in part for part in pivot_grids.title(table, Use()))


def test_sustained_shares_say_that_marks_and_sentences_are_of_single_calls() -> None:
    of = sweeps.sweep((64, 72))
    assert not any("single calls" in said for said in legend_of(of, "datasheet"))
    assert any("single calls" in said for said in legend_of(of, "sustained"))


def legend_of(of: Run, peak: str) -> list[str]:
    return pivot_grids.legend(pivot.from_run(of, "head_dim", Use(peak)))


def test_the_way_to_show_it_again_names_no_default() -> None:
    of = sweeps.sweep((64, 72))
    assert pivot_terminal.again(pivot.from_run(of, "head_dim", Use())) == " --by head_dim"
    assert pivot_terminal.again(pivot.from_run(of, "head_dim", Use("held"))) == " --by head_dim --peak held"
