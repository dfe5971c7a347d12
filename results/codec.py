"""Between dataclasses and JSON, driven by their type annotations and strict about every value.

A stored line may come from a damaged disk or another program: `decode` believes nothing it was not promised.
"""

from __future__ import annotations

import math
import types
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from enum import Enum

T = TypeVar("T")

LARGEST_INT = 2**63 - 1
"""Whole numbers beyond 64 bits are damage: no size, count or FLOP figure reaches them."""


def decode(kind: type[T], data: object) -> T:
    """The dataclass `kind` from plain JSON values.

    Raises:
        ValueError: a field is missing, unknown or of the wrong type; the message gives its place and value.
    """
    return cast("T", _value(kind, data, kind.__name__.lower()))


def encode(value: Any) -> Any:
    """A plain value without NaN or infinity, which JSON does not have: they become None, 'not known'."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: encode(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [encode(one) for one in value]
    return value


def shortened(value: object, limit: int = 60) -> str:
    """The value's repr on one line, cut to `limit` characters: a damaged file can hold megabytes."""
    text = repr(value[: 2 * limit] if isinstance(value, str | list) else value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _value(kind: Any, data: object, place: str) -> object:
    if kind in _NAMES:
        return _scalar(kind, data, place)
    if kind is Any:
        return data
    if is_dataclass(kind):
        return _dataclass(cast("type", kind), data, place)
    origin = get_origin(kind)
    if origin in (types.UnionType, Union):
        return _optional(kind, data, place)
    if origin is tuple:
        return tuple(_items(get_args(kind)[0], data, place))
    if origin is list:
        return _items(get_args(kind)[0], data, place)
    if origin is dict:
        return _mapping(get_args(kind)[1], data, place)
    return _member(kind, data, place)


def _dataclass(kind: type, data: object, place: str) -> object:
    stored = _object(data, place)
    hints = _hints(kind)
    required = {f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING}
    if missing := sorted(required - stored.keys()):
        raise ValueError(f"{place} lacks {', '.join(missing)}")
    if unknown := sorted(stored.keys() - hints.keys()):
        raise ValueError(f"{place} has {shortened(unknown[0])}, which this schema does not know")
    return kind(**{name: _value(hints[name], value, f"{place}.{name}") for name, value in stored.items()})


@cache
def _hints(kind: type) -> dict[str, Any]:
    names = {field.name for field in fields(kind)}
    return {name: hint for name, hint in get_type_hints(kind).items() if name in names}


def _optional(kind: Any, data: object, place: str) -> object:
    (inner,) = (member for member in get_args(kind) if member is not type(None))
    return None if data is None else _value(inner, data, place)


def _items(kind: Any, data: object, place: str) -> list[Any]:
    if not isinstance(data, list):
        raise _wrong(place, data, "a list")
    # Nearly all of a run is samples: a list of nothing but finite floats needs no place for each of them.
    if kind is float and set(map(type, data)) == {float} and all(map(math.isfinite, data)):
        return data
    return [_value(kind, one, f"{place}[{index}]") for index, one in enumerate(data)]


def _mapping(kind: Any, data: object, place: str) -> dict[str, Any]:
    return {
        _text(key): _value(kind, one, f"{place}[{shortened(key)}]")
        for key, one in _object(data, place).items()
    }


def _object(data: object, place: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise _wrong(place, data, "an object")
    return data


def _member(kind: type[Enum], data: object, place: str) -> Enum:
    try:
        return kind(data)
    except ValueError:
        raise _wrong(place, data, "one of " + ", ".join(str(member.value) for member in kind)) from None


def _scalar(kind: type, data: object, place: str) -> object:
    if kind is float and isinstance(data, int) and not isinstance(data, bool) and abs(data) <= LARGEST_INT:
        return float(data)
    if type(data) is not kind:
        raise _wrong(place, data, _NAMES[kind])
    if isinstance(data, float) and not math.isfinite(data):
        raise _wrong(place, data, "a finite number")
    if type(data) is int and abs(data) > LARGEST_INT:
        raise ValueError(f"{place} is a whole number beyond 64 bits")
    return _text(data) if isinstance(data, str) else data


def _text(data: str) -> str:
    """The text with half a surrogate pair, which JSON can hold and no other format can, written as an escape."""
    return data.encode("utf-8", "backslashreplace").decode("utf-8")


_NAMES = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


def _wrong(place: str, data: object, wanted: str) -> ValueError:
    return ValueError(f"{place} is {shortened(data)}, not {wanted}")
