"""Canonical inputs: random activations and weights that depend on the seed and the shape alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from variants.direction import FORWARD

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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

_LEARNED = {"qkv": ("w_q", "w_k", "w_v"), "output": ("w_o",)}
"""The weights of stages that multiply by some; a sublayer and a stack have all, the others none."""


@dataclass(frozen=True, slots=True)
class Weights:
    """W_Q, W_K, W_V and W_O, each [d_model, d_model], multiplied from the right: Q = X · W_Q.

    The heads lie side by side along the columns of W_Q, W_K and W_V, and along the rows of W_O. They are those of
    the first layer; `deeper` has those of the layers after it, in a stack.
    """

    w_q: torch.Tensor
    w_k: torch.Tensor
    w_v: torch.Tensor
    w_o: torch.Tensor
    deeper: tuple[Weights, ...] = ()

    @property
    def layers(self) -> tuple[Weights, ...]:
        """The weights of each layer, the first one's first."""
        return Weights(self.w_q, self.w_k, self.w_v, self.w_o), *self.deeper

    def tensors(self) -> tuple[torch.Tensor, ...]:
        """W_Q, W_K, W_V and W_O of every layer."""
        return tuple(w for layer in self.layers for w in (layer.w_q, layer.w_k, layer.w_v, layer.w_o))

    def changed(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Weights:
        """What `change` makes of each of them, in the same places."""
        return stacked(
            [
                Weights(change(one.w_q), change(one.w_k), change(one.w_v), change(one.w_o))
                for one in self.layers
            ]
        )


@dataclass(frozen=True, slots=True)
class Inputs:
    """What every variant of a stage is given: the stage's activations, and the weights.

    Where gradients are wanted, `output_gradients` are those of the canonical outputs (see `Variant.canonical`).
    """

    activations: tuple[torch.Tensor, ...]
    weights: Weights
    output_gradients: tuple[torch.Tensor, ...] = ()

    def tensors(self) -> tuple[torch.Tensor, ...]:
        """The gradients of the outputs, activations, then W_Q, W_K, W_V and W_O of every layer."""
        return *self.output_gradients, *self.activations, *self.weights.tensors()

    def arriving(self, arrives: str) -> Inputs:
        """The same values, the activations in the layout that a variant declares, in new storage unless contiguous."""
        return self if arrives == "contiguous" else replace(self, activations=strided(self.activations))

    def clone(self) -> Inputs:
        """The same values in storage of their own."""
        return Inputs(
            tuple(tensor.clone() for tensor in self.activations),
            self.weights.changed(torch.clone),
            tuple(tensor.clone() for tensor in self.output_gradients),
        )

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

    In a stack W_O is smaller by √(2 · n_layer), as GPTs are initialised: otherwise what the layers round differently
    grows from one to the next, in bf16 to 0.4 of the output after twelve.

    In other directions than forward the gradients of its outputs are there, too, dY ~ N(0, 1). Random streams
    differ between CPU and CUDA, so values repeat on one kind of device only.
    """
    generator = _generator(seed, _WEIGHT_STREAM, device)
    w_o_scale = (2 * shape.n_layer) ** -0.5 if stage == "stack" else 1.0
    layers = [_layer(shape, w_o_scale, generator, device) for _ in range(shape.n_layer)]
    return fresh_inputs(stage, shape, seed, stacked(layers), direction)


def fresh_inputs(stage: str, shape: Shape, seed: int, weights: Weights, direction: str = FORWARD) -> Inputs:
    """Activations and gradients of outputs in new storage, beside these weights."""
    device = weights.w_q.device
    gradients = () if direction == FORWARD else output_gradients(stage, shape, seed, device)
    return Inputs(fresh_activations(stage, shape, seed, device), weights, gradients)


def stacked(layers: Sequence[Weights]) -> Weights:
    """The weights of several layers as one."""
    first, *deeper = layers
    return replace(first, deeper=tuple(deeper))


def fresh_activations(stage: str, shape: Shape, seed: int, device: torch.device) -> tuple[torch.Tensor, ...]:
    """The stage's activations alone, in new storage, contiguous.

    qkv, sublayer and stack: X [batch, seq_len, d_model]; split: Q, K and V in one tensor
    [batch, seq_len, 3, n_head, head_dim]; attention: Q, K, V, each [batch, n_head, seq_len, head_dim];
    output: O in that layout.

    Raises:
        ValueError: the stage is unknown.
    """
    return _standard_normal(_sizes(stage, shape), shape, _generator(seed, _ACTIVATION_STREAM, device))


def _sizes(stage: str, shape: Shape) -> tuple[tuple[int, ...], ...]:
    heads = (shape.batch, shape.n_head, shape.seq_len, shape.head_dim)
    features = (shape.batch, shape.seq_len, shape.d_model)
    projected = (shape.batch, shape.seq_len, 3, shape.n_head, shape.head_dim)
    sizes = {
        "qkv": (features,),
        "split": (projected,),
        "attention": (heads,) * 3,
        "output": (heads,),
        "sublayer": (features,),
        "stack": (features,),
    }
    if stage not in sizes:
        raise ValueError(f"stage {stage!r} has no inputs: {', '.join(sizes)} have")
    return sizes[stage]


def output_gradients(stage: str, shape: Shape, seed: int, device: torch.device) -> tuple[torch.Tensor, ...]:
    """dY ~ N(0, 1) for each of the stage's canonical outputs, contiguous."""
    heads = (shape.batch, shape.n_head, shape.seq_len, shape.head_dim)
    features = (shape.batch, shape.seq_len, shape.d_model)
    sizes = {"qkv": (heads,) * 3, "split": (heads,) * 3, "attention": (heads,)}
    return _standard_normal(sizes.get(stage, (features,)), shape, _generator(seed, _GRADIENT_STREAM, device))


def learned(stage: str, weights: Weights) -> tuple[torch.Tensor, ...]:
    """The weights that the stage multiplies by, in the order in which `Stage.gradients` names their gradients."""
    if stage in ("sublayer", "stack"):
        return weights.tensors()
    return tuple(getattr(weights, name) for name in _LEARNED.get(stage, ()))


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
    """Take gradients once, of what wants some, where they are recorded: what takes a shape may refuse it backward."""
    outputs = output if isinstance(output, tuple) else (output,)
    wanted = [one for one in given if isinstance(one, torch.Tensor) and one.requires_grad]
    if wanted and torch.is_grad_enabled():
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


def _layer(shape: Shape, w_o_scale: float, generator: torch.Generator, device: torch.device) -> Weights:
    w_q, w_k, w_v = (_weight(shape, 1.0, generator, device) for _ in range(3))
    return Weights(w_q, w_k, w_v, _weight(shape, w_o_scale, generator, device))


def _weight(shape: Shape, scale: float, generator: torch.Generator, device: torch.device) -> torch.Tensor:
    weight = torch.empty(shape.d_model, shape.d_model, device=device)
    deviation = scale * shape.d_model**-0.5
    return weight.normal_(0, deviation, generator=generator).to(torch_dtype(shape.dtype))


def _generator(seed: int, stream: int, device: torch.device) -> torch.Generator:
    return torch.Generator(device).manual_seed(2 * seed + stream)
