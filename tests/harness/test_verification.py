"""The two limits, what they see and what they must not miss; and the words a user reads."""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness import verification as module
from harness.poison import poison
from harness.verification import (
    GRADIENTS_LIMIT,
    compare,
    compare_gradients,
    explain,
    gradient_limits,
    limits,
)
from variants.inputs import torch_dtype
from variants.reference_gradients import Gradient
from variants.shape import Shape

INF = math.inf


def rows(*values: list[float], dtype: str = "fp32") -> torch.Tensor:
    return torch.tensor(values, dtype=torch_dtype(dtype))


def check(output: torch.Tensor, right: torch.Tensor, dtype: str = "fp32"):
    return compare((output,), (right.double(),), dtype, "before")


@pytest.mark.parametrize(
    ("dtype", "whole", "row"),
    [("fp32", 1e-5, 2e-5), ("tf32", 5e-3, 1e-2), ("fp16", 2e-3, 4e-3), ("bf16", 1e-2, 2e-2)],
)
def test_the_limits_are_those_of_the_method(dtype, whole, row):
    assert limits(dtype) == (whole, row)


def test_a_deeper_stack_may_be_off_by_the_root_of_its_depth():
    assert limits("bf16", 12) == limits("bf16")
    assert limits("bf16", 48) == pytest.approx((2e-2, 4e-2))
    right = torch.ones(4, 8).double()
    wrong = (right * 1.015).to(torch.bfloat16)
    assert [compare((wrong,), (right,), "bf16", "before", n).passed for n in (12, 48)] == [False, True]


def test_an_equal_output_has_no_error():
    found = check(rows([1, 2], [3, 4]), rows([1, 2], [3, 4]))
    assert (found.relative_error, found.worst_row_error, found.passed, found.reason) == (0, 0, True, None)
    assert (found.limit, found.worst_row_limit, found.when) == (*limits("fp32"), "before")


def test_errors_of_a_hand_computed_case():
    # Δ = (0, 0), (0.6, 0.8); the rows' norms are 3 and 5.
    found = check(rows([3, 0], [3.6, 4.8]), rows([3, 0], [3, 4]))
    assert found.relative_error == pytest.approx(1 / math.sqrt(9 + 25))
    assert found.worst_row_error == pytest.approx(1 / 5)
    assert not found.passed


@given(
    rows=st.integers(1, 40),
    width=st.integers(1, 9),
    block=st.integers(1, 60),
    seed=st.integers(0, 1000),
)
def test_blocks_change_nothing_and_the_figures_are_the_definition(rows, width, block, seed):
    generator = torch.Generator().manual_seed(seed)
    right = torch.randn(rows, width, generator=generator, dtype=torch.float64)
    output = (right + 1e-3 * torch.randn(rows, width, generator=generator)).float()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK_ELEMENTS", block)
        found = check(output, right)
    wrong = output.double() - right
    assert found.relative_error == pytest.approx((wrong.norm() / right.norm()).item())
    assert found.worst_row_error == pytest.approx((wrong.norm(dim=1) / right.norm(dim=1)).max().item())


@pytest.mark.parametrize("dtype", ["fp32", "tf32", "fp16", "bf16"])
@pytest.mark.parametrize(("factor", "passed"), [(0.9, True), (1.1, False)])
def test_the_worst_row_alone_can_fail(dtype, factor, passed):
    limit = limits(dtype)[1]
    right = torch.ones(10_000, 1, dtype=torch.float64)
    output = torch.ones(10_000, 1, dtype=torch_dtype(dtype))
    # The reference is moved, not the output, which could not hold so small a step.
    right[77] = 1 / (1 + factor * limit)
    found = compare((output,), (right,), dtype, "before")
    assert found.relative_error < limits(dtype)[0]
    assert found.passed is passed


@pytest.mark.parametrize(("factor", "passed"), [(0.9, True), (1.1, False)])
def test_the_whole_tensor_alone_can_fail(factor, passed):
    whole, row = limits("fp32")
    right = torch.ones(100, 4, dtype=torch.float64) / (1 + factor * whole)
    found = compare((torch.ones(100, 4),), (right,), "fp32", "before")
    assert found.worst_row_error < row
    assert found.passed is passed


def test_of_several_tensors_the_worst_figures_count_wherever_they_are():
    right = rows([1, 0], [0, 1])
    bad = rows([1, 0], [0, 1.5])
    for order in ((right, bad, right), (bad, right, right), (right, right, bad)):
        found = compare(order, (right.double(),) * 3, "fp32", "before")
        assert found.worst_row_error == pytest.approx(0.5)
        assert not found.passed


