"""`list`: what there is, what it needs, and whether this machine has it."""

from __future__ import annotations

import json
import re

import pytest

from harness import list_command
from tests.results import builders

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


@pytest.fixture
def references(tmp_path, monkeypatch, capsys):
    """`list` of these stored manifests, by name, in place of the recorded runs."""

    def listed(manifests):
        for name, stored in manifests.items():
            (tmp_path / "gpu" / name).mkdir(parents=True)
            (tmp_path / "gpu" / name / "manifest.json").write_text(stored)
        monkeypatch.setattr("results.store.REFERENCE", tmp_path)
        monkeypatch.setattr(list_command, "REFERENCE", tmp_path)
        monkeypatch.setattr(list_command, "look", lambda *_: ({"notices": []}, []))
        list_command.show(None, ())
        return " ".join(capsys.readouterr().out.split("recorded runs")[1].split())

    return listed


def stored(**case):
    return json.dumps(builders.manifest([builders.case(**case)]).to_json())


def test_a_recorded_run_that_cannot_be_read_is_named_and_the_others_are_shown(references):
    told = references({"cut": '{"schema"', "whole": stored(), "zero": "{}"})
    assert "gpu/whole qkv forward 768=12×64 1 1024 gpu/cut: " in told
    assert re.search(r"gpu/cut: \S+manifest.json is damaged", told)
    assert "gpu/zero: " in told


def test_what_is_told_of_a_recorded_run_is_what_is_stored_and_stays_text(references):
    told = references({"odd": stored(stage="mine", direction="\x1b[31mup", n_head=0, head_dim=96)})
    assert "gpu/odd mine \N{REPLACEMENT CHARACTER}[31mup 768=0×96 1 1024" in told
