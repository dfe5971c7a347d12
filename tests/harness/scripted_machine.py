"""A worker's tools on a scripted GPU: groups verified on the CPU and timed by the real timers, to the nanosecond."""

from __future__ import annotations

import torch

from harness.clocks import Cooling
from harness.fakes import ScriptedClock, ScriptedGpu
from harness.gpu_timers import Bench, GraphTimer, IsolatedTimer
from harness.group import GroupMeasurement
from harness.plan import Group, case_of
from harness.sensors.fake_nvml import ScriptedNvml
from harness.sensors.nvml import Nvml
from harness.state import PinnedState
from harness.timers import EagerTimer
from harness.tools import Tools
from results.ranking import standings
from results.record import assemble
from tests.results import builders
from variants.registry import Registry
from variants.shape import Shape
from variants.variant import Variant

SHAPE = Shape(batch=1, seq_len=4, d_model=8, n_head=2)
SECOND = 1e9
LAUNCH_NS = 5_000


class ScriptedMachine:
    """A worker's tools on a scripted GPU; `scripted` makes a variant of the qkv stage with known kernels."""

    def __init__(self, sm_clock=None, gpu=ScriptedGpu, tick_ns=1, **facts) -> None:
        self.clock = ScriptedClock()
        self.gpu = gpu(self.clock, launch_ns=LAUNCH_NS, tick_ns=tick_ns, sm_clock=sm_clock)
        self.variants: dict[tuple[str, str], type[Variant]] = {}
        self.trials = []
        self.needs = {}
        self.nvml = ScriptedNvml(**facts)

    def scripted(self, name: str, *kernels) -> None:
        """A right answer, and on the scripted GPU kernels whose times are given as (hot, cold) by a function."""
        machine = self

        class Scripted(Variant):
            """Made for a test."""

            stage = "qkv"

            def prepare(self, weights):
                self._weights = weights

            def call(self, x):
                for kernel in kernels:
                    machine.gpu.kernel(*(kernel() if callable(kernel) else kernel))
                weights = (self._weights.w_q, self._weights.w_k, self._weights.w_v)
                return tuple(self._heads(x @ weight) for weight in weights)

            def canonical(self, output):
                return tuple(output)

            def _heads(self, flat):
                shape = self.shape
                split = flat.view(shape.batch, shape.seq_len, shape.n_head, shape.head_dim)
                return split.transpose(1, 2)

        Scripted.name = name
        self.variants["qkv", name] = Scripted

    def measure(self, seconds: float):
        device = torch.device("cpu")
        bench = Bench(self.gpu)
        tools = Tools(
            device=device,
            state=PinnedState(device),
            registry=Registry(self.variants, ()),
            timers=[
                IsolatedTimer(bench, self.clock),
                EagerTimer(self.gpu.synchronize, self.clock, self.gpu),
                GraphTimer(bench),
            ],
            missing_modes={},
            nvml=Nvml.open("GPU-mine", self.nvml),
            begin=lambda *_: None,
            report=self.trials.append,
            note_need=lambda group, fixed_s, wanted_s: self.needs.update({group: (fixed_s, wanted_s)}),
            replicate=0,
            seed=0,
            cooling=Cooling(sleep=lambda seconds: self.clock.advance(seconds * SECOND)),
            clock_s=lambda: self.clock() / SECOND,
        )
        group = Group("qkv", SHAPE, tuple(case_of("qkv", name, SHAPE) for _, name in self.variants))
        with torch.inference_mode():
            GroupMeasurement(group, tools).run(seconds)
        for trial in self.trials:
            assert trial.outcome.value == "ok", trial.reason
        manifest = builders.manifest([trial.case for trial in self.trials], replicates=1)
        records = assemble(manifest, self.trials)
        return {one.variant: one for one in standings(records, lambda _: manifest)}
