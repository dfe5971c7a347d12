"""`explain`: where one variant's time goes in a recorded run, beside another's."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from harness.damage import damage_told
from harness.errors import UsageError, shown, unknown
from harness.report_command import recorded
from harness.verdict_output import at_most_one
from results.explanation import explain, why_no_time
from results.store import LATEST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from results.ranking import Standing


def show(variant: str, against: str | None, where: str | None, formats: Sequence[str]) -> None:
    """Print the bars of the variant at every shape, or why it has no time there.

    Both are a variant's name, or `stage/name`. `formats` holds at most one name of
    `reports.explanation_render.WRITERS`.

    Raises:
        UsageError: there is no such run or variant, its stage is not told, or two formats were asked for.
        HeadbenchError: what is stored cannot be shown.
    """
    form = at_most_one(formats)
    run = recorded(where or LATEST)
    with damage_told(run):
        standings = run.standings()
        if not standings:
            raise UsageError(f"run {run.path} timed nothing: --from names another")
        main = _of_variant(standings, variant, run.manifest.run_id)
        other = _beside(standings, against, main, run.manifest.run_id) if against is not None else []
        _print(main, other, form)
        if against is not None:
            _tell_missing(against, main, other)


def _tell_missing(against: str, main: Sequence[Standing], other: Sequence[Standing]) -> None:
    """At which shapes nothing stands beside the variant."""
    if groups := {one.record.case.group for one in main} - {one.record.case.group for one in other}:
        print(
            f"--against {shown(against)} has no case in this run at {', '.join(sorted(groups))}",
            file=sys.stderr,
        )


def _of_variant(
    standings: Sequence[Standing], named: str, run: str, stage: str | None = None
) -> list[Standing]:
    """The variant's cases, of which one at least has a time; in this stage, where the name does not tell one."""
    told, _, name = named.rpartition("/")
    told = told or stage or ""
    ours = [one for one in standings if one.variant == name and told in ("", one.record.case.stage)]
    if not ours:
        known = [f"{one.record.case.stage}/{one.variant}" if told else one.variant for one in standings]
        raise unknown("variant", f"{told}/{name}" if told else name, dict.fromkeys(known), f"run {run}")
    stages = dict.fromkeys(one.record.case.stage for one in ours)
    if len(stages) > 1:
        choices = " or ".join(f"{one}/{name}" for one in stages)
        raise UsageError(f"variant {name!r} belongs to several stages: {choices} would do")
    if not any("eager" in one.record.estimates for one in ours):
        raise UsageError(f"variant {named!r} has no eager time in this run: {why_no_time(ours[0])}")
    return ours


def _beside(standings: Sequence[Standing], named: str, main: Sequence[Standing], run: str) -> list[Standing]:
    """The cases of the variant that `main` is held against: of its stage, and at one of its shapes at least."""
    stage, name = main[0].record.case.stage, main[0].variant
    other = _of_variant(standings, named, run, stage)
    if other[0].record.case.stage != stage:
        raise UsageError(
            f"--against {shown(named)} is of another stage than {stage}/{name}: one of its own would do"
        )
    if not {one.record.case.group for one in main} & {one.record.case.group for one in other}:
        raise UsageError(f"--against {shown(named)} is at none of the shapes of {stage}/{name} in this run")
    return other


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
