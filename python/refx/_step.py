"""What a step of a history is to Python."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Step:
    """One rewrite that was applied and can be taken back."""

    id: int
    transformation: str
    site: str
    nodes: tuple[str, ...] = dataclasses.field(repr=False)
    bytes: int = dataclasses.field(repr=False)  # of the tensors kept for undo

    def __str__(self) -> str:
        return f"{self.id}  {self.transformation}  {self.site}"
