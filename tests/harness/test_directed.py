"""Every registered variant in every direction: its gradients against the chain rule, its calls, and their memory."""

from __future__ import annotations

import weakref
from dataclasses import replace

import pytest
import torch

from harness.directed import NoGradient, direct, expect
from harness.poison import poison
from harness.trainable import held, trainable
from harness.verification import checks, explain, gradient_limits
from tests.variants.test_contract import COMPILED, variant_id
from tests.variants.test_reference_gradients import by_autograd
from variants.direction import BACKWARD, DIRECTIONS, FORWARD, STEP
from variants.inputs import fresh_inputs, learned, make_inputs
from variants.registry import discover
from variants.shape import Shape
from variants.stage import STAGES
from variants.variant import Machine, Unsupported, Variant

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
VARIANTS = discover().variants
SHAPE = Shape(batch=2, seq_len=9, d_model=72, n_head=3)


def deep(kind, shape: Shape) -> Shape:
    """The shape, a stack's of two layers."""
    return replace(shape, n_layer=2) if STAGES[kind.stage].deep else shape


def with_a_backward(device: str) -> list[type[Variant]]:
    return [
        variant
        for variant in VARIANTS.values()
        if variant.requires.device in (None, device) and variant.no_backward is None
    ]


on_cpu = pytest.mark.parametrize("kind", with_a_backward("cpu"), ids=variant_id)
in_gradients = pytest.mark.parametrize("direction", [BACKWARD, STEP])


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """The shapes are tiny, so one thread is faster than several that wait."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def bound(direction, kind, shape, inputs):
    """The variant on these inputs; the test is skipped if it cannot compute that."""
    try:
        return direct(direction, kind, shape, inputs)
    except Unsupported as reason:
        pytest.skip(f"{variant_id(kind)} {direction}: {reason}")


def verify(directed, call, direction, stage, shape, inputs) -> None:
    directed.renew()
    poison(shape, inputs.activations[0].device, gradients=True)
    found = directed.found(call())
    done = list(checks(found, expect(direction, stage, shape, inputs), shape, "before"))
    assert len(done) == 2, "the output and the gradients"
    for check in done:
        assert check.passed, f"{stage} {direction} at {shape}: {explain(check)}"


def check_direction(kind, direction, shape, device) -> None:
    """Right, with its inputs left alone; right again for other values in the same storage, and in new storage."""
    shape = deep(kind, shape)
    inputs = make_inputs(kind.stage, shape, 1, device, direction).arriving(kind.arrives)
    kept = inputs.clone()
    directed = direct(direction, kind, shape, inputs)
    verify(directed, directed.timed, direction, kind.stage, shape, inputs)
    assert inputs.equals(kept), f"it changes its inputs or weights at {shape}"
    fresh = fresh_inputs(kind.stage, shape, 2, inputs.weights, direction)
    inputs.copy_from(fresh)
    verify(directed, directed.timed, direction, kind.stage, shape, inputs)
    elsewhere = directed.on(fresh.arriving(kind.arrives))
    verify(elsewhere, elsewhere.timed, direction, kind.stage, shape, fresh)


def check_odd_shapes(kind, direction, head_dim, dtype, device) -> None:
    """As for outputs: skipped, with the reason, if the variant supports none of the shapes."""
    machine = Machine(device.type, torch.cuda.get_device_capability() if device.type == "cuda" else None)
    if left_out := kind.requires.missing(machine) or kind.requires.refuses(dtype):
        pytest.skip(f"{variant_id(kind)} {left_out}")
    reasons = []
    sizes = [(1, 3, True), (1, 1, False), (7, 1, False), (7, 3, True), (129, 1, True), (129, 3, False)]
    if kind.name in COMPILED:
        sizes = [(129, 3, True)]
    for seq_len, batch, causal in sizes:
        try:
            check_direction(kind, direction, Shape(batch, seq_len, 3 * head_dim, 3, causal, dtype), device)
        except Unsupported as reason:
            reasons.append(str(reason))
    if len(reasons) == len(sizes):
        pytest.skip(f"{variant_id(kind)} at head_dim {head_dim} in {dtype}: {reasons[0]}")


@on_cpu
@in_gradients
@pytest.mark.parametrize(("head_dim", "dtype"), [(8, "fp32"), (72, "fp32"), (32, "bf16")])
def test_on_a_cpu_every_gradient_is_right_and_inputs_are_left_alone(kind, direction, head_dim, dtype):
    check_odd_shapes(kind, direction, head_dim, dtype, CPU)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", with_a_backward("cuda"), ids=variant_id)
@in_gradients
@pytest.mark.parametrize(("head_dim", "dtype"), [(32, "fp32"), (32, "bf16"), (72, "bf16"), (64, "fp16")])
def test_on_a_gpu_every_gradient_is_right_and_inputs_are_left_alone(kind, direction, head_dim, dtype):
    check_odd_shapes(kind, direction, head_dim, dtype, CUDA)


def test_gradients_of_a_stack_head_by_head_in_bfloat16_stay_within_its_limits_and_would_not_in_one_layers():
    """36 parts a layer are rounded into X's gradient: the widest error of any layout here."""
    shape = Shape(1, 64, 384, 12, dtype="bf16", n_layer=6)
    inputs = make_inputs("stack", shape, 1, CPU, BACKWARD)
    directed = direct(BACKWARD, VARIANTS["stack", "per_head"], shape, inputs)
    output, check = checks(
        directed.found(directed.timed()), expect(BACKWARD, "stack", shape, inputs), shape, "before"
    )
    assert output.passed, explain(output)
    assert check.passed, explain(check)
    assert check.relative_error > gradient_limits("bf16")[0]


