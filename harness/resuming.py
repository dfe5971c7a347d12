"""Whether a stored run can be resumed: it must be sound, and where it goes on must be where it began."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.errors import UsageError
from harness.plan import figures
from results.run import load
from results.session import is_session
from results.store import StoreError, locate

if TYPE_CHECKING:
    from pathlib import Path

    from results.run import Run

SAME = (
    ("device",),
    ("gpu", "uuid"),
    ("gpu", "driver"),
    ("cpu", "name"),
    ("torch", "version"),
    ("torch", "cuda"),
    ("torch", "cudnn"),
    ("torch", "threads"),
    ("variables",),
    ("source_sha256",),
)
"""What must be as it was for a run to be resumed: trials of two machines or two versions are not one run."""


def sound_run(where: Path) -> Path:
    """The folder of the run that `where` names, as `results.store.locate` knows it.

    Raises:
        UsageError: it is no run, or holds settings that no run of ours was stored with.
    """
    try:
        path = locate(where)
        manifest = None if is_session(path) else load(path).manifest
    except StoreError as error:
        raise UsageError(str(error)) from error
    if manifest is None or manifest.of_session:
        raise UsageError(f"{path} is of an ab session, which cannot be resumed: start a new ab")
    settings, environment = manifest.settings, manifest.environment
    try:
        sound = (
            manifest.cases
            and settings["budget_s"] > 0
            and settings["silence_s"] > 0
            and isinstance(settings["seed"], int)
            and all(isinstance(plugin["path"], str) for plugin in settings["plugins"])
            and isinstance(environment["device"], str)
            and environment["cpu"]["memory_bytes"] > 0
            and (environment["gpu"] is None or isinstance(environment["gpu"]["uuid"], str))
        )
        for case in manifest.cases:
            figures(case)
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"{path} cannot be resumed: its manifest is damaged ({error!r}); start a new run"
        ) from error
    if not sound:
        raise UsageError(f"{path} cannot be resumed: its manifest is damaged; start a new run")
    return path


def refuse_changes(run: Run, environment: dict[str, Any]) -> None:
    """Let a run go on only where it began.

    Raises:
        UsageError: one of `SAME` is not as it was.
    """
    for keys in SAME:
        was, now = _at(run.manifest.environment, keys), _at(environment, keys)
        if was != now:
            raise UsageError(
                f"{run.path} cannot be resumed here: {' '.join(keys)} was {was}, is {now}; start a new run instead"
            )


def _at(environment: dict[str, Any], keys: tuple[str, ...]) -> Any:
    value: Any = environment
    for key in keys:
        value = value.get(key) if value else None
    return value
