"""What is said around the tables: what was measured, how precisely, how verified; counts and failures."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from reports import units
from reports.answers import answers
from reports.columns import FASTEST_MARK, IMPLAUSIBLE_MARK, LEVEL_MARK, UNSURE_MARK, short_title
from reports.machine import ceilings, known, machine, peaks, software
from reports.remarks import IMPLAUSIBLE, outcome_label
from reports.text import plain, shorten
from results.machines import machine as machine_of
from results.ranking import is_wide
from results.schema import Outcome
from results.tensor_use import tensor_use
from results.words import counted

if TYPE_CHECKING:
    from reports.content import Fastest, Report
    from results.ranking import Standing
    from results.statistics import Estimate

MODE_MEANINGS = {
    "isolated": "isolated: GPU time of one call, L2 cold",
    "eager": "eager: as Python calls it, launches included",
    "graph": "graph: a CUDA graph replayed",
}

ACTIVE_MEANING = "active: share of cycles with a tensor pipe busy"
INTERVAL_MEANING = "±: half the 95 % interval over replicates"
COPY_MEANING = "copy: share of a plain copy's bandwidth on this GPU, of 8 × L2"
ISSUED_MEANING = "issued: FLOPs that the tensor cores executed ÷ the algorithm's"

TIE_WIDTH = 0.05
"""Two times within ± 5 % whose intervals overlap are level, which is an answer and no fault of the measurement."""


def notices(report: Report) -> list[str]:
    """What must be said before anything else; a run on the CPU never leaves that unsaid."""
    environment = report.manifest.environment
    said = [shorten(notice) for notice in environment.get("notices") or ()]
    on_cpu = environment.get("device") == "cpu"
    return said or (["no CUDA device: measuring the CPU"] if on_cpu else [])


def header(report: Report) -> list[tuple[str, list[str]]]:
    """(label, parts) lines: what machine, what was measured, how well it is known, how it was verified."""
    lines = [
        ("machine", machine(report.manifest.environment)),
        ("peaks", peaks(report)),
        ("ceilings", ceilings(report)),
        ("software", software(report.manifest)),
        ("measured", _measured(report)),
        ("precision", _precision(report)),
        ("verified", _verified(report)),
    ]
    return [(label, parts) for label, parts in lines if parts]


TWO_PROCESSES = "two processes a time: an interval is 12.7 standard errors, and level means not told apart"
"""What Student's t makes of one degree of freedom."""


def legend(report: Report) -> list[str]:
    """What the marks and titles mean, as far as the tables use them."""
    rows = [row for row in report.rows if row.time]
    uses = [tensor_use(row) for row in rows]
    modes = {mode for row in rows for mode in row.record.estimates}
    said = (
        (any(row.is_fastest for row in rows), f"{FASTEST_MARK} fastest"),
        (any(row.level for row in rows), f"{LEVEL_MARK} level with it: intervals overlap"),
        (any(row.implausible for row in report.rows), f"{IMPLAUSIBLE_MARK} implausibly fast, not ranked"),
        *((mode in modes, meaning) for mode, meaning in MODE_MEANINGS.items()),
        (any(row.time and row.time.high_s for row in rows), INTERVAL_MEANING),
        (any(row.peak_fraction for row in rows), f"peak: share of the device's peak rate{_of_memory(rows)}"),
        (
            any(row.record.moves_only and use.burst_fraction for row, use in zip(rows, uses, strict=True)),
            COPY_MEANING,
        ),
        (any(row.held_fraction for row in rows), "held: the share at the SM clock it ran at"),
        (any(use.tensor_active_percent is not None for use in uses), ACTIVE_MEANING),
        (any(use.issued_ratio is not None for use in uses), ISSUED_MEANING),
        (any(row.speedup for row in rows), "× base: speed over the baseline's"),
        (
            _any_unsure(report),
            f"{UNSURE_MARK}: intervals overlap, exceed ± 25 % or are unknown, or runs differ",
        ),
        (
            any(row.record.peak_delta_bytes is not None for row in rows),
            "memory: a call's peak above what is resident",
        ),
        (
            any(row.record.gpu_busy_percent is not None for row in rows),
            "busy: share of time with a kernel running",
        ),
    )
    return [meaning for used, meaning in said if used]


def outcomes(report: Report) -> list[str]:
    """`152 cases`, `140 ok`, `12 unavailable`: the commonest outcome first, then how many ok ones are too fast."""
    counts = Counter(outcome_label(row.outcome) for row in report.rows)
    doubted = sum(row.implausible is not None for row in report.rows)
    return [
        counted(len(report.rows), "case"),
        *(f"{n:,} {label}" for label, n in counts.most_common()),
        *([f"{doubted:,} implausibly fast"] if doubted else []),
    ]


def certainty(report: Report) -> str | None:
    """What must be said of the winners where chance may have picked them; None where most are clear."""
    contested = [best for best in report.fastest if best.runner_up]
    unclear = sum(not best.clear and not _is_tie(best) for best in contested)
    if contested and all(row.time.half_width is None for row in report.rows if row.time):
        return "one replicate: no intervals, the order may be chance"
    if not unclear or 3 * unclear < len(contested):
        return None
    noun = "group" if len(contested) == len(report.fastest) else "contested group"
    have = "has" if unclear == 1 else "have"
    return (
        f"{unclear} of {counted(len(contested), noun)} {have} no clear winner: "
        "close other programs, or take more --replicates (and a larger --budget)"
    )


