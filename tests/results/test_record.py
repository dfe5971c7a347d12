import itertools

import pytest

from results.record import SEVERITY, assemble
from results.schema import Outcome, Timing
from tests.results.builders import (
    case,
    cpu_trial,
    manifest,
    memory,
    timing,
    trial,
    trials,
    utilisation,
    utilisation_unknown,
    verification,
)

PLAN = manifest([case()])


def record_of(*its_trials):
    (record,) = assemble(PLAN, its_trials)
    return record


def test_every_planned_case_has_a_record_in_plan_order():
    plan = manifest()
    records = assemble(plan, reversed(trials(plan)))
    assert [record.case for record in records] == list(plan.cases)
    assert {record.run_id for record in records} == {plan.run_id}


def test_a_case_without_a_trial_is_not_measured_yet():
    record = record_of()
    assert (record.outcome, record.reason, record.replicates) == (None, "not measured yet", 0)
    assert record.estimates == record.sampling == {}


def test_a_case_that_only_trials_know_comes_last():
    extra = case("from_a_plugin")
    assert [r.case for r in assemble(PLAN, [trial(extra), trial(case())])] == [case(), extra]


def test_an_estimate_is_taken_over_replicates():
    record = record_of(trial(median_s=1.0), trial(replicate=1, median_s=4.0))
    assert record.estimates["isolated"].value_s == pytest.approx(2.0)
    assert record.estimates["isolated"].replicates == record.replicates == 2


def test_warm_ups_do_not_enter_an_estimate():
    slow_start = Timing(span_s=(50.0, 1.0, 1.0, 1.0), warmup_samples=1)
    known = record_of(trial(timings={"eager": slow_start})).estimates["eager"]
    assert (known.value_s, known.samples) == (1.0, 3)


def test_an_interval_is_widened_by_the_coarsest_timer_over_the_whole_timed_span():
    def spent(resolution_s):
        return timing(used_s=(1e-4,) * 9, calls_per_sample=10, resolution_s=resolution_s)

    record = record_of(
        trial(timings={"eager": spent(1e-6)}), trial(replicate=1, timings={"eager": spent(2e-6)})
    )
    assert record.estimates["eager"].high_s == pytest.approx(1e-4 * (1 + 2e-6 / 1e-3))


@pytest.mark.parametrize(("worse", "better"), list(itertools.combinations(SEVERITY, 2)))
def test_a_case_is_as_good_as_its_worst_trial(worse, better):
    record = record_of(trial(outcome=better), trial(replicate=1, outcome=worse))
    assert record.outcome is worse
    assert record.reason == f"made up: {worse.value}"


def test_only_an_ok_case_has_times():
    record = record_of(trial(), trial(replicate=1, outcome=Outcome.INCORRECT))
    assert record.estimates == {}
    assert record.replicates == 1


def test_severity_ranks_every_outcome():
    assert sorted(SEVERITY) == sorted(Outcome)


def test_of_two_trials_of_one_replicate_the_newer_wins():
    record = record_of(trial(outcome=Outcome.CRASHED), trial(median_s=3.0))
    assert record.outcome is Outcome.OK
    assert record.estimates["isolated"].value_s == pytest.approx(3.0)


def test_a_mode_without_samples_says_why():
    silent = Timing(reason="cannot be captured: it synchronises")
    record = record_of(trial(timings={"eager": timing(), "graph": silent}))
    assert record.mode_reasons == {"graph": "cannot be captured: it synchronises"}
    assert list(record.estimates) == ["eager"]


def test_a_mode_that_some_replicates_lack_keeps_their_reason():
    silent = Timing(reason="the hold was released by its timeout")
    record = record_of(
        trial(), trial(replicate=1), trial(replicate=2, timings={"isolated": silent, "eager": timing()})
    )
    assert record.estimates["isolated"].replicates == 2
    assert record.mode_reasons == {"isolated": "the hold was released by its timeout"}


