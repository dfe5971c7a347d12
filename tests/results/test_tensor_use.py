"""Useful, active, issued and rate of a case: the right values of an H200, and a reason for whatever is not known."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.figures import Counters, Gpm, Matmul, Utilisation
from results.merged import merge
from results.schema import Ceilings, Observation, Outcome
from results.tensor_use import PEAKS, asked, tensor_use
from tests.results import builders, h200

if TYPE_CHECKING:
    from results.run import Run


def uses(of: Run):
    return {(row.variant, row.record.case.head_dim): tensor_use(row) for row in of.standings()}


def use_of(observed=lambda seen: seen, ceilings=h200.CEILINGS, **manifest):
    """The figures of cuDNN at head_dim 72."""
    of = h200.run([("sdpa_cudnn", 72)], observed, **manifest)
    of.ceilings = ceilings
    return uses(of)["sdpa_cudnn", 72]


@pytest.mark.parametrize(
    ("variant", "head_dim", "useful", "active", "issued", "rate"),
    [
        ("sdpa_flash", 32, 0.195, 30.46, 1.0, 2 / 3),
        ("sdpa_flash", 64, 0.287, 44.30, 1.0, 2 / 3),
        ("sdpa_flash", 72, 0.220, 45.09, 96 / 72, 2 / 3),
        ("sdpa_cudnn", 32, 0.221, 45.63, 64 / 32, 1.0),
        ("sdpa_cudnn", 64, 0.436, 45.63, 1.0, 1.0),
        ("sdpa_cudnn", 72, 0.353, 66.00, 128 / 72, 1.0),
    ],
)
def test_the_four_figures_of_an_h200_stand_side_by_side(variant, head_dim, useful, active, issued, rate):
    use = uses(h200.run())[variant, head_dim]
    assert use.datasheet_fraction == pytest.approx(useful, abs=1e-3)
    assert (use.tensor_active_percent, use.tensor_active_source) == (active, "ncu")
    assert use.issued_ratio == pytest.approx(issued, rel=1e-9)
    assert use.rate_while_active == pytest.approx(rate, rel=1e-9)
    assert use.missing == {}


def test_useful_rates_are_held_against_four_peaks_each_like_for_like():
    use = use_of()
    rate = 349e12 / 1.001  # the middle of three replicates, each a thousandth slower than the one before
    assert use.datasheet_fraction == pytest.approx(rate / 989e12)
    assert use.held_fraction == pytest.approx(rate / 989e12)  # the trials ran at the datasheet's 1830 MHz
    assert use.burst_fraction == pytest.approx(rate / 792e12)
    assert use.sustained_fraction == pytest.approx(0.9 * 349e12 / 692e12)  # the window's own rate
    assert [use.fraction(peak) for peak in PEAKS] == [
        use.datasheet_fraction,
        use.held_fraction,
        use.burst_fraction,
        use.sustained_fraction,
    ]


def test_energy_is_what_the_counter_ticked_in_its_window_and_a_call_takes_its_share():
    use = use_of()
    span_s = h200.useful_flops(h200.case()) / (0.9 * 349e12)
    assert use.average_power_w == pytest.approx(600.0)
    assert use.energy_per_call_j == pytest.approx(600.0 * span_s)
    assert use.flop_per_j == pytest.approx(0.9 * 349e12 / 600.0)


def test_without_nsight_compute_active_is_gpms_and_issued_has_its_reason():
    use = use_of(h200.without("counters"), settings={"counters": "gpm"})
    assert (use.tensor_active_percent, use.tensor_active_source) == (65.5, "gpm")
    assert (use.issued_flops, use.issued_ratio, use.rate_while_active) == (None, None, None)
    assert use.missing == dict.fromkeys(
        ("issued_flops", "issued_ratio", "rate_while_active"),
        "this run did not ask for it: --counters ncu does",
    )


def test_where_neither_sensor_spoke_both_reasons_are_told():
    def refused(seen: Observation) -> Observation:
        return replace(seen, counters=Counters(reason="ERR_NVGPUCTRPERM"), gpm=Gpm(reason="pre-Hopper"))

    use = use_of(refused)
    assert use.tensor_active_source is None
    assert use.missing["tensor_active_percent"] == "ERR_NVGPUCTRPERM; pre-Hopper"
    assert use.missing["issued_ratio"] == "ERR_NVGPUCTRPERM"


def test_a_single_value_that_is_missing_has_the_reason_of_its_own():
    def partly(seen: Observation) -> Observation:
        return replace(
            seen,
            counters=Counters(
                tensor_active_percent=12.0,
                issued_flops=0.0,
                missing={"rate_while_active": "no tensor instruction"},
            ),
        )

    use = use_of(partly)
    assert (use.tensor_active_percent, use.issued_ratio, use.rate_while_active) == (12.0, 0.0, None)
    assert use.missing == {"rate_while_active": "no tensor instruction"}


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("none", "this run did not ask for it: --counters gpm does"),
        ("gpm", "not observed yet: run --resume does it"),
        ("ncu", "not observed yet: run --resume does it"),
        (None, "this run did not ask for it: --counters gpm does"),
    ],
)
def test_what_nobody_watched_says_whether_it_was_asked_for(setting, reason):
    use = use_of(h200.without("counters", "gpm"), settings={"counters": setting} if setting else {})
    assert use.missing["tensor_active_percent"] == reason


def test_what_is_asked_for_is_what_the_run_wants_or_has():
    (row,) = h200.run([("sdpa_flash", 64)], settings={"counters": "none"}).standings()
    assert asked(row, "counters")  # it is there
    (row,) = h200.run([("sdpa_flash", 64)], h200.without("counters", "gpm"), settings={}).standings()
    assert not asked(row, "gpm")
    (row,) = h200.run([("sdpa_flash", 64)], h200.without("gpm")).standings()
    assert asked(row, "gpm")


@pytest.mark.parametrize(
    ("ceilings", "reason"),
    [
        (None, "this run measured no ceilings of its GPU"),
        (Ceilings(reason="out of memory"), "out of memory"),
        (Ceilings(), "no bf16 matmul was measured"),
        (Ceilings(matmuls={"bf16": Matmul(8192, reason="crashed")}), "crashed"),
        (Ceilings(matmuls={"bf16": Matmul(8192, 0.0, None, 0.0)}), "no bf16 matmul was measured"),
    ],
)
def test_without_a_ceiling_there_is_no_share_of_it(ceilings, reason):
    use = use_of(ceilings=ceilings)
    assert (use.burst_fraction, use.sustained_fraction) == (None, None)
    assert use.missing["burst_fraction"] == use.missing["sustained_fraction"] == reason
    assert use.datasheet_fraction is not None


def test_without_a_datasheet_there_is_no_share_of_it_and_the_ceilings_stay():
    use = use_of(environment={"peaks": {"bf16": {"reason": "no datasheet of this GPU"}}})
    assert use.missing["datasheet_fraction"] == use.missing["held_fraction"] == "no datasheet of this GPU"
    assert use.burst_fraction is not None


def test_without_an_sm_clock_only_the_held_share_is_missing():
    of = h200.run([("sdpa_cudnn", 72)])
    blind = builders.timing(1e-3, sm_clock_mhz=(None,))
    of.trials = [replace(trial, timings={"isolated": blind}) for trial in of.trials]
    (use,) = uses(of).values()
    assert set(use.missing) == {"held_fraction"}
    assert use.missing["held_fraction"].startswith("the SM clock is not known")


@pytest.mark.parametrize(
    ("window", "power", "call"),
    [
        (None, "it was not recorded", "it was not recorded"),
        (Utilisation(reason="no NVML"), "no NVML", "no NVML"),
        (
            Utilisation(span_s=1e-3, missing={"energy_j": "no energy counter"}),
            "no energy counter",
            "no energy counter",
        ),
        (Utilisation(energy_j=50.0, energy_window_s=0.1, reason="no calls"), 500.0, "no calls"),
    ],
)
def test_energy_that_is_not_known_has_its_reason(window, power, call):
    use = use_of(lambda seen: replace(seen, utilisation=window))
    told = use.average_power_w if use.average_power_w is not None else use.missing["average_power_w"]
    assert (told, use.missing["energy_per_call_j"]) == (power, call)
    assert use.missing["flop_per_j"] == call


def test_work_that_is_not_known_is_no_zero():
    of = h200.run([("sdpa_cudnn", 72)])
    of.trials = [replace(trial, useful_flops=0) for trial in of.trials]
    (use,) = uses(of).values()
    unknown = {"datasheet_fraction", "held_fraction", "burst_fraction", "sustained_fraction"}
    assert set(use.missing) == unknown | {"issued_ratio", "flop_per_j"}
    assert set(use.missing.values()) == {"its useful work is not known"}
    assert use.energy_per_call_j is not None


@pytest.mark.parametrize("outcome", [one for one in Outcome if one is not Outcome.OK])
def test_a_case_that_is_not_ok_has_its_outcome_for_every_reason(outcome):
    of = h200.run([("sdpa_cudnn", 72)])
    of.trials = [builders.trial(h200.case(), outcome=outcome, reason="because")]
    (use,) = uses(of).values()
    assert set(use.missing.values()) == {f"{outcome.value.replace('_', ' ')}: because"}
    assert len(use.missing) == len(fields(use)) - 2  # all but the source and the reasons themselves


def test_a_case_without_the_groups_mode_says_so():
    of = h200.run([("sdpa_cudnn", 72), ("sdpa_flash", 72)])
    only_eager = {"eager": builders.timing(1e-3), "isolated": builders.timing(used_s=(), reason="no events")}
    of.trials = [
        replace(one, timings=only_eager) if one.case.variant == "sdpa_flash" else one for one in of.trials
    ]
    use = uses(of)["sdpa_flash", 72]
    assert use.missing["datasheet_fraction"] == "it has no isolated time: no events"
    assert use.sustained_fraction is not None


def test_merged_runs_are_each_held_against_their_own_ceilings(tmp_path):
    slow = replace(h200.CEILINGS, matmuls={"bf16": Matmul(8192, 396e12, None, 346e12)})
    old, new = (
        h200.run([(variant, 72)], run_id=name, created_utc=f"2026-01-0{day}T00:00:00Z")
        for day, (name, variant) in enumerate((("old", "sdpa_flash"), ("new", "sdpa_cudnn")), start=1)
    )
    old.ceilings = slow
    found = uses(merge(tmp_path, [old, new]))
    assert found["sdpa_flash", 72].burst_fraction == pytest.approx(218e12 / 1.001 / 396e12)
    assert found["sdpa_cudnn", 72].burst_fraction == pytest.approx(349e12 / 1.001 / 792e12)


@given(
    st.builds(
        Counters,
        tensor_active_percent=st.none() | st.floats(0, 100),
        issued_flops=st.none() | st.floats(0, 1e18),
        rate_while_active=st.none() | st.floats(0, 1),
    ),
    st.builds(
        Utilisation,
        span_s=st.none() | st.floats(0, 10),
        energy_j=st.none() | st.floats(0, 1e6),
        energy_window_s=st.none() | st.floats(0, 10),
    ),
)
def test_every_figure_is_there_or_has_its_reason(counters, window):
    use = use_of(lambda seen: replace(seen, counters=counters, utilisation=window, gpm=None))
    for one in fields(use):
        if one.name not in ("missing", "tensor_active_source"):
            assert (getattr(use, one.name) is None) == (one.name in use.missing)
    assert all(use.missing.values())


def split_run(ceilings=h200.CEILINGS, **manifest) -> Run:
    """A relayout of 302 MB in 78 µs, by which 3.87 TB/s were moved."""
    of = h200.run([("sdpa_cudnn", 64)], **manifest)
    split = builders.case("relayout", stage="split", batch=32)
    of.trials = [builders.trial(split, replicate, median_s=78e-6) for replicate in range(3)]
    of.manifest = replace(of.manifest, cases=(split,))
    of.ceilings = ceilings
    return of


def test_a_stage_that_only_moves_bytes_is_held_against_the_memorys_peak_and_a_plain_copy():
    (row,) = split_run().standings()
    use = tensor_use(row)
    moved = 12 * 32 * 1024 * 768 / 78e-6
    assert row.flops_per_s is None
    assert row.bytes_per_s == pytest.approx(moved)
    assert use.datasheet_fraction == row.peak_fraction == pytest.approx(moved / 4.8e12)
    assert use.burst_fraction == pytest.approx(moved / 4.3e12)


def test_what_such_a_stage_lacks_says_that_it_computes_nothing():
    (row,) = split_run().standings()
    missing = tensor_use(row).missing
    for name in ("held_fraction", "sustained_fraction"):
        assert missing[name].startswith("it computes nothing, it moves bytes, and ")
    (row,) = split_run(ceilings=None).standings()
    assert tensor_use(row).missing["burst_fraction"] == "this run measured no ceilings of its device"
    (row,) = split_run(ceilings=replace(h200.CEILINGS, copy_bytes_per_s=None)).standings()
    assert tensor_use(row).missing["burst_fraction"] == "no copy was measured"
    peaks = {"bf16": builders.GPU_ENVIRONMENT["peaks"]["bf16"]}
    (row,) = split_run(environment={**builders.GPU_ENVIRONMENT, "peaks": peaks}).standings()
    assert tensor_use(row).missing["datasheet_fraction"] == "no memory peak is known for this device"
