"""What a call puts on the GPU: all of its kernels, none of the harness's, and nothing that `prepare` could do."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from harness.fakes import ScriptedClock, ScriptedGpu
from harness.gpu_timers import Bench, IsolatedTimer
from harness.sensors import dispatch
from tests.harness.commands import ROOT, environment
from variants.inputs import make_inputs
from variants.registry import discover
from variants.shape import Shape

from .groups import CPU, Right


def mean_by_name(intervals: list[dispatch.Interval]) -> dict[str, float]:
    """A tool that takes events of one name for repetitions of one kernel; in nanoseconds."""
    durations: dict[str, list[int]] = {}
    for name, start, end in intervals:
        durations.setdefault(name, []).append(end - start)
    return {name: sum(its) / len(its) for name, its in durations.items()}


def test_twelve_kernels_of_one_name_are_summed_and_not_averaged_as_iterations():
    """A naive tool sees twelve events of one name and reports one twelfth of what the call takes."""
    one_head = [("gemm", 100 * head, 100 * head + 80) for head in range(12)]
    intervals = [
        (name, start + 5_000 * call, end + 5_000 * call) for call in range(3) for name, start, end in one_head
    ]
    assert mean_by_name(intervals) == {"gemm": 80}
    found = dispatch.summary(intervals, calls=3)
    assert (found.launches, found.busy_s) == (12, pytest.approx(12 * 80e-9))
    (kernel,) = found.kernels
    assert (kernel.launches, kernel.summed_s) == (12, pytest.approx(12 * 80e-9))


def test_kernels_side_by_side_are_busy_once():
    """A naive tool adds up the durations, and finds a GPU busy for longer than the call took."""
    streams = [("gemm", 0, 100), ("gemm", 20, 120), ("softmax", 110, 150)]
    assert sum(end - start for _, start, end in streams) > 150
    assert dispatch.summary(streams, calls=1).busy_s == pytest.approx(150e-9)


class Recorder(ScriptedGpu):
    """A scripted GPU whose kernels, the harness's own among them, a profiler can see."""

    def __init__(self, clock: ScriptedClock) -> None:
        super().__init__(clock, launch_ns=1_000)
        self._now = clock
        self.events: list[dispatch.Interval] = []

    def flush(self) -> None:
        self._note("flush", 9_000)
        super().flush()

    def hold(self) -> None:
        self._note("hold", 12_000)
        super().hold()

    def _note(self, name: str, duration_ns: int) -> None:
        start = int(self._now())
        self.events.append((name, start, start + duration_ns))
        self._now.advance(duration_ns)

    def _run(self, hot_ns: int, cold_ns: int) -> None:
        super()._run(hot_ns, cold_ns)
        self.events.append(("matmul", int(self._free_at) - hot_ns, int(self._free_at)))


def scripted_profiler(gpu: Recorder):
    """As much of `torch.profiler.profile` as is used: the events between its beginning and its end."""

    class Profile:
        def __init__(self, **_: Any) -> None:
            self.profiler = SimpleNamespace(kineto_results=self)

        def __enter__(self):
            self._first = len(gpu.events)
            return self

        def __exit__(self, *_: object) -> None:
            self._seen = gpu.events[self._first :]

        def events(self):
            on_gpu = SimpleNamespace(name="CUDA")
            return [
                SimpleNamespace(
                    device_type=lambda: on_gpu,
                    name=lambda name=name: name,
                    start_ns=lambda start=start: start,
                    duration_ns=lambda start=start, end=end: end - start,
                )
                for name, start, end in self._seen
            ]

    return Profile


def test_the_harnesss_own_flush_and_hold_and_the_profilers_replays_are_excluded_from_launches_and_busy(
    monkeypatch,
):
    """A naive tool profiles its own measuring loop, and counts what it does around each call, and every replay."""
    clock = ScriptedClock()
    gpu = Recorder(clock)
    monkeypatch.setattr(torch.profiler, "profile", scripted_profiler(gpu))
    monkeypatch.setattr(torch.cuda, "synchronize", gpu.synchronize)

    def call():
        for _ in range(3):
            gpu.kernel(2_000)

    bracket = IsolatedTimer(Bench(gpu), clock).bracket(call)
    naive = dispatch.DispatchSensor().sample(bracket.sample)["dispatch"]
    assert naive.launches == 5
    assert naive.busy_s == pytest.approx(9e-6 + 12e-6 + 6e-6)
    before = gpu.launches
    found = dispatch.DispatchSensor().sample(call)["dispatch"]
    assert gpu.launches - before == 3 * dispatch.CALLS, "it ran so often: an average over them is one call's"
    assert (found.launches, found.busy_s) == (3, pytest.approx(6e-6))
    assert [kernel.name for kernel in found.kernels] == ["matmul"]


OBSERVED = """
import json
from dataclasses import asdict
from statistics import median
import torch
from harness.sensors import dispatch
from harness.cuda_gpu import gpu_timers

with torch.inference_mode():
    x = torch.ones(1 << 22, device="cuda")

    def call():
        for _ in range(12):
            x.mul_(1.0)

    call()
    timers = {timer.mode: timer for timer in gpu_timers()}
    isolated, graph = timers["isolated"].bracket(call), timers["graph"].bracket(call)
    graph_s = median(graph.sample().span_s for _ in range(20))
    sensor = dispatch.DispatchSensor()
    naive, found = (sensor.sample(one)["dispatch"] for one in (isolated.sample, call))
print(json.dumps({"graph_s": graph_s, "naive": asdict(naive), "found": asdict(found)}))
"""


