"""A variant made ready in a process that observes: prepared anew, and called until all it loads is loaded."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.state import PinnedState
    from harness.timers import Call
    from results.schema import Case
    from variants.inputs import Inputs
    from variants.registry import Registry
    from variants.shape import Shape

WARM_UP_CALLS = 3


def warm_call(case: Case, shape: Shape, inputs: Inputs, registry: Registry, state: PinnedState) -> Call:
    """The case's call on these inputs, in the state it was found in.

    Raises:
        Exception: whatever the variant raises.
    """
    state.restore(shape.dtype)
    variant = registry.variants[case.stage, case.variant](shape)
    variant.prepare(inputs.weights)
    call = partial(variant.call, *inputs.arriving(variant.arrives).activations)
    for _ in range(WARM_UP_CALLS):
        call()
    state.restore(shape.dtype)
    return call
