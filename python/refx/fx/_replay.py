"""Brings a GraphModule to where the library's model of it is.

A node stays the object it is, with its name and metadata; an erased one that returns is the same
object again. Modules are never written into, because a traced graph shares them with the model it
came from: a changed module is another object.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Optional

import torch
from torch import nn
from torch.fx import Graph, GraphModule, Node

from .. import _core

if TYPE_CHECKING:
    from ._journal import Journal

_MARKS = "refx"
# What a new node takes over from the one it serves.
_ORIGIN = ("stack_trace", "nn_module_stack", "source_fn_stack")


def follow(journal: Journal, graph_module: GraphModule,
           touched: tuple[list[int], list[str], list[str]]) -> None:
    nodes, states, modules = touched
    _follow_modules(journal, graph_module, states, modules)
    _follow_nodes(journal, graph_module.graph, nodes)


# ---- nodes -----------------------------------------------------------------------------------------


def _follow_nodes(journal: Journal, graph: Graph, numbers: list[int]) -> None:
    ids, nodes, seen = journal.ids, journal.nodes, journal.seen
    describe, tables = journal.mirror.node, _core.Tables(journal)
    lookup = graph._find_nodes_lookup_table
    set_attribute = object.__setattr__
    erased = []
    _rename(journal, graph)
    for number in numbers:
        value = describe(tables, number)
        if value is None:
            erased.append(number)
            continue
        op, name, target, args, kwargs, marks = value
        node = nodes[number] if number < len(nodes) else None
        if node is None or ids.get(node) != number:
            node = _insert(journal, graph, number, node, op, name, target)
        elif node.op is not op or node.target is not target:
            # What Node.__setattr__ does, once instead of twice.
            lookup.remove(node)
            set_attribute(node, "op", op)
            set_attribute(node, "target", target)
            lookup.insert(node)
        node._update_args_kwargs(args, kwargs)
        if marks:
            node.meta[_MARKS] = marks
        elif _MARKS in node.meta:
            del node.meta[_MARKS]
        old = seen[number]
        seen[number] = (node._args, node._kwargs, node.target, old[3] if old else None)
    _erase(journal, graph, erased)


def _insert(journal: Journal, graph: Graph, number: int, node: Optional[Node], op: str, name: str,
            target: Any) -> Node:
    """Puts a node that is new, or was erased, or was moved, where the library has it."""
    nodes, seen = journal.nodes, journal.seen
    while len(nodes) <= number:
        nodes.append(None)
        seen.append(None)
    before = journal.mirror.previous(number)
    previous = graph._root if before is None else nodes[before]
    assert previous is not None
    lookup = graph._find_nodes_lookup_table
    if node is None:
        name, meta, annotation = journal.erased.pop(number, (name, None, None))
        unique = graph._graph_namespace.create_name(name, None)
        node = Node(graph, unique, op, target, (), {}, annotation)
        graph._graph_namespace.associate_name_with_obj(unique, node)
        previous.append(node)
        if meta is None:
            origin = node.next.meta
            meta = {key: origin[key] for key in _ORIGIN if key in origin}
        elif all(other.name != name for other in graph.nodes):
            object.__setattr__(node, "name", name)
        node.meta = dict(meta)
        nodes[number] = node
    else:
        if node._erased:
            node._prev = node._next = node  # it still points to its former neighbours
            node._erased = False
        else:
            lookup.remove(node)
            graph._len -= 1
        previous.append(node)
        object.__setattr__(node, "op", op)
        object.__setattr__(node, "target", target)
    lookup.insert(node)
    graph._len += 1
    journal.ids[node] = number
    for hook in getattr(graph.owning_module, "_create_node_hooks", ()):
        hook(node)
    return node


def _rename(journal: Journal, graph: Graph) -> None:
    """Gives nodes the names back that they had before torch.fx unpickled them."""
    if not journal.renamed:
        return
    renamed = {journal.nodes[number]: name for number, name in journal.renamed.items()}
    journal.renamed.clear()
    taken = {node.name for node in graph.nodes if node not in renamed}
    for node, name in renamed.items():
        if name not in taken:
            object.__setattr__(node, "name", name)


def _erase(journal: Journal, graph: Graph, numbers: list[int]) -> None:
    gone = []
    for number in numbers:
        node = journal.nodes[number]
        if node is not None and journal.ids.get(node) == number:
            gone.append(node)
    for node in sorted(gone, reverse=True):  # users first
        graph.erase_node(node)
        del journal.ids[node]
        node.meta.pop(_MARKS, None)


# ---- modules and tensors ---------------------------------------------------------------------------


def _follow_modules(journal: Journal, graph_module: GraphModule, states: list[str],
                    modules: list[str]) -> None:
    mirror = journal.mirror
    tables = _Tables(journal, graph_module)
    paths = dict.fromkeys(modules)
    loose = []
    for name in states:
        owner = name.rpartition(".")[0]
        if owner in paths or (owner and mirror.has_module(owner)):
            paths[owner] = None
        else:
            loose.append(name)
    for path in paths:
        current = tables.module(path)
        if not mirror.has_module(path):
            if current is not None:
                journal.keep_module(path, current)
                tables.remove(path, "_modules")
            continue
        if current is not None and mirror.fits(tables.known, path, current):
            continue
        module = _fitting(journal, tables.known, path, current)
        if current is not None:
            journal.keep_module(path, current)
        tables.put(path, "_modules", module)
    for name in loose:
        tables.set_tensor(name, mirror.state(name))
    tables.finish()


def _fitting(journal: Journal, known: _core.Tables, path: str,
             current: Optional[nn.Module]) -> nn.Module:
    """A module that is what the library has there: one that was there before, or a new one."""
    mirror = journal.mirror
    kept = journal.modules.get(path, [])
    for module in reversed(kept):
        if mirror.fits(known, path, module):
            return module
    kind, parameters, training = mirror.module(known, path)
    for base in [*([current] if current is not None else []), *reversed(kept)]:
        module = _variant(journal, base, path, parameters, training)
        if mirror.fits(known, path, module):
            return module
    module = _blank(kind)
    _configure(journal, module, path, parameters, training)
    return module


@functools.lru_cache(maxsize=None)
def _template(kind: str) -> nn.Module:
    cls = getattr(nn, kind.removeprefix("torch.nn."))
    module = cls.__new__(cls)
    nn.Module.__init__(module)  # the class's own would draw random weights
    module._parameters.update(weight=None, bias=None)
    return module


def _blank(kind: str) -> nn.Module:
    return shallow_copy(_template(kind))


def _variant(journal: Journal, base: nn.Module, path: str, parameters: dict[str, Any],
             training: bool) -> nn.Module:
    module = shallow_copy(base)
    _configure(journal, module, path, parameters, training)
    return module


def shallow_copy(module: nn.Module) -> nn.Module:
    """Another module with the same tensors, children and hooks."""
    copied = module.__class__.__new__(module.__class__)
    copied.__dict__ = {
        key: value.copy() if isinstance(value, (dict, set)) else value
        for key, value in module.__dict__.items()
    }
    return copied


def _configure(journal: Journal, module: nn.Module, path: str, parameters: dict[str, Any],
               training: bool) -> None:
    for name, value in parameters.items():
        if name != "bias":
            module.__dict__[name] = value
    module.__dict__["training"] = training
    attributes = module.__dict__
    find = journal.mirror.state
    for table, convert in ((attributes["_parameters"], as_parameter), (attributes["_buffers"], None)):
        for name in table:
            state = find(f"{path}.{name}")
            if state is None:
                table[name] = None
            else:
                table[name] = convert(state[0]) if convert else state[0]


def as_parameter(tensor: torch.Tensor) -> torch.Tensor:
    """The very tensor, which the library keeps an eye on: nn.Parameter(tensor) is another one."""
    if type(tensor) is torch.Tensor:
        tensor.__class__ = nn.Parameter
    return tensor


class _Tables:
    """The tables of names in a GraphModule's containers, which keep their order."""

    def __init__(self, journal: Journal, graph_module: GraphModule) -> None:
        self.journal = journal
        self.root = graph_module
        self.known = _core.Tables(journal)
        self.dirty: dict[tuple[str, str], nn.Module] = {}
        self.containers: dict[str, nn.Module] = {"": graph_module}

    def module(self, path: str) -> Optional[nn.Module]:
        parent, _, name = path.rpartition(".")
        container: Optional[nn.Module] = self.containers.get(parent)
        if container is None:
            container = self.root
            for part in parent.split("."):
                container = container._modules.get(part)
                if container is None:
                    return None
        return container._modules.get(name)

    def container(self, path: str) -> nn.Module:
        """The module at that path, for writing: made if there is none, copied if it may be shared."""
        found = self.containers.get(path)
        if found is not None:
            return found
        parent, _, name = path.rpartition(".")
        above = self.container(parent)
        module = above._modules.get(name)
        if module is None:
            module = nn.Module()
            module.training = above.training
            self.journal.made_containers.add(path)
            self._write(parent, "_modules", name, module)
        elif type(module) is not nn.Module:  # those that torch.fx makes are its own
            original, module = module, shallow_copy(module)
            self.journal.containers.setdefault(path, original)
            self._write(parent, "_modules", name, module)
        self.containers[path] = module
        return module

    def put(self, path: str, table: str, value: Any) -> None:
        parent, _, name = path.rpartition(".")
        self.container(parent)
        self._write(parent, table, name, value)

    def remove(self, path: str, table: str) -> None:
        parent, _, name = path.rpartition(".")
        container = self.container(parent)
        self._order(parent, table)
        container.__dict__[table].pop(name, None)
        if (parent in self.journal.made_containers
                and not (container._parameters or container._buffers or container._modules)):
            self.journal.made_containers.discard(parent)
            self.containers.pop(parent, None)
            self.remove(parent, "_modules")

    def set_tensor(self, path: str, state: Optional[tuple[torch.Tensor, str, bool]]) -> None:
        parent, _, name = path.rpartition(".")
        container = self.container(parent)
        kind = None if state is None else state[1]
        if kind != "parameter" and name in container._parameters:
            self.remove(path, "_parameters")
        if kind != "buffer" and name in container._buffers:
            self.remove(path, "_buffers")
            container._non_persistent_buffers_set.discard(name)
        if kind != "constant":
            container.__dict__.pop(name, None)
        if state is None:
            return
        tensor, _, persistent = state
        if kind == "parameter":
            self.put(path, "_parameters", as_parameter(tensor))
        elif kind == "buffer":
            self.put(path, "_buffers", tensor)
            if persistent:
                container._non_persistent_buffers_set.discard(name)
            else:
                container._non_persistent_buffers_set.add(name)
        else:
            container.__dict__[name] = tensor

    def _order(self, path: str, table: str) -> dict[str, None]:
        order = self.journal.order.get((path, table))
        if order is None:
            names = getattr(self.containers[path], table)
            order = self.journal.order[path, table] = dict.fromkeys(names)
        return order

    def _write(self, path: str, table: str, name: str, value: Any) -> None:
        order = self._order(path, table)
        container = self.containers[path]
        names = container.__dict__[table]
        if name not in names:
            if name in order:
                self.dirty[path, table] = container
            else:
                order[name] = None
        names[name] = value

    def finish(self) -> None:
        for (path, table), container in self.dirty.items():
            names = getattr(container, table)
            order = self._order(path, table)
            rank = {name: i for i, name in enumerate(order)}
            ordered = sorted(names, key=lambda name: rank.get(name, len(rank)))
            if ordered != list(names):
                items = [(name, names[name]) for name in ordered]
                names.clear()
                names.update(items)


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
