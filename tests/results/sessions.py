"""Sessions of `ab` for tests: two runs whose pairs have the ratios that a test is about."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from results.paired import PairedRuns
from results.run import Run
from tests.results import builders

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from results.schema import Case, Timing, Trial

STEADY = (1.0, 1.001, 0.999, 1.0005, 0.9995)
"""Five ratios that are the same for all purposes."""

SLOWER = (1.03, 1.031, 1.029, 1.0305, 1.0295)
NOISY = (1.01, 1.05, 1.02, 1.06, 1.0)
"""A first look at these leaves everything open."""


def constant(median_s: float, **overrides: Any) -> Timing:
    """Five samples that all read the same, by an ideal timer."""
    return builders.timing(
        median_s, **{"used_s": (median_s,) * 5, "span_s": (median_s,) * 6, "resolution_s": None, **overrides}
    )


def trial(case: Case, replicate: int, times_s: Mapping[str, float], **timing: Any) -> Trial:
    """An ok trial whose modes have exactly these medians."""
    timings = {mode: constant(median_s, **timing) for mode, median_s in times_s.items()}
    return builders.trial(case, replicate, timings=timings)


def side_trials(case: Case, ratios: Sequence[float], modes: Iterable[str], **timing: Any) -> list[Trial]:
    """A trial for each ratio to 100 µs, from replicate 0 on."""
    return [
        trial(case, replicate, dict.fromkeys(modes, 1e-4 * ratio), **timing)
        for replicate, ratio in enumerate(ratios)
    ]


def runs(
    base: Iterable[Trial], head: Iterable[Trial], cases: Sequence[Case] = (), **manifest: Any
) -> PairedRuns:
    """A session in memory whose plan is what either side's trials measured, unless `cases` says otherwise."""
    sides = []
    for side, trials in (("base", list(base)), ("head", list(head))):
        planned = cases or tuple(dict.fromkeys(one.case for one in trials))
        settings = {"ab": {"label": {"base": "main", "head": "working tree"}[side]}}
        of = builders.manifest(planned, run_id=side, replicates=5, **{"settings": settings, **manifest})
        sides.append(Run(Path("session") / side, of, trials))
    return PairedRuns(*sides)


def session(
    of_case: Mapping[Case, Sequence[float]], modes: Iterable[str] = ("isolated", "graph"), **manifest: Any
) -> PairedRuns:
    """A session in memory: for each case the head ÷ base ratio of each pair, alike in all modes."""
    modes = tuple(modes)
    base = [one for case, ratios in of_case.items() for one in side_trials(case, [1.0] * len(ratios), modes)]
    head = [one for case, ratios in of_case.items() for one in side_trials(case, ratios, modes)]
    return runs(base, head, **manifest)


def stored(folder: Path, of: PairedRuns, name: str = "20260102T030405Z-nvidia-h200-ab12-ab") -> Path:
    """The session's folder under `folder`."""
    for side, run in (("base", of.base), ("head", of.head)):
        path = folder / name / side
        path.mkdir(parents=True)
        settings = run.manifest.settings
        guarded = {**settings, "ab": {**settings["ab"], "guard": list(of.guard)}}
        manifest = replace(run.manifest, settings=guarded)
        (path / "manifest.json").write_text(json.dumps(manifest.to_json()))
        (path / "trials.jsonl").write_text("".join(json.dumps(one.to_json()) + "\n" for one in run.trials))
    return folder / name
