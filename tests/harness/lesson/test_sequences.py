"""Letters follow a permutation of the one before the last; brackets nest, and the innermost open one is known."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.lesson.sequences import DEPTH, KINDS, LETTERS, RANDOM, VOCABULARY, brackets, letters, sequences


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_a_letter_is_settled_by_the_one_before_the_last() -> None:
    tokens = letters(400, 40, seeded(0))
    assert 0 <= int(tokens.min()) <= int(tokens.max()) < LETTERS
    counts = torch.zeros(LETTERS, LETTERS)
    before, after = tokens[:, :-2].flatten(), tokens[:, 2:].flatten()
    counts.index_put_((before, after), torch.ones(len(before)), accumulate=True)
    shares, follows = (counts / counts.sum(1, keepdim=True)).max(1)
    assert sorted(follows.tolist()) == list(range(LETTERS)), "a permutation"
    expected = 1 - RANDOM + RANDOM / LETTERS
    assert torch.allclose(shares, torch.full_like(shares, expected), atol=0.03)


@settings(max_examples=25)
@given(st.integers(0, 1000), st.integers(1, 40))
def test_brackets_nest_and_the_innermost_is_known(seed: int, length: int) -> None:
    words = brackets(20, length, seeded(seed))
    for tokens, innermost in zip(words.tokens.tolist(), words.innermost.tolist(), strict=True):
        stack: list[int] = []
        for position, token in enumerate(tokens):
            if token < LETTERS + KINDS:
                stack.append(position)
            else:
                assert tokens[stack.pop()] == token - KINDS, "the innermost one is closed"
            assert len(stack) <= DEPTH
            assert innermost[position] == (stack[-1] if stack else -1)
        assert min(tokens) >= LETTERS
        assert max(tokens) < VOCABULARY


def test_the_same_seed_gives_the_same_sequences() -> None:
    assert torch.equal(letters(5, 9, seeded(3)), letters(5, 9, seeded(3)))
    assert torch.equal(brackets(5, 9, seeded(3)).tokens, brackets(5, 9, seeded(3)).tokens)


def test_a_token_is_a_letter_and_a_bracket_that_know_nothing_of_each_other() -> None:
    both = sequences(2000, 8, seeded(1))
    letter, bracket = both.tokens.unbind(-1)
    assert int(letter.max()) < LETTERS <= int(bracket.min())
    assert torch.equal(letter, letters(2000, 8, seeded(1)))
    opens = (bracket[:, -1] < LETTERS + KINDS).double()
    shares = torch.stack([opens[letter[:, -1] == one].mean() for one in range(LETTERS)])
    assert (shares - opens.mean()).abs().max() < 0.13
