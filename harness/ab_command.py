"""`ab`: is the head slower than the base? From two versions of the code to stored pairs and a verdict per case."""

from __future__ import annotations

import signal
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import __version__
from harness.ab_plan import SAME_CODE, AbPlan, SidePlan, plan_sides
from harness.errors import INTERRUPTED, HeadbenchError, UsageError, unknown
from harness.pairs import LOOKS_AT_MOST, Pairs
from harness.plugins import remember
from harness.request import QUICK_MODEL, SILENCE_S, Selection
from harness.run_command import LEAST_TRIAL_S, run_id
from harness.runner import START_GUESS_S, Runner, unmeasured
from harness.sides import Wish, prepare
from results.paired import PairedRuns
from results.paired_case import FIRST, FRESH
from results.schema import MODES, Manifest
from results.session import SIDES
from results.store import RunWriter, StoreError
from variants.stage import STAGES

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

PROCESSES = len(SIDES) * LOOKS_AT_MOST

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line said; None leaves a setting to its default."""

    base: str | None = None
    head: str | None = None
    base_python: Path | None = None
    head_python: Path | None = None
    guard: tuple[str, ...] = ("isolated", "graph")
    only: tuple[str, ...] = ()
    self_check: bool = False
    selection: Selection = field(default_factory=Selection)
    everything: bool = False
    device: str | None = None
    budget_s: float | None = None
    silence_s: float = SILENCE_S
    seed: int = 0
    plugins: tuple[Path, ...] = ()
    out: Path = Path("results/runs")


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
    wishes = (
        Wish("base", options.base, options.base_python),
        Wish("head", options.head, options.head_python),
    )
    with (
        _ended_by_signals(),
        tempfile.TemporaryDirectory(prefix="headbench-ab-", ignore_cleanup_errors=True) as scratch,
    ):
        base, head = prepare(wishes, options.plugins, Path(scratch).resolve())
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
            "nothing to compare with: name a git ref, as in `headbench ab main`, or another Python with "
            "--base-python, or see what this machine can tell with --self-check"
        )
    for mode in options.guard:
        if mode not in MODES:
            raise unknown("timing mode", mode, MODES)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and a closed terminal end the command as Ctrl-C does, so that it clears up what it made.

    After the first of them all are ignored: a second must cut off neither the clearing up nor the verdicts. One
    that is ignored already, as under nohup, stays so.
    """

    def interrupt(_number: int, _frame: object) -> None:
        for one in ENDING:
            signal.signal(one, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {one: signal.getsignal(one) for one in ENDING}
    for one in ENDING:
        if before[one] is not signal.SIG_IGN:
            signal.signal(one, interrupt)
    try:
        yield
    finally:
        for one in ENDING:
            signal.signal(one, before[one])


def _announce(plan: AbPlan, options: Options) -> None:
    for notice in plan.notices():
        if not (options.self_check and notice == SAME_CODE):
            print(notice)
    base, head = plan.base, plan.head
    print(f"base: {base.side.label}; head: {head.side.label}")
    machine = head.environment["gpu"] or head.environment["cpu"]
    counted = "1 case" if len(plan.cases) == 1 else f"{len(plan.cases)} cases"
    device = head.environment["device"].partition(":")[0]
    # What starting and checking take cannot be had for less, whatever the budget.
    least_s = PROCESSES * (START_GUESS_S[device] + LEAST_TRIAL_S[device] * len(plan.cases))
    ten_s = max(_budget_s(plan, options), least_s)
    print(
        f"{counted} on {machine['name']}, {len(FIRST)} pairs of fresh processes: "
        f"about {_duration(ten_s * len(FIRST) / LOOKS_AT_MOST)}; up to {_duration(ten_s)} where they leave cases "
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
    from harness.progress import Progress
    from harness.verdict_output import print_verdicts

    fault: HeadbenchError | None = None
    interrupted = False
    with ExitStack() as closing:
        writers = _create(plan, options, closing)
        runs = PairedRuns(writers["base"].run, writers["head"].run, options.guard)
        try:
            _store_left_out(plan, writers)
            budget_s = _budget_s(plan, options)
            trials = len(SIDES) * len(FIRST) * len(plan.cases)
            with Progress(trials, budget_s * len(FIRST) / LOOKS_AT_MOST, "pair") as shown:
                runners = {
                    one.side.name: Runner(writers[one.side.name], shown, one.side.program)
                    for one in (plan.base, plan.head)
                }
                Pairs(runners, runs, shown, options.seed).measure(plan.cases, budget_s)
        except KeyboardInterrupt:
            interrupted = True
        except StoreError as error:
            fault = HeadbenchError(str(error))
        except HeadbenchError as error:
            fault = error
    comparisons = runs.comparisons()
    print_verdicts(comparisons)
    if options.self_check:
        _print_self_check(runs)
    session = writers["base"].path.parent
    if fault:
        raise fault
    if interrupted:
        print(f"interrupted: what was measured is judged above, and stored in {session}", file=sys.stderr)
        return INTERRUPTED
    print(f"stored in {session}; `headbench report {session}` shows it again")
    return exit_code(comparisons, runs, options.self_check)


def _create(plan: AbPlan, options: Options, closing: ExitStack) -> dict[str, RunWriter]:
    """Both runs of a new session, open for writing until `closing` ends."""
    session = options.out / f"{run_id(plan.head.environment)}-ab"
    try:
        return {
            one.side.name: closing.enter_context(RunWriter.create(session, _manifest(one, plan, options)))
            for one in (plan.base, plan.head)
        }
    except StoreError as error:
        raise HeadbenchError(str(error)) from error


def _manifest(one: SidePlan, plan: AbPlan, options: Options) -> Manifest:
    return Manifest(
        run_id=one.side.name,
        created_utc=datetime.now(UTC).isoformat(timespec="seconds"),
        headbench_version=__version__,
        command=["headbench", *sys.argv[1:]],
        replicates=len(FIRST),
        settings=_settings(one, plan, options),
        environment=one.environment,
        baselines={name: stage.baseline for name, stage in STAGES.items()},
        cases=one.cases,
    )


def _settings(one: SidePlan, plan: AbPlan, options: Options) -> dict[str, Any]:
    return {
        "budget_s": _budget_s(plan, options),
        "replicates": len(FIRST),
        "silence_s": options.silence_s,
        "seed": options.seed,
        "plugins": remember(one.side.plugins),
        "target_precision": TARGET_PRECISION,
        "ab": {
            "side": one.side.name,
            "label": one.side.label,
            "guard": list(options.guard),
            "order": options.seed,
            "self_check": options.self_check,
        },
    }


def _store_left_out(plan: AbPlan, writers: dict[str, RunWriter]) -> None:
    for one in (plan.base, plan.head):
        for case, outcome, reason in one.left_out:
            writers[one.side.name].append(unmeasured(case, 0, outcome, reason))


def _print_self_check(runs: PairedRuns) -> None:
    """How often identical code was called different here, and what change ten pairs could have found."""
    from results.self_check import self_check

    for line in self_check(runs).lines():
        print(line)


def exit_code(comparisons: Comparisons, runs: PairedRuns, self_check: bool) -> int:
    """1 when a case failed in the head, 3 for a confirmed regression, 4 when a verdict is wanting, else 0.

    A case that fails in the base alone is a fault that the head has mended: it must not keep it out.
    """
    if any(trial.outcome.failed for trial in runs.head.trials):
        return 1
    if self_check:
        return 0
    if comparisons.regressions:
        return REGRESSION
    return UNDECIDED if comparisons.undecided or not comparisons.comparable else 0
