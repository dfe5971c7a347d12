"""What a run stores: a manifest, one trial per case and replicate, and observations of cases.

History:
    1  first version: manifest.json + trials.jsonl; modes isolated, eager, graph; NVML utilisation.
    2  observations, lines of their own in trials.jsonl: the NVML window moved there from the first trial, kernels
       dispatched are new; power, temperature and clock-event reasons of every block; warm-ups of any number.
    3  hardware counters: `gpm` and `counters` of an observation; the window's energy, scope, how it was fed and
       what each missing value lacks; ceilings, a line of their own in trials.jsonl.
    4  `n_layer` of a case, 1 unless it is a stack's; the stages `split`, which has no FLOPs, and `stack`. A trial says
       how its activations arrive.

Every stored number's name ends in its unit. A value that was not measured is None beside a reason in words,
never 0. Samples are stored in the order they were taken and none is ever removed; statistics are derived.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Self, cast

from results.codec import decode, encode
from results.figures import Counters, Dispatch, Gpm, Matmul, Memory, Utilisation

SCHEMA_VERSION = 4

MODES = ("isolated", "eager", "graph")

THROTTLED = "throttled"
"""The flag of a sample whose block ran at a clock clearly below the highest of its series."""


STRIDED = "strided"
"""How a trial's activations arrive that are views of one buffer."""


class Outcome(StrEnum):
    """How a trial ended. Only `OK` has times."""

    OK = "ok"
    INCORRECT = "incorrect"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    UNSUPPORTED = "unsupported"
    UNAVAILABLE = "unavailable"

    @property
    def failed(self) -> bool:
        """Whether this outcome is a fault that a run's exit code must show."""
        return self in (Outcome.INCORRECT, Outcome.CRASHED, Outcome.TIMED_OUT)

    @property
    def never_tried(self) -> bool:
        """Whether the case was left out before anything of it ran."""
        return self in (Outcome.UNAVAILABLE, Outcome.UNSUPPORTED)


class Stopped(StrEnum):
    """What ended a series of samples."""

    PRECISE = "precise"
    """Its median is known as well as was asked for."""
    FIXED_NUMBER = "fixed number"
    """It has as many samples as a mode that differs between processes is given."""
    SHARE_SPENT = "share spent"
    """Its time was over; schema 1 says so of a fixed number, too."""
    LIMIT = "limit"
    """It would have grown without bound."""


class Stored:
    """A dataclass that goes into a file and comes back."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary that `from_json` reads back; NaN and infinity, which JSON lacks, become None."""
        plain: dict[str, Any] = encode(asdict(cast("Any", self)))
        return plain

    @classmethod
    def from_json(cls, data: object) -> Self:
        """As stored; what is missing, unknown or of the wrong type raises ValueError."""
        return decode(cls, data)


@dataclass(frozen=True, slots=True)
class Case:
    """What was measured: stage × variant × shape × direction. Sizes are counts; `n_layer` is 1 but of a stack."""

    stage: str
    variant: str
    direction: str
    batch: int
    seq_len: int
    d_model: int
    n_head: int
    head_dim: int
    causal: bool
    dtype: str
    n_layer: int = 1

    @property
    def is_stack(self) -> bool:
        """Whether its depth is one of its sizes, which is told then, and else is not."""
        return self.stage == "stack"

    @property
    def group(self) -> str:
        """The key of the cases it is ranked with: everything but the variant."""
        mask = "causal" if self.causal else "full"
        heads = f"h{self.n_head}x{self.head_dim}{f'-l{self.n_layer}' if self.is_stack else ''}"
        return f"{self.stage}/{self.direction}/b{self.batch}-t{self.seq_len}-{heads}-{mask}-{self.dtype}"

    @property
    def key(self) -> str:
        """The case's own key, unique in a run."""
        return f"{self.group}/{self.variant}"

    def plain(self) -> dict[str, Any]:
        """Its fields for a worker, which may be an earlier version's: a single layer goes without saying."""
        fields = asdict(self)
        if self.n_layer == 1:
            del fields["n_layer"]
        return fields


