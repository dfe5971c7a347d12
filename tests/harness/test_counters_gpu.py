"""Nsight Compute on a real GPU: the right values of attention and projections, and two sources that must agree.

What a library issues is exact, and its own: elsewhere than with the versions it was read from those tests skip.
"""

from __future__ import annotations

from functools import partial

import pytest
import torch

from harness.counting import Counting, try_matmul
from harness.plan import figures
from harness.sensors.feed import CudaFeed
from harness.sensors.gpm import GpmMeter
from harness.sensors.ncu import Ncu, NcuUnavailable, forbidden
from harness.sensors.nvml import Nvml, NvmlUnavailable
from harness.sensors.window import DeviceWindow
from results.run import load
from tests.harness.counted_runs import Quiet, measured
from tests.results import builders

pytestmark = pytest.mark.gpu

FULL = {"batch": 32, "seq_len": 1024, "n_head": 12, "causal": False, "dtype": "bf16"}
HEAD_DIMS = (32, 64, 72)


@pytest.fixture(scope="module")
def environment():
    """The machine's, where Nsight Compute may count."""
    from harness.probe import look

    try:
        Ncu.find()
    except NcuUnavailable as why:
        pytest.skip(str(why))
    if why_not := forbidden():
        pytest.skip(why_not)
    return look("cuda", ())[0]


@pytest.fixture(scope="module")
def matmul(environment):
    """What was counted in an 8192³ matmul."""
    found = try_matmul(environment)
    if found.reason and "another program holds" in found.reason:
        pytest.skip(found.reason)
    assert found.reason is None
    return found


def read_from(torch_version: str, cudnn: int) -> None:
    """Skip unless this is an H200 with the versions that a value was read with; cuDNN's as in 919 for 9.19."""
    here = torch.cuda.get_device_name(), torch.__version__, torch.backends.cudnn.version()
    if "H200" not in here[0] or not here[1].startswith(torch_version) or here[2] // 100 != cudnn:
        pytest.skip(f"read on an H200 with torch {torch_version} and cuDNN {cudnn}; this is {here}")


@pytest.fixture(scope="module")
def counted(environment, tmp_path_factory):
    """Records, by (stage, variant, head_dim, causal), of one run that counts every case the tests ask for."""
    read_from("2.11", 919)
    wanted = [("attention", name, dim, False) for name in ("sdpa_flash", "sdpa_cudnn") for dim in HEAD_DIMS]
    wanted += [("attention", name, 64, True) for name in ("sdpa_flash", "sdpa_cudnn")]
    wanted += [("qkv", "per_head", 64, False), ("output", "concat_matmul", 64, False)]
    cases = [
        builders.case(name, stage=stage, d_model=12 * dim, head_dim=dim, **{**FULL, "causal": causal})
        for stage, name, dim, causal in wanted
    ]
    with measured(tmp_path_factory.mktemp("runs"), cases, environment) as writer:
        Counting(writer, Quiet()).run()
        records = load(writer.path).records()
    return dict(zip(wanted, records, strict=True))


def issued_over_useful(record) -> float:
    assert record.counters.reason is None
    return record.counters.issued_flops / figures(record.case)["useful_flops"]


@pytest.mark.parametrize(
    ("variant", "head_dim", "ratio"),
    [
        ("sdpa_flash", 32, 1),
        ("sdpa_flash", 64, 1),
        ("sdpa_flash", 72, 96 / 72),
        ("sdpa_cudnn", 32, 2),
        ("sdpa_cudnn", 64, 1),
        ("sdpa_cudnn", 72, 128 / 72),
    ],
)
def test_attention_issues_what_its_tile_is_wide(counted, variant, head_dim, ratio):
    assert issued_over_useful(counted["attention", variant, head_dim, False]) == pytest.approx(
        ratio, rel=1e-9
    )


@pytest.mark.parametrize("variant", ["sdpa_flash", "sdpa_cudnn"])
def test_causal_attention_issues_the_masked_halves_of_diagonal_tiles_too(counted, variant):
    assert issued_over_useful(counted["attention", variant, 64, True]) == pytest.approx(1.124, abs=1e-3)


