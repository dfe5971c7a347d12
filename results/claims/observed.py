"""What experiments that time nothing have shown: a line each in `claims.jsonl`, beside the run's trials.

Each is small, seeded and made on the CPU by a child process (`harness.lesson`). A line is synced before the next
experiment begins, so that nothing that was measured is lost.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from results.errors import refuse_pipe, refused
from results.schema import Stored

if TYPE_CHECKING:
    from pathlib import Path

FILE = "claims.jsonl"
LARGEST_LOSS = 1e3
"""In nats a token: who guesses at random has 4."""


def _check(one: object, names: str, least: float, most: float = math.inf) -> None:
    """Raises ValueError where one of these fields holds what no experiment can have shown."""
    for name in names.split():
        value = getattr(one, name)
        if not least <= value <= most:
            bounds = f"{least:g} or more" if most == math.inf else f"{least:g} to {most:g}"
            raise ValueError(f"{name} is {value}: {bounds} would do")


@dataclass(frozen=True, slots=True)
class Calls(Stored):
    """How many matrix products PyTorch was asked for in one call of each qkv variant, at so many heads."""

    n_head: int
    matmuls: dict[str, int]

    def __post_init__(self) -> None:
        _check(self, "n_head", 1)
        if min(self.matmuls.values(), default=0) < 0:
            raise ValueError(f"matmuls are {self.matmuls}: 0 or more would do")


@dataclass(frozen=True, slots=True)
class Parameters(Stored):
    """Elements of a model that was built, part by part; `mlp_width` and `vocabulary` are assumed, not the lesson's."""

    d_model: int
    n_layer: int
    mlp_width: int
    vocabulary: int
    context: int
    attention: int
    mlp: int
    embeddings: int

    def __post_init__(self) -> None:
        _check(self, "d_model n_layer mlp_width vocabulary context attention mlp embeddings", 1)


@dataclass(frozen=True, slots=True)
class RoundTrips(Stored):
    """Random shapes whose features were split into heads and concatenated again, and the other way round.

    `changed` counts the shapes where a bit differed afterwards, `scrambled` those where a reshape without the
    transpose gave something else than the split: it must find some, or the test could not have failed.
    """

    seed: int
    shapes: int
    changed: int
    scrambled: int

    def __post_init__(self) -> None:
        _check(self, "shapes", 0)
        _check(self, "changed scrambled", 0, self.shapes)


@dataclass(frozen=True, slots=True)
class Dependence(Stored):
    """Norms of ∂(output feature)/∂(a head's Q, K and V), by autograd in float64, over all features and heads.

    Before W_O the concatenated heads are the output: `own_least` is the smallest norm towards a feature's own head,
    `others_largest` the largest towards another. `mixed_least` is the smallest of all after W_O, `mixed_median` their
    median.
    """

    seed: int
    n_head: int
    head_dim: int
    own_least: float
    others_largest: float
    mixed_least: float
    mixed_median: float

    def __post_init__(self) -> None:
        _check(self, "n_head head_dim", 1)
        _check(self, "own_least others_largest mixed_least mixed_median", 0)


@dataclass(frozen=True, slots=True)
class Learnt(Stored):
    """One seeded training of the small transformer, on letters with brackets (`harness.lesson.sequences`).

    `loss` is on held-out sequences, in nats a token, of its letter and its bracket together. `previous` is how often
    the best head looks most at the token before; `matching` how often at the bracket that is closed next, where that is
    not the token itself. `…_untrained` are those of the same model before training: the best of as many heads.
    `beside_clone` is ln of a head's gradient norm beside a clone that does half of its work, over its norm where it
    does all of it, all else alike; None where there is one head.
    """

    seed: int
    n_head: int
    steps: int
    loss: float
    previous: float
    previous_untrained: float
    matching: float
    matching_untrained: float
    beside_clone: float | None = None
    took_s: float | None = None

    def __post_init__(self) -> None:
        _check(self, "n_head steps", 1)
        if not 0 < self.loss <= LARGEST_LOSS:
            raise ValueError(f"a loss of {self.loss} nats")
        _check(self, "previous previous_untrained matching matching_untrained", 0, 1)


One: TypeAlias = Calls | Parameters | RoundTrips | Dependence | Learnt

KINDS: dict[str, type[One]] = {
    "calls": Calls,
    "parameters": Parameters,
    "round_trips": RoundTrips,
    "dependence": Dependence,
    "learnt": Learnt,
}
"""The key of a line, and what stands under it."""


@dataclass
class Observed:
    """All experiments stored with a run, in order, and a note for each line that cannot be used."""

    calls: list[Calls] = field(default_factory=list)
    parameters: list[Parameters] = field(default_factory=list)
    round_trips: list[RoundTrips] = field(default_factory=list)
    dependence: list[Dependence] = field(default_factory=list)
    learnt: list[Learnt] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def take(self, kind: str, plain: object) -> None:
        """Hold one experiment.

        Raises:
            ValueError: the kind is unknown, or it does not hold what such a line holds.
        """
        if kind not in KINDS:
            raise ValueError(f"experiment {kind!r} is unknown: {', '.join(KINDS)} are known")
        getattr(self, kind).append(KINDS[kind].from_json(plain))


def load(*folders: Path) -> Observed:
    """The experiments stored with the runs in these folders; none where a run has no such file.

    Raises:
        StoreError: a file is there and cannot be read, or is no plain one.
    """
    observed = Observed()
    for folder in folders:
        refuse_pipe(folder / FILE)
        try:
            lines = (folder / FILE).read_bytes().splitlines()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise refused("read", folder / FILE, error, "check the disk, or name another run") from None
        for number, line in enumerate(lines, start=1):
            try:
                ((kind, plain),) = json.loads(line).items()
                observed.take(kind, plain)
            except (ValueError, AttributeError, RecursionError) as error:
                observed.notes.append(f"line {number} of {FILE} is no experiment ({error}): left out")
    return observed


def append(folder: Path, kind: str, plain: dict[str, Any]) -> None:
    """Store one experiment; on return it is on the disk.

    Raises:
        StoreError: the disk refused.
    """
    try:
        with (folder / FILE).open("a", encoding="utf-8") as file:
            file.write(json.dumps({kind: plain}, allow_nan=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise refused(
            "store an experiment in", folder / FILE, error, "name another folder with --out"
        ) from None
