"""pytest's way in, by a name that is ours alone.

Every pytest session where headbench is installed imports this file, also that of a project with a package `harness`
of its own, which then hides ours: such a session must run as if headbench were not there.
"""

from __future__ import annotations

import pytest

HIDDEN = "the headbench fixture cannot be used here: this project has a package named {!r}, which hides headbench's own"


def pytest_configure(config: pytest.Config) -> None:
    """Offer the `headbench` fixture: one that measures, or one that says why it cannot."""
    config.pluginmanager.register(_plugin(config), "headbench-fixture")


class StandIn:
    """The fixture where it cannot measure."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    @pytest.fixture
    def headbench(self) -> None:
        """Fail with the reason."""
        pytest.fail(self._reason, pytrace=False)


def _plugin(config: pytest.Config) -> object:
    names = ("benchmark", "pytest_benchmark.plugin")
    if not any(config.pluginmanager.hasplugin(name) for name in names):
        return StandIn("the headbench fixture needs pytest-benchmark: pip install pytest-benchmark")
    try:
        from harness.pytest_plugin import Measuring
    except ImportError:
        return StandIn(HIDDEN.format("harness"))
    return Measuring()
