"""One stored run in memory, and how it is read back from files that may be damaged."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, cast

from results.codec import shortened
from results.errors import StoreError, refuse_pipe, refused
from results.ranking import Standing, standings
from results.record import Record, assemble, newest
from results.schema import SCHEMA_VERSION, Case, Ceilings, Manifest, Observation, Outcome, Trial

if TYPE_CHECKING:
    from io import FileIO
    from pathlib import Path

    from pandas import DataFrame

MANIFEST = "manifest.json"
TRIALS = "trials.jsonl"
OBSERVATION = "observation"
"""The key of a line of trials.jsonl that holds no trial but an observation."""
CEILINGS = "ceilings"
"""The key of a line that holds what the machine reached at most."""
WANTED = {
    "none": ("utilisation", "dispatch"),
    "gpm": ("utilisation", "gpm", "dispatch"),
    "ncu": ("utilisation", "gpm", "dispatch", "counters"),
}
"""The fields of an observation that a run wants of each case, by its setting `counters`; before schema 3, none."""


@dataclass
class Run:
    """A run: where it lies, what was asked for, what was measured and observed, which of its lines are unusable."""

    path: Path
    manifest: Manifest
    trials: list[Trial] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    ceilings: Ceilings | None = None

    def take(self, lines: Lines) -> None:
        """Hold what was read of trials.jsonl."""
        self.trials, self.observations, self.ceilings = lines.trials, lines.observations, lines.ceilings
        self.notes += lines.notes

    def records(self) -> list[Record]:
        """A record per case, in plan order; a case without a trial has the outcome None."""
        return assemble(self.manifest, self.trials, self.observations)

    def standings(self) -> list[Standing]:
        """Where each case stands in its group, in the order of `records()`."""
        return standings(self.records(), self.manifest_of, ceilings_of=self.ceilings_of)

    def frame(self) -> DataFrame:
        """A row per case, in the order of `records()`; the columns are those of `results.frame.RECORD_COLUMNS`."""
        from results.frame import records_frame  # pandas takes most of a second to import

        return records_frame(self.standings())

    def samples(self) -> DataFrame:
        """A row per sample, warm-ups included; the columns are those of `results.frame.SAMPLE_COLUMNS`."""
        from results.frame import samples_frame

        return samples_frame(self.records(), self.trials)

    def manifest_of(self, _case: Case, /) -> Manifest:
        """The manifest this case was measured under: a merged run has several."""
        return self.manifest

    def ceilings_of(self, _case: Case, /) -> Ceilings | None:
        """What the run that this case was measured in found its machine to reach at most."""
        return self.ceilings

    def unfinished(self) -> dict[Path, int]:
        """How many trials are missing, by the folder to resume; empty when the run is whole, or an `ab` session's."""
        count = 0 if self.manifest.of_session else len(self.missing())
        return {self.path: count} if count else {}

    def sources(self) -> list[str]:
        """The ids of the runs that cases are taken from, oldest first: its own, several where runs are merged."""
        return [self.manifest.run_id]

    def took_s(self) -> float | None:
        """Seconds from the run's start to the end of its last trial or observation; None where none says.

        A pause before a run was resumed counts: nothing stored tells it from work.
        """
        start = timestamp(self.manifest.created_utc)
        ends = [
            started + trial.elapsed_s
            for trial in self.trials
            if (started := timestamp(trial.started_utc)) is not None and trial.elapsed_s is not None
        ]
        observed = (timestamp(one.ended_utc) for one in self.observations)
        ends += [end for end in observed if end is not None]
        took = max(ends) - start if ends and start is not None else -1.0
        return took if 0 <= took < math.inf else None

    def missing(self) -> list[tuple[int, Case]]:
        """(replicate, case) still to be measured; a case that failed once is settled and not tried again."""
        kept = newest(self.trials)
        done = {(trial.replicate, trial.case) for trial in kept}
        settled = {trial.case for trial in kept if trial.outcome is not Outcome.OK}
        return [
            (replicate, case)
            for replicate in range(self.manifest.replicates)
            for case in self.manifest.cases
            if case not in settled and (replicate, case) not in done
        ]

    def unobserved(self) -> dict[str, list[Case]]:
        """The cases with a time that lack what the run wants observed, by field of an observation, in plan order."""
        timed = {trial.case for trial in self.trials if trial.outcome is Outcome.OK}
        failed = {trial.case for trial in self.trials if trial.outcome is not Outcome.OK}
        fields = WANTED.get(str(self.manifest.settings.get("counters")), WANTED["none"])
        watched = {
            field: {one.case for one in self.observations if getattr(one, field) is not None}
            for field in fields
        }
        lacking = {
            field: [case for case in self.manifest.cases if case in timed - failed - cases]
            for field, cases in watched.items()
        }
        return {field: cases for field, cases in lacking.items() if cases}


