"""`results promote`: a run becomes a reference of the checkout that headbench runs from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.errors import UsageError
from results.promote import promote
from results.session import is_session
from results.store import REFERENCE, StoreError, locate, read

if TYPE_CHECKING:
    from pathlib import Path


def make_reference(run: str, name: str) -> None:
    """Copy the run at `run` to `results/reference/<gpu>/<name>/`, and say how to show it.

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
        target = promote(read(run), name, REFERENCE)
    except StoreError as error:
        raise UsageError(str(error)) from error
    shown = target.relative_to(root)
    again = f"python -m harness report {target.parent.name}/{name}"
    print(f"promoted to {shown}: commit it, and show it with `{again}`")


def _refuse_session(folder: Path) -> None:
    if is_session(folder):
        raise UsageError(f"{folder} is an ab session, not a run: a reference is made of what `run` measured")
