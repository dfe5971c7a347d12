"""The base of the sdpa_* variants: scaled_dot_product_attention held to one backend."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, ClassVar

from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from variants.inputs import ask_backward, blank_activations
from variants.variant import Unsupported, Variant

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from variants.inputs import Weights

# How PyTorch 2.11 to 2.13 say that a backend takes no such inputs; any other error is a fault, and raised.
_REFUSALS = ("No available kernel", "No viable backend", "cuDNN Frontend error")


class ForcedSdpa(Variant):
    """One SDPA backend; a subclass names it.

    The backend is chosen inside `call`, as a user would choose it: entering and leaving `sdpa_kernel` costs some
    20 microseconds of host time a call, which eager times include and GPU spans do not.
    """

    stage = "attention"
    backend: ClassVar[SDPBackend]

    def prepare(self, weights: Weights) -> None:
        """Ask the backend once whether it takes this shape, and where gradients are wanted, its backward.

        Raises:
            Unsupported: it does not; the message gives PyTorch's own reasons.
        """
        w = weights.w_q
        blank = blank_activations(self.stage, self.shape, self.arrives, w.device, gradients=w.requires_grad)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                ask_backward(self.call(*blank), blank)
            except RuntimeError as error:
                if not any(refusal in str(error) for refusal in _REFUSALS):
                    raise
                said = [str(warning.message) for warning in caught]
                raise Unsupported(refusal_reason(self.backend.name, said, str(error))) from error

    def call(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """O [batch, n_head, seq_len, head_dim], in the strides the backend chose."""
        with sdpa_kernel(self.backend):
            return scaled_dot_product_attention(q, k, v, is_causal=self.shape.causal)


def refusal_reason(backend: str, warned: Sequence[str], error: str) -> str:
    """One line: what PyTorch warned about the backend that was asked for, or else its error."""
    said = (text.partition(" (Triggered internally")[0].strip() for text in warned)
    # "…because:" is a heading; the backends that were not asked for are "runtime disabled".
    reasons = [line for line in said if line and not line.endswith("because:") and "disabled" not in line]
    detail = "; ".join(dict.fromkeys(reasons)) or error.partition("\n")[0]
    return f"{backend} refuses this shape: {' '.join(detail.split())}"
