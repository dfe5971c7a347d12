"""Recorded runs are shown as they were: a change of what a reader sees is seen in review, file by file."""

from __future__ import annotations

import pytest

from tests.reports.snapshots import FOLDER, SNAPSHOTS, shown


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_a_recorded_run_is_shown_as_it_was(name: str) -> None:
    expected = (FOLDER / name).read_text(encoding="utf-8")
    assert shown(name) == expected, (
        "if this is meant: python -m tests.reports.snapshots, and read the difference"
    )


def test_every_snapshot_has_a_maker() -> None:
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(SNAPSHOTS)


@pytest.mark.parametrize("name", [name for name in SNAPSHOTS if name.endswith(".txt")])
def test_no_line_of_a_recorded_run_is_wider_than_its_name_says(name: str) -> None:
    width = int(next(part for part in name.removesuffix(".txt").split("_") if part in ("80", "100")))
    # A path or a command stays whole, to be copied.
    lines = [line for line in shown(name).splitlines() if not line.startswith(("stored in", "show again"))]
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize("name", [name for name in SNAPSHOTS if "ascii" in name])
def test_a_recorded_run_has_no_sign_without_a_spelling(name: str) -> None:
    assert "?" not in shown(name)
