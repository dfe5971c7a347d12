"""`report --svg`: pictures into a folder, each with its finding; and one line where that cannot be."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from harness.errors import HeadbenchError, UsageError
from harness.svg_command import draw
from tests.results import builders, sessions

if TYPE_CHECKING:
    from pathlib import Path

RUN = "nvidia-h200/kernels_1024"


@pytest.fixture
def renderer() -> None:
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")


@pytest.mark.usefixtures("renderer")
def test_what_a_run_holds_is_drawn_and_the_rest_has_a_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draw([RUN], tmp_path / "new" / "folder")
    assert [path.name for path in (tmp_path / "new" / "folder").iterdir()] == ["kernels.svg"]
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("tensor_use: not drawn: no attention at 2 to 8 head_dims")
    assert told[2].startswith(
        f"{tmp_path}/new/folder/kernels.svg, from kernels_1024: By graph replay, against the"
    )


@pytest.mark.usefixtures("renderer")
def test_a_run_without_anything_to_draw_says_why_and_leaves_no_folder(tmp_path: Path) -> None:
    stored = builders.stored(tmp_path)
    with pytest.raises(
        HeadbenchError, match="has nothing that can be drawn: tensor_use: no attention at 2 to 8"
    ):
        draw([str(stored)], tmp_path / "pictures")
    assert not (tmp_path / "pictures").exists()


@pytest.mark.usefixtures("renderer")
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(UsageError, match=r"--svg .*taken cannot be written: "):
        draw([RUN], tmp_path / "taken")


@pytest.mark.parametrize("missing", ["altair", "vl_convert"])
def test_without_the_renderer_one_line_says_how_to_install_it(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("reports.pictures")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(
        UsageError, match="--svg needs altair and vl-convert: pip install altair vl-convert-python"
    ):
        draw([RUN], tmp_path)


def test_pictures_exclude_every_other_form(tmp_path: Path) -> None:
    for other in ("csv", "parquet", "by"):
        with pytest.raises(UsageError, match=f"--{other} and --svg exclude each other"):
            draw([RUN], tmp_path, [other])


def test_two_names_are_one_too_many(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--svg draws of one run or of one folder of runs, and 2 are named"):
        draw([RUN, RUN], tmp_path)


def test_a_session_has_no_pictures_and_a_run_that_is_not_there_is_told(tmp_path: Path) -> None:
    session = sessions.stored(tmp_path, sessions.session({builders.case(): sessions.STEADY}))
    with pytest.raises(UsageError, match="is an ab session, which is two runs"):
        draw([str(session)], tmp_path)
    with pytest.raises(UsageError, match="no run at"):
        draw([str(tmp_path / "nowhere")], tmp_path)
