"""What identifies a case in every table, with its type there. Knows no pandas, so that asking costs nothing."""

from __future__ import annotations

from dataclasses import fields

from results.schema import Case

IDENTITY_COLUMNS = {
    field.name: {"str": "str", "int": "int64", "bool": "bool"}[str(field.type)] for field in fields(Case)
}
"""The fields of `Case`, in their order, each with its pandas type."""
