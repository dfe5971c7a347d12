"""What attention kernels ask of their tensors, checked with an error that says what would do."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Generic, TypeVar

import torch

from kernels.compiler import KernelError

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

Plan = TypeVar("Plan")

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


def check_addresses(actor: str, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor) -> None:
    """Whether every tensor starts at a multiple of 16 bytes.

    Raises:
        KernelError: one does not.
    """
    if (q.data_ptr() | k.data_ptr() | v.data_ptr() | out.data_ptr()) % ALIGNMENT == 0:
        return
    for name, tensor in {"q": q, "k": k, "v": v, "out": out}.items():
        if past := tensor.data_ptr() % ALIGNMENT:
            raise KernelError(
                f"{actor}: {name} starts {past} bytes past a multiple of {ALIGNMENT}: .clone() aligns it"
            )


def byte_strides(tensor: torch.Tensor) -> tuple[int, ...]:
    """The strides of all dimensions but the last, in bytes; 0 for a dimension of one element, which has none."""
    return tuple(
        stride * tensor.element_size() if size > 1 else 0
        for size, stride in zip(tensor.shape[:-1], tensor.stride()[:-1], strict=True)
    )


def heads(tensor: torch.Tensor) -> bytes:
    """A tensor of four dimensions as the kernels' `struct Heads`: its address, and three strides in bytes."""
    return struct.pack("4q", tensor.data_ptr(), *byte_strides(tensor))


def layouts(*tensors: torch.Tensor | None) -> Hashable:
    """All that a launch depends on but the addresses: tensors of the same layouts may share a plan."""
    # A list first: building a tuple from a generator takes a microsecond more.
    return tuple([(x.shape, x.stride(), x.dtype, x.device) if x is not None else None for x in tensors])


class Plans(Generic[Plan]):
    """Launches worked out before, by what they depend on: checking costs more than most launches.

    A model has few layouts. Who has very many (a new seq_len each call) pays for the checks again now and then.
    """

    MOST = 1024

    def __init__(self) -> None:
        self._plans: dict[Hashable, Plan] = {}
        self.get = self._plans.get

    def put(self, key: Hashable, plan: Plan) -> Plan:
        """Keep the plan, and give it back."""
        if len(self._plans) >= self.MOST:
            self._plans.clear()
        self._plans[key] = plan
        return plan
