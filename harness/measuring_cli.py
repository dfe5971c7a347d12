"""The commands that measure what is named: `run`, and `ab` in pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness import options


def run(
    everything: options.Everything = False,
    stage: options.Stage = None,
    variant: options.Variant = None,
    model: options.Model = None,
    head_dim: options.HeadDim = None,
    n_head: options.NHead = None,
    d_model: options.DModel = None,
    n_layer: options.NLayer = None,
    batch: options.Batch = None,
    seq_len: options.SeqLen = None,
    mask: options.Mask = None,
    dtype: options.Dtype = None,
    direction: options.Direction = None,
    device: options.Device = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="A first look: one replicate, 7 s, everything but stacks at andrea-120m unless chosen.",
        ),
    ] = False,
    budget: Annotated[
        str | None,
        options.optional(
            "--budget", "Time to spend, as 90s or 5m.  [default: 300s on a GPU, 75s on a CPU]", "TIME"
        ),
    ] = None,
    replicates: Annotated[
        int | None,
        options.optional("--replicates", "Fresh processes, each measuring everything.  [default: 3]", "N"),
    ] = None,
    silence: options.Silence = "60s",
    seed: options.Seed = 0,
    counters: Annotated[
        str | None,
        options.optional(
            "--counters",
            "Hardware counters to read after the timing: gpm (NVML's, on Hopper and newer), ncu (Nsight Compute's, "
            "too: what the tensor cores really executed), none.  [default: gpm]",
            "SOURCE",
        ),
    ] = None,
    plugin: options.Plugins = None,
    out: options.Out = None,
    resume: Annotated[
        Path | None,
        options.path("--resume", "Measure only what this run still lacks, with its own settings.", "RUN"),
    ] = None,
    dry_run: options.DryRun = False,
) -> None:
    """Verify, measure and rank variants.

    Options that take VALUES take several, as --head-dim 32,64,72, and counts as ranges, too: 16:256:8.
    """
    from harness import run_command
    from harness.errors import UsageError
    from harness.request import parse_seconds

    asked = run_command.Options(
        selection=options.selection(
            stage=stage, variant=variant, model=model, head_dim=head_dim, n_head=n_head, d_model=d_model,
            n_layer=n_layer, batch=batch, seq_len=seq_len, mask=mask, dtype=dtype, direction=direction,
        ),
        everything=everything,
        quick=quick,
        device=device,
        budget_s=parse_seconds("--budget", budget) if budget is not None else None,
        replicates=replicates,
        silence_s=parse_seconds("--silence", silence),
        seed=seed,
        counters=counters,
        plugins=tuple(plugin or ()),
        out=out,
    )  # fmt: skip
    if resume is not None and dry_run:
        raise UsageError(f"--resume {resume} and --dry-run exclude each other: one would do")
    if resume is not None:
        code = run_command.resume(resume, asked)
    elif dry_run:
        code = run_command.dry_run(asked)
    else:
        code = run_command.start(asked)
    raise typer.Exit(code)


def ab(
    base: Annotated[
        str | None,
        typer.Argument(help="The git ref to compare with: a branch, a tag, a commit.", show_default=False),
    ] = None,
    head: Annotated[
        str | None,
        typer.Argument(
            help="The git ref to judge.  [default: the working tree as it is]", show_default=False
        ),
    ] = None,
    base_python: Annotated[
        Path | None,
        options.path("--base-python", "Another Python for the base, to judge an upgrade of torch.", "PYTHON"),
    ] = None,
    head_python: Annotated[
        Path | None, options.path("--head-python", "Another Python for the head.", "PYTHON")
    ] = None,
    guard: Annotated[
        str | None,
        options.optional(
            "--guard",
            "Timing modes whose slowdown fails the command, separated by commas.  [default: isolated,graph]",
            "MODES",
        ),
    ] = None,
    only: Annotated[
        options.Values,
        options.optional(
            "--only",
            "Cases whose key, stage or variant matches a glob, as '*/sdpa*'; may be repeated.",
            "GLOBS",
        ),
    ] = None,
    self_check: Annotated[
        bool,
        typer.Option(
            "--self-check",
            help="Compare the working tree with itself: how far are this machine's verdicts to trust?",
        ),
    ] = False,
    everything: options.Everything = False,
    stage: options.Stage = None,
    variant: options.Variant = None,
    model: options.Model = None,
    head_dim: options.HeadDim = None,
    n_head: options.NHead = None,
    d_model: options.DModel = None,
    n_layer: options.NLayer = None,
    batch: options.Batch = None,
    seq_len: options.SeqLen = None,
    mask: options.Mask = None,
    dtype: options.Dtype = None,
    direction: options.Direction = None,
    device: options.Device = None,
    budget: Annotated[
        str | None,
        options.optional(
            "--budget",
            "Time for ten pairs, as 10m; half of it where five decide; confirming what is slower comes on top.  "
            "[default: 0.4 s a case in each process]",
            "TIME",
        ),
    ] = None,
    silence: options.Silence = "60s",
    seed: options.Seed = 0,
    plugin: options.Plugins = None,
    out: options.Out = None,
    dry_run: options.DryRun = False,
) -> None:
    """Judge a change: base against head, a verdict per case.

    Two versions of the code are measured in pairs of fresh processes, interleaved on one GPU.

    Nothing selected means every variant at andrea-120m. The exit code is 3 when a slowdown was confirmed, 4 when
    a guarded case stays undecided or nothing can be compared, 1 when a case failed.
    """
    from harness import ab_command
    from harness.request import parse_seconds, split_values

    asked = ab_command.Options(
        base=base,
        head=head,
        base_python=base_python,
        head_python=head_python,
        guard=split_values("--guard", [guard]) if guard is not None else None,
        only=split_values("--only", only),
        self_check=self_check,
        selection=options.selection(
            stage=stage, variant=variant, model=model, head_dim=head_dim, n_head=n_head, d_model=d_model,
            n_layer=n_layer, batch=batch, seq_len=seq_len, mask=mask, dtype=dtype, direction=direction,
        ),
        everything=everything,
        device=device,
        budget_s=parse_seconds("--budget", budget) if budget is not None else None,
        silence_s=parse_seconds("--silence", silence),
        seed=seed,
        plugins=tuple(plugin or ()),
        out=out,
    )  # fmt: skip
    raise typer.Exit(ab_command.dry_run(asked) if dry_run else ab_command.start(asked))
