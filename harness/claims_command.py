"""`claims`: the lesson's claims, each measured, or looked up in a recorded run, and judged. Never a failure."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.damage import damage_told
from harness.errors import HeadbenchError, UsageError, shown
from harness.report_command import recorded
from harness.verdict_output import at_most_one
from results.claims import CLAIMS, Evidence, judge
from results.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from results.claims.claim import Claim
    from results.run import Run


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line said; `formats` holds at most one name of `reports.claims_export.WRITERS`."""

    claims: tuple[str, ...] = ()
    recorded: str | None = None
    quick: bool = False
    device: str | None = None
    out: Path | None = None
    formats: tuple[str, ...] = ()


def show(options: Options) -> int:
    """Measure what the claims need, or read it, and print what it says of them; 0, or 130 when interrupted.

    Raises:
        UsageError: a claim is unknown, the run cannot be read, or options exclude each other.
        HeadbenchError: something could not be measured to its end, or not be stored.
    """
    claims = chosen(options.claims)
    form = at_most_one(options.formats)
    if options.recorded is None:
        return _measure(claims, options, form)
    for name, given in (("--quick", options.quick), ("--device", options.device), ("--out", options.out)):
        if given:
            raise UsageError(
                f"{name} is for measuring, --from {options.recorded} measures nothing: one would do"
            )
    _print(claims, recorded(options.recorded), form)
    return 0


def chosen(named: Sequence[str]) -> list[Claim]:
    """The claims of these ids, in whatever case they are written, in the lesson's order; all where none is named.

    Raises:
        UsageError: an id is unknown.
    """
    ids = {one.upper() for one in named}
    for one in named:
        if one.upper() not in CLAIMS:
            raise UsageError(f"claim {shown(one)} is unknown: the lesson's are C1 to C13, as in claims C2 C8")
    return [claim for claim in CLAIMS.values() if not ids or claim.id in ids]


def _print(claims: Sequence[Claim], run: Run, form: str | None) -> None:
    from reports.claims import from_findings
    from reports.claims_export import WRITERS
    from reports.claims_terminal import render
    from reports.terminal import new_console

    with damage_told(run):
        try:
            evidence = Evidence.of(run)
        except StoreError as error:
            raise HeadbenchError(str(error)) from error
        findings = [judge(claim, evidence) for claim in claims]
        where, notes = run.manifest.run_id, [*run.notes, *evidence.observed.notes]
        if form:
            sys.stdout.write(WRITERS[form](findings, where, notes))
        else:
            render(from_findings(findings, where, notes), new_console())


def _measure(claims: Sequence[Claim], options: Options, form: str | None) -> int:
    from harness import claims_measuring

    return claims_measuring.measure(claims, options, lambda run: _print(claims, run, form))
