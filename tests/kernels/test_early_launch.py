"""Launches that begin early: what the driver is handed, what no kernel does before it waits, and chains of them."""

from __future__ import annotations

import ctypes
import re
from types import SimpleNamespace

import pytest
import torch

from kernels import cuda_driver, early_launch, flash_hopper, flash_portable, loader, relayout
from kernels.compiler import KernelError

from .ptx import ptx_of

ATTENTION = (flash_portable, flash_hopper)
BUILDS = [build for module in (*ATTENTION, relayout) for build in module.builds()]


class FakeDriver:
    """Notes the launch it is asked for; `status` is what it says."""

    def __init__(self, status: int = 0) -> None:
        self.status = status

    def cuLaunchKernelEx(self, config, function, parameters, extra):
        given = config._obj
        attribute = early_launch._Attribute.from_address(given.attributes)
        assert (given.attribute_count, attribute.id, attribute.value, extra) == (1, 6, 1, None)
        shape = [getattr(given, f"{name}_{axis}") for name in ("grid", "block") for axis in "xyz"]
        structure = ctypes.string_at(parameters[0], 5)
        self.asked = (function.value, shape, given.shared_bytes, given.stream, structure)
        return self.status

    def cuGetErrorName(self, status, name):
        name._obj.value = b"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"


def test_the_drivers_structures_have_the_sizes_and_places_of_its_header():
    assert ctypes.sizeof(early_launch._Attribute) == 72
    assert (early_launch._Attribute.value.offset, ctypes.sizeof(early_launch._Config)) == (8, 56)
    assert (early_launch._Config.stream.offset, early_launch._Config.attributes.offset) == (32, 40)


def test_an_early_kernel_hands_the_driver_its_structure_on_pytorchs_stream(monkeypatch):
    driver = FakeDriver()
    monkeypatch.setattr(cuda_driver, "library", lambda: driver)
    monkeypatch.setattr(cuda_driver, "make_context_current", lambda: None)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=7))
    pytest.importorskip("cupy.cuda.function")
    functions = {"mine": SimpleNamespace(ptr=4096)}
    mine = loader.Kernel(SimpleNamespace(get_function=functions.get), "mine", 1024, early=True)
    mine.launch(3, 128, ctypes.create_string_buffer(b"12345", 5))
    assert driver.asked == (4096, [3, 1, 1, 128, 1, 1], 1024, 7, b"12345")


def test_a_refused_launch_says_what_was_asked_and_the_drivers_word(monkeypatch):
    monkeypatch.setattr(cuda_driver, "library", lambda: FakeDriver(701))
    monkeypatch.setattr(cuda_driver, "make_context_current", lambda: None)
    words = (
        "kernel mine: the driver launches no 3 blocks of 2,048 threads with 16 bytes of shared memory: "
        "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"
    )
    with pytest.raises(KernelError, match=words):
        early_launch.launch("mine", 4096, 3, 2048, 16, 7, ctypes.create_string_buffer(5))


@pytest.mark.parametrize(
    ("capability", "early"), [((8, 0), False), ((8, 9), False), ((9, 0), True), ((12, 0), True)]
)
def test_launches_begin_early_where_the_gpu_can(monkeypatch, capability, early):
    made = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(loader, "_kernel", lambda *asked: made.append(asked[4]))
    loader.kernel("relayout", "relayout", early=True)
    loader.kernel("relayout", "relayout")
    assert made == [early, False]


@pytest.mark.parametrize("build", BUILDS, ids=str)
def test_nothing_touches_global_memory_before_the_kernel_has_waited(build, nvrtc):
    body = ptx_of(build).split(".entry", 1)[1]
    waits = body.index("griddepcontrol.wait")
    touches = re.compile(r"\b(ld|st|red|atom)(\.\w+)*\.global|\bcp\.async|\b(ld|st)\.(v\d\.)?[busf]\d+")
    touched = touches.search(body)
    assert touched is not None, "the kernel touches nothing at all"
    assert waits < touched.start(), touched.group()


def chain(module, tensors, settled=lambda: None):
    """Forty calls: each takes the output before as Q, K and V, and writes over the one before that."""
    for i in range(40):
        x = tensors[i % 2]
        module.forward(x, x, x, causal=i % 3 > 0, out=tensors[(i + 1) % 2])
        settled()


@pytest.mark.gpu
@pytest.mark.parametrize(
    "shape", [(1, 12, 1024, 64), (4, 12, 1000, 72), (1, 2, 64, 32), (16, 12, 512, 32)], ids=str
)
@pytest.mark.parametrize("module", ATTENTION, ids=lambda module: module.ACTOR)
def test_a_chain_reads_what_the_kernel_before_wrote_and_writes_what_it_has_read(module, shape):
    if reason := module.refuses(shape[-1], torch.device("cuda")) if module is flash_hopper else None:
        pytest.skip(reason)
    start = torch.randn(shape, dtype=torch.bfloat16, device="cuda")
    right = [start.clone(), torch.zeros_like(start)]
    chain(module, right, torch.cuda.synchronize)
    found = [start.clone(), torch.zeros_like(start)]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        chain(module, found)
    for run in (lambda: chain(module, found), graph.replay, graph.replay):
        found[0].copy_(start)
        found[1].zero_()
        run()
        assert all(map(torch.equal, found, right))


@pytest.mark.gpu
def test_copies_between_attention_and_a_kernel_that_does_not_wait_are_in_order():
    """relayout → flash_portable → a kernel of PyTorch → relayout: each reads what the one before wrote."""
    x = torch.randn(2, 256, 12, 64, dtype=torch.bfloat16, device="cuda").transpose(1, 2)

    def layer(x, settled):
        (copied,) = relayout.contiguous(x)
        settled()
        attended = flash_portable.forward(copied, copied, copied, causal=True)
        settled()
        mixed = torch.lerp(attended, x, 0.5)
        settled()
        return mixed

    right = found = x
    for _ in range(30):
        right = layer(right, torch.cuda.synchronize)
    for _ in range(30):
        found = layer(found, lambda: None)
    assert torch.equal(found, right)
