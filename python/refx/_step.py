# SPDX-License-Identifier: Apache-2.0
"""A step of a history, of an exported program or of a GraphModule."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

from . import _core


def warn_of_dropped(dropped: list[tuple[int, str, bool]], stacklevel: int) -> None:
    """Warns of steps that a reversal dropped: (id, label, whether its transformation is known here)."""
    for step, label, known in dropped:
        why = "it does not match any more" if known else "its rule is not loaded; load it with refx.rules(path) " \
            "and apply it again"
        warnings.warn(f"dropped step {step} ({label}), which was built on a reversed one: {why}", stacklevel=stacklevel)


@dataclasses.dataclass(frozen=True)
class Step:
    """One rewrite that was applied and can be taken back."""

    id: int
    transformation: str
    site: str
    nodes: tuple[Any, ...] = dataclasses.field(repr=False)  # names, or in refx.fx the nodes themselves
    bytes: int = dataclasses.field(repr=False)  # of the tensors kept for undo
    signature: str = dataclasses.field(repr=False)  # the transformation with its parameters
    # Its transformation does not preserve the computation, as the history says.
    lossy: bool = dataclasses.field(default=False, repr=False)

    def __str__(self) -> str:
        mark = "  lossy" if self.lossy else ""
        return _core.printable(f"{self.id}  {self.transformation}  {self.site}{mark}")
