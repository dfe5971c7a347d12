"""Where one case's eager time goes, as parts that add up to it, from measured quantities alone.

    launch     eager − graph                     what a Python caller pays for launching, hot against hot
    gaps       graph − busy                      between kernels, where a graph does not close them
    idle SMs   busy × (1 − SM active)            kernels that run on a part of the GPU
    padding    (issued − useful) FLOPs ÷ peak    tiles' edges, masked halves, recomputation
    useful     useful FLOPs ÷ peak               what the algorithm needs, at the clock that was held
    rest       busy − the three before it        softmax, memory, dependencies: in kernels, not told apart

Peak is the dtype's at the SM clock of the graph's samples. A part that needs a figure which the run lacks stays inside
the next larger one, which then says why. A difference may come out negative, where two passes disagree: it is kept so,
and attributed to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from results.decomposition import decompose
from results.peaks import peak_bytes_per_s, peak_flops_per_s, why_no_peak
from results.schema import Outcome
from results.tensor_use import NOT_RECORDED, why_no_work, why_not
from results.words import ended

if TYPE_CHECKING:
    from results.ranking import Standing

LAUNCH, GAPS, IDLE, PADDING, USEFUL, REST = (
    "launch",
    "gaps",
    "idle SMs",
    "padding",
    "useful",
    "rest of kernels",
)
KERNELS = "kernels"
LAUNCHES_AND_GAPS, GAPS_AND_KERNELS = f"launches and {GAPS}", f"{GAPS} and {KERNELS}"
WHOLE = f"launches, {GAPS} and {KERNELS}"
PARTS = (
    LAUNCH, LAUNCHES_AND_GAPS, GAPS, IDLE, PADDING, USEFUL, REST, KERNELS, GAPS_AND_KERNELS, WHOLE,
)  # fmt: skip
"""Every bar there can be, from the caller to the kernels; those of several parts stand for what was not told apart."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A part of the eager time in seconds per call; `reason` says why it is not split further."""

    name: str
    seconds: float
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """One case's bars, which add up to `eager_s`; None and no bars where it has no eager time.

    Beside them, outside the sum: `clock_mhz`, that of the peak; `rate_while_active` and `dram_percent` for what the
    rest of the kernels is made of; and estimates, `memory_floor_s`, the least bytes ÷ the memory's peak, and
    `last_wave`, the share of its blocks' slots that the longest kernel's last wave leaves empty.
    """

    eager_s: float | None
    bars: tuple[Bar, ...]
    clock_mhz: float | None = None
    rate_while_active: float | None = None
    dram_percent: float | None = None
    memory_floor_s: float | None = None
    last_wave: float | None = None


def explain(standing: Standing) -> Explanation:
    """The bars of one case, as finely as its figures allow."""
    record, counters = standing.record, standing.record.counters
    parts = decompose(record)
    sampling = record.sampling.get("graph") or record.sampling.get(standing.mode or "")
    if parts.eager_s is None:
        return Explanation(None, ())
    return Explanation(
        parts.eager_s,
        _bars(standing, sampling.sm_clock_mhz if sampling else None),
        clock_mhz=sampling.sm_clock_mhz if sampling else None,
        rate_while_active=counters.rate_while_active if counters else None,
        dram_percent=_either(standing, "dram_percent"),
        memory_floor_s=_memory_floor_s(standing),
        last_wave=_last_wave(standing),
    )


def why_no_time(standing: Standing) -> str:
    """Why a case has no eager time, in one line."""
    record = standing.record
    if record.outcome is not Outcome.OK:
        return " ".join(ended(record).split())
    return record.mode_reasons.get("eager", NOT_RECORDED)


def _bars(standing: Standing, mhz: float | None) -> tuple[Bar, ...]:
    parts = decompose(standing.record)
    eager_s, graph_s, busy_s = parts.eager_s, parts.graph_s, parts.busy_s
    assert eager_s is not None
    reasons, dispatch = standing.record.mode_reasons, standing.record.dispatch
    if busy_s is None:
        why = (dispatch.reason if dispatch else None) or "which kernels ran was not recorded"
        if graph_s is None:
            return (Bar(WHOLE, eager_s, why),)
        return Bar(LAUNCH, eager_s - graph_s), Bar(GAPS_AND_KERNELS, graph_s, why)
    kernels = _kernels(standing, busy_s, mhz)
    if graph_s is None:
        why = f"no graph time: {reasons.get('graph', NOT_RECORDED)}"
        return Bar(LAUNCHES_AND_GAPS, eager_s - busy_s, why), *kernels
    return Bar(LAUNCH, eager_s - graph_s), Bar(GAPS, graph_s - busy_s), *kernels


