"""Tensors in nested tuples and lists, as a variant's `call` may return them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable


def flat(output: object) -> tuple[torch.Tensor, ...]:
    """The tensors, from left to right."""
    if isinstance(output, torch.Tensor):
        return (output,)
    if isinstance(output, list | tuple):
        return tuple(tensor for part in output for tensor in flat(part))
    return ()


def mapped(change: Callable[[torch.Tensor], torch.Tensor], output: Any) -> Any:
    """The same nesting with each tensor changed; a named tuple stays one, and so does what is none of these."""
    if isinstance(output, torch.Tensor):
        return change(output)
    if isinstance(output, list | tuple):
        parts = [mapped(change, part) for part in output]
        if isinstance(output, list):
            return parts
        return output._make(parts) if hasattr(output, "_make") else tuple(parts)
    return output
