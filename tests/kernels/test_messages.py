"""The one line that stands for an exception in a reason."""

from __future__ import annotations

import pytest

from kernels.messages import first_line


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("operation not permitted", "operation not permitted"),
        ("\n\n  CUDA error: not permitted \n\tCUDA kernel errors might be", "CUDA error: not permitted"),
        ("two  \t blanks\r\nand more", "two blanks"),
        ("", "RuntimeError"),
        (" \n ", "RuntimeError"),
    ],
)
def test_an_exception_is_told_by_its_first_line_or_by_its_type(said, line):
    assert first_line(RuntimeError(said)) == line
