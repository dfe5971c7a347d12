"""C6 and C7: a small transformer trained on letters with brackets, its heads scored, one of them cloned.

A run takes about three seconds of one core. Everything follows from the seed: weights, sequences, their order.
"""

from __future__ import annotations

import copy
import math
import time
from dataclasses import dataclass

import torch
from torch.nn.functional import cross_entropy

from harness.lesson.sequences import KINDS, LETTERS, VOCABULARY, Sequences, sequences
from harness.lesson.transformer import Sizes, Transformer
from results.claims.observed import Learnt

WIDTH, LAYERS, LENGTH = 32, 2, 16
SEQUENCES, HELD_OUT, BATCH = 2048, 256, 32
"""Sequences to train on, to score on, and in a batch."""

STEPS, LEARNING_RATE = 500, 2e-2
CLONE_AFTER, CLONE_BATCHES = 250, 50
"""A head is cloned half-way, while gradients still say something, and they are taken over so many batches."""


@dataclass(frozen=True, slots=True)
class Data:
    """Sequences of LENGTH + 1 tokens, of which the last is only predicted: `tokens` [SEQUENCES, LENGTH + 1, 2]."""

    tokens: torch.Tensor
    held: Sequences

    def batch(self, generator: torch.Generator) -> torch.Tensor:
        """[BATCH, LENGTH + 1, 2]."""
        return self.tokens[torch.randint(len(self.tokens), (BATCH,), generator=generator)]


def learn(seed: int, n_head: int, steps: int = STEPS, clone_batches: int = CLONE_BATCHES) -> Learnt:
    """Train once; the same seed gives every number of heads the same sequences in the same order."""
    started = time.monotonic()
    torch.manual_seed(seed)
    data, order = make_data(seed), torch.Generator().manual_seed(seed)
    model = Transformer(Sizes(WIDTH, n_head, LAYERS, 4 * WIDTH, VOCABULARY, LENGTH))
    untrained = looks(model, data.held)
    optimiser = torch.optim.AdamW(model.parameters(), LEARNING_RATE, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, LEARNING_RATE, steps)
    cloned = None
    for step in range(steps):
        if step == steps * CLONE_AFTER // STEPS and n_head > 1:
            cloned = beside_clone(model, data, seed, clone_batches)
        optimiser.zero_grad()
        loss(model, data.batch(order)).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()
    previous, matching = looks(model, data.held)
    with torch.no_grad():
        held_out = loss(model, data.held.tokens).item()
    took_s = time.monotonic() - started
    return Learnt(
        seed, n_head, steps, held_out, previous, untrained[0], matching, untrained[1], cloned, took_s
    )


def make_data(seed: int) -> Data:
    """Sequences to train on and others to score on, of the same permutation of letters."""
    every = sequences(SEQUENCES + HELD_OUT, LENGTH + 1, torch.Generator().manual_seed(seed))
    held = Sequences(every.tokens[SEQUENCES:], every.innermost[SEQUENCES:])
    return Data(every.tokens[:SEQUENCES], held)


def loss(model: Transformer, tokens: torch.Tensor) -> torch.Tensor:
    """Nats a token, its letter's and its bracket's, of sequences [count, LENGTH + 1, 2]."""
    logits, _ = model(tokens[:, :-1])
    letter, bracket = tokens[:, 1:].flatten(0, 1).unbind(-1)
    of_letters, of_brackets = logits.flatten(0, 1).split((LETTERS, VOCABULARY - LETTERS), dim=-1)
    return cross_entropy(of_letters, letter) + cross_entropy(of_brackets, bracket - LETTERS)


@torch.no_grad()
def looks(model: Transformer, held: Sequences) -> tuple[float, float]:
    """How often the best head looks most at the token before; and at the bracket that is closed next.

    The latter where a bracket closes next that is not the token itself: a head that looks at itself, or always at its
    neighbour, must not pass for one that matches.
    """
    _, seen = model(held.tokens[:, :-1])
    before = torch.arange(1, LENGTH) - 1
    previous = max((look[:, :, 1:].argmax(-1) == before).double().mean((0, 2)).max().item() for look in seen)
    words, innermost = held.tokens[..., 1], held.innermost[:, :-1]
    closes_next = words[:, 1:] >= LETTERS + KINDS
    row, position = (closes_next & (innermost < torch.arange(LENGTH))).nonzero(as_tuple=True)
    wanted = innermost[row, position].unsqueeze(1)
    matching = max(
        (look[row, :, position].argmax(-1) == wanted).double().mean(0).max().item() for look in seen
    )
    return previous, matching


def beside_clone(model: Transformer, data: Data, seed: int, batches: int = CLONE_BATCHES) -> float:
    """ln of (head 0's gradients where a clone does half of its work ÷ where it does all of it).

    The two models compute the same (`with_clone`, `without_clone`), and no step is taken: whatever differs is owed to
    the clone. A clone that changed what the model computes would be measured with the damage that it did.

    By the chain rule W_O's part is as large as alone and the rest half as large, so that this lies between ln ½ and 0:
    where in between, training decides.
    """
    beside, alone = with_clone(model), without_clone(model)
    order = torch.Generator().manual_seed(seed + 1)
    sums = torch.zeros(2, dtype=torch.float64)
    for _ in range(batches):
        batch = data.batch(order)
        for index, of in enumerate((beside, alone)):
            of.zero_grad()
            loss(of, batch).backward()  # type: ignore[no-untyped-call]
            sums[index] += head_gradients(of)[0]
    return math.log(sums[0].item() / sums[1].item())


@torch.no_grad()
def with_clone(model: Transformer) -> Transformer:
    """A copy whose head 1 is head 0 again, each with half of the columns of W_O: as much comes out as of one."""
    clone = copy.deepcopy(model)
    for attention in clone.attentions():
        for (source, of_0), (target, of_1) in zip(attention.head(0), attention.head(1), strict=True):
            target[of_1] = source[of_0]
        for head in (0, 1):
            w_o, own = attention.head(head)[-1]
            w_o[own] *= 0.5
    return clone


@torch.no_grad()
def without_clone(model: Transformer) -> Transformer:
    """A copy whose head 1 is silent, its columns of W_O 0, and head 0 as it was."""
    silent = copy.deepcopy(model)
    for attention in silent.attentions():
        w_o, own = attention.head(1)[-1]
        w_o[own] = 0
    return silent


def head_gradients(model: Transformer) -> torch.Tensor:
    """[n_head]: the norm of the gradient of each head's slices, added up over the layers."""
    total = torch.zeros(model.attentions()[0].n_head)
    for attention in model.attentions():
        for head in range(attention.n_head):
            slices = [weight.grad[own] for weight, own in attention.head(head) if weight.grad is not None]
            total[head] += torch.stack([one.square().sum() for one in slices]).sum().sqrt()
    return total
