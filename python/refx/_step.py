"""A step of a history, of an exported program or of a GraphModule."""

from __future__ import annotations

import dataclasses
from typing import Any

from . import _core


@dataclasses.dataclass(frozen=True)
class Step:
    """One rewrite that was applied and can be taken back."""

    id: int
    transformation: str
    site: str
    nodes: tuple[Any, ...] = dataclasses.field(repr=False)  # names, or in refx.fx the nodes themselves
    bytes: int = dataclasses.field(repr=False)  # of the tensors kept for undo
    signature: str = dataclasses.field(repr=False)  # the transformation with its parameters

    def __str__(self) -> str:
        return _core.printable(f"{self.id}  {self.transformation}  {self.site}")
