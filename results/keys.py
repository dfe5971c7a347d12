"""What two runs must have in common for their times to be comparable, and in what they differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from results.run import Run

Environment: TypeAlias = dict[str, Any]
Entries: TypeAlias = frozenset[str]

SHAPE = ("batch", "seq_len", "d_model", "n_head", "head_dim", "causal", "dtype", "n_layer")
"""Keys of a case rather than of a machine: `--across` one of them pairs cases that differ in it."""

UNKNOWN = "not recorded"


@dataclass(frozen=True, slots=True)
class Difference:
    """A key in which two sides differ, and what each of them has, in words."""

    key: str
    base: str
    head: str

    @property
    def sentence(self) -> str:
        """Both values, and the way out."""
        return f"{self.key} is {self.base} in base and {self.head} in head: --across {self.key} allows it"


def differences(base: Sequence[Run], head: Sequence[Run], across: Iterable[str] = ()) -> list[Difference]:
    """The keys that do not have one value in all of these runs, without those of `across`.

    What one run recorded and another did not counts as different: nothing says that it was alike.
    """
    named = allowed(across)
    found = []
    for key, read in KEYS.items():
        of_base, of_head = ({read(run.manifest.environment) for run in side} for side in (base, head))
        if key not in named and len(of_base | of_head) > 1:
            everywhere = frozenset.intersection(*of_base, *of_head)
            found.append(Difference(key, _words(of_base, everywhere), _words(of_head, everywhere)))
    return found


def allowed(across: Iterable[str]) -> frozenset[str]:
    """The keys that may differ: with `gpu` the UUID as well, for no other GPU has the same."""
    keys = frozenset(across)
    return keys | {"gpu_uuid"} if "gpu" in keys else keys


def _one(*path: str) -> Callable[[Environment], Entries]:
    """What stands at this place of an environment."""

    def read(environment: Environment) -> Entries:
        value: Any = environment
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return frozenset({UNKNOWN if value is None else str(value)})

    return read


def _all_of(table: str, *, but: Sequence[str] = ()) -> Callable[[Environment], Entries]:
    """`name=value` of everything in this table of an environment, but for what does not matter here."""

    def read(environment: Environment) -> Entries:
        values = environment.get(table)
        known = values.items() if isinstance(values, dict) else ()
        return frozenset(f"{name}={value}" for name, value in known if name not in but)

    return read


def _device(environment: Environment) -> Entries:
    """`cuda` or `cpu`: which of a machine's GPUs it was, the UUID tells."""
    return frozenset({str(environment.get("device") or UNKNOWN).partition(":")[0]})


def _python(environment: Environment) -> Entries:
    """Major and minor version: the interpreter does not change between patches."""
    return frozenset({".".join(str(environment.get("python") or UNKNOWN).split(".")[:2])})


KEYS: dict[str, Callable[[Environment], Entries]] = {
    "device": _device,
    "gpu": _one("gpu", "name"),
    "gpu_uuid": _one("gpu", "uuid"),
    "driver": _one("gpu", "driver"),
    "power_limit": _one("gpu", "power_limit_w"),
    "cpu": _one("cpu", "name"),
    "torch": _one("torch", "version"),
    "cuda": _one("torch", "cuda"),
    "cudnn": _one("torch", "cudnn"),
    "packages": _all_of("packages"),
    "python": _python,
    "policy": _all_of("torch", but=("version", "cuda", "cudnn")),
    "variables": _all_of("variables", but=("CUDA_VISIBLE_DEVICES",)),  # which GPU it was, the UUID tells
}
"""The keys of a machine, its software and the state that a run pinned (`policy`), in the order they are named."""


def _words(values: set[Entries], everywhere: Entries) -> str:
    """Each value without what all runs have in common."""
    told = (", ".join(sorted(entries - everywhere)) or UNKNOWN for entries in values)
    return " or ".join(sorted(told))
