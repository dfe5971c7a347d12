"""torch.compile in a variant: all of it in `prepare`, for any number of shapes, and refused in one line."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed, FailOnRecompileLimitHit
from torch._dynamo.utils import counters

from harness.verification import compare
from variants.attention.flex import Flex
from variants.compiling import compiled
from variants.inputs import Inputs, fresh_activations, make_inputs
from variants.qkv.compiled import Compiled
from variants.reference import reference
from variants.shape import Shape
from variants.variant import Unsupported

CPU = torch.device("cpu")
MORE_THAN_DYNAMO_KEEPS = 10


def double(x):
    return x + x


def graphs() -> int:
    return int(counters["stats"]["unique_graphs"])


def test_calls_after_prepare_compile_nothing_though_more_shapes_were_compiled_than_dynamo_keeps():
    shapes = [Shape(1, 2 + length, 24, 3) for length in range(MORE_THAN_DYNAMO_KEEPS)]
    with torch.inference_mode():
        ready = []
        for shape in shapes:
            inputs = make_inputs("qkv", shape, 1, CPU)
            variant = Compiled(shape)
            variant.prepare(inputs.weights)
            ready.append((variant, shape, inputs))
        before = graphs()
        for variant, shape, inputs in ready:
            fresh = Inputs(fresh_activations("qkv", shape, 2, CPU), inputs.weights)
            found = variant.canonical(variant.call(*fresh.activations))
            assert compare(found, reference("qkv", shape, fresh), "fp32", "before").passed
    assert before >= MORE_THAN_DYNAMO_KEEPS
    assert graphs() == before


def test_the_naive_way_gives_up_after_eight_shapes():
    naive = torch.compile(double, fullgraph=True, dynamic=False, backend="eager")
    for length in range(8):
        naive(torch.zeros(2 + length))
    with pytest.raises(FailOnRecompileLimitHit):
        naive(torch.zeros(2 + 8))


@pytest.mark.parametrize("causal", [True, False])
def test_flex_calls_after_prepare_compile_nothing_and_its_mask_is_built_before(causal, monkeypatch):
    shape = Shape(1, 40, 24, 3, causal)
    with torch.inference_mode():
        inputs = make_inputs("attention", shape, 1, CPU)
        variant = Flex(shape)
        try:
            variant.prepare(inputs.weights)
        except Unsupported as reason:
            pytest.skip(str(reason))
        before = graphs()
        monkeypatch.setattr("torch.nn.attention.flex_attention.create_block_mask", None)
        (right,) = reference("attention", shape, inputs)
        assert compare((variant.call(*inputs.activations),), (right,), "fp32", "before").passed
    assert graphs() == before


def test_what_the_compiler_says_is_the_reason_in_one_line(monkeypatch):
    def compile_(*_, **__):
        def call(*_):
            raise BackendCompilerFailed("inductor", RuntimeError("no\nmore"), None)

        return call

    monkeypatch.setattr(torch, "compile", compile_)
    with pytest.raises(Unsupported) as refused:
        compiled(double, torch.zeros(1))
    assert str(refused.value).startswith("torch.compile fails: ")
    assert len(str(refused.value).splitlines()) == 1


def test_any_other_error_is_a_fault_and_stays_one(monkeypatch):
    def compile_(*_, **__):
        def call(*_):
            raise torch.OutOfMemoryError("CUDA out of memory")

        return call

    monkeypatch.setattr(torch, "compile", compile_)
    with pytest.raises(torch.OutOfMemoryError):
        compiled(double, torch.zeros(1))


def test_without_a_compiler_flex_is_unsupported_on_a_cpu_and_says_what_is_missing(tmp_path):
    script = (
        "import torch\nfrom variants.attention.flex import Flex\nfrom variants.inputs import make_inputs\n"
        "from variants.shape import Shape\nfrom variants.variant import Unsupported\n"
        "shape = Shape(1, 40, 24, 3)\n"
        "try:\n    Flex(shape).prepare(make_inputs('attention', shape, 1, torch.device('cpu')).weights)\n"
        "except Unsupported as reason:\n    print(reason)\n"
    )
    variables = {**os.environ, "CXX": str(tmp_path / "none"), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=variables, capture_output=True, text=True, timeout=300, check=True
    )
    assert "No working C++ compiler found" in done.stdout
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.parametrize(
    ("device", "function"),
    [
        ("cpu", "lambda x: x @ x"),  # needs no compiler to be there
        pytest.param("cuda", "lambda x: x.exp() + 1", marks=pytest.mark.gpu),
    ],
)
def test_nothing_that_compiles_is_left_running(device, function):
    """PyTorch's own way is a pool of processes, which a GPU's first compilation starts and nothing ends."""
    script = (
        "import os, torch\nfrom pathlib import Path\nfrom variants.compiling import compiled\n"
        f"compiled({function}, torch.zeros(3, 3, device={device!r}))\n"
        "print(Path(f'/proc/{os.getpid()}/task/{os.getpid()}/children').read_text())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stdout.split() == []


@pytest.mark.gpu
@pytest.mark.parametrize("variant", [Compiled, Flex], ids=lambda variant: variant.name)
def test_it_is_captured_in_a_graph_and_its_replay_is_right(variant):
    from harness.capture import capture

    shape = Shape(2, 129, 192, 3, dtype="bf16")
    cuda = torch.device("cuda")
    with torch.inference_mode():
        inputs = make_inputs(variant.stage, shape, 1, cuda)
        own = variant(shape)
        own.prepare(inputs.weights)
        own.call(*inputs.activations)
        captured = capture(lambda: own.call(*inputs.activations))
        inputs.copy_from(Inputs(fresh_activations(variant.stage, shape, 2, cuda), inputs.weights))
        captured.replay()
        right = reference(variant.stage, shape, inputs)
        assert compare(own.canonical(captured.output), right, "bf16", "in its graph").passed
