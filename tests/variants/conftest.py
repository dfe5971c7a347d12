"""Shared by the tests of variants: the shapes are tiny, so one thread is faster than several that wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="package", autouse=True)
def one_thread() -> Iterator[None]:
    """PyTorch computes on one thread in this folder."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
