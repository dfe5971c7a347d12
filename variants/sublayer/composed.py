"""sublayer/composed: the fastest variant of each stage, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from variants.attention.flash_hopper import FlashHopper
from variants.attention.flash_portable import FlashPortable
from variants.attention.sdpa import Sdpa
from variants.output.strided_matmul import StridedMatmul
from variants.qkv.fused_qkv import FusedQkv
from variants.variant import Machine, Unsupported, Variant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from variants.inputs import Weights
    from variants.shape import Shape

PORTABLE_WINS_TO = 32
"""The largest head_dim at which flash_portable beat SDPA in every group that was recorded."""


class Composed(Variant):
    """The fastest if what wins a stage alone wins beside the others, too: nothing is moved between the stages.

    Best is by a rule, from the runs recorded on an H200 (`nvidia-h200/default` and `/kernels_1024`). `fused_qkv` won
    every group of its stage. In attention flash_hopper did, at head_dim 32, 64 and 72, with a mask and without; it runs
    on Hopper in bf16 and fp16. Without it, flash_portable won up to head_dim 32, and SDPA beyond. Of `output`,
    `strided_matmul` won, which copies nothing where attention stores its heads side by side.
    """

    stage = "sublayer"
    name = "composed"
    aside = True

    def prepare(self, weights: Weights) -> None:
        """Prepare one variant a stage, as the rule has it for this shape and device."""
        self.project, self.combine = FusedQkv(self.shape), StridedMatmul(self.shape)
        self.project.prepare(weights)
        self.combine.prepare(weights)
        self.attend = fastest_attention(self.shape, weights)

    def call(self, x: torch.Tensor) -> torch.Tensor:
        """Y [batch, seq_len, d_model]."""
        q, k, v = self.project.canonical(self.project.call(x))
        (o,) = self.attend.canonical(self.attend.call(q, k, v))
        return self.combine.call(o)


def fastest_attention(shape: Shape, weights: Weights) -> Variant:
    """The first of the rule's candidates that takes this shape here, prepared."""
    device = weights.w_q.device
    capability = torch.cuda.get_device_capability(device) if device.type == "cuda" else None
    machine = Machine(device.type, capability)
    for candidate in candidates(shape, machine, gradients=weights.w_q.requires_grad):
        try:
            candidate.prepare(weights)
        except Unsupported:
            continue
        return candidate
    raise AssertionError("SDPA takes every shape")


def candidates(shape: Shape, machine: Machine, *, gradients: bool = False) -> Iterator[Variant]:
    """What this machine may run in this dtype, the fastest first; for gradients what has some."""
    ours = [FlashHopper, *([FlashPortable] if shape.head_dim <= PORTABLE_WINS_TO else [])]
    for variant in (*ours, Sdpa):
        left_out = variant.requires.missing(machine) or variant.requires.refuses(shape.dtype)
        if not (left_out or (gradients and variant.no_backward)):
            yield variant(shape)
