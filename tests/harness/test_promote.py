from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness import promote_command
from harness.errors import UsageError
from harness.promote_command import make_reference
from tests.results import builders
from tests.results.test_promote import CLEAN

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout that headbench seems to run from."""
    (tmp_path / "checkout" / ".git").mkdir(parents=True)
    monkeypatch.setattr(promote_command, "REFERENCE", tmp_path / "checkout" / "results" / "reference")
    return tmp_path / "checkout"


def test_it_says_where_the_reference_is_and_how_to_show_it(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = builders.stored(checkout / "runs", builders.manifest(environment=CLEAN))
    make_reference(str(run), "first")
    assert (checkout / "results/reference/nvidia-h200/first/manifest.json").is_file()
    assert "promoted to results/reference/nvidia-h200/first" in (said := capsys.readouterr().out)
    assert "`python -m harness report nvidia-h200/first`" in said


def test_an_installation_that_is_no_checkout_is_refused(checkout: Path) -> None:
    (checkout / ".git").rmdir()
    with pytest.raises(UsageError, match="which is no checkout"):
        make_reference("latest", "first")


def test_a_run_that_cannot_be_a_reference_is_a_usage_error_with_the_reason(checkout: Path) -> None:
    run = builders.stored(checkout / "runs", builders.manifest())
    with pytest.raises(UsageError, match="it does not say which commit was measured"):
        make_reference(str(run), "first")


def test_a_run_that_is_not_there_is_a_usage_error(checkout: Path) -> None:
    with pytest.raises(UsageError, match="no run at"):
        make_reference(str(checkout / "nowhere"), "first")


def test_an_ab_session_is_no_run(checkout: Path) -> None:
    for side in ("base", "head"):
        builders.stored(checkout / "session", builders.manifest(run_id=side, environment=CLEAN))
    with pytest.raises(UsageError, match="is an ab session, not a run"):
        make_reference(str(checkout / "session"), "first")
