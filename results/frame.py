"""Runs as pandas tables: a row per case, or a row per sample; what is unknown is NaN."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pandas as pd

from results.columns import IDENTITY_COLUMNS
from results.decomposition import decompose
from results.record import newest
from results.schema import MODES
from results.tensor_use import tensor_use

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from results.ranking import Standing
    from results.record import Record
    from results.schema import Case, Timing, Trial

_SHARES = ("tensor_active_percent", "sm_active_percent", "occupancy_percent", "dram_percent")
"""What NVML's performance monitor and Nsight Compute both tell."""

RECORD_COLUMNS = {
    **IDENTITY_COLUMNS,
    "arrives": "str",
    "outcome": "str",
    "reason": "str",
    **{f"{mode}{bound}_s": "float64" for mode in MODES for bound in ("", "_low", "_high")},
    "mode": "str",
    "time_s": "float64",
    "precision": "float64",
    "stopped": "str",
    "floor_s": "float64",
    "parameters": "int64",
    "flops_per_s": "float64",
    "bytes_per_s": "float64",
    "peak_fraction": "float64",
    "held_fraction": "float64",
    "burst_fraction": "float64",
    "sustained_fraction": "float64",
    "cycles": "float64",
    "speedup": "float64",
    "implausible": "bool",
    "peak_delta_bytes": "float64",
    "resident_bytes": "float64",
    "reserved_bytes": "float64",
    "gpu_busy_percent": "float64",
    "memory_used_bytes": "float64",
    "power_w": "float64",
    "nvml_sm_clock_mhz": "float64",
    "sustained_s": "float64",
    "average_power_w": "float64",
    "energy_per_call_j": "float64",
    "flop_per_j": "float64",
    "other_processes": "float64",
    "tensor_active_percent": "float64",
    "tensor_active_source": "str",
    "issued_flops": "float64",
    "issued_ratio": "float64",
    "rate_while_active": "float64",
    **{f"{source}_{share}": "float64" for source in ("gpm", "ncu") for share in _SHARES},
    "sm_clock_mhz": "float64",
    "throttled_share": "float64",
    "clock_events": "str",
    "launches": "float64",
    "busy_s": "float64",
    "launch_overhead_s": "float64",
    "gaps_s": "float64",
    "kernels": "str",
    "relative_error": "float64",
    "worst_row_error": "float64",
    "replicates": "int64",
    "samples": "int64",
    "flags": "str",
    "run_id": "str",
}
"""A case's columns. `arrives` is the layout its activations were given in: `contiguous`, or `strided`.

`time_s` is in its group's headline mode, named by `mode` where the case has it.
`parameters` are the weights a case multiplies by, in a stack those of all layers; `n_layer` is 1 elsewhere. `precision`
to `floor_s`, the rates, `speedup`, the clock and `samples` are of that mode too. `sustained_s` is the
time per call of the NVML window, at the clock that it settled to. `launch_overhead_s` is eager − graph, `gaps_s`
graph − busy, each negative where the two disagree by more. `kernels` are the names of what a call runs,
each once, the longest running first, with semicolons between.

What the tensor cores did (`results.tensor_use` has the meanings, and the reason for each that is missing):
`peak_fraction`, `held_fraction` and `burst_fraction` hold the headline rate against the datasheet's peak, the peak
at the SM clock it ran at and the run's own burst of a matmul; `sustained_fraction` the rate of the NVML window
against the matmul kept up as long. `tensor_active_percent` is Nsight Compute's where `tensor_active_source` says ncu,
else GPM's; `issued_ratio` is issued ÷ useful FLOPs. `average_power_w`, `energy_per_call_j` and `flop_per_j` are of
the window, `power_w` one reading at its end. Columns that begin with `gpm_` are NVML's performance monitor's over the
window, with `ncu_` Nsight Compute's, kernel by kernel.
"""

