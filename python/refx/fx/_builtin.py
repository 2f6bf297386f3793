# SPDX-License-Identifier: Apache-2.0
"""Transformations that are implemented in the library."""

from __future__ import annotations

from torch.fx import GraphModule

from ._base import ReversibleTransformation
from ._history import History


class BuiltIn(ReversibleTransformation):
    """A transformation that is implemented in the library."""

    _name: str  # in the library

    @property
    def signature(self) -> str:
        return self._name if type(self).__bases__ == (BuiltIn,) else super().signature

    def transform(self, graph_module: GraphModule) -> GraphModule:
        """Rewrites every site of the GraphModule. ``explain`` lists the sites and the refusals."""
        with History.session(graph_module) as history:
            history.read(graph_module)
            # Inside somebody's transformation it is part of that one.
            author = history.author
            history.apply(graph_module, self._name, self.signature, author[1] if author else None)
        return graph_module

    def _run(self, graph_module: GraphModule, checked: bool) -> GraphModule:
        if type(self).transform is BuiltIn.transform:
            return self.transform(graph_module)
        return super()._run(graph_module, checked)
