"""Transformations that the library does."""

from __future__ import annotations

from torch.fx import GraphModule, Node

from ._base import MARKS, ReversibleTransformation
from ._history import History


class BuiltIn(ReversibleTransformation):
    """A transformation that the library does."""

    _name: str  # in the library

    @property
    def signature(self) -> str:
        return self._name if type(self).__bases__ == (BuiltIn,) else super().signature

    def transform(self, graph_module: GraphModule) -> GraphModule:
        """Rewrites every site of the GraphModule. ``explain`` says which, and which not and why."""
        with History.at_work(graph_module) as history:
            history.read(graph_module)
            # Inside somebody's transformation it is part of that one.
            author = history.author
            history.apply(graph_module, self._name, author[1] if author else self.signature)
        return graph_module

    def transformed(self, node: Node) -> bool:
        """Whether the node was transformed by this transformation."""
        if self.signature == self._name:
            return super().transformed(node)
        owner = node.graph.owning_module
        return isinstance(owner, GraphModule) and node in self._nodes(owner)

    def get_transformed_nodes(self, graph_module: GraphModule) -> list[Node]:
        """The nodes that were transformed by this transformation."""
        if self.signature == self._name:
            return super().get_transformed_nodes(graph_module)
        nodes = self._nodes(graph_module)
        return [node for node in graph_module.graph.nodes if node in nodes]

    def _nodes(self, graph_module: GraphModule) -> set[Node]:
        """Those of a derived class: what the library marks is what the class of the library did."""
        history = History.find(graph_module)
        return {node for step in (history.steps() if history is not None else ())
                if step.signature == self.signature
                for node in step.nodes if self._name in node.meta.get(MARKS, ())}

    def _run(self, graph_module: GraphModule) -> GraphModule:
        if type(self).transform is BuiltIn.transform:
            return self.transform(graph_module)
        return super()._run(graph_module)
