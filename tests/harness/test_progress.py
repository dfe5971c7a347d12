"""What is said while a run measures: a line each, whatever a variant's reason quotes."""

from __future__ import annotations

import pytest

from harness.progress import Progress


@pytest.mark.parametrize("sign", ["\x1b[31m", "\u202e", "\u2066", "\u2028", "\n", "\r", "\x07", "\ud800"])
def test_a_note_is_one_line_that_no_terminal_obeys(capsys: pytest.CaptureFixture[str], sign: str) -> None:
    with Progress(1, 1.0) as progress:
        progress.note(f"crashed: raised RuntimeError: left{sign}right")
    said = capsys.readouterr().err
    assert said.endswith("right\n")
    assert said[:-1].isprintable()
