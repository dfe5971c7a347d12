"""Shared by the tests of kernels: most need NVRTC, which a CI must have and a laptop may lack."""

from __future__ import annotations

import os

import pytest

from kernels.compiler import KernelError, nvrtc_version


@pytest.fixture
def nvrtc() -> tuple[int, int]:
    """NVRTC's version; without NVRTC the test is skipped, and on a CI it fails."""
    try:
        return nvrtc_version()
    except KernelError as error:
        if "CI" in os.environ:
            raise
        pytest.skip(str(error))


@pytest.fixture(autouse=True)
def cache_of_its_own(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test compiles is neither found in the user's cache nor left there; pytest-xdist's workers share one."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
