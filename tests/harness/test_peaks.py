"""Datasheet peaks: derived again from the chips' own figures, and never lent to a GPU of another name."""

from __future__ import annotations

import pytest

from harness.peaks import PEAKS, peaks_of, peaks_of_gpu

CHIPS = {
    # name: SMs, fused multiply-adds a clock and SM (16-bit tensor cores; float32 vector), MHz of each
    "H200": (132, 2048, 128, 1830, 1980),
    "H200 NVL": (132, 2048, 128, 1545, 1785),
    "H100": (132, 2048, 128, 1830, 1980),
    "H100 NVL": (132, 2048, 128, 1545, 1785),
    "H100 PCIe": (114, 2048, 128, 1620, 1755),
    "A100": (108, 1024, 64, 1410, 1410),
    "A100 80GB PCIe": (108, 1024, 64, 1410, 1410),
    "A100-SXM4-80GB": (108, 1024, 64, 1410, 1410),
    "L40": (142, 256, 128, 2490, 2490),
    "L40S": (142, 512, 128, 2490, 2520),
    "RTX 3090": (82, 256, 128, 1695, 1695),
    "RTX 4090": (128, 256, 128, 2520, 2520),
    "RTX A6000": (84, 512, 128, 1800, 1800),
}
MEMORY = {
    # name: bus width in bits, Gbit/s a pin
    "H200": (6144, 6.25),
    "A100": (5120, 2.43),
    "A100 80GB PCIe": (5120, 3.024),
    "A100-SXM4-80GB": (5120, 3.186),
    "L40": (384, 18),
    "L40S": (384, 18),
    "RTX 3090": (384, 19.5),
    "RTX 4090": (384, 21),
    "RTX A6000": (384, 16),
}


def test_every_gpu_in_the_table_is_derived_here():
    assert CHIPS.keys() == {peak.name for peak in PEAKS}


@pytest.mark.parametrize("name", CHIPS)
def test_a_peak_is_multiprocessors_times_rate_times_clock_within_a_percent(name):
    sms, tensor_fma, vector_fma, tensor_mhz, vector_mhz = CHIPS[name]
    peaks = peaks_of(f"NVIDIA {name}")
    tensor = sms * tensor_fma * 2 * tensor_mhz * 1e6
    for dtype, flops, mhz in (
        ("bf16", tensor, tensor_mhz),
        ("fp16", tensor, tensor_mhz),
        ("tf32", tensor / 2, tensor_mhz),
        ("fp32", sms * vector_fma * 2 * vector_mhz * 1e6, vector_mhz),
    ):
        assert peaks[dtype]["flops_per_s"] == pytest.approx(flops, rel=0.01)
        assert peaks[dtype]["clock_mhz"] == mhz
        assert peaks[dtype]["source"] == f"datasheet of {name}"


@pytest.mark.parametrize("name", MEMORY)
def test_memory_bandwidth_is_bus_width_times_rate_within_a_percent(name):
    bits, gbit_per_s = MEMORY[name]
    assert peaks_of(name)["memory"]["bytes_per_s"] == pytest.approx(bits / 8 * gbit_per_s * 1e9, rel=0.01)


def test_an_a100_does_312_tera_and_an_h200_moves_4_8_terabytes():
    assert peaks_of("NVIDIA A100-SXM4-40GB")["bf16"]["flops_per_s"] == 312e12
    assert peaks_of("NVIDIA H200")["memory"]["bytes_per_s"] == 4.8e12


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("NVIDIA H200", "H200"),
        ("NVIDIA H200 NVL", "H200 NVL"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA H100 NVL", "H100 NVL"),
        ("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"),
        ("NVIDIA A100-SXM4-40GB", "A100"),
        ("NVIDIA A100-PCIE-40GB", "A100"),
        ("NVIDIA A100 80GB PCIe", "A100 80GB PCIe"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA L40", "L40"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA RTX A6000", "RTX A6000"),
    ],
)
def test_the_longest_name_wins(device, name):
    assert peaks_of(device)["memory"]["source"] == f"datasheet of {name}"


