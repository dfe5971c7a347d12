"""What an exception means: its outcome, one line of reason, and the variant's own line as its place."""

from __future__ import annotations

import importlib.util
import json

import pytest
import torch

from harness.faults import LONGEST_REASON, classify, is_fatal, one_line, why_survived
from harness.sensors.ncu_csv import Launch, Uncounted
from results.schema import Outcome
from variants.variant import Unsupported, Variant


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no message either")


@pytest.fixture
def raised_by(tmp_path):
    """The exception that a variant's file raises when its `call` runs; the raising line is line 4."""

    def run(line):
        file = tmp_path / "my_variant.py"
        file.write_text(f"import json, sys, torch\n\ndef call():\n    {line}\n")
        spec = importlib.util.spec_from_file_location("my_variant", file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        with pytest.raises(BaseException) as caught:  # noqa: PT011 - whatever it raises
            module.call()
        return caught.value

    return run


@pytest.mark.parametrize(
    ("error", "outcome", "reason"),
    [
        (
            Unsupported("head_dim 72 is no multiple of 16"),
            Outcome.UNSUPPORTED,
            "head_dim 72 is no multiple of 16",
        ),
        (Unsupported(), Outcome.UNSUPPORTED, "the variant does not say why"),
        (MemoryError(), Outcome.OUT_OF_MEMORY, "the system refused the memory asked for"),
        (MemoryError("Unable to allocate 8 EiB"), Outcome.OUT_OF_MEMORY, "Unable to allocate 8 EiB"),
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 96.00 GiB."),
            Outcome.OUT_OF_MEMORY,
            "CUDA out of memory. Tried to allocate 96.00 GiB.",
        ),
        (
            RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
            Outcome.OUT_OF_MEMORY,
            "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        ),
        (OSError(12, "Cannot allocate memory"), Outcome.OUT_OF_MEMORY, "[Errno 12] Cannot allocate memory"),
        (ValueError("of this"), Outcome.CRASHED, "raised ValueError: of this"),
        (ValueError(), Outcome.CRASHED, "raised ValueError"),
        (ValueError("two\n  lines"), Outcome.CRASHED, "raised ValueError: two lines"),
        (KeyboardInterrupt(), Outcome.CRASHED, "raised KeyboardInterrupt"),
        (
            NotImplementedError("no such kernel"),
            Outcome.CRASHED,
            "raised NotImplementedError: no such kernel",
        ),
        (SystemExit(3), Outcome.CRASHED, "ended the process with exit code 3"),
        (SystemExit(), Outcome.CRASHED, "ended the process with exit code 0"),
        (SystemExit("no\nway"), Outcome.CRASHED, "ended the process with exit code no way"),
        (Mute(), Outcome.CRASHED, "raised Mute"),
    ],
)
def test_each_kind_of_exception_has_its_outcome_and_a_reason_in_one_line(error, outcome, reason):
    assert classify(error) == (outcome, reason)


def test_a_cpu_allocation_beyond_all_memory_is_out_of_memory():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(10**15)
    outcome, reason = classify(caught.value)
    assert outcome is Outcome.OUT_OF_MEMORY
    assert "can't allocate memory" in reason


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("raise ValueError('of this')", "raised ValueError: of this (my_variant.py:4)"),
        ("torch.ones(2, 3) @ torch.ones(2, 3)", "raised RuntimeError: mat1 and mat2 shapes"),
        ("torch.nn.Linear(2, 3)(torch.ones(5))", "raised RuntimeError: "),  # through PyTorch's Python
        ("json.loads('{')", "raised JSONDecodeError: "),  # through the standard library
        ("sys.exit(5)", "ended the process with exit code 5"),
    ],
)
def test_the_place_named_is_the_variants_own_line(raised_by, line, reason):
    outcome, found = classify(raised_by(line))
    assert outcome is Outcome.CRASHED
    assert found.startswith(reason)
    assert found.endswith(" (my_variant.py:4)")


def test_a_fault_of_a_library_alone_names_no_place():
    with pytest.raises(ValueError, match="Expecting") as caught:
        json.loads("{")
    caught.value.__traceback__ = caught.tb.tb_next  # without this test's own frame
    assert ".py:" not in classify(caught.value)[1]


def test_a_fault_of_the_harness_names_no_place_wherever_in_it_that_is():
    with pytest.raises(Uncounted) as caught:
        Launch("kernel", {}, {}).value("a metric")
    caught.value.__traceback__ = caught.tb.tb_next  # without this test's own frame
    assert ".py:" not in classify(caught.value)[1]


def test_a_built_in_variants_line_is_named():
    with pytest.raises(NotImplementedError) as caught:
        Variant(shape=None).call()
    assert "(variant.py:" in classify(caught.value)[1]


@pytest.mark.parametrize(
    ("error", "fatal"),
    [
        (torch.AcceleratorError("CUDA error: an illegal memory access was encountered"), True),
        (RuntimeError("CUDA error: unspecified launch failure"), True),
        (torch.OutOfMemoryError("CUDA out of memory"), False),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (Unsupported("no"), False),
        (SystemExit(1), False),
        (Mute(), False),
    ],
)
def test_only_a_lost_context_is_fatal(error, fatal):
    assert is_fatal(error) is fatal
    if fatal:
        with pytest.raises(type(error)) as raised:
            why_survived(error)
        assert raised.value is error
    else:
        assert why_survived(error) == classify(error)[1]


def test_a_long_message_is_cut_and_shows_that_it_was():
    line = one_line(ValueError("word " * 1000))
    assert len(line) == LONGEST_REASON
    assert line.endswith("…")
    assert one_line(ValueError("x" * LONGEST_REASON)) == "x" * LONGEST_REASON


def test_a_machine_without_a_compiler_for_kernels_lacks_something_and_no_variant_has_crashed():
    """Where CuPy or NVRTC is missing the other variants are measured, and the run's exit code is 0."""
    from kernels.compiler import CompilerMissing

    outcome, reason = classify(CompilerMissing("NVRTC cannot be used (no such file): pip install this"))
    assert outcome is Outcome.UNAVAILABLE
    assert not outcome.failed
    assert reason == "NVRTC cannot be used (no such file): pip install this"
