"""What form an output must have, whatever its values: work that only `canonical` would do is not timed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.nested import flat
from harness.verification import mismatch, only_rearranges
from variants.stage import STAGES

if TYPE_CHECKING:
    import torch

    Tensors = tuple[torch.Tensor, ...]

UNTIMED = (
    "`canonical` gives other values than `call` returned: it may only rearrange them, for it is not timed"
)
NOT_CONTIGUOUS = "its output is not contiguous as `call` returns it: that work is what the stage times"


def form_fault(stage: str, returned: Any, canonical: Tensors) -> str | None:
    """Why an output whose values are right is none of this stage's, or None."""
    if not only_rearranges(returned, canonical):
        return UNTIMED
    if STAGES[stage].contiguous and not _left_contiguous(returned, canonical):
        return NOT_CONTIGUOUS
    return None


def differentiable_fault(
    stage: str, dtype: str, returned: Any, canonical: Tensors, like: Tensors
) -> str | None:
    """The same, and first whether the tensors are `like` the stage's, which a comparison of gradients does not ask."""
    return mismatch(canonical, like, dtype) or form_fault(stage, returned, canonical)


def _left_contiguous(returned: Any, canonical: Tensors) -> bool:
    """Whether each canonical tensor is contiguous in memory that `call` returned: a copy made later would be, too."""
    kept = {tensor.untyped_storage().data_ptr() for tensor in flat(returned)}
    return all(one.is_contiguous() and one.untyped_storage().data_ptr() in kept for one in canonical)
