# SPDX-License-Identifier: Apache-2.0
"""Typed results: frozen dataclasses whose fields are the members of the JSON that the program prints."""

from __future__ import annotations

import copy
import dataclasses
import functools
import html
import json
import types
import typing
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from ._table import Cell, html_list, html_table

_R = TypeVar("_R", bound="Record")
_T = TypeVar("_T", bound="Result")


class Record:
    """One object in the JSON of a result. A field is None where the JSON has null, or has no such member."""

    _json: dict[str, Any]

    @classmethod
    def from_json(cls: type[_R], data: dict[str, Any], **values: Any) -> _R:
        """Makes a record of a JSON object. ``values`` are fields that the caller has already converted."""
        declared = _field_types(cls)  # type: ignore[arg-type]
        values.update({name: _convert(declared[name], value) for name, value in data.items()
                       if name in declared and name not in values})
        record = cls(**values)
        # The original object, for to_dict(): the fields alone do not tell null from a missing member.
        object.__setattr__(record, "_json", data)
        return record

    def to_dict(self) -> dict[str, Any]:
        """The JSON object that this record was read from, as the program prints it with ``--json``."""
        return copy.deepcopy(self._json)

    def _row(self) -> dict[str, Cell]:
        """The record as a row of a table: heading and cell."""
        return {field.name: value for field in dataclasses.fields(self)  # type: ignore[arg-type]
                if isinstance(value := getattr(self, field.name), (str, int, float, type(None)))}

    def _repr_html_(self) -> str:
        return records_table([self])


class Result(Record):
    """A whole result. It prints as the program prints it."""

    text: str
    """What the program prints."""

    @classmethod
    def of(cls: type[_T], printed: tuple[str, str], **values: Any) -> _T:
        """Makes a result of the JSON and the text that the library gives."""
        result = cls.from_json(json.loads(printed[0]), **values)
        object.__setattr__(result, "text", printed[1])
        return result

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        parts = "".join(self._html_parts())
        return f'<div style="overflow-x: auto">{parts}</div>'

    def _html_parts(self) -> Iterator[str]:
        yield records_table([self])


def records_table(records: Sequence[Record]) -> str:
    """Records as rows of an HTML table; columns without a value in any row are left out."""
    rows = [record._row() for record in records]
    head = [name for name in dict.fromkeys(name for row in rows for name in row)
            if any(row.get(name) is not None for row in rows)]
    return html_table(head, [[row.get(name) for name in head] for row in rows])


def section(title: str, records: Sequence[Record]) -> str:
    """A heading and a table of records; nothing if there are no records."""
    return heading(title) + records_table(records) if records else ""


def heading(text: str) -> str:
    return f"<p><b>{html.escape(text)}</b></p>"


def remarks(title: str, lines: Sequence[str]) -> str:
    """A heading and a list of sentences; nothing if there are none."""
    return heading(title) + html_list(lines) if lines else ""


@functools.cache
def _field_types(cls: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


def _convert(kind: Any, value: Any) -> Any:
    """A JSON value as the declared type of a field: a number, a string, a record, or a tuple of these."""
    if value is None:
        return None
    origin = typing.get_origin(kind)
    if origin in (types.UnionType, typing.Union):  # X | None
        (kind,) = (one for one in typing.get_args(kind) if one is not type(None))
        return _convert(kind, value)
    if origin is tuple:  # tuple[X, ...]
        return tuple(_convert(typing.get_args(kind)[0], item) for item in value)
    if isinstance(kind, type) and issubclass(kind, Record):
        return kind.from_json(value)
    return float(value) if kind is float else value  # JSON writes 1.0 as 1
