# SPDX-License-Identifier: Apache-2.0
"""Bar charts as SVG, for notebooks and self-contained pages."""

from __future__ import annotations

import html
import math

from ._table import error_cell

LABEL, BARS, ROW = 260, 380, 18  # pixels
ACCENT, WORST = "#4c78c8", "#d0454f"  # readable on light and dark


def decades(errors: list[float]) -> tuple[int, int]:
    """The powers of ten that enclose all errors above zero."""
    errors = [error for error in errors if error > 0] or [1e-6, 1e-3]
    low, high = math.floor(math.log10(min(errors) / 1.5)), math.ceil(math.log10(max(errors)))
    return low, max(high, low + 1)


def _text(x: float, y: float, content: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="currentColor" {more}>{html.escape(content)}</text>'


def bar_chart(rows: list[tuple[str, float | None, str, bool]], title: str) -> str:
    """A bar for each (label, error, tooltip, is filled), on a logarithmic scale. None is an error that is not finite."""
    low, high = decades([error or 0 for _, error, _, _ in rows])
    worst = max((math.inf if error is None else error for _, error, _, _ in rows), default=0)
    bottom = 8 + ROW * len(rows)
    parts = []
    for power in range(low, high + 1, math.ceil((high - low) / 8)):
        x = LABEL + BARS * (power - low) / (high - low)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="4" y2="{bottom}" stroke="currentColor" opacity=".15"/>')
        parts.append(_text(x, bottom + 14, f"1e{power}", 'text-anchor="middle" opacity=".7"'))
    for i, (label, error, about, filled) in enumerate(rows):
        y = 8 + ROW * i
        part = 1.0 if error is None else (math.log10(error) - low) / (high - low) if error else 0.0
        is_worst = worst > 0 and (math.inf if error is None else error) == worst
        color = WORST if is_worst else ACCENT
        paint = f'fill="{color}"' if filled else f'fill="none" stroke="{color}" stroke-dasharray="3 2"'
        name = label if len(label) <= 38 else "\u2026" + label[-37:]
        bar = f'<rect x="{LABEL}" y="{y + 3}" width="{BARS * part:.1f}" height="12" rx="2" {paint}/>'
        parts += [f"<g><title>{html.escape(about)}</title>", _text(LABEL - 8, y + 13, name, 'text-anchor="end"'), bar,
                  _text(LABEL + BARS * part + 6, y + 13, error_cell(error), 'opacity=".7"'), "</g>"]
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{LABEL + BARS + 80}" height="{bottom + 22}" role="img" '
            f'aria-label="{html.escape(title, quote=True)}" font-family="system-ui, sans-serif" font-size="11">'
            f'{"".join(parts)}</svg>')


def page(title: str, body: str) -> str:
    """A self-contained HTML page."""
    return (f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
            f'<style>:root {{ color-scheme: light dark; font-family: system-ui, sans-serif }}</style></head>'
            f"<body><h1>{html.escape(title)}</h1>{body}</body></html>")
