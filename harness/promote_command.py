"""`results promote`: a run becomes a reference of the checkout that headbench runs from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.errors import UsageError
from results.promote import promote as promoted
from results.store import REFERENCE, StoreError, locate, read

if TYPE_CHECKING:
    from pathlib import Path


def promote(run: str, name: str) -> int:
    """Copy the run at `run` to `results/reference/<gpu>/<name>/`; the exit code.

    Raises:
        UsageError: headbench does not run from a checkout, there is no such run, or it cannot be a reference.
    """
    root = REFERENCE.parent.parent
    if not (root / ".git").exists():
        raise UsageError(
            f"headbench runs from {root}, which is no checkout: references are committed, so run "
            f"`python -m harness results promote` in a clone of its repository"
        )
    try:
        _refuse_session(locate(run))
        target = promoted(read(run), name, REFERENCE)
    except StoreError as error:
        raise UsageError(str(error)) from error
    shown = target.relative_to(root)
    print(f"promoted to {shown}: commit it, and show it with `headbench report {target.parent.name}/{name}`")
    return 0


def _refuse_session(folder: Path) -> None:
    from results.paired import is_session

    if is_session(folder):
        raise UsageError(f"{folder} is an ab session, not a run: a reference is made of what `run` measured")
