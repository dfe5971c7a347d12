"""Is an output right: compared with the reference, in blocks, under two limits that must both hold.

The whole tensor's error catches what is wrong everywhere; the worst row's catches what is wrong in one place,
however large the tensor around it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from results.schema import Verification
from results.words import counted
from variants.inputs import torch_dtype

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from harness.directed import Expected, Found
    from variants.reference_gradients import Gradient
    from variants.shape import Shape

MOMENTS = {"before": "before timing", "after": "after timing", "in its graph": "replayed from its graph"}
"""When an output is checked, as a verification's `when` says it, and in words."""

_LIMITS = {
    "fp32": (1e-5, 2e-5),
    "tf32": (5e-3, 1e-2),
    "fp16": (2e-3, 4e-3),
    "bf16": (1e-2, 2e-2),
}

LAYERS_WITHIN_LIMIT = 12
"""A stack adds to X and rounds the sum once a layer: in bf16 1.7e-3 of it. After so many layers that is 6e-3."""

GRADIENTS_LIMIT = 2.0
"""A gradient of one layer may be so many times as far off as an output.

Layouts with a matmul per head add X's gradient up from 3 · n_head parts in the inputs' dtype, as autograd does it: each
sum rounds once more, and n of them are off by ε √(n / 2), where ε is what one rounding costs (in bf16 0.16 %, root
mean square). 24 heads make that 1.0 % in bf16, as much as an output is allowed; twice as much holds up to 100 heads.
"""

GRADIENT_SCALE_LIMIT = 0.75
"""A gradient may be too large or too small throughout by so much of what a layer's may be off by, at any depth.

Roundings average out over a tensor, a wrong factor does not: in bf16 2 % of dQ would pass for noise otherwise. tf32,
whose operands are cut off rather than rounded, is systematically off by 0.4 % after a sublayer's six matmuls.
"""

FOUND_IN = "attributes, or in lists, tuples, dicts, dataclasses and modules there"
"""Where `trainable.held` looks for what a variant made of the weights, in words."""

# A block's outputs, references and differences in float64 stay below 64 MB.
_BLOCK_ELEMENTS = 2**21


def limits(dtype: str, n_layer: int = 1) -> tuple[float, float]:
    """The largest ‖Δ‖ / ‖ref‖ allowed in this dtype: of the whole tensor, and of any row.

    Roundings of layers are independent, so their squares add up: a deeper stack may be off by √n_layer as much.
    """
    deeper = math.sqrt(max(1.0, n_layer / LAYERS_WITHIN_LIMIT))
    whole, row = _LIMITS[dtype]
    return deeper * whole, deeper * row


def checks(found: Found, expected: Expected, shape: Shape, when: str) -> Iterator[Verification]:
    """One for the outputs, and one for the gradients where these are expected."""
    outputs = compare(found.outputs, expected.outputs, shape.dtype, when, shape.n_layer)
    yield _of_the_forward(outputs) if expected.gradients else outputs
    if expected.gradients:
        yield compare_gradients(found.gradients, expected.gradients, shape.dtype, when, shape.n_layer)


def _of_the_forward(check: Verification) -> Verification:
    """The check of outputs, told from that of the gradients where it failed."""
    if check.passed:
        return check
    where = "in its forward's output"
    return replace(check, reason=f"{where}: {check.reason}" if check.reason else where)


@torch.inference_mode()
def compare(
    outputs: tuple[torch.Tensor, ...],
    reference: tuple[torch.Tensor, ...],
    dtype: str,
    when: str,
    n_layer: int = 1,
) -> Verification:
    """Compare canonical outputs with the reference; of several tensors the worst figures count.

    A row is the last axis. NaN or infinity anywhere fails, and so does an output of the wrong number, type,
    shape, dtype or device: the errors are then None and `reason` says what is wrong.
    """
    return _judged(outputs, reference, (None,) * len(reference), dtype, when, limits(dtype, n_layer))


def gradient_limits(dtype: str, n_layer: int = 1) -> tuple[float, float]:
    """The same for gradients.

    In a stack a layer adds its parts to what the layers after it left, which is more than they: ε √(3 · n_head) a
    layer, one independent of the other.
    """
    whole, row = limits(dtype)
    wider = GRADIENTS_LIMIT * math.sqrt(n_layer)
    return wider * whole, wider * row


