"""`list`: what there is, what it needs, and whether this machine has it."""

from __future__ import annotations

import re

from .commands import PLUGINS, headbench


def test_list_shows_every_stage_variant_and_preset_with_what_is_missing_here():
    shown = headbench("list", "--device", "cpu", "--plugin", PLUGINS / "hostile.py").stdout
    for word in ("qkv", "fused_qkv", "andrea-480m", "honest", "the lesson", "nvidia-h200/head_dim"):
        assert word in shown
    assert re.search(r"^ sdpa_cudnn +CUDA, .* no ", shown, re.MULTILINE)


def test_list_says_which_stacks_a_run_has_and_counts_the_weights_of_every_preset():
    told = " ".join(headbench("list", "--device", "cpu").stdout.split())
    one_model = "by default andrea-120m alone, on a CPU andrea-12m; --model asks for others"
    assert told.count(one_model) == 2
    assert f"{one_model} as deep as its model, at batch 1; --n-layer and --batch ask for others" in told
    assert re.search(r"andrea-120m 768 12 64 12 28,311,552 1024", told)


def test_list_marks_what_is_measured_aside_and_says_what_arrives_strided():
    shown = headbench("list", "--device", "cpu").stdout
    assert re.search(r"^ sdpa_strided \* ", shown, re.MULTILINE)
    assert re.search(r"^ sdpa +nothing", shown, re.MULTILINE)
    told = " ".join(shown.split())
    assert "buffer [batch, seq_len, n_head, head_dim], for per_head_addmm, strided_matmul" in told
    assert "* measured where --variant names it, or a claim needs it" in told


def test_list_says_what_each_recorded_run_can_answer_for():
    shown = headbench("list", "--device", "cpu").stdout
    rows = re.split(r"^ (?=nvidia-h200/)", shown, flags=re.MULTILINE)[1:]
    (held,) = (" ".join(row.split()) for row in rows if row.startswith("nvidia-h200/heads_768 "))
    for told in ("attention,", "sublayer, stack", "forward, step", "768=8×96,", "768=12×64", " 8 1024"):
        assert told in held