@dataclass(frozen=True, slots=True)
class Timing:
    """One timing mode of one trial: its samples, or the reason there are none.

    `span_s[i]` is the time per call of sample i, which timed `calls_per_sample` calls at once; the first
    `warmup_samples` samples are warm-ups, kept but not used. `flags` maps a flag to the samples it marks.
    `block_samples` are the lengths of the blocks that the samples were taken in. Per block: `sm_clock_mhz`, the
    median of the samples' own clocks where the GPU measured them, else the driver's figure at the block's end;
    then `power_w`, `temperature_c` and `clock_event_reasons` (NVML's bit mask), read at its end.
    `precision` is the relative half-width of the median's 95 % interval within this process: the larger of what the
    samples' ranks say (below six samples half their range, which covers less: 75 % with three) and what the
    blocks' medians say.
    `resolution_s` is the timer's smallest step, `floor_s` what an empty bracket reads on this GPU: published,
    never subtracted.

    Raises:
        ValueError: a sample is not a finite number, or more samples are warm-ups than there are.
    """

    span_s: tuple[float, ...] = ()
    warmup_samples: int = 0
    calls_per_sample: int = 1
    resolution_s: float | None = None
    floor_s: float | None = None
    precision: float | None = None
    stopped: Stopped | None = None
    flags: dict[str, list[int]] = field(default_factory=dict)
    block_samples: tuple[int, ...] = ()
    sm_clock_mhz: tuple[float | None, ...] = ()
    power_w: tuple[float | None, ...] = ()
    temperature_c: tuple[float | None, ...] = ()
    clock_event_reasons: tuple[int | None, ...] = ()
    reason: str | None = None

    def __post_init__(self) -> None:
        if not all(map(math.isfinite, self.span_s)):
            index, span = next((i, one) for i, one in enumerate(self.span_s) if not math.isfinite(one))
            raise ValueError(f"sample {index} is {span} s: a sample is a finite time")
        if not 0 <= self.warmup_samples <= len(self.span_s):
            raise ValueError(f"{self.warmup_samples} warm-ups among {len(self.span_s)} samples")

    @property
    def used_s(self) -> tuple[float, ...]:
        """The samples statistics are derived from."""
        return self.span_s[self.warmup_samples :]


@dataclass(frozen=True, slots=True)
class Verification:
    """One comparison with the reference: ‖Δ‖/‖ref‖ of the whole tensor and the worst row, with their limits.

    An error is None where none could be computed (a wrong shape, NaN); `reason` then says why.
    """

    when: str
    relative_error: float | None
    limit: float
    worst_row_error: float | None
    worst_row_limit: float
    passed: bool
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Trial(Stored):
    """One case in one replicate: the unit that is appended and synced.

    `utilisation` is what schema 1 kept here; since schema 2 it is an observation's. `arrives` is the layout that the
    variant was given its activations in: `contiguous`, or `strided` views of one buffer; None is not known.

    Raises:
        ValueError: an outcome other than ok has times or lacks its reason, or a timing mode is unknown.
    """

    case: Case
    replicate: int
    outcome: Outcome
    reason: str | None = None
    useful_flops: int = 0
    least_bytes: int = 0
    parameters: int = 0
    started_utc: str | None = None
    elapsed_s: float | None = None
    timings: dict[str, Timing] = field(default_factory=dict)
    memory: Memory | None = None
    utilisation: Utilisation | None = None
    verifications: tuple[Verification, ...] = ()
    arrives: str | None = None

    def __post_init__(self) -> None:
        if self.outcome is not Outcome.OK and self.timings:
            raise ValueError(f"{self.case.key}: a trial that is {self.outcome.value} cannot have times")
        if self.outcome is not Outcome.OK and not self.reason:
            raise ValueError(f"{self.case.key}: a trial that is {self.outcome.value} must say why")
        if unknown := sorted(self.timings.keys() - set(MODES)):
            raise ValueError(
                f"{self.case.key}: timing mode {unknown[0]!r} is unknown: {', '.join(MODES)} are known"
            )


@dataclass(frozen=True, slots=True)
class Observation(Stored):
    """One case watched in a process of its own after the replicates, by one or more sensors."""

    case: Case
    ended_utc: str | None = None
    utilisation: Utilisation | None = None
    gpm: Gpm | None = None
    dispatch: Dispatch | None = None
    counters: Counters | None = None


@dataclass(frozen=True, slots=True)
class Ceilings(Stored):
    """What this GPU can do, measured by the run itself: matmuls by dtype, and a copy, bytes read and written."""

    matmuls: dict[str, Matmul] = field(default_factory=dict)
    copy_bytes_per_s: float | None = None
    ended_utc: str | None = None
    source: str | None = None
    scope: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Manifest(Stored):
    """A run's settings and surroundings, written before the first trial.

    `cases` is the whole grid that was asked for, in plan order; `baselines` maps each stage to the variant
    the others are compared with; `environment` and `settings` hold plain values only. `environment["peaks"]`
    maps a dtype to `{"flops_per_s", "clock_mhz", "source"}` and "memory" to `{"bytes_per_s", "source"}`.

    Raises:
        ValueError: `replicates` is not a count, at most 10,000.
    """

    run_id: str
    created_utc: str
    headbench_version: str
    command: list[str]
    replicates: int
    settings: dict[str, Any]
    environment: dict[str, Any]
    baselines: dict[str, str]
    cases: tuple[Case, ...]
    schema: int = SCHEMA_VERSION

    def __post_init__(self) -> None:
        if not 1 <= self.replicates <= 10_000:
            raise ValueError(f"{self.replicates} replicates: 1 to 10,000 would do")

    @property
    def of_session(self) -> bool:
        """Whether the run is a side of an `ab` session, which nothing but an `ab` measures."""
        return "ab" in self.settings
