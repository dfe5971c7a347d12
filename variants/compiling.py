"""torch.compile as variants use it: compiled before anything is timed, for one shape, all of it or not at all."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch

from kernels.messages import first_line
from variants.inputs import ask_backward
from variants.variant import Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable

_IN_THIS_PROCESS: dict[str, Any] = {"compile_threads": 1}
"""A pool of compilers would outlive the compilation, beside whatever is timed next."""


def compiled(function: Callable[..., Any], *example: Any) -> Callable[..., Any]:
    """What torch.compile makes of `function`, called once with arguments as it will be given.

    Dynamo files what it has compiled under a function's code, eight times at most, and looks through all of them on
    every call. So each call of this gets a copy, and no shape pays for another.

    Raises:
        Unsupported: it cannot be compiled here, as where there is no compiler; the message is PyTorch's.
    """
    from torch._dynamo.exc import TorchDynamoException  # takes a second to import

    copy = FunctionType(
        function.__code__.replace(),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    call = torch.compile(copy, fullgraph=True, dynamic=False, options=_IN_THIS_PROCESS)
    try:
        ask_backward(call(*example), example)
    except TorchDynamoException as error:
        raise Unsupported(f"torch.compile fails: {first_line(error)}") from error
    return call
