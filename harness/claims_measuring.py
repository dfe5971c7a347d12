"""What claims need, planned and measured: cases as any run's, experiments beside them, one run for all."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Any

from harness.counting import usual_s as counting_s
from harness.errors import INTERRUPTED, HeadbenchError
from harness.experiments import jobs_for, make
from harness.new_run import new_manifest, new_run_id
from harness.observations import usual_s
from harness.plan import Group, Plan, make_plan
from harness.probe import look
from harness.request import SILENCE_S, Selection
from harness.run_command import fill
from harness.signals import ended_by_signals, ignore_signals
from results.run import Run
from results.store import RUNS, RunWriter, StoreError
from results.words import counted
from variants.stage import STAGES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from harness.claims_command import Options
    from harness.plan import LeftOut, VariantFacts
    from results.claims.claim import Cases, Claim
    from results.schema import Case

CASE_S = {"cpu": 0.4, "cuda": 0.3}
"""Of the budget, for a case in each replicate; a quick one takes its fewest samples whatever the budget."""

START_S = 10.0
"""Of the budget, for a worker's start."""

REPLICATES, QUICK_REPLICATES = 5, 3
"""With one there is no interval, and so no verdict; the t quantile of three is twice that of five."""


@ended_by_signals()
def measure(claims: Sequence[Claim], options: Options, show: Callable[[Run], None]) -> int:
    """Measure, then `show` what is there, whatever ended the measuring; 0, or 130 when interrupted.

    Raises:
        UsageError: the device is not there.
        HeadbenchError: the run cannot be stored, or cannot go on.
    """
    environment, variants = look(options.device, ())
    plan = plan_of((cases for claim in claims for cases in claim.cases), variants, environment)
    to_count = cases_to_count(claims, variants, environment)
    jobs = jobs_for((kind for claim in claims for kind in claim.experiments), quick=options.quick)
    settings = _settings(plan, environment, counters="ncu" if to_count else "gpm", quick=options.quick)
    _announce(plan, len(to_count), len(jobs), environment, settings)
    manifest = new_manifest(new_run_id(environment), environment, plan.cases, settings)
    if not plan.cases and not jobs:
        show(Run(RUNS / manifest.run_id, manifest))  # an empty run on the disk would be the latest
        return 0
    code, fault = 0, None
    try:
        with RunWriter.create(options.out or RUNS, manifest) as writer:
            run = writer.run
            try:
                if plan.cases:
                    fill(writer, settings["budget_s"], plan.left_out, to_count)
                make(jobs, writer.path, lambda told: print(told, file=sys.stderr, flush=True))
            except KeyboardInterrupt:
                code = INTERRUPTED
            except (HeadbenchError, StoreError) as error:
                fault = HeadbenchError(str(error))
    except StoreError as error:
        raise HeadbenchError(str(error)) from error
    ignore_signals()
    try:
        show(run)
    finally:  # whatever ends the showing
        print(f"stored in {run.path}; judge again: {_again(claims, run)}", file=sys.stderr)
    if fault:
        raise fault
    return code


def plan_of(wanted: Iterable[Cases], variants: list[VariantFacts], environment: dict[str, Any]) -> Plan:
    """All these cases, each once, as far as this version and this device have their stages and variants."""
    on_gpu = environment["device"] != "cpu"
    groups: dict[str, Group] = {}
    left_out: dict[Case, LeftOut] = {}
    for cases in dict.fromkeys(wanted):
        selection = selection_of(cases, variants)
        if selection is None or (cases.needs_gpu and not on_gpu):
            continue
        plan = make_plan(selection, variants, environment)
        left_out |= {case: (case, outcome, reason) for case, outcome, reason in plan.left_out}
        for group in plan.groups:
            key = group.cases[0].group
            before = groups[key].cases if key in groups else ()
            groups[key] = Group(group.stage, group.shape, tuple(dict.fromkeys((*before, *group.cases))))
    return Plan(tuple(groups.values()), tuple(left_out.values()))


def selection_of(cases: Cases, variants: Iterable[VariantFacts]) -> Selection | None:
    """What `run` would be asked for; None where nothing of it exists."""
    stages = tuple(stage for stage in cases.stages if stage in STAGES)
    known = {variant.name for variant in variants if variant.stage in stages}
    named = tuple(name for name in cases.variants if name in known)
    if not stages or not known or (cases.variants and not named):
        return None
    return Selection(
        stages=stages,
        variants=named,
        d_model=cases.d_model,
        n_head=cases.n_head,
        head_dim=cases.head_dim,
        batch=cases.batch,
        masks=cases.masks,
    )


def cases_to_count(
    claims: Iterable[Claim], variants: list[VariantFacts], environment: dict[str, Any]
) -> tuple[Case, ...]:
    """The cases whose counters a claim asks for; none on a CPU."""
    wanted = (cases for claim in claims for cases in claim.cases if cases.counters)
    groups = plan_of(wanted, variants, environment).groups if environment["device"] != "cpu" else ()
    return tuple(case for group in groups for case in group.cases)


def _settings(plan: Plan, environment: dict[str, Any], *, counters: str, quick: bool) -> dict[str, Any]:
    device = environment["device"].partition(":")[0]
    replicates = QUICK_REPLICATES if quick else REPLICATES
    timing_s = replicates * (START_S + CASE_S[device] * plan.measured * (not quick))
    return {
        "budget_s": timing_s + usual_s(plan.measured, device),
        "replicates": replicates,
        "silence_s": SILENCE_S,
        "seed": 0,
        "counters": counters,
        "plugins": [],
    }


def _announce(
    plan: Plan, to_count: int, jobs: int, environment: dict[str, Any], settings: dict[str, Any]
) -> None:
    for notice in environment["notices"]:
        print(notice, file=sys.stderr)
    machine = environment["gpu"] or environment["cpu"]
    timed = f"{counted(plan.measured, 'case')} × {counted(settings['replicates'], 'replicate')} on {machine['name']}"
    told = [f"{timed}, about {settings['budget_s']:.0f} s"] if plan.measured else []
    if to_count:
        seconds = counting_s([None] * to_count)
        told += [f"{counted(to_count, 'case')} under Nsight Compute, some {seconds:.0f} s"]
    told += [f"{counted(jobs, 'experiment')} on the CPU"] if jobs else []
    print(
        "; then ".join(told) or f"nothing of it can be measured on {machine['name']}",
        file=sys.stderr,
        flush=True,
    )


def _again(claims: Sequence[Claim], run: Run) -> str:
    return shlex.join(
        ["python", "-m", "harness", "claims", *(claim.id for claim in claims), "--from", str(run.path)]
    )
