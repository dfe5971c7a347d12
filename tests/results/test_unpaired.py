"""`compare`: the run as the sample, the keys that must agree, what is listed and what is left out."""

import copy
import math
from pathlib import Path

import pytest

from results.keys import KEYS, SHAPE, differences
from results.run import Run
from results.schema import Outcome, Timing
from results.unpaired import ADVISORY, compare
from results.verdict import Verdict
from tests.results import builders
from tests.results.sessions import trial

CASE = builders.case("fused")
OTHER = builders.case("per_head")


def environment(**changes):
    """The H200's, with `place__name=value` set in a table of it."""
    changed = copy.deepcopy(builders.GPU_ENVIRONMENT)
    for path, value in changes.items():
        *tables, name = path.split("__")
        place = changed
        for table in tables:
            place = place.setdefault(table, {})
        place[name] = value
    return changed


def run(*medians_s, of=CASE, modes=("isolated",), **manifest):
    """A run in memory whose replicates have these medians."""
    trials = [trial(of, n, dict.fromkeys(modes, one)) for n, one in enumerate(medians_s)]
    planned = manifest.pop("cases", [of])
    return Run(Path("run"), builders.manifest(planned, **manifest), trials)


def many(*medians_s, **manifest):
    """A run for each of these times, of two equal replicates."""
    return [run(one, one, **manifest) for one in medians_s]


def only_row(base, head, **options):
    (row,) = compare(base, head, **options).rows
    return row


def test_three_steady_runs_a_side_are_judged():
    row = only_row(many(1.0, 1.0001, 0.9999), many(1.03, 1.0301, 1.0299))
    assert row.verdict is Verdict.SLOWER
    assert row.ratio == pytest.approx(1.03, rel=1e-4)
    assert row.low < 1.03 < row.high
    assert (row.base_count, row.head_count, row.confidence, row.guarded) == (3, 3, 0.99, False)


def test_the_same_is_found_and_so_is_faster():
    steady = (1.0, 1.0001, 0.9999)
    assert only_row(many(*steady), many(*steady)).verdict is Verdict.SAME
    assert only_row(many(*steady), many(0.95, 0.9501, 0.9499)).verdict is Verdict.FASTER


def test_the_run_is_the_sample_however_many_processes_it_has():
    """Two levels of sessions, every process of one at its own level: a hundred processes know no more than 3 runs."""
    base = [run(*[level] * 30) for level in (1.0, 1.02, 1.04)]
    head = [run(*[level] * 30) for level in (1.03, 1.05, 1.01)]
    row = only_row(base, head)
    assert row.verdict is Verdict.UNDECIDED
    assert row.reason == "too noisy for 3 runs against 3"
    assert row.base_count == 3
    assert row.needed > 3


@pytest.mark.parametrize(("base", "head"), [(1, 1), (2, 5), (5, 2)])
def test_fewer_than_three_runs_a_side_are_shown_and_not_judged(base, head):
    found = compare([run(1.0, 1.001, 0.999)] * base, [run(2.0, 2.001, 1.999)] * head)
    (row,) = found.rows
    assert row.verdict is Verdict.UNDECIDED
    assert row.reason == f"{base} {'run' if base == 1 else 'runs'} against {head}: 3 a side would be judged"
    assert row.ratio == pytest.approx(2.0, rel=1e-3)
    assert row.low < 2 < row.high
    assert found.unit == "processes"
    assert (row.base_count, row.head_count) == (3 * base, 3 * head)
    assert row.needed is None, "more processes would judge nothing"
    assert found.notes[0] == ADVISORY
    assert found.comparable


def test_one_process_a_side_has_a_ratio_and_no_interval():
    row = only_row([run(1.0)], [run(2.0)])
    assert row.verdict is Verdict.UNDECIDED
    assert row.ratio == pytest.approx(2.0)
    assert (row.low, row.high, row.confidence, row.needed) == (None, None, None, None)


def test_runs_of_equal_times_are_the_same_and_never_different():
    assert only_row(many(*[3e-6] * 3), many(*[3e-6] * 4)).verdict is Verdict.SAME


def test_a_case_that_too_few_runs_have_is_not_judged():
    base = [*many(1.0, 1.0, 1.0), run(1.0, of=OTHER)]
    found = compare(base, [*many(1.03, 1.03, 1.03), run(2.0, of=OTHER)])
    assert [row.verdict for row in found.rows] == [Verdict.SLOWER, Verdict.UNDECIDED]
    assert found.rows[1].reason == "1 run against 1: 3 a side would be judged"


