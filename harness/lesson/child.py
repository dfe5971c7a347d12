"""The child: make the experiments of the job on stdin one after the other, an event for each that is done.

One thread a child: matrices this small gain nothing from a second one, and children then share the cores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.channel import Channel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from results.claims.observed import One


def main() -> None:
    """Answer every experiment with `experiment`: its kind and what it showed, once or for several seeds."""
    channel = Channel()
    import torch

    torch.set_num_threads(1)
    for asked in channel.job["experiments"]:
        made = [one.to_json() for one in make(**asked)]
        channel.send("experiment", kind=asked["kind"], made=made)


def make(kind: str, **settings: Any) -> Sequence[One]:
    """The experiments of one kind (a key of `results.claims.observed.KINDS`)."""
    from harness.lesson import algebra, training

    if kind == "learnt":
        return [training.learn(**settings)]
    known: dict[str, Callable[[], Sequence[One]]] = {
        "calls": algebra.calls,
        "parameters": algebra.parameters,
        "round_trips": algebra.round_trips,
        "dependence": algebra.dependence,
    }
    return known[kind]()


if __name__ == "__main__":
    main()