SAMPLE_COLUMNS = {
    **IDENTITY_COLUMNS,
    "run_id": "str",
    "outcome": "str",
    "replicate": "int64",
    "mode": "str",
    "index": "int64",
    "span_s": "float64",
    "calls_per_sample": "int64",
    "warmup": "bool",
    "flags": "str",
    "sm_clock_mhz": "float64",
    "power_w": "float64",
    "temperature_c": "float64",
    "clock_event_reasons": "float64",
}
"""A sample's columns. The last four are its block's, the reasons NVML's bit mask.

`outcome` is its case's: times of a case found incorrect later are kept, and marked."""


def records_frame(standings: Iterable[Standing]) -> pd.DataFrame:
    """A row per standing, in their order, with the columns of `RECORD_COLUMNS`."""
    return _frame([_row(standing) for standing in standings], RECORD_COLUMNS)


def samples_frame(records: Iterable[Record], trials: Iterable[Trial]) -> pd.DataFrame:
    """A row per sample of every trial whose case has a record, with the columns of `SAMPLE_COLUMNS`."""
    of_case = {record.case: record for record in records}
    series = [
        (trial, of_case[trial.case], mode, timing)
        for trial in newest(trials)
        if trial.case in of_case
        for mode, timing in trial.timings.items()
    ]
    shared = [_shared_by_samples(trial, record, mode, timing) for trial, record, mode, timing in series]
    # A run holds up to a million samples: what a series shares is repeated by pandas, not row by row.
    lengths = [len(timing.span_s) for *_, timing in series]
    frame = _frame(shared, {name: SAMPLE_COLUMNS[name] for name in SAMPLE_COLUMNS if name not in _PER_SAMPLE})
    frame = frame.loc[frame.index.repeat(lengths)].reset_index(drop=True)
    for name, values in _PER_SAMPLE.items():
        column = [value for *_, timing in series for value in values(timing)]
        frame[name] = pd.Series(column, dtype=SAMPLE_COLUMNS[name])
    return frame[list(SAMPLE_COLUMNS)]


def _frame(rows: list[dict[str, Any]], columns: dict[str, str]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(columns)).astype(columns)


def _identity(case: Case) -> dict[str, Any]:
    return {name: getattr(case, name) for name in IDENTITY_COLUMNS}


def _row(standing: Standing) -> dict[str, Any]:
    record, time = standing.record, standing.time
    sampling = record.sampling[standing.mode] if time and standing.mode else None
    return {
        **_identity(record.case),
        "arrives": record.arrives,
        "outcome": record.outcome,
        "reason": record.reason,
        **_times(record),
        "mode": standing.mode if time else None,
        "time_s": time.value_s if time else None,
        "precision": sampling.precision if sampling else None,
        "stopped": sampling.stopped if sampling else None,
        "floor_s": sampling.floor_s if sampling else None,
        "parameters": record.parameters,
        "flops_per_s": standing.flops_per_s,
        "bytes_per_s": standing.bytes_per_s,
        "peak_fraction": standing.peak_fraction,
        "held_fraction": standing.held_fraction,
        "cycles": standing.cycles,
        "speedup": standing.speedup,
        "implausible": standing.implausible is not None,
        **_tensor_use(standing),
        **_device(record),
        "sm_clock_mhz": sampling.sm_clock_mhz if sampling else record.sm_clock_mhz,
        "throttled_share": sampling.throttled_share if sampling else None,
        "clock_events": ", ".join(sampling.clock_events) if sampling else None,
        **_decomposition(record),
        **_errors(record),
        "replicates": record.replicates,
        "samples": time.samples if time else 0,
        "flags": ", ".join(record.flags),
        "run_id": record.run_id,
    }


def _times(record: Record) -> dict[str, float | None]:
    times: dict[str, float | None] = {}
    for mode, known in record.estimates.items():
        times |= {f"{mode}_s": known.value_s, f"{mode}_low_s": known.low_s, f"{mode}_high_s": known.high_s}
    return times


