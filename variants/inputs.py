"""Canonical inputs: random activations and weights that depend on the seed and the shape alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from variants.shape import Shape

_TORCH_DTYPES = {
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "tf32": torch.float32,
    "fp32": torch.float32,
}

# One seed feeds two streams, so that fresh activations leave the weights as they are.
_WEIGHT_STREAM = 0
_ACTIVATION_STREAM = 1


@dataclass(frozen=True, slots=True)
class Weights:
    """W_Q, W_K, W_V and W_O, each [d_model, d_model], multiplied from the right: Q = X · W_Q.

    The heads lie side by side along the columns of W_Q, W_K and W_V, and along the rows of W_O.
    """

    w_q: torch.Tensor
    w_k: torch.Tensor
    w_v: torch.Tensor
    w_o: torch.Tensor


@dataclass(frozen=True, slots=True)
class Inputs:
    """What every variant of a stage is given: the stage's activations, and the weights."""

    activations: tuple[torch.Tensor, ...]
    weights: Weights

    def tensors(self) -> tuple[torch.Tensor, ...]:
        """Activations, then W_Q, W_K, W_V and W_O."""
        weights = self.weights
        return (*self.activations, weights.w_q, weights.w_k, weights.w_v, weights.w_o)

    def arriving(self, arrives: str) -> Inputs:
        """The same values, the activations in the layout that a variant declares, in new storage unless contiguous."""
        return self if arrives == "contiguous" else replace(self, activations=strided(self.activations))

    def clone(self) -> Inputs:
        """The same values in storage of their own."""
        copies = [tensor.clone() for tensor in self.tensors()]
        return Inputs(tuple(copies[:-4]), Weights(*copies[-4:]))

    def copy_from(self, other: Inputs) -> None:
        """Take over the other's values in place."""
        for own, theirs in zip(self.tensors(), other.tensors(), strict=True):
            own.copy_(theirs)

    def equals(self, other: Inputs) -> bool:
        """Whether every value is the same."""
        return all(map(torch.equal, self.tensors(), other.tensors()))


def torch_dtype(name: str) -> torch.dtype:
    """PyTorch's dtype for a key of `shape.DTYPES`; tf32 is stored as float32."""
    return _TORCH_DTYPES[name]


def make_inputs(stage: str, shape: Shape, seed: int, device: torch.device) -> Inputs:
    """The stage's activations, X ~ N(0, 1), and the weights, W ~ N(0, 1/d_model): alike for alike seeds.

    Random streams differ between CPU and CUDA, so values repeat on one kind of device only.
    """
    generator = _generator(seed, _WEIGHT_STREAM, device)
    weights = Weights(*(_weight(shape, generator, device) for _ in range(4)))
    return Inputs(fresh_activations(stage, shape, seed, device), weights)


def fresh_activations(stage: str, shape: Shape, seed: int, device: torch.device) -> tuple[torch.Tensor, ...]:
    """The stage's activations alone, in new storage, contiguous.

    qkv and sublayer: X [batch, seq_len, d_model]; attention: Q, K, V, each
    [batch, n_head, seq_len, head_dim]; output: O in that layout.

    Raises:
        ValueError: the stage is unknown.
    """
    generator = _generator(seed, _ACTIVATION_STREAM, device)
    dtype = torch_dtype(shape.dtype)
    return tuple(
        torch.randn(size, generator=generator, dtype=dtype, device=device) for size in _sizes(stage, shape)
    )


def _sizes(stage: str, shape: Shape) -> tuple[tuple[int, ...], ...]:
    heads = (shape.batch, shape.n_head, shape.seq_len, shape.head_dim)
    features = (shape.batch, shape.seq_len, shape.d_model)
    sizes = {"qkv": (features,), "attention": (heads,) * 3, "output": (heads,), "sublayer": (features,)}
    if stage not in sizes:
        raise ValueError(f"stage {stage!r} has no inputs: {', '.join(sizes)} have")
    return sizes[stage]


def blank_activations(
    stage: str, shape: Shape, arrives: str, device: torch.device
) -> tuple[torch.Tensor, ...]:
    """Zeros of the sizes and strides that `call` will see, for a `prepare` that must call once."""
    zeros = tuple(
        torch.zeros(size, dtype=torch_dtype(shape.dtype), device=device) for size in _sizes(stage, shape)
    )
    return zeros if arrives == "contiguous" else strided(zeros)


def strided(activations: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    """Tensors [batch, n_head, seq_len, head_dim] as views of one buffer [batch, seq_len, tensors, n_head, head_dim].

    So one fused projection leaves them: a head is a stride, and so is which of Q, K and V it is of.
    """
    batch, n_head, seq_len, head_dim = activations[0].shape
    buffer = activations[0].new_empty(batch, seq_len, len(activations), n_head, head_dim)
    views = tuple(one.transpose(1, 2) for one in buffer.unbind(2))
    for view, values in zip(views, activations, strict=True):
        view.copy_(values)
    return views


def _weight(shape: Shape, generator: torch.Generator, device: torch.device) -> torch.Tensor:
    weight = torch.empty(shape.d_model, shape.d_model, device=device)
    return weight.normal_(0, shape.d_model**-0.5, generator=generator).to(torch_dtype(shape.dtype))


def _generator(seed: int, stream: int, device: torch.device) -> torch.Generator:
    return torch.Generator(device).manual_seed(2 * seed + stream)
