# SPDX-License-Identifier: Apache-2.0
"""Tables and lists as HTML, for notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


class Number(str):
    """A formatted number. Tables align it like a number."""


# None is an empty cell. True and False are shown as "yes" and "no".
Cell = str | int | float | None


def error_cell(value: float | None) -> Number:
    """An error as people read it. JSON has null for an error that is not finite."""
    return Number("not finite" if value is None else "0" if value == 0 else f"{value:.1e}")


def ratio_cell(ratio: float, low: float, high: float) -> Number:
    """A ratio with its confidence interval."""
    return Number(f"{ratio:.3f}x ({low:.3f} .. {high:.3f})")


def _shown(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def _is_number(cell: Cell) -> bool:
    return isinstance(cell, (int, float, Number)) and not isinstance(cell, bool)


def html_table(head: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """A table whose columns of numbers are aligned to the right, and the others to the left."""
    rows = list(rows)
    right = [any(map(_is_number, column)) and all(cell is None or _is_number(cell) for cell in column)
             for column in zip(*rows, strict=True)]

    def row(cells: Sequence[Cell], tag: str) -> str:
        # Each cell has its own style, because the style sheets of notebooks align all cells to the right.
        parts = []
        for i, cell in enumerate(cells):
            style = "text-align: right; white-space: nowrap" if i < len(right) and right[i] else "text-align: left"
            parts.append(f'<{tag} style="{style}">{html.escape(_shown(cell))}</{tag}>')
        return f'<tr>{"".join(parts)}</tr>'

    return f'<table><thead>{row(head, "th")}</thead><tbody>{"".join(row(cells, "td") for cells in rows)}</tbody></table>'


def html_list(lines: Iterable[str]) -> str:
    """A bulleted list."""
    return f'<ul>{"".join(f"<li>{html.escape(line)}</li>" for line in lines)}</ul>'
