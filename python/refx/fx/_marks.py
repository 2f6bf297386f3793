# SPDX-License-Identifier: Apache-2.0
"""``node.transformations``: the signatures of the transformations that marked a node.

An attribute of the node, as in optimum.fx. A node without marks does not have it. torch.fx copies no
attributes of nodes: ``History.associate_nodes`` restores the marks of a copy from its history.
"""

from __future__ import annotations

from typing import Any

from torch.fx import GraphModule, Node

from ._history import History


def marks_of(node: Node) -> set[Any]:
    """The marks of a node, restored first if its GraphModule is a copy that refx has not read yet."""
    graph_module = node.graph.owning_module
    if isinstance(graph_module, GraphModule):
        history = History.find(graph_module)
        if history is not None and history.graph is None:
            with history.lock:
                history.associate_nodes(graph_module)
    found = getattr(node, "transformations", None)
    return found if isinstance(found, set) else set()
