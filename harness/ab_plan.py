"""What an `ab` is going to measure: both sides' plans, the cases they share, and what must be said beforehand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from harness.child import RUNNING
from harness.errors import HeadbenchError, UsageError, unknown
from harness.plan import LeftOut, Plan, VariantFacts, is_named, make_plan
from harness.probe import INSTALLED, look
from harness.side_code import differing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.request import Selection
    from harness.sides import Side
    from results.schema import Case

SAME_CODE = "base and head hold the same code"


@dataclass(frozen=True, slots=True)
class SidePlan:
    """One side: its environment, the whole grid asked for as it has it, and what it leaves out, with reasons."""

    side: Side
    environment: dict[str, Any]
    cases: tuple[Case, ...]
    left_out: tuple[LeftOut, ...]

    @property
    def measurable(self) -> tuple[Case, ...]:
        """The cases that this side can measure here."""
        left_out = {case for case, _, _ in self.left_out}
        return tuple(case for case in self.cases if case not in left_out)


@dataclass(frozen=True, slots=True)
class AbPlan:
    """Both sides, and the cases that both can measure, in head's order."""

    base: SidePlan
    head: SidePlan

    @property
    def cases(self) -> tuple[Case, ...]:
        """What is measured."""
        both = set(self.base.measurable)
        return tuple(case for case in self.head.measurable if case in both)

    def notices(self) -> Iterator[str]:
        """What is to be known before the verdicts, a line each."""
        told = self.head.environment["notices"]
        yield from told
        for one in self.base.environment["notices"]:
            if one not in told and one.startswith(INSTALLED):  # the machine is head's, and has been told of
                yield f"base: {one}"
        for plan in (self.base, self.head):
            yield from (
                f"{plan.side.name} lacks {plugin}: its variants are not compared"
                for plugin in plan.side.absent
            )
        for one, other in ((self.base, self.head), (self.head, self.base)):
            if alone := sorted({case.variant for case in one.cases} - {case.variant for case in other.cases}):
                yield f"only in {one.side.name}, so not compared: {', '.join(alone)}"
        yield from _about_code(self.base.side, self.head.side, self._same_code())

    def _same_code(self) -> bool:
        digests = [
            (plan.environment.get("source_sha256"), [path.read_bytes() for path in plan.side.plugins])
            for plan in (self.base, self.head)
        ]
        return digests[0] == digests[1]


def plan_sides(
    base: Side, head: Side, selection: Selection, only: Sequence[str], device: str | None
) -> AbPlan:
    """Ask each side what it has, with its own code and interpreter, and expand the selection for it.

    Raises:
        UsageError: the selection names what neither side has, or a side cannot use the device or a plugin.
        HeadbenchError: a side's code cannot be run at all; the message names the side.
    """
    environment, of_head = _look(head, device)
    on_base, of_base = _look(base, environment["device"])  # a base that lacks CUDA must not measure the CPU
    known = {one.name for one in (*of_base, *of_head)}
    for name in selection.variants:
        if not any(is_named(one, (name,)) for one in known):
            raise unknown("variant", name, sorted(known))
    plans = [
        _side_plan(side, facts, variants, selection)
        for side, facts, variants in ((base, on_base, of_base), (head, environment, of_head))
    ]
    _refuse_unmatched(only, [case for plan in plans for case in plan.cases])
    return AbPlan(*(_only(plan, only) for plan in plans))


def _look(side: Side, device: str | None) -> tuple[dict[str, Any], list[VariantFacts]]:
    try:
        environment, variants = look(device, side.plugins, side.program)
        # In a copy of a tree, git is not there to be asked.
        return {**environment, "git": side.git}, [one for one in variants if one.plugin or not side.shared]
    except HeadbenchError as error:
        said = f"{side.name} ({side.label}): {error}"
        if side.program.python == RUNNING.python:
            raise type(error)(said) from error
        raise UsageError(f"{said}; install headbench's requirements for that Python") from error
    except (KeyError, TypeError, ValueError) as error:
        raise HeadbenchError(
            f"{side.name} ({side.label}): its headbench answers in another version's words ({error!r})"
        ) from error


def _side_plan(
    side: Side, environment: dict[str, Any], variants: list[VariantFacts], selection: Selection
) -> SidePlan:
    """The side's grid; a variant that the other side alone has is no fault."""
    its = tuple(name for name in selection.variants if any(is_named(one.name, (name,)) for one in variants))
    plan = Plan((), ())
    if its or not selection.variants:
        plan = make_plan(replace(selection, variants=its), variants, environment)
    return SidePlan(side, environment, plan.cases, plan.left_out)


def _only(plan: SidePlan, globs: Sequence[str]) -> SidePlan:
    if not globs:
        return plan
    return replace(
        plan,
        cases=tuple(case for case in plan.cases if any(_matches(case, glob) for glob in globs)),
        left_out=tuple(one for one in plan.left_out if any(_matches(one[0], glob) for glob in globs)),
    )


def _matches(case: Case, glob: str) -> bool:
    return any(fnmatchcase(name, glob) for name in (case.key, case.stage, case.variant))


def _refuse_unmatched(globs: Sequence[str], cases: Sequence[Case]) -> None:
    for glob in globs:
        if not any(_matches(case, glob) for case in cases):
            example = f"; a key is as {cases[0].key}" if cases else ""
            raise UsageError(
                f"--only {glob} matches no case's key, stage or variant: a glob of one would do, as '*/sdpa*'{example}"
            )


def _about_code(base: Side, head: Side, same: bool) -> Iterator[str]:
    if files := differing(base.program.root, head.program.root):
        named = ", ".join(files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")
        yield f"the measuring code differs ({named}): a difference in time may be the clock's"
    elif same and not base.shared and base.program.python == head.program.python:
        yield SAME_CODE
