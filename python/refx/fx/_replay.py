"""What bringing a GraphModule to where the library's model of it is leaves to Python: what is rare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn
from torch.fx import Graph

from .. import _core

if TYPE_CHECKING:
    from ._journal import Journal


def template(kind: str) -> nn.Module:
    """A module of that type of torch.nn without tensors."""
    cls = getattr(nn, kind.removeprefix("torch.nn."), None)
    if cls is None:
        raise _core.Error(f"a module of type {kind} is to come back, which is not there any more")
    module = cls.__new__(cls)
    nn.Module.__init__(module)  # the class's own would draw random weights
    module._parameters.update(weight=None, bias=None)
    return module


def rename(journal: Journal, graph: Graph) -> None:
    """Gives nodes the names back that they had before torch.fx unpickled them."""
    if not journal.renamed:
        return
    renamed = {journal.nodes[number]: name for number, name in journal.renamed.items()}
    journal.renamed.clear()
    taken = {node.name for node in graph.nodes if node not in renamed}
    for node, name in renamed.items():
        if name not in taken:
            object.__setattr__(node, "name", name)
            graph._graph_namespace._rename_object(node, name)
            taken.add(name)
