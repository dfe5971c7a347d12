"""What is said of a pivoted run in words: only what its record tells, with two witnesses for a kernel's width."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from reports import pivot
from reports.pivot_cells import Use
from results.figures import CountedKernel, Counters, Gpm
from results.schema import Observation
from tests.reports import sweeps
from tests.results import builders, h200

if TYPE_CHECKING:
    from collections.abc import Sequence

    from results.run import Run

RATES = (
    "while active, the tensor cores run at these shares of their rate, so that active does not compare: "
    "sdpa_cudnn 100 %; sdpa_flash 67 %"
)


def said(of: Run, by: str = "head_dim") -> list[str]:
    """The sentences of a run that has one table."""
    (table,) = pivot.from_run(of, by, Use()).tables
    return list(table.sentences)


def test_an_h200_is_told_as_it_was_measured() -> None:
    assert said(h200.run()) == [
        "sdpa_cudnn runs 32 in a 64-wide kernel: 2.00 × issued, 49 % less useful work a second than 64",
        "sdpa_cudnn runs 72 in a 128-wide kernel: 1.78 × issued, 19 % less useful work a second than 64, "
        "though the tensor cores are busier (66 % against 46 %)",
        "sdpa_flash runs 72 in a 96-wide kernel: 1.33 × issued, 23 % less useful work a second than 64",
        RATES,
    ]


def test_a_projection_to_72_columns_runs_96_as_it_was_counted() -> None:
    times_s = {32: 16_544e-9, 64: 16_640e-9, 72: 19_104e-9}
    cases = {columns: h200.case("per_head", columns, stage="qkv") for columns in times_s}
    of = sweeps.run(
        (one, times_s[columns], Observation(one, counters=h200.recorded(f"proj-{columns}")))
        for columns, one in cases.items()
    )
    of.trials = [replace(one, useful_flops=2 * 32768 * 768 * one.case.head_dim) for one in of.trials]
    assert said(of) == [
        "per_head runs 72 in a 96-wide kernel: 1.33 × issued, 2.0 % less useful work a second than 64"
    ]


def renamed(name: str) -> Run:
    """cuDNN at 64 and 72, both kernels under this name."""

    def change(seen: Observation) -> Observation:
        counters = seen.counters
        assert counters
        kernels = tuple(replace(kernel, name=name) for kernel in counters.kernels)
        return replace(seen, counters=replace(counters, kernels=kernels))

    return h200.run([("sdpa_cudnn", 64), ("sdpa_cudnn", 72)], change)


@pytest.mark.parametrize(
    "name", ["attention", "attention_64x64", "attention_1280", "sm128_attention", "sm_128_x"]
)
def test_a_width_that_the_kernels_name_does_not_hold_is_not_named(name: str) -> None:
    (sentence,) = said(renamed(name))
    assert sentence.startswith(
        "sdpa_cudnn executes more than the algorithm needs at 72: 1.78 × issued, 19 % less"
    )


def test_a_width_that_the_executed_work_does_not_hold_is_not_named() -> None:
    def less(seen: Observation) -> Observation:
        counters = seen.counters
        assert counters
        assert counters.issued_flops
        share = 0.95 if seen.case.head_dim == 72 else 1.0
        return replace(seen, counters=replace(counters, issued_flops=share * counters.issued_flops))

    found = said(h200.run([("sdpa_cudnn", 64), ("sdpa_cudnn", 72)], less))
    assert not any("-wide" in sentence for sentence in found)
    assert any("1.69 × issued" in sentence for sentence in found)


def test_only_the_kernel_that_does_the_work_is_a_witness() -> None:
    def helped(seen: Observation) -> Observation:
        counters = seen.counters
        assert counters
        attention = replace(counters.kernels[0], name="attention")
        copy = CountedKernel("copy_128", 1, 1e-3, issued_flops=0.0)
        small = CountedKernel("split_128", 1, 1e-3, issued_flops=0.4 * (counters.issued_flops or 0))
        return replace(seen, counters=replace(counters, kernels=(copy, small, attention)))

    found = said(h200.run([("sdpa_cudnn", 64), ("sdpa_cudnn", 72)], helped))
    assert not any("-wide" in sentence for sentence in found)


def executing(ratios: dict[int, float], name: str) -> Run:
    """A variant that takes as long for every FLOP, executes so many times the needed, in kernels of this name."""
    cases = {head_dim: h200.case("x", head_dim) for head_dim in ratios}
    return sweeps.run(
        (
            one,
            8e-6 * head_dim,
            Observation(
                one,
                counters=Counters(
                    tensor_active_percent=30.0,
                    issued_flops=(issued := ratios[head_dim] * h200.useful_flops(one)),
                    kernels=(CountedKernel(name.format(head_dim), 1, 1e-4, issued_flops=issued),),
                ),
            ),
        )
        for head_dim, one in cases.items()
    )


def test_a_kernel_named_after_heads_of_this_size_pads_something_else() -> None:
    """A sequence of half a tile doubles the work of every head size; its kernel's name has the tile's 128, too."""
    assert said(executing({32: 2.0, 64: 2.0, 128: 2.0}, "flash_fwd<traits<{}, 128, 128, 4>>")) == []


def test_where_the_name_fits_two_widths_none_is_named() -> None:
    assert said(executing({32: 4.0, 64: 2.0}, "fprop_wgmma_f16_64x128x64")) == [
        "x executes more than the algorithm needs at 32: 4.00 × issued"
    ]


def test_a_formats_number_is_no_width() -> None:
    assert said(executing({8: 2.0, 64: 1.0}, "fprop_f16_bfloat16_t_bf16")) == [
        "x executes more than the algorithm needs at 8: 2.00 × issued"
    ]


@pytest.mark.parametrize("least", [0.25, 0.5, 0.9])
def test_a_value_that_left_the_tensor_cores_idle_makes_no_other_one_wasteful(least: float) -> None:
    assert said(executing({32: least, 64: 1.0, 96: 1.0}, "gemm_192x128")) == []


def test_masked_work_is_taken_out_of_the_ratio_before_a_width_is_named() -> None:
    diagonal = 1.124
    cases = [h200.case("sdpa_cudnn", n, causal=True) for n in (64, 72)]
    of = sweeps.run(
        sweeps.observed(
            one,
            sweeps.width_of(one.head_dim),
            issued_flops=diagonal * h200.useful_flops(one) * sweeps.width_of(one.head_dim) / one.head_dim,
        )
        for one in cases
    )
    (sentence,) = said(of)
    assert sentence.startswith("sdpa_cudnn runs 72 in a 128-wide kernel: 2.00 × issued")


def test_work_that_every_value_wastes_alike_is_no_width_and_no_sentence() -> None:
    cases = [h200.case("sdpa_cudnn", n, direction="backward") for n in (64, 128)]
    of = sweeps.run(
        sweeps.observed(one, one.head_dim, issued_flops=1.25 * h200.useful_flops(one)) for one in cases
    )
    assert said(of) == []


def test_a_padded_head_without_an_unpadded_one_beside_it_is_compared_with_nothing() -> None:
    assert said(h200.run([("sdpa_cudnn", 72)])) == ["sdpa_cudnn runs 72 in a 128-wide kernel: 1.78 × issued"]


def test_neighbours_in_one_kernel_are_one_sentence_told_at_the_worst() -> None:
    found = said(sweeps.sweep(range(16, 257, 8)))
    assert [sentence.partition(":")[0] for sentence in found] == [
        "padding runs 16 to 56 in a 64-wide kernel",
        "padding runs 72 to 120 in a 128-wide kernel",
        "padding runs 136 to 240 in a 256-wide kernel",
    ]
    assert "1.78 × issued at 72, 44 % less useful work a second than 64, though" in found[1]


def of_rates(rates: Sequence[float], active: Sequence[float], replicates: int = 3) -> Run:
    """One variant at head_dim 32, 64, … with these useful TFLOP/s and these shares by GPM, nothing counted."""
    cases = [h200.case("kernel", 32 * (n + 1)) for n in range(len(rates))]
    measured = [
        (one, h200.useful_flops(one) / (1e12 * rate), Observation(one, gpm=Gpm(tensor_active_percent=share)))
        for one, rate, share in zip(cases, rates, active, strict=True)
    ]
    return sweeps.run(measured, replicates=replicates, settings={"counters": "gpm"})


def test_busier_and_yet_slower_is_said_without_any_count() -> None:
    (sentence,) = said(of_rates((400, 300), (40, 60)))
    assert sentence == (
        "kernel is busier and yet slower at 64 than at 32: 60 % active against 40 %, 25 % less useful work a second"
    )
    (sentence,) = said(of_rates((300, 400), (60, 40)))
    assert "at 32 than at 64" in sentence


@pytest.mark.parametrize(
    ("rates", "active"),
    [((400, 300), (60, 40)), ((300, 400), (40, 60)), ((400, 300), (40, 42)), ((400, 390), (40, 60))],
)
def test_where_both_go_one_way_or_hardly_at_all_nothing_is_said(
    rates: list[float], active: list[float]
) -> None:
    assert said(of_rates(rates, active)) == []


def test_of_several_such_steps_the_worst_is_told_and_counted() -> None:
    (sentence,) = said(of_rates((400, 380, 200), (40, 50, 60)))
    assert "slower at 96 than at 64: 60 % active against 50 %, 47 % less" in sentence
    assert sentence.endswith("(one of 2 such steps)")


def test_shares_of_two_sensors_are_not_held_against_each_other() -> None:
    of = of_rates((400, 300), (40, 60))
    ncu = h200.recorded("cudnn-72-full")
    of.observations[1] = replace(of.observations[1], counters=replace(ncu, issued_flops=None))
    assert not any("busier" in sentence for sentence in said(of))


@pytest.mark.parametrize(
    ("windows", "sentences"),
    [
        (({"fed_by": "graph"}, {"fed_by": "graph"}), 1),
        (({"fed_by": "eager"}, {"fed_by": "graph"}), 0),
        (({"other_processes": 0}, {"other_processes": 1}), 0),
    ],
)
def test_shares_of_windows_that_were_not_alike_are_not_held_against_each_other(
    windows: Sequence[dict[str, Any]], sentences: int
) -> None:
    of = of_rates((400, 300), (40, 60))
    of.observations[:] = [
        sweeps.watched(**window)(seen) for window, seen in zip(windows, of.observations, strict=True)
    ]
    assert len(said(of)) == sentences


def test_a_difference_that_intervals_do_not_show_is_marked() -> None:
    (sentence,) = said(of_rates((400, 300), (40, 60), replicates=1))
    assert sentence.endswith("~25 % less useful work a second")


def test_times_of_two_modes_are_not_compared() -> None:
    of = h200.run([("sdpa_cudnn", 64), ("sdpa_cudnn", 72)])
    eager = {"eager": builders.timing(1e-3)}
    of.trials = [replace(one, timings=eager) if one.case.head_dim == 72 else one for one in of.trials]
    assert said(of) == ["sdpa_cudnn runs 72 in a 128-wide kernel: 1.78 × issued"]


def test_a_slower_dtype_is_no_parting() -> None:
    cases = [h200.case("kernel", 64, dtype=dtype) for dtype in ("bf16", "tf32")]
    of = sweeps.run(
        (one, time_s, Observation(one, gpm=Gpm(tensor_active_percent=share)))
        for one, time_s, share in zip(cases, (1e-3, 2e-3), (40.0, 60.0), strict=True)
    )
    assert said(of, "dtype") == []


def test_no_width_is_named_where_head_dim_is_not_what_varies() -> None:
    cases = [h200.case("kernel", 72, batch=batch) for batch in (1, 32)]
    of = sweeps.run(sweeps.observed(one, 128 if one.batch == 32 else 72) for one in cases)
    (sentence,) = said(of, "batch")
    assert sentence.startswith("kernel executes more than the algorithm needs at 32: 1.78 × issued")


def test_rates_while_active_that_hardly_differ_are_not_mentioned() -> None:
    only = h200.run([("sdpa_flash", 32), ("sdpa_flash", 64)])
    assert said(only) == []


def test_foreign_names_stay_on_their_line() -> None:
    of = sweeps.sweep((64, 72), ("bad\n\x1b[31mname",))
    assert all(sentence.isprintable() for sentence in said(of))
    assert said(of)


def test_who_executes_nothing_on_the_tensor_cores_is_named() -> None:
    told = [sweeps.observed(h200.case("padding", dim), sweeps.width_of(dim)) for dim in (64, 128)]
    none = {"issued_flops": 0.0, "rate_while_active": None, "tensor_active_percent": 0.6, "kernels": ()}
    told += [sweeps.observed(h200.case("math", dim), 64, **none) for dim in (64, 128)]
    (sentence,) = said(sweeps.run(told))
    assert (
        sentence == "math executes no matrix instruction: what the tensor cores could do, the vector units do"
    )


@pytest.mark.parametrize(
    ("by", "cases", "sentences"),
    [
        ("dtype", [{"dtype": "bf16"}, {"dtype": "fp32"}], []),
        ("dtype", [{"dtype": "fp32"}, {"dtype": "tf32"}], ["x at tf32 executes no matrix instruction"]),
        ("batch", [{"batch": 32}, {"batch": 1}], ["x at 1 executes no matrix instruction"]),
    ],
)
def test_only_where_tensor_cores_could_have_done_it_is_it_said_that_they_did_nothing(
    by: str, cases: list[dict[str, Any]], sentences: list[str]
) -> None:
    used, unused = (h200.case("x", 64, **case) for case in cases)
    none = {"issued_flops": 0.0, "rate_while_active": None, "tensor_active_percent": 0.0, "kernels": ()}
    seen = sweeps.observed(used, 64)[2], sweeps.observed(unused, 64, **none)[2]
    of = sweeps.run([(used, 0.1, seen[0]), (unused, 0.1, seen[1])])
    assert [sentence.partition(":")[0] for sentence in said(of, by)] == sentences


def test_a_relayout_that_executes_no_matrix_instruction_is_no_news() -> None:
    none = {"issued_flops": 0.0, "rate_while_active": None, "tensor_active_percent": 0.0, "kernels": ()}
    of = sweeps.run([sweeps.observed(h200.case("copy", dim), 64, **none) for dim in (32, 64)])
    of.trials = [replace(one, useful_flops=0) for one in of.trials]
    assert said(of) == []


def test_in_the_output_stage_padding_is_no_kernels_width() -> None:
    """Head_dim is the depth of its products there: 128 may be another side of the tile."""
    cases = [h200.case("padding", dim, stage="output") for dim in (64, 72)]
    of = sweeps.run(sweeps.observed(one, sweeps.width_of(one.head_dim)) for one in cases)
    (sentence,) = said(of)
    assert sentence.startswith("padding executes more than the algorithm needs at 72: 1.78 × issued")


def test_a_variant_that_nobody_would_choose_is_not_talked_about() -> None:
    def at(variant: str, slower: float) -> list:
        cases = [sweeps.observed(h200.case(variant, dim), sweeps.width_of(dim)) for dim in (64, 72)]
        return [(case, time_s * slower, seen) for case, time_s, seen in cases]

    assert [line.split()[0] for line in said(sweeps.run([*at("near", 3.9), *at("best", 1.0)]))] == [
        "best",
        "near",
    ]
    assert [line.split()[0] for line in said(sweeps.run([*at("far", 4.1), *at("best", 1.0)]))] == ["best"]