@pytest.mark.parametrize(
    "device",
    [
        "",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 3090 Ti",
        "NVIDIA GH200 480GB",
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        "NVIDIA A100X",
        "NVIDIA H20",
        "NVIDIA B200",
        "Tesla T4",
        "NVIDIA GeForce RTX 5090",
    ],
)
def test_a_laptop_a_part_of_a_gpu_a_sister_model_or_an_unknown_name_has_no_peak(device):
    assert peaks_of(device) == {}


CAPABILITY = {
    **dict.fromkeys(("H200", "H200 NVL", "H100", "H100 NVL", "H100 PCIe"), (9, 0)),
    **dict.fromkeys(("A100", "A100 80GB PCIe", "A100-SXM4-80GB"), (8, 0)),
    **dict.fromkeys(("RTX 3090", "RTX A6000"), (8, 6)),
    **dict.fromkeys(("L40", "L40S", "RTX 4090"), (8, 9)),
}
BRANDED = {"RTX 3090": "GeForce RTX 3090 Ti", "RTX 4090": "GeForce RTX 4090 D"}
"""Sister models, so that their names have no datasheet here; any name without one would do for the others."""


def unnamed(name: str, clock_mhz: int) -> dict:
    """An environment's GPU like this one, whose own name tells nothing."""
    return {
        "name": f"NVIDIA {BRANDED.get(name, 'Unheard-of')}",
        "capability": list(CAPABILITY[name]),
        "sm_count": CHIPS[name][0],
        "max_sm_clock_mhz": float(clock_mhz),
    }


@pytest.mark.parametrize("name", CHIPS)
def test_the_architecture_gives_the_datasheets_peaks_again_of_every_gpu_but_the_l40(name):
    *_, tensor_mhz, vector_mhz = CHIPS[name]
    # Its datasheet alone has half of what a chip of its kind does on the tensor cores.
    of_datasheet = 2 if name == "L40" else 1
    for dtypes, clock_mhz, factor in (
        (("bf16", "fp16", "tf32"), tensor_mhz, of_datasheet),
        (("fp32",), vector_mhz, 1),
    ):
        derived = peaks_of_gpu(unnamed(name, clock_mhz))
        for dtype in dtypes:
            datasheet = peaks_of(f"NVIDIA {name}")[dtype]["flops_per_s"]
            assert derived[dtype]["flops_per_s"] == pytest.approx(factor * datasheet, rel=0.01)
            assert derived[dtype]["clock_mhz"] == clock_mhz
    assert "memory" not in derived


def test_a_b200_does_2_25_dense_petaflops_in_16_bits_and_75_tera_in_32():
    b200 = {"name": "NVIDIA B200", "capability": [10, 0], "sm_count": 148}
    found = [peaks_of_gpu(b200 | {"max_sm_clock_mhz": mhz}) for mhz in (1860.0, 1980.0)]
    assert found[0]["bf16"]["flops_per_s"] == pytest.approx(2.25e15, rel=0.01)
    assert found[0]["tf32"]["flops_per_s"] == pytest.approx(1.125e15, rel=0.01)
    assert found[1]["fp32"]["flops_per_s"] == pytest.approx(75e12, rel=0.01)


def test_a_derived_peak_says_so_and_from_what():
    slice_of_an_h100 = {
        "name": "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        "capability": [9, 0],
        "sm_count": 16,
        "max_sm_clock_mhz": 1980.0,
    }
    found = peaks_of_gpu(slice_of_an_h100)
    assert found["bf16"]["source"] == "derived: 16 SMs × 4096 FLOP × 1980 MHz"
    assert found["fp32"]["source"] == "derived: 16 SMs × 256 FLOP × 1980 MHz"


def test_a_known_name_keeps_its_datasheet_whatever_its_architecture_could_do():
    l40 = unnamed("L40", 2490) | {"name": "NVIDIA L40"}
    assert peaks_of_gpu(l40) == peaks_of("NVIDIA L40")


@pytest.mark.parametrize(
    "unknown", [{"capability": [7, 5]}, {"capability": [99, 0]}, {"max_sm_clock_mhz": None}]
)
def test_without_an_architecture_or_a_clock_there_is_no_peak_and_none_is_guessed(unknown):
    assert peaks_of_gpu(unnamed("H100", 1980) | unknown) == {}


def test_a_gpu_that_nvml_does_not_know_has_no_peak():
    gpu = unnamed("H100", 1980)
    del gpu["max_sm_clock_mhz"]
    assert peaks_of_gpu(gpu) == {}
