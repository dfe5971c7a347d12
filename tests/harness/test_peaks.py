"""Datasheet peaks: derived again from the chips' own figures, and never lent to a GPU of another name."""

from __future__ import annotations

import pytest

from harness.peaks import PEAKS, peaks_of

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
