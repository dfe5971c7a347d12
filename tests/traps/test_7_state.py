"""What a variant leaves behind: the next case is measured in the state of a fresh process."""

from __future__ import annotations

import ctypes
import gc
import os
import random
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from harness import persisting_l2
from harness.series import FEWEST_SAMPLES
from harness.state import ATTRIBUTES, SETTINGS, PinnedState
from results.schema import Outcome

from .groups import CPU, SHAPE, Right, ScriptedTimer, measured


def state_now() -> dict[str, object]:
    """All that a case could notice of another one."""
    return {
        **{name: read() for name, (read, _) in SETTINGS.items()},
        **{name: getattr(owner, attribute) for name, (owner, attribute) in ATTRIBUTES.items()},
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "grad": torch.is_grad_enabled(),
        "inference_mode": torch.is_inference_mode_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "default_device": str(torch.empty(0).device),
        "denormals": (torch.tensor([1e-40], dtype=torch.float32) * 0.5).item() > 0,
        "profile": sys.getprofile(),
        "affinity": frozenset(os.sched_getaffinity(0)),
        "torch_seed": hash(bytes(torch.get_rng_state().tolist())),
        "python_seed": hash(random.getstate()),
        "numpy_seed": hash(np.random.get_state()[1].tobytes()),
    }


ENTERED: list[torch.inference_mode] = []
"""Kept for ever: the end of one that is let go would set the mode again."""


def end_inference_mode() -> None:
    ENTERED.append(torch.inference_mode(mode=False))
    ENTERED[-1].__enter__()


def unsettle() -> None:
    """Leave everything changed that is process-wide."""
    end_inference_mode()
    torch.set_grad_enabled(True)
    torch.set_float32_matmul_precision("medium")
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    torch.set_autocast_enabled("cpu", True)
    torch.set_flush_denormal(True)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.set_num_threads(1 if torch.get_num_threads() > 1 else 2)
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_fp16_accumulation = True
    torch.backends.mkldnn.enabled = False
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    sys.setprofile(lambda *_: None)
    torch.default_generator.manual_seed(random.getrandbits(40))
    np.random.seed(int(np.random.randint(1 << 30)))
    gc.disable()


@pytest.fixture(autouse=True)
def as_it_was():
    """The tests beside these must not notice either."""
    kept, random_state = PinnedState(CPU), random.getstate()
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()
    precision, grad, affinity = (
        torch.get_float32_matmul_precision(),
        torch.is_grad_enabled(),
        os.sched_getaffinity(0),
    )
    yield
    with torch.inference_mode():
        kept.restore(SHAPE.dtype)
    torch.set_float32_matmul_precision(precision)
    torch.set_grad_enabled(grad)
    os.sched_setaffinity(0, affinity)
    random.setstate(random_state)
    torch.set_rng_state(torch_state)
    np.random.set_state(numpy_state)


class Unsettling(Right):
    """Right, and rude."""

    name = "unsettling"

    def call(self, q, k, v):
        out = super().call(q, k, v)
        unsettle()
        return out


class Witness(Right):
    """Right; notes the state in which it is called."""

    name = "witness"
    noted: list[dict[str, object]] = []  # noqa: RUF012 - one list for every instance

    def call(self, q, k, v):
        self.noted.append(state_now())
        return super().call(q, k, v)


def test_state_that_a_variant_leaves_behind_is_restored_before_the_next_case():
    """A naive tool measures the next variant with the flags, threads, seeds and modes that the last one set."""
    with torch.inference_mode():
        fresh = PinnedState(CPU)
        fresh.restore(SHAPE.dtype)
        calm = state_now()
        unsettle()
        sys.setprofile(None)
        torch.set_default_device(None)
        changed = {name for name, value in state_now().items() if value != calm[name]}
        fresh.restore(SHAPE.dtype)
        assert state_now() == calm
    assert {
        "grad",
        "inference_mode",
        "default_dtype",
        "mkldnn",
        "torch_seed",
        "numpy_seed",
        "denormals",
    } <= changed
    Witness.noted.clear()
    trials = measured(Unsettling, Witness, timer=ScriptedTimer(), seconds=5)
    assert {trial.outcome for trial in trials.values()} == {Outcome.OK}, trials["unsettling"].reason
    assert len(Witness.noted) > FEWEST_SAMPLES
    for noted in Witness.noted:
        assert noted == calm


