"""`ab`: is the head slower than the base? From two versions of the code to stored pairs and a verdict per case."""

from __future__ import annotations

import shutil
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.ab_plan import SAME_CODE, AbPlan, SidePlan, plan_sides
from harness.errors import INTERRUPTED, HeadbenchError, UsageError, unknown
from harness.new_run import new_manifest, new_run_id, store_left_out
from harness.pairs import MOST_PAIRS, PairMeasurement
from harness.plugins import remember
from harness.request import QUICK_MODEL, SILENCE_S, Selection
from harness.run_command import LEAST_TRIAL_S
from harness.runner import START_GUESS_S, Runner
from harness.sides import SideRequest, prepare
from harness.signals import ended_by_signals, ignore_signals
from results.paired import GUARDED, PairedRuns
from results.paired_case import FIRST, FRESH
from results.schema import MODES
from results.session import SIDES
from results.store import RUNS, RunWriter, StoreError
from results.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from results.comparison import Comparisons

REGRESSION, UNDECIDED = 3, 4

CASE_S = 0.4
"""What a case gets in each process unless --budget says otherwise, its checks included: its median is then known to
a fraction of what processes differ by, and more in one process says nothing more."""

TARGET_PRECISION = 0.003
"""A process's median is to be known to so much either way: at a run's half percent its own scatter would hide a true
change of 1 % too often."""

PROCESSES = len(SIDES) * MOST_PAIRS


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line said; None leaves a setting to its default."""

    base: str | None = None
    head: str | None = None
    base_python: Path | None = None
    head_python: Path | None = None
    guard: tuple[str, ...] | None = None
    only: tuple[str, ...] = ()
    self_check: bool = False
    selection: Selection = field(default_factory=Selection)
    everything: bool = False
    device: str | None = None
    budget_s: float | None = None
    silence_s: float = SILENCE_S
    seed: int = 0
    plugins: tuple[Path, ...] = ()
    out: Path | None = None


def start(options: Options) -> int:
    """Plan, measure, judge, show; the exit code.

    Raises:
        UsageError: a ref, an interpreter or something else asked for is not there or does not fit.
        HeadbenchError: a side cannot be run, or the session cannot be stored.
    """
    with _planned(options) as plan:
        _announce(plan, options)
        if not plan.cases:
            print("nothing can be compared: no case can be measured on both sides", file=sys.stderr)
            return UNDECIDED
        return _measure(plan, options)


def dry_run(options: Options) -> int:
    """Print what would be compared and stop.

    Raises:
        UsageError, HeadbenchError: as `start`.
    """
    with _planned(options) as plan:
        _announce(plan, options)
        for case in plan.cases:
            print(f"  {case.key}")
    return 0


@contextmanager
def _planned(options: Options) -> Iterator[AbPlan]:
    """The plan, with both sides' code in a temporary folder that is gone when the block ends, however it ends."""
    _check(options)
    requests = (
        SideRequest("base", options.base, options.base_python),
        SideRequest("head", options.head, options.head_python),
    )
    with (
        ended_by_signals(),
        tempfile.TemporaryDirectory(prefix="headbench-ab-", ignore_cleanup_errors=True) as scratch,
    ):
        try:
            base, head = prepare(requests, options.plugins, Path(scratch).resolve())
        except OSError as error:
            why = error.args[0][0][-1] if isinstance(error, shutil.Error) else error
            raise HeadbenchError(
                f"cannot copy the code to {scratch}: {why}; TMPDIR names another folder"
            ) from error
        selection = options.selection
        if selection == Selection() and not options.everything:
            selection = replace(selection, models=(QUICK_MODEL,))
        yield plan_sides(base, head, selection, options.only, options.device)


def _check(options: Options) -> None:
    pythons = options.base_python or options.head_python
    if options.self_check and (options.base or pythons):
        raise UsageError(
            "--self-check compares the working tree with itself: neither refs nor a Python fit it"
        )
    if not (options.base or pythons or options.self_check):
        raise UsageError(
            "nothing to compare with: name a git ref, as in `python -m harness ab main`, or another Python with "
            "--base-python, or see what this machine can tell with --self-check"
        )
    for mode in options.guard or ():
        if mode not in MODES:
            raise unknown("timing mode", mode, MODES)


