"""How a case uses the tensor cores, in four figures that mean little apart.

    useful             the algorithm's FLOPs a second ÷ a peak
    active             the share of cycles in which the tensor pipes were busy, from hardware counters
    issued ÷ useful    the FLOPs that the tensor cores executed ÷ the algorithm's: padding, masked work, recomputation
    rate while active  what they executed ÷ what they could have in the cycles they were busy: what the instructions
                       give up, so that the active shares of two variants do not compare without it

A kernel that pads is busier for it and no faster, so active alone can point the wrong way. Beside them stands what
a call costs in energy.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from results.peaks import (
    burst_flops_per_s,
    peak_flops_per_s,
    sustained_flops_per_s,
    why_no_ceiling,
    why_no_copy,
    why_no_peak,
)
from results.run import WANTED
from results.schema import Outcome
from results.words import ended

if TYPE_CHECKING:
    from results.figures import Counters, Gpm
    from results.ranking import Standing
    from results.record import Record

DATASHEET, HELD, BURST, SUSTAINED = PEAKS = ("datasheet", "held", "burst", "sustained")
"""What a useful rate can be held against: the datasheet's peak; the same at the SM clock that the times were taken
at; what a large matmul reached on this GPU, cold and rested; what it kept up, against what the case itself kept up
in the NVML window."""

NCU, GPM = "ncu", "gpm"
"""Where an active share is from: Nsight Compute, kernel by kernel; NVML's performance monitor, over a window."""

ACTIVE = "tensor_active_percent"
"""What both sources call it."""

NO_WORK = "its useful work is not known"
MOVES_ONLY = "it computes nothing, it moves bytes"
NOT_RECORDED = "it was not recorded"

Known: TypeAlias = "float | str"
"""A value, or in words why there is none."""


@dataclass(frozen=True, slots=True)
class TensorUse:
    """One case's figures; `missing` maps the name of a field that is None to the reason.

    The fractions are shares of the peaks in `PEAKS`; of a case that only moves bytes, `datasheet_fraction` is a share
    of the memory's peak, `burst_fraction` of what a large copy reached on this GPU. The active share is of elapsed
    cycles, its source one of `NCU` and `GPM`, the first where both have spoken. `issued_ratio` is issued ÷ useful, 0
    where no tensor instruction ran. `average_power_w` and energy are the whole GPU's, idle power included, while the
    case ran back to back.
    """

    datasheet_fraction: float | None = None
    held_fraction: float | None = None
    burst_fraction: float | None = None
    sustained_fraction: float | None = None
    tensor_active_percent: float | None = None
    tensor_active_source: str | None = None
    issued_flops: float | None = None
    issued_ratio: float | None = None
    rate_while_active: float | None = None
    average_power_w: float | None = None
    energy_per_call_j: float | None = None
    flop_per_j: float | None = None
    missing: dict[str, str] = field(default_factory=dict)

    def fraction(self, peak: str) -> float | None:
        """The useful share of one of `PEAKS`."""
        value: float | None = getattr(self, f"{peak}_fraction")
        return value


def tensor_use(standing: Standing) -> TensorUse:
    """The figures of one case, each there or with its reason; a case that is not ok has none."""
    record = standing.record
    if record.outcome is not Outcome.OK:
        return _told(dict.fromkeys(_VALUES, ended(record)), None)
    active, source = _active(standing)
    found: dict[str, Known] = {
        **_useful(standing),
        "sustained_fraction": _sustained(standing),
        ACTIVE: active,
        **_issued(standing),
        **_energy(record),
    }
    return _told(found, source)


def asked(standing: Standing, name: str) -> bool:
    """Whether the run wanted these figures of its cases, or has some: `name` is a field of an observation."""
    wanted = WANTED.get(str(standing.manifest.settings.get("counters")), ())
    return name in wanted or getattr(standing.record, name) is not None


def why_not(standing: Standing, name: str, of: str) -> str:
    """Why these figures (`gpm` or `counters`) lack their field `of`."""
    figures: Counters | Gpm | None = getattr(standing.record, name)
    if figures is not None:
        return figures.missing.get(of) or figures.reason or "no reason was stored"
    if asked(standing, name):
        return "not observed yet: run --resume does it"
    return f"this run did not ask for it: --counters {NCU if name == 'counters' else GPM} does"


_VALUES = (
    *(f"{peak}_fraction" for peak in PEAKS),
    *(ACTIVE, "issued_flops", "issued_ratio", "rate_while_active"),
    *("average_power_w", "energy_per_call_j", "flop_per_j"),
)


def _told(found: dict[str, Known], source: str | None) -> TensorUse:
    values: dict[str, Any] = {name: one for name, one in found.items() if not isinstance(one, str)}
    missing = {name: one for name, one in found.items() if isinstance(one, str)}
    return TensorUse(**values, tensor_active_source=source, missing=missing)


