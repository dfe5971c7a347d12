"""What the report says of a stage without FLOPs, and of stacks: bandwidth, depth and parameters."""

from __future__ import annotations

from reports import content, pivot
from reports.columns import short_title
from reports.html.times import times_table
from reports.pivot_cells import Use
from reports.pivot_grids import title
from results.schema import Ceilings
from tests.reports import runs
from tests.results import builders

SPLIT = {"torch_contiguous": 217e-6, "torch_permute": 200e-6, "relayout": 78e-6}
STACK = {"fused_sdpa": 300e-6, "per_head": 5e-3}


def stack_trials(n_layer: int = 12, **case):
    return [
        builders.trial(one.case, one.replicate, median_s=300e-6, parameters=n_layer * 4 * 768**2)
        for one in runs.gpu_trials(STACK, stage="stack", n_layer=n_layer, **case)
    ]


def split_run(copy_bytes_per_s: float | None = 4.3e12, **manifest):
    of = runs.run(runs.gpu_trials(SPLIT, stage="split", batch=32), **manifest)
    of.ceilings = Ceilings(copy_bytes_per_s=copy_bytes_per_s, source="torch")
    return of


def lines(of, begin: str) -> list[str]:
    return [line for line in runs.rendered(of).splitlines() if begin in line]


def test_a_split_shows_bandwidth_and_its_shares_of_the_memorys_peak_and_of_a_copy():
    title, row = lines(split_run(), "  variant")[0], lines(split_run(), "▸ relayout")[0]
    assert title.split()[1:] == [
        "isolated",
        "±",
        "eager",
        "graph",
        "TB/s",
        "peak",
        "copy",
        "×",
        "base",
        "memory",
        "busy",
    ]
    assert "  3.86  80 %  90 %  " in row
    assert "FLOP/s" not in title


def test_the_shares_are_explained_in_the_legend_where_they_are_shown():
    shown = " ".join(runs.rendered(split_run()).split())
    assert "of its memory's where a stage only moves bytes" in shown
    assert "copy: share of a plain copy's bandwidth on this GPU" in shown
    other = " ".join(runs.rendered(runs.gpu_run()).split())
    assert "copy:" not in other
    assert "moves bytes" not in other


def test_a_missing_ceiling_leaves_out_the_column_and_is_a_remark():
    shown = runs.rendered(split_run(copy_bytes_per_s=None))
    assert "no share of a copy" in shown
    assert "no copy was measured" in shown
    assert not any("copy" in line.split() for line in lines(split_run(copy_bytes_per_s=None), "  variant"))


def test_on_a_cpu_a_split_says_no_more_than_other_stages_do():
    trials = [
        builders.cpu_trial(one.case, one.replicate, median_s=1e-3)
        for one in runs.gpu_trials(SPLIT, stage="split", dtype="fp32")
    ]
    shown = runs.rendered(runs.run(trials, environment=runs.CPU_ENVIRONMENT))
    assert "GB/s" in shown
    assert "no fp32 peak is known for this device" in shown
    assert "share of a copy" not in shown


def test_a_stacks_title_has_its_depth_and_counts_its_parameters():
    (title,) = lines(runs.run(stack_trials()), "stack forward · ")
    assert "d_model 768 = 12×64 · 12 layers" in title
    assert "28.3 M parameters" in " ".join(runs.rendered(runs.run(stack_trials())).split())
    assert "parameters" not in runs.rendered(runs.gpu_run())


def test_depth_is_a_column_where_stacks_of_one_width_differ_in_it():
    both = runs.run([*runs.gpu_trials(runs.QKV), *stack_trials(6), *stack_trials(12)])
    (title,) = lines(both, "lead  runner-up")
    assert "n_layer" in title
    table = runs.rendered(both).partition("fastest of each group\n")[2].splitlines()[:4]
    assert [line.split()[1] for line in table] == ["n_layer", "–", "6", "12"]
    one = runs.run([*runs.gpu_trials(runs.QKV), *stack_trials(12)])
    assert "n_layer" not in runs.rendered(one)


def test_a_pages_table_of_times_has_the_bytes_moved_a_second_and_their_share_of_a_copy():
    table = times_table(content.from_run(split_run()))
    assert table is not None
    (row,) = [one for one in table.rows if one.row.variant == "relayout" and one.mode == "isolated"]
    cells = {one.column.title: one.column.cell(row) for one in table.columns}
    assert (cells["useful rate"], cells["peak"], cells["copy"]) == ("3.86 TB/s", "80 %", "90 %")


def test_words_for_a_case_leave_out_the_depth_that_it_does_not_have():
    both = runs.run([*runs.gpu_trials(runs.QKV), *stack_trials(6), *stack_trials(12)])
    cases = list(dict.fromkeys(trial.case for trial in both.trials))
    assert {short_title(case, cases) for case in cases} == {"qkv", "stack, n_layer 6", "stack, n_layer 12"}


def test_a_frame_has_depth_and_parameters_of_every_case():
    frame = runs.run([*runs.gpu_trials(runs.QKV), *stack_trials(12)]).frame().set_index(["stage", "variant"])
    assert tuple(frame.loc[("stack", "fused_sdpa"), ["n_layer", "parameters"]]) == (12, 28_311_552)
    assert tuple(frame.loc[("qkv", "fused"), ["n_layer", "parameters"]]) == (1, 3 * 768**2)


def test_stacks_are_pivoted_by_their_depth():
    pivoted = pivot.from_run(
        runs.run([*stack_trials(6), *stack_trials(12), *stack_trials(24)]), "n_layer", Use()
    )
    (table,) = pivoted.tables
    assert table.values == (6, 12, 24)
    assert not any("layers" in part for part in title(table, Use()))