def test_sampling_tells_the_worst_of_the_replicates():
    def spent(**said):
        return {"graph": timing(used_s=(1e-6,) * 9, calls_per_sample=5, **said)}

    record = record_of(
        trial(timings=spent(precision=0.004, stopped="precise", floor_s=1e-6)),
        trial(replicate=1, timings=spent(precision=0.02, stopped="share spent", floor_s=1.25e-6)),
        trial(replicate=2, timings={"graph": Timing(reason="no capture")}),
    )
    sampling = record.sampling["graph"]
    assert (sampling.precision, sampling.stopped, sampling.floor_s) == (0.02, "precise, share spent", 1.25e-6)
    assert sampling.floor_share == pytest.approx(0.25)  # of the 5 µs that one sample of five calls takes


def test_a_precision_one_replicate_does_not_know_is_not_known():
    unknown = {"eager": timing(precision=None, stopped=None)}
    sampling = record_of(trial(), trial(replicate=1, timings=unknown)).sampling["eager"]
    assert (sampling.precision, sampling.floor_s, sampling.floor_share) == (None, None, None)
    assert sampling.stopped == "precise"


def test_samples_that_are_no_times_are_a_reason_not_an_error():
    zero = Timing(span_s=(0.0, 0.0, 0.0), resolution_s=1e-6)
    record = record_of(trial(timings={"isolated": zero, "eager": timing()}))
    assert record.mode_reasons == {"isolated": "shorter than the timer's step of 1,000 ns"}
    unknown = record_of(trial(timings={"isolated": Timing(span_s=(0.0, 0.0, 0.0))}))
    assert unknown.mode_reasons == {"isolated": "0.0 s is not a time: a median is positive and finite"}
    assert list(record.estimates) == ["eager"]


def test_nothing_but_warm_ups_is_a_reason():
    record = record_of(trial(timings={"eager": Timing(span_s=(1.0,), warmup_samples=1)}))
    assert record.mode_reasons == {"eager": "no samples beyond the warm-up"}


def test_memory_is_the_largest_peak_of_all_replicates():
    peaks = [3, None, 7, 5]
    record = record_of(
        *(trial(replicate=i, memory=memory(peak_delta_bytes=peak)) for i, peak in enumerate(peaks))
    )
    assert record.memory.peak_delta_bytes == 7


def test_unknown_memory_keeps_its_reason():
    assert record_of(cpu_trial(case())).memory.reason == "not counted on a CPU"


def test_utilisation_is_the_first_with_a_number():
    record = record_of(
        trial(utilisation=None),
        trial(replicate=1, utilisation=utilisation_unknown("NVML is busy")),
        trial(replicate=2, utilisation=utilisation(power_w=300.0)),
    )
    assert record.utilisation.power_w == 300.0


def test_utilisation_nobody_measured_keeps_its_reason():
    record = record_of(
        trial(utilisation=utilisation_unknown("no NVML")), trial(replicate=1, utilisation=None)
    )
    assert record.utilisation.reason == "no NVML"


def test_the_worst_check_of_each_moment_is_kept():
    mild, bad = verification(worst_row_error=0.006), verification(worst_row_error=0.015)
    after = verification(when="after")
    record = record_of(trial(verifications=(mild, after)), trial(replicate=1, verifications=(bad, after)))
    assert record.verifications == (bad, after)


def test_a_failed_check_is_worse_than_any_pass():
    failed = verification(relative_error=None, worst_row_error=None, passed=False)
    passed = verification(relative_error=0.0099)
    record = record_of(
        trial(outcome=Outcome.INCORRECT, verifications=(failed,)), trial(replicate=1, verifications=(passed,))
    )
    assert record.verifications == (failed,)


def test_the_sm_clock_is_the_median_over_blocks_of_the_isolated_mode():
    blocks = timing(block_samples=(4, 3, 3), sm_clock_mhz=(1980.0, None, 1400.0))
    record = record_of(
        trial(timings={"isolated": blocks, "eager": timing(sm_clock_mhz=(100.0,))}),
        trial(replicate=1, timings={"isolated": timing(sm_clock_mhz=(1500.0,))}),
    )
    assert record.sm_clock_mhz == 1500.0


def test_a_cpu_has_no_sm_clock():
    assert record_of(cpu_trial(case())).sm_clock_mhz is None


def test_flags_are_those_any_mode_carries():
    marked = timing(flags={"throttled": [3], "outlier": []})
    record = record_of(trial(timings={"isolated": timing(), "eager": marked}))
    assert record.flags == ("throttled",)