def test_a_timers_step_widens_the_interval():
    def coarse(time_s):
        timing = {"resolution_s": 32e-9}
        return Run(
            Path("run"),
            builders.manifest([CASE]),
            [trial(CASE, n, {"isolated": time_s}, **timing) for n in (0, 1)],
        )

    row = only_row([coarse(94 * 32e-9)] * 3, [coarse(95 * 32e-9)] * 3)
    assert row.verdict is Verdict.UNDECIDED
    assert row.reason.startswith("the timer's step is 1.1 % of the time")


DIFFERENT = {
    "device": {"device": "cpu"},
    "gpu": {"gpu__name": "NVIDIA L40S"},
    "gpu_uuid": {"gpu__uuid": "GPU-2"},
    "driver": {"gpu__driver": "590.1"},
    "power_limit": {"gpu__power_limit_w": 500.0},
    "cpu": {"cpu__name": "Another CPU"},
    "torch": {"torch__version": "2.13.0"},
    "cuda": {"torch__cuda": "13.1"},
    "cudnn": {"torch__cudnn": 91900},
    "packages": {"packages__triton": "3.7.0"},
    "python": {"python": "3.13.1"},
    "policy": {"torch__cudnn_benchmark": True},
    "variables": {"variables__CUDA_LAUNCH_BLOCKING": "1"},
}


def test_every_key_is_tried_here():
    assert set(DIFFERENT) == set(KEYS)


@pytest.mark.parametrize("key", DIFFERENT)
def test_a_key_that_differs_makes_everything_incomparable_and_is_named_unless_allowed(key):
    base, head = [run(1.0, 1.0)], [run(1.5, 1.5, environment=environment(**DIFFERENT[key]))]
    found = compare(base, head)
    (row,) = found.rows
    assert row.verdict is Verdict.INCOMPARABLE
    assert row.ratio is None
    assert row.reason.startswith(f"{key} is ")
    assert row.reason.endswith(f"--across {key} allows it")
    assert not found.comparable
    across = compare(base, head, across=[key])
    assert across.comparable
    assert any(note.startswith(f"compared across {key}: ") for note in across.notes)


def test_across_gpu_allows_another_gpu_of_the_same_name_and_says_so():
    head = [run(1.0, 1.0, environment=environment(gpu__uuid="GPU-2"))]
    found = compare([run(1.0, 1.0)], head, across=["gpu"])
    assert found.comparable
    assert any(note.startswith("compared across gpu_uuid: ") for note in found.notes)


def test_across_the_uuid_alone_allows_no_other_model():
    there = environment(gpu__name="NVIDIA L40S", gpu__uuid="GPU-2")
    (one,) = differences([run(1.0)], [run(1.0, environment=there)], across=["gpu_uuid"])
    assert one.key == "gpu"


def test_both_values_of_a_key_are_named():
    (one,) = differences([run(1.0)], [run(1.0, environment=environment(gpu__driver="590.1"))])
    assert one.sentence == "driver is 580.65 in base and 590.1 in head: --across driver allows it"


def test_of_a_table_only_what_differs_is_named():
    here = environment(torch__cudnn_benchmark=True, torch__threads=16)
    there = environment(torch__cudnn_benchmark=False, torch__threads=16)
    (one,) = differences([run(1.0, environment=here)], [run(1.0, environment=there)])
    assert (one.base, one.head) == ("cudnn_benchmark=True", "cudnn_benchmark=False")


def test_what_one_run_did_not_record_is_not_taken_for_equal():
    (one,) = differences([run(1.0)], [run(1.0, environment=environment(gpu__uuid="GPU-2"))])
    assert (one.key, one.base, one.head) == ("gpu_uuid", "not recorded", "GPU-2")


def test_runs_of_one_side_must_agree_too():
    mixed = [run(1.0), run(1.0, environment=environment(gpu__name="NVIDIA L40S"))]
    (one,) = differences(mixed, [run(1.0)])
    assert (one.key, one.base, one.head) == ("gpu", "NVIDIA H200 or NVIDIA L40S", "NVIDIA H200")


@pytest.mark.parametrize(
    "change",
    [
        {"notices": ["load average 3"]},
        {"gpu__temperature_c": 70},
        {"gpu__sm_clock_mhz": 345},
        {"git": {"commit": "abc"}},
        {"device": "cuda:1"},
        {"variables__CUDA_VISIBLE_DEVICES": "1"},
        {"source_sha256": "0"},
    ],
)
def test_what_may_change_between_runs_is_no_difference(change):
    assert not differences([run(1.0)], [run(1.0, environment=environment(**change))])


