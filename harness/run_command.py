"""`run`: from options to a stored, shown run. The script of a run's life, as the parent sees it."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import INTERRUPTED, HeadbenchError, UsageError, unknown
from harness.new_run import new_manifest, new_run_id, store_left_out
from harness.plan import ASIDES, LeftOut, Plan, leave_out, make_plan
from harness.plugins import changed_plugin, remember
from harness.probe import look
from harness.request import QUICK_BUDGET_S, QUICK_MODEL, REPLICATES, SILENCE_S, Selection, defaults_for
from harness.resuming import refuse_changes, sound_run
from harness.runner import START_GUESS_S
from harness.signals import ended_by_signals, ignore_signals
from results.run import WANTED
from results.store import RUNS, RunWriter, StoreError
from results.words import counted
from variants.direction import USEFUL
from variants.presets import PRESETS
from variants.stage import STAGES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from results.schema import Case

LEAST_TRIAL_S = {"cpu": 0.2, "cuda": 0.19}
"""About what verifying a forward case and its fewest samples take, at the default shapes; on an H200 the mean of 152.
Gradients take as many times longer as they are more work."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line said of a run; None leaves a setting to the device's default."""

    selection: Selection = field(default_factory=Selection)
    everything: bool = False
    quick: bool = False
    device: str | None = None
    budget_s: float | None = None
    replicates: int | None = None
    silence_s: float = SILENCE_S
    seed: int = 0
    counters: str | None = None
    plugins: tuple[Path, ...] = ()
    out: Path | None = None

    def __post_init__(self) -> None:
        if self.counters is not None and self.counters not in WANTED:
            raise unknown("--counters", self.counters, WANTED)


@ended_by_signals()
def start(options: Options) -> int:
    """Plan, measure, show; the exit code.

    Raises:
        UsageError: something asked for is not there or does not fit.
        HeadbenchError: the run cannot be stored, or cannot go on.
    """
    plan, environment = _plan(options)
    settings = _settings(options, environment)
    _announce(plan, environment, settings)
    manifest = new_manifest(new_run_id(environment), environment, plan.cases, settings)
    with _storing(lambda: RunWriter.create(options.out or RUNS, manifest)) as writer:
        return _measure(writer, settings["budget_s"], plan.left_out)


def dry_run(options: Options) -> int:
    """Print what would run and what would be left out, with reasons."""
    plan, environment = _plan(options)
    _announce(plan, environment, _settings(options, environment))
    for group in plan.groups:
        print(
            f"  {group.stage:10} {group.direction:9}{group.shape}: {', '.join(case.variant for case in group.cases)}"
        )
    for reason in dict.fromkeys(f"{outcome.value}: {reason}" for _, outcome, reason in plan.left_out):
        left = ((c.stage, c.variant) for c, o, r in plan.left_out if f"{o.value}: {r}" == reason)
        print(f"  left out, {reason}: {_by_stage(left)}")
    if plan.asides:
        print(f"  {ASIDES}: {_by_stage(plan.asides)}")
    return 0


def _by_stage(variants: Iterable[tuple[str, str]]) -> str:
    """`relayout in split; fused_graph, custom in stack`: the same name may be another matter in another stage."""
    of_stage: dict[str, dict[str, None]] = {}
    for stage, name in variants:
        of_stage.setdefault(stage, {})[name] = None
    return "; ".join(f"{', '.join(of_stage[stage])} in {stage}" for stage in STAGES if stage in of_stage)


@ended_by_signals()
def resume(path: Path, options: Options) -> int:
    """Measure what the run at `path` lacks, with its own settings; only --budget may be given anew.

    Raises:
        UsageError: other options are given, or the machine, headbench or a plugin is not the one it was.
    """
    if replace(options, budget_s=None) != Options():
        raise UsageError(
            f"--resume {path} takes its settings from the run: only --budget may be given beside it"
        )
    path = sound_run(path)
    with _storing(lambda: RunWriter.resume(path)) as writer:
        run = writer.run
        plugins = tuple(Path(plugin["path"]) for plugin in run.manifest.settings["plugins"])
        if changed := changed_plugin(run.manifest.settings["plugins"]):
            raise UsageError(
                f"{path} cannot be resumed: plugin {changed} has changed since; start a new run instead"
            )
        environment, variants = look(run.manifest.environment["device"], plugins)
        refuse_changes(run, environment)
        missing = run.missing()
        left_out = leave_out([case for replicate, case in missing if replicate == 0], variants, environment)
        whole = run.manifest.replicates * len(run.manifest.cases)
        budget_s = options.budget_s or max(5.0, run.manifest.settings["budget_s"] * len(missing) / whole)
        lacking = f"missing: {counted(len(missing), 'trial') if missing else 'what is to be observed'}"
        print(f"resuming {path}; {lacking}; about {budget_s:.0f} s", flush=True)
        return _measure(writer, budget_s, left_out)


