"""Pages to open that nobody recorded: of a run made up to be hostile, and of a session."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from reports.html.comparison_page import comparison_page
from results.figures import Dispatch
from results.schema import Observation
from tests.reports import runs
from tests.results import builders, sessions

if TYPE_CHECKING:
    from results.run import Run

ALERT = "<script>document.title='pwned'</script>"
NAMES = (
    ALERT,
    '"><img src=x onerror="document.title=1">',
    "</script><script>document.title=2</script>",
    "a|b `c` *d*",
    "line\u2028break\u2029s\nand\ttabs",
    "\u202egnikcart\u202c",
    "datum.x'); alert(1); ('",
    "{{constructor.constructor('alert(1)')()}}",
    "constructor",
    "__proto__",
)
"""What a plugin could call its variant."""


def hostile_run() -> Run:
    """Every text that a record has is somebody's attempt to run code in the reader's browser."""
    stage = "attention</script>" + ALERT
    times = {name: (1 + place) * 1e-5 for place, name in enumerate(NAMES)}
    trials = [
        *runs.gpu_trials(times, stage=stage),
        *runs.gpu_trials(times, stage=stage, batch=32),
        runs.failed("crashed " + ALERT, runs.Outcome.CRASHED, f"it said {ALERT}", stage=stage),
    ]
    environment: dict[str, Any] = {
        **runs.GPU_ENVIRONMENT,
        "gpu": {**runs.GPU_ENVIRONMENT["gpu"], "name": f"GPU {ALERT}"},
        "notices": [f"notice {ALERT}"],
        f"key {ALERT}": ALERT,
    }
    of = runs.run(
        trials,
        notes=[f"note {ALERT}"],
        environment=environment,
        run_id=f"../{ALERT}",
        command=["headbench", ALERT],
        baselines={stage: NAMES[-1]},
    )
    of.observations = [
        Observation(builders.case(name, stage=stage), dispatch=Dispatch(3, 1e-5)) for name in NAMES[:4]
    ]
    return of


LONG_REASONS = (
    "before timing: worst row off by 5 % (limit 0.004 %), whole tensor off by 5 %; of its gradients dQ is the worst",
    "raises CompilationError: /a/path/without/a/single/space/" + "and_names_that_go_on/" * 8 + "kernel.cu:17",
    "why " * 200,
)
"""Of words, of one word, and cut where it is too long even so."""


def run_of_long_reasons() -> Run:
    """One case that has times, and others with as long a reason as records have."""
    ends = list(runs.Outcome)[1:]
    failures = [
        runs.failed(f"is_{outcome.value}", outcome, reason)
        for outcome, reason in zip(ends, itertools.cycle(LONG_REASONS), strict=False)
    ]
    return runs.run([*runs.gpu_trials({"per_head": 657e-6, "fused": 191e-6}), *failures])


def session_page() -> str:
    """A session whose head is slower in `fused`, faster in `per_head`, and the same in the hostile one."""
    modes = ("isolated", "graph")
    ratios = {"fused": sessions.SLOWER, "per_head": (0.9, 0.91, 0.905, 0.9, 0.902), ALERT: sessions.STEADY}
    base = [
        trial for name in ratios for trial in sessions.side_trials(builders.case(name), (1.0,) * 5, modes)
    ]
    head = [
        trial for name, of in ratios.items() for trial in sessions.side_trials(builders.case(name), of, modes)
    ]
    session = sessions.runs(base, head)
    return comparison_page([session.comparisons()], [session.base, session.head])
