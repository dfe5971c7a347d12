"""A variant whose gradients can be taken: what it made of the weights, and the way back to the canonical ones.

Gradients are of what a variant holds, for that is what it would train: `prepare` runs twice. Once apart from
autograd, as for the forward: what it keeps are leaves of its own, and those are timed. Once under autograd, from
canonical weights: the same tensors, known as functions of W_Q, W_K, W_V and W_O. Through these, untimed, the chain rule
turns a timed gradient into dW, whether the weights were split, concatenated or transposed, and no variant has to say
how.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING

import torch

from variants.inputs import learned
from variants.variant import Variant

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from variants.inputs import Weights
    from variants.shape import Shape


@dataclass(frozen=True, slots=True)
class Trainable:
    """`parameters` are the variant's tensors that come from weights, `linked` the same as functions of `weights`."""

    variant: Variant
    parameters: tuple[torch.Tensor, ...]
    linked: tuple[torch.Tensor, ...]
    weights: tuple[torch.Tensor, ...]

    def of_weights(self, gradients: Sequence[torch.Tensor | None]) -> tuple[torch.Tensor | None, ...]:
        """dW of the canonical weights from those of the parameters; None where no way leads to one."""
        pairs = [(own, d) for own, d in zip(self.linked, gradients, strict=True) if d is not None]
        if not (pairs and self.weights):
            return (None,) * len(self.weights)
        outputs, given = zip(*pairs, strict=True)
        return torch.autograd.grad(outputs, self.weights, given, retain_graph=True, allow_unused=True)


def trainable(kind: type[Variant], shape: Shape, weights: Weights) -> Trainable:
    """The variant, prepared; both times the weights say that gradients are wanted.

    Raises:
        ValueError: `prepare` does not keep the same tensors both times.
        Exception: whatever `prepare` raises.
    """
    # Aliases with a count of changes of their own: weights are written again, with the values they had, after a variant
    # that may have spoiled them.
    own, canonical = (weights.changed(lambda w: w.data.requires_grad_()) for _ in range(2))
    with torch.enable_grad():
        linked = kind(shape)
        linked.prepare(canonical)
    with torch.no_grad():
        variant = kind(shape)
        variant.prepare(own)
    pairs = [(parameter, link) for parameter, link in _paired(variant, linked) if link.requires_grad]
    for parameter, _ in pairs:
        parameter.requires_grad_()
    return Trainable(
        variant,
        parameters=tuple(parameter for parameter, _ in pairs),
        linked=tuple(link for _, link in pairs),
        weights=learned(kind.stage, canonical),
    )


def _paired(variant: Variant, linked: Variant) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The tensors of one beside those of the other, which must be alike."""
    own, links = list(held(variant)), list(held(linked))
    if [one.shape for one in own] != [one.shape for one in links]:
        raise ValueError(
            f"`prepare` kept {len(links)} tensors the first time and {len(own)} the second, or of other shapes: for "
            f"gradients it runs twice, and must arrange the weights alike"
        )
    return list(zip(own, links, strict=True))


def held(variant: Variant) -> Iterator[torch.Tensor]:
    """Every tensor that can be reached from the variant's attributes, once, in a stable order.

    What is hidden elsewhere, as in a closure, has no gradient: `verification.compare_gradients` says that, and where
    it is looked for (`FOUND_IN`).
    """
    seen: set[int] = set()
    waiting: list[object] = [variant]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, torch.Tensor):
            yield one
        else:
            waiting += reversed(_parts(one))


def _parts(one: object) -> list[object]:
    if isinstance(one, Variant | torch.nn.Module):
        return list(vars(one).values())
    if isinstance(one, list | tuple):
        return list(one)
    if isinstance(one, dict):
        return list(one.values())
    if is_dataclass(one) and not isinstance(one, type):
        return [getattr(one, field.name, None) for field in fields(one)]  # a field may never have been set
    return []
