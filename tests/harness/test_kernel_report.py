"""`doctor --kernels` with a scripted compiler: what is a fault, and what is said of it."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from harness import kernel_report

COMPILER = {"event": "compiler", "nvrtc": [13, 0], "no_disassembler": None}
FINE = {
    "kernel": "flash",
    "architecture": "sm_90a",
    "registers": 128,
    "spilled_bytes": 0,
    "shared_bytes": 0,
    "tensor_instructions": {"HGMMA": 8},
    "waits": [],
}
SERIALIZED = "Potential Performance Loss: wgmma.mma_async instructions are serialized due to something"


@pytest.fixture
def shown(monkeypatch, capsys):
    """Shows what the child tells; the exit code and the lines."""

    def show(*events):
        def follow(child, start_s, silence_s, tell):
            for event in events:
                tell(event)

        monkeypatch.setattr(kernel_report, "Child", lambda *_: nullcontext())
        monkeypatch.setattr(kernel_report, "follow", follow)
        code = kernel_report.show()
        return code, capsys.readouterr().out.splitlines()

    return show


def built(**facts):
    return {"event": "build", "name": "flash.cu HEAD_DIM=64", "found": [FINE | facts]}


def test_a_kernel_without_a_fault_is_a_line(shown):
    code, lines = shown(COMPILER, built())
    assert code == 0
    assert lines == [
        "flash.cu HEAD_DIM=64",
        "  flash           sm_90a   128 registers     0 B spilled       0 B static shared memory  8 HGMMA",
        "compiled with NVRTC 13.0: no faults",
    ]


def test_products_that_wait_are_a_fault_in_the_assemblers_words(shown):
    code, lines = shown(COMPILER, built(waits=[SERIALIZED]))
    assert code == 1
    assert lines[-2:] == [
        f"! flash (flash.cu HEAD_DIM=64) has tensor-core products that wait for each other on sm_90a: {SERIALIZED}",
        "compiled with NVRTC 13.0: 1 fault",
    ]


def test_each_fault_of_a_kernel_is_told(shown):
    refused = {"event": "fault", "name": "other.cu", "reason": "other.cu does not compile"}
    code, lines = shown(COMPILER, built(spilled_bytes=16, waits=[SERIALIZED]), refused)
    faults = [line for line in lines if line.startswith("! ")]
    assert code == 1
    assert "spills 16 bytes a thread on sm_90a" in faults[0]
    assert SERIALIZED in faults[1]
    assert faults[2] == "! other.cu does not compile"
    assert lines[-1].endswith(": 3 faults")


def test_no_compiler_is_no_fault(shown):
    code, lines = shown({"event": "compiler", "nvrtc": None, "reason": "no CuPy here"})
    assert (code, lines) == (0, ["kernels cannot be compiled here: no CuPy here"])
