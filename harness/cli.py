"""The command line. Only what a help text needs is imported here; each command imports its work when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness import lesson_cli, options

app = typer.Typer(
    help="Which layout of multi-head attention does your GPU like, and why: verified, measured, ranked.",
    rich_markup_mode=None,  # a rich help text takes twice as long to print
    add_completion=False,
    no_args_is_help=False,
)


@app.callback(invoke_without_command=True)
def top(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    """Say what can be done when nothing was asked for."""
    if version:
        from harness import __version__

        print(f"headbench {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        from harness.errors import UsageError

        raise UsageError(
            "nothing to do: run, list, report, ab, compare, claims, explain or doctor? "
            "(python -m harness --help tells more)"
        )


@app.command()
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


@app.command()
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


@app.command()
def compare(
    base: Annotated[
        str,
        typer.Argument(help="A run's folder or id, `latest`, a folder of runs, or a reference's name."),
    ],
    head: Annotated[str, typer.Argument(help="The run, or the runs, to judge.")],
    across: options.Across = None,
    csv: options.Csv = False,
    json: options.Json = False,
    markdown: options.Markdown = False,
    junit: options.Junit = False,
    html: options.Html = None,
) -> None:
    """Compare recorded runs, a verdict per case: advisory, for sessions differ by more than their processes do."""
    from harness import compare_command
    from harness.request import split_values

    formats = options.chosen(csv=csv, json=json, markdown=markdown, junit=junit)
    raise typer.Exit(compare_command.show(base, head, split_values("--across", across), formats, html))


app.command()(lesson_cli.claims)
app.command()(lesson_cli.explain)


@app.command("list")
def list_(
    device: options.Device = None,
    plugin: options.Plugins = None,
) -> None:
    """Stages, their variants (what each needs, and whether this machine has it), and the model presets."""
    from harness import list_command

    list_command.show(device, tuple(plugin or ()))


@app.command()
def doctor(
    device: options.Device = None,
    kernels: Annotated[
        bool,
        typer.Option("--kernels", help="Instead, what the compiler makes of our CUDA kernels; needs no GPU."),
    ] = False,
) -> None:
    """Tell what this machine offers, reaches and lacks, and whether its clock can be trusted."""
    from harness.errors import UsageError

    if kernels and device is not None:
        raise UsageError(
            f"--kernels and --device {device} exclude each other: kernels are compiled for every architecture"
        )
    if kernels:
        from harness import kernel_report

        raise typer.Exit(kernel_report.show())
    from harness import doctor_command

    raise typer.Exit(doctor_command.show(device))


@app.command()
def report(
    run: Annotated[
        list[str],
        typer.Argument(
            help="A run's folder or id, `latest`, a folder of runs, or a reference's name; several with --html: the "
            "others against the first."
        ),
    ],
    csv: options.Csv = False,
    json: options.Json = False,
    markdown: options.Markdown = False,
    junit: options.Junit = False,
    pytest_benchmark: Annotated[
        bool, typer.Option("--pytest-benchmark", help="The JSON of pytest-benchmark.")
    ] = False,
    github_action_benchmark: Annotated[
        bool, typer.Option("--github-action-benchmark", help="The JSON customSmallerIsBetter.")
    ] = False,
    parquet: Annotated[
        Path | None, options.path("--parquet", "A row per case, into this file, as Parquet.", "FILE")
    ] = None,
    html: options.Html = None,
    svg: Annotated[
        Path | None,
        options.path(
            "--svg", "Pictures of it, or of the best of a folder of runs, into this folder.", "FOLDER"
        ),
    ] = None,
    by: options.By = None,
    show: options.Show = None,
    peak: options.Peak = None,
    across: options.Across = None,
) -> None:
    """Show a stored run, or the verdicts of an ab session, again; or export them to stdout."""
    from harness import report_command
    from harness.request import split_values

    allowed = split_values("--across", across)

    formats = options.chosen(
        csv=csv, json=json, markdown=markdown, junit=junit, pytest_benchmark=pytest_benchmark,
        github_action_benchmark=github_action_benchmark,
    )  # fmt: skip
    if svg is not None:
        from harness import svg_command

        given = {"parquet": parquet, "html": html, "by": by, "show": show, "peak": peak, "across": across}
        others = options.chosen(**{name: value is not None for name, value in given.items()})
        svg_command.draw(run, svg, [*formats, *others])
    elif len(run) > 1:
        given = {"parquet": parquet, "by": by, "show": show, "peak": peak}
        others = options.chosen(**{name: value is not None for name, value in given.items()})
        report_command.show_several(run, [*formats, *others], html, allowed)
    else:
        from harness.pivot_output import Pivoting

        report_command.show(run[0], formats, parquet, Pivoting(by, show, peak), html, allowed)


results_app = typer.Typer(help="Stored runs.", rich_markup_mode=None)
app.add_typer(results_app, name="results")


@results_app.command()
def promote(
    run: Annotated[str, typer.Argument(help="A run's folder or id, or `latest`.")],
    name: Annotated[str, typer.Argument(help="What the reference is to be called.")],
) -> None:
    """Make a committed reference of a run; one that is dirty, unverified or partial is refused."""
    from harness import promote_command

    promote_command.make_reference(run, name)