@dataclass
class Lines:
    """What trials.jsonl holds.

    `whole_bytes` is where its last whole line ends, `unended` whether that line lacks its newline.
    """

    trials: list[Trial] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    ceilings: Ceilings | None = None
    whole_bytes: int = 0
    unended: bool = False


def load(folder: Path) -> Run:
    """The run in `folder`: every whole line of it, with a note for each line that cannot be used.

    Raises:
        StoreError: there is no manifest, it is damaged or of another schema, or a file cannot be read.
    """
    run = Run(folder, load_manifest(folder))
    refuse_pipe(folder / TRIALS)
    try:
        with (folder / TRIALS).open("rb") as file:
            lines = scan(file)
    except FileNotFoundError:
        run.notes.append(f"{TRIALS} is missing: the run has no trials")
    except OSError as error:
        raise refused("read", folder / TRIALS, error, "check the disk, or name another run") from None
    else:
        run.take(lines)
    return run


def load_manifest(folder: Path) -> Manifest:
    """The manifest of the run in `folder`.

    Raises:
        StoreError: it is not there, cannot be read, is damaged, or is of another schema.
    """
    path = folder / MANIFEST
    refuse_pipe(path)
    try:
        data = _parsed(path.read_bytes())
        _check_schema(path, data)
        return Manifest.from_json(data)
    except FileNotFoundError:
        raise StoreError(f"{folder} is not a run: it has no {MANIFEST}") from None
    except OSError as error:
        raise refused("read", path, error, "check the disk, or name another run") from None
    except ValueError as error:
        raise StoreError(f"{path} is damaged ({error}): restore it, or name another run") from None


def scan(file: IO[bytes] | FileIO) -> Lines:
    """Every line that holds a trial or an observation, and a note for each that does not.

    A last line without its newline was cut short by a kill or a power loss, unless what there is of it is
    complete JSON: a prefix of an object never is.
    """
    lines = Lines()
    for number, line in enumerate(file, start=1):
        ended = line.endswith(b"\n")
        if line.strip():
            try:
                data = _parsed(line)
            except ValueError as error:
                if not ended:
                    lines.notes.append(
                        f"line {number} of {TRIALS} is cut off after {len(line)} bytes: left out"
                    )
                    break
                lines.notes.append(f"line {number} of {TRIALS} is not JSON ({error}): left out")
            else:
                _take(data, number, lines)
        lines.whole_bytes += len(line)
        lines.unended = not ended
    return lines


def timestamp(utc: str | None) -> float | None:
    """Seconds since 1970 of a stored time, which is in UTC also where it does not say so; None if unreadable."""
    with suppress(ValueError, TypeError):
        when = datetime.fromisoformat(utc or "")
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    return None


def _take(data: object, number: int, lines: Lines) -> None:
    kind = next((key for key in (OBSERVATION, CEILINGS) if isinstance(data, dict) and key in data), "trial")
    try:
        if kind == "trial":
            lines.trials.append(Trial.from_json(data))
        elif kind == OBSERVATION:
            lines.observations.append(Observation.from_json(cast("dict[str, object]", data)[kind]))
        else:
            lines.ceilings = Ceilings.from_json(cast("dict[str, object]", data)[kind])
    except ValueError as error:
        article = "a" if kind == "trial" else "an" if kind == OBSERVATION else "a line of"
        lines.notes.append(f"line {number} of {TRIALS} is not {article} {kind} ({error}): left out")


def _parsed(stored: bytes) -> object:
    """The JSON value in these bytes.

    Raises:
        ValueError: they are not UTF-8, not JSON, or nested too deeply to be either's work.
    """
    try:
        return json.loads(stored.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is not UTF-8") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _check_schema(path: Path, data: object) -> None:
    schema = data.get("schema") if isinstance(data, dict) else None
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise StoreError(
            f"{path} has schema {shortened(schema)}, which no headbench writes: name another run"
        )
    if schema > SCHEMA_VERSION:
        raise StoreError(
            f"{path} has schema {shortened(schema)}, this headbench reads up to {SCHEMA_VERSION}: upgrade headbench"
        )
