"""One group measured in this process on the CPU, as a worker measures it, over variants that a test defines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn.functional import scaled_dot_product_attention

from harness.clocks import Cooling
from harness.group import GroupMeasurement
from harness.plan import Group, case_of
from harness.state import PinnedState
from harness.timers import EagerTimer, Sample
from harness.tools import Tools
from variants.registry import Registry
from variants.shape import Shape
from variants.variant import Variant

if TYPE_CHECKING:
    from results.schema import Trial

CPU = torch.device("cpu")
SHAPE = Shape(batch=1, seq_len=16, d_model=32, n_head=2)


class Right(Variant):
    """Attention as it should be, for others to spoil in one way."""

    stage = "attention"
    name = "right"

    def call(self, q, k, v):
        return scaled_dot_product_attention(q, k, v, is_causal=self.shape.causal)


class ScriptedTimer:
    """The eager mode without a clock: a sample is one call, and takes a millisecond."""

    mode = "eager"

    def bracket(self, call):
        return _ScriptedBracket(call)


class _ScriptedBracket:
    calls_per_sample, resolution_s, floor_s, replay = 1, 1e-9, None, None

    def __init__(self, call) -> None:
        self._call = call

    def sample(self) -> Sample:
        self._call()
        return Sample(1e-3)


def measured(
    *variants: type[Variant],
    shape: Shape = SHAPE,
    timer=None,
    seconds: float = 0.02,
    begin=lambda *_: None,
    direction: str = "forward",
) -> dict[str, Trial]:
    """The trial of each variant, by name; all must be of one stage."""
    trials: list[Trial] = []
    tools = Tools(
        device=CPU,
        state=PinnedState(CPU),
        registry=Registry({(variant.stage, variant.name): variant for variant in variants}, ()),
        timers=[timer or EagerTimer(synchronize=lambda: None)],
        missing_modes={},
        nvml=None,
        begin=begin,
        report=trials.append,
        note_need=lambda *_: None,
        replicate=0,
        seed=0,
        cooling=Cooling(),
    )
    stage = variants[0].stage
    cases = tuple(case_of(stage, variant.name, shape, direction) for variant in variants)
    with torch.inference_mode():
        GroupMeasurement(Group(stage, shape, cases), tools).run(seconds)
    return {trial.case.variant: trial for trial in trials}