@torch.inference_mode()
def compare_gradients(
    gradients: tuple[torch.Tensor | None, ...],
    reference: tuple[Gradient, ...],
    dtype: str,
    when: str,
    n_layer: int = 1,
) -> Verification:
    """The same for gradients, by `gradient_limits`; one that is missing fails.

    A row whose terms cancelled is held against its `row_scale`.
    """
    limit, row_limit = gradient_limits(dtype, n_layer)
    present = tuple(own for own in gradients if own is not None)
    values = tuple(right.value for right in reference)
    if len(gradients) == len(reference) and len(present) < len(gradients):
        missing = [right.name for own, right in zip(gradients, reference, strict=True) if own is None]
        reason = (
            f"gives no {', '.join(missing)}: autograd must find the way through `call`, and through `prepare` to "
            f"what it keeps in {FOUND_IN}; a closure or another object hides it"
        )
        return Verification(when, None, limit, None, row_limit, passed=False, reason=reason)
    scales = tuple(right.row_scale for right in reference)
    check = _judged(present, values, scales, dtype, when, (limit, row_limit))
    if check.passed:
        return _unless_scaled(check, present, reference, GRADIENT_SCALE_LIMIT * gradient_limits(dtype)[0])
    if check.reason:
        return check
    worst = max(
        zip(present, reference, strict=True),
        key=lambda pair: max(_errors(pair[0], pair[1].value, pair[1].row_scale)),
    )
    return replace(check, reason=f"of its gradients {worst[1].name} is the worst")


@torch.inference_mode()
def opposite(first: Sequence[torch.Tensor], second: Sequence[torch.Tensor], shape: Shape) -> bool:
    """Whether gradients cancel out, by `gradient_limits` of all together: one that is 0 but for noise counts little."""
    limit, _ = gradient_limits(shape.dtype, shape.n_layer)
    left = _length(map(torch.add, first, second))
    return not left > limit * _length(first)  # NaN is for the checks to find


def _length(tensors: Iterable[torch.Tensor]) -> float:
    return math.hypot(*(torch.linalg.vector_norm(one, dtype=torch.float64).item() for one in tensors))


def _unless_scaled(
    check: Verification, gradients: tuple[torch.Tensor, ...], reference: tuple[Gradient, ...], limit: float
) -> Verification:
    """The check, failed where a gradient is nearest to a multiple of the right one that is too far from 1."""
    for own, right in zip(gradients, reference, strict=True):
        along = total = 0.0
        for rows, right_rows, scales in _row_blocks(own, right.value, right.row_scale):
            squares = right_rows.double().square().sum(-1)
            products = (rows.double() * right_rows).sum(-1)
            if scales is not None:  # of a row whose terms cancelled, noise is left
                kept = 4 * squares.sqrt() >= scales
                squares, products = squares[kept], products[kept]
            along += products.sum().item()
            total += squares.sum().item()
        factor = along / total if total else 1.0
        if abs(factor - 1) > limit:
            reason = f"{right.name} is {factor:.6g} × the right one throughout (limit 1 ± {limit:.2g})"
            return replace(check, passed=False, reason=reason)
    return check


def _judged(
    outputs: tuple[torch.Tensor, ...],
    reference: tuple[torch.Tensor, ...],
    row_scales: tuple[torch.Tensor | None, ...],
    dtype: str,
    when: str,
    allowed: tuple[float, float],
) -> Verification:
    limit, row_limit = allowed
    reason = mismatch(outputs, reference, dtype)
    errors: tuple[float, float] | None = None
    if reason is None:
        pairs = [_errors(*each) for each in zip(outputs, reference, row_scales, strict=True)]
        errors = max(whole for whole, _ in pairs), max(row for _, row in pairs)
        # max() may pass over a NaN, depending on the order.
        if not all(math.isfinite(error) for pair in pairs for error in pair):
            errors, reason = None, _not_finite(outputs, reference)
    return Verification(
        when=when,
        relative_error=errors[0] if errors else None,
        limit=limit,
        worst_row_error=errors[1] if errors else None,
        worst_row_limit=row_limit,
        passed=errors is not None and errors[0] <= limit and errors[1] <= row_limit,
        reason=reason,
    )


