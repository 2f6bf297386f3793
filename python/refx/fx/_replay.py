"""What bringing a GraphModule to where the library's model of it is leaves to Python: what is rare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn
from torch.fx import Graph, GraphModule

if TYPE_CHECKING:
    from ._journal import Journal


def template(kind: str) -> nn.Module:
    """A module of that type of torch.nn without tensors."""
    cls = getattr(nn, kind.removeprefix("torch.nn."))
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


def restore_containers(journal: Journal, graph_module: GraphModule) -> None:
    """Puts containers back that were copied, where the copies now hold what they held."""
    for path in sorted(journal.containers, key=lambda path: -path.count(".")):
        parent, _, name = path.rpartition(".")
        try:
            above = graph_module.get_submodule(parent)
        except AttributeError:
            continue
        current, original = above._modules.get(name), journal.containers[path]
        if current is not None and _same_tables(current, original):
            above._modules[name] = original


def _same_tables(a: nn.Module, b: nn.Module) -> bool:
    return all(
        list(x) == list(y) and all(x[name] is y[name] for name in x)
        for x, y in ((getattr(a, t), getattr(b, t)) for t in ("_parameters", "_buffers", "_modules"))
    )
