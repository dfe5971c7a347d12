"""Plugin files as a run remembers them: trials of two versions of a file are not one run."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any


def remember(paths: tuple[Path, ...]) -> list[dict[str, str]]:
    """The plugins as settings hold them: absolute path and SHA-256."""
    return [{"path": str(path.resolve()), "sha256": _sha256(path)} for path in paths]


def changed_plugin(remembered: list[dict[str, Any]]) -> str | None:
    """The first plugin that is not the file it was, or None."""
    for plugin in remembered:
        try:
            same = _sha256(Path(plugin["path"])) == plugin["sha256"]
        except OSError:
            same = False
        if not same:
            return str(plugin["path"])
    return None


def refusal(remembered: list[dict[str, Any]]) -> str | None:
    """Why a child does not begin with these plugins, or None."""
    changed = changed_plugin(remembered)
    return f"plugin {changed} has changed since the run began: start a new run" if changed else None


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
