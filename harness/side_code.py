"""Whether two trees measure alike: the code that a worker runs around a variant, found by following its imports."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

MEASURING = ("harness", "results", "kernels", "variants.inputs")
"""Of `variants`, the inputs alone: what else variants share is part of what is compared."""
START = "harness/worker.py"
DEVICE_CODE = "kernels/timing*.cu"
"""The clock's own kernels; those of variants may lie beside them."""


def differing(one: Path, other: Path) -> tuple[str, ...]:
    """The files of the measuring code that are not the same in both trees, by name."""
    names = _measuring_code(one) | _measuring_code(other)
    return tuple(sorted(name for name in names if _content(one / name) != _content(other / name)))


def _measuring_code(root: Path) -> set[str]:
    """What the worker imports, directly or not; variants are found by their place, so they are not among it."""
    found: set[str] = {path.relative_to(root).as_posix() for path in root.glob(DEVICE_CODE)}
    waiting = [START]
    while waiting:
        name = waiting.pop()
        if name in found or not (root / name).is_file():
            continue
        found.add(name)
        waiting += (file for module in _imported(root / name) for file in _files_of(module))
    return found


def _imported(file: Path) -> set[str]:
    """Every module that the file names in an import, wherever in it; of a package's names any may be a module."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return set()  # it cannot be imported either, which the worker will say
    modules: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {
        one for one in modules if one in MEASURING or one.startswith(tuple(f"{own}." for own in MEASURING))
    }


def _files_of(module: str) -> tuple[str, str]:
    path = module.replace(".", "/")
    return f"{path}.py", f"{path}/__init__.py"


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None
