# SPDX-License-Identifier: Apache-2.0
"""Tables as HTML, for notebooks."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

_ONE = r"[-+<]?\d[\d.,]*(e[-+]?\d+)?(x|%| (us|ms|s|runs|[kMGT]?B))?"
# "3.5e-03", "1.007x (0.943 .. 1.066)", "363.71 us .. 426.54 us", "738 runs", "5,7"
_NUMBER = re.compile(rf"{_ONE}( \.\. {_ONE})?( \({_ONE} \.\. {_ONE}\))?")
# What stands in a column of numbers where there is no number.
_NO_NUMBER = ("", "-", "equal", "never", "inf", "nan")


def _is_number(cell: str) -> bool:
    return _NUMBER.fullmatch(cell) is not None


def html_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Numbers to the right, everything else to the left. Each cell has its style, because the style sheets of
    notebooks align the cells of all tables to the right."""
    rows = list(rows)
    right = []
    for column in zip(*rows, strict=True):
        right.append(any(column) and all(cell in _NO_NUMBER or _is_number(cell) for cell in column))

    def row(cells: Sequence[str], tag: str) -> str:
        parts = []
        for i, cell in enumerate(cells):
            style = "text-align: right; white-space: nowrap" if i < len(right) and right[i] else "text-align: left"
            parts.append(f'<{tag} style="{style}">{html.escape(cell)}</{tag}>')
        return f'<tr>{"".join(parts)}</tr>'

    head_row = f'<thead>{row(head, "th")}</thead>' if head else ""
    return f'<table>{head_row}<tbody>{"".join(row(cells, "td") for cells in rows)}</tbody></table>'


class _Columns:
    """Rows of a table in the text: columns are two spaces apart at least, and as wide as their cells in bytes."""

    def __init__(self, line: bytes) -> None:
        self.lines = [line]
        self.starts = self._starts(line)

    @staticmethod
    def _starts(line: bytes) -> set[int]:
        return {match.end() for match in re.finditer(rb"  +", line)}

    def add(self, line: bytes) -> bool:
        """False if the line does not fit these columns."""
        starts = self.starts | self._starts(line)
        if any(other[start - 2:start].strip() for other in [*self.lines, line] for start in starts):
            return False
        self.lines.append(line)
        self.starts = starts
        return True

    def rows(self) -> list[list[str]]:
        starts = sorted(self.starts)
        ends = [*starts[1:], None]
        return [[line[start:end].decode(errors="replace").strip() for start, end in zip(starts, ends, strict=True)]
                for line in self.lines]


def _has_head(rows: list[list[str]]) -> bool:
    first, rest = rows[0], rows[1:]
    return not any(map(_is_number, first)) and any(_is_number(cell) for row in rest for cell in row)


def _as_html(block: _Columns | list[str]) -> str:
    if isinstance(block, _Columns) and len(block.starts) > 1:
        rows = block.rows()
        return html_table(rows[0], rows[1:]) if _has_head(rows) else html_table([], rows)
    lines = block if isinstance(block, list) else [line.decode() for line in block.lines]
    text = "\n".join(lines).strip("\n")
    return f'<pre style="white-space: pre-wrap">{html.escape(text)}</pre>' if text else ""


def text_as_html(text: str) -> str:
    """What the program prints. Indented lines are rows of tables; other lines are paragraphs."""
    blocks: list[_Columns | list[str]] = []
    for line in text.splitlines():
        last = blocks[-1] if blocks else None
        if line.startswith("  "):
            if not (isinstance(last, _Columns) and last.add(line.encode())):
                blocks.append(_Columns(line.encode()))
        elif isinstance(last, list):
            last.append(line)
        else:
            blocks.append([line])
    return f'<div style="overflow-x: auto">{"".join(map(_as_html, blocks))}</div>'
