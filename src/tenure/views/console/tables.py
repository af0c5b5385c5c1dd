"""Rows of any query as text, CSV or JSON."""

from __future__ import annotations

import csv
import io
import json
import math
from datetime import datetime
from decimal import Decimal
from typing import Any

_WIDEST = 80


def as_table(rows: Any) -> str:
    """Columns below their names, numbers to the right. Long values are cut: `csv` and `json` have them whole."""
    names = list(rows.column_names)
    cells = [[_cell(row[at]) for at in range(len(names))] for row in _values(rows)]
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    right = [_is_number(field.type) for field in rows.schema]
    lines = [names, ["-" * width for width in widths], *cells]
    told = "\n".join(
        "  ".join(
            f"{cell:>{width}}" if to else f"{cell:<{width}}"
            for cell, width, to in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    )
    return f"{told}\n({len(cells):,} {'row' if len(cells) == 1 else 'rows'})\n" if names else ""


def as_csv(rows: Any) -> str:
    """Return rows as CSV, with a line of names. Null is an empty field."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(rows.column_names)
    writer.writerows([["" if value is None else _plain(value) for value in row] for row in _values(rows)])
    return out.getvalue()


def as_json(rows: Any) -> str:
    """Return an array of objects, one per line."""
    names = rows.column_names
    told = [json.dumps(dict(zip(names, map(_plain, row), strict=True)), default=str) for row in _values(rows)]
    return "[" + ",\n ".join(told) + "]\n"


FORMATS = {"table": as_table, "csv": as_csv, "json": as_json}


def _values(rows: Any) -> list[tuple[Any, ...]]:
    columns = [column.to_pylist() for column in rows.columns]
    return list(zip(*columns, strict=True))


def _plain(value: Any) -> Any:
    """Return a value that JSON and CSV can contain. DuckDB's sums are Arrow decimals."""
    match value:
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case datetime():
            return value.isoformat()
        case float() if not math.isfinite(value):
            return None
        case list():
            return [_plain(item) for item in value]
        case dict():
            return {key: _plain(item) for key, item in value.items()}
    return value


def _cell(value: Any) -> str:
    text = "" if value is None else str(_plain(value)).replace("\n", " < ")
    text = "".join(letter if letter.isprintable() else "?" for letter in text)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 3] + "..."


def _is_number(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