def test_the_pipe_is_busier_at_72_than_at_64_in_cudnn_for_its_padding_and_its_rate_tells_the_instruction(
    counted,
):
    flash_64, cudnn_64, flash_72, cudnn_72 = (
        counted["attention", name, dim, False].counters
        for dim in (64, 72)
        for name in ("sdpa_flash", "sdpa_cudnn")
    )
    active = [one.tensor_active_percent for one in (flash_64, cudnn_64, flash_72, cudnn_72)]
    assert active == pytest.approx([44, 45, 45, 66], abs=3)
    assert cudnn_64.rate_while_active == cudnn_72.rate_while_active == pytest.approx(1, rel=1e-3)
    assert flash_64.rate_while_active == pytest.approx(2 / 3, rel=1e-3)


def test_a_backward_that_computes_the_scores_again_issues_a_quarter_more_and_a_step_has_both(
    environment, tmp_path
):
    """Five products where four are useful: S, dV, dP, dQ, dK. Autograd launches them from a thread of its own."""
    read_from("2.11", 919)
    cases = [
        builders.case("sdpa_flash", stage="attention", d_model=768, head_dim=64, direction=direction, **FULL)
        for direction in ("forward", "backward", "step")
    ]
    with measured(tmp_path, cases, environment) as writer:
        Counting(writer, Quiet()).run()
        forward, backward, step = load(writer.path).records()
    assert issued_over_useful(backward) == pytest.approx(10 / 8, rel=0.01)
    issued = [record.counters.issued_flops for record in (forward, backward, step)]
    assert issued[0] + issued[1] == pytest.approx(issued[2], rel=1e-6)


def test_36_projections_are_36_launches_that_waste_nothing(counted):
    record = counted["qkv", "per_head", 64, False]
    assert issued_over_useful(record) == 1
    assert sum(kernel.launches for kernel in record.counters.kernels) == 36
    assert record.counters.tensor_active_percent == pytest.approx(20, abs=3)


def test_a_square_projection_is_three_quarters_busy(counted):
    record = counted["output", "concat_matmul", 64, False]
    gemm = max(record.counters.kernels, key=lambda kernel: kernel.issued_flops or 0)
    assert gemm.tensor_active_percent == pytest.approx(73, abs=3)


def test_an_8192_matmul_keeps_the_tensor_cores_busy_nine_tenths_of_the_time(matmul):
    assert matmul.tensor_active_percent >= 90
    assert 1 <= matmul.issued_flops / (2 * 8192**3) < 1.05
    assert matmul.rate_while_active == pytest.approx(1, rel=0.02)
    assert matmul.missing == {}


def test_nvmls_monitor_and_nsight_compute_agree_on_an_8192_matmul(environment, matmul):
    try:
        nvml = Nvml.open(environment["gpu"]["uuid"])
        meter = GpmMeter.open(nvml)
    except NvmlUnavailable as why:
        pytest.skip(str(why))
    with torch.inference_mode():
        a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        window = DeviceWindow(nvml, meter, None, CudaFeed)
        try:
            gpm = window.sample(partial(torch.matmul, a, b))["gpm"]
        finally:
            window.close()
    assert gpm.tensor_active_percent == pytest.approx(matmul.tensor_active_percent, abs=3)


def test_a_failing_variant_under_the_real_profiler_costs_no_other(environment, tmp_path):
    plugin = tmp_path / "breaks.py"
    plugin.write_text(
        "import os\nfrom variants.variant import Variant\n"
        "class Breaks(Variant):\n    stage = 'qkv'\n    name = 'breaks'\n"
        "    def call(self, x):\n        os._exit(3)\n"
    )
    from harness.plugins import remember

    cases = [builders.case(name, batch=1) for name in ("fused", "breaks", "fused_qkv")]
    with measured(tmp_path / "runs", cases, environment, plugins=remember((plugin,))) as writer:
        Counting(writer, Quiet()).run()
        fused, breaks, fused_qkv = (record.counters for record in load(writer.path).records())
    assert (fused.reason, fused_qkv.reason) == (None, None)
    assert breaks.reason.startswith("crashed: the worker ended with exit code")
    assert fused_qkv.issued_flops == pytest.approx(fused.issued_flops, rel=0.5)
