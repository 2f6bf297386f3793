# SPDX-License-Identifier: Apache-2.0
"""The page that ``Model.report`` makes."""

from __future__ import annotations

import html


class Report(str):
    """A self-contained HTML page. A notebook shows it inline."""

    def _repr_html_(self) -> str:
        return (f'<iframe srcdoc="{html.escape(self, quote=True)}" width="100%" height="720" '
                'style="border: 1px solid #8884"></iframe>')
