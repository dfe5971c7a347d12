"""`explain` as a command: bars of recorded runs, one variant or two, and what is not there."""

from __future__ import annotations

import json

import pytest

from harness import explain_command
from harness.errors import UsageError
from tests.harness.commands import headbench

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


def test_markdown_has_a_table_for_each_shape(capsys) -> None:
    explain_command.show("block_per_head", None, HEAD_DIM, ["markdown"])
    page = capsys.readouterr().out
    assert page.count("### attention forward") == 3
    assert "| eager call |" in page


@pytest.mark.parametrize(
    ("variant", "against", "where", "message"),
    [
        ("sdpaa", None, HEAD_DIM, "variant 'sdpaa' is unknown: did you mean sdpa"),
        ("per_head", None, DEFAULT, "belongs to several stages: qkv/per_head or sublayer/per_head would do"),
        ("qkv/sdpa", None, DEFAULT, "variant 'qkv/sdpa' is unknown"),
        ("sdpa", "fused_sdpa", DEFAULT, "variant 'attention/fused_sdpa' is unknown"),
        ("sdpa", None, "nowhere", "no run at nowhere"),
    ],
)
def test_wrong_usage_is_said_in_one_line(variant: str, against: str | None, where: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        explain_command.show(variant, against, where, [])
    assert "\n" not in str(raised.value)
