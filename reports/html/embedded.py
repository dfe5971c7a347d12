"""What a page carries besides its text: data compressed for its scripts, and the raw records for whoever wants them."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from results.codec import encode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from results.run import Run


@dataclass(frozen=True, slots=True)
class Download:
    """A file inside the page: its name, what it holds in words, its bytes compressed with gzip."""

    name: str
    what: str
    media_type: str
    size_bytes: int
    packed: str


def packed(text: str) -> str:
    """The text as gzip in base64: the same bytes for the same text, whenever it is packed."""
    return base64.b64encode(gzip.compress(text.encode("utf-8", "surrogatepass"), 9, mtime=0)).decode("ascii")


def packed_json(value: Any) -> str:
    """The value as JSON, what is not a number as null, packed."""
    return packed(json.dumps(encode(value), allow_nan=False, separators=(",", ":")))


def download(name: str, what: str, media_type: str, text: str) -> Download:
    """A file to carry."""
    return Download(name, what, media_type, len(text.encode("utf-8", "surrogatepass")), packed(text))


def raw_records(run: Run, prefix: str = "") -> Iterable[Download]:
    """The run's manifest and every line that was read of its trials.jsonl, as headbench stores them, and a CSV."""
    from reports.export import to_csv

    manifest = json.dumps(run.manifest.to_json(), allow_nan=False, indent=1) + "\n"
    lines: list[dict[str, Any]] = [trial.to_json() for trial in run.trials]
    lines += [{"observation": one.to_json()} for one in run.observations]
    lines += [{"ceilings": run.ceilings.to_json()}] if run.ceilings else []
    trials = "".join(json.dumps(line, allow_nan=False, separators=(",", ":")) + "\n" for line in lines)
    yield download(
        f"{prefix}manifest.json",
        "what was asked, and the machine and its software",
        "application/json",
        manifest,
    )
    yield download(
        f"{prefix}trials.jsonl",
        "every sample and every reading, a trial a line",
        "application/x-ndjson",
        trials,
    )
    yield download(f"{prefix}cases.csv", "a row for each case", "text/csv", to_csv(run))


def digest(script: str) -> str:
    """How a Content Security Policy names a script: `'sha256-…'`."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode('utf-8')).digest()).decode('ascii')}'"
