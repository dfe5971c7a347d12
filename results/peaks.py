"""What a device can do at most, as its run knows it, and which times are too good to be true for it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from results.figures import Matmul
    from results.record import Record
    from results.schema import Ceilings, Manifest

TOLERANCE = 1.1
"""Boost clocks exceed the clock a datasheet counts with by up to 8 %."""

DERIVED = "derived"
"""How the source of a peak begins that no datasheet gives."""

LARGEST = sys.float_info.max
"""JSON's whole numbers have no limit, floats do."""

CPU_CLOCK_HZ = 4.5e9
CPU_FLOP_PER_CLOCK = {"fp32": 2 * 2 * 16}
"""Per core: two 512-bit units, 16 float32 multiply-adds each."""
CPU_MATRIX_FLOP_PER_CLOCK = 2048
"""Per core, for the other dtypes: what a matrix unit such as AMX does with 16-bit numbers."""


def peak_flops_per_s(manifest: Manifest, dtype: str, sm_clock_mhz: float | None = None) -> float | None:
    """The peak that the manifest's environment gives for this dtype, or None.

    It is the datasheet's, or one derived from the architecture, at the clock that one assumes; with `sm_clock_mhz`
    what it would be at that clock.
    """
    peak = _number(_entry(manifest, dtype).get("flops_per_s"))
    if sm_clock_mhz is None or peak is None:
        return peak
    assumed_mhz = _number(_entry(manifest, dtype).get("clock_mhz"))
    return peak * sm_clock_mhz / assumed_mhz if assumed_mhz else None


def why_no_peak(manifest: Manifest, dtype: str) -> str:
    """The reason for a `peak_flops_per_s` of None."""
    return str(_entry(manifest, dtype).get("reason") or f"no {dtype} peak is known for this device")


def peak_bytes_per_s(manifest: Manifest) -> float | None:
    """The datasheet's bandwidth of the device's memory, or None."""
    return _number(_entry(manifest, "memory").get("bytes_per_s"))


def burst_flops_per_s(ceilings: Ceilings | None, dtype: str) -> float | None:
    """What a large matmul of this dtype reached on this GPU, cold and rested; None where none was measured."""
    matmul = _matmul(ceilings, dtype)
    return _number(matmul.burst_flops_per_s) if matmul else None


def sustained_flops_per_s(ceilings: Ceilings | None, dtype: str) -> float | None:
    """What it kept up back to back, at the clock that the GPU's power limit allows; None where none was measured."""
    matmul = _matmul(ceilings, dtype)
    return _number(matmul.sustained_flops_per_s) if matmul else None


def why_no_ceiling(ceilings: Ceilings | None, dtype: str) -> str:
    """The reason for a `burst_flops_per_s` or a `sustained_flops_per_s` of None."""
    if ceilings is None:
        return "this run measured no ceilings of its GPU"
    matmul = _matmul(ceilings, dtype)
    return (matmul.reason if matmul else None) or ceilings.reason or f"no {dtype} matmul was measured"


def why_no_copy(ceilings: Ceilings | None) -> str:
    """The reason for a missing `copy_bytes_per_s`."""
    no_copy = ceilings.reason if ceilings else "this run measured no ceilings of its device"
    return no_copy or "no copy was measured"


def implausible(record: Record, manifest: Manifest) -> str | None:
    """Why this case cannot have done all its work in the time measured, in any mode; None where it can have.

    A GPU is held against its datasheet or, where that is not known, against what its architecture could do at most,
    a CPU against more than any of its cores could do, all with `TOLERANCE`. Where none is known, everything is
    plausible.
    """
    dtype = record.case.dtype
    known = peak_flops_per_s(manifest, dtype)
    derived = str(_entry(manifest, dtype).get("source")).startswith(DERIVED)
    limit, limiter = (
        (known, "this GPU's architecture allows" if derived else "the datasheet's peak allows")
        if known
        else (_cpu_flops_per_s(manifest, dtype), "this CPU could")
    )
    fastest_s = min((time.value_s for time in record.estimates.values()), default=None)
    if limit is None or fastest_s is None or record.useful_flops <= TOLERANCE * limit * fastest_s:
        return None
    return f"faster than {limiter}: does `call` do all the work?"


def _cpu_flops_per_s(manifest: Manifest, dtype: str) -> float | None:
    cpu = manifest.environment.get("cpu")
    cores = cpu.get("cores") if isinstance(cpu, dict) else None
    if manifest.environment.get("device") != "cpu" or not isinstance(cores, int) or not 1 <= cores <= LARGEST:
        return None
    return cores * CPU_CLOCK_HZ * CPU_FLOP_PER_CLOCK.get(dtype, CPU_MATRIX_FLOP_PER_CLOCK)


def _matmul(ceilings: Ceilings | None, dtype: str) -> Matmul | None:
    return ceilings.matmuls.get(dtype) if ceilings else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and 0 < value <= LARGEST else None


def _entry(manifest: Manifest, name: str) -> dict[str, object]:
    peaks = manifest.environment.get("peaks")
    entry = peaks.get(name) if isinstance(peaks, dict) else None
    return entry if isinstance(entry, dict) else {}
