"""Variants that fail at one shape alone, each in its own way: a plugin like any other."""

import ctypes
import time

import torch
from torch.nn.functional import scaled_dot_product_attention

from variants.variant import Variant

LARGE = 32


class FailsWhenLarge(Variant):
    """Right, until seq_len reaches 32."""

    stage = "attention"

    def call(self, q, k, v):
        if self.shape.seq_len >= LARGE:
            self.fail()
        return scaled_dot_product_attention(q, k, v, is_causal=self.shape.causal)


class TooLarge(FailsWhenLarge):
    name = "too_large"

    def fail(self):
        torch.empty(1 << 50, dtype=torch.uint8)


class CrashesWhenLarge(FailsWhenLarge):
    name = "crashes_when_large"

    def fail(self):
        ctypes.string_at(0)


class HangsWhenLarge(FailsWhenLarge):
    name = "hangs_when_large"

    def fail(self):
        time.sleep(1e6)
