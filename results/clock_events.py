"""Why a GPU's clock is not higher: NVML's clock-event reasons, a bit mask, in words.

Source: NVIDIA's NVML API reference, group nvmlClocksEventReasons.
"""

from __future__ import annotations

IDLE = 0x1

REASONS = {
    IDLE: "idle",
    0x2: "clocks set by an application",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
    0x100: "display clocks",
}


def words(mask: int) -> tuple[str, ...]:
    """The reasons in a mask, lowest bit first; a bit that this table does not know as its number."""
    bits = (1 << position for position in range(mask.bit_length()))
    return tuple(REASONS.get(bit, f"reason {bit:#x}") for bit in bits if mask & bit)