def _kernels(standing: Standing, busy_s: float, mhz: float | None) -> tuple[Bar, ...]:
    """The time in kernels, taken apart as far as counters go."""
    bars: list[Bar] = []
    reasons: list[str] = []
    active = _sm_active(standing, busy_s)
    if active is None:
        reasons.append(f"idle SMs: {_why_no_sm_active(standing)}")
    else:
        bars.append(Bar(IDLE, busy_s * (1 - active)))
    work, why = _work(standing, mhz)
    bars += work
    reasons += [why] if why else []
    left_s = busy_s - sum(bar.seconds for bar in bars)
    if left_s < 0:
        over = f"its parts, from different passes, exceed the kernels by {-left_s / busy_s:.0%}"
        return (Bar(KERNELS, busy_s, over),)
    return (*bars, Bar(REST if bars else KERNELS, left_s, "; ".join(reasons) or None))


def _work(standing: Standing, mhz: float | None) -> tuple[list[Bar], str | None]:
    """Padding and useful work at the dtype's peak, and why one of them is not told apart."""
    record, dtype = standing.record, standing.record.case.dtype
    peak = peak_flops_per_s(standing.manifest, dtype, mhz) if mhz else None
    if peak is None or not record.useful_flops:
        why = (
            why_no_work(record)
            if peak or record.moves_only
            else f"useful: {why_no_peak(standing.manifest, dtype)}"
        )
        return [], why
    issued = record.counters.issued_flops if record.counters else None
    useful = Bar(USEFUL, record.useful_flops / peak)
    if issued is None:
        return [useful], f"padding: {why_not(standing, 'counters', 'issued_flops')}"
    if issued < record.useful_flops and dtype == "fp32":  # whose peak is the vector units'
        return [useful], "padding: what vector units executed is not counted"
    if issued < record.useful_flops:
        part = "part of the work" if issued else "all of the work"
        return [], f"useful: {part} ran on vector units, whose peak is another"
    return [Bar(PADDING, (issued - record.useful_flops) / peak), useful], None


def _sm_active(standing: Standing, busy_s: float) -> float | None:
    """The share of SMs with work while kernels run.

    Nsight Compute watches kernels alone; the window's share is of replays with their gaps, in which no SM has any.
    """
    counters, gpm = standing.record.counters, standing.record.gpm
    if counters and counters.sm_active_percent is not None:
        return counters.sm_active_percent / 100
    graph_s = decompose(standing.record).graph_s
    if gpm is None or gpm.sm_active_percent is None or graph_s is None:
        return None
    return min(1.0, gpm.sm_active_percent / 100 * max(1.0, graph_s / busy_s))


def _why_no_sm_active(standing: Standing) -> str:
    gpm = standing.record.gpm
    if gpm is None or gpm.sm_active_percent is None:
        return why_not(standing, "gpm", "sm_active_percent")
    return "the window saw calls with their gaps, and without a graph time these are not known"


def _either(standing: Standing, name: str) -> float | None:
    """A figure from Nsight Compute, which watched kernels alone, else from the window."""
    for figures in (standing.record.counters, standing.record.gpm):
        value: float | None = getattr(figures, name, None)
        if value is not None:
            return value
    return None


def _memory_floor_s(standing: Standing) -> float | None:
    bytes_per_s = peak_bytes_per_s(standing.manifest)
    return standing.record.least_bytes / bytes_per_s if bytes_per_s else None


def _last_wave(standing: Standing) -> float | None:
    counters = standing.record.counters
    known = [one for one in (counters.kernels if counters else ()) if one.waves and one.duration_s]
    if not known:
        return None
    waves = max(known, key=lambda kernel: kernel.duration_s or 0.0).waves or 0.0
    return -(-waves // 1) - waves
