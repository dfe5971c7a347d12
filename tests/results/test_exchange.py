from __future__ import annotations

import json
from typing import Any

import pytest

from results.exchange import every_sample, machine_facts, machine_slug
from results.schema import Outcome
from tests.reports import runs
from tests.results import builders


def test_the_gpu_s_lasting_facts_are_told_and_what_drifts_is_not() -> None:
    warm = {**runs.GPU_ENVIRONMENT["gpu"], "sm_clock_mhz": 1980, "temperature_c": 71}
    facts = machine_facts({**runs.GPU_ENVIRONMENT, "gpu": warm})
    assert facts == machine_facts(runs.GPU_ENVIRONMENT)
    assert facts["gpu"]["name"] == "NVIDIA H200"
    assert facts["torch"] == {"version": "2.11.0", "cuda": "13.0", "cudnn": "9.19.0"}


def test_a_cpu_has_no_gpu_and_an_empty_environment_no_facts() -> None:
    assert machine_facts(runs.CPU_ENVIRONMENT)["gpu"] is None
    assert machine_facts({})["torch"] == {"version": None, "cuda": None, "cudnn": None}


def test_samples_keep_their_order_warm_ups_and_flags_replicate_by_replicate() -> None:
    case = builders.case()
    timing = builders.timing(used_s=(2e-4, 1e-4), flags={"throttled": [1]})
    trials = [builders.trial(case, replicate, timings={"graph": timing}) for replicate in (1, 0)]
    told = every_sample(trials)
    assert list(told) == ["graph"]
    assert [series["replicate"] for series in told["graph"]] == [0, 1]
    assert told["graph"][0]["span_s"] == [3 * 2e-4, 2e-4, 1e-4]
    assert told["graph"][0]["warmup_samples"] == 1
    assert told["graph"][0]["flags"] == {"throttled": [1]}
    json.dumps(told, allow_nan=False)


def test_what_has_no_samples_tells_none() -> None:
    failed = builders.trial(builders.case(), outcome=Outcome.CRASHED)
    assert every_sample([failed]) == {}


@pytest.mark.parametrize(
    ("gpu", "folder"),
    [
        ({"name": "NVIDIA H200"}, "nvidia-h200"),
        ({"name": "NVIDIA GeForce RTX 4090 / Ti (x)"}, "nvidia-geforce-rtx-4090-ti-x"),
        ({"name": "../../etc"}, "etc"),
        ({"name": "…"}, "gpu"),
        (None, "cpu"),
    ],
)
def test_the_machine_s_folder_is_its_gpu_s_name_in_plain_letters(gpu: Any, folder: str) -> None:
    assert machine_slug({"gpu": gpu}) == folder
