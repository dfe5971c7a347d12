from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from reports import content
from reports.html.run_page import run_page
from reports.html.times import times_table
from results.schema import Outcome
from results.store import read
from tests.reports import runs, sweeps
from tests.reports.html import pages
from tests.reports.html.test_markup import Parsed
from tests.results import builders


@pytest.fixture(scope="module")
def recorded():
    return run_page(read("nvidia-h200/head_dim"))


def outline(page):
    """Its headings, table captions and column titles, in order."""
    found = re.findall(r"<(h[1-3]|caption|button)[^>]*>(.*?)</\1>", page.partition("<script>")[0])
    return [f"{tag} {text}" for tag, text in found]


def chart_of(page, key):
    packed = re.search(r'id="data-charts"[^>]*>([^<]*)<', page)[1]
    charts = json.loads(gzip.decompress(base64.b64decode(packed)))
    return next(one for one in charts if one["key"] == key)


def test_a_recorded_page_has_the_answer_first_then_what_carries_it(recorded):
    assert outline(recorded) == [
        "h1 Which layout of multi-head attention does the NVIDIA H200 like?",
        "h2 The answer",
        *("h3 qkv forward", "h3 attention forward", "h3 output forward"),
        "h3 What the fastest layout gains over the baseline",
        "h2 qkv forward",
        "h3 Speed, as a multiple of per_head's",
        "h3 Where a call from Python spends its time",
        "h3 What the tensor cores do, by head_dim",
        "h3 Roofline, bf16",
        "h3 Memory that a call needs",
        "h3 Every sample",
        "h2 attention forward",
        "h3 Speed, as a multiple of per_head_loop's",
        "h3 Where a call from Python spends its time",
        "h3 What the tensor cores do, by head_dim",
        "h3 Roofline, bf16",
        "h3 Memory that a call needs",
        "h3 Every sample",
        "h2 output forward",
        "h3 Speed, as a multiple of per_head_accumulate's",
        "h3 Where a call from Python spends its time",
        "h3 What the tensor cores do, by head_dim",
        "h3 Roofline, bf16",
        "h3 Memory that a call needs",
        "h3 Every sample",
        "h2 All times",
        "caption All times",
        *(
            "button variant",
            "button rank",
            "button stage",
            "button shape",
            "button mode",
            "button time",
            "button ±",
        ),
        *(
            "button useful rate",
            "button × base",
            "button peak",
            "button held",
            "button active",
            "button issued",
        ),
        *("button memory", "button energy", "button samples"),
        "h2 Not measured",
        "h2 Clocks, power, temperature",
        "h3 Clock, power and temperature",
        "h2 Machine, method and words",
        "h3 What the marks and titles mean",
        "h2 Raw records",
        *("button Save manifest.json", "button Save trials.jsonl", "button Save cases.csv"),
    ]


def test_the_sentences_of_the_answer_are_on_the_page(recorded):
    text = Parsed(recorded).text
    assert "fused_qkv is the fastest in all 3 shapes." in text
    assert "The fastest is 3.42 to 4.74 × as fast as per_head." in text
    assert "sdpa runs 72 in a 128-wide kernel: 1.78 × issued" in text


def test_a_row_of_the_table_is_the_terminals(recorded):
    rows = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in re.findall(r"<tr.*?</tr>", recorded)]
    place = ["attention", "d_model 864 = 12×72", "isolated"]
    (row,) = [cells for cells in rows if cells[0] == "sdpa_cudnn" and cells[2:5] == place]
    assert row[1] == "≈ 2"
    assert row[5:14] == [
        "337.3 µs",
        "0.8 %",
        "344 TFLOP/s",
        "9.26",
        "35 %",
        "37 %",
        "66 %",
        "1.78",
        "54.0 MiB",
    ]


def test_no_column_of_the_times_stands_there_twice():
    report = content.from_run(read("nvidia-h200/default"))
    titles = [one.column.title for one in times_table(report).columns]
    assert titles.count("copy") == 1
    assert len(set(titles)) == len(titles)


def test_only_the_scripts_that_the_policy_names_are_there(recorded):
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', recorded)[1]
    scripts = re.findall(r"<script>(.*?)</script>", recorded, flags=re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in scripts]
    assert len(scripts) == 2
    assert policy == (
        f"default-src 'none'; script-src 'sha256-{digests[0]}' 'sha256-{digests[1]}'; style-src 'unsafe-inline'; "
        "base-uri 'none'; form-action 'none'"
    )


