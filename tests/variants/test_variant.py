"""What a variant may ask of a machine, and how it is told no."""

from __future__ import annotations

import pytest
import torch

from variants.shape import Shape
from variants.variant import Machine, Requires, Variant

CPU = Machine("cpu")
H200 = Machine("cuda", (9, 0))
TURING = Machine("cuda", (7, 5))


def test_a_variant_that_asks_for_nothing_runs_anywhere():
    assert Requires().missing(CPU) is Requires().missing(TURING) is None
    assert Requires().refuses("bf16") is None


@pytest.mark.parametrize(
    ("requires", "machine", "reason"),
    [
        (Requires(device="cuda"), CPU, "needs a CUDA device, this run is on CPU"),
        (Requires(device="cpu"), H200, "needs a CPU device, this run is on CUDA"),
        (Requires(capability=(8, 0)), TURING, "needs compute capability 8.0, this GPU has 7.5"),
        (Requires(capability=(10, 0)), H200, "needs compute capability 10.0, this GPU has 9.0"),
    ],
)
def test_what_is_missing_is_named_with_what_is_there(requires, machine, reason):
    assert requires.missing(machine) == reason


@pytest.mark.parametrize("capability", [(8, 0), (9, 0)])
def test_a_newer_gpu_has_what_an_older_one_has(capability):
    assert Requires(device="cuda", capability=capability).missing(H200) is None


def test_a_dtype_it_cannot_compute_in_is_refused_by_name():
    requires = Requires(dtypes=("bf16", "fp16"))
    assert requires.refuses("fp16") is None
    assert requires.refuses("fp32") == "computes in bf16 or fp16, not in fp32"


@pytest.mark.parametrize(
    ("requires", "text"),
    [
        (Requires(), "nothing"),
        (
            Requires(device="cuda", capability=(8, 0), dtypes=("bf16", "fp16")),
            "CUDA, capability ≥ 8.0, bf16/fp16",
        ),
    ],
)
def test_requirements_read_as_a_list(requires, text):
    assert str(requires) == text


def test_a_tensor_or_several_in_a_tuple_or_a_list_are_their_own_canonical_form():
    y = torch.zeros(1)
    variant = Variant(Shape(1, 1, 8, 1))
    assert variant.canonical(y) == (y,)
    assert variant.canonical((y, y)) == (y, y)
    assert variant.canonical([y, y]) == (y, y)
