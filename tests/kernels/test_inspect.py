"""What the compiler makes of our kernels: a spill fails here, and so does missing the tensor cores, without a GPU."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from harness import compiling
from kernels import flash_hopper, fused
from kernels.compiler import ARCHITECTURES, Build
from kernels.inspect import catalogue, inspect, without_disassembler
from tests.harness.commands import command, environment, headbench

SPILLS = """
extern "C" __global__ void __launch_bounds__(1024) greedy(float* x)
{
    float kept[96];
    for (int i = 0; i < 96; ++i) kept[i] = x[i * 1024 + threadIdx.x];
    for (int round = 0; round < x[0]; ++round)
        for (int i = 0; i < 96; ++i) kept[i] += kept[(i + 37) % 96] * kept[(i + 53) % 96];
    for (int i = 0; i < 96; ++i) x[i * 1024 + threadIdx.x] = kept[i];
}
"""


IMPATIENT = """
__device__ void product(float (&s)[4], unsigned long long a, unsigned long long b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
                 : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]) : "l"(a), "l"(b));
}
__device__ __noinline__ void called(float (&s)[4], unsigned long long a, unsigned long long b) { product(s, a, b); }

extern "C" __global__ void __launch_bounds__(128) impatient(float* x, unsigned long long a, unsigned long long b)
{
    float s[4] = {};
    asm volatile("wgmma.fence.sync.aligned;");
    PRODUCT(s, a, b);
    asm volatile("wgmma.commit_group.sync.aligned;");
    EARLY;
    asm volatile("wgmma.wait_group.sync.aligned 0;");
    x[threadIdx.x] = s[0];
}
"""


@pytest.mark.parametrize("build", list(catalogue()), ids=str)
def test_no_kernel_spills_and_no_product_is_made_to_wait_on_any_architecture(build, nvrtc):
    found = inspect(build)
    assert {resources.architecture for resources in found} == set(build.architectures)
    assert {(r.kernel, r.architecture): r.spilled_bytes for r in found if r.spilled_bytes} == {}
    assert {(r.kernel, r.architecture): r.stack_bytes for r in found if r.stack_bytes} == {}
    assert [waits for r in found for waits in r.waits] == []


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("head_dim", fused.HEAD_DIMS)
def test_no_tile_that_a_shape_may_get_is_made_to_wait_for_its_products(head_dim, dtype, nvrtc):
    """One more instruction near the loop, and the compiler may lay all products one after the other."""
    shapes = itertools.product((12, 24, 48, 192, 384), (128, 256, 512, 1024, 2048, 4096), (False, True))
    tiles = {flash_hopper.tile_for(head_dim, *shape, 132) for shape in shapes}
    for tile in sorted(tiles, key=repr):
        for resources in inspect(tile.build(head_dim, dtype)):
            assert (tile, resources.spilled_bytes, resources.waits) == (tile, 0, ())


def test_the_fused_kernels_use_the_tensor_cores_and_the_lessons_does_not(nvrtc):
    if install := without_disassembler():
        pytest.skip(f"no disassembler: {install}")
    for build in catalogue():
        if "HEAD_DIM=64" in build.defines:
            tensor = [resources.tensor_instructions for resources in inspect(build)]
            expected = {"flash_portable.cu": "HMMA", "flash_hopper.cu": "HGMMA"}.get(build.file.name)
            assert all(
                (set(counts or ()) == {expected}) if expected else counts == {} for counts in tensor
            ), build


def test_a_spill_is_found(tmp_path, nvrtc):
    file = tmp_path / "greedy.cu"
    file.write_text(SPILLS)
    found = inspect(Build(file))
    assert [resources.architecture for resources in found] == list(ARCHITECTURES)
    assert all(resources.spilled_bytes > 0 and resources.registers == 64 for resources in found)


@pytest.mark.parametrize(
    ("product", "early", "waits"),
    [
        ("product", "", []),
        (
            "called",
            "",
            ["wgmma.mma_async instructions are serialized due to wgmma pipeline crossing function"],
        ),
        ("product", "x[threadIdx.x] = s[0]", ["wgmma.wait_group is injected"]),
    ],
    ids=["nothing", "a call", "an early read"],
)
def test_a_product_that_the_compiler_makes_wait_is_found(tmp_path, nvrtc, product, early, waits):
    file = tmp_path / "impatient.cu"
    file.write_text(IMPATIENT.replace("PRODUCT", product).replace("EARLY", early))
    (found,) = inspect(Build(file, architectures=("sm_90a",)))
    assert all(any(wait in sentence for sentence in found.waits) for wait in waits)
    assert bool(found.waits) is bool(waits)


def test_the_doctors_child_tells_of_products_that_wait(tmp_path, nvrtc, monkeypatch):
    file = tmp_path / "impatient.cu"
    file.write_text(IMPATIENT.replace("PRODUCT", "called").replace("EARLY", ""))
    monkeypatch.setattr(compiling, "catalogue", lambda: [Build(file, architectures=("sm_90a",))])
    sent = []
    compiling._tell_builds(SimpleNamespace(send=lambda event, **told: sent.append((event, told))))
    ((event, told),) = sent
    assert event == "build"
    assert any("serialized" in sentence for sentence in told["found"][0]["waits"])


DOCTOR = """
import sys
sys.argv = ["headbench", "doctor", "--kernels"]
from harness.__main__ import main
try:
    main()
finally:
    print("imported:", *{"torch", "cupy"} & set(sys.modules))
"""


def test_the_doctor_tells_of_the_kernels_without_a_gpu_and_without_torch_in_its_process(nvrtc):
    # It compiles everything.
    done = subprocess.run(
        [sys.executable, "-c", DOCTOR],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=900,
        check=True,
    )
    told = dict(
        re.findall(r"^  (\w+) +sm_90a +\d+ registers +0 B spilled +\d+ B .*  (.*)$", done.stdout, re.M)
    )
    assert told.keys() >= {"flash_portable", "flash_hopper", "block_per_head", "qkv_headmajor"}
    assert told["block_per_head"] == "no tensor instructions" or without_disassembler()
    assert done.stdout.endswith(": no faults\nimported:\n")


def test_the_doctor_says_what_would_compile_kernels_where_nothing_does(tmp_path):
    (tmp_path / "cupy").mkdir()
    (tmp_path / "cupy" / "__init__.py").write_text("raise ImportError('no CuPy here')\n")
    paths = f"{environment()['PYTHONPATH']}{os.pathsep}{tmp_path}"
    done = subprocess.run(
        command("doctor", "--kernels"),
        capture_output=True,
        text=True,
        env=environment() | {"PYTHONPATH": paths},
        timeout=60,
        check=True,
    )
    assert "kernels cannot be compiled here: NVRTC cannot be used (no CuPy here): pip install" in done.stdout


def test_the_doctor_looks_at_kernels_or_at_a_device():
    done = headbench("doctor", "--kernels", "--device", "cpu")
    assert done.returncode == 2
    assert "exclude each other" in done.stderr
