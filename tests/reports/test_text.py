from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from reports import text


@pytest.mark.parametrize(
    ("foreign", "shown"),
    [
        ("two\nlines\r\n and\ttabs ", "two lines and tabs"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("right\u202eleft", "right\\u202eleft"),
        ("one\u2028two\u2029", "one two"),
        ("half\ud800", "half\\ud800"),
        ("[red]x[/]", "[red]x[/]"),
        ("头 µs", "头 µs"),
    ],
)
def test_foreign_text_is_shown_on_one_line_and_does_nothing(foreign: str, shown: str) -> None:
    assert text.plain(foreign) == shown


@given(st.text(st.characters()))
def test_whatever_is_made_plain_can_be_written_and_printed(foreign: str) -> None:
    shown = text.plain(foreign)
    shown.encode("utf-8")
    assert shown.isprintable()
    assert text.plain(shown) == shown


def test_a_long_reason_is_cut_and_says_so() -> None:
    assert text.shorten("ab " * 1000, 10) == "ab ab ab…"
    assert text.shorten("short", 10) == "short"


@given(st.lists(st.text("ab", min_size=1, max_size=30), min_size=1), st.integers(30, 100))
def test_packing_breaks_lines_only_between_parts(parts: list[str], width: int) -> None:
    packed = text.pack(parts, width)
    assert " · ".join(packed).split(" · ") == parts
    assert all(cell_len(line) <= width for line in packed)


def test_no_line_ends_between_a_number_and_its_sign():
    from reports.printer import Printer
    from reports.terminal import new_console

    file = io.StringIO()
    for width in range(24, 60):
        Printer(new_console(file, width)).wrapped(
            "sdpa_flash reaches 67 % of it and 1.78 × issued, cuDNN 100 %"
        )
    lines = file.getvalue().splitlines()
    assert not any(line.endswith(("67", "1.78", "100")) for line in lines)
    assert not any("\ue000" in line for line in lines)