def test_a_variant_that_ends_inference_mode_takes_nobody_along():
    """A naive tool cannot write into its own inputs any more, and every case after this one crashes."""
    with torch.inference_mode():
        inputs = torch.ones(3)
        end_inference_mode()
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
            inputs.add_(0)
        state = PinnedState(CPU)
        for _ in range(3):  # over and over: an earlier return must not end the later one
            end_inference_mode()
            state.restore("fp32")
            inputs.add_(1)
    assert inputs.tolist() == [4.0] * 3
    assert not torch.is_inference_mode_enabled()


def test_random_numbers_of_a_variant_do_not_depend_on_who_drew_before():
    """A naive tool seeds once: what a case draws then depends on the order in which the cases were shuffled."""
    state = PinnedState(CPU)

    def drawn() -> tuple[object, ...]:
        with torch.inference_mode():
            state.restore("fp32")
            return torch.rand(3).tolist(), random.random(), np.random.rand(2).tolist()

    first = drawn()
    torch.manual_seed(12345)
    torch.rand(100), random.random(), np.random.rand(7)
    assert drawn() == first


class Collecting(Right):
    """Switches the garbage collector on in its call, to tidy up after itself."""

    name = "collecting"

    def call(self, q, k, v):
        gc.enable()
        gc.collect(0)
        return super().call(q, k, v)


class NeverCollecting(Right):
    """Switches it off for good, to be faster."""

    name = "never_collecting"

    def prepare(self, weights):
        gc.disable()

    def call(self, q, k, v):
        gc.disable()
        return super().call(q, k, v)


class NotesCollector(Right):
    name = "notes_collector"


class WatchingTimer(ScriptedTimer):
    """Notes, before each sample of that variant, whether the garbage collector is on."""

    def __init__(self) -> None:
        self.was_on: list[bool] = []

    def bracket(self, call):
        bracket = super().bracket(call)
        sample = bracket.sample

        def watched():
            if isinstance(call.func.__self__, NotesCollector):
                self.was_on.append(gc.isenabled())
            return sample()

        bracket.sample = watched
        return bracket


def test_the_garbage_collector_is_off_in_every_block_whatever_a_variant_does_with_it_and_on_again_after():
    """A naive tool switches it off once; one call of one variant later it runs in everybody's samples."""
    timer = WatchingTimer()
    trials = measured(Collecting, NeverCollecting, NotesCollector, timer=timer, seconds=5)
    assert {trial.outcome for trial in trials.values()} == {Outcome.OK}
    assert len(timer.was_on) > FEWEST_SAMPLES
    assert not any(timer.was_on)
    assert gc.isenabled()


class Driver:
    """A CUDA driver's library: as much L2 set aside as a variant left, and what was asked of it."""

    def __init__(self, set_aside: int, result: int = 0) -> None:
        self.set_aside, self.result, self.asked = set_aside, result, []

    def cuCtxGetLimit(self, found, limit) -> int:
        assert limit.value == persisting_l2.CU_LIMIT_PERSISTING_L2_CACHE_SIZE
        found._obj.value = self.set_aside
        return self.result

    def cuCtxSetLimit(self, limit, size) -> int:
        self.asked.append("set")
        self.set_aside = size.value
        return self.result

    def cuCtxResetPersistingL2Cache(self) -> int:
        self.asked.append("reset")
        return self.result


@pytest.fixture
def driver(monkeypatch):
    """Put a library, or the error of loading it, in the place of libcuda."""

    def put(library: object) -> object:
        def load(_name: str) -> object:
            if isinstance(library, Exception):
                raise library
            return library

        monkeypatch.setattr(ctypes, "CDLL", load)
        persisting_l2._driver.cache_clear()
        return library

    yield put
    monkeypatch.undo()
    persisting_l2._driver.cache_clear()


def test_l2_that_a_variant_keeps_for_itself_is_given_back(driver):
    """A naive tool flushes by reading, which lines that persist survive, and leaves the part set aside to nobody."""
    library = driver(Driver(set_aside=0))
    before = persisting_l2.set_aside_bytes()
    assert before == 0
    assert persisting_l2.set_aside(30 << 20)
    library.asked.clear()
    assert persisting_l2.give_back(before)
    assert (library.set_aside, library.asked) == (0, ["reset", "set"])
    library.asked.clear()
    assert persisting_l2.give_back(before)
    assert library.asked == ["reset"], "what nobody changed is not set"


