"""The lesson's thirteen claims: each with its words, the experiment it needs, and the rule that judges it."""

from results.claims.catalogue import CLAIMS
from results.claims.evidence import Evidence
from results.claims.judging import Finding, judge

__all__ = ["CLAIMS", "Evidence", "Finding", "judge"]
