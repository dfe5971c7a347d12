"""attention/fa4: FlashAttention-4, from its own package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from variants.inputs import ask_backward, blank_activations
from variants.variant import Requires, Unsupported, Variant

if TYPE_CHECKING:
    import torch

    from variants.inputs import Weights


class Fa4(Variant):
    """The peer to beat on long sequences: fastest where its pipeline is full; eager, its Python launch costs it."""

    stage = "attention"
    name = "fa4"
    requires = Requires(
        device="cuda", capability=(9, 0), dtypes=("bf16", "fp16"), package="flash-attn-4[cu13]"
    )

    def prepare(self, weights: Weights) -> None:
        """Import the package and have it compile its kernel for this shape.

        Raises:
            Unsupported: the package does not take this shape, or cannot be imported; the message is its own.
        """
        try:
            from flash_attn.cute import flash_attn_func
        except ImportError as error:
            raise Unsupported(f"flash-attn-4 cannot be imported: {_one_line(error)}") from error
        self.attend = flash_attn_func
        try:
            w = weights.w_q
            blank = blank_activations(
                self.stage, self.shape, self.arrives, w.device, gradients=w.requires_grad
            )
            ask_backward(self.call(*blank), blank)
        except (AssertionError, NotImplementedError) as error:  # how it refuses
            raise Unsupported(f"flash-attn-4 refuses this shape: {_one_line(error)}") from error

    def call(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """O [batch, n_head, seq_len, head_dim], a view of [batch, seq_len, n_head, head_dim]."""
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        found: Any = self.attend(q, k, v, causal=self.shape.causal)
        out: torch.Tensor = (
            found[0] if isinstance(found, tuple) else found
        )  # some versions add each row's logsumexp
        return out.transpose(1, 2)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
