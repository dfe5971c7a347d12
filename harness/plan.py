"""The plan: stages × directions × shapes × variants as groups of cases; every case left out has a reason."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import product
from typing import TYPE_CHECKING, Any

from harness.errors import UsageError, unknown
from harness.request import Selection, defaults_for
from results.schema import Case, Outcome
from variants.direction import FORWARD
from variants.shape import Shape
from variants.stage import STAGES
from variants.variant import Requires

if TYPE_CHECKING:
    from collections.abc import Iterable

LeftOut = tuple[Case, Outcome, str]

MOST_FLOPS = 10**18

_GONE = Outcome.UNAVAILABLE, "there is no variant of this name any more"

ASIDES = "measured where --variant names it, or a claim needs it"
"""Where a run has an aside (`Variant.aside`), in words."""


@dataclass(frozen=True, slots=True)
class VariantFacts:
    """What the parent knows of a variant without importing it; the probe sends these."""

    stage: str
    name: str
    hypothesis: str
    needs: str
    missing: str | None
    dtypes: tuple[str, ...] | None
    plugin: bool = False
    arrives: str = "contiguous"
    aside: bool = False
    no_backward: str | None = None

    def left_out(self, shape: Shape, direction: str, device: str) -> tuple[Outcome, str] | None:
        """Why this variant is not measured at this shape in this direction, or None."""
        if self.missing:
            return Outcome.UNAVAILABLE, self.missing
        if self.stage in STAGES and (why := STAGES[self.stage].idle(shape)):
            return Outcome.UNSUPPORTED, why
        if direction != FORWARD and (why := self.why_forward_alone):
            return Outcome.UNSUPPORTED, f"has no backward: {why}"
        if shape.dtype == "tf32" and device == "cpu":
            return Outcome.UNSUPPORTED, "tf32 is a tensor-core format: it needs a CUDA device"
        refusal = Requires(dtypes=self.dtypes).refuses(shape.dtype)
        return (Outcome.UNSUPPORTED, refusal) if refusal else None

    @property
    def why_forward_alone(self) -> str | None:
        """Why there are no gradients to be measured, or None."""
        if self.stage in STAGES and not STAGES[self.stage].gradients:
            return "the stage has no reference for gradients"
        return self.no_backward


@dataclass(frozen=True, slots=True)
class Group:
    """The cases of one stage × shape × direction: interleaved, ranked and compared with each other."""

    stage: str
    shape: Shape
    cases: tuple[Case, ...]

    @property
    def direction(self) -> str:
        """Alike in all of them."""
        return self.cases[0].direction


@dataclass(frozen=True, slots=True)
class Plan:
    """Groups to measure, and the cases left out, each with its outcome and reason. `cases` is the whole grid.

    `asides` are variants of its stages, as (stage, name), that are in none of them: they were not asked for by name.
    """

    groups: tuple[Group, ...]
    left_out: tuple[LeftOut, ...]
    asides: tuple[tuple[str, str], ...] = ()

    @property
    def cases(self) -> tuple[Case, ...]:
        """Every case of the grid, group by group, the ones left out after the others."""
        grid = {case.group: list(group.cases) for group in self.groups for case in group.cases[:1]}
        for case, _, _ in self.left_out:
            grid.setdefault(case.group, []).append(case)
        return tuple(case for cases in grid.values() for case in cases)

    @property
    def measured(self) -> int:
        """How many cases each replicate measures."""
        return sum(len(group.cases) for group in self.groups)


def make_plan(selection: Selection, variants: list[VariantFacts], environment: dict[str, Any]) -> Plan:
    """Expand the selection for the machine that `environment` describes.

    Raises:
        UsageError: a variant is unknown, or a shape cannot fit this machine's memory.
    """
    device = environment["device"]
    stages = selection.stages or tuple(STAGES)
    chosen = _choose(selection.variants, stages, variants)
    defaults = defaults_for(device)
    groups, left_out = [], []
    for stage in STAGES:
        of_stage = [v for v in chosen if v.stage == stage]
        shapes = selection.shapes(defaults, stage) if of_stage else ()
        for direction, shape in product(selection.directions or (FORWARD,), shapes):
            _refuse_absurd(stage, shape, direction, environment)
            refusals = {v.name: v.left_out(shape, direction, device) for v in of_stage}
            cases = {v.name: case_of(stage, v.name, shape, direction) for v in of_stage}
            left_out += [(cases[name], *refusal) for name, refusal in refusals.items() if refusal]
            measured = tuple(case for name, case in cases.items() if not refusals[name])
            if measured:
                groups.append(Group(stage, shape, measured))
    unnamed = (
        (v.stage, v.name) for v in variants if v.aside and v.stage in stages and not selection.variants
    )
    return Plan(tuple(groups), tuple(left_out), tuple(unnamed))


def leave_out(
    cases: list[Case], variants: list[VariantFacts], environment: dict[str, Any]
) -> tuple[LeftOut, ...]:
    """Those of the cases that this machine, as it is now, cannot measure."""
    known = {(variant.stage, variant.name): variant for variant in variants}
    left_out = []
    for case in cases:
        variant = known.get((case.stage, case.variant))
        refusal: tuple[Outcome, str] | None = _GONE
        if variant:
            refusal = variant.left_out(shape_of(case), case.direction, environment["device"])
        if refusal:
            left_out.append((case, *refusal))
    return tuple(left_out)


def case_of(stage: str, variant: str, shape: Shape, direction: str = FORWARD) -> Case:
    """The stored identity of a case."""
    return Case(
        stage=stage,
        variant=variant,
        direction=direction,
        batch=shape.batch,
        seq_len=shape.seq_len,
        d_model=shape.d_model,
        n_head=shape.n_head,
        head_dim=shape.head_dim,
        causal=shape.causal,
        dtype=shape.dtype,
        n_layer=shape.n_layer,
    )


def shape_of(case: Case) -> Shape:
    """The shape a stored case was measured at."""
    return Shape(case.batch, case.seq_len, case.d_model, case.n_head, case.causal, case.dtype, case.n_layer)


def figures(case: Case) -> dict[str, Any]:
    """What every trial of the case says of its work."""
    stage, shape = STAGES[case.stage], shape_of(case)
    return {
        "useful_flops": stage.useful_flops(shape, case.direction),
        "least_bytes": stage.least_bytes(shape, case.direction),
        "parameters": stage.parameters(shape),
    }


def group_cases(cases: list[Case]) -> tuple[Group, ...]:
    """Stored cases as groups again, in their order."""
    grouped: dict[str, list[Case]] = {}
    for case in cases:
        grouped.setdefault(case.group, []).append(case)
    return tuple(Group(of[0].stage, shape_of(of[0]), tuple(of)) for of in grouped.values())


def is_named(name: str, asked: Iterable[str]) -> bool:
    """Whether one of these is the variant's name, or a glob of it, as in `*_strided`."""
    return any(fnmatchcase(name, glob) for glob in asked)