@pytest.mark.parametrize("value", [math.nan, INF, -INF])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_nan_and_infinity_never_pass_and_never_reach_the_json(value, place):
    right = rows([1, 2], [3, 4])
    outputs = [right.clone() for _ in range(3)]
    outputs[place][1, 0] = value
    found = compare(tuple(outputs), (right.double(),) * 3, "fp32", "before")
    assert (found.passed, found.relative_error, found.worst_row_error) == (False, None, None)
    assert found.reason == "1 of 12 elements are NaN or infinite"
    json.dumps(asdict(found), allow_nan=False)


def test_nan_where_the_reference_is_nan_does_not_pass_either():
    nan = rows([math.nan, 1])
    assert not check(nan, nan).passed
    assert check(rows([1, 1]), nan).reason == "the reference is not finite: its inputs overflow"


def test_a_row_that_is_rightly_zero_passes_and_one_that_is_not_fails():
    right = rows([0, 0], [3, 4])
    assert check(right.clone(), right).passed
    found = check(rows([0, 1e-9], [3, 4]), right)
    assert not found.passed
    assert found.reason == "a row differs from zero where the reference is zero"


def test_a_strided_output_is_compared_as_it_is_indexed():
    right = torch.randn(2, 3, 4, 5, dtype=torch.float64)
    strided = right.float().transpose(1, 2).contiguous().transpose(1, 2)
    assert not strided.is_contiguous()
    assert check(strided, right).passed


def test_an_output_that_requires_gradients_can_be_compared():
    right = torch.ones(2, 2)
    assert check(right.clone().requires_grad_(), right).passed


@pytest.mark.parametrize(
    ("outputs", "reason"),
    [
        ((), "gave 0 tensors where the stage has 1"),
        ((torch.ones(2, 2),) * 2, "gave 2 tensors where the stage has 1"),
        ((torch.ones(2, 3),), "gave the shape [2, 3] where [2, 2] belongs"),
        ((torch.ones(2, 2).double(),), "gave torch.float64 where torch.float32 belongs"),
        ((torch.ones(2, 2, device="meta"),), "gave a tensor on meta where cpu belongs"),
        ((None,), "gave a NoneType where a tensor belongs"),
    ],
)
def test_an_output_that_cannot_be_compared_says_why(outputs, reason):
    found = compare(outputs, (torch.ones(2, 2).double(),), "fp32", "before")
    assert (found.passed, found.relative_error, found.worst_row_error) == (False, None, None)
    assert found.reason == reason
    assert explain(found) == f"before timing: {reason}"


@pytest.mark.parametrize(
    ("output", "text"),
    [
        (
            rows([3, 0], [3.6, 4.8]),
            "worst row off by 20 % (limit 0.002 %), whole tensor off by 17 % (limit 0.001 %)",
        ),
        (rows([3, 0], [3, 4]), "worst row within 0.002 %: 0 %, whole tensor within 0.001 %: 0 %"),
        (rows([300, 0], [3, 4]), "worst row off by 9900 % (limit 0.002 %), whole tensor off by 5094 %"),
    ],
)
def test_a_comparison_is_explained_in_one_line(output, text):
    line = explain(check(output, rows([3, 0], [3, 4])))
    assert line.startswith(f"before timing: {text}")
    assert "\n" not in line


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize(("seq_len", "width"), [(7, 16), (129, 96), (512, 768)])
def test_right_values_left_in_freed_memory_are_hardly_ever_found_again(seq_len, width, dtype):
    """Hardly: nobody can promise which block an allocator hands out; unpoisoned, it is nearly always this one."""
    shape = Shape(1, seq_len, width, 2, dtype=dtype)
    stale = 0
    for _ in range(20):
        right = torch.ones(seq_len, width, dtype=torch_dtype(dtype))
        del right
        poison(shape, torch.device("cpu"))
        stale += bool((torch.empty(seq_len, width, dtype=torch_dtype(dtype)) == 1).any())
    assert stale <= 7  # with memory that is not poisoned it is 20


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize(("seq_len", "width"), [(7, 16), (129, 96), (4096, 768)])
def test_poisoned_gpu_memory_is_nan(seq_len, width, dtype):
    poison(Shape(1, seq_len, width, 2, dtype=dtype), torch.device("cuda"))
    assert torch.empty(seq_len, width, dtype=torch_dtype(dtype), device="cuda").isnan().all()


def test_poison_gives_up_quietly_where_memory_runs_out(monkeypatch):
    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(torch, "full", full)
    poison(Shape(1, 4, 8, 2), torch.device("cpu"))


def gradient(right, scale=None, name="dX"):
    return Gradient(name, right.double(), None if scale is None else torch.tensor(scale).double())


def check_gradients(*pairs):
    own, right = zip(*pairs, strict=True)
    return compare_gradients(own, right, "fp32", "before")


