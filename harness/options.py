"""The options that several commands take, each told once. Only what a help text needs is imported here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from harness.request import Selection

LARGEST_SEED = 2**31

# Every option's name is given: typer 0.27 would take a metavar for one.


def _values(option: str, text: str) -> typer.models.OptionInfo:
    info: typer.models.OptionInfo = typer.Option(option, help=text, metavar="VALUES", show_default=False)
    return info


def optional(option: str, text: str, metavar: str) -> typer.models.OptionInfo:
    """An option that may be left out; what is done then is the text's to say."""
    info: typer.models.OptionInfo = typer.Option(option, help=text, metavar=metavar, show_default=False)
    return info


def path(option: str, text: str, metavar: str) -> typer.models.OptionInfo:
    """The same for a path; an empty one, as of a variable that is not set, must not mean the current folder."""
    info: typer.models.OptionInfo = typer.Option(
        option, help=text, metavar=metavar, show_default=False, parser=_path
    )
    return info


def _path(given: str | Path) -> Path:
    if not str(given):
        raise typer.BadParameter("'' is no path: give one, or leave the option out")
    if str(given) == "-":
        raise typer.BadParameter("'-' is a sign for stdout elsewhere, and here a file's name: ./- would do")
    return Path(given)


Values = list[str] | None

Everything = Annotated[
    bool,
    typer.Option(
        "--all",
        help="Every stage, all variants but those that `list` marks, default shapes, as far as nothing narrows it.",
    ),
]
Stage = Annotated[Values, _values("--stage", "qkv, split, attention, output, sublayer, stack.")]
Variant = Annotated[
    Values, _values("--variant", "Variants by name or glob; `python -m harness list` shows them.")
]
Model = Annotated[
    Values,
    _values(
        "--model",
        "Presets by name.  [default: all four, one for split and stack, or andrea-120m when sizes are given]",
    ),
]
HeadDim = Annotated[
    Values,
    _values(
        "--head-dim", "Sweep head_dim: n_head stays and d_model follows, or with --d-model n_head follows."
    ),
]
NHead = Annotated[Values, _values("--n-head", "Heads.  [default: the model's]")]
DModel = Annotated[Values, _values("--d-model", "Width.  [default: the model's]")]
NLayer = Annotated[Values, _values("--n-layer", "Depth, of stacks alone.  [default: the model's]")]
Batch = Annotated[
    Values, _values("--batch", "Sequences at once.  [default: 1,32 on a GPU, 1 on a CPU and for stacks]")
]
SeqLen = Annotated[Values, _values("--seq-len", "Tokens a sequence.  [default: 1024 on a GPU, 256 on a CPU]")]
Mask = Annotated[Values, _values("--mask", "causal, full.  [default: causal]")]
Dtype = Annotated[
    Values, _values("--dtype", "bf16, fp16, tf32, fp32.  [default: bf16 on a GPU, fp32 on a CPU]")
]
Direction = Annotated[
    Values,
    _values("--direction", "forward, backward, step: both, as in training.  [default: forward]"),
]
Device = Annotated[
    str | None, optional("--device", "cpu, cuda or cuda:N.  [default: the GPU if there is one]", "DEVICE")
]
Plugins = Annotated[
    list[Path] | None, path("--plugin", "A Python file that adds variants; may be repeated.", "FILE")
]
Silence = Annotated[
    str,
    typer.Option(
        "--silence", help="A case that shows no sign of life for so long has timed out.", metavar="TIME"
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        "--seed", min=0, max=LARGEST_SEED, help="Seed of the inputs and of every order.", metavar="N"
    ),
]
Out = Annotated[
    Path | None,
    path("--out", "Folder that runs go to, one folder each.  [default: results/runs]", "DIR"),
]
Json = Annotated[bool, typer.Option("--json", help="Everything, as JSON.")]
Csv = Annotated[bool, typer.Option("--csv", help="A row per case, as CSV.")]
Markdown = Annotated[bool, typer.Option("--markdown", help="The tables, as Markdown.")]
Junit = Annotated[bool, typer.Option("--junit", help="A test case per case, as JUnit XML.")]
Html = Annotated[
    Path | None,
    path(
        "--html", "One page with charts into this file: it needs no network and can be sent as it is.", "FILE"
    ),
]
By = Annotated[
    str | None,
    optional(
        "--by",
        "Pivot the run: a table of variants by head_dim, n_head, d_model, n_layer, batch, seq_len, mask or dtype.",
        "PROPERTY",
    ),
]
Show = Annotated[
    str | None,
    optional(
        "--show",
        "What --by shows of each case: use (of the tensor cores: useful / active / issued) or time (of a call, ± half "
        "its interval).  [default: use]",
        "FIGURES",
    ),
]
Peak = Annotated[
    str | None,
    optional(
        "--peak",
        "What --by holds useful rates against: datasheet, held (the same at the clock it ran at), burst or sustained "
        "(what a large matmul reached here).  [default: datasheet]",
        "PEAK",
    ),
]
Across = Annotated[
    Values,
    optional(
        "--across",
        "Between runs: a difference to allow on purpose, as gpu or torch; may be repeated.",
        "KEYS",
    ),
]
Recorded = Annotated[
    str | None,
    optional(
        "--from",
        "Measure nothing, look at this run: its folder or id, `latest`, or a reference's name.",
        "RUN",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the plan and stop.")]


def selection(
    *,
    stage: Values,
    variant: Values,
    model: Values,
    head_dim: Values,
    n_head: Values,
    d_model: Values,
    batch: Values,
    seq_len: Values,
    mask: Values,
    dtype: Values,
    n_layer: Values,
    direction: Values,
) -> Selection:
    """The selection that these options name.

    Raises:
        UsageError: a value is unknown, or the sizes do not fit one another.
    """
    from harness.request import Selection, split_counts, split_values

    return Selection(
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
        n_layer=split_counts("--n-layer", n_layer),
        directions=split_values("--direction", direction),
    )


def chosen(**formats: bool) -> list[str]:
    """The names of the formats that were asked for."""
    return [name.replace("_", "-") for name, wanted in formats.items() if wanted]
