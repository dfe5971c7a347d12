"""Tensors that a kernel could not read are refused in one line that says which, what is wrong and what would do."""

from __future__ import annotations

import struct

import pytest
import torch

from kernels.arguments import byte_strides, check_addresses, check_heads, check_strides, heads
from kernels.compiler import KernelError

BF16 = (torch.bfloat16,)


def tensor(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype)


GOOD = tensor(1, 2, 8, 16)


def test_two_tensors_that_differ_are_both_named(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: None)
    said = (
        r"v is \[1, 2, 9, 16\] torch.bfloat16 where q is \[1, 2, 8, 16\] torch.bfloat16: they must be alike"
    )
    with pytest.raises(KernelError, match=said):
        check_heads("mine", {"q": GOOD, "v": tensor(1, 2, 9, 16)}, BF16)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (tensor(2, 8, 16), r"v has the shape \[2, 8, 16\]: \[batch, n_head, seq_len, head_dim\] would do"),
        (tensor(1, 2, 8, 16, dtype=torch.float64), r"v is torch\.float64: torch\.bfloat16 would do"),
        (tensor(1, 2, 16, 8).mT, r"v's last dimension has the stride 8: 1 would do"),
        (GOOD, r"v is on cpu, and kernels run on the current GPU"),
    ],
)
def test_a_tensor_that_does_not_fit_is_named(bad, said):
    with pytest.raises(KernelError, match=f"^mine: {said}") as error:
        check_heads("mine", {"v": bad, "q": bad}, BF16)
    assert "\n" not in str(error.value)


def test_rows_that_start_between_16_bytes_are_refused():
    check_strides("mine", {"q": GOOD, "strided": tensor(2, 8, 3, 2, 16)[:, :, 1].transpose(1, 2)})
    check_addresses("mine", {"q": GOOD})
    with pytest.raises(KernelError, match=r"mine: k starts 2 bytes past a multiple of 16"):
        check_addresses("mine", {"q": GOOD, "k": tensor(600)[1:513].view(2, 2, 8, 16)})
    with pytest.raises(KernelError, match=r"mine: k's stride 20 in dimension 2 is 40 bytes"):
        check_strides("mine", {"k": tensor(2, 2, 8, 20)[..., :16]})


def test_a_dimension_of_one_element_has_no_stride_to_complain_of():
    odd = torch.as_strided(tensor(64), (1, 1, 4, 16), (3, 5, 16, 1))
    check_strides("mine", {"q": odd})
    assert byte_strides(odd) == (0, 0, 32)


def test_a_tensor_is_handed_over_as_its_address_and_strides_in_bytes():
    x = tensor(2, 8, 3, 16).transpose(1, 2)
    assert struct.unpack("4q", heads(x)) == (x.data_ptr(), 2 * 8 * 3 * 16, 2 * 16, 2 * 3 * 16)