@pytest.mark.gpu
def test_on_a_gpu_twelve_kernels_of_one_name_are_summed_and_none_of_the_harness_is_among_them():
    """In a process of its own: once CUPTI is loaded, launches of that process take longer for good."""
    done = subprocess.run(
        [sys.executable, "-c", OBSERVED],
        capture_output=True, text=True, cwd=ROOT, env=environment(), timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    naive, found = told["naive"], told["found"]
    own = {"flush", "hold", "stamp"}
    assert own <= {kernel["name"] for kernel in naive["kernels"]}
    assert naive["launches"] == 12 + len(own)
    (kernel,) = found["kernels"]
    assert (found["launches"], kernel["launches"]) == (12, 12)
    assert found["busy_s"] == pytest.approx(kernel["summed_s"], rel=0.05), (
        "one stream: nothing runs side by side"
    )
    # 16 MB fit the L2 in either, so a replay takes about as long as its kernels, and not as one of them.
    assert found["busy_s"] < 1.2 * told["graph_s"]
    assert told["graph_s"] > 6 * kernel["summed_s"] / 12


ALLOCATES = ("empty", "zeros", "zero_", "new_empty", "new_zeros")
"""Memory for an output, and zeros to add up in, are new in each call for every caller."""
UNWRITTEN = ("empty", "new_empty")
"""What comes to stand there may come from a kernel of our own, which no dispatcher sees: it counts as fed."""


class Preparable(TorchDispatchMode):
    """Notes the operations of a call that no activation has gone into: they give the same in every call."""

    def __init__(self, activations) -> None:
        super().__init__()
        self.found: list[str] = []
        self._kept = list(activations)  # so that no address is handed out twice
        self._fed = {_place(tensor) for tensor in activations}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        given, made = (
            [t for t in tree_leaves(of) if isinstance(t, torch.Tensor)] for of in ((args, kwargs), out)
        )
        self._kept += made
        places = {_place(tensor) for tensor in made}
        name = func._schema.name.removeprefix("aten::")
        if name in UNWRITTEN or self._fed & {_place(tensor) for tensor in given}:
            self._fed |= places
        elif self._could_be_done_before(func, places - {_place(tensor) for tensor in given}):
            self.found.append(func._schema.name)
        return out

    @staticmethod
    def _could_be_done_before(func, new_places: set[int]) -> bool:
        does_something = new_places or func._schema.is_mutable  # a view does not
        return bool(does_something) and func._schema.name.removeprefix("aten::") not in ALLOCATES


def _place(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def preparable(variant: type, shape: Shape, device: torch.device = CPU) -> list[str]:
    """What the variant's `call` does that its `prepare` could have done."""
    inputs = make_inputs(variant.stage, shape, 0, device).arriving(variant.arrives)
    with torch.inference_mode():
        own = variant(shape)
        own.prepare(inputs.weights)
        with Preparable(inputs.activations) as noted:
            own.call(*inputs.activations)
    return noted.found


class BuildsItsMask(Right):
    name = "builds_its_mask"

    def call(self, q, k, v):
        t = self.shape.seq_len
        seen = torch.ones(t, t, dtype=torch.bool, device=q.device).tril_()
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)


class ArrangesItsWeights(Right):
    stage = "qkv"
    name = "arranges_its_weights"

    def prepare(self, weights):
        self.weights = weights

    def call(self, x):
        w = self.weights
        return x @ torch.cat((w.w_q, w.w_k, w.w_v), dim=1)


SHAPE = Shape(batch=2, seq_len=7, d_model=48, n_head=2)
COMPILED = ("compiled", "flex")
"""What torch.compile has made of a call runs without its dispatcher: `tests/variants/test_compiling.py` has them."""
INSIDE_PYTORCH = ("sdpa_math", "sdpa_math_strided")
"""PyTorch composes it of plain operations and builds the mask itself: what every caller pays, on every call."""
DISPATCHED = [variant for variant in discover().variants.values() if variant.name not in COMPILED]
ON_CPU = [variant for variant in DISPATCHED if variant.requires.device != "cuda"]
ON_GPU = [
    variant
    for variant in DISPATCHED
    if variant.requires.device != "cpu" and variant.name not in INSIDE_PYTORCH
]


def variant_id(variant: type) -> str:
    return f"{variant.stage}/{variant.name}"


def test_planning_and_mask_building_inside_the_timed_call_are_seen():
    """A naive variant builds its mask, or lays its weights out anew, where the clock runs."""
    assert preparable(BuildsItsMask, SHAPE) == ["aten::ones", "aten::tril_"]
    assert preparable(ArrangesItsWeights, SHAPE) == ["aten::cat"]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("variant", ON_CPU, ids=variant_id)
def test_planning_and_mask_building_of_every_variant_are_in_prepare(variant, causal):
    """A naive variant pays for them on every call; so did PyTorch's own module with a boolean mask."""
    shape = Shape(SHAPE.batch, SHAPE.seq_len, SHAPE.d_model, SHAPE.n_head, causal)
    assert preparable(variant, shape) == []


@pytest.mark.gpu
@pytest.mark.parametrize("variant", ON_GPU, ids=variant_id)
def test_on_a_gpu_planning_and_mask_building_of_every_variant_are_in_prepare(variant):
    """As on a CPU; kernels that only a GPU has are among them."""
    from variants.variant import Machine, Unsupported

    if reason := variant.requires.missing(Machine("cuda", torch.cuda.get_device_capability())):
        pytest.skip(reason)
    try:
        found = preparable(variant, Shape(2, 64, 144, 2, dtype="bf16"), torch.device("cuda"))
    except Unsupported as why:
        pytest.skip(str(why))
    assert found == []