def test_the_page_refers_to_nothing_outside_itself(recorded):
    markup = re.sub(r"<(script|style)\b.*?</\1>", "", recorded, flags=re.DOTALL)
    assert re.findall(r"\b(?:src|srcset|action|poster|data)=", markup) == []
    assert {link for link in re.findall(r'href="([^"]*)"', markup) if not link.startswith("#")} == set()
    assert "@import" not in recorded
    assert "url(" not in re.search(r"<style>.*?</style>", recorded, flags=re.DOTALL)[0]


def test_every_link_leads_somewhere_and_no_id_is_given_twice(recorded):
    ids = re.findall(r'\bid="([^"]*)"', recorded.partition("<script>")[0])
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]*)"', recorded.partition("<script>")[0])) <= set(ids)


@pytest.mark.parametrize("name", ["default", "kernels_1024"])
def test_a_recorded_page_is_small_enough_to_be_sent(name):
    assert len(run_page(read(f"nvidia-h200/{name}")).encode()) < 3_000_000


def test_a_hostile_run_adds_no_tag_and_no_attribute():
    parsed = Parsed(run_page(pages.hostile_run()))
    assert parsed.tags.count("script") == 2 + 1 + 1 + 3
    assert "img" not in parsed.tags
    assert [name for name, _ in parsed.attributes if name.startswith("on")] == []
    assert pages.ALERT in parsed.text


@pytest.mark.parametrize(
    ("name", "unwatched"), [("kernels_4096", ["20 of 30"]), ("kernels_16384", ["30 of 30"]), ("claims", [])]
)
def test_where_every_case_is_timed_the_page_says_how_many_were_not_watched(name, unwatched):
    text = Parsed(run_page(read(f"nvidia-h200/{name}"))).text
    assert "Every case of the plan was timed, and every time is plausible." in text
    assert (
        re.findall(r"What the GPU did meanwhile was not recorded for (\d+ of \d+) cases", text) == unwatched
    )


def test_what_was_not_measured_stands_there_with_its_reason():
    text = Parsed(run_page(runs.every_outcome())).text
    for outcome in ("incorrect", "crashed", "timed out", "out of memory", "unsupported", "unavailable"):
        assert f"why: {outcome.replace(' ', '_')}" in text
        assert outcome in text
    assert "not measured yet" in text
    assert "it synchronises, which a capture forbids" in text


def test_a_run_on_a_cpu_says_so_first_and_has_no_chart_it_cannot_draw():
    page = run_page(runs.cpu_run())
    assert "no CUDA device: measuring the CPU" in page
    titles = [line for line in outline(page) if line.startswith("h3")]
    assert "h3 Roofline, fp32" not in titles
    assert "h3 Where a call from Python spends its time" not in titles
    assert "h3 Speed, as a multiple of per_head's" in titles


def test_a_run_without_a_time_is_a_page_that_says_so():
    text = Parsed(run_page(runs.run([runs.failed("fused", runs.Outcome.CRASHED, "died")]))).text
    assert "Nothing has a time." in text
    assert "died" in text


def test_one_replicate_is_called_one_replicate():
    page = run_page(runs.run(runs.gpu_trials(runs.QKV, replicates=1), replicates=1))
    assert "One replicate: no intervals, the order may be chance." in page


def test_a_folder_of_runs_is_a_page_with_the_conditions_of_each():
    merged = read("nvidia-h200")
    told = [
        line.partition(": ")[2]
        for line in outline(run_page(merged))
        if line.startswith("h3 Clock, power and")
    ]
    assert len(told) >= 3
    assert set(told) == {row.record.run_id for row in merged.standings() if row.outcome is Outcome.OK}


def test_the_overview_has_each_shapes_fastest_over_its_baseline(recorded):
    rows = chart_of(recorded, "overview")["rows"]
    assert [(row["variant"], row["fastest"], row["told"]) for row in rows][:2] == [
        ("qkv forward", "fused_qkv", "4.74 × as fast as per_head"),
        ("qkv forward", "fused_qkv", "3.67 × as fast as per_head"),
    ]
    assert len(rows) == 9


def test_memory_is_what_the_table_says(recorded):
    rows = chart_of(recorded, "stage-1-attention-memory")["rows"]
    told = {(row["variant"], row["place"]): (row["told"], row["value"]) for row in rows}
    assert told["materialized", 0] == ("3.75 GiB", pytest.approx(3840, abs=1))


