"""The command line. Only what a help text needs is imported here; each command imports its work when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from harness import lesson_cli, measuring_cli, options, stored_cli
from harness.once import Once

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


app.command(cls=Once)(measuring_cli.run)
app.command(cls=Once)(measuring_cli.ab)
app.command(cls=Once)(stored_cli.compare)
app.command(cls=Once)(lesson_cli.claims)
app.command(cls=Once)(lesson_cli.explain)


@app.command("list", cls=Once)
def list_(
    device: options.Device = None,
    plugin: options.Plugins = None,
) -> None:
    """Stages, their variants (what each needs, and whether this machine has it), and the model presets."""
    from harness import list_command

    list_command.show(device, tuple(plugin or ()))


@app.command(cls=Once)
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


app.command(cls=Once)(stored_cli.report)

results_app = typer.Typer(help="Stored runs.", rich_markup_mode=None)
app.add_typer(results_app, name="results")
results_app.command(cls=Once)(stored_cli.promote)