def _device(record: Record) -> dict[str, float | None]:
    memory, seen = record.memory, record.utilisation
    return {
        "peak_delta_bytes": record.peak_delta_bytes,
        "resident_bytes": memory.resident_bytes if memory else None,
        "reserved_bytes": memory.reserved_bytes if memory else None,
        "gpu_busy_percent": record.gpu_busy_percent,
        "memory_used_bytes": seen.memory_used_bytes if seen else None,
        "power_w": seen.power_w if seen else None,
        "nvml_sm_clock_mhz": seen.sm_clock_mhz if seen else None,
        "sustained_s": seen.span_s if seen else None,
        "other_processes": seen.other_processes if seen else None,
    }


def _tensor_use(standing: Standing) -> dict[str, float | str | None]:
    """What is derived of it, then both sources' own shares."""
    use = tensor_use(standing)
    # The first two are columns already, of the standing itself.
    elsewhere = {"datasheet_fraction", "held_fraction", "missing"}
    sources = {"gpm": standing.record.gpm, "ncu": standing.record.counters}
    return {
        **{field.name: getattr(use, field.name) for field in fields(use) if field.name not in elsewhere},
        **{
            f"{name}_{share}": getattr(figures, share, None)
            for name, figures in sources.items()
            for share in _SHARES
        },
    }


def _kernels(record: Record) -> str | None:
    seen = sorted(record.dispatch.kernels if record.dispatch else (), key=lambda kernel: -kernel.summed_s)
    return "; ".join(dict.fromkeys(kernel.name for kernel in seen)) or None


def _decomposition(record: Record) -> dict[str, float | str | None]:
    parts = decompose(record)
    return {
        "launches": record.dispatch.launches if record.dispatch else None,
        "busy_s": parts.busy_s,
        "launch_overhead_s": parts.launch_overhead_s,
        "gaps_s": parts.gaps_s,
        "kernels": _kernels(record),
    }


def _errors(record: Record) -> dict[str, float | None]:
    """The larger error of the checks before and after; a check that failed may have none."""
    checks = record.verifications
    return {
        name: max((error for check in checks if (error := getattr(check, name)) is not None), default=None)
        for name in ("relative_error", "worst_row_error")
    }


def _shared_by_samples(trial: Trial, record: Record, mode: str, timing: Timing) -> dict[str, Any]:
    return {
        **_identity(trial.case),
        "run_id": record.run_id,
        "outcome": record.outcome,
        "replicate": trial.replicate,
        "mode": mode,
        "calls_per_sample": timing.calls_per_sample,
    }


def _warmups(timing: Timing) -> list[bool]:
    return [index < timing.warmup_samples for index in range(len(timing.span_s))]


def _flags(timing: Timing) -> list[str]:
    """Each sample's flags, comma-separated; a flag on a sample that is not there marks nothing."""
    flags = [""] * len(timing.span_s)
    for flag, marked in timing.flags.items():
        for index in marked:
            if 0 <= index < len(flags):
                flags[index] += f", {flag}" if flags[index] else flag
    return flags


def _of_block(readings: Sequence[float | None], timing: Timing) -> list[float | None]:
    """Each sample's reading: its block's, None where blocks and samples do not agree."""
    found: list[float | None] = []
    count = len(timing.span_s)
    for length, reading in zip(timing.block_samples, readings, strict=False):
        found += [reading] * min(length, count - len(found))
    return found + [None] * (count - len(found))


_PER_SAMPLE: dict[str, Callable[[Timing], Sequence[Any]]] = {
    "index": lambda timing: range(len(timing.span_s)),
    "span_s": lambda timing: timing.span_s,
    "warmup": _warmups,
    "flags": _flags,
    "sm_clock_mhz": lambda timing: _of_block(timing.sm_clock_mhz, timing),
    "power_w": lambda timing: _of_block(timing.power_w, timing),
    "temperature_c": lambda timing: _of_block(timing.temperature_c, timing),
    "clock_event_reasons": lambda timing: _of_block(timing.clock_event_reasons, timing),
}
