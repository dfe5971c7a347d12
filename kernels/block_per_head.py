"""Attention by `block_per_head.cu`: one launch of batch · n_head blocks."""

from __future__ import annotations

import functools
import math
import struct
from ctypes import create_string_buffer
from typing import TYPE_CHECKING

import torch

from kernels import arguments, loader
from kernels.compiler import FOLDER, Build

if TYPE_CHECKING:
    from collections.abc import Iterator

ACTOR = "block_per_head"
ELEMENT_TYPES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}
_THREADS = 256
_TILE = 32


def build(head_dim: int, dtype: torch.dtype) -> Build:
    """The compilation for this head_dim and dtype."""
    defines = (f"HEAD_DIM={head_dim}", f"ELEMENT_TYPE={ELEMENT_TYPES[dtype]}")
    return Build(FOLDER / "block_per_head.cu", defines)


def builds() -> Iterator[Build]:
    """What `inspect` compiles."""
    return (build(head_dim, torch.bfloat16) for head_dim in (32, 64, 72, 128))


def refuses(head_dim: int, device: torch.device) -> str | None:
    """Why the kernel does not take this head_dim on this GPU, or None."""
    available = int(getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin"))  # noqa: B009
    if _shared_bytes(head_dim) <= available:
        return None
    return (
        f"three tiles of {_TILE} × head_dim {head_dim} need {_shared_bytes(head_dim):,} bytes of shared memory, "
        f"this GPU has {available:,} a block: head_dim {(available // (4 * _TILE) - 1) // 3} or less would do"
    )


@functools.cache
def kernel(head_dim: int, dtype: torch.dtype, device: int) -> loader.Kernel:
    """The kernel, compiled for this device.

    Raises:
        KernelError: no GPU, no NVRTC, or three tiles of this head_dim do not fit in shared memory.
    """
    chosen = build(head_dim, dtype)
    with torch.cuda.device(device):
        return loader.kernel(
            chosen.file, "block_per_head", *chosen.defines, shared_bytes=_shared_bytes(head_dim)
        )


def _shared_bytes(head_dim: int) -> int:
    """Q, V and the padded K, a tile of each in float32."""
    return 4 * _TILE * (3 * head_dim + 1)


def forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool) -> torch.Tensor:
    """softmax(q · kᵀ / √head_dim + mask) · v, all [batch, n_head, seq_len, head_dim].

    float32, bf16 or fp16, of any strides with a dense last axis; computed in float32. The result is contiguous.

    Raises:
        KernelError: a tensor is not as described, or the head_dim is too large for the GPU's shared memory.
    """
    tensors = {"q": q, "k": k, "v": v}
    arguments.check_heads(ACTOR, tensors, tuple(ELEMENT_TYPES))
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if out.numel() == 0:
        return out
    batch, n_head, seq_len, head_dim = q.shape
    numbers = struct.pack("3if", n_head, seq_len, causal, 1 / math.sqrt(head_dim))
    packed = b"".join(map(arguments.heads, (q, k, v, out))) + numbers
    kernel(head_dim, q.dtype, q.device.index).launch(
        batch * n_head, _THREADS, create_string_buffer(packed, len(packed))
    )
    return out
