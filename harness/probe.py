"""A short-lived child that looks at the machine and at the variants, so that the parent imports no torch.

It answers with one event: `facts` (environment and variants) or `refused` (a usage error and its message).
"""

from __future__ import annotations

import inspect
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.channel import Channel
from harness.child import RUNNING, Child, Program, Silent
from harness.errors import HeadbenchError, UsageError
from harness.plan import VariantFacts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from variants.registry import Registry
    from variants.variant import Machine

UNKNOWN_STAGE = "?"
"""An installed variant file that failed to import did not get as far as naming its stage."""

INSTALLED = "installed variants of"
"""How a notice on a file that failed to import begins."""

START_S = 300.0
"""A first import of torch from a slow disk can take minutes."""


def look(
    device: str | None, plugins: tuple[Path, ...], program: Program = RUNNING
) -> tuple[dict[str, Any], list[VariantFacts]]:
    """The environment and the variants, found by a process that ends before anything is measured.

    Raises:
        UsageError: the device is not there, or a plugin cannot be used.
        HeadbenchError: torch cannot be imported, or the process died.
    """
    job = {"device": device, "plugins": [str(path) for path in plugins]}
    with Child("harness.probe", job, START_S, program) as child:
        try:
            for event in child.events():
                if event["event"] == "refused":
                    raise UsageError(event["message"])
                if event["event"] == "facts":
                    return event["environment"], [_variant_facts(facts) for facts in event["variants"]]
        except Silent:
            told = f"took more than {START_S:g} s: {child.last_line()}"
        else:
            told = child.how_it_ended()
        if plugins:
            raise UsageError(
                f"importing {', '.join(map(str, plugins))}: the process that looks at variants {told}"
            )
        raise HeadbenchError(f"the process that looks at this machine {told}")


def main() -> None:
    """The child: answer the job on stdin."""
    channel = Channel()
    # Imported only now: a torch that cannot be imported must end as a message, not before there is a channel.
    from harness.environment import capture
    from variants.registry import PluginError, discover
    from variants.variant import Machine

    try:
        environment = capture(channel.job["device"])
        registry = discover([Path(path) for path in channel.job["plugins"]])
    except (UsageError, PluginError) as error:
        channel.send("refused", message=str(error))
        return
    environment["notices"] += [
        f"{INSTALLED} {broken.file} cannot be used: {broken.reason}"
        for broken in registry.broken
        if broken.stage is None
    ]
    gpu = environment["gpu"]
    capability = (gpu["capability"][0], gpu["capability"][1]) if gpu else None
    machine = Machine(environment["device"].partition(":")[0], capability)
    plugins = [Path(path).resolve() for path in channel.job["plugins"]]
    channel.send("facts", environment=environment, variants=describe(registry, machine, plugins))


def describe(registry: Registry, machine: Machine, plugins: Sequence[Path] = ()) -> list[dict[str, Any]]:
    """Every variant as plain values, the ones whose file failed to import among them, with the reason."""
    found = [
        VariantFacts(
            stage=stage,
            name=name,
            hypothesis=(inspect.getdoc(variant) or "").partition("\n")[0],
            needs=str(variant.requires),
            missing=variant.requires.missing(machine),
            dtypes=variant.requires.dtypes,
            plugin=registry.files[stage, name] in plugins,
            arrives=variant.arrives,
            aside=variant.aside,
            no_backward=variant.no_backward,
        )
        for (stage, name), variant in registry.variants.items()
    ]
    broken = [
        VariantFacts(broken.stage or UNKNOWN_STAGE, broken.name, "", "", broken.reason, None)
        for broken in registry.broken
    ]
    return [asdict(facts) for facts in found + broken]


def _variant_facts(facts: dict[str, Any]) -> VariantFacts:
    """Of what the child sent, which may be another version, all that this one knows."""
    known = {field.name: facts[field.name] for field in fields(VariantFacts) if field.name in facts}
    # A checkout from before there were directions would take every case for a forward.
    known.setdefault("no_backward", "this version of headbench measures forward alone")
    return VariantFacts(**{**known, "dtypes": tuple(known["dtypes"]) if known["dtypes"] else None})


if __name__ == "__main__":
    main()
