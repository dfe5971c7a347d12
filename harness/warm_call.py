"""A variant made ready in a process that observes: prepared anew, and called until all it loads is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.directed import direct
from variants.direction import FORWARD

if TYPE_CHECKING:
    from harness.state import PinnedState
    from harness.timers import Call
    from results.schema import Case
    from variants.inputs import Inputs
    from variants.registry import Registry
    from variants.shape import Shape

WARM_UP_CALLS = 3


def warm_call(case: Case, shape: Shape, inputs: Inputs, registry: Registry, state: PinnedState) -> Call:
    """The case's call on these inputs, in the state it was found in; of another direction than forward, the mode
    that records gradients stays on until the next `restore`.

    Raises:
        Exception: whatever the variant raises.
    """
    gradients = case.direction != FORWARD
    state.restore(shape.dtype, gradients=gradients)
    kind = registry.variants[case.stage, case.variant]
    call = direct(case.direction, kind, shape, inputs.arriving(kind.arrives)).timed
    for _ in range(WARM_UP_CALLS):
        call()
    state.restore(shape.dtype, gradients=gradients)
    return call
