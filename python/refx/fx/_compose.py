# SPDX-License-Identifier: Apache-2.0
"""Compositions of transformations."""

from __future__ import annotations

import copy

from torch.fx import GraphModule, Node

from .. import _core
from ._base import ReversibleTransformation, Transformation, require_finished
from ._history import History


class Composition(Transformation):
    """Several transformations that are applied in order."""
    def __init__(self, parts: tuple[Transformation, ...], inplace: bool) -> None:
        self._parts = parts
        self._inplace = inplace
        self.preserves_computation = all(part.preserves_computation for part in parts)

    @property
    def signature(self) -> str:
        return f"compose({', '.join(part.signature for part in self._parts)})"

    def __repr__(self) -> str:
        parts = [repr(part) for part in self._parts] + ([] if self._inplace else ["inplace=False"])
        return f"compose({', '.join(parts)})"

    def transform(self, graph_module: GraphModule) -> GraphModule:
        """Applies the parts from left to right."""
        return self._run(graph_module, checked=False)

    def _run(self, graph_module: GraphModule, checked: bool) -> GraphModule:
        if not self._inplace:
            graph_module = copy.deepcopy(graph_module)
        history = History.find(graph_module)
        steps = history.step_ids() if history is not None else []
        try:
            for part in self._parts:
                graph_module = part(graph_module, lint_and_recompile=False)
            if checked:
                require_finished(graph_module)
        except BaseException:
            if History.find(graph_module) is not None:
                with History.session(graph_module) as history:
                    history.discard_pending(graph_module)
                    history.read(graph_module)
                    history.undo_since(graph_module, steps)
            raise
        return graph_module

    def transformed(self, node: Node) -> bool:
        return any(part.transformed(node) for part in self._parts)


class _ReversibleComposition(Composition, ReversibleTransformation):
    def reverse(self, graph_module: GraphModule) -> GraphModule:
        """Undoes the parts from right to left."""
        if not self._inplace:
            graph_module = copy.deepcopy(graph_module)
        try:
            for part in reversed(self._parts):
                assert isinstance(part, ReversibleTransformation)
                graph_module = part._run_reverse(graph_module, checked=False)
        except BaseException:
            graph_module.recompile()  # some parts were undone
            raise
        return graph_module

    def _has_own_reverse(self) -> bool:
        return any(part._has_own_reverse() for part in self._parts
                   if isinstance(part, ReversibleTransformation))

    def _run_reverse(self, graph_module: GraphModule, checked: bool) -> GraphModule:
        return self.reverse(graph_module)


def compose(*args: Transformation, inplace: bool = True) -> Transformation:
    """Combines transformations to one. It applies them from left to right, and undoes them from right to left.

    The result is reversible if all parts are, and preserves the computation if all parts do.

    Args:
        args: the transformations.
        inplace: False leaves the GraphModule unchanged, in both directions, and works on a copy.
    """
    if not args:
        raise _core.Error("compose needs at least one transformation")
    for part in args:
        if not isinstance(part, Transformation):
            raise TypeError(f"compose takes transformations, such as MergeLinears(), not {part!r}")
    reversible = all(isinstance(part, ReversibleTransformation) for part in args)
    return (_ReversibleComposition if reversible else Composition)(args, inplace)