@pytest.mark.parametrize("library", [OSError("no libcuda.so.1"), SimpleNamespace(), Driver(0, result=201)])
def test_without_a_driver_a_function_or_a_context_there_is_nothing_to_give_back_and_no_fault(driver, library):
    """A naive tool dies where there is no GPU."""
    driver(library)
    assert persisting_l2.set_aside_bytes() is None
    assert persisting_l2.give_back(None) is False
    assert persisting_l2.give_back(0) is False


PERSIST = r"""
extern "C" __global__ void persist(const uint4* words, unsigned long long count, unsigned int* sink)
{
    unsigned long long policy;
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    unsigned int folded = 0;
    for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < count;
         i += (unsigned long long)gridDim.x * blockDim.x) {
        uint4 w;
        asm volatile("ld.global.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
                     : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w) : "l"(words + i), "l"(policy));
        folded ^= w.x ^ w.y ^ w.z ^ w.w;
    }
    if (folded == 0x12345678)
        *sink = folded;
}
"""


@pytest.fixture(scope="module")
def gpu_state():
    """The state of a GPU, and its timer of cold calls."""
    from harness.cuda_gpu import CudaGpu
    from harness.gpu_timers import Bench, IsolatedTimer

    with torch.inference_mode():
        gpu = CudaGpu()
        yield PinnedState(torch.device("cuda")), IsolatedTimer(Bench(gpu))


@pytest.mark.gpu
def test_on_a_gpu_the_stream_the_seed_and_the_l2_are_given_back(gpu_state):
    """A naive tool goes on timing the stream that a variant made current, with what is left of the cache."""
    state, _ = gpu_state
    stream, seed = torch.cuda.current_stream(), torch.cuda.initial_seed()
    aside = persisting_l2.set_aside_bytes()
    assert aside is not None
    state.restore("bf16")
    first = torch.rand(4, device="cuda")
    torch.cuda.set_stream(torch.cuda.Stream())
    torch.cuda.manual_seed(seed + 12345)
    assert persisting_l2.set_aside(8 << 20)
    assert persisting_l2.set_aside_bytes() != aside
    state.restore("bf16")
    assert torch.cuda.current_stream() == stream
    assert persisting_l2.set_aside_bytes() == aside
    assert torch.equal(torch.rand(4, device="cuda"), first)


@pytest.mark.gpu
def test_on_a_gpu_lines_that_persist_in_l2_are_cold_again_for_the_next_case(gpu_state):
    """A naive tool flushes by reading twice the L2: what an earlier case made persist stays warm for its neighbours."""
    import cupy

    state, timer = gpu_state
    l2_bytes = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
    source = torch.ones(l2_bytes // 4 // 4, device="cuda")
    sink = torch.zeros(1, dtype=torch.int32, device="cuda")
    kernel = cupy.RawKernel(PERSIST, "persist")
    bracket = timer.bracket(source.sum)

    def span_s(restored: bool) -> float:
        persisting_l2.set_aside(l2_bytes // 2)
        for _ in range(3):
            kernel((512,), (256,), (source.data_ptr(), np.uint64(source.nbytes // 16), sink.data_ptr()))
        torch.cuda.synchronize()
        if restored:
            state.restore("fp32")
        return bracket.sample().span_s

    state.restore("fp32")
    cold_s, naive_s, restored_s = (
        float(np.median([one() for _ in range(21)]))
        for one in (lambda: bracket.sample().span_s, lambda: span_s(False), lambda: span_s(True))
    )
    state.restore("fp32")
    assert naive_s < 0.9 * cold_s, "what persists is still there after a flush"
    assert restored_s > 0.95 * cold_s


@pytest.mark.gpu
def test_on_a_gpu_seeding_goes_on_after_a_graph_was_captured(gpu_state):
    """A naive reseeding fails under a generator that a captured graph has registered."""
    state, _ = gpu_state
    x = torch.zeros(64, device="cuda")
    x.uniform_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.uniform_()
    state.restore("fp32")
    graph.replay()
    first = x.clone()
    state.restore("fp32")
    graph.replay()
    assert torch.equal(x, first)
