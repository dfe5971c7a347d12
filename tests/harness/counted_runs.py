"""Runs that want counters, and what a child under Nsight Compute sends of their cases, for tests of counting."""

from __future__ import annotations

from harness.counting import Counting
from harness.sensors import ncu
from results.figures import Counters
from results.run import load
from results.schema import Observation
from results.store import RunWriter
from tests.harness.fake_ncu import FakeNcu
from tests.results import builders

GPU = {**builders.GPU_ENVIRONMENT["gpu"], "uuid": "GPU-mine", "capability": [9, 0], "sm_count": 132}
ENVIRONMENT = {**builders.GPU_ENVIRONMENT, "gpu": GPU}
A, B, C = (builders.case(name, stage="attention", batch=32, causal=False) for name in "abc")
FA2_64, CUDNN_64, CUDNN_72 = 2, 3, 5
"""Ranges of the recorded table."""
DONE = {"event": "done"}
ADMINISTRATORS = f"Nsight Compute 2025.3.1: {ncu.ONLY_ADMINISTRATORS}"


class Quiet:
    """A progress that nobody sees."""

    def begin(self, part):
        pass

    def case(self, key, step):
        pass


def measured(folder, cases=(A, B, C), environment=ENVIRONMENT, **settings) -> RunWriter:
    """A run whose cases have times and want counters."""
    told = {"plugins": [], "seed": 0, "silence_s": 60.0, "counters": "ncu", **settings}
    manifest = builders.manifest(cases, replicates=1, settings=told, environment=environment)
    writer = RunWriter.create(folder, manifest)
    for case in cases:
        writer.append(builders.trial(case, utilisation=None))
    return writer


def counted_in(writer) -> dict[str, Counters]:
    """What is stored of each variant, read back."""
    return {record.case.variant: record.counters for record in load(writer.path).records()}


def begun(case) -> dict:
    return {"event": "begin", "group": case.group, "case": case.key, "step": "Nsight Compute"}


def called(case, number: int) -> list[dict]:
    """What the child sends of a case that went through in the range with this number."""
    seen = Observation(case, counters=Counters(source=f"headbench case {number}"))
    return [begun(case), {"event": "observation", "observation": seen.to_json()}]


def count(tmp_path, monkeypatch, *scripts, **run):
    """Count a measured run under a fake that plays these scripts; what is stored, and the fake."""
    fake = FakeNcu(tmp_path, monkeypatch, *scripts)
    with measured(tmp_path / "runs", **run) as writer:
        Counting(writer, Quiet()).run()
        assert writer.run.unobserved().get("counters", []) == []
        return counted_in(writer), fake


def variants_of(job: dict) -> list[str]:
    """The variants of the cases that a child was told to count."""
    return [case["variant"] for case in job["cases"]]
