"""What the cases of one group are given: inputs in each layout that a variant declares, and what is right for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.directed import Expected, expect
from variants.inputs import Inputs, fresh_inputs, make_inputs

if TYPE_CHECKING:
    import torch

    from harness.plan import Group


class GroupInputs:
    """The same values for everybody, kept beside a copy of how they were made; nothing before `make`."""

    def __init__(self, group: Group, seed: int, device: torch.device) -> None:
        self._group, self._seed, self._device = group, seed, device
        self._layouts: dict[str, Inputs] = {}

    def make(self) -> Expected:
        """Make them; what is right for them."""
        stage, shape, direction = self._group.stage, self._group.shape, self._group.direction
        inputs = make_inputs(stage, shape, self._seed, self._device, direction)
        expected = expect(direction, stage, shape, inputs)
        self._as_made = inputs.clone()
        self._layouts["contiguous"] = inputs
        return expected

    def renew(self) -> Expected:
        """Other activations in the storage of the first, and in new storage (`elsewhere`); the same weights."""
        stage, shape, direction = self._group.stage, self._group.shape, self._group.direction
        weights = self._layouts["contiguous"].weights
        fresh = fresh_inputs(stage, shape, self._seed + 1, weights, direction)
        expected = expect(direction, stage, shape, fresh)
        self._fresh = fresh
        self._as_made.copy_from(fresh)
        self.restore()
        return expected

    def given(self, arrives: str) -> Inputs:
        """In the layout that a variant declares; one that nobody else wanted is made now, untimed."""
        if arrives not in self._layouts:
            self._layouts[arrives] = self._layouts["contiguous"].arriving(arrives)
        return self._layouts[arrives]

    def elsewhere(self, arrives: str) -> Inputs:
        """After `renew`: the new storage, in that layout."""
        return self._fresh.arriving(arrives)

    def restore_elsewhere(self) -> None:
        """Give the new storage its values again: the lane before may have spoiled them."""
        self._fresh.copy_from(self._as_made)

    def restore(self) -> None:
        """Give every layout the values as made."""
        for inputs in self._layouts.values():
            inputs.copy_from(self._as_made)

    def are_as_made(self) -> bool:
        """Whether every layout still has them."""
        return all(inputs.equals(self._as_made) for inputs in self._layouts.values())
