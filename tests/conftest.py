"""Shared by all tests: which machine they run on."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import settings

# The first call of a PyTorch operation may take a second; how long an example takes is not what is tested.
# A CI judges a change by the same examples every time; on a developer's machine they are new ones each time.
settings.register_profile("headbench", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("headbench")

# A shell starts what runs in its background deaf to Ctrl-C, nohup deaf to a closed terminal, and so would be every
# command that a test interrupts.
for ignored, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(ignored) is signal.SIG_IGN:
        signal.signal(ignored, usual)

# Benchmarks, not tests: minutes each, and only a run that names the folder is meant to pay for them.
collect_ignore = ["regression"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip `gpu` tests, with the reason, where CUDA is not usable; look only if there are any."""
    on_gpu = [item for item in items if item.get_closest_marker("gpu")]
    reason = _why_no_cuda() if on_gpu else None
    if reason:
        for item in on_gpu:
            item.add_marker(pytest.mark.skip(reason=reason))


def _why_no_cuda() -> str | None:
    """Why a CUDA test cannot run here, or None: asked by running something, not by asking for a name."""
    import torch  # not at the top: tests of reports and results need no torch

    if torch.version.cuda is None:
        return f"torch {torch.__version__} is built without CUDA"
    if not torch.cuda.is_available():
        return f"torch {torch.__version__} finds no usable CUDA device"
    try:
        torch.ones(1, device="cuda").sum().item()
    except RuntimeError as error:
        return f"the CUDA device does not work: {str(error).splitlines()[0]}"
    return None
