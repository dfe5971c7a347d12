"""`explain`: where one variant's time goes in a recorded run, beside another's."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from harness.errors import UsageError, unknown
from harness.report_command import damage_told
from harness.verdict_output import at_most_one
from results.explanation import explain
from results.session import is_session
from results.store import LATEST, StoreError, locate, read

if TYPE_CHECKING:
    from collections.abc import Sequence

    from results.ranking import Standing
    from results.run import Run


def show(variant: str, against: str | None, recorded: str | None, formats: Sequence[str]) -> None:
    """Print the bars of the variant at every shape where the run has a time of it.

    Both are a variant's name, or `stage/name`. `formats` holds at most one name of
    `reports.explanation_render.WRITERS`.

    Raises:
        UsageError: there is no such run or variant, its stage is not told, or two formats were asked for.
        HeadbenchError: what is stored cannot be shown.
    """
    form = at_most_one(formats)
    run = _run(recorded or LATEST)
    with damage_told(run):
        standings = run.standings()
        main = _of_variant(standings, variant)
        other = _of_variant(standings, against, main[0].record.case.stage) if against is not None else []
        _print(main, other, form)


def _run(where: str) -> Run:
    try:
        folder = locate(where)
        if is_session(folder):
            raise UsageError(f"--from {where} is an ab session: name its base or its head folder")
        return read(folder)
    except StoreError as error:
        raise UsageError(str(error)) from error


def _of_variant(standings: Sequence[Standing], named: str, stage: str | None = None) -> list[Standing]:
    """The variant's cases that have a time; in this stage, where the name does not tell one."""
    told, _, name = named.rpartition("/")
    told = told or stage or ""
    ours = [one for one in standings if one.variant == name and told in ("", one.record.case.stage)]
    if not ours:
        known = [f"{one.record.case.stage}/{one.variant}" if told else one.variant for one in standings]
        raise unknown("variant", f"{told}/{name}" if told else name, dict.fromkeys(known))
    stages = dict.fromkeys(one.record.case.stage for one in ours)
    if len(stages) > 1:
        choices = " or ".join(f"{one}/{name}" for one in stages)
        raise UsageError(f"variant {name!r} belongs to several stages: {choices} would do")
    timed = [one for one in ours if "eager" in one.record.estimates]
    if not timed:
        raise UsageError(
            f"variant {named!r} has no eager time in this run: {ours[0].record.reason or 'not measured'}"
        )
    return timed


def _print(main: Sequence[Standing], other: Sequence[Standing], form: str | None) -> None:
    from reports.explanation_render import WRITERS, render
    from reports.terminal import new_console

    beside = {one.record.case.group: one for one in other}
    shapes = [
        [
            (one, explain(one)),
            *((held, explain(held)) for held in [beside.get(one.record.case.group)] if held),
        ]
        for one in main
    ]
    if form:
        sys.stdout.write(WRITERS[form](shapes))
    else:
        render(shapes, new_console())
