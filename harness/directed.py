"""A variant bound to inputs and a direction: the call that is timed, and what of its output is verified.

    forward   `call`, in inference mode
    step      `call` and then its gradients, as training pays for them
    backward  the gradients alone: of the forward before, whose saved tensors are kept from one call to the next;
              what that forward gave goes along unchanged, for it is verified, too

Gradients are taken with `torch.autograd.grad`, so that nothing is added up in a `.grad` and nothing must be set back.
They are of the activations and of what the variant made of the weights (`trainable.py`), for a fixed random gradient
of the output, laid out as the output itself is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import torch

from harness.nested import flat, mapped
from harness.output_form import Returned, differentiable_fault, note
from harness.trainable import Trainable, trainable
from harness.verification import mismatch, opposite
from variants.direction import BACKWARD, FORWARD
from variants.reference import reference
from variants.reference_gradients import Gradient, reference_gradients
from variants.variant import Unsupported

if TYPE_CHECKING:
    from harness.timers import Call
    from variants.inputs import Inputs
    from variants.shape import Shape
    from variants.variant import Variant

Tensors = tuple[torch.Tensor, ...]

SECOND = (
    "gives other gradients when asked a second time of one forward: many are timed of one, so a backward must neither "
    "keep its gradients, nor write over what the forward saved, nor over the gradient of the output"
)


class NoGradient(Exception):
    """There are no gradients, or not those that training would pay for; the message says why."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What a direction must give: the stage's canonical outputs, and its gradients unless it is forward."""

    outputs: Tensors
    gradients: tuple[Gradient, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """The same of a variant; a gradient is None where autograd found no way to its tensor.

    `returned` is the output as `call` left it, in a backward the forward's that ran before.
    """

    returned: Returned
    outputs: Tensors
    gradients: tuple[torch.Tensor | None, ...] = ()


class Directed(Protocol):
    """One variant on one set of inputs, in one direction."""

    @property
    def timed(self) -> Call:
        """What is timed; its attribute `before`, where it has one, is what must have run."""

    def renew(self) -> None:
        """Untimed: take over the inputs' values as they are now."""

    def release(self) -> None:
        """Untimed: give up what is kept between calls; `renew` makes it anew."""

    def rehearse(self) -> None:
        """Untimed, after `renew`: what is to be called many times must not live on what its last call left.

        Raises:
            NoGradient: it does.
        """

    def found(self, output: Any) -> Found:
        """Untimed: what `timed` returned, in the stage's canonical layout."""

    def on(self, inputs: Inputs) -> Directed:
        """The same variant, with the same weights, on other activations."""


def expect(direction: str, stage: str, shape: Shape, inputs: Inputs) -> Expected:
    """What is right, in float64."""
    return Expected(
        outputs=reference(stage, shape, inputs),
        gradients=() if direction == FORWARD else reference_gradients(stage, shape, inputs),
    )


def direct(direction: str, kind: type[Variant], shape: Shape, inputs: Inputs) -> Directed:
    """A variant of this kind, prepared and bound. The caller has set the mode: inference, or recording gradients.

    Raises:
        NoGradient: the output is none of the stage's, or autograd sees no way back from a part of it, or more than
            one to a weight.
        Unsupported: it sees none at all.
        Exception: whatever the variant raises.
    """
    if direction == FORWARD:
        variant = kind(shape)
        variant.prepare(inputs.weights)
        return Forward(variant, inputs)
    _let_compiled_backward_run_again(direction == BACKWARD)
    of = trainable(kind, shape, inputs.weights)
    return Backward(of, inputs) if direction == BACKWARD else Step(of, inputs)


class Forward:
    """The variant's own `call`."""

    def __init__(self, variant: Variant, inputs: Inputs) -> None:
        self._variant = variant
        self.timed: Call = partial(variant.call, *inputs.activations)

    def renew(self) -> None:
        """The call reads its inputs where they are."""

    def release(self) -> None:
        """Nothing is kept."""

    def rehearse(self) -> None:
        """Each call has a forward of its own."""

    def found(self, output: Any) -> Found:
        """The outputs."""
        returned = note(output)
        return Found(returned, self._variant.canonical(output))

    def on(self, inputs: Inputs) -> Forward:
        """See `Directed.on`."""
        return Forward(self._variant, inputs)


class Step:
    """Forward and backward, one after the other; `timed` returns the output and the gradients."""

    def __init__(self, of: Trainable, inputs: Inputs) -> None:
        self._of, self._inputs = of, inputs
        # Leaves that share the inputs' memory but not their count of changes: values are replaced between calls.
        self._activations = tuple(x.data.requires_grad_() for x in inputs.activations)
        self._forward = partial(of.variant.call, *self._activations)
        leaves = (*self._activations, *of.parameters)
        output = self._forward()
        self._refuse_other_outputs(output)
        self._d_output = mapped(_empty_like, output)
        self._arrange()
        found = _gradients(flat(output), leaves, flat(self._d_output))
        self._reached = [gradient is not None for gradient in found]
        self._wanted = tuple(leaf for leaf, d in zip(leaves, found, strict=True) if d is not None)
        self._given = flat(self._d_output)
        self._refuse_several_ways()

    def __call__(self) -> Any:
        """The output and the gradients."""
        output = self._forward()
        return output, torch.autograd.grad(flat(output), self._wanted, self._given)

    @property
    def timed(self) -> Call:
        """See `__call__`."""
        return self

    def renew(self) -> None:
        """Lay the output's gradient out anew, in the storage that is timed."""
        self._arrange()

    def release(self) -> None:
        """Nothing is kept."""

    def rehearse(self) -> None:
        """Each call has a forward of its own."""

    def found(self, output: Any) -> Found:
        """The outputs and the gradients."""
        out, gradients = output
        out = mapped(torch.Tensor.detach, out)
        returned = note(out)
        return Found(returned, self._of.variant.canonical(out), self._canonical(gradients))

    def on(self, inputs: Inputs) -> Step:
        """See `Directed.on`."""
        return type(self)(self._of, inputs)

    def _arrange(self) -> None:
        """The output's gradient from the canonical layout into the variant's, by the chain rule of `canonical`.

        Raises:
            NoGradient: the output is not the stage's, so that its gradient has no place in it.
        """
        leaves = mapped(lambda like: torch.empty_like(like).requires_grad_(), self._d_output)
        canonical = self._of.variant.canonical(leaves)
        if why := mismatch(canonical, self._inputs.output_gradients, self._of.variant.shape.dtype):
            raise NoGradient(why)
        arranged = torch.autograd.grad(canonical, flat(leaves), self._inputs.output_gradients)
        for own, new in zip(flat(self._d_output), arranged, strict=True):
            own.copy_(new)

    def _refuse_other_outputs(self, output: Any) -> None:
        """What is none of the stage's outputs has no gradient that could be asked for in words."""
        variant = self._of.variant
        detached = mapped(torch.Tensor.detach, output)
        returned = note(detached)
        canonical, like = variant.canonical(detached), self._inputs.output_gradients
        fault = differentiable_fault(variant.stage, variant.shape.dtype, returned, canonical, like)
        if fault:
            raise NoGradient(f"before its gradients: {fault}")

    def _refuse_several_ways(self) -> None:
        """What adds up the gradients of a weight's copies would be left to verification, and not be timed."""
        held = sum(leaf.numel() for leaf in self._wanted) - sum(x.numel() for x in self._activations)
        learned = sum(weight.numel() for weight in self._of.weights)
        if held > learned:
            raise NoGradient(
                f"learns {held:,} elements where the stage's weights have {learned:,}: adding the gradients of copies "
                f"up would not be timed, so `call` must make them"
            )

    def _canonical(self, gradients: Tensors) -> tuple[torch.Tensor | None, ...]:
        given = iter(gradients)
        all_leaves = [next(given) if reached else None for reached in self._reached]
        count = len(self._activations)
        return (*all_leaves[:count], *self._of.of_weights(all_leaves[count:]))


class Backward(Step):
    """The gradients alone, of the forward that `before` runs."""

    def __init__(self, of: Trainable, inputs: Inputs) -> None:
        super().__init__(of, inputs)
        self._output: Any = None
        self._ends: Tensors = ()
        self.before()

    def __call__(self) -> Any:
        """The forward's output and the gradients, of which only these are computed here.

        The saved tensors stay, or every call would need a forward of its own, inside the span.
        """
        return self._output, torch.autograd.grad(self._ends, self._wanted, self._given, retain_graph=True)

    def before(self) -> None:
        """The forward. The last one goes first: a captured graph must not meet nodes of another stream."""
        self.release()
        self._output = self._forward()
        self._ends = flat(self._output)

    def renew(self) -> None:
        """The same as for a step, and the forward again."""
        super().renew()
        self.before()

    def rehearse(self) -> None:
        """Two calls of one forward, the second for the opposite gradient of the output: it gives the opposite."""
        first = [one.clone() for one in self()[1]]  # its memory may be given out again
        for own in self._given:
            own.neg_()
        _, second = self()
        for own in self._given:
            own.neg_()
        if not opposite(first, second, self._of.variant.shape):
            raise NoGradient(SECOND)

    def release(self) -> None:
        """Let go of the forward's output, and with it of what the forward saved."""
        self._output, self._ends = None, ()


def _empty_like(output: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(output, requires_grad=False)


def _gradients(outputs: Tensors, leaves: Tensors, given: Tensors) -> tuple[torch.Tensor | None, ...]:
    """Once, to learn which leaves the output depends on."""
    ends = sum(not output.requires_grad for output in outputs)
    if ends == len(outputs):
        raise Unsupported("has no backward: autograd finds no way back from its output")
    if ends:
        raise NoGradient(
            f"autograd finds no way back from {ends} of the {len(outputs)} tensors of its output"
        )
    found = torch.autograd.grad(outputs, leaves, given, allow_unused=True)
    if all(one is None for one in found):
        raise Unsupported("has no backward: autograd finds no way back from its output to what it was given")
    return found


def _let_compiled_backward_run_again(again: bool) -> None:
    """A compiled backward writes over what its forward saved, unless told that it will be needed again."""
    from torch._functorch import config

    config.donated_buffer = not again