def _is_tie(best: Fastest) -> bool:
    """Whether winner and runner-up are so well known that measuring longer would tell nothing new."""
    times = [row.time for row in (best.row, best.runner_up) if row and row.time]
    return all(time.half_width is not None and time.half_width <= TIE_WIDTH for time in times)


def failures(report: Report) -> list[str]:
    """A line for every fault: the same fault of a variant in several groups is one."""
    faulty = [row for row in report.rows if row.outcome and row.outcome.failed]
    return _gathered(report, [(row, outcome_label(row.outcome), row.record.reason) for row in faulty])


def doubts(report: Report) -> list[str]:
    """A line for every case too fast to be true, gathered as `failures` are."""
    return _gathered(report, [(row, IMPLAUSIBLE, row.implausible) for row in report.rows if row.implausible])


def _gathered(report: Report, said: list[tuple[Standing, str, str | None]]) -> list[str]:
    cases = [group.case for group in report.groups]
    where: dict[tuple[str, str, str], list[str]] = {}
    for row, label, reason in said:
        fault = (label, plain(row.variant), shorten(reason))
        where.setdefault(fault, []).append(short_title(row.record.case, cases))
    return [
        f"{label}: {variant} in {places[0] if len(places) == 1 else counted(len(places), 'group')}: {reason}"
        for (label, variant, reason), places in where.items()
    ]


def _measured(report: Report) -> list[str]:
    manifest = report.manifest
    tried = sum(row.outcome is not None and not row.outcome.never_tried for row in report.rows)
    cases = f"{tried:,} of {counted(len(report.rows), 'case')} in {counted(len(report.groups), 'group')}"
    if len(report.sources) > 1:
        return known(cases, _merged(report))
    budget_s, took_s = manifest.settings.get("budget_s"), report.took_s
    spent = [
        *([f"budget {budget_s:g} s"] if budget_s else []),
        *([f"took {units.elapsed(took_s)}"] if took_s is not None else []),
    ]
    fresh = "in a fresh process" if manifest.replicates == 1 else "each a fresh process"
    replicates = f"{counted(manifest.replicates, 'replicate')}, {fresh}"
    return known(cases, replicates, ", ".join(spent), manifest.created_utc)


def _merged(report: Report) -> str:
    sources = report.sources
    machines = len({machine_of(row.manifest) for row in report.rows})
    of = f" of {machines} machines" if machines > 1 else ""
    ids = ", ".join(sources) if len(sources) <= 2 else f"{sources[0]} … {sources[-1]}"
    return f"merged {len(sources)} runs{of}, newest of each case: {ids}"


def _of_memory(rows: list[Standing]) -> str:
    """What a peak is where cases only move bytes."""
    return (
        ", of its memory's where a stage only moves bytes" if any(r.record.moves_only for r in rows) else ""
    )


def _any_unsure(report: Report) -> bool:
    leads = any(best.lead and not best.level and not best.lead_sure for best in report.fastest)
    ratios = any(row.speedup and not row.is_baseline and not row.speedup_sure for row in report.rows)
    wide = any(map(is_wide, _unranked(report, "eager") + _unranked(report, "graph")))
    told = any(UNSURE_MARK in why for answer in answers(report) for why in answer.why)
    return leads or ratios or wide or told


def _unranked(report: Report, mode: str) -> list[Estimate]:
    """The mode's times in the groups that are ranked by another."""
    found = (
        row.record.estimates.get(mode) for group in report.groups if group.mode != mode for row in group.rows
    )
    return [estimate for estimate in found if estimate]


def _precision(report: Report) -> list[str]:
    times = [row.time for row in report.rows if row.time]
    widths = [time.half_width for time in times if time.half_width is not None]
    if not times:
        return ["nothing was timed"]
    if not widths:
        return ["1 replicate: no interval, so a difference may be chance"]
    within_1, within_5 = (sum(width <= limit for width in widths) for limit in (0.01, 0.05))
    eager = _unranked(report, "eager")
    wide = sum(map(is_wide, eager))
    return known(
        f"{within_1} of {counted(len(times), 'ranked time')} within ± 1 %",
        f"{within_5} within ± 5 %",
        f"the widest ± {units.interval(max(widths))}",
        wide and f"{wide} of {counted(len(eager), 'eager time')} beyond ± 25 %, marked {UNSURE_MARK}",
        max(time.replicates for time in times) == 2 and TWO_PROCESSES,
    )


def _verified(report: Report) -> list[str]:
    timed = [row.record.verifications for row in report.rows if row.record.estimates]
    wrong = sum(row.outcome is Outcome.INCORRECT for row in report.rows)
    if not any(timed) and not wrong:
        return ["nothing was compared with the reference"]
    agreed = sum(bool(checks) and all(check.passed for check in checks) for checks in timed)
    both = {"before", "after"} <= {check.when for checks in timed for check in checks}
    when = ", before and after timing" if both else ""
    return known(
        timed and f"{agreed:,} of {counted(len(timed), 'timed case')} agree with the reference{when}",
        wrong and f"{wrong:,} {'disagrees and has' if wrong == 1 else 'disagree and have'} no time",
    )