@pytest.mark.parametrize("odd", [{"gpu": "an H200"}, {"torch": None}, {"packages": []}, {}])
def test_an_edited_environment_is_a_difference_and_no_crash(odd):
    assert compare([run(1.0)], [run(1.0, environment=odd)]).rows[0].verdict is Verdict.INCOMPARABLE


def test_shapes_that_differ_are_listed_and_named():
    wide = builders.case("fused", head_dim=72, d_model=864)
    found = compare([run(1.0)], [run(1.0, of=wide)])
    assert (found.rows, found.only_base, found.only_head) == ((), (CASE,), (wide,))
    assert "no case in common: head_dim is 64 in base and 72 in head" in found.notes
    assert not found.comparable


def test_across_a_shapes_keys_its_cases_are_paired():
    wide = builders.case("fused", head_dim=72, d_model=864)
    found = compare([run(1.0, 1.0)], [run(2.0, 2.0, of=wide)], across=["head_dim", "d_model"])
    (row,) = found.rows
    assert row.ratio == pytest.approx(2.0)
    assert "compared across head_dim: 64 in base, 72 in head" in found.notes


def test_several_cases_that_could_be_the_other_sides_are_not_guessed_among():
    wide = builders.case("fused", head_dim=72)
    base = run(1.0, cases=[CASE, wide])
    base.trials.append(trial(wide, 0, {"isolated": 1.0}))
    found = compare([base], [run(2.0)], across=["head_dim"])
    assert not found.rows
    assert found.only_head == (CASE,)
    assert "2 cases of base left out: they differ in nothing but head_dim" in found.notes


def test_every_shape_key_is_a_field_of_a_case():
    assert all(hasattr(CASE, key) for key in SHAPE)


@pytest.mark.parametrize("outcome", [Outcome.INCORRECT, Outcome.OUT_OF_MEMORY, Outcome.UNSUPPORTED])
def test_a_case_that_is_not_ok_in_one_run_gets_no_verdict(outcome):
    broken = Run(
        Path("run"), builders.manifest([CASE]), [builders.trial(CASE, 0, outcome=outcome, reason="why")]
    )
    found = compare(many(1.0, 1.0, 1.0), [*many(1.0, 1.0), broken])
    (row,) = found.rows
    assert row.verdict is Verdict.INCOMPARABLE
    assert row.reason == f"head is {outcome.value.replace('_', ' ')}: why"
    assert found.failed == ((CASE,) if outcome.failed else ())


def test_what_neither_side_can_run_is_counted():
    absent = builders.trial(CASE, 0, outcome=Outcome.UNAVAILABLE, reason="needs Hopper")
    side = [Run(Path("run"), builders.manifest([CASE]), [absent])]
    found = compare(side, side)
    assert not found.rows
    assert "1 case left out: unavailable or unsupported on both sides" in found.notes


def test_a_mode_that_one_side_lacks_says_why():
    uncaptured = {"isolated": builders.timing(), "graph": Timing(reason="it synchronises")}
    head = Run(Path("run"), builders.manifest([CASE]), [builders.trial(CASE, 0, timings=uncaptured)])
    rows = {row.mode: row for row in compare([run(1e-4, modes=("isolated", "graph"))], [head]).rows}
    assert rows["graph"].reason == "head has no graph time: it synchronises"
    assert rows["isolated"].ratio is not None


@pytest.mark.parametrize("wrong", [0.0, -1e-6])
def test_a_median_that_is_no_time_gives_no_verdict(wrong):
    row = only_row([run(1.0, 1.0)], [run(1.0, wrong)])
    assert row.verdict is Verdict.INCOMPARABLE
    assert row.reason == f"head has a median of {wrong} s, which is not a time"


def test_what_was_planned_and_not_measured_says_so():
    row = only_row([run(1.0)], [run()])
    assert (row.verdict, row.reason) == (Verdict.INCOMPARABLE, "head is not measured")


def test_notes_of_the_runs_are_kept():
    noted = run(1.0)
    noted.notes.append("line 3 of trials.jsonl is cut off")
    assert f"{noted.manifest.run_id}: line 3 of trials.jsonl is cut off" in compare([noted], [run(1.0)]).notes


def test_a_session_of_an_enormous_ratio_is_finite():
    row = only_row(many(1e-9, 1e-9, 1e3), many(1e3, 1e3, 1e-9))
    assert row.verdict is Verdict.UNDECIDED
    assert math.isfinite(row.high)