def _useful(standing: Standing) -> dict[str, Known]:
    """The shares that the headline time gives."""
    dtype = standing.record.case.dtype
    flops_per_s = standing.flops_per_s
    if standing.record.moves_only:
        return _moved(standing)
    if flops_per_s is None:
        why = _why_no_rate(standing)
        return {f"{peak}_fraction": why for peak in ("datasheet", "held", "burst")}
    no_peak = why_no_peak(standing.manifest, dtype)
    if peak_flops_per_s(standing.manifest, dtype) is not None:
        no_peak = "the SM clock is not known: that of its times, or the peak's"
    burst = burst_flops_per_s(standing.ceilings, dtype)
    return {
        "datasheet_fraction": _or(standing.peak_fraction, no_peak),
        "held_fraction": _or(standing.held_fraction, no_peak),
        "burst_fraction": flops_per_s / burst if burst else why_no_ceiling(standing.ceilings, dtype),
    }


def _moved(standing: Standing) -> dict[str, Known]:
    """The same of a case that only moves bytes."""
    if standing.bytes_per_s is None:
        return {f"{peak}_fraction": _why_no_rate(standing) for peak in ("datasheet", "held", "burst")}
    copy = standing.ceilings.copy_bytes_per_s if standing.ceilings else None
    return {
        "datasheet_fraction": _or(standing.peak_fraction, why_no_peak(standing.manifest, "memory")),
        "held_fraction": f"{MOVES_ONLY}, and memory has a clock of its own",
        "burst_fraction": standing.bytes_per_s / copy if copy else why_no_copy(standing.ceilings),
    }


def _sustained(standing: Standing) -> Known:
    """What the case kept up in its window ÷ what a matmul kept up: a rested GPU's times would flatter it."""
    if standing.record.moves_only:
        return f"{MOVES_ONLY}, and no copy was measured back to back"
    record, dtype = standing.record, standing.record.case.dtype
    ceiling = sustained_flops_per_s(standing.ceilings, dtype)
    if ceiling is None:
        return why_no_ceiling(standing.ceilings, dtype)
    span_s = _span_s(record)
    if isinstance(span_s, str):
        return span_s
    return record.useful_flops / span_s / ceiling if record.useful_flops else NO_WORK


def why_no_work(record: Record) -> str:
    """Why a case has no useful FLOPs."""
    return MOVES_ONLY if record.moves_only else NO_WORK


def _why_no_rate(standing: Standing) -> str:
    if standing.time:
        return why_no_work(standing.record)
    reason = standing.record.mode_reasons.get(standing.mode or "", "no reason was stored")
    return f"it has no {standing.mode} time: {reason}" if standing.mode else "it has no time"


def _active(standing: Standing) -> tuple[Known, str | None]:
    """The active share and where it is from."""
    for name, figures in ((NCU, standing.record.counters), (GPM, standing.record.gpm)):
        if figures is not None and figures.tensor_active_percent is not None:
            return figures.tensor_active_percent, name
    ncu, gpm = (why_not(standing, name, ACTIVE) for name in ("counters", "gpm"))
    if not asked(standing, "counters"):
        return gpm, None
    return (f"{ncu}; {gpm}" if ncu != gpm else ncu), None


def _issued(standing: Standing) -> dict[str, Known]:
    record, counters = standing.record, standing.record.counters
    issued, rate = _counted(standing, "issued_flops"), _counted(standing, "rate_while_active")
    ratio: Known = issued
    if counters is not None and counters.issued_flops is not None:
        ratio = counters.issued_flops / record.useful_flops if record.useful_flops else why_no_work(record)
    return {"issued_flops": issued, "issued_ratio": ratio, "rate_while_active": rate}


def _counted(standing: Standing, name: str) -> Known:
    value: float | None = getattr(standing.record.counters, name, None)
    return why_not(standing, "counters", name) if value is None else value


def _energy(record: Record) -> dict[str, Known]:
    """The average power over the window's ticks of the energy counter, and what a call took of it."""
    seen = record.utilisation
    if seen is None or not seen.energy_j or not seen.energy_window_s:
        why = (seen and (seen.missing.get("energy_j") or seen.reason)) or NOT_RECORDED
        return dict.fromkeys(("average_power_w", "energy_per_call_j", "flop_per_j"), why)
    power_w, span_s = seen.energy_j / seen.energy_window_s, _span_s(record)
    if isinstance(span_s, str):
        return {"average_power_w": power_w, "energy_per_call_j": span_s, "flop_per_j": span_s}
    joules = power_w * span_s
    worth = record.useful_flops / joules if record.useful_flops and joules else why_no_work(record)
    return {"average_power_w": power_w, "energy_per_call_j": joules, "flop_per_j": worth}


def _span_s(record: Record) -> Known:
    """The time per call that the NVML window sustained."""
    seen = record.utilisation
    if seen is None or not seen.span_s:
        return (seen and (seen.missing.get("span_s") or seen.reason)) or NOT_RECORDED
    return seen.span_s


def _or(value: float | None, reason: str) -> Known:
    return reason if value is None else value
