"""From tensors to a launch, on a GPU that is not there: what is launched, and that earlier calls change none of it."""

from __future__ import annotations

import ctypes
import hashlib
import math
import re
import struct
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from kernels import cuda_driver, flash_hopper, flash_portable, fused, tensor_map
from kernels.compiler import FOLDER, KernelError
from kernels.dealing import ROUNDS, deal

KERNELS = (flash_portable, flash_hopper)
OUT_AT = {flash_portable: (96,), flash_hopper: (384, 896)}
"""Where `struct Problem` has the address of O, or a map that begins with it: the one that `no_gpu` makes."""


def nothing(*_):
    """Launches nothing."""


@contextmanager
def no_gpu():
    """A Hopper GPU of 132 SMs that notes what it is asked to launch, with nothing known of earlier calls."""
    noted = []

    def kernel(actor, build, shared_bytes, device):
        def launch(grid, block, structure):
            noted.append([str(build), shared_bytes, grid, block, bytes(structure)])

        return SimpleNamespace(launch=launch)

    def heads_map(actor, dtype, address, *rest):
        told = hashlib.sha256(repr((actor, dtype, rest)).encode()).digest()
        return struct.pack("q", address) + 3 * told + bytes(24)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.Tensor, "is_cuda", True)
        patch.setattr(torch.cuda, "current_device", lambda: None)  # a CPU's device has no number
        patch.setattr(flash_hopper, "_refuses_gpu", lambda device: None)
        patch.setattr(flash_hopper, "heads_map", heads_map)
        patch.setattr(fused, "sm_count", lambda device: 132)
        patch.setattr(fused, "kernel", kernel)
        for module in KERNELS:
            patch.setattr(module._fused, "_launches", {})
        yield noted


def stored(shape, how, dtype=torch.bfloat16):
    """A tensor of this shape in one of many layouts, some of which no kernel takes."""
    batch, n_head, seq_len, head_dim = shape
    if how == "packed":
        return torch.zeros(batch, seq_len, 3, n_head, head_dim, dtype=dtype)[:, :, 1].transpose(1, 2)
    if how == "expanded":
        return torch.zeros(batch, 1, seq_len, head_dim, dtype=dtype).expand(shape)
    if how == "between":
        return torch.zeros(math.prod(shape) + 8, dtype=dtype)[1 : 1 + math.prod(shape)].view(shape)
    if how == "odd":
        return torch.zeros(batch, n_head, seq_len, head_dim + 4, dtype=dtype)[..., :head_dim]
    return torch.zeros(shape, dtype=dtype)


def outcome(module, noted, call):
    """What a call launches or complains of; a new O lies anywhere."""
    q, k, v, out, lse, causal, tile = call
    noted.clear()
    try:
        result = module.forward(q, k, v, causal=causal, out=out, lse=lse, tile=tile)
    except KernelError as error:
        return str(error)
    for launch in noted:
        for at in OUT_AT[module]:
            assert struct.unpack_from("q", launch[-1], at) == (result.data_ptr(),)
            if out is None:
                launch[-1] = launch[-1][:at] + bytes(8) + launch[-1][at + 8 :]
    return [tuple(launch) for launch in noted], result.shape, result.stride(), result.dtype


SHAPE = (2, 3, 130, 64)
BF16, FP16 = torch.bfloat16, torch.float16
RIGHT = dict.fromkeys(("q", "k", "v", "out"), (SHAPE, "dense", BF16)) | {
    "lse": torch.float32,
    "causal": True,
    "tile": None,
}
OTHERS = [
    (SHAPE, "packed", BF16),
    (SHAPE, "expanded", BF16),
    (SHAPE, "between", BF16),
    (SHAPE, "odd", BF16),
    (SHAPE, "dense", FP16),
    ((2, 3, 65, 64), "packed", BF16),
    ((3, 2, 130, 64), "dense", BF16),
]
TILES = {flash_portable: flash_portable.Tile(1, 4, 32, 2), flash_hopper: flash_hopper.Tile(keys=64)}
CHANGES = [
    *({name: other} for name in ("q", "k", "v", "out") for other in OTHERS),
    *(dict.fromkeys(("q", "k", "v", "out"), other) for other in OTHERS),
    *({"out": None, "lse": lse} for lse in (torch.float32, None)),
    *({"lse": lse} for lse in (None, torch.float64)),
    {"causal": False},
    {"tile": TILES},
]


