"""Plans over a few variants, on a CPU of 8 GiB or a GPU of 80 GiB."""

from __future__ import annotations

from harness.plan import VariantFacts, make_plan
from harness.request import Selection


def facts(stage, name, missing=None, dtypes=None, *, aside=False, no_backward=None):
    return VariantFacts(stage, name, "fast", "nothing", missing, dtypes, aside=aside, no_backward=no_backward)


VARIANTS = [
    facts("qkv", "per_head"),
    facts("qkv", "fused"),
    facts("attention", "sdpa"),
    facts("attention", "sdpa_flash", dtypes=("bf16", "fp16")),
    facts("attention", "needs_cuda", missing="needs a CUDA device, this run is on CPU"),
    facts("output", "concat_matmul"),
    facts("sublayer", "per_head"),
]
CPU = {"device": "cpu", "gpu": None, "cpu": {"name": "Some CPU", "memory_bytes": 8 << 30}}
GPU = {**CPU, "device": "cuda:0", "gpu": {"name": "Some GPU", "memory_bytes": 80 << 30}}


def plan(environment=CPU, found=VARIANTS, **asked):
    return make_plan(Selection(**asked), list(found), environment)
