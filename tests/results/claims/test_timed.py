"""Claims on runs made up so that each is supported, refuted, or something between."""

from __future__ import annotations

import pytest

from tests.results import builders
from tests.results.claims.made_up import answers, case, finding, run

QKV = {name: case("qkv", name) for name in ("per_head", "fused", "fused_qkv")}
KERNELS = {
    QKV["per_head"]: {"gemm": 36},
    QKV["fused"]: {"gemm": 3, "Memset (Device)": 3},
    QKV["fused_qkv"]: {"gemm": 1},
}


def test_c1_counts_kernels_and_no_fills() -> None:
    times = dict.fromkeys(QKV.values(), 1e-4)
    assert finding("C1", run(times, KERNELS)).judgement == "supported"
    more = {**KERNELS, QKV["fused"]: {"gemm": 4}}
    assert answers(finding("C1", run(times, more)))["matmul kernels of fused"] == "fails"
    assert finding("C1", run(times)).judgement == "not measurable here", "no kernels were recorded"


def test_c2_needs_heads_apart_to_be_slower() -> None:
    slow = run({QKV["per_head"]: 3e-4, QKV["fused"]: 1e-4})
    assert answers(finding("C2", slow))["the same for a Python caller"] == "holds"
    level = run({QKV["per_head"]: 1.05e-4, QKV["fused"]: 1e-4})
    assert finding("C2", level).judgement == "refuted", "neither at the peak nor faster"


def attention(name: str, **shape):
    return case("attention", name, **shape)


@pytest.mark.parametrize(
    ("strided_s", "relayout_s", "verdict"),
    [(2e-4, 0.5e-4, "supported"), (2e-4, 1.5e-4, "partly"), (1e-4, 0.5e-4, "refuted")],
)
def test_c8_asks_for_a_gain_that_pays_for_the_relayout(
    strided_s: float, relayout_s: float, verdict: str
) -> None:
    times = {
        attention("sdpa"): 1e-4,
        attention("sdpa_strided"): strided_s,
        case("split", "three_copies"): relayout_s,
    }
    assert finding("C8", run(times)).judgement == verdict


def test_c8_takes_the_fastest_relayout_and_lacks_none_silently() -> None:
    times = {attention("sdpa"): 1e-4, attention("sdpa_strided"): 2e-4}
    assert finding("C8", run(times)).judgement == "partly", "the relayout was not measured"
    both = {**times, case("split", "slow"): 9e-4, case("split", "fast"): 0.5e-4}
    found = finding("C8", run(both))
    assert found.judgement == "supported"
    assert any("split/fast" in part.says for part in found.parts)


@pytest.mark.parametrize(("batch", "ours_s", "verdict"), [(32, 1e-4, "supported"), (1, 9e-4, "partly")])
def test_c9_asks_for_blocks_and_for_time(batch: int, ours_s: float, verdict: str) -> None:
    ours, library = attention("block_per_head", batch=batch), attention("sdpa", batch=batch)
    found = finding("C9", run({ours: ours_s, library: 1e-4}, {ours: {"block_per_head": 1}}))
    assert found.judgement == verdict


def sweep(times_s: dict[int, float], kernels: dict[int, str]):
    """PyTorch's attention at some head_dims."""
    cases = {head_dim: attention("sdpa", head_dim=head_dim, d_model=12 * head_dim) for head_dim in times_s}
    names = {cases[head_dim]: {name: 1} for head_dim, name in kernels.items()}
    return run({cases[head_dim]: time_s for head_dim, time_s in times_s.items()}, names)


def test_c12_knows_a_fallback_when_it_sees_one() -> None:
    stays = sweep({64: 1e-4, 72: 1e-4}, {64: "cudnn_x", 72: "cudnn_y"})
    assert answers(finding("C12", stays))["PyTorch's choice at 72"] == "fails"
    falls = sweep({64: 1e-4, 72: 2e-4}, {64: "pytorch_flash::flash_fwd_kernel", 72: "fmha_cutlassF"})
    assert answers(finding("C12", falls)) == {
        "issued ÷ useful at 72": "missing",
        "useful work a second at 64 ÷ at 72": "holds",
        "PyTorch's choice at 72": "holds",
    }


def test_c11_weighs_times_with_the_work_done() -> None:
    half_the_work_in_the_same_time = sweep({64: 1e-4, 32: 1e-4}, {})
    found = finding("C11", half_the_work_in_the_same_time)
    (part,) = [part for part in found.parts if part.about.startswith("useful work")]
    assert part.number is not None
    assert part.number.value == pytest.approx(2)
    half_the_work_in_half_the_time = sweep({64: 1e-4, 32: 0.5e-4}, {})
    assert (
        answers(finding("C11", half_the_work_in_half_the_time))["useful work a second at 64 ÷ at 32"]
        == "fails"
    )


def layer(layer_s: float, stack_s: float | None = None):
    """Three steps of 1e-4 s, kernels as they are due, a layer, and a stack of twelve."""
    steps = {
        case("qkv", "fused"): {"gemm": 3},
        attention("sdpa"): {"fmha": 1},
        case("output", "concat_matmul"): {"gemm": 1},
    }
    whole, stack = case("sublayer", "fused_sdpa"), case("stack", "fused_sdpa")
    times = {**dict.fromkeys(steps, 1e-4), whole: layer_s} | ({stack: stack_s} if stack_s else {})
    return run(times, {**steps, whole: {"gemm": 4}}, parameters={whole: 100, stack: 1200})


@pytest.mark.parametrize(
    ("layer_s", "stack_s", "verdict"),
    [(3e-4, 36e-4, "supported"), (2e-4, 24e-4, "partly"), (3e-4, 24e-4, "partly"), (3e-4, None, "partly")],
)
def test_c13_adds_up_steps_and_layers(layer_s: float, stack_s: float | None, verdict: str) -> None:
    assert finding("C13", layer(layer_s, stack_s)).judgement == verdict


def test_a_cpu_has_no_tensor_cores_and_no_thread_blocks() -> None:
    times = {attention(name): 1e-4 for name in ("sdpa", "block_per_head")}
    on_cpu = run(times, environment=builders.CPU_ENVIRONMENT)
    for claim in ("C9", "C10", "C11", "C12"):
        found = finding(claim, on_cpu)
        assert found.judgement == "not measurable here"
        assert "this run is on a CPU" in str(found.parts[0].reason)
