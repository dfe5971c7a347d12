"""Libraries measured beside ours: how they are called, told apart here by a stand-in for the package."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from variants.attention.fa4 import Fa4
from variants.inputs import make_inputs
from variants.shape import Shape
from variants.variant import Machine, Requires, Unsupported

CPU = torch.device("cpu")
SHAPE = Shape(2, 5, 24, 3)


def install(monkeypatch, attend) -> None:
    """`flash_attn.cute` with this function, of tensors [batch, seq_len, n_head, head_dim]."""
    package, module = ModuleType("flash_attn"), ModuleType("flash_attn.cute")
    module.flash_attn_func = attend
    monkeypatch.setitem(sys.modules, "flash_attn", package)
    monkeypatch.setitem(sys.modules, "flash_attn.cute", module)


def by_tokens(q, k, v, causal):
    heads = (x.transpose(1, 2) for x in (q, k, v))
    return scaled_dot_product_attention(*heads, is_causal=causal).transpose(1, 2).contiguous()


@pytest.mark.parametrize("with_lse", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_fa4_is_given_tokens_before_heads_and_its_output_is_turned_back_without_a_copy(
    monkeypatch, causal, with_lse
):
    def attend(q, k, v, *, causal):
        assert {tuple(x.shape) for x in (q, k, v)} == {(2, 5, 3, 8)}
        out = by_tokens(q, k, v, causal)
        return (out, None) if with_lse else out

    install(monkeypatch, attend)
    variant = Fa4(Shape(2, 5, 24, 3, causal))
    inputs = make_inputs("attention", variant.shape, 1, CPU)
    variant.prepare(inputs.weights)
    out = variant.call(*inputs.activations)
    torch.testing.assert_close(out, scaled_dot_product_attention(*inputs.activations, is_causal=causal))
    assert out.transpose(1, 2).is_contiguous()


def test_a_shape_that_fa4_refuses_is_unsupported_in_its_own_words(monkeypatch):
    def attend(*_, **__):
        raise AssertionError("head_dim must be\n divisible by 8")

    install(monkeypatch, attend)
    with pytest.raises(
        Unsupported, match=r"^flash-attn-4 refuses this shape: head_dim must be divisible by 8$"
    ):
        Fa4(SHAPE).prepare(make_inputs("attention", SHAPE, 1, CPU).weights)


def test_a_package_that_cannot_be_imported_is_unsupported_with_the_reason(monkeypatch):
    monkeypatch.setitem(
        sys.modules, "flash_attn", ModuleType("flash_attn")
    )  # one of that name without `cute`
    monkeypatch.delitem(sys.modules, "flash_attn.cute", raising=False)
    with pytest.raises(
        Unsupported, match=r"^flash-attn-4 cannot be imported: No module named 'flash_attn.cute'"
    ):
        Fa4(SHAPE).prepare(make_inputs("attention", SHAPE, 1, CPU).weights)


def test_a_package_that_is_not_installed_is_missing_with_the_command_that_installs_it():
    requires = Requires(package="no-such-package[cu13]")
    assert requires.missing(Machine("cpu")) == (
        "needs a package that is not installed: pip install 'no-such-package[cu13]'"
    )
    assert str(requires) == "no-such-package[cu13]"
    assert Requires(package="torch").missing(Machine("cpu")) is None


def test_what_no_package_could_mend_is_told_first():
    requires = Requires(device="cuda", package="no-such-package")
    assert requires.missing(Machine("cpu")) == "needs a CUDA device, this run is on CPU"