def _announce(plan: AbPlan, options: Options) -> None:
    for notice in plan.notices():
        if not (options.self_check and notice == SAME_CODE):
            print(notice)
    base, head = plan.base, plan.head
    print(f"base: {base.side.label}; head: {head.side.label}")
    machine = head.environment["gpu"] or head.environment["cpu"]
    device = head.environment["device"].partition(":")[0]
    # What starting and checking take cannot be had for less, whatever the budget.
    least_s = PROCESSES * (START_GUESS_S[device] + LEAST_TRIAL_S[device] * len(plan.cases))
    budget_s = _budget_s(plan, options)
    ten_s, about = (budget_s, "about") if budget_s >= least_s else (least_s, "at least")
    print(
        f"{counted(len(plan.cases), 'case')} on {machine['name']}, {len(FIRST)} pairs of fresh processes: "
        f"{about} {_duration(ten_s * len(FIRST) / MOST_PAIRS)}; {_duration(ten_s)} where they leave cases "
        f"undecided; {len(FRESH)} more pairs confirm what is slower",
        flush=True,
    )


def _budget_s(plan: AbPlan, options: Options) -> float:
    """What ten pairs of every case are to take."""
    start_s = START_GUESS_S[plan.head.environment["device"].partition(":")[0]]
    return options.budget_s or PROCESSES * (start_s + CASE_S * len(plan.cases))


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _measure(plan: AbPlan, options: Options) -> int:
    """Measure the pairs and judge them; whatever ends the measuring, what is there is judged and shown first."""
    from harness.verdict_output import print_session

    session = (options.out or RUNS) / f"{new_run_id(plan.head.environment)}-ab"
    runs: PairedRuns | None = None
    fault: HeadbenchError | KeyboardInterrupt | None
    try:
        with ExitStack() as closing:
            writers = _create(session, plan, options, closing)
            runs = PairedRuns(writers["base"].run, writers["head"].run, options.guard or GUARDED)
            fault = _measure_pairs(plan, options, writers, runs)
        ignore_signals()
    except KeyboardInterrupt as interrupt:
        if runs is None or not _any_measured(runs):
            shutil.rmtree(session, ignore_errors=True)
            raise
        fault = interrupt
    comparisons = runs.comparisons()
    print_session(runs, comparisons)
    if isinstance(fault, KeyboardInterrupt):
        print(f"interrupted: what was measured is judged above, and stored in {session}", file=sys.stderr)
        return INTERRUPTED
    if fault:
        raise fault
    print(f"stored in {session}; `python -m harness report {session}` shows it again")
    return exit_code(comparisons, runs)


def _measure_pairs(
    plan: AbPlan, options: Options, writers: dict[str, RunWriter], runs: PairedRuns
) -> HeadbenchError | None:
    """Measure what the verdicts need; the fault that ended that early, if one did."""
    from harness.progress import Progress

    budget_s = _budget_s(plan, options)
    trials = len(SIDES) * len(FIRST) * len(plan.cases)
    try:
        for one in (plan.base, plan.head):
            store_left_out(writers[one.side.name], one.left_out)
        with Progress(trials, budget_s * len(FIRST) / MOST_PAIRS, "pair") as shown:
            runners = {
                one.side.name: Runner(writers[one.side.name], shown, one.side.program)
                for one in (plan.base, plan.head)
            }
            PairMeasurement(runners, runs, shown, options.seed).measure(plan.cases, budget_s)
    except StoreError as error:
        return HeadbenchError(str(error))
    except HeadbenchError as error:
        return error
    return None


def _any_measured(runs: PairedRuns) -> bool:
    return any(not trial.outcome.never_tried for run in (runs.base, runs.head) for trial in run.trials)


def _create(session: Path, plan: AbPlan, options: Options, closing: ExitStack) -> dict[str, RunWriter]:
    """Both runs of a new session, open for writing until `closing` ends."""
    writers = {}
    try:
        for one in (plan.base, plan.head):
            settings = _settings(one, plan, options)
            manifest = new_manifest(one.side.name, one.environment, one.cases, settings)
            writers[one.side.name] = closing.enter_context(RunWriter.create(session, manifest))
        return writers
    except StoreError as error:
        raise HeadbenchError(str(error)) from error


def _settings(one: SidePlan, plan: AbPlan, options: Options) -> dict[str, Any]:
    return {
        "budget_s": _budget_s(plan, options),
        "replicates": len(FIRST),
        "silence_s": options.silence_s,
        "seed": options.seed,
        "plugins": remember(one.side.plugins),
        "target_precision": TARGET_PRECISION,
        "ab": {
            "label": one.side.label,
            "guard": list(options.guard or GUARDED),
            "self_check": options.self_check,
        },
    }


def exit_code(comparisons: Comparisons, runs: PairedRuns) -> int:
    """1 when a case failed in the head, 3 for a confirmed regression, 4 when a verdict is wanting, else 0.

    A case that fails in the base alone is a fault that the head has mended: it must not keep it out.
    """
    if any(trial.outcome.failed for trial in runs.head.trials):
        return 1
    if runs.is_self_check:
        return 0 if comparisons.comparable else UNDECIDED
    if comparisons.regressions:
        return REGRESSION
    return 0 if comparisons.decided else UNDECIDED
