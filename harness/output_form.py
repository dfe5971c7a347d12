"""What form an output must have, whatever its values: work that only `canonical` would do is not timed.

An output is noted as `call` returns it: `canonical` may write into it, fill a list anew, or wait for a thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from harness.nested import flat
from harness.verification import mismatch
from variants.stage import STAGES

if TYPE_CHECKING:
    Tensors = tuple[torch.Tensor, ...]

UNTIMED = (
    "`canonical` gives other values than `call` returned: it may only rearrange them, for it is not timed"
)
NOT_CONTIGUOUS = "its output is not contiguous as `call` returns it: that work is what the stage times"
PLAIN = (torch.Tensor, torch.nn.Parameter)
"""A subclass may put off its work until someone looks."""


@dataclass(frozen=True, slots=True)
class Returned:
    """What `call` returned, before anyone else has touched it.

    `contents` are how many elements there are and the sum of their bit patterns, `storages` the addresses of their
    memory, `fault` what keeps it from being tensors at all.
    """

    contents: tuple[int, int]
    storages: frozenset[int]
    fault: str | None = None


def note(output: object) -> Returned:
    """Look at an output at once."""
    tensors = flat(output)
    if not tensors and not isinstance(output, tuple | list):
        said = f"`call` gave a {type(output).__name__}: a tensor, or tensors in tuples and lists, would do"
        return Returned((0, 0), frozenset(), said)
    odd = next((one for one in tensors if type(one) not in PLAIN), None)
    if odd is not None:
        said = f"`call` gave a {type(odd).__name__}: a plain tensor would do, for a subclass may put off its work"
        return Returned((0, 0), frozenset(), said)
    in_memory = [one for one in tensors if one.layout == torch.strided]
    return Returned(_contents(tensors), frozenset(one.untyped_storage().data_ptr() for one in in_memory))


def form_fault(stage: str, returned: Returned, canonical: Tensors) -> str | None:
    """Why an output whose values are right is none of this stage's, or None."""
    if returned.fault:
        return returned.fault
    if not only_rearranges(returned, canonical):
        return UNTIMED
    if STAGES[stage].contiguous and not _left_contiguous(returned, canonical):
        return NOT_CONTIGUOUS
    return None


def differentiable_fault(
    stage: str, dtype: str, returned: Returned, canonical: Tensors, like: Tensors
) -> str | None:
    """The same, and first whether the tensors are `like` the stage's, which a comparison of gradients does not ask."""
    return mismatch(canonical, like, dtype) or form_fault(stage, returned, canonical)


def only_rearranges(returned: Returned, canonical: Tensors) -> bool:
    """Whether `canonical` holds exactly the elements that were returned, in whatever order: work there is not timed."""
    return returned.contents == _contents(canonical)


def _left_contiguous(returned: Returned, canonical: Tensors) -> bool:
    """Whether each canonical tensor is contiguous in memory that `call` returned: a copy made later would be, too."""
    return all(
        one.is_contiguous() and one.untyped_storage().data_ptr() in returned.storages for one in canonical
    )


def _contents(tensors: Tensors) -> tuple[int, int]:
    return sum(tensor.numel() for tensor in tensors), sum(map(_bits, tensors))


def _bits(tensor: torch.Tensor) -> int:
    integer = {2: torch.int16, 4: torch.int32}.get(tensor.element_size())
    if integer is None or tensor.layout != torch.strided or tensor.is_meta:
        return -1  # no output of any stage: it is refused for its dtype, layout or device
    return int(tensor.view(integer).sum(dtype=torch.int64).item())
