"""From a claim and its evidence to a finding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from results.claims.claim import Answer, Judgement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from results.claims.claim import Claim, Part
    from results.claims.evidence import Evidence


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim, judged; `parts` hold the numbers, `machine` what they were measured on."""

    claim: Claim
    judgement: Judgement
    parts: tuple[Part, ...]
    machine: str

    def of(self, answer: Answer) -> list[Part]:
        """The parts with this answer, in order."""
        return [part for part in self.parts if part.answer is answer]


def judge(claim: Claim, evidence: Evidence) -> Finding:
    """What the evidence says of the claim."""
    parts = tuple(claim.parts(evidence))
    return Finding(claim, judgement_of(parts), parts, evidence.machine)


def judgement_of(parts: Sequence[Part]) -> Judgement:
    """The verdict that the parts' answers make together (see `results.claims.claim`)."""
    answers = [part.answer for part in parts]
    if Answer.HOLDS not in answers and Answer.FAILS not in answers:
        return Judgement.NOT_MEASURABLE
    if Answer.HOLDS not in answers:
        return Judgement.REFUTED
    return Judgement.SUPPORTED if set(answers) == {Answer.HOLDS} else Judgement.PARTLY
