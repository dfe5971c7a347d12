"""C6 and C7: a small transformer trained on letters and brackets, its heads scored, one of them cloned.

A run takes about six seconds of one core. Everything follows from the seed: weights, sequences, their order.
"""

from __future__ import annotations

import copy
import math
import time
from dataclasses import dataclass

import torch
from torch.nn.functional import cross_entropy

from harness.lesson.sequences import KINDS, LETTERS, VOCABULARY, Brackets, brackets, letters
from harness.lesson.transformer import Sizes, Transformer
from results.claims.observed import Learnt

WIDTH, LAYERS, LENGTH = 32, 2, 16
HEADS = 4
SEQUENCES, HELD_OUT, BATCH = 1024, 256, 16
"""Sequences of each kind to train on, to score on, and in a batch."""

STEPS, LEARNING_RATE = 500, 2e-2
CLONE_AFTER, CLONE_STEPS, CLONE_RATE = 250, 50, 5e-3
"""A head is cloned half-way, while gradients still say something, and both twins are trained on for so many steps."""


@dataclass(frozen=True, slots=True)
class Data:
    """Sequences of LENGTH + 1 tokens: the last is only predicted."""

    letters: torch.Tensor
    brackets: torch.Tensor
    held_letters: torch.Tensor
    held_brackets: Brackets

    def batch(self, generator: torch.Generator) -> torch.Tensor:
        """Half letters, half brackets, [2 · BATCH, LENGTH + 1]."""
        rows = torch.randint(SEQUENCES, (BATCH,), generator=generator)
        return torch.cat([self.letters[rows], self.brackets[rows]])


def learn(seed: int, n_head: int, steps: int = STEPS, clone_steps: int = CLONE_STEPS) -> Learnt:
    """Train once; the same seed gives every number of heads the same sequences in the same order."""
    started = time.monotonic()
    torch.manual_seed(seed)
    data, order = make_data(seed), torch.Generator().manual_seed(seed)
    model = Transformer(Sizes(WIDTH, n_head, LAYERS, 4 * WIDTH, VOCABULARY, LENGTH))
    untrained = looks(model, data)
    optimiser = torch.optim.AdamW(model.parameters(), LEARNING_RATE, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, LEARNING_RATE, steps)
    redundant = None
    for step in range(steps):
        if step == steps * CLONE_AFTER // STEPS and n_head > 1:
            redundant = cloned(model, data, seed, clone_steps)
        _step(model, optimiser, data.batch(order))
        schedule.step()
    previous, matching = looks(model, data)
    loss = held_out_loss(model, data)
    took_s = time.monotonic() - started
    return Learnt(
        seed, n_head, steps, loss, previous, untrained[0], matching, untrained[1], redundant, took_s
    )


def make_data(seed: int) -> Data:
    """Sequences to train on and others to score on, of the same permutation of letters."""
    generator = torch.Generator().manual_seed(seed)
    chains = letters(SEQUENCES + HELD_OUT, LENGTH + 1, generator)
    words = brackets(SEQUENCES, LENGTH + 1, generator).tokens
    return Data(chains[:SEQUENCES], words, chains[SEQUENCES:], brackets(HELD_OUT, LENGTH + 1, generator))


@torch.no_grad()
def held_out_loss(model: Transformer, data: Data) -> float:
    """Nats a token, letters and brackets alike."""
    return _loss(model, torch.cat([data.held_letters, data.held_brackets.tokens])).item()


@torch.no_grad()
def looks(model: Transformer, data: Data) -> tuple[float, float]:
    """How often the best head looks most at the token before, among letters; at the bracket that is closed next.

    The latter where a bracket closes next that is not the token itself: a head that looks at itself, or always at its
    neighbour, must not pass for one that matches.
    """
    _, seen = model(data.held_letters[:, :-1])
    before = torch.arange(1, LENGTH) - 1
    previous = max((look[:, :, 1:].argmax(-1) == before).double().mean((0, 2)).max().item() for look in seen)
    words, innermost = data.held_brackets.tokens, data.held_brackets.innermost[:, :-1]
    closes_next = words[:, 1:] >= LETTERS + KINDS
    row, position = (closes_next & (innermost < torch.arange(LENGTH))).nonzero(as_tuple=True)
    wanted = innermost[row, position].unsqueeze(1)
    _, seen = model(words[:, :-1])
    matching = max(
        (look[row, :, position].argmax(-1) == wanted).double().mean(0).max().item() for look in seen
    )
    return previous, matching


def cloned(model: Transformer, data: Data, seed: int, steps: int = CLONE_STEPS) -> float:
    """ln of (gradients of heads 0 and 1 ÷ those of the others) with head 1 a clone of 0, minus the same without.

    Twins of the model are trained on alike, on the same batches; gradients are those of a head's four slices in each
    layer, averaged over the steps.
    """
    twin, clone = copy.deepcopy(model), copy.deepcopy(model)
    with torch.no_grad():
        for attention in clone.attentions():
            for (source, of_0), (target, of_1) in zip(attention.head(0), attention.head(1), strict=True):
                target[of_1] = source[of_0]
    return _log_ratio(clone, data, seed, steps) - _log_ratio(twin, data, seed, steps)


def _log_ratio(model: Transformer, data: Data, seed: int, steps: int) -> float:
    order, optimiser = (
        torch.Generator().manual_seed(seed + 1),
        torch.optim.AdamW(model.parameters(), CLONE_RATE, fused=True),
    )
    norms = torch.zeros(model.attentions()[0].n_head)
    for _ in range(steps):
        _step(model, optimiser, data.batch(order))
        norms += head_gradients(model)
    return math.log(norms[:2].mean().item() / norms[2:].mean().item())


def head_gradients(model: Transformer) -> torch.Tensor:
    """[n_head]: the norm of the gradient of each head's slices, added up over the layers."""
    total = torch.zeros(model.attentions()[0].n_head)
    for attention in model.attentions():
        for head in range(attention.n_head):
            slices = [weight.grad[own] for weight, own in attention.head(head) if weight.grad is not None]
            total[head] += torch.stack([one.square().sum() for one in slices]).sum().sqrt()
    return total


def _step(model: Transformer, optimiser: torch.optim.Optimizer, batch: torch.Tensor) -> None:
    optimiser.zero_grad()
    _loss(model, batch).backward()  # type: ignore[no-untyped-call]
    optimiser.step()


def _loss(model: Transformer, batch: torch.Tensor) -> torch.Tensor:
    logits, _ = model(batch[:, :-1])
    return cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
