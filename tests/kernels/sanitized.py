"""What compute-sanitizer watches: a kernel at a few awkward shapes, with inputs from the CPU, so that it runs alone."""

from __future__ import annotations

import sys

import torch

from kernels import block_per_head, flash_hopper, flash_portable, qkv_headmajor, relayout

SHAPES = [(1, 2, 200, 72, True), (1, 3, 65, 40, False), (2, 1, 7, 64, True)]


def on_gpu(*shape: int) -> torch.Tensor:
    return torch.randn(shape).bfloat16().cuda()


def main() -> None:
    """Run the kernel that the first argument names."""
    name = sys.argv[1]
    for batch, n_head, seq_len, head_dim, causal in SHAPES:
        if name == qkv_headmajor.ACTOR:
            d_model = n_head * head_dim
            qkv_headmajor.forward(on_gpu(batch, seq_len, d_model), on_gpu(d_model, 3 * d_model), n_head)
            continue
        q, k, v = (x.transpose(1, 2) for x in on_gpu(batch, seq_len, 3, n_head, head_dim).unbind(2))
        if name == relayout.ACTOR:
            relayout.contiguous(q, k, v)
            relayout.contiguous(q[..., 1:], v[..., 1:])  # two bytes at a time
            continue
        (kernel,) = (k for k in (flash_portable, flash_hopper, block_per_head) if name == k.ACTOR)
        kernel.forward(q, k, v, causal=causal)
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
