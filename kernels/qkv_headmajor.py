"""The QKV projection by `qkv_headmajor.cu`, written head by head."""

from __future__ import annotations

import functools
import math
import struct
from ctypes import create_string_buffer
from typing import TYPE_CHECKING

import torch

from kernels import loader
from kernels.compiler import FOLDER, Build, KernelError

if TYPE_CHECKING:
    from collections.abc import Iterator

ACTOR = "qkv_headmajor"
DTYPES = (torch.bfloat16, torch.float16)

_ROWS = _COLUMNS = 128
_THREADS = 256
_SHARED_BYTES = 4 * (128 * (2 * 32 + 16) + 32 * (2 * 128 + 16))
"""Four stages of X and of W, as the kernel lays them out."""


def builds() -> Iterator[Build]:
    """What `inspect` compiles."""
    yield _build(torch.bfloat16)


def forward(x: torch.Tensor, w_qkv: torch.Tensor, n_head: int) -> torch.Tensor:
    """Q, K and V [3, batch, n_head, seq_len, head_dim] = x [batch, seq_len, d_model] · w_qkv [d_model, 3 · d_model].

    Raises:
        KernelError: a tensor is not as described, not contiguous, not bf16 or fp16 on the current GPU, or
            d_model is no multiple of 8 · n_head.
    """
    _check(x, w_qkv, n_head)
    batch, seq_len, d_model = x.shape
    out = torch.empty((3, batch, n_head, seq_len, d_model // n_head), dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out
    rows, column_tiles = batch * seq_len, math.ceil(3 * d_model / _COLUMNS)
    addresses = (tensor.data_ptr() for tensor in (x, w_qkv, out))
    packed = struct.pack("3q5i4x", *addresses, rows, seq_len, n_head, d_model // n_head, column_tiles)
    grid = math.ceil(rows / _ROWS) * column_tiles
    _kernel(x.dtype, x.device.index).launch(grid, _THREADS, create_string_buffer(packed, len(packed)))
    return out


def refuses(head_dim: int) -> str | None:
    """Why the kernel does not take this head_dim, or None."""
    return None if head_dim % 8 == 0 else f"head_dim {head_dim} is not supported: a multiple of 8 would do"


def compile_for_dtype(dtype: torch.dtype, device: torch.device) -> None:
    """Compile what `forward` will launch, so that its first call is as fast as the others.

    Raises:
        KernelError: the kernel cannot be compiled here.
    """
    _kernel(dtype, torch.cuda.current_device() if device.index is None else device.index)


def _build(dtype: torch.dtype) -> Build:
    return Build(FOLDER / "qkv_headmajor.cu", (f"FP16={int(dtype == torch.float16)}",))


@functools.cache
def _kernel(dtype: torch.dtype, device: int) -> loader.Kernel:
    build = _build(dtype)
    with torch.cuda.device(device):
        return loader.kernel(build.file, ACTOR, *build.defines, shared_bytes=_SHARED_BYTES)


def _check(x: torch.Tensor, w_qkv: torch.Tensor, n_head: int) -> None:
    if x.ndim != 3 or w_qkv.shape != (x.shape[2], 3 * x.shape[2]):
        raise KernelError(
            f"{ACTOR}: x is {list(x.shape)} and w_qkv {list(w_qkv.shape)}: [batch, seq_len, d_model] and "
            f"[d_model, 3 · d_model] would do"
        )
    if n_head < 1 or x.shape[2] % n_head:
        raise KernelError(f"{ACTOR}: d_model {x.shape[2]} is not n_head {n_head} times a head_dim")
    if reason := refuses(x.shape[2] // n_head):
        raise KernelError(f"{ACTOR}: {reason}")
    for name, tensor in {"x": x, "w_qkv": w_qkv}.items():
        if tensor.dtype not in DTYPES or tensor.dtype != x.dtype:
            raise KernelError(f"{ACTOR}: {name} is {tensor.dtype}: bfloat16 or float16, both alike, would do")
        if not tensor.is_contiguous() or tensor.data_ptr() % 16:
            raise KernelError(f"{ACTOR}: {name} is not dense from a 16-byte boundary on: .contiguous() helps")
        if not tensor.is_cuda or tensor.device.index != torch.cuda.current_device():
            raise KernelError(
                f"{ACTOR}: {name} is on {tensor.device}, and kernels run on the current GPU: "
                f".cuda() moves a tensor there, torch.cuda.device() makes another GPU the current one"
            )
