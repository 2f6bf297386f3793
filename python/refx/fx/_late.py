"""The code of a GraphModule, generated when somebody first looks at it.

``GraphModule.recompile`` takes longer than most rewrites do, and after several of them only the last
code is of use. So after a rewrite the GraphModule's own class (torch.fx makes one for each, and puts
``forward`` there) gets descriptors in all places where code is looked for. The first look generates
the code and takes them away again.

After an edit by hand, torch.fx goes on with the former code until ``recompile()`` is called. So does
this: code is generated from what the graph was when the rewrite was done, never from what was before.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import threading
from collections.abc import Callable, Iterator
from types import NoneType
from typing import Any

from torch.fx import Graph, GraphModule, Node, map_arg
from torch.fx.graph import CodeGen, PythonCode, _PyTreeCodeGen

from .. import _core

# Methods that take the code from __dict__, where no look is seen, or while dynamo traces.
_TAKERS = tuple(name for name in ("__reduce__", "__reduce_package__", "__reduce_deploy__", "compile")
                if hasattr(GraphModule, name))


def recompile(graph_module: GraphModule) -> bool:
    """As ``graph_module.recompile()``, but late; False, and nothing, where that could be noticed."""
    waits = _can_wait(graph_module)
    if waits:
        _LateCode(graph_module)
    return waits


def _can_wait(graph_module: GraphModule) -> bool:
    """Whether all that has to do with its code is torch.fx's own."""
    cls, graph = type(graph_module), graph_module.graph
    return (
        cls.__bases__ == (GraphModule,) and cls.__qualname__.endswith("GraphModuleImpl")
        and all(isinstance(vars(cls).get(name), (_Look, NoneType)) for name in ("recompile", *_TAKERS))
        and vars(graph_module).keys().isdisjoint(("recompile", *_TAKERS))
        and type(graph) is Graph
        and type(graph._codegen) in (CodeGen, _PyTreeCodeGen)
        and graph._codegen._body_transformer is None
        # recompile() is for these too, who can be looked at on their own.
        and not any(isinstance(child, GraphModule) for child in graph_module._modules.values())
    )


def _generated(graph: Graph) -> tuple[str, ...]:
    """What ``recompile()`` puts into a GraphModule's ``__dict__``."""
    names = ("_code", "_lineno_map", "_prologue_start")
    return (*names, "_in_spec", "_out_spec") if isinstance(graph._codegen, _PyTreeCodeGen) else names


class _LateCode:
    """The code of one GraphModule that is still to be generated."""

    def __init__(self, graph_module: GraphModule) -> None:
        self._graph_module = graph_module
        self._cls: Any = type(graph_module)
        self._source: list[Any] = _core.code_source(graph_module.graph)
        self._forward: Callable[..., Any] | None = None  # once generated
        self._lock = threading.RLock()
        generated = _generated(graph_module.graph)
        self._looks = {name: _Look(self, name) for name in ("forward", *generated, *_TAKERS)}
        self._looks["recompile"] = _Recompile(self, "recompile")
        for name, look in self._looks.items():
            setattr(self._cls, name, look)
        for name in generated:
            vars(graph_module).pop(name, None)

    def generated(self, name: str) -> Any:
        """What there is under that name, once the code is generated."""
        with self._lock:
            if self._forward is None:
                own = vars(self._cls).get("forward")  # ours; or what somebody put there since
                with self._as_it_was():
                    self._recompile()
                if own is not self._looks["forward"]:
                    self._cls.forward = own
            self._take_away()
        if name == "forward":
            return self._forward
        return getattr(GraphModule if hasattr(GraphModule, name) else self._graph_module, name)

    def recompile(self, graph_module: GraphModule) -> PythonCode:
        """For a caller of the GraphModule's ``recompile``: from the graph as it is now."""
        with self._lock:
            own = graph_module is self._graph_module and type(graph_module) is self._cls
            if own and self._forward is None:
                code = self._recompile()
                self._take_away()
                return code
        self.generated("forward")  # for the class, from which another one was derived
        return GraphModule.recompile(graph_module)

    def _recompile(self) -> PythonCode:
        code = GraphModule.recompile(self._graph_module)
        self._forward = vars(self._cls)["forward"]
        self._source = []
        return code

    def _take_away(self) -> None:
        for name, look in self._looks.items():
            if vars(self._cls).get(name) is look:
                if name == "forward":  # put back by somebody who had changed it for a while
                    self._cls.forward = self._forward
                else:
                    delattr(self._cls, name)

    @contextlib.contextmanager
    def _as_it_was(self) -> Iterator[None]:
        """With the graph and the class that the GraphModule had."""
        graph_module, graph, cls = self._graph_module, self._graph_module.graph, type(self._graph_module)
        source = _core.code_source(graph)
        if len(source) != len(self._source) or not all(map(operator.is_, source, self._source)):
            vars(graph_module)["_graph"] = _graph_of(self._source)
        if cls is not self._cls:  # derived from it
            graph_module.__class__ = self._cls
        try:
            yield
        finally:
            vars(graph_module)["_graph"] = graph
            if cls is not self._cls:
                graph_module.__class__ = cls


class _Look:
    """Stands in a class for what comes with the code."""

    def __init__(self, code: _LateCode, name: str) -> None:
        self._code = code
        self._name = name

    def __get__(self, instance: GraphModule | None, owner: type) -> Any:
        found = self._code.generated(self._name)
        if callable(found):
            return found.__get__(instance, owner)
        if instance is None:
            raise AttributeError(self._name)
        return found


class _Recompile(_Look):
    def __get__(self, instance: GraphModule | None, owner: type) -> Any:
        if instance is None:
            return super().__get__(instance, owner)
        return functools.partial(self._code.recompile, instance)


def _graph_of(source: list[Any]) -> Graph:
    """A graph of which the same code is generated."""
    graph, made = Graph(), dict[Node, Node]()
    *parts, graph._codegen = source
    for node, op, name, target, args, kwargs, kind in zip(*[iter(parts)] * 7):
        copied = graph.create_node(op, target, map_arg(args, made.__getitem__),
                                   map_arg(kwargs, made.__getitem__), name, kind)
        object.__setattr__(copied, "name", name)
        made[node] = copied
    return graph
