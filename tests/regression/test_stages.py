"""Headbench's own regression benchmarks: the variant that each stage is usually run with, per head_dim.

They run only when named, `python -m pytest tests/regression`, at the lesson's sizes on a GPU, at small ones on a CPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from harness.headbench_fixture import Headbench

ON_GPU = {"n_head": 12, "batch": 32, "seq_len": 1024}
ON_CPU = {"n_head": 2, "batch": 1, "seq_len": 64}


@pytest.mark.parametrize("head_dim", [32, 64, 72])
@pytest.mark.parametrize(
    ("stage", "variant"),
    [
        ("qkv", "fused_qkv"),
        ("split", "torch_contiguous"),
        ("attention", "sdpa"),
        ("output", "concat_matmul"),
        ("sublayer", "fused_sdpa"),
        ("stack", "fused_sdpa"),
    ],
)
def test_stage(headbench: Headbench, stage: str, variant: str, head_dim: int) -> None:
    sizes = ON_CPU if headbench.device == "cpu" else ON_GPU
    headbench(stage=stage, variant=variant, head_dim=head_dim, **sizes)
