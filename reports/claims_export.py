"""Judged claims for other programs: Markdown and JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from reports.claims import METHOD, from_findings
from reports.markdown import escape, joined, table
from reports.markdown_page import LIMIT, Block, Page
from results.claims.claim import CONFIDENCE
from results.codec import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reports.claims import Told
    from results.claims.claim import Part
    from results.claims.judging import Finding


def to_markdown(
    findings: Sequence[Finding], where: str, notes: Sequence[str] = (), limit: int = LIMIT
) -> str:
    """The table, then each claim with its two sentences, its statements and the command that measures it."""
    claims = from_findings(findings, where, notes)
    page = Page(limit, "--json has all of it")
    page.say(f"**{escape(claims.title)}**")
    page.say(escape(METHOD))
    page.most([f"- {escape(note)}" for note in claims.notes], 0, "notes")
    page.most(table(claims.table).split("\n"), 2, "claims")
    page.blocks([_block(told) for told in claims.told], "claims", "statements")
    return page.text


def to_json(findings: Sequence[Finding], where: str, notes: Sequence[str] = ()) -> str:
    """Everything as strict JSON: numbers in base units (ratios, shares of 1, counts, nats), what is unknown null."""
    everything = {
        "run": where,
        "confidence": CONFIDENCE,
        "notes": list(notes),
        "claims": [_claim(finding) for finding in findings],
    }
    return json.dumps(encode(everything), allow_nan=False, indent=1) + "\n"


WRITERS: dict[str, Callable[[Sequence[Finding], str, Sequence[str]], str]] = {
    "markdown": to_markdown,
    "json": to_json,
}
"""What can be written to stdout, by the name of its option."""


def _block(told: Told) -> Block:
    parts = (
        f"### {told.id}: {told.judgement}",
        f"> {escape(told.words)}",
        escape(" ".join(told.sentences)),
        table(told.statements),
        f"Measure it: {escape(told.command)}",
    )
    return Block(joined(parts), rows=len(told.statements.lines))


def _claim(finding: Finding) -> dict[str, Any]:
    (told,) = from_findings([finding], "").told
    return {
        "id": finding.claim.id,
        "words": finding.claim.words,
        "judgement": finding.judgement.value,
        "machine": finding.machine,
        "rule": finding.claim.rule,
        "sentences": list(told.sentences),
        "command": told.command,
        "statements": [_statement(part) for part in finding.parts],
    }


def _statement(part: Part) -> dict[str, Any]:
    number = part.number
    return {
        "about": part.about,
        "at": part.at,
        "says": part.says,
        "answer": part.answer.value,
        "margin": part.margin,
        "reason": part.reason,
        "value": number and number.value,
        "unit": number and number.unit.value,
        "low": number and number.low,
        "high": number and number.high,
    }
