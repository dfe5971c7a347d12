from __future__ import annotations

import pytest

from reports import content
from reports.series.roofline import rooflines
from results.store import read
from tests.reports import runs
from tests.results import builders


def of(run):
    return rooflines(content.from_run(run))


def test_the_roof_is_memory_below_the_ridge_and_the_peak_at_the_clock_held_above():
    (found,) = of(runs.gpu_run())
    assert found.at_clock
    assert found.clock_mhz == 1830
    assert found.flops_per_s == pytest.approx(989e12)
    assert found.roof(10.0) == pytest.approx(10 * 4.8e12)
    assert found.roof(1e4) == pytest.approx(989e12)


def test_the_peak_follows_the_clock_that_was_held():
    slow = {"isolated": builders.timing(1e-4, sm_clock_mhz=(915.0,))}
    (found,) = of(runs.run([builders.trial(builders.case(), n, timings=slow) for n in range(3)]))
    assert found.flops_per_s == pytest.approx(989e12 / 2)


def test_variants_of_a_group_share_their_intensity():
    (found,) = of(runs.run(runs.gpu_trials(runs.QKV)))
    assert len({point.flop_per_byte for point in found.points}) == 1
    assert len(found.points) == 3


def test_without_a_clock_the_roof_is_the_datasheets_own():
    blind = {"isolated": builders.timing(1e-4, sm_clock_mhz=(None,))}
    (found,) = of(runs.run([builders.trial(builders.case(), n, timings=blind) for n in range(3)]))
    assert (found.at_clock, found.clock_mhz) == (False, None)
    assert found.flops_per_s == pytest.approx(989e12)


def test_a_cpu_has_points_and_no_roof_and_says_so():
    (found,) = of(runs.cpu_run())
    assert found.roof(1.0) is None
    assert found.missing == (
        "no fp32 peak is known for this device",
        "no memory rate is known for this device",
    )


def test_no_recorded_point_lies_above_the_highest_roof():
    for name in ("default", "head_dim", "kernels_1024"):
        (found,) = of(read(f"nvidia-h200/{name}"))
        for point in found.points:
            assert point.flops_per_s < 1.1 * found.roof(point.flop_per_byte, found.high_flops_per_s)
