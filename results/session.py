"""Where an `ab` session lies: a folder that holds two runs, `base/` and `head/`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from results.run import MANIFEST

if TYPE_CHECKING:
    from pathlib import Path

SIDES = ("base", "head")


def is_session(folder: Path) -> bool:
    """Whether an `ab` session lies in this folder; what it holds may still be damaged."""
    return not (folder / MANIFEST).exists() and all((folder / side / MANIFEST).is_file() for side in SIDES)
