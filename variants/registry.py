"""Finds the variants: every file under a stage's folder, installed entry points, and plugin files.

There is no list to edit. A built-in or installed file that fails to load is reported and stops nothing; a
plugin file was named by the user, so any fault of it is an error.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import pkgutil
import re
import sys
import traceback
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from variants.stage import STAGES
from variants.variant import ARRIVALS, Requires, Variant

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

ENTRY_POINT_GROUP = "headbench.variants"

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_MUST_DEFINE = "it must define a subclass of variants.variant.Variant with `stage`, `name` and `call`"

Key = tuple[str, str]


class PluginError(ValueError):
    """A variant file that cannot be used; the one-line message names the file, its fault and the way out."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A built-in or installed file that gave no variant: its stage (None if unknown), its name, and why."""

    file: Path
    stage: str | None
    name: str
    reason: str


@dataclass(slots=True)
class Registry:
    """The variants found, by (stage, name) in the stages' order, then by name; and the files that failed."""

    variants: dict[Key, type[Variant]] = field(default_factory=dict)
    files: dict[Key, Path] = field(default_factory=dict)
    broken: list[Broken] = field(default_factory=list)

    def of_stage(self, stage: str) -> dict[str, type[Variant]]:
        """The stage's variants by name, in order of their names."""
        return {name: variant for (own, name), variant in self.variants.items() if own == stage}

    def add(self, module: ModuleType, file: Path) -> None:
        """Register every variant that the module itself defines; all of them or none.

        Raises:
            PluginError: the module defines none, one lacks a part, or a name is taken.
        """
        found: dict[Key, type[Variant]] = {}
        for variant in _defined_in(module, file):
            key = (variant.stage, variant.name)
            holder = file if key in found else self.files.get(key)
            if holder is not None:
                raise PluginError(
                    f"{file}: {variant.__name__} takes the name {variant.stage}/{variant.name}, "
                    f"which {holder} already has: rename one of them"
                )
            found[key] = variant
        self.variants.update(found)
        self.files.update(dict.fromkeys(found, file))


def discover(plugins: Sequence[Path] = ()) -> Registry:
    """All variants: built in, installed as entry points, and those of the plugin files.

    Raises:
        PluginError: a plugin file is missing, fails to import, or defines no usable variant.
    """
    registry = Registry()
    for stage in STAGES:
        _add_built_in(registry, stage)
    _add_installed(registry)
    for path in dict.fromkeys(Path(plugin).resolve() for plugin in plugins):
        registry.add(_import_plugin(path), path)
    order = {stage: position for position, stage in enumerate(STAGES)}
    keys = sorted(registry.variants, key=lambda key: (order[key[0]], key[1]))
    registry.variants = {key: registry.variants[key] for key in keys}
    registry.files = {key: registry.files[key] for key in keys}
    return registry


def _add_built_in(registry: Registry, stage: str) -> None:
    package = importlib.import_module(f"variants.{stage}")
    for folder in package.__path__:
        for found in sorted(pkgutil.iter_modules([folder]), key=lambda module: module.name):
            if not found.name.startswith("_"):  # helpers that variants share
                file = Path(folder) / f"{found.name}.py"
                _add_or_note(
                    registry, f"{package.__name__}.{found.name}", Broken(file, stage, found.name, "")
                )


def _add_installed(registry: Registry) -> None:
    for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: (point.name, point.value)):
        _add_or_note(registry, point.module, Broken(Path(point.module), None, point.name, ""))


def _add_or_note(registry: Registry, module_name: str, fault: Broken) -> None:
    """Import and register; a failure becomes `fault` with its reason."""
    try:
        module = importlib.import_module(module_name)
        registry.add(module, Path(module.__file__ or fault.file))
    except PluginError as error:
        reason = str(error)
    except (Exception, SystemExit) as error:
        reason = f"{fault.file} fails to import: {_one_line(error)}"
    else:
        return
    registry.broken.append(Broken(fault.file, fault.stage, fault.name, reason))


def _import_plugin(path: Path) -> ModuleType:
    if not path.exists():
        raise PluginError(f"plugin {path} does not exist: --plugin takes the path of a Python file")
    if path.suffix != ".py" or not path.is_file():
        raise PluginError(f"plugin {path} is not a Python file: --plugin takes the path of a .py file")
    # Unlike any other module's name; dataclasses look their module up in sys.modules.
    name = f"headbench_plugin_{hashlib.sha256(str(path).encode()).hexdigest()[:16]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, "a .py file always has a loader"
    assert spec.loader is not None, "a .py file always has a loader"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        line = _line_in(path, error)
        where = f" at line {line}" if line else ""
        raise PluginError(f"plugin {path} fails to import{where}: {_one_line(error)}") from error
    return module


def _defined_in(module: ModuleType, file: Path) -> list[type[Variant]]:
    """The module's own variants, checked, in the order they are defined."""
    classes = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Variant) and value.__module__ == module.__name__
    ]
    named = [variant for variant in dict.fromkeys(classes) if "name" in vars(variant)]
    if not named:
        unnamed = f" ({', '.join(c.__name__ for c in classes)} has no `name`)" if classes else ""
        raise PluginError(f"{file} defines no variant{unnamed}: {_MUST_DEFINE}")
    for variant in named:
        fault = _fault_of(variant)
        if fault:
            raise PluginError(f"{file}: {variant.__name__} {fault}")
    return named


def _fault_of(variant: type[Variant]) -> str | None:
    """What keeps the class from being a variant, or None."""
    if not isinstance(variant.name, str) or not _NAME.fullmatch(variant.name):
        return f"has the name {variant.name!r}: a name is letters, digits, _, - and ., such as 'my_layout'"
    stage = getattr(variant, "stage", None)
    if not isinstance(stage, str) or stage not in STAGES:
        near = get_close_matches(str(stage), STAGES) or list(STAGES)
        return f"has the stage {stage!r}, which does not exist: {' or '.join(near)} would do"
    if variant.arrives not in ARRIVALS or (variant.arrives == "strided" and STAGES[stage].strided is None):
        return (
            f"has arrives {variant.arrives!r}: {' or '.join(ARRIVALS)} would do, and strided in "
            f"{' and '.join(name for name, one in STAGES.items() if one.strided)} alone"
        )
    if variant.call is Variant.call:
        return "has no `call`: it must define `call(self, ...)`, which computes the stage's output"
    if not isinstance(variant.requires, Requires):
        return f"has requires {variant.requires!r}: it must be a variants.variant.Requires"
    if variant.no_backward is not None and not (isinstance(variant.no_backward, str) and variant.no_backward):
        return f"has no_backward {variant.no_backward!r}: it is the reason in words, or None"
    return None


def _line_in(path: Path, error: BaseException) -> int | None:
    """The last line of the file that the error passed through."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno for frame in reversed(frames) if frame.filename == str(path)), None)


def _one_line(error: BaseException) -> str:
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    return " ".join(f"{type(error).__name__}: {message}".split()).rstrip(":")
