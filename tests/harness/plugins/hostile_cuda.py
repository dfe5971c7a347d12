"""Variants that misbehave as only CUDA code can."""

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention

from variants.variant import Requires, Variant


class Honest(Variant):
    stage = "attention"
    name = "honest"
    requires = Requires(device="cuda")

    def call(self, q, k, v):
        self.misbehave(q)
        return scaled_dot_product_attention(q, k, v, is_causal=self.shape.causal)

    def misbehave(self, q):
        pass


class IllegalAddress(Honest):
    """Writes far outside every allocation: the context is lost."""

    name = "illegal_address"

    def prepare(self, weights):
        import cupy

        source = 'extern "C" __global__ void stray(float* p) { p[threadIdx.x] = 1.0f; }'
        self.stray = cupy.RawKernel(source, "stray")

    def misbehave(self, q):
        self.stray((1,), (32,), (np.uint64(0x10),))


class AsksForTooMuch(Honest):
    name = "asks_for_too_much"

    def misbehave(self, q):
        torch.empty(1 << 50, dtype=torch.uint8, device="cuda")


class WaitsForTheGpu(Honest):
    """Right, but neither a held stream nor a graph can be put around it."""

    name = "waits_for_the_gpu"

    def misbehave(self, q):
        torch.cuda.synchronize()
