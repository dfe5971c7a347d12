"""A pivoted run with times in its cells."""

from __future__ import annotations

import re

import pytest
from rich.cells import cell_len

from reports.pivot_cells import Times
from results.schema import Outcome
from results.store import read
from tests.reports import runs, sweeps
from tests.reports.pivoted import RUNS, rendered
from tests.results import builders, h200


def test_a_cell_shows_a_calls_time_and_half_its_interval_in_one_unit() -> None:
    text = rendered(read("nvidia-h200/head_dim"), Times())
    assert text.count("\ntimes in µs\n") == 3
    (line,) = (line for line in text.splitlines() if line.startswith("sdpa_flash "))
    records = {
        record.case.head_dim: record.estimates["isolated"]
        for record in read("nvidia-h200/head_dim").records()
        if (record.case.stage, record.case.variant) == ("attention", "sdpa_flash")
    }
    shown = re.findall(r"([\d.]+) ± +([\d.]+)", line)
    for (time, width), (_, estimate) in zip(shown, sorted(records.items()), strict=True):
        assert float(time) == pytest.approx(1e6 * estimate.value_s, rel=1e-3)
        assert float(width) == pytest.approx(100 * estimate.half_width, abs=0.5)


def test_what_times_need_no_words_for_is_left_out_and_what_they_are_is_said() -> None:
    text = " ".join(rendered(h200.run(), Times()).split())
    assert "each cell: the time of a call ± % ±: half the 95 % interval over replicates" in text.replace(
        " ·", ""
    )
    assert "isolated: GPU time of one call, L2 cold" in text
    assert "--by head_dim --show time" in text
    for word in ("useful", "issued", "a 128-wide kernel"):
        assert word not in text


def test_a_time_that_is_missing_or_partial_has_its_reason_below() -> None:
    trials = [
        *runs.gpu_trials({"fused": 1e-4}, head_dim=64, d_model=768),
        *runs.gpu_trials({"fused": 2e-4}, 1, head_dim=32, d_model=384),
    ]
    text = " ".join(rendered(runs.run(trials), Times()).split())
    assert "200.0 ± –" in text
    assert "fused at 32: 1 of 3 replicates, no interval" in text


def test_a_case_that_failed_has_no_time_and_a_fine_sweep_is_drawn() -> None:
    of = sweeps.sweep(range(16, 257, 8))
    failed = builders.trial(h200.case("padding", 24), outcome=Outcome.OUT_OF_MEMORY, reason="2 GiB short")
    of.trials = [one for one in of.trials if one.case != failed.case] + [failed]
    text = rendered(of, Times())
    assert re.search(r"^ +24 +out of memory$", text, flags=re.MULTILINE)
    assert re.search(r"^time, 0 to [\d.]+ (µs|ms), at head_dim 16 to 256$", text, flags=re.MULTILINE)
    assert re.search(r"^padding +[▁▂▃▄▅▆▇█·]{31}$", text, flags=re.MULTILINE)


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("width", [80, 200])
def test_times_fit_the_terminal_whatever_the_run(name: str, width: int) -> None:
    for line in rendered(RUNS[name](), Times(), width).splitlines():
        assert line.startswith(("show again: ", "stored in ")) or cell_len(line) <= width
        assert line.isprintable()