def made(module, parts):
    q, k, v, out = (parts[name] and stored(*parts[name]) for name in ("q", "k", "v", "out"))
    lse = None if parts["lse"] is None else torch.zeros(parts["q"][0][:3], dtype=parts["lse"])
    return q, k, v, out, lse, parts["causal"], parts["tile"] and parts["tile"][module]


@pytest.mark.parametrize("module", KERNELS, ids=lambda module: module.ACTOR)
@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_call_launches_or_complains_the_same_whatever_was_called_before(module, change):
    calls = [made(module, RIGHT), made(module, RIGHT | change)]
    rights = []
    for call in calls:
        with no_gpu() as noted:
            rights.append(outcome(module, noted, call))
    assert rights[0] != rights[1]
    with no_gpu() as noted:
        for _ in range(2):
            assert [outcome(module, noted, call) for call in calls] == rights


@pytest.mark.parametrize("name", ["q", "k", "v", "out"])
def test_a_layout_seen_before_does_not_excuse_an_address(name):
    with no_gpu() as noted:
        outcome(flash_portable, noted, made(flash_portable, RIGHT))
        said = outcome(flash_portable, noted, made(flash_portable, RIGHT | {name: (SHAPE, "between", BF16)}))
    assert said == f"flash_portable: {name} starts 2 bytes past a multiple of 16: .clone() aligns it"
    assert noted == []


