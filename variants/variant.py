"""What a variant is: one class with an untimed `prepare` and a timed `call`."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, ClassVar

from variants.shape import canonical_dtype

if TYPE_CHECKING:
    import torch

    from variants.inputs import Weights
    from variants.shape import Shape


ARRIVALS = ("contiguous", "strided")
"""How activations can arrive: each tensor contiguous, or all as strided views of one buffer (`Stage.strided`)."""


class Unsupported(Exception):
    """Raised by `prepare` or `call`: this variant cannot compute this shape; the message says why."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What a variant may ask of the device: `cpu` or `cuda`, and a GPU's compute capability."""

    device: str
    capability: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Requires:
    """What a variant needs before it can run at all; None asks for nothing.

    `package` is an installed distribution as pip is asked for it, extras and all.

    Raises:
        ValueError: a need that no machine could meet.
    """

    device: str | None = None
    capability: tuple[int, int] | None = None
    dtypes: tuple[str, ...] | None = None
    package: str | None = None

    def __post_init__(self) -> None:
        if self.device not in (None, "cpu", "cuda"):
            raise ValueError(f"requires device {self.device!r}: 'cpu' or 'cuda' would do")
        if self.capability is not None and not _is_version(self.capability):
            raise ValueError(
                f"requires capability {self.capability!r}: two whole numbers would do, as in (9, 0)"
            )
        if self.dtypes is not None:
            if not isinstance(self.dtypes, tuple):
                raise ValueError(
                    f"requires dtypes {self.dtypes!r}: a tuple of names would do, as in ('bf16',)"
                )
            object.__setattr__(self, "dtypes", tuple(map(canonical_dtype, self.dtypes)))

    def missing(self, machine: Machine) -> str | None:
        """Why this machine cannot run the variant, or None."""
        if self.device is not None and machine.device != self.device:
            return f"needs a {self.device.upper()} device, this run is on {machine.device.upper()}"
        if self.capability is not None and (machine.capability or (0, 0)) < self.capability:
            needed, present = _version(self.capability), _version(machine.capability)
            return f"needs compute capability {needed}, this GPU has {present}"
        if self.package is not None and not _is_installed(self.package):
            return f"needs a package that is not installed: pip install {shlex.quote(self.package)}"
        return None

    def refuses(self, dtype: str) -> str | None:
        """Why the variant cannot compute in this dtype, or None."""
        if self.dtypes is not None and dtype not in self.dtypes:
            return f"computes in {' or '.join(self.dtypes)}, not in {dtype}"
        return None

    def __str__(self) -> str:
        needs = []
        if self.device:
            needs.append(self.device.upper())
        if self.capability:
            needs.append(f"capability ≥ {_version(self.capability)}")
        if self.dtypes:
            needs.append("/".join(self.dtypes))
        if self.package:
            needs.append(self.package)
        return ", ".join(needs) or "nothing"


class Variant:
    """Base of every variant; a subclass with a `name` is found by its file's import.

    The class docstring's first line is the hypothesis: why this layout might be faster or slower.
    A variant's life: built with a shape, `prepare` once (untimed), `call` many times (timed).

    `arrives`, one of `ARRIVALS`, is the layout that it is given its activations in; arranging them so is not timed,
    and its record says so. An `aside` answers one question beside the ranking: a run has it only where it is named.

    `no_backward` says in words why no gradient can be taken through `call`. Without it autograd must find the way
    from the output to the activations and to whatever tensors `prepare` made of the weights and keeps in
    attributes; a backward of one's own is a `torch.autograd.Function` inside `call`.
    """

    stage: ClassVar[str]
    name: ClassVar[str]
    requires: ClassVar[Requires] = Requires()
    arrives: ClassVar[str] = "contiguous"
    aside: ClassVar[bool] = False
    no_backward: ClassVar[str | None] = None

    def __init__(self, shape: Shape) -> None:
        self.shape = shape

    def prepare(self, weights: Weights) -> None:
        """Untimed: arrange the weights, allocate, compile. Never sees an activation.

        Raises:
            Unsupported: this variant cannot compute this shape.
        """

    # (*args, **kwargs) is what type checkers let a subclass narrow to named activations.
    def call(self, *activations: Any, **_: Any) -> Any:
        """Timed: everything a caller pays each time, from the stage's activations to the output.

        The output is a tensor, or tensors in tuples and lists, in whatever layout the variant leaves them.

        Raises:
            Unsupported: this variant cannot compute this shape.
        """
        raise NotImplementedError

    def canonical(self, output: Any) -> tuple[torch.Tensor, ...]:
        """Untimed: `call`'s output rearranged into the stage's canonical tensors, for verification.

        qkv and split: Q, K, V, each [batch, n_head, seq_len, head_dim], a split's contiguous as `call` left them;
        attention: O in the same layout; output, sublayer and stack: Y [batch, seq_len, d_model]. The default suits
        what is in that form already: one tensor, or a tuple or list of them.
        """
        return tuple(output) if isinstance(output, tuple | list) else (output,)


def _version(capability: tuple[int, int] | None) -> str:
    return f"{capability[0]}.{capability[1]}" if capability else "none"


def _is_installed(package: str) -> bool:
    try:
        version(package.partition("[")[0])
    except PackageNotFoundError:
        return False
    return True


def _is_version(capability: object) -> bool:
    return isinstance(capability, tuple) and list(map(type, capability)) == [int, int]
