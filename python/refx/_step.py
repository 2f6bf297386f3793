# SPDX-License-Identifier: Apache-2.0
"""Steps in the history of a model or of a GraphModule."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

from . import _core


def warn_of_dropped(dropped: list[tuple[int, str, bool]], stacklevel: int) -> None:
    """Warns about steps that a reversal dropped: (id, label, whether its transformation is known here)."""
    for step, label, known in dropped:
        why = "it no longer matches" if known else "its rule is not loaded; load it with refx.rules(path) " \
            "and apply it again"
        warnings.warn(f"dropped step {step} ({label}), which was built on a reversed one: {why}", stacklevel=stacklevel)


@dataclasses.dataclass(frozen=True)
class Step:
    """One rewrite in the history of a model. It can be reversed."""

    id: int
    transformation: str
    site: str
    nodes: tuple[Any, ...] = dataclasses.field(repr=False)  # of the graph: their names; in refx.fx, the nodes
    bytes: int = dataclasses.field(repr=False)  # of the tensors that are kept for undo
    signature: str = dataclasses.field(repr=False)  # the transformation with its parameters
    # "preserved" up to rounding, or "approximate", as the history records it
    numerics: str = dataclasses.field(default="preserved", repr=False)

    def __str__(self) -> str:
        mark = "" if self.numerics == "preserved" else f"  {self.numerics}"
        return _core.printable(f"{self.id}  {self.transformation}  {self.site}{mark}")