def test_charts_hold_the_numbers_that_the_series_have(recorded):
    chart = chart_of(recorded, "stage-1-attention-speedups")
    row = next(one for one in chart["rows"] if one["variant"] == "flash_portable" and one["place"] == 0)
    assert row["value"] == pytest.approx(13.84, abs=0.01)
    assert row["interval"] == "13.7 × to 14.0 ×"
    calls = chart_of(recorded, "stage-0-qkv-calls")
    of_one = [one for one in calls["rows"] if one["variant"] == "per_head" and one["panel"].endswith("12×32")]
    assert sum(one["share"] for one in of_one) == pytest.approx(1)
    heads = chart_of(recorded, "stage-1-attention-heads-0")
    cell = next(
        one
        for one in heads["rows"]
        if one["variant"] == "sdpa" and one["value"] == "72" and "÷" in one["figure"]
    )
    assert (cell["told"], cell["share"]) == ("1.78", pytest.approx(1 / 1.78, abs=0.002))
    samples = chart_of(recorded, "stage-0-qkv-samples")
    assert {one["mode"] for one in samples["choices"]} == {"isolated", "eager", "graph"}
    assert len(samples["choices"]) == 9


def test_a_stage_that_moves_bytes_a_stack_and_a_backward_pass_have_their_own_sections():
    trials = [
        builders.trial(
            builders.case(name, stage=stage, **case), n, median_s=time_s * case.get("batch", 1), **work
        )
        for stage, work, cases in (
            ("split", {"useful_flops": 0}, ({"batch": 1}, {"batch": 8})),
            ("stack", {}, ({"n_layer": 2}, {"n_layer": 4})),
            ("qkv", {}, ({"direction": "backward"},)),
        )
        for case in cases
        for name, time_s in (("per_head", 2e-4), ("other", 1e-4))
        for n in range(3)
    ]
    page = run_page(runs.run(trials))
    assert [line for line in outline(page) if line.startswith("h2")][1:4] == [
        *("h2 split forward", "h2 stack forward", "h2 qkv backward")
    ]
    assert "h3 GB/s against tokens" in outline(page)
    calls = chart_of(page, "stage-1-stack-calls")
    assert {one["panel"] for one in calls["rows"]} == {"n_layer 2", "n_layer 4"}


def test_more_shapes_than_anybody_looks_through_are_looked_at_one_by_one():
    page = run_page(sweeps.sweep(range(16, 257, 8), ("padding", "other")))
    calls = chart_of(page, "stage-0-attention-calls")
    assert (calls["rows"], calls["panels"], len(calls["choices"])) == ([], 1, 31)
    assert {one["panel"] for one in calls["choices"][3]["rows"]} == {calls["choices"][3]["shape"]}


def test_a_fine_sweep_of_head_dim_is_drawn_as_lines():
    page = run_page(sweeps.sweep(range(16, 257, 8)))
    heads = chart_of(page, "stage-0-attention-heads-0")
    issued = [(one["x"], one["height"]) for one in heads["rows"] if one["figure"] == "issued ÷ useful"]
    assert issued[:7] == [(x, pytest.approx(64 / x)) for x in (16, 24, 32, 40, 48, 56, 64)]
    assert issued[7] == (72, pytest.approx(128 / 72))


def test_shapes_without_their_baseline_are_counted_and_not_mixed_in():
    trials = [
        *runs.gpu_trials(runs.QKV, batch=1),
        *runs.gpu_trials({"fused": 1e-4, "fused_qkv": 1.1e-4}, batch=8),
    ]
    page = run_page(runs.run(trials))
    chart = chart_of(page, "stage-0-qkv-speedups")
    assert {one["shape"].split(",")[0] for one in chart["rows"]} == {"batch 1"}
    assert "Left out: 1 shape without a time of the baseline." in page


WORDS = st.text(min_size=1, max_size=30)


@settings(
    max_examples=12,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(variant=WORDS, stage=WORDS, reason=WORDS, note=WORDS, machine=WORDS)
def test_whatever_a_record_says_the_page_has_the_tags_of_any_other(
    monkeypatch, variant, stage, reason, note, machine
):
    monkeypatch.setattr("reports.html.page.vega_bundle", lambda: "")
    gpu = {**runs.GPU_ENVIRONMENT["gpu"], "name": machine}
    pages_of = []
    for words in ((variant, stage, reason, note), ("one", "qkv", "why", "note")):
        name, of_stage, why, said = words
        trials = [
            *runs.gpu_trials({f"v{name}": 1e-4, "per_head": 2e-4}, stage=of_stage),
            runs.failed("failed", runs.Outcome.CRASHED, f"r{why}", stage=of_stage),
        ]
        environment = {**runs.GPU_ENVIRONMENT, "gpu": gpu}
        run = runs.run(trials, notes=[said], environment=environment, baselines={of_stage: "per_head"})
        pages_of.append(Parsed(run_page(run)))
    assert pages_of[0].tags == pages_of[1].tags
    assert [name for name, _ in pages_of[0].attributes] == [name for name, _ in pages_of[1].attributes]
