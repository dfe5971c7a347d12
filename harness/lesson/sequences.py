"""Synthetic sequences whose every token, a letter and a bracket at once, asks for two looks back.

*Letters*: each is a fixed permutation of the one before the last, but for one in ten that is random. Predicting the
next letter from position t takes what stands at t − 1, which only attention can fetch.

*Brackets*: words of four kinds of brackets, properly nested, at most three deep. Whether one opens or closes next is a
coin's toss; which kind closes is settled by the innermost one that is open, however far back it stands.

Both are to be predicted from the same position, so that a head which looks for the letter cannot look for the bracket:
on letters and brackets in sequences apart, one head could do the work of several, and nothing would be learnt of them.

Parts 0 to 7 are letters, 8 to 11 opening brackets, 12 to 15 the closing ones in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

LETTERS, KINDS, DEPTH = 8, 4, 3
VOCABULARY = LETTERS + 2 * KINDS
"""Parts of tokens: each is a letter and a bracket."""
RANDOM = 0.1
"""Of the letters: without it a model could learn whole sequences by heart from their first two."""


@dataclass(frozen=True, slots=True)
class Brackets:
    """Brackets [count, length], and for each position the innermost open bracket's (−1: none) after it."""

    tokens: torch.Tensor
    innermost: torch.Tensor


@dataclass(frozen=True, slots=True)
class Sequences:
    """Tokens [count, length, 2], letters and brackets, and the innermost open bracket after each position."""

    tokens: torch.Tensor
    innermost: torch.Tensor


def sequences(count: int, length: int, generator: torch.Generator) -> Sequences:
    """Letters and brackets that know nothing of each other, side by side in every token."""
    chains, words = letters(count, length, generator), brackets(count, length, generator)
    return Sequences(torch.stack((chains, words.tokens), dim=-1), words.innermost)


def letters(count: int, length: int, generator: torch.Generator) -> torch.Tensor:
    """Letters [count, length] of one permutation, drawn first."""
    follows = torch.randperm(LETTERS, generator=generator)
    tokens = torch.randint(LETTERS, (count, length), generator=generator)
    stray = torch.rand(count, length, generator=generator) < RANDOM
    for t in range(2, length):
        tokens[:, t] = torch.where(stray[:, t], tokens[:, t], follows[tokens[:, t - 2]])
    return tokens


def brackets(count: int, length: int, generator: torch.Generator) -> Brackets:
    """Nested brackets, every sequence from an empty stack; what is open at its end stays open."""
    kinds = torch.randint(KINDS, (count, length), generator=generator)
    closes = torch.rand(count, length, generator=generator) < 0.5
    stack = torch.zeros(
        count, DEPTH + 1, dtype=torch.long
    )  # positions, the innermost at `height`; 0 is the ground
    stack[:, 0] = -1
    height = torch.zeros(count, dtype=torch.long)
    tokens, innermost, rows = torch.empty_like(kinds), torch.empty_like(kinds), torch.arange(count)
    for t in range(length):
        top = stack[rows, height]
        shut = (height > 0) & (closes[:, t] | (height == DEPTH))
        opened = tokens[rows, top.clamp_min(0)]
        tokens[:, t] = torch.where(shut, opened + KINDS, LETTERS + kinds[:, t])
        height = torch.where(shut, height - 1, height + 1)
        stack[rows[~shut], height[~shut]] = t
        innermost[:, t] = stack[rows, height]
    return Brackets(tokens, innermost)
