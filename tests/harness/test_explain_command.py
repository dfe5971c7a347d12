"""`explain` as a command: bars of recorded runs, one variant or two, and what is not there."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

import results
from harness import explain_command
from harness.errors import UsageError
from reports.explanation_render import to_markdown
from results.explanation import explain
from results.schema import Outcome
from tests.harness.commands import headbench
from tests.results import builders

HEAD_DIM, DEFAULT = "nvidia-h200/head_dim", "nvidia-h200/default"


def test_two_variants_stand_side_by_side_at_every_shape() -> None:
    done = headbench("explain", "sdpa", "--against", "sdpa_flash", "--from", HEAD_DIM)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("attention forward") == 3
    assert done.stdout.count("padding") >= 3
    assert "tensor rate while active 67 %" in " ".join(done.stdout.split())
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_the_base_is_looked_up_in_the_variants_stage(capsys) -> None:
    explain_command.show("sublayer/per_head", "fused_sdpa", DEFAULT, ["json"])
    shapes = json.loads(capsys.readouterr().out)
    assert {(one["case"]["stage"], one["case"]["variant"]) for sides in shapes for one in sides} == {
        ("sublayer", "per_head"),
        ("sublayer", "fused_sdpa"),
    }
    assert all(len({side["case"]["batch"] for side in sides}) == 1 for sides in shapes)


def test_parts_stand_in_the_order_of_a_call_whatever_each_side_lacks(capsys) -> None:
    explain_command.show("fused_graph", "stack/fused_sdpa", DEFAULT, ["markdown"])
    rows = [
        line.split("|")[1].strip() for line in capsys.readouterr().out.splitlines() if line.startswith("|")
    ]
    order = ["launch", "launches and gaps", "gaps", "idle SMs", "useful", "rest of kernels", "eager call"]
    assert rows[2:] == order


def test_markdown_has_a_table_for_each_shape(capsys) -> None:
    explain_command.show("block_per_head", None, HEAD_DIM, ["markdown"])
    page = capsys.readouterr().out
    assert page.count("### attention forward") == 3
    assert "| eager call |" in page


def test_markdown_ends_where_a_comment_does_and_says_what_is_left_out() -> None:
    run = results.read(DEFAULT)
    rows = [row for row in run.standings() if row.record.case.stage == "attention"]
    page = to_markdown([[(row, explain(row))] for row in rows * 3], limit=20_000)
    assert len(page.encode()) <= 20_000
    assert re.search(r"\d+ of 216 shapes, with [\d,]+ of [\d,]+ bars, left out", page)


@pytest.mark.parametrize(
    ("variant", "against", "where", "message"),
    [
        (
            "sdpaa",
            None,
            HEAD_DIM,
            r"variant 'sdpaa' is unknown in run \S+-nvidia-h200-\S+: did you mean sdpa",
        ),
        (
            "per_head",
            None,
            DEFAULT,
            "several stages: qkv/per_head or sublayer/per_head or stack/per_head would do",
        ),
        ("qkv/sdpa", None, DEFAULT, "variant 'qkv/sdpa' is unknown"),
        ("sdpa", "fused_sdpa", DEFAULT, "variant 'attention/fused_sdpa' is unknown"),
        ("sdpa", "qkv/fused", DEFAULT, "'qkv/fused' is of another stage than attention/sdpa"),
        ("sdpa", None, "nowhere", "no run at nowhere"),
    ],
)
def test_wrong_usage_is_said_in_one_line(variant: str, against: str | None, where: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        explain_command.show(variant, against, where, [])
    assert "\n" not in str(raised.value)


def test_a_variant_against_itself_says_everything_once_but_its_bars(capsys) -> None:
    explain_command.show("sdpa", "sdpa", HEAD_DIM, ["markdown"])
    page = capsys.readouterr().out
    assert page.count("sdpa: clock") == page.count("### attention")


WIDE, NARROW = (builders.case("fused", batch=batch) for batch in (32, 1))
OTHER = builders.case("per_head", batch=1)
BROKEN = "it *broke* | [red]here[/red]\n\x1b[31mand <b>there</b>"


@pytest.fixture
def partly(tmp_path):
    """A run of `fused`, out of memory at the larger batch, and of `per_head` at that batch alone."""
    cases = [WIDE, NARROW, replace(OTHER, batch=32)]
    ended = {"outcome": Outcome.OUT_OF_MEMORY, "reason": BROKEN, "timings": {}}
    trials = [builders.trial(one, n, **(ended if one is WIDE else {})) for n in range(3) for one in cases]
    return builders.stored(tmp_path, builders.manifest(cases), trials)


@pytest.mark.parametrize("form", [[], ["--markdown"], ["--json"]])
def test_a_shape_without_a_time_has_its_reason_in_words(partly, form: list[str]) -> None:
    done = headbench("explain", "fused", "--from", partly, *form)
    assert done.returncode == 0
    assert "out of memory: it" in " ".join(done.stdout.split())
    assert "<b>" not in done.stdout or form != ["--markdown"]


def test_a_base_without_a_time_at_the_shape_is_told_and_one_at_no_shape_is_wrong_usage(partly) -> None:
    done = headbench("explain", "per_head", "--against", "fused", "--from", partly)
    assert "fused has no eager time: out of memory: it *broke* | [red]here[/red]" in " ".join(
        done.stdout.split()
    )


def test_shapes_at_which_there_is_nothing_to_hold_it_against_are_told(partly, capsys) -> None:
    explain_command.show("fused", "per_head", str(partly), [])
    said = capsys.readouterr()
    (line,) = said.err.splitlines()
    assert line == f"--against 'per_head' has no case in this run at {NARROW.group}"


def test_a_base_at_no_shape_of_the_variant_is_wrong_usage(tmp_path) -> None:
    cases = [WIDE, OTHER]
    trials = [builders.trial(one, n) for n in range(3) for one in cases]
    path = builders.stored(tmp_path, builders.manifest(cases), trials)
    with pytest.raises(UsageError, match="'per_head' is at none of the shapes of qkv/fused in this run"):
        explain_command.show("fused", "per_head", str(path), [])


def test_a_variant_that_never_had_a_time_is_told_in_one_line_whatever_its_reason(tmp_path) -> None:
    ended = {"outcome": Outcome.INCORRECT, "reason": BROKEN, "timings": {}}
    path = builders.stored(tmp_path, builders.manifest([WIDE]), [builders.trial(WIDE, 0, **ended)])
    done = headbench("explain", "fused", "--from", path)
    assert (done.returncode, len(done.stderr.splitlines()), "\x1b" in done.stderr) == (2, 1, False)
    assert "incorrect: it *broke*" in done.stderr


def test_a_run_that_timed_nothing_says_so(tmp_path) -> None:
    path = builders.stored(tmp_path, replace(builders.manifest(), cases=()), [])
    with pytest.raises(UsageError, match="timed nothing: --from names another"):
        explain_command.show("sdpa", None, str(path), [])


@pytest.mark.parametrize("form", [[], ["markdown"]])
def test_bars_of_two_runs_are_told_with_the_run_of_each(tmp_path, capsys, form: list[str]) -> None:
    for day, variant in ((1, "fused"), (2, "per_head")):
        of = builders.manifest(
            [builders.case(variant)], run_id=f"run-{day}", created_utc=f"2026-01-0{day}T00:00:00+00:00"
        )
        builders.stored(tmp_path, of)
    explain_command.show("fused", "per_head", str(tmp_path), form)
    said = " ".join(capsys.readouterr().out.split()).replace("\\", "")
    assert "fused: from run run-1, the bars beside it from another" in said
    assert "per_head: from run run-2, the bars beside it from another" in said
    explain_command.show("fused", "fused", str(tmp_path), form)
    assert "from another" not in capsys.readouterr().out


def test_bars_of_two_machines_are_told_with_the_machine_of_each(tmp_path, capsys) -> None:
    for day, variant in ((1, "fused"), (2, "per_head")):
        of = builders.manifest(
            [builders.case(variant)],
            run_id=f"run-{day}",
            created_utc=f"2026-01-0{day}T00:00:00+00:00",
            environment={"device": "cuda:0", "gpu": {"name": "H200", "uuid": f"GPU-0000000{day}-beef"}},
        )
        builders.stored(tmp_path, of)
    explain_command.show("fused", "per_head", str(tmp_path), [])
    said = " ".join(capsys.readouterr().out.split())
    assert "fused: from run run-1 on H200 GPU-00000001, the bars beside it from another" in said
    assert "per_head: from run run-2 on H200 GPU-00000002, the bars beside it from another" in said


def test_what_hangs_on_an_eager_time_that_is_hardly_known_is_marked(capsys) -> None:
    """Two processes a case: at batch 1 the eager times are known to no better than ± 25 %."""
    explain_command.show("flash_hopper", "sdpa_cudnn", "nvidia-h200/kernels_1024", [])
    lines = capsys.readouterr().out.splitlines()
    first = lines[lines.index("") :][1:10]
    assert [line.count("~") for line in first if line.startswith(("launch", "eager"))] == [2, 2]
    assert [line.count("~") for line in first if line.startswith("gaps and")] == [0]


@pytest.mark.parametrize("form", [[], ["markdown"]])
def test_what_is_missing_at_every_shape_of_both_is_said_once(capsys, form: list[str]) -> None:
    explain_command.show("flash_hopper", "sdpa_cudnn", "nvidia-h200/kernels_16384", form)
    said = " ".join(capsys.readouterr().out.split()).replace("\\", "")
    both = "flash_hopper, sdpa_cudnn: gaps and kernels not taken apart further: which kernels ran was not recorded"
    assert said.count(f"at every shape: {both}") == 1
    assert said.count("not recorded") == 1


def test_what_is_missing_at_one_shape_stays_with_it(partly, capsys) -> None:
    explain_command.show("per_head", "fused", str(partly), [])
    assert "at every shape" not in capsys.readouterr().out


def test_a_time_that_is_too_fast_to_be_true_is_told_beside_its_bars(tmp_path, capsys) -> None:
    of = builders.manifest()
    path = builders.stored(tmp_path, of, builders.trials(of, {"fused": 1e-12}))
    (row,) = [one for one in results.read(path).standings() if one.variant == "fused"]
    assert row.implausible
    explain_command.show("fused", None, str(path), [])
    assert f"fused: implausible: {row.implausible}" in " ".join(capsys.readouterr().out.split())
    explain_command.show("fused", "per_head", str(path), ["json"])
    ((of_fused, of_per_head), *_) = json.loads(capsys.readouterr().out)
    assert of_fused["implausible"] == row.implausible
    assert "implausible" not in of_per_head
    assert of_fused["run"] == of_per_head["run"] == of.run_id
