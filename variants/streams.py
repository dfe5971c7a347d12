"""CUDA streams for parts of a call that may run side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")


class Fork:
    """So many streams that begin where the current stream stands, and that it waits for: also while it is captured.

    What a part allocates belongs to its stream. It may be freed as soon as the current stream's use of it is queued,
    for every later use of these streams waits for the current one first.
    """

    def __init__(self, count: int) -> None:
        self._streams = [torch.cuda.Stream() for _ in range(count)]  # type: ignore[no-untyped-call]
        self._begun = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._ended = [torch.cuda.Event() for _ in range(count)]  # type: ignore[no-untyped-call]

    def run(self, parts: Iterable[Callable[[], T]]) -> list[T]:
        """Queue each part, one for every stream, on a stream of its own; their results, in order."""
        current = torch.cuda.current_stream()
        self._begun.record(current)
        results = []
        for part, stream, ended in zip(parts, self._streams, self._ended, strict=True):
            stream.wait_event(self._begun)
            with torch.cuda.stream(stream):
                results.append(part())
            ended.record(stream)
        for ended in self._ended:
            current.wait_event(ended)
        return results
