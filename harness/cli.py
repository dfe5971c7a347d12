"""The command line. Only what a help text needs is imported here; each command imports its work when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Which layout of multi-head attention does your GPU like, and why: verified, measured, ranked.",
    rich_markup_mode=None,  # a rich help text takes twice as long to print
    add_completion=False,
    no_args_is_help=False,
)

# Every option's name is given: typer 0.27 would take a metavar for one.
Values = list[str] | None
Device = Annotated[
    str | None,
    typer.Option(
        "--device",
        help="cpu, cuda or cuda:N.  [default: the GPU if there is one]",
        metavar="DEVICE",
        show_default=False,
    ),
]
Plugins = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin",
        help="A Python file that adds variants; may be repeated.",
        metavar="FILE",
        show_default=False,
    ),
]


def _values(option: str, text: str) -> typer.models.OptionInfo:
    info: typer.models.OptionInfo = typer.Option(option, help=text, metavar="VALUES", show_default=False)
    return info


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

        raise UsageError("nothing to do: run, list or report? (headbench --help tells more)")


@app.command()
def run(
    everything: Annotated[
        bool,
        typer.Option(
            "--all", help="Every variant of every stage, default shapes, as far as nothing narrows it."
        ),
    ] = False,
    stage: Annotated[Values, _values("--stage", "qkv, attention, output, sublayer.")] = None,
    variant: Annotated[Values, _values("--variant", "Variants by name; `headbench list` shows them.")] = None,
    model: Annotated[
        Values,
        _values("--model", "Presets by name.  [default: all four, or andrea-120m when sizes are given]"),
    ] = None,
    head_dim: Annotated[
        Values,
        _values(
            "--head-dim",
            "Sweep head_dim: n_head stays and d_model follows, or with --d-model n_head follows.",
        ),
    ] = None,
    n_head: Annotated[Values, _values("--n-head", "Heads.  [default: the model's]")] = None,
    d_model: Annotated[Values, _values("--d-model", "Width.  [default: the model's]")] = None,
    batch: Annotated[
        Values, _values("--batch", "Sequences at once.  [default: 1,32 on a GPU, 1 on a CPU]")
    ] = None,
    seq_len: Annotated[
        Values, _values("--seq-len", "Tokens a sequence.  [default: 1024 on a GPU, 256 on a CPU]")
    ] = None,
    mask: Annotated[Values, _values("--mask", "causal, full.  [default: causal]")] = None,
    dtype: Annotated[
        Values, _values("--dtype", "bf16, fp16, tf32, fp32.  [default: bf16 on a GPU, fp32 on a CPU]")
    ] = None,
    device: Device = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="A first look: one replicate, 8 s, everything at andrea-120m unless chosen."
        ),
    ] = False,
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget",
            help="Time to spend, as 90s or 5m.  [default: 120s on a GPU, 75s on a CPU]",
            metavar="TIME",
            show_default=False,
        ),
    ] = None,
    replicates: Annotated[
        int | None,
        typer.Option(
            "--replicates",
            help="Fresh processes, each measuring everything.  [default: 3]",
            metavar="N",
            show_default=False,
        ),
    ] = None,
    silence: Annotated[
        str,
        typer.Option(
            "--silence", help="A case that shows no sign of life for so long has timed out.", metavar="TIME"
        ),
    ] = "60s",
    seed: Annotated[
        int,
        typer.Option("--seed", min=0, max=2**31, help="Seed of the inputs and of every order.", metavar="N"),
    ] = 0,
    plugin: Plugins = None,
    out: Annotated[
        Path, typer.Option("--out", help="Folder that runs go to, one folder each.", metavar="DIR")
    ] = Path("results/runs"),
    resume: Annotated[
        Path | None,
        typer.Option(
            "--resume",
            help="Measure only what this run still lacks, with its own settings.",
            metavar="RUN",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and stop.")] = False,
) -> None:
    """Verify, measure and rank variants. Options that take VALUES take several: --head-dim 32,64,72."""
    from harness import run_command
    from harness.errors import UsageError
    from harness.request import Selection, parse_seconds, split_counts, split_values

    options = run_command.Options(
        selection=Selection(
            stages=split_values("--stage", stage),
            variants=split_values("--variant", variant),
            models=split_values("--model", model),
            d_model=split_counts("--d-model", d_model),
            n_head=split_counts("--n-head", n_head),
            head_dim=split_counts("--head-dim", head_dim),
            batch=split_counts("--batch", batch),
            seq_len=split_counts("--seq-len", seq_len),
            masks=split_values("--mask", mask),
            dtypes=split_values("--dtype", dtype),
        ),
        everything=everything,
        quick=quick,
        device=device,
        budget_s=parse_seconds("--budget", budget) if budget is not None else None,
        replicates=replicates,
        silence_s=parse_seconds("--silence", silence),
        seed=seed,
        plugins=tuple(plugin or ()),
        out=out,
    )
    if resume is not None and dry_run:
        raise UsageError(f"--resume {resume} and --dry-run exclude each other: one would do")
    if resume is not None:
        code = run_command.resume(resume, options)
    elif dry_run:
        code = run_command.dry_run(options)
    else:
        code = run_command.start(options)
    raise typer.Exit(code)


@app.command("list")
def list_(
    device: Device = None,
    plugin: Plugins = None,
) -> None:
    """Stages, their variants (what each needs, and whether this machine has it), and the model presets."""
    from harness import list_command

    list_command.show(device, tuple(plugin or ()))


@app.command()
def report(
    run: Annotated[
        str, typer.Argument(help="A run's folder or id, `latest`, a folder of runs, or a reference's name.")
    ],
    csv: Annotated[bool, typer.Option("--csv", help="A row per case, as CSV.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Manifest and records, as JSON.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="The tables, as Markdown.")] = False,
) -> None:
    """Show a stored run again, or export it to stdout."""
    from harness import report_command

    chosen = [name for name, wanted in (("csv", csv), ("json", json), ("markdown", markdown)) if wanted]
    report_command.show(run, chosen)