def test_the_portable_kernel_is_handed_addresses_strides_and_numbers():
    shape = (2, 3, 130, 72)
    q, k, v = (stored(shape, "packed") for _ in range(3))
    out, lse = stored(shape, "dense"), torch.zeros(shape[:3])
    with no_gpu() as noted:
        assert flash_portable.forward(q, k, v, causal=True, out=out, lse=lse) is out
    ((build, _, grid, block, problem),) = noted
    tile = flash_portable.tile_for(72, 6, 130, True, 132)
    assert build == str(tile.build(72, torch.bfloat16))
    assert (grid, block) == (6 * math.ceil(130 / tile.rows), 32 * tile.warps)
    of_input = [2 * 130 * 3 * 3 * 72, 2 * 72, 2 * 3 * 3 * 72]
    of_out = [2 * 3 * 130 * 72, 2 * 130 * 72, 2 * 72]
    tensors = [number for x in (q, k, v) for number in (x.data_ptr(), *of_input)]
    *counts, scale = struct.unpack("16qq6if4x", problem)
    heads_at_once = 16 * 2**20 // (4 * 130 * 72)
    numbers = [3, 6, 130, grid // 6, heads_at_once, 1]
    assert counts == [*tensors, out.data_ptr(), *of_out, lse.data_ptr(), *numbers]
    assert scale == pytest.approx(math.log2(math.e) / math.sqrt(72))


def test_hoppers_kernel_is_handed_maps_in_boxes_that_it_asks_for_and_numbers(monkeypatch):
    shape = (2, 3, 130, 72)
    q, k, v, out = (stored(shape, how) for how in ("packed", "dense", "dense", "dense"))
    lse = torch.zeros(shape[:3])
    asked = []
    with no_gpu() as noted:
        monkeypatch.setattr(
            flash_hopper, "heads_map", lambda *of: asked.append(of) or bytes([len(asked)]) * 128
        )
        for _ in range(2):  # the same addresses again are not described again
            assert flash_hopper.forward(q, k, v, causal=True, out=out, lse=lse) is out
    tile = flash_hopper.tile_for(72, 6, 130, True, 132)
    of_q, of_other = (2 * 130 * 3 * 3 * 72, 2 * 72, 2 * 3 * 3 * 72), (2 * 3 * 130 * 72, 2 * 130 * 72, 2 * 72)
    boxes = [
        (q, of_q, 64, 64),
        (k, of_other, tile.keys, 64),
        (v, of_other, tile.keys, 64),
        (out, of_other, 16, 64),
        (q, of_q, 64, 16),
        (k, of_other, tile.keys, 16),
        (out, of_other, 16, 16),
    ]
    maker = ("flash_hopper", torch.bfloat16)
    assert asked == [(*maker, x.data_ptr(), shape, *of_box) for x, *of_box in boxes]
    build, shared_bytes, grid, block, problem = noted[0]
    assert noted[1] == noted[0]
    assert build == str(tile.build(72, torch.bfloat16))
    row_tiles = math.ceil(130 / tile.rows)
    assert (shared_bytes, grid, block) == (tile.shared_bytes(72), 6 * row_tiles, tile.threads)
    assert len(problem) % 64 == 0  # as the maps are aligned, so is the structure
    assert problem[:896] == b"".join(bytes([i]) * 128 for i in range(1, 8))
    at_out, *of_out, at_lse = struct.unpack_from("5q", problem, 896)
    assert (at_out, tuple(of_out), at_lse) == (out.data_ptr(), of_other, lse.data_ptr())
    *counts, scale = struct.unpack_from("6if", problem, 936)
    dealt = deal(6, 130, 72, True, tile.rows, tile.keys, grid)
    assert counts == [3, 6, 130, row_tiles, dealt.heads, 1]
    assert scale == pytest.approx(math.log2(math.e) / math.sqrt(72))
    assert struct.unpack_from(f"{ROUNDS}i", problem, 964) == dealt.shifts


@pytest.mark.parametrize("name", ["q", "k", "v", "out"])
def test_a_tensor_at_another_address_gets_a_map_of_its_own(name):
    tensors = {name: stored(SHAPE, "dense") for name in ("q", "k", "v", "out")}
    moved = tensors | {name: stored(SHAPE, "dense")}
    with no_gpu() as noted:
        for call in (tensors, moved, tensors):
            flash_hopper.forward(**call, causal=True)
    assert noted[0] == noted[2]
    for call, (*_, problem) in zip((tensors, moved), noted, strict=False):
        at = [struct.unpack_from("q", problem, 128 * i)[0] for i in range(4)]
        assert at == [tensor.data_ptr() for tensor in call.values()]


@pytest.mark.parametrize(("batch_heads", "seq_len"), [(1, 64), (12, 1024), (384, 1024), (3000, 130)])
def test_hoppers_blocks_are_no_more_than_have_room_nor_than_there_is_work_for(batch_heads, seq_len):
    x = torch.zeros(1, batch_heads, seq_len, 8, dtype=torch.bfloat16)
    with no_gpu() as noted:
        flash_hopper.forward(x, x, x, causal=True)
    tile = flash_hopper.tile_for(8, batch_heads, seq_len, True, 132)
    tiles = batch_heads * math.ceil(seq_len / tile.rows)
    assert noted[0][2] == min(tiles, 132 * tile.blocks)


def test_a_block_gets_no_more_tiles_than_it_has_bits_to_note_them_in():
    (words,) = re.findall(r"#define NOTES (\d+)", (FOLDER / "flash_hopper.cu").read_text())
    layout = fused.Layout(2, 10**6, 200, 8, torch.bfloat16, 0, True, ((0, 0, 0),) * 4)
    with no_gpu():
        launch = flash_hopper._plan(layout, None)
    row_tiles = math.ceil(200 / flash_hopper.tile_for(8, 2 * 10**6, 200, True, 132).rows)
    assert launch.grid > 132 * 2
    assert math.ceil(2 * 10**6 * row_tiles / launch.grid) <= 32 * int(words)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("shape", [(2, 3, 0, 64), (0, 3, 130, 64), (2, 0, 130, 64)], ids=str)
@pytest.mark.parametrize("causal", [True, False])
def test_nothing_is_launched_for_nothing(shape, causal):
    empty = torch.zeros(shape, dtype=torch.bfloat16)
    with no_gpu() as noted:
        for module in KERNELS:
            assert module.forward(empty, empty, empty, causal=causal).shape == empty.shape
    assert noted == []


@pytest.mark.parametrize("module", KERNELS, ids=lambda module: module.ACTOR)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("shape", [(1, 1, 1, 8), (32, 12, 1024, 72), (1, 12, 300, 64)], ids=str)
def test_what_is_compiled_for_a_shape_is_what_its_tensors_launch(module, causal, shape, monkeypatch):
    batch, n_head, seq_len, head_dim = shape
    q, k, v = (stored(shape, "packed") for _ in range(3))
    with no_gpu():
        asked = []
        monkeypatch.setattr(fused, "kernel", lambda *of: asked.append(of) or SimpleNamespace(launch=nothing))
        module.compile_for_shape(batch * n_head, seq_len, head_dim, causal, q.dtype, q.device)
        module.forward(q, k, v, causal=causal)
    assert asked[0] == asked[1]
    assert len(asked) == 2


@pytest.mark.parametrize("module", KERNELS, ids=lambda module: module.ACTOR)
@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_a_result_where_an_input_is_is_refused(module, name):
    tensors = {each: stored(SHAPE, "dense") for each in ("q", "k", "v")}
    with no_gpu() as noted:
        module.forward(**tensors, causal=True, out=stored(SHAPE, "dense"))
        with pytest.raises(
            KernelError, match=f"^{module.ACTOR}: out is where {name} is: a tensor of its own"
        ):
            module.forward(**tensors, causal=True, out=tensors[name])
    assert len(noted) == 1


@pytest.mark.parametrize("module", KERNELS, ids=lambda module: module.ACTOR)
@pytest.mark.parametrize("sizes", [(2**16, 2**15, 1), (1, 1, 2**31), (4, 2**29, 3)], ids=str)
def test_more_rows_than_32_bits_count_are_refused(module, sizes):
    x = torch.zeros(1, 1, 1, 8, dtype=torch.bfloat16).expand(*sizes, 8)
    with no_gpu() as noted, pytest.raises(KernelError, match=r"are [\d,]+ rows: up to 2,146,435,072 at once"):
        module.forward(x, x, x, causal=True)
    assert noted == []


@pytest.mark.parametrize("module", KERNELS, ids=lambda module: module.ACTOR)
def test_tensors_on_a_cpu_are_refused_in_words_without_any_gpu(module):
    x = torch.zeros(1, 2, 8, 64, dtype=torch.bfloat16)
    with pytest.raises(
        KernelError, match=f"^{module.ACTOR}: q is on cpu, and kernels run on the current GPU"
    ):
        module.forward(x, x, x, causal=True)
    with pytest.raises(KernelError, match=r"q has the shape \[2, 8, 64\]"):
        module.forward(x[0], x[0], x[0], causal=True)


def test_launches_do_not_pile_up():
    with no_gpu() as noted:
        for seq_len in range(1, 2 * fused.MOST_LAUNCHES + 10):
            x = torch.zeros(1, 1, seq_len, 8, dtype=torch.bfloat16)
            flash_portable.forward(x, x, x, causal=True)
            assert len(flash_portable._fused._launches) <= fused.MOST_LAUNCHES
    assert len(noted) == seq_len


class FakeDriver:
    """Takes what a tensor map is asked to be; `status` is what it says."""

    def __init__(self, status: int = 0) -> None:
        self.status = status

    def cuTensorMapEncodeTiled(
        self, at, dtype, rank, address, sizes, strides, box, _, interleave, swizzle, promotion, fill
    ):
        assert at.value % 64 == 0
        self.swizzle, self.promotion = swizzle, promotion
        ctypes.memset(at, 42, 128)
        self.asked = (rank, address.value, *map(list, (sizes, strides, box)))
        return self.status

    def cuGetErrorName(self, status, name):
        name._obj.value = b"CUDA_ERROR_INVALID_VALUE"


def test_a_tensor_map_is_asked_for_from_the_inside_out(monkeypatch):
    driver = FakeDriver()
    monkeypatch.setattr(cuda_driver, "library", lambda: driver)
    monkeypatch.setattr(cuda_driver, "make_context_current", lambda: None)
    made = tensor_map.heads_map("mine", torch.float16, 4096, (2, 3, 5, 72), (2160, 720, 144), 64, 32)
    assert driver.asked == (4, 4096, [72, 5, 3, 2], [144, 720, 2160], [32, 64, 1, 1])
    assert made == bytes([42]) * 128


@pytest.mark.parametrize(("columns", "swizzle", "promotion"), [(16, 1, 0), (32, 2, 1), (64, 3, 2)])
def test_a_box_is_swizzled_and_read_by_the_bytes_of_its_rows(monkeypatch, columns, swizzle, promotion):
    driver = FakeDriver()
    monkeypatch.setattr(cuda_driver, "library", lambda: driver)
    monkeypatch.setattr(cuda_driver, "make_context_current", lambda: None)
    tensor_map.heads_map("mine", torch.float16, 4096, (2, 3, 5, 72), (2160, 720, 144), 64, columns)
    assert driver.asked[-1] == [columns, 64, 1, 1]
    assert (driver.swizzle, driver.promotion) == (swizzle, promotion)


def test_one_element_has_no_stride_and_an_expanded_dimension_has_none_but_0(monkeypatch):
    driver = FakeDriver(status=1)
    monkeypatch.setattr(cuda_driver, "library", lambda: driver)
    monkeypatch.setattr(cuda_driver, "make_context_current", lambda: None)
    with pytest.raises(
        KernelError,
        match=r"mine: the driver makes no tensor map \(CUDA_ERROR_INVALID_VALUE\) .* a contiguous copy would do",
    ):
        tensor_map.heads_map("mine", torch.float16, 4096, (1, 3, 5, 72), (0, 0, 144), 64, 64)
    of_row, of_head, of_batch = driver.asked[3]
    assert (of_row, of_head) == (144, 0)  # anything but 0 would read other heads than the caller's
    assert of_batch > 0
