"""Pictures of recorded runs: current, the same wherever they are drawn, readable on light and on dark, inert."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

import pytest

pytest.importorskip("altair")
pytest.importorskip("vl_convert")

import results
from reports.pictures.calls import calls_picture
from reports.pictures.draw import PICTURES, Drawn, drawn
from reports.pictures.kernels import kernels_picture
from reports.pictures.picture import (
    BLUE,
    DARK,
    FAINT,
    GOLD,
    GREEN,
    GREY,
    GROUND,
    INK,
    PINK,
    SKY,
    VERMILION,
    Picture,
    kept_rows,
    renderer,
    to_svg,
)
from reports.pictures.tensor_use import COLOURS, tensor_use_picture
from reports.pivot_grids import FINE
from reports.text import plain
from results.figures import Dispatch
from results.run import Run
from results.schema import Observation
from results.store import read_each
from tests.reports import runs, sweeps
from tests.reports.pictures.renew import renew
from tests.results import builders

ROOT = Path(__file__).parents[3]
COMMITTED = ROOT / "docs" / "pictures"
MAKE = "python -m tests.reports.pictures.renew"
README = (ROOT / "README.md").read_text(encoding="utf-8")
HOSTILE = "<script>alert(1)</script>&\"'\x1b[2J\n]]>"

MARKS = (BLUE, VERMILION, GREEN, GREY, PINK, GOLD, SKY)


@cache
def recorded() -> dict[str, Drawn]:
    return {one.name: one for one in drawn(read_each("nvidia-h200"))}


@pytest.mark.parametrize("name", PICTURES)
def test_a_committed_picture_shows_the_recorded_runs_as_they_are(name: str) -> None:
    now = recorded()[name].svg
    assert now, recorded()[name].reason
    then = (COMMITTED / f"{name}.svg").read_text(encoding="utf-8")
    (_, rows_now), (kept, rows_then) = kept_rows(now), kept_rows(then)
    assert rows_then == rows_now, f"the picture is out of date: {MAKE}"
    if kept["renderer"] != renderer():
        pytest.skip(
            f"its rows are current; drawn by {kept['renderer']}, here is {renderer()}: bytes may differ"
        )
    assert then == now, f"the same rows are drawn differently now: {MAKE}"


def test_nothing_else_is_committed_and_the_readme_shows_every_picture() -> None:
    assert sorted(path.name for path in COMMITTED.iterdir()) == sorted(f"{name}.svg" for name in PICTURES)
    for name in PICTURES:
        assert f"(docs/pictures/{name}.svg)" in README


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_drawn_alike_in_another_process(name: str) -> None:
    code = (
        "from reports.pictures.draw import drawn; from results.store import read_each; import sys;"
        f"sys.stdout.write(next(one.svg for one in drawn(read_each('nvidia-h200')) if one.name == {name!r}))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, cwd=ROOT, env=environment, check=True
    )
    assert done.stdout.decode() == recorded()[name].svg


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_asks_for_nothing_and_runs_nothing(name: str) -> None:
    svg = recorded()[name].svg or ""
    root = ElementTree.fromstring(svg)
    assert {element.tag.rpartition("}")[2] for element in root.iter()} <= {
        "svg", "title", "metadata", "style", "g", "path", "line", "rect", "text", "tspan", "defs", "clipPath"
    }  # fmt: skip
    assert set(re.findall(r"\w+://[^\"<\s]*", svg)) == {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert not re.search(r"\bon\w+=|url\((?!#)|href", svg)


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_says_its_finding_to_who_cannot_see_it(name: str) -> None:
    one = recorded()[name]
    root = ElementTree.fromstring(one.svg or "")
    assert root.get("role") == "img"
    assert root.findtext("{http://www.w3.org/2000/svg}title") == one.finding


def luminance(color: str) -> float:
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_text_and_marks_stand_out_on_light_and_on_dark() -> None:
    for text in (INK, FAINT):
        assert contrast(text, GROUND) >= 4.5
        assert contrast(DARK[text], DARK[GROUND]) >= 4.5
    for mark, ground in product(MARKS, (GROUND, DARK[GROUND])):
        assert contrast(mark, ground) >= 3


@pytest.mark.parametrize("name", PICTURES)
def test_every_colour_of_the_page_has_another_in_the_dark(name: str) -> None:
    svg = recorded()[name].svg or ""
    drawn_in = set(re.findall(r'(?:fill|stroke)="(#[0-9a-f]{3,6}|[a-z]+)"', svg)) - {"none", "transparent"}
    assert drawn_in <= {*DARK, *MARKS}
    for light, dark in DARK.items():
        assert f'[fill="{light}"]{{fill:{dark}}}' in svg


def test_head_dim_shows_that_72_is_busier_than_64_and_does_less() -> None:
    found = tensor_use_picture(results.read("nvidia-h200/head_dim"))
    assert isinstance(found, Picture)
    text = {(row["variant"], row["head_dim"], row["figure"]): row["text"] for row in found.rows}
    of = "sdpa = sdpa_cudnn"
    figures = ("useful, of the peak rate", "active, of cycles", "issued ÷ useful")
    assert [text[of, "64", one] for one in figures] == ["43 %", "45 %", "1.00 ×"]
    assert [text[of, "72", one] for one in figures] == ["35 %", "66 %", "1.78 ×"]
    assert found.finding.startswith(
        "At head_dim 32, 64, 72, sdpa = sdpa_cudnn: useful 22, 43, 35 % of the peak, active 46, 45, 66 %, issued "
        "2.00, 1.00, 1.78 ×; flash_portable: "
    )


def test_calls_add_up_to_what_python_waits_for() -> None:
    run = results.read("nvidia-h200/default")
    found = calls_picture(run)
    assert isinstance(found, Picture)
    frame = run.frame().set_index(["stage", "variant", "batch", "d_model"])
    rows = [
        row
        for row in found.rows
        if (row["stage"], row["batch"], row["variant"]) == ("qkv", "batch 1", "per_head")
    ]
    assert [row["part"] for row in rows] == ["kernels", "gaps", "launches"]
    assert sum(float(row["seconds"] or 0) for row in rows) == pytest.approx(
        frame.loc[("qkv", "per_head", 1, 768), "eager_s"], rel=1e-4
    )
    assert {row["batch"] for row in found.rows} == {"batch 1", "batch 32"}
    assert (
        "qkv at batch 1, per_head 523 µs (390 µs of it launches) against fused_qkv 14.3 µs, 36.5 ×"
        in found.finding
    )


def test_kernels_are_held_against_the_fastest_library_of_each_shape() -> None:
    run = results.read("nvidia-h200/kernels_1024")
    found = kernels_picture(run)
    assert isinstance(found, Picture)
    time = run.frame().pivot_table("graph_s", ["batch", "causal", "head_dim"], "variant")
    best = time[["sdpa_cudnn", "sdpa_flash", "fa4"]].min(axis=1)
    for row in found.rows:
        batch, mask = str(row["shape"]).removeprefix("batch ").split(", ")
        place = (int(batch), mask == "causal", int(str(row["heads"]).split()[-1]))
        assert row["ratio"] == pytest.approx(best[place] / time.loc[place, row["kernel"]], rel=1e-4)
    assert len(found.rows) == 2 * 18
    assert "flash_hopper is 1.23 to 1.70 × as fast in 18 shapes" in found.finding


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (tensor_use_picture, "no attention at 2 to 8 head_dims with counters of what was issued"),
        (calls_picture, "no group whose baseline and another, faster variant were both taken apart"),
        (kernels_picture, "no 3 shapes of one seq_len with flash_hopper, flash_portable beside a library"),
    ],
)
@pytest.mark.parametrize("of", [runs.cpu_run, runs.every_outcome, lambda: runs.run([])])
def test_what_a_run_does_not_hold_is_said_in_words(make, reason, of) -> None:
    found = make(of())
    assert isinstance(found, str)
    assert found.startswith(reason)


def test_a_hostile_name_is_text_in_the_picture() -> None:
    times = {"per_head": 4e-4, HOSTILE: 1e-4}
    seen = [
        Observation(builders.case(name), dispatch=Dispatch(1, 0.8 * time_s, calls=5))
        for name, time_s in times.items()
    ]
    trials = runs.gpu_trials(times, 1)
    found = calls_picture(Run(Path("made-up"), runs.run(trials).manifest, trials, seen))
    assert isinstance(found, Picture)
    svg = to_svg(found, "a-run")
    assert "<script" not in svg
    shown = [element.text for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
    assert plain(HOSTILE)[:24] in " ".join(filter(None, shown))
    assert kept_rows(svg)[1] == list(found.rows)


def test_of_several_runs_the_one_with_most_to_show_is_drawn() -> None:
    assert {name: one.run for name, one in recorded().items()} == {
        "tensor_use": "claims", "calls": "default", "kernels": "kernels_1024"
    }  # fmt: skip


def test_an_svg_of_somebody_else_has_no_rows() -> None:
    with pytest.raises(ValueError, match="no picture of a run"):
        kept_rows("<svg></svg>")


def test_two_widths_of_one_head_dim_are_two_panels() -> None:
    found = kernels_picture(results.read("nvidia-h200/default"))
    assert isinstance(found, Picture)
    assert {row["heads"] for row in found.rows} == {f"{heads} of {width}" for heads, width in (
        ("12 heads", 32), ("12 heads", 64), ("24 heads", 64), ("12 heads", 72)
    )}  # fmt: skip
    assert len({(row["heads"], row["shape"], row["kernel"]) for row in found.rows}) == len(found.rows)


def test_one_replicate_has_points_and_no_intervals() -> None:
    times = {"flash_hopper": 1e-4, "sdpa_cudnn": 1.3e-4, "sdpa_flash": 2e-4}
    trials = [
        trial for batch in (1, 2, 4) for trial in runs.gpu_trials(times, 1, stage="attention", batch=batch)
    ]
    found = kernels_picture(runs.run(trials, replicates=1))
    assert isinstance(found, Picture)
    assert [(row["ratio"], row["low"], row["high"]) for row in found.rows] == [(1.3, None, None)] * 3
    assert found.finding == (
        "By graph replay, against the fastest of sdpa_cudnn, sdpa_flash, flash_hopper is 1.30 × as fast in 3 shapes."
    )
    assert "flash_hopper" in to_svg(found, "a-run")


def test_a_fine_sweep_is_left_to_the_tables() -> None:
    run = sweeps.sweep(range(16, 129, 8), ("sdpa_cudnn",))
    assert tensor_use_picture(run) == (
        "no attention at 2 to 8 head_dims with counters of what was issued (--counters ncu)"
    )


def test_renewing_draws_what_is_committed_and_writes_the_findings_into_the_readme(tmp_path: Path) -> None:
    (tmp_path / "docs" / "pictures").mkdir(parents=True)
    stale = re.sub(r"!\[[^\]]*\]", "![stale]", README)
    (tmp_path / "README.md").write_text(stale, encoding="utf-8")
    renew(tmp_path)
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == README
    for name in PICTURES:
        assert (tmp_path / "docs" / "pictures" / f"{name}.svg").read_text(encoding="utf-8") == recorded()[
            name
        ].svg


def test_every_head_dim_of_a_picture_has_a_colour_of_its_own() -> None:
    assert len(set(COLOURS)) == len(COLOURS) == FINE
