"""What can go wrong with a stored run, said in one line: the path, the cause and the way out."""

from __future__ import annotations

import stat
from contextlib import suppress
from errno import EACCES, EDQUOT, EEXIST, ENOSPC, ENOTDIR, EPERM, EROFS
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

FULL = (ENOSPC, EDQUOT)

CAUSES = {
    ENOSPC: "the disk is full",
    EDQUOT: "the disk quota is used up",
    EROFS: "the file system is read-only",
    EACCES: "permission denied",
    EPERM: "permission denied",
    ENOTDIR: "a part of the path is a file, not a folder",
    EEXIST: "it is a file, not a folder",
}


class StoreError(Exception):
    """A run that cannot be read or written; the message is one line for the user."""


def refused(action: str, path: Path, error: OSError, way_out: str) -> StoreError:
    """`cannot <action> <path>: <cause>: <way out>`; a full disk's way out begins with freeing space."""
    cause = CAUSES.get(error.errno or 0, error.strerror or str(error))
    space = "free space, or " if error.errno in FULL else ""
    return StoreError(f"cannot {action} {path}: {cause}: {space}{way_out}")


def refuse_pipe(path: Path) -> None:
    """Raise StoreError where `path` is a pipe, a socket or a device: to open one may wait for ever.

    What is not there, or is a folder, is for whoever opens it to tell.
    """
    with suppress(OSError):
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise StoreError(
                f"cannot read {path}: it is no plain file: put the file there, or name another run"
            )
