"""Canonical inputs: random activations and weights that depend on the seed and the shape alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from variants.direction import FORWARD

if TYPE_CHECKING:
    from variants.shape import Shape

_TORCH_DTYPES = {
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "tf32": torch.float32,
    "fp32": torch.float32,
}

# One seed feeds several streams, so that fresh activations leave the weights as they are. The last is far from those of
# the seeds beside it, within the 32 bits that a CPU's generator takes of a seed.
_WEIGHT_STREAM = 0
_ACTIVATION_STREAM = 1
_GRADIENT_STREAM = 2**31

_LEARNED = {
    "qkv": ("w_q", "w_k", "w_v"),
    "attention": (),
    "output": ("w_o",),
    "sublayer": ("w_q", "w_k", "w_v", "w_o"),
}


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
    """What every variant of a stage is given: the stage's activations, and the weights.

    Where gradients are wanted, `output_gradients` are those of the canonical outputs (see `Variant.canonical`).
    """

    activations: tuple[torch.Tensor, ...]
    weights: Weights
    output_gradients: tuple[torch.Tensor, ...] = ()

    def tensors(self) -> tuple[torch.Tensor, ...]:
        """The gradients of the outputs, activations, then W_Q, W_K, W_V and W_O."""
        weights = self.weights
        return (*self.output_gradients, *self.activations, weights.w_q, weights.w_k, weights.w_v, weights.w_o)

    def arriving(self, arrives: str) -> Inputs:
        """The same values, the activations in the layout that a variant declares, in new storage unless contiguous."""
        return self if arrives == "contiguous" else replace(self, activations=strided(self.activations))

    def clone(self) -> Inputs:
        """The same values in storage of their own."""
        copies = [tensor.clone() for tensor in self.tensors()]
        first = len(self.output_gradients)
        return Inputs(tuple(copies[first:-4]), Weights(*copies[-4:]), tuple(copies[:first]))

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


def make_inputs(
    stage: str, shape: Shape, seed: int, device: torch.device, direction: str = FORWARD
) -> Inputs:
    """The stage's activations, X ~ N(0, 1), and the weights, W ~ N(0, 1/d_model): alike for alike seeds.

    In other directions than forward the gradients of its outputs are there, too, dY ~ N(0, 1). Random streams
    differ between CPU and CUDA, so values repeat on one kind of device only.
    """
    generator = _generator(seed, _WEIGHT_STREAM, device)
    weights = Weights(*(_weight(shape, generator, device) for _ in range(4)))
    return fresh_inputs(stage, shape, seed, weights, direction)


def fresh_inputs(stage: str, shape: Shape, seed: int, weights: Weights, direction: str = FORWARD) -> Inputs:
    """Activations and gradients of outputs in new storage, beside these weights."""
    device = weights.w_q.device
    gradients = () if direction == FORWARD else output_gradients(stage, shape, seed, device)
    return Inputs(fresh_activations(stage, shape, seed, device), weights, gradients)


def fresh_activations(stage: str, shape: Shape, seed: int, device: torch.device) -> tuple[torch.Tensor, ...]:
    """The stage's activations alone, in new storage, contiguous.

    qkv and sublayer: X [batch, seq_len, d_model]; attention: Q, K, V, each
    [batch, n_head, seq_len, head_dim]; output: O in that layout.

    Raises:
        ValueError: the stage is unknown.
    """
    return _standard_normal(_sizes(stage, shape), shape, _generator(seed, _ACTIVATION_STREAM, device))


def _sizes(stage: str, shape: Shape) -> tuple[tuple[int, ...], ...]:
    heads = (shape.batch, shape.n_head, shape.seq_len, shape.head_dim)
    features = (shape.batch, shape.seq_len, shape.d_model)
    sizes = {"qkv": (features,), "attention": (heads,) * 3, "output": (heads,), "sublayer": (features,)}
    if stage not in sizes:
        raise ValueError(f"stage {stage!r} has no inputs: {', '.join(sizes)} have")
    return sizes[stage]


def output_gradients(stage: str, shape: Shape, seed: int, device: torch.device) -> tuple[torch.Tensor, ...]:
    """dY ~ N(0, 1) for each of the stage's canonical outputs, contiguous."""
    heads = (shape.batch, shape.n_head, shape.seq_len, shape.head_dim)
    features = (shape.batch, shape.seq_len, shape.d_model)
    sizes = {"qkv": (heads,) * 3, "attention": (heads,), "output": (features,), "sublayer": (features,)}
    return _standard_normal(sizes[stage], shape, _generator(seed, _GRADIENT_STREAM, device))


def learned(stage: str, weights: Weights) -> tuple[torch.Tensor, ...]:
    """The weights that the stage multiplies by, in the order in which `Stage.gradients` names their gradients."""
    return tuple(getattr(weights, name) for name in _LEARNED[stage])


def blank_activations(
    stage: str, shape: Shape, arrives: str, device: torch.device, *, gradients: bool = False
) -> tuple[torch.Tensor, ...]:
    """Zeros of the sizes and strides that `call` will see, for a `prepare` that must call once.

    With `gradients`, which are wanted where the weights want theirs, autograd records what is done with them.
    """
    dtype = torch_dtype(shape.dtype)
    zeros = tuple(torch.zeros(size, dtype=dtype, device=device) for size in _sizes(stage, shape))
    blank = zeros if arrives == "contiguous" else strided(zeros)
    return tuple(one.detach().requires_grad_(gradients) for one in blank)


def ask_backward(output: object, given: tuple[object, ...]) -> None:
    """Take gradients once, of what wants some: what takes a shape forward may refuse it backward."""
    outputs = output if isinstance(output, tuple) else (output,)
    wanted = [one for one in given if isinstance(one, torch.Tensor) and one.requires_grad]
    if wanted:
        torch.autograd.grad(outputs, wanted, outputs)


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


def _standard_normal(
    sizes: tuple[tuple[int, ...], ...], shape: Shape, generator: torch.Generator
) -> tuple[torch.Tensor, ...]:
    dtype, device = torch_dtype(shape.dtype), generator.device
    return tuple(torch.randn(size, generator=generator, dtype=dtype, device=device) for size in sizes)


def _weight(shape: Shape, generator: torch.Generator, device: torch.device) -> torch.Tensor:
    weight = torch.empty(shape.d_model, shape.d_model, device=device)
    return weight.normal_(0, shape.d_model**-0.5, generator=generator).to(torch_dtype(shape.dtype))


def _generator(seed: int, stream: int, device: torch.device) -> torch.Generator:
    return torch.Generator(device).manual_seed(2 * seed + stream)