@on_cpu
@pytest.mark.parametrize("n_head", [1, 2, 3])
def test_every_gradient_in_float32_is_what_autograd_finds_through_plain_formulas_in_float64(kind, n_head):
    """Nothing of the reference is asked here, nor of the limits."""
    shape = deep(kind, Shape(2, 17, 24 * n_head, n_head))
    inputs = make_inputs(kind.stage, shape, 3, CPU, BACKWARD)
    directed = bound(BACKWARD, kind, shape, inputs)
    found = directed.found(directed.timed()).gradients
    for own, right in zip(found, by_autograd(kind.stage, shape, inputs), strict=True):
        torch.testing.assert_close(own.double(), right, rtol=1e-4, atol=1e-5)


@on_cpu
def test_every_direction_gives_the_output_of_the_forward_and_those_with_gradients_the_same(kind):
    shape = deep(kind, SHAPE)
    inputs = make_inputs(kind.stage, shape, 1, CPU, STEP)
    found = {}
    for direction in DIRECTIONS:
        directed = bound(direction, kind, shape, inputs)
        with torch.set_grad_enabled(direction != FORWARD):
            found[direction] = directed.found(directed.timed())
    assert found[FORWARD].gradients == ()
    for direction in (BACKWARD, STEP):
        torch.testing.assert_close(found[direction].outputs, found[FORWARD].outputs)
    torch.testing.assert_close(found[STEP].gradients, found[BACKWARD].gradients)


@on_cpu
@in_gradients
def test_no_gradient_is_added_up_from_one_call_to_the_next(kind, direction):
    shape = deep(kind, SHAPE)
    inputs = make_inputs(kind.stage, shape, 1, CPU, direction)
    directed = bound(direction, kind, shape, inputs)
    first, *others = (directed.found(directed.timed()).gradients for _ in range(3))
    for again in others:
        torch.testing.assert_close(again, first, rtol=0, atol=0)
    assert all(tensor.grad is None for tensor in inputs.tensors())


@on_cpu
def test_what_is_learned_is_as_many_elements_as_the_stages_weights(kind):
    shape = deep(kind, SHAPE)
    inputs = make_inputs(kind.stage, shape, 1, CPU, BACKWARD)
    bound(BACKWARD, kind, shape, inputs)
    of = trainable(kind, shape, inputs.weights)
    weights = learned(kind.stage, inputs.weights)
    assert {id(p) for p in of.parameters} <= {id(p) for p in held(of.variant)}
    used = [p for p in of.parameters if p.is_leaf and p.requires_grad]
    assert len(used) == len(of.parameters)
    given = [torch.ones_like(p) for p in of.parameters]
    if weights:
        back = of.of_weights(given)
        assert [d.shape for d in back] == [w.shape for w in weights]
        assert all(bool((d == 1).all()) for d in back), "each element of a weight is held once"


@on_cpu
@in_gradients
def test_two_variants_on_the_same_inputs_do_not_disturb_each_other(kind, direction):
    shape = deep(kind, SHAPE)
    inputs = make_inputs(kind.stage, shape, 1, CPU, direction)
    one, other = (bound(direction, kind, shape, inputs) for _ in range(2))
    before = one.found(one.timed()).gradients
    other.timed()
    inputs.copy_from(inputs.clone())  # as after a variant that failed: the same values, written again
    torch.testing.assert_close(one.found(one.timed()).gradients, before, rtol=0, atol=0)
    assert not any(tensor.requires_grad for tensor in inputs.tensors())


