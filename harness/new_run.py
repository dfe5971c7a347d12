"""What every new run begins with, whoever measures it: its name, its manifest, and the cases it leaves out."""

from __future__ import annotations

import secrets
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from harness import __version__
from harness.runner import unmeasured
from results.exchange import machine_slug
from results.schema import Manifest
from variants.stage import STAGES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from harness.plan import LeftOut
    from results.schema import Case
    from results.store import RunWriter


def new_run_id(environment: dict[str, Any]) -> str:
    """When, on what, and four digits that tell two of one second apart."""
    when = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    return f"{when}-{machine_slug(environment)}-{secrets.token_hex(2)}"


def new_manifest(
    run_id: str,
    environment: dict[str, Any],
    cases: tuple[Case, ...],
    settings: dict[str, Any],
    command: Sequence[str] | None = None,
) -> Manifest:
    """The manifest of a run that begins now; `settings` says how many `replicates`, `command` who asked for it."""
    return Manifest(
        run_id=run_id,
        created_utc=datetime.now(UTC).isoformat(timespec="seconds"),
        headbench_version=__version__,
        command=list(command or ("headbench", *sys.argv[1:])),
        replicates=settings["replicates"],
        settings=settings,
        environment=environment,
        baselines={name: stage.baseline for name, stage in STAGES.items()},
        cases=cases,
    )


def store_left_out(writer: RunWriter, left_out: Iterable[LeftOut]) -> None:
    """Store a trial without times for each case that cannot be measured here.

    Raises:
        StoreError: the disk refused.
    """
    for case, outcome, reason in left_out:
        writer.append(unmeasured(case, 0, outcome, reason))
