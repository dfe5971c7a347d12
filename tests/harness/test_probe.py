"""What a checkout's probe says of its variants, as this version understands it."""

from __future__ import annotations

from harness.plan import VariantFacts
from harness.probe import _variant_facts, describe
from variants.registry import discover
from variants.variant import Machine


def test_facts_come_back_as_they_were_sent():
    sent = describe(discover(), Machine("cpu"))
    got = {(one.stage, one.name): one for one in map(_variant_facts, sent)}
    assert got["attention", "sdpa"].why_forward_alone is None
    assert (
        got["attention", "flash_portable"].why_forward_alone == "our kernel is written for the forward alone"
    )
    assert got["attention", "flash_portable"].dtypes == ("bf16", "fp16")


def test_a_checkout_from_before_there_were_directions_is_not_asked_for_gradients():
    """Its worker would measure the forward, whatever the case says."""
    sent = {
        "stage": "attention", "name": "sdpa", "hypothesis": "", "needs": "", "missing": None, "dtypes": None,
        "plugin": False,
    }  # fmt: skip
    assert _variant_facts(sent).why_forward_alone == "this version of headbench measures forward alone"
    assert VariantFacts("attention", "sdpa", "", "", None, None).why_forward_alone is None


def test_what_a_newer_checkout_says_beside_is_passed_over():
    (sent, *_) = describe(discover(), Machine("cpu"))
    assert _variant_facts({**sent, "of_tomorrow": 1}) == _variant_facts(sent)
