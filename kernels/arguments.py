"""What attention kernels ask of their tensors, checked with an error that says what would do."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import torch

from kernels.compiler import KernelError

if TYPE_CHECKING:
    from collections.abc import Mapping

ALIGNMENT = 16
"""Bytes that a 16-byte copy starts at a multiple of."""


def check_heads(actor: str, tensors: Mapping[str, torch.Tensor], dtypes: tuple[torch.dtype, ...]) -> None:
    """Whether all tensors are [batch, n_head, seq_len, head_dim], alike, on the current GPU, with a dense last axis.

    Raises:
        KernelError: one is not; the message names `actor`, the tensor, what is wrong and what would do.
    """
    (first_name, first), *_ = tensors.items()
    for name, tensor in tensors.items():
        if tensor.ndim != 4:
            raise KernelError(
                f"{actor}: {name} has the shape {list(tensor.shape)}: [batch, n_head, seq_len, head_dim] would do"
            )
        if tensor.dtype not in dtypes:
            raise KernelError(f"{actor}: {name} is {tensor.dtype}: {' or '.join(map(str, dtypes))} would do")
        if tensor.shape != first.shape or tensor.dtype != first.dtype:
            raise KernelError(
                f"{actor}: {name} is {list(tensor.shape)} {tensor.dtype} where {first_name} is "
                f"{list(first.shape)} {first.dtype}: they must be alike"
            )
        if tensor.stride(3) != 1 and tensor.shape[3] > 1:
            raise KernelError(
                f"{actor}: {name}'s last dimension has the stride {tensor.stride(3)}: 1 would do, .contiguous() helps"
            )
        if not tensor.is_cuda or tensor.device.index != torch.cuda.current_device():
            raise KernelError(
                f"{actor}: {name} is on {tensor.device}, and kernels run on the current GPU: "
                f".cuda() moves a tensor there, torch.cuda.device() makes another GPU the current one"
            )


def check_strides(actor: str, tensors: Mapping[str, torch.Tensor]) -> None:
    """Whether every row lies a multiple of 16 bytes after the first.

    Raises:
        KernelError: one does not.
    """
    for name, tensor in tensors.items():
        for axis, stride in enumerate(byte_strides(tensor)):
            if stride % ALIGNMENT:
                raise KernelError(
                    f"{actor}: {name}'s stride {tensor.stride(axis)} in dimension {axis} is {stride} bytes: "
                    f"a multiple of {ALIGNMENT} would do, as after .contiguous()"
                )


def check_addresses(actor: str, tensors: Mapping[str, torch.Tensor]) -> None:
    """Whether every tensor starts at a multiple of 16 bytes.

    Raises:
        KernelError: one does not.
    """
    for name, tensor in tensors.items():
        if past := tensor.data_ptr() % ALIGNMENT:
            raise KernelError(
                f"{actor}: {name} starts {past} bytes past a multiple of {ALIGNMENT}: .clone() aligns it"
            )


def check_apart(actor: str, out: torch.Tensor, inputs: Mapping[str, torch.Tensor]) -> None:
    """Whether `out` begins elsewhere than each of the inputs, which a kernel may read after it wrote.

    That they overlap otherwise is not found: views of one tensor may lie between each other's rows.

    Raises:
        KernelError: it begins where one of them does.
    """
    for name, tensor in inputs.items():
        if tensor.data_ptr() == out.data_ptr():
            raise KernelError(f"{actor}: out is where {name} is: a tensor of its own, or none, would do")


def byte_strides(tensor: torch.Tensor) -> tuple[int, ...]:
    """The strides of all dimensions but the last, in bytes; 0 for a dimension of one element, which has none."""
    return tuple(
        stride * tensor.element_size() if size > 1 else 0
        for size, stride in zip(tensor.shape[:-1], tensor.stride()[:-1], strict=True)
    )


def heads(tensor: torch.Tensor) -> bytes:
    """A tensor of four dimensions as the kernels' `struct Heads`: its address, and three strides in bytes."""
    return struct.pack("4q", tensor.data_ptr(), *byte_strides(tensor))
