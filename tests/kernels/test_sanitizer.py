"""Under compute-sanitizer: no kernel touches memory that is not its own, no threads race for what they share."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from cuda.pathfinder import find_nvidia_binary_utility

from kernels import block_per_head, flash_hopper, flash_portable, qkv_headmajor, relayout
from tests.harness.commands import ROOT, environment

FOUND = 9
"""The exit code that stands for a finding."""


def watched(tool: str, *program: str) -> subprocess.CompletedProcess[str]:
    """The program under compute-sanitizer, which must be installed; PyTorch gets each tensor's memory from CUDA."""
    sanitizer = find_nvidia_binary_utility("compute-sanitizer")
    if sanitizer is None:
        pytest.skip("no compute-sanitizer: pip install 'nvidia-cuda-sanitizer-api==13.*' brings one")
    return subprocess.run(
        [sanitizer, "--tool", tool, "--error-exitcode", str(FOUND), sys.executable, *program],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment() | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
        timeout=120,
        check=False,
    )


@pytest.mark.gpu
@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
@pytest.mark.parametrize(
    "kernel",
    [flash_portable, flash_hopper, block_per_head, qkv_headmajor, relayout],
    ids=lambda kernel: kernel.ACTOR,
)
def test_a_small_run_is_clean(kernel, tool):
    if kernel is flash_hopper and (reason := kernel.refuses(64, torch.device("cuda"))):
        pytest.skip(reason)
    done = watched(tool, "-m", "tests.kernels.sanitized", kernel.ACTOR)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]


FAULTY = """
import torch
from pathlib import Path
from kernels import loader
x = torch.zeros(64).cuda()
loader.kernel(Path(r"{file}"), "faulty").launch(1, 64, x.data_ptr())
torch.cuda.synchronize()
"""
FAULTS = {
    "memcheck": "x[threadIdx.x + 1] = 1;",
    "racecheck": "__shared__ float y[65]; y[threadIdx.x] = x[0]; x[threadIdx.x] = y[threadIdx.x + 1];",
}


@pytest.mark.gpu
@pytest.mark.parametrize("tool", FAULTS)
def test_a_fault_would_be_found(tmp_path, tool):
    file = tmp_path / "faulty.cu"
    file.write_text(f'extern "C" __global__ void faulty(float* x) {{ {FAULTS[tool]} }}')
    done = watched(tool, "-c", FAULTY.format(file=file))
    assert done.returncode == FOUND, (done.stdout + done.stderr)[-3000:]
