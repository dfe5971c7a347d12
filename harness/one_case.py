"""One case measured for a caller in Python: what `run` does, with its run in a folder that goes away again."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from harness.errors import HeadbenchError, UsageError, unknown
from harness.new_run import new_manifest, store_left_out
from harness.plan import Plan, VariantFacts, make_plan
from harness.plugins import remember
from harness.progress import Progress
from harness.request import SILENCE_S, Selection, defaults_for
from harness.runner import START_GUESS_S, Runner
from results.ranking import HEADLINE_MODES
from results.schema import MODES
from results.store import RunWriter, StoreError

if TYPE_CHECKING:
    from results.record import Record
    from results.run import Run

REPLICATE_S = 2.0
"""How long a replicate may measure after its worker's start, unless told otherwise."""
SHORTEST_S = 0.1
"""A budget that is spent before a worker has started: the fewest samples, between the two verifications."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How to measure; `budget_s` (seconds, starts of processes among them) None means by the replicates.

    Raises:
        UsageError: a count or a time is not above 0, or `mode` is unknown.
    """

    replicates: int
    budget_s: float | None = None
    mode: str | None = None
    seed: int = 0
    plugins: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        if self.mode is not None and self.mode not in MODES:
            raise unknown("mode", self.mode, MODES)
        if not 1 <= self.replicates <= 100:
            raise UsageError(f"replicates={self.replicates} is out of range: 1 to 100 would do")
        if self.budget_s is not None and not 0 < self.budget_s < 1e7:
            raise UsageError(f"budget_s={self.budget_s} is not a time: seconds above 0 would do")


def measure_case(
    selection: Selection, settings: Settings, environment: dict[str, Any], variants: list[VariantFacts]
) -> Run:
    """The finished run of the one case that `selection` names; its folder is gone.

    Sizes that were not given are the device's defaults, the first where there are several.

    Raises:
        UsageError: there is no such variant, or the shape does not fit.
        HeadbenchError: it could not be measured or stored.
    """
    plan = plan_of(selection, environment, variants)
    device = environment["device"].partition(":")[0]
    budget_s = settings.budget_s or settings.replicates * (START_GUESS_S[device] + REPLICATE_S)
    stored = _stored_settings(settings, budget_s)
    manifest = new_manifest("case", environment, plan.cases, stored, command=sys.argv)
    try:
        with (
            TemporaryDirectory(prefix="headbench-") as folder,
            RunWriter.create(Path(folder), manifest) as writer,
        ):
            store_left_out(writer, plan.left_out)
            with Progress(len(writer.run.missing()), budget_s) as progress:
                Runner(writer, progress).run(budget_s)
            return writer.run
    except StoreError as error:
        raise HeadbenchError(str(error)) from error


def mode_of(record: Record, wanted: str | None) -> str | None:
    """The mode that was asked for, else the first of isolated, eager and graph; None where it has no times."""
    modes = (wanted,) if wanted else HEADLINE_MODES
    return next((mode for mode in modes if mode in record.estimates), None)


def plan_of(selection: Selection, environment: dict[str, Any], variants: list[VariantFacts]) -> Plan:
    """The selection as one case: of the device's defaults the first.

    Raises:
        UsageError: there is no such variant, or the shape does not fit.
    """
    defaults = defaults_for(environment["device"])
    narrowed = replace(
        selection,
        batch=selection.batch or defaults.batch[:1],
        seq_len=selection.seq_len or defaults.seq_len[:1],
        dtypes=selection.dtypes or defaults.dtype[:1],
    )
    return make_plan(narrowed, variants, environment)


def _stored_settings(settings: Settings, budget_s: float) -> dict[str, Any]:
    return {
        "budget_s": budget_s,
        "replicates": settings.replicates,
        "silence_s": SILENCE_S,
        "seed": settings.seed,
        "plugins": remember(settings.plugins),
    }
