"""Making a stored run a reference: what it must be for others to rely on it, and where it goes."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from results.claims.observed import FILE as EXPERIMENTS
from results.errors import StoreError, refused
from results.exchange import machine_slug
from results.medians import medians, why_no_time
from results.merged import MergedRun
from results.run import MANIFEST, TRIALS
from results.schema import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from results.run import Run
    from results.schema import Manifest, Trial

CHECKS = {"before", "after"}
"""The verifications that a timed case has passed: before any timing, and after it with fresh inputs."""

PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def objections(run: Run) -> list[str]:
    """Every reason why this run cannot be a reference, in words; empty when it can."""
    if isinstance(run, MergedRun):
        return [f"it is {len(run.parts)} runs merged: name one of them"]
    return list(_objections(run))


def promote(run: Run, name: str, references: Path) -> Path:
    """Copy the run to `<references>/<machine>/<name>/`, whole or not at all, and return that folder.

    Raises:
        StoreError: the name is no plain folder name or is taken, the run may not be a reference, or the disk
            refuses; the message is one line.
    """
    if not PLAIN_NAME.fullmatch(name):
        raise StoreError(
            f"{name!r} is not a reference's name: letters, digits, '.', '_' and '-' would do, the first of them "
            f"a letter or a digit"
        )
    if against := objections(run):
        raise StoreError(f"{run.path} cannot be a reference: {'; '.join(against)}")
    target = references / machine_slug(run.manifest.environment) / name
    if target.exists():
        raise StoreError(f"reference {target} is there already: choose another name, or remove it first")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".promoting-", dir=target.parent) as folder:
            whole = Path(folder) / name
            whole.mkdir()
            for file in (MANIFEST, TRIALS, EXPERIMENTS):
                if file != EXPERIMENTS or (run.path / file).exists():  # only `claims` makes them
                    shutil.copyfile(run.path / file, whole / file)
            _forget_place(whole / MANIFEST)
            whole.rename(target)
    except OSError as error:
        raise refused("promote to", target, error, "make it writable") from None
    return target


def _forget_place(manifest: Path) -> None:
    """Take `--out` from the command: the run lies elsewhere now, and the folder is somebody's own affair."""
    plain = json.loads(manifest.read_text("utf-8"))
    command = plain["command"]
    kept = [
        word
        for before, word in zip(["", *command], command, strict=False)
        if "--out" not in (before, word.partition("=")[0])
    ]
    if kept != command:
        manifest.write_text(json.dumps(plain | {"command": kept}, indent=1), "utf-8")


def _objections(run: Run) -> Iterator[str]:
    yield from _of_origin(run.manifest)
    yield from _of_plan(run)
    yield from _of_trials(run)


def _of_origin(manifest: Manifest) -> Iterator[str]:
    """What of its code and its machine others could not find again; a manifest may be damaged."""
    git = manifest.environment.get("git")
    if not isinstance(git, dict) or not isinstance(git.get("commit"), str):
        yield "it does not say which commit was measured"
    elif git.get("clean") is not True:
        yield "it was measured from a dirty tree: commit, then measure again"
    if manifest.settings.get("plugins"):
        yield "it measured plugins, whose code is in no commit of headbench: measure without --plugin"
    if not _names_machine(manifest.environment):
        yield "it does not name the GPU that it was measured on"


def _names_machine(environment: dict[str, Any]) -> bool:
    gpu = environment.get("gpu")
    if gpu is None:
        return environment.get("device") == "cpu"
    name = gpu.get("name") if isinstance(gpu, dict) else None
    return isinstance(name, str) and bool(name.strip())


def _of_plan(run: Run) -> Iterator[str]:
    manifest = run.manifest
    if manifest.of_session:
        yield "it is a side of an ab session: a reference is made of what `run` measured"
    if "--quick" in manifest.command:
        yield "it is a --quick run: measure without --quick"
    elif manifest.replicates == 1:
        yield "it has one replicate, and so no intervals: three would do"
    if not manifest.cases:
        yield "it has no cases"
    if missing := len(run.missing()):
        yield f"trials are missing, {missing} of them: measure them with `run --resume {run.path}`"


def _of_trials(run: Run) -> Iterator[str]:
    failed = Counter(trial.outcome.value for trial in run.trials if trial.outcome.failed)
    yield from (f"trials are {outcome}, {count} of them" for outcome, count in failed.items())
    timed = [trial for trial in run.trials if trial.outcome is Outcome.OK]
    if not timed:
        yield "nothing in it was measured"
    if unverified := [trial for trial in timed if not _verified(trial)]:
        first = unverified[0].case.key
        yield f"trials are not verified before and after timing, {len(unverified)} of them: the first is of {first}"
    if untimed := [trial for trial in timed if not _has_time(trial)]:
        yield f"trials are ok without a time, {len(untimed)} of them: the first is of {untimed[0].case.key}"


def _has_time(trial: Trial) -> bool:
    (of_case,) = medians([trial]).values()
    found = [median for mode in of_case.values() for median in mode.values()]
    return bool(found) and why_no_time("it", found) is None


def _verified(trial: Trial) -> bool:
    passed = {check.when for check in trial.verifications if check.passed}
    return passed >= CHECKS and all(check.passed for check in trial.verifications)
