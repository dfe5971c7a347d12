"""Shapes in as few words as tell them apart, and what all of them share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports.columns import case_title, in_words, telling

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from results.schema import Case


def shapes(among: Sequence[Case]) -> Callable[[Case], str]:
    """The words for a case's shape: `batch 32, d_model 768 = 12×64`; the whole shape where there is but one."""
    told = [one for one in telling(among) if one[0] != "direction"]

    def words(case: Case) -> str:
        return in_words(case, told) or ", ".join(case_title(case)[1:])

    return words


def common(among: Sequence[Case]) -> str:
    """What all of these have in common: `seq_len 1024, causal, bf16`; nothing of none."""
    if not among:
        return ""
    parts = [set(case_title(case)[1:]) for case in among]
    shared = set.intersection(*parts)
    return ", ".join(part for part in case_title(among[0])[1:] if part in shared)
