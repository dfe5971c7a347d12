"""`compare`: runs recorded in different sessions, which share nothing that pairing could remove.

Two sessions of the same code differ by more than their processes do: heat, clocks, neighbours, a reboot. A shift of
1 % between sessions makes processes, taken as samples, call identical code different in 19 to 36 % of comparisons. So
the *run* is the sample, and nothing is judged with fewer than three on a side. What is found is advice all the same.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, TypeAlias

from results.comparison import Comparisons
from results.keys import SHAPE, allowed, differences
from results.medians import medians
from results.unpaired_case import LEAST_RUNS, InRun, UnpairedCase
from results.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from results.run import Run
    from results.schema import Case

ADVISORY = "recorded in different sessions: advisory, only an ab judges for a CI"

Match: TypeAlias = tuple[object, ...]
"""The values of a case's fields that both sides must have in common."""


def compare(
    base: Sequence[Run],
    head: Sequence[Run],
    across: Sequence[str] = (),
    labels: tuple[str, str] = ("base", "head"),
) -> Comparisons:
    """Both sides' runs, a row for each case of both and each mode that a side was timed in.

    `across` names keys (of `results.keys.KEYS` or `SHAPE`) that may differ; any other that does makes every row
    incomparable.
    """
    unit = "runs" if min(len(base), len(head)) >= LEAST_RUNS else "processes"
    differing = "; ".join(one.sentence for one in differences(base, head, across))
    (of_base, base_unsure), (of_head, head_unsure) = _by_match(base, across), _by_match(head, across)
    both = [
        UnpairedCase(tuple(of_base[match]), tuple(of_head[match]), unit)
        for match in of_base
        if match in of_head
    ]
    return Comparisons(
        rows=tuple(row for one in both if not one.untried for row in one.rows(differing)),
        unit=unit,
        base=labels[0],
        head=labels[1],
        only_base=tuple(seen[0].case for match, seen in of_base.items() if match not in of_head),
        only_head=tuple(seen[0].case for match, seen in of_head.items() if match not in of_base),
        failed=tuple(one.case for one in both if one.failed),
        notes=(
            *_notes(base, head, across, both),
            *_unsure("base", base_unsure, across),
            *_unsure("head", head_unsure, across),
        ),
    )


def _by_match(runs: Sequence[Run], across: Sequence[str]) -> tuple[dict[Match, list[InRun]], set[Case]]:
    """What each run says of each case, under the fields that both sides must have in common.

    Beside it the cases of which a run has several that differ in nothing but keys that may differ: which of them
    were the other side's?
    """
    found: dict[Match, list[InRun]] = {}
    unsure: set[Case] = set()
    for run in runs:
        times = medians(run.trials)
        of_run: dict[Match, list[InRun]] = {}
        for record in run.records():
            fields = asdict(record.case)
            match = tuple(value for name, value in fields.items() if name not in across)
            of_run.setdefault(match, []).append(InRun(record, times.get(record.case, {})))
        for match, seen in of_run.items():
            if len(seen) == 1:
                found.setdefault(match, []).extend(seen)
            else:
                unsure.update(one.case for one in seen)
    return found, unsure


def _unsure(side: str, cases: set[Case], across: Sequence[str]) -> Iterator[str]:
    if cases:
        keys = ", ".join(key for key in SHAPE if key in across)
        yield f"{counted(len(cases), 'case')} of {side} left out: they differ in nothing but {keys}"


def _notes(
    base: Sequence[Run], head: Sequence[Run], across: Sequence[str], both: Sequence[UnpairedCase]
) -> Iterator[str]:
    yield ADVISORY
    paths = [{run.path.resolve() for run in side} for side in (base, head)]
    if shared := len(paths[0] & paths[1]):
        yield f"{counted(shared, 'run')} on both sides: what is compared with itself cannot differ"
    for one in differences(base, head):
        if one.key in allowed(across):
            yield f"compared across {one.key}: {one.base} in base, {one.head} in head"
    planned = [{case for run in side for case in run.manifest.cases} for side in (base, head)]
    for key in SHAPE:
        values = [" or ".join(sorted({str(getattr(case, key)) for case in side})) for side in planned]
        if key in across:
            yield f"compared across {key}: {values[0]} in base, {values[1]} in head"
        elif not both and all(planned) and values[0] != values[1]:
            yield f"no case in common: {key} is {values[0]} in base and {values[1]} in head"
    if untried := sum(one.untried for one in both):
        yield f"{counted(untried, 'case')} left out: unavailable or unsupported on both sides"
    for run in (*base, *head):
        yield from (f"{run.manifest.run_id}: {note}" for note in run.notes)
