"""``node.transformations``: the signatures of the transformations that a node is marked by.

An attribute of the node, as in optimum.fx. torch.fx drops attributes when it
copies or unpickles a graph; the history of the GraphModule sets them again, when one is first asked for.
"""

from __future__ import annotations

from typing import Any

from torch.fx import GraphModule, Node

from ._history import History

_NAME = "transformations"


class _OfCopies:
    """Stands in the class of nodes; a node that has the attribute is not asked here."""

    def __get__(self, node: Node | None, owner: type) -> Any:
        if node is not None:
            graph_module = node.graph.owning_module
            if isinstance(graph_module, GraphModule):
                history = History.find(graph_module)
                if history is not None and history.graph is None:
                    with history.lock:
                        history.attach(graph_module)
            if _NAME in vars(node):
                return vars(node)[_NAME]
        raise AttributeError(f"a node that no transformation marked has no attribute '{_NAME}'")


setattr(Node, _NAME, _OfCopies())


def marks_of(node: Node) -> set[Any]:
    found = getattr(node, _NAME, None)
    return found if isinstance(found, set) else set()