def turned(right, error):
    """So far off, and no longer: rows of two, turned a little."""
    return right + error * right.flip(-1) * torch.tensor([-1.0, 1.0])


def test_a_gradient_may_be_twice_as_far_off_as_an_output():
    assert GRADIENTS_LIMIT == 2
    right = rows([3, 4])
    for error, passed in ((1.5e-5, True), (2.5e-5, False)):
        found = check_gradients((turned(right, error), gradient(right)))
        assert (found.passed, found.limit, found.worst_row_limit) == (passed, 2e-5, 4e-5)
        assert not check(turned(right, error), right).passed


def test_a_stacks_gradients_may_be_off_by_the_root_of_its_layers_more():
    assert gradient_limits("bf16") == (2e-2, 4e-2)
    assert gradient_limits("bf16", 16) == pytest.approx((8e-2, 16e-2))
    right = rows([3, 4])
    found = compare_gradients((turned(right, 1e-4),), (gradient(right),), "fp32", "before", 36)
    assert (found.passed, found.limit) == (True, pytest.approx(1.2e-4))


@pytest.mark.parametrize("n_layer", [1, 36])
@pytest.mark.parametrize("factor", [1 - 1.8e-5, 1 + 1.8e-5])
def test_a_gradient_that_is_a_multiple_of_the_right_one_fails_sooner_at_any_depth(factor, n_layer):
    right = rows([3e3, 4e3], [1e3, 0])
    found = compare_gradients(
        (turned(right, 1e-6), right * factor),
        (gradient(right, name="dQ"), gradient(right, name="dK")),
        "fp32",
        "before",
        n_layer,
    )
    assert (found.passed, found.relative_error < found.limit) == (False, True)
    assert re.fullmatch(
        r"before timing: dK is (1.00002|0.999982) × .* throughout \(limit 1 ± 1.5e-05\)", explain(found)
    )


def test_a_gradient_of_zeros_has_no_factor():
    right = rows([0, 0])
    assert check_gradients((right, gradient(right))).passed


def test_parts_added_up_one_at_a_time_in_bfloat16_are_off_by_as_much_as_the_limits_say():
    """The limits' own reckoning: ε √(n / 2) of n parts, and ε √n of what is added to something larger."""
    generator = torch.Generator().manual_seed(0)
    parts = torch.randn(72, 64, 1024, generator=generator).bfloat16()
    begun = 30 * torch.randn(64, 1024, generator=generator).bfloat16()
    for start, expected in ((torch.zeros_like(begun), 36**0.5), (begun, 72**0.5)):
        total = start
        for part in parts:
            total = total + part
        right = start.double() + parts.double().sum(0)
        off = compare((total,), (right,), "bf16", "before").relative_error
        assert off == pytest.approx(1.6e-3 * expected, rel=0.15)
        assert off < gradient_limits("bf16")[0]


def test_a_row_that_cancelled_is_held_against_what_was_subtracted():
    right = rows([0, 0], [3, 4])
    noise = rows([1e-5, 0], [3, 4])
    assert (
        check_gradients((noise, gradient(right))).reason
        == "a row differs from zero where the reference is zero"
    )
    found = check_gradients((noise, gradient(right, [2.0, 1.0])))
    assert found.passed
    assert found.worst_row_error == pytest.approx(1e-5 / 2, rel=1e-3)
    assert found.relative_error == pytest.approx(1e-5 / math.sqrt(4 + 25), rel=1e-3)


def test_a_scale_below_the_row_changes_nothing():
    right, own = rows([3, 4], [6, 8]), rows([3.5, 4], [6, 8])
    plain, scaled = (check_gradients((own, gradient(right, scale))) for scale in (None, [1.0, 1.0]))
    assert (plain.relative_error, plain.worst_row_error) == (scaled.relative_error, scaled.worst_row_error)


def test_the_gradient_that_is_worst_is_named_and_one_that_is_missing():
    right = rows([3, 4])
    wrong = check_gradients((right, gradient(right)), (2 * right, gradient(right, name="dW_Q")))
    assert explain(wrong).endswith("; of its gradients dW_Q is the worst")
    missing = check_gradients((right, gradient(right)), (None, gradient(right, name="dW_Q")))
    assert not missing.passed
    assert explain(missing).startswith("before timing: gives no dW_Q: autograd must find the way")


def test_a_gradient_of_the_wrong_shape_or_with_nan_in_it_says_so():
    right = rows([3, 4])
    assert (
        check_gradients((rows([3]), gradient(right))).reason == "gave the shape [1, 1] where [1, 2] belongs"
    )
    assert "NaN" in check_gradients((right * math.nan, gradient(right))).reason