def _choose(
    asked: tuple[str, ...], stages: tuple[str, ...], variants: list[VariantFacts]
) -> list[VariantFacts]:
    """The stages' variants that are named; where none is, all but asides."""
    candidates = [v for v in variants if v.stage in stages]
    known = sorted({v.name for v in candidates})
    for name in asked:
        if any(is_named(one, (name,)) for one in known):
            continue
        nowhere = [v.missing for v in variants if v.name == name and v.stage not in STAGES]
        if nowhere:  # an installed file that failed before it could name its stage
            raise UsageError(f"variant {name!r} cannot be used: {nowhere[0]}")
        elsewhere = sorted({v.stage for v in variants if v.name == name})
        if elsewhere:
            raise UsageError(
                f"variant {name!r} belongs to {', '.join(elsewhere)}, not to {', '.join(stages)}"
            )
        raise unknown("variant", name, known)
    return [v for v in candidates if (is_named(v.name, asked) if asked else not v.aside)]


def _refuse_absurd(stage: str, shape: Shape, direction: str, environment: dict[str, Any]) -> None:
    """Refuse, before anything is allocated, a shape whose inputs and output alone exceed the memory."""
    owner = environment["gpu"] or environment["cpu"]
    need, have = STAGES[stage].least_bytes(shape, direction), owner["memory_bytes"]
    if need > have:
        raise UsageError(
            f"{stage} at {shape} needs at least {_size(need)} for its inputs and output, {owner['name']} has "
            f"{_size(have)}: {_smaller(stage, shape, have)} would do"
        )
    if (flops := STAGES[stage].useful_flops(shape, direction)) > MOST_FLOPS:
        raise UsageError(
            f"{stage} at {shape} is {flops:.1e} FLOP a call, over the {MOST_FLOPS:.0e} that the "
            f"fastest GPU does in a quarter of an hour: {_smaller(stage, shape)} would do"
        )


def _smaller(stage: str, shape: Shape, memory_bytes: float = math.inf) -> str:
    """Which sizes to lower: those of the activations, unless the weights alone are more than the memory."""
    weights = STAGES[stage].parameters(shape) * shape.element_bytes
    sizes = ["d_model"] if weights > memory_bytes else ["--batch", "--seq-len"]
    if STAGES[stage].deep:
        sizes.append("--n-layer")
    return "a smaller " + " or ".join([", ".join(sizes[:-1]), sizes[-1]] if len(sizes) > 1 else sizes)


def _size(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if count < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} EiB"
