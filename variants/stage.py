"""The stages: what is computed, how much work that is, and which variant the others are compared with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from variants import work
from variants.direction import BACKWARD, FORWARD, USEFUL

if TYPE_CHECKING:
    from variants.shape import Shape

Formula = Callable[["Shape"], int]


@dataclass(frozen=True, slots=True)
class Stage:
    """One part of the attention sublayer, or several sublayers, that variants compute in different ways.

    `activations_in` and `activations_out` count [batch, seq_len, d_model] tensors: with the parameters they
    give the least bytes any variant must move. `arrives` is the layout the activations arrive in, outside
    the timed call; `strided` the one that variants may declare instead (`Variant.arrives`), None where there is none.
    `deep` says that `n_layer` is a size of it, `contiguous` that its canonical outputs must be so as `call` leaves
    them, `one_model` that one model is enough by default: others tell little more.
    `gradients` names those of the activations, then those of the weights that the stage learns, a layer's, as
    `variants.reference_gradients` gives them; without any the stage is computed forward alone. `saves` says that the
    backward reads the activations again: a relayout's needs none of them.
    """

    name: str
    summary: str
    baseline: str
    arrives: str
    flops: Formula
    parameters: Formula
    activations_in: int
    activations_out: int
    strided: str | None = None
    deep: bool = False
    contiguous: bool = False
    one_model: bool = False
    gradients: tuple[str, ...] = ()
    saves: bool = True

    def idle(self, shape: Shape) -> str | None:
        """Why there is nothing for this stage to do at this shape, or None."""
        if self.contiguous and shape.tokens == 1:
            return "of a single token every head is contiguous as it arrives: nothing is to be moved"
        return None

    def useful_flops(self, shape: Shape, direction: str = FORWARD) -> int:
        """The algorithm's FLOPs in this direction."""
        return USEFUL[direction] * self.flops(shape)

    def least_bytes(self, shape: Shape, direction: str = FORWARD) -> int:
        """Every input read once and every output written once.

        Backward reads the output's gradient as well, and the activations only if it `saves` them; it writes the
        gradients of activations and parameters in the place of the output. A step writes both.
        """
        activations, parameters = 0, self.parameters(shape)
        if direction != BACKWARD or self.saves:
            activations += self.activations_in
        if direction != BACKWARD:
            activations += self.activations_out
        if direction != FORWARD:
            activations += self.activations_out + self.activations_in
            parameters *= 2
        return (activations * work.activation_elements(shape) + parameters) * shape.element_bytes


STAGES = {
    stage.name: stage
    for stage in (
        Stage(
            name="qkv",
            summary="steps 1–3: X · W_Q, X · W_K, X · W_V",
            baseline="per_head",
            arrives="X [batch, seq_len, d_model]",
            flops=work.qkv_flops,
            parameters=work.qkv_parameters,
            activations_in=1,
            activations_out=3,
            gradients=("dX", "dW_Q", "dW_K", "dW_V"),
        ),
        Stage(
            name="split",
            summary="the relayout alone: each head's rows of Q, K and V made contiguous",
            baseline="torch_contiguous",
            arrives="Q, K, V side by side as a fused projection leaves them, [batch, seq_len, 3, n_head, head_dim]",
            flops=work.no_flops,
            parameters=work.no_parameters,
            activations_in=3,
            activations_out=3,
            contiguous=True,
            one_model=True,
            gradients=("dQKV",),
            saves=False,
        ),
        Stage(
            name="attention",
            summary="step 4: softmax(Q · Kᵀ / √head_dim + mask) · V for every head",
            baseline="per_head_loop",
            arrives="Q, K, V [batch, n_head, seq_len, head_dim], contiguous",
            flops=work.attention_flops,
            parameters=work.no_parameters,
            activations_in=3,
            activations_out=1,
            strided="Q, K, V as views of one buffer [batch, seq_len, 3, n_head, head_dim]",
            gradients=("dQ", "dK", "dV"),
        ),
        Stage(
            name="output",
            summary="step 5: the heads' outputs concatenated, times W_O",
            baseline="per_head_accumulate",
            arrives="O [batch, n_head, seq_len, head_dim], contiguous",
            flops=work.output_flops,
            parameters=work.output_parameters,
            activations_in=1,
            activations_out=1,
            strided="O as a view of a buffer [batch, seq_len, n_head, head_dim]",
            gradients=("dO", "dW_O"),
        ),
        Stage(
            name="sublayer",
            summary="all five steps, from X to Y",
            baseline="per_head",
            arrives="X [batch, seq_len, d_model]",
            flops=work.sublayer_flops,
            parameters=work.sublayer_parameters,
            activations_in=1,
            activations_out=1,
            gradients=("dX", "dW_Q", "dW_K", "dW_V", "dW_O"),
        ),
        Stage(
            name="stack",
            summary="n_layer sublayers with residuals: x + sublayer(x), again and again",
            # Head by head, twelve layers are more launches than a held stream takes: no time of the mode that ranks.
            baseline="fused_sdpa",
            arrives="X [batch, seq_len, d_model]",
            flops=work.stack_flops,
            parameters=work.stack_parameters,
            activations_in=1,
            activations_out=1,
            deep=True,
            one_model=True,
            gradients=("dX", "dW_Q", "dW_K", "dW_V", "dW_O"),
        ),
    )
}