def _plan(options: Options) -> tuple[Plan, dict[str, Any]]:
    if not (options.everything or options.quick or options.selection != Selection()):
        raise UsageError(
            f"nothing selected: --quick, --all, or any of --stage ({', '.join(STAGES)}), --model "
            f"({', '.join(PRESETS)}), --variant, --head-dim, --n-head, --d-model, --n-layer, --batch, --seq-len, "
            "--mask, --dtype, --direction"
        )
    if options.replicates is not None and not 1 <= options.replicates <= 100:
        raise UsageError(f"--replicates {options.replicates} is out of range: 1 to 100 would do")
    environment, variants = look(options.device, options.plugins)
    selection = options.selection
    if options.quick and not (
        selection.models or selection.d_model or selection.n_head or selection.head_dim or selection.n_layer
    ):
        selection = replace(selection, models=(QUICK_MODEL,))
    if options.quick and not (selection.stages or selection.variants or selection.n_layer):
        one_layer = tuple(name for name, stage in STAGES.items() if not stage.deep)
        selection = replace(selection, stages=one_layer)  # a stack takes a CPU longer than a first look may
    plan = make_plan(selection, variants, environment)
    if not plan.cases:
        raise UsageError("nothing to measure: no variant of these stages could be loaded")
    return plan, environment


def _settings(options: Options, environment: dict[str, Any]) -> dict[str, Any]:
    budget_s = QUICK_BUDGET_S if options.quick else defaults_for(environment["device"]).budget_s
    return {
        "budget_s": options.budget_s or budget_s,
        "replicates": options.replicates or (1 if options.quick else REPLICATES),
        "silence_s": options.silence_s,
        "seed": options.seed,
        "counters": options.counters or "gpm",
        "watched": not options.quick,
        "plugins": remember(options.plugins),
    }


def _announce(plan: Plan, environment: dict[str, Any], settings: dict[str, Any]) -> None:
    for notice in environment["notices"]:
        print(notice)
    machine = environment["gpu"] or environment["cpu"]
    print(
        f"{plan.measured} of {counted(len(plan.cases), 'case')} in {counted(len(plan.groups), 'group')} × "
        f"{counted(settings['replicates'], 'replicate')} on {machine['name']}; "
        f"{_estimate(plan, environment, settings)}",
        flush=True,
    )


def _estimate(plan: Plan, environment: dict[str, Any], settings: dict[str, Any]) -> str:
    """`up to about 180 s`, the budget; `at least 35 s` where starting, verifying and observing alone take more."""
    from harness import counting, observations

    if not plan.measured:
        return "nothing to measure here, each case has its reason"
    device = environment["device"].partition(":")[0]
    trials = sum(USEFUL[group.direction] * len(group.cases) for group in plan.groups)
    replicate_s = START_GUESS_S[device] + LEAST_TRIAL_S[device] * trials
    watching_s = observations.usual_s(plan.measured, device, watched=settings["watched"])
    least_s = settings["replicates"] * replicate_s + watching_s
    counts = settings["counters"] == "ncu" and device == "cuda"
    counting_s = counting.usual_s([None] * plan.measured) if counts else 0.0
    budget_s = settings["budget_s"]
    estimate = f"up to about {budget_s:.0f} s" if budget_s >= least_s else f"at least {least_s:.0f} s"
    return f"{estimate}, and some {counting_s:.0f} s more for Nsight Compute" if counts else estimate


def _storing(opened: Callable[[], RunWriter]) -> RunWriter:
    try:
        return opened()
    except StoreError as error:
        raise HeadbenchError(str(error)) from error


def _measure(writer: RunWriter, budget_s: float, left_out: tuple[LeftOut, ...] = ()) -> int:
    """Measure and show; whatever ends the measuring, what is there is shown first."""
    run, fault, code = writer.run, None, 0
    try:
        fill(writer, budget_s, left_out)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except StoreError as error:
        fault = HeadbenchError(str(error))
    except HeadbenchError as error:
        fault = error
    ignore_signals()
    go_on = f"go on with: python -m harness run --resume {writer.path}"
    if code == INTERRUPTED and all(trial.outcome.never_tried for trial in run.trials):
        print(f"interrupted before anything was measured; {go_on}", file=sys.stderr)
        return code
    from harness.report_command import print_report  # here, where no signal can cut it off

    print_report(run)
    if fault:
        raise fault
    if code == INTERRUPTED:
        print(f"interrupted: what was measured is stored; {go_on}", file=sys.stderr)
        return code
    return int(any(trial.outcome.failed for trial in run.trials))


def fill(
    writer: RunWriter,
    budget_s: float,
    left_out: tuple[LeftOut, ...],
    counted: Collection[Case] | None = None,
) -> None:
    """Measure, observe and count what the run lacks, in about `budget_s` seconds; count `counted` alone if given.

    Raises:
        HeadbenchError: it cannot go on; what was measured is stored.
        StoreError: the disk refused.
    """
    from harness.counting import Counting
    from harness.observations import Observing, usual_s
    from harness.progress import Progress
    from harness.runner import Runner

    run = writer.run
    store_left_out(writer, left_out)
    with Progress(len(run.missing()), budget_s) as progress:
        observed = {one.case for one in run.observations} | {case for case, _, _ in left_out}
        observing_s = usual_s(
            len(set(run.manifest.cases) - observed),
            run.manifest.environment["device"],
            watched=run.manifest.settings.get("watched", True),
        )
        Runner(writer, progress).run(budget_s - observing_s)
        Observing(writer, progress).run()
        Counting(writer, progress, counted).run()
