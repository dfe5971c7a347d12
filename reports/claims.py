"""Judged claims as content: a table of them all, and for each two sentences with its numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports import units
from reports.columns import Column, Grid, Line
from reports.text import MISSING, plain
from results.claims.claim import Answer, Judgement, Unit
from results.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from results.claims.claim import Number, Part
    from results.claims.judging import Finding

METHOD = (
    "each claim is taken apart into statements that one number decides: its 99 % interval must lie on the claim's side "
    "of a margin fixed beforehand; supported: every statement holds; refuted: some fail and none holds; partly: what "
    "is between, also where a statement was not measured; not measurable here: no statement was decided by this run"
)

MOST_TOLD = 3
"""Statements of one kind in a sentence; the table of statements has them all."""


@dataclass(frozen=True, slots=True)
class Told:
    """One claim for every renderer: what was found in two sentences, the command, its statements, also as a grid."""

    id: str
    judgement: str
    words: str
    sentences: tuple[str, str]
    command: str
    statements: Grid[Part]
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Claims:
    """All that is shown of some findings; `notes` says what could not be read."""

    title: str
    table: Grid[Finding]
    told: tuple[Told, ...]
    notes: tuple[str, ...]


def from_findings(findings: Sequence[Finding], where: str, notes: Sequence[str] = ()) -> Claims:
    """Content of these findings, judged from the run at `where`."""
    counts = {judgement: sum(one.judgement is judgement for one in findings) for judgement in Judgement}
    said = ", ".join(f"{count} {judgement}" for judgement, count in counts.items() if count)
    machines = ", ".join(dict.fromkeys(one.machine for one in findings))
    return Claims(
        title=plain(f"{counted(len(findings), 'claim')} judged on {machines}, run {where}: {said}"),
        table=_table(findings),
        told=tuple(map(_told, findings)),
        notes=tuple(map(plain, notes)),
    )


def found(part: Part, *, interval: bool) -> str:
    """What a statement says of the shape it is about, its number in place, with its interval where that is wanted."""
    number = MISSING if part.number is None else _number(part.number, interval=interval)
    said = part.says.replace("{}", number)
    return plain(f"at {part.at}, {said}" if part.at else said)


def with_reason(part: Part) -> str:
    """The same with the interval, and with the reason of what is open."""
    said = found(part, interval=True)
    return f"{said} ({plain(part.reason)})" if part.reason else said


def _table(findings: Sequence[Finding]) -> Grid[Finding]:
    columns: tuple[Column[Finding], ...] = (
        Column("claim", lambda one: one.claim.id, left=True),
        Column("verdict", lambda one: one.judgement.value, left=True, least=12),
        Column("holds", lambda one: f"{len(one.of(Answer.HOLDS))} of {len(one.parts)}"),
        Column("the lesson says", lambda one: one.claim.words, left=True, least=24),
    )
    return Grid(columns, tuple(Line(tuple(column.cell(one) for column in columns)) for one in findings))


def _told(finding: Finding) -> Told:
    return Told(
        id=finding.claim.id,
        judgement=finding.judgement.value,
        words=finding.claim.words,
        sentences=_sentences(finding),
        command=f"python -m harness claims {finding.claim.id}",
        statements=_statements(finding.parts),
        parts=finding.parts,
    )


def _statements(parts: Sequence[Part]) -> Grid[Part]:
    columns: tuple[Column[Part], ...] = (
        Column("answer", lambda part: part.answer.value, left=True),
        Column("found", with_reason, left=True, least=32),
        Column("margin", lambda part: part.margin, left=True),
    )
    return Grid(columns, tuple(Line(tuple(column.cell(part) for column in columns)) for part in parts))


def _sentences(finding: Finding) -> tuple[str, str]:
    """What holds; then what does not, or stays open, or how it was judged where all holds."""
    holds, fails = (_joined(finding.of(answer)) for answer in (Answer.HOLDS, Answer.FAILS))
    open_ = [*finding.of(Answer.UNDECIDED), *finding.of(Answer.MISSING)]
    left = _joined(open_[:1], reasons=True) + (f" (and {len(open_) - 1} more)" if len(open_) > 1 else "")
    if holds and fails:
        return f"Holds: {holds}.", f"Does not hold: {fails}{f'; open: {left}' if open_ else ''}."
    if holds or fails:
        first = f"Holds: {holds}." if holds else f"Does not hold: {fails}."
        return first, f"Open: {left}." if open_ else f"Judged by this rule: {finding.claim.rule}."
    return (
        f"Nothing of it is decided: {left}.",
        f"It would be judged by: {finding.claim.rule}.",
    )


def _joined(parts: Sequence[Part], *, reasons: bool = False) -> str:
    """The statements, the first of each kind, which has the largest batch; the rest by number."""
    kinds: dict[str, Part] = {}
    for part in parts:
        kinds.setdefault(part.about, part)
    shown = [*kinds.values()][:MOST_TOLD]
    said = "; ".join(found(part, interval=False) + _why(part, reasons) for part in shown)
    more = len(parts) - len(shown)
    return f"{said}; and {counted(more, 'statement')} more" if more else said


def _why(part: Part, reasons: bool) -> str:
    return f": {plain(part.reason)}" if reasons and part.reason else ""


def _number(number: Number, *, interval: bool) -> str:
    value = _value(number.value, number.unit)
    if not interval or number.low is None or number.high is None:
        return value
    return f"{value} ({_value(number.low, number.unit)} to {_value(number.high, number.unit)})"


def _value(value: float, unit: Unit) -> str:
    match unit:
        case Unit.TIMES:
            return units.ratio(value)
        case Unit.SHARE:
            return units.percent(value)
        case Unit.COUNT if value == int(value):
            return f"{int(value):,}"
        case _:
            return units.significant(value, 3)