def explain(verification: Verification) -> str:
    """One line: what was checked (a key of `MOMENTS`), how far off it is, and which limit that breaks."""
    when = f"{MOMENTS[verification.when]}: "
    if verification.relative_error is None or verification.worst_row_error is None:
        return when + (verification.reason or "no error could be computed")
    figures = (
        ("worst row", verification.worst_row_error, verification.worst_row_limit),
        ("whole tensor", verification.relative_error, verification.limit),
    )
    broken = [(what, error, limit) for what, error, limit in figures if error > limit]
    shown = ", ".join(
        f"{what} off by {_percent(error)} (limit {_percent(limit)})" for what, error, limit in broken
    )
    if shown:
        return when + shown + (f"; {verification.reason}" if verification.reason else "")
    if not verification.passed and verification.reason:
        return when + verification.reason
    return when + ", ".join(
        f"{what} within {_percent(limit)}: {_percent(error)}" for what, error, limit in figures
    )


def mismatch(
    outputs: tuple[torch.Tensor, ...], reference: tuple[torch.Tensor, ...], dtype: str
) -> str | None:
    """What keeps the outputs from being compared at all, or None."""
    if not isinstance(outputs, tuple | list):  # of a variant's `canonical`, which is foreign code
        return f"`canonical` gave a {type(outputs).__name__} where a tuple of tensors belongs"
    if len(outputs) != len(reference):
        return f"gave {counted(len(outputs), 'tensor')} where the stage has {len(reference)}"
    for output, right in zip(outputs, reference, strict=True):
        if not isinstance(output, torch.Tensor):
            return f"gave a {type(output).__name__} where a tensor belongs"
        if output.layout != torch.strided:
            return f"gave a {output.layout} tensor where a {torch.strided} one belongs"
        if output.shape != right.shape:
            return f"gave the shape {list(output.shape)} where {list(right.shape)} belongs"
        if output.dtype != torch_dtype(dtype):
            return f"gave {output.dtype} where {torch_dtype(dtype)} belongs"
        if output.device != right.device:
            return f"gave a tensor on {output.device} where {right.device} belongs"
    return None


def _errors(
    output: torch.Tensor, reference: torch.Tensor, row_scale: torch.Tensor | None = None
) -> tuple[float, float]:
    """‖Δ‖ / ‖ref‖ of the whole tensor and of its worst row; ‖ref‖ of a row is its scale where that is more."""
    wrong = torch.zeros((), dtype=torch.float64, device=output.device)
    right, worst = wrong.clone(), wrong.clone()
    for out_rows, ref_rows, scales in _row_blocks(output, reference, row_scale):
        row_wrong = (out_rows.double() - ref_rows).square_().sum(-1)
        row_right = ref_rows.double().square().sum(-1)
        if scales is not None:
            row_right = torch.maximum(row_right, scales.double().square())
        wrong += row_wrong.sum()
        right += row_right.sum()
        worst = torch.maximum(worst, _ratio(row_wrong, row_right).max())
    return math.sqrt(_ratio(wrong, right).item()), math.sqrt(worst.item())


def _row_blocks(
    output: torch.Tensor, reference: torch.Tensor, row_scale: torch.Tensor | None
) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]]:
    # reshape copies an output whose strides forbid a view, but in its own narrow dtype.
    width = output.shape[-1]
    out_rows, ref_rows = output.reshape(-1, width), reference.reshape(-1, width)
    step = max(1, _BLOCK_ELEMENTS // width)
    for start in range(0, len(out_rows), step):
        rows = slice(start, start + step)
        yield out_rows[rows], ref_rows[rows], None if row_scale is None else row_scale.flatten()[rows]


def _ratio(wrong: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """wrong / right, and 0 where nothing is wrong, even of a right value that is 0."""
    return torch.where(wrong == 0, wrong, wrong / right)


def _not_finite(outputs: tuple[torch.Tensor, ...], reference: tuple[torch.Tensor, ...]) -> str:
    """Why an error came out as NaN or infinite."""
    count = sum(int((~output.isfinite()).sum()) for output in outputs)
    if count:
        return f"{count:,} of {sum(output.numel() for output in outputs):,} elements are NaN or infinite"
    if all(bool(right.isfinite().all()) for right in reference):
        return "a row differs from zero where the reference is zero"
    return "the reference is not finite: its inputs overflow"


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.0f} %" if ratio >= 0.1 else f"{100 * ratio:.2g} %"