def test_what_a_backward_keeps_is_let_go_and_made_again():
    kind = VARIANTS["attention", "materialized"]
    inputs = make_inputs("attention", SHAPE, 1, CPU, BACKWARD)
    directed = direct(BACKWARD, kind, SHAPE, inputs)
    before = directed.found(directed.timed()).gradients
    output = weakref.ref(directed._output)
    directed.release()
    assert output() is None
    directed.renew()
    torch.testing.assert_close(directed.found(directed.timed()).gradients, before, rtol=0, atol=0)


def test_the_gradient_of_the_output_is_laid_out_as_the_output_is():
    """Per head it arrives in as many buffers, fused in one that is as wide."""
    for name, sizes in {
        "per_head": [(2, 9, 24)] * 9,
        "fused": [(2, 9, 72)] * 3,
        "fused_qkv": [(2, 9, 216)],
    }.items():
        kind = VARIANTS["qkv", name]
        directed = direct(BACKWARD, kind, SHAPE, make_inputs("qkv", SHAPE, 1, CPU, BACKWARD))
        assert [tuple(d.shape) for d in directed._given] == sizes
        assert all(d.is_contiguous() for d in directed._given)


class Owner(Variant):
    """Made for a test: `prepare` keeps what a test says."""

    stage, name = "output", "owner"


def kept(*things):
    variant = Owner(SHAPE)
    variant.things = things
    return list(held(variant))


def test_tensors_are_found_in_attributes_modules_dataclasses_and_containers_each_once():
    a, b, c = (torch.zeros(1) for _ in range(3))
    module = torch.nn.Sequential(torch.nn.Linear(1, 1, bias=False))
    assert kept([a, (b, a)], {"c": c}, None, 3) == [a, b, c]
    assert kept(module) == [module[0].weight]
    weights = make_inputs("qkv", SHAPE, 0, CPU).weights
    assert [id(t) for t in kept(weights)] == [
        id(w) for w in (weights.w_q, weights.w_k, weights.w_v, weights.w_o)
    ]
    inner = Owner(SHAPE)
    inner.weight = a
    inner.itself = inner
    assert kept([inner, inner]) == [a]


@pytest.mark.gpu
@pytest.mark.parametrize("kind", with_a_backward("cuda"), ids=variant_id)
@in_gradients
def test_a_captured_direction_replays_fresh_values_and_leaves_the_call_as_it_was(kind, direction):
    from harness.capture import capture

    shape = deep(kind, Shape(2, 128, 216, 3, causal=True, dtype="bf16"))
    machine = Machine("cuda", torch.cuda.get_device_capability())
    if left_out := kind.requires.missing(machine):
        pytest.skip(left_out)
    inputs = make_inputs(kind.stage, shape, 1, CUDA, direction).arriving(kind.arrives)
    directed = bound(direction, kind, shape, inputs)
    for _ in range(3):
        directed.timed()
    captured = capture(directed.timed)
    for _ in range(2):
        captured.replay()  # as it is timed: nothing before it

    def replay():
        if captured.before:
            captured.before()
        captured.replay()
        return captured.output

    verify(directed, replay, direction, kind.stage, shape, inputs)
    verify(directed, directed.timed, direction, kind.stage, shape, inputs)
    fresh = fresh_inputs(kind.stage, shape, 2, inputs.weights, direction)
    inputs.copy_from(fresh)
    verify(directed, replay, direction, kind.stage, shape, inputs)
    verify(directed, directed.timed, direction, kind.stage, shape, inputs)


@in_gradients
@pytest.mark.parametrize(
    ("output", "why"),
    [
        (lambda x: [x], r"gave 1 tensor where the stage has 3"),
        (lambda x: (x, x, x), r"gave the shape \[2, 9, 72\] where \[2, 3, 9, 24\] belongs"),
    ],
)
def test_an_output_that_is_not_the_stages_has_no_gradients_and_says_why(direction, output, why):
    class Misshapen(Variant):
        stage = "qkv"

        def call(self, x):
            return output(x * 2)

    inputs = make_inputs("qkv", SHAPE, 0, CPU, direction)
    with pytest.raises(NoGradient, match=why):
        direct(direction, Misshapen, SHAPE, inputs)
