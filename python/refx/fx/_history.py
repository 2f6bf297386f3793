# SPDX-License-Identifier: Apache-2.0
"""The history of a GraphModule: its mirror in the library, and the Python objects that belong to it.

It is stored on the GraphModule in two places, as an attribute and in ``meta``: pickle drops ``meta`` and
keeps attributes, and ``copy.deepcopy`` does the opposite.
"""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.fx import Graph, GraphModule

from .. import _core
from .._step import Step, warn_of_dropped
from . import _functions, _optimizer

_ATTRIBUTE = "_refx"
STAMP = "_refx_made"  # attribute of modules and tensors that transformations made: their signatures
_KEY = "refx"  # in GraphModule.meta
_lookup_lock = threading.RLock()  # two threads must not both find no history and attach a new one


class History:
    """Reads a GraphModule into its mirror, rewrites the mirror, and updates the GraphModule."""

    def __init__(self) -> None:
        self.mirror = _core.Mirror()
        self.tables = _core.Tables()
        self.renamed: dict[int, str] = {}  # names that torch.fx changed when it unpickled
        self.graph: Graph | None = None  # the graph whose nodes are in the tables
        self.lock = threading.RLock()
        self.author: tuple[str, str, bool] | None = None  # for Mirror.read()
        # Set if an author's code left the graph incomplete: the steps and modules before it ran.
        self.pending: tuple[list[int], dict[str, torch.nn.Module]] | None = None
        self._saved_names: list[str] = []
        self._copied_graph: Graph | None = None  # of a copy, until its nodes are in the tables

    # ---- where it is stored ------------------------------------------------------------------------

    @staticmethod
    def find(graph_module: GraphModule) -> History | None:
        """The history of a GraphModule, or None."""
        with _lookup_lock:
            history = graph_module.__dict__.get(_ATTRIBUTE)
            if history is None:
                history = graph_module.meta.get(_KEY) if hasattr(graph_module, "meta") else None
            if not isinstance(history, History):
                return None
            if history.graph is not None and history.graph is not graph_module.graph:
                # Somebody assigned another graph: its nodes have to be associated anew.
                history = History._load(history._state(with_meta=True))
            history.attach_to(graph_module)
            return history

    @staticmethod
    def of(graph_module: GraphModule) -> History:
        """The history of a GraphModule, which is made if there is none."""
        with _lookup_lock:
            history = History.find(graph_module)
            if history is None:
                history = History()
                history.attach_to(graph_module)
            return history

    def attach_to(self, graph_module: GraphModule) -> None:
        """Stores the history on a GraphModule."""
        graph_module.__dict__[_ATTRIBUTE] = self
        graph_module.meta[_KEY] = self

    @staticmethod
    def drop(graph_module: GraphModule) -> None:
        """Removes the history from a GraphModule."""
        with _lookup_lock:
            graph_module.__dict__.pop(_ATTRIBUTE, None)
            graph_module.meta.pop(_KEY, None)

    @staticmethod
    @contextlib.contextmanager
    def session(graph_module: GraphModule) -> Iterator[History]:
        """The history of a GraphModule, for one thread at a time. It is made if there is none.

        A history that has no steps in the end is removed.
        """
        while True:
            history = History.of(graph_module)
            with history.lock:
                if graph_module.__dict__.get(_ATTRIBUTE) is not history:
                    continue  # another thread has dropped it meanwhile
                try:
                    yield history
                finally:
                    history.drop_if_done(graph_module)
                return

    # ---- reading and rewriting --------------------------------------------------------------------------

    def read(self, graph_module: GraphModule, author: tuple[str, str, bool] | None = None) -> int | None:
        """Reads the changes that were made to the GraphModule since the last read."""
        self.associate_nodes(graph_module)
        author = author or self.author
        if author is None:
            return self.mirror.read(self.tables, graph_module)
        step = self.mirror.read(self.tables, graph_module, *author)
        if self.pending is not None:
            self.keep_displaced(graph_module, self.pending[1])
            self.author = self.pending = None
        return step

    def resume_pending(self, graph_module: GraphModule) -> tuple[list[int], dict[str, torch.nn.Module]] | None:
        """The state before an author's code that left the graph incomplete, if it still is: its step continues."""
        if self.pending is not None:
            with contextlib.suppress(_core.Error):
                self.read(graph_module)
        unfinished, self.pending = self.pending, None
        return unfinished

    def discard_pending(self, graph_module: GraphModule) -> None:
        """Undoes what left the graph incomplete."""
        if self.pending is not None:
            (steps, before), self.pending = self.pending, None
            self.undo_author(graph_module, before, steps)
            self.author = None

    def require_finished(self, graph_module: GraphModule) -> None:
        """If the graph is incomplete and cannot be read, undoes what left it so, and raises."""
        if self.pending is None:
            return
        try:
            self.read(graph_module)
        except BaseException:
            self.discard_pending(graph_module)
            raise

    def associate_nodes(self, graph_module: GraphModule) -> None:
        """Associates the nodes of a copy with the mirror, and restores their marks."""
        if self.graph is not None:
            return
        if self._saved_names:
            self.mirror.attach(self.tables, graph_module, self._saved_names)
            for number, name in zip(self.mirror.live(), self._saved_names):
                node = self.tables.node(number)
                if node is not None and node.name != name:
                    self.renamed[number] = name
        self.graph, self._copied_graph = graph_module.graph, None

    def apply(self, graph_module: GraphModule, transformation: str, signature: str,
              part_of: str | None = None) -> list[int]:
        """Applies a transformation of the library, and returns the new steps. `signature` is that of its Python class."""
        held = list(graph_module.parameters())
        steps, changed = self.mirror.apply(transformation, signature)
        if (part_of or signature) != transformation:
            self.tables.signatures.update(dict.fromkeys(steps, part_of or signature))
        try:
            self._write(graph_module, changed)
        except BaseException:  # a hook of the graph's raised, or Ctrl-C
            changed, _ = self.mirror.reverse(steps, "cascade", True)
            self.mirror.write(self.tables, graph_module, changed, False)
            raise
        _optimizer.watch_for_stale(held + _optimizer.remember_parts(self.mirror.made()), graph_module)
        return steps

    def reverse(self, graph_module: GraphModule, steps: list[int], dependents: str = "reapply",
                discard_changes: bool = False) -> None:
        """Reverses steps in the mirror, and updates the GraphModule."""
        if not steps:
            return
        made, held = self.mirror.made(), list(graph_module.parameters())
        affected, frozen = _optimizer.remember_parts(made) + held, _optimizer.changed_flags(made)
        changed, dropped = self.mirror.reverse(steps, dependents, discard_changes)
        try:
            self._write(graph_module, changed)
        except BaseException:  # the steps are gone from the mirror: complete the write without hooks
            self.mirror.write(self.tables, graph_module, changed, False)
            graph_module.recompile()
            raise
        _optimizer.set_flags(frozen, graph_module)
        _optimizer.watch_for_stale(affected + _optimizer.remember_parts(self.mirror.made()), graph_module)
        if self.mirror.has_steps():
            self.prune()
        warn_of_dropped(dropped, stacklevel=5)

    def _write(self, graph_module: GraphModule, changed: _core.ChangedObjects) -> None:
        self._rename_nodes(graph_module.graph)
        self.mirror.write(self.tables, graph_module, changed, True)

    def _rename_nodes(self, graph: Graph) -> None:
        """Restores the names that nodes had before torch.fx unpickled and renamed them."""
        if not self.renamed:
            return
        renamed = {self.tables.node(number): name for number, name in self.renamed.items()}
        self.renamed.clear()
        taken = {node.name for node in graph.nodes if node not in renamed}
        for node, name in renamed.items():
            if name not in taken:
                object.__setattr__(node, "name", name)
                graph._graph_namespace._rename_object(node, name)
                taken.add(name)

    def steps(self) -> Iterator[Step]:
        """All steps, with those of changes by others."""
        for number, transformation, signature, site, nodes, size, numerics in self.mirror.steps():
            yield Step(number, transformation, site, tuple(self.tables.live_nodes(nodes)), size,
                       self.tables.signatures.get(number, signature), numerics)

    def steps_of(self, signature: str) -> list[int]:
        """The ids of the steps with a signature."""
        if not self.tables.signatures:
            return self.mirror.steps_of(signature)
        return [step.id for step in self.steps() if step.signature == signature]

    def by_refx(self) -> Iterator[Step]:
        """The steps without changes by others."""
        return (step for step in self.steps() if step.transformation != _core.Mirror.OTHERS)

    def keep_module(self, path: str, module: torch.nn.Module) -> None:
        """Keeps a module that was removed from a path, so that undo restores the same object."""
        kept = self.tables.displaced.setdefault(path, [])
        if not any(module is other for other in kept):
            kept.append(module)

    def called_modules(self, graph_module: GraphModule) -> dict[str, torch.nn.Module]:
        """The modules that nodes call, and all that have no children, by path. Also records the order of all names."""
        for path, module in graph_module.named_modules(remove_duplicate=False):
            for table in ("_parameters", "_buffers", "_modules"):
                if (path, table) not in self.tables.name_order:
                    self.tables.name_order[path, table] = dict.fromkeys(getattr(module, table))
        called = {node.target for node in graph_module.graph.nodes if node.op == "call_module"}
        return {path: module for path, module in graph_module.named_modules(remove_duplicate=False)
                if path in called or not module._modules}

    def keep_displaced(self, graph_module: GraphModule, before: dict[str, torch.nn.Module]) -> None:
        """Keeps the modules that an author's code removed or replaced."""
        now = self.called_modules(graph_module)
        for path, module in before.items():
            if now.get(path) is not module:
                self.keep_module(path, module)

    def step_ids(self) -> list[int]:
        """The ids of all steps."""
        return [step[0] for step in self.mirror.steps()]

    def undo_since(self, graph_module: GraphModule, steps: list[int]) -> None:
        """Reverses all steps except these."""
        self.reverse(graph_module, self._newer(steps), dependents="cascade", discard_changes=True)
        graph_module.recompile()  # one of them may have done that

    def _newer(self, steps: list[int]) -> list[int]:
        """The steps of refx that are not among these."""
        known = set(steps)
        return [step.id for step in self.by_refx() if step.id not in known]

    def undo_author(self, graph_module: GraphModule, before: dict[str, torch.nn.Module],
                    steps: list[int]) -> None:
        """Undoes what an author's code did before it failed. `steps` are the steps from before."""
        if self.graph is not None and graph_module.graph is not self.graph:
            graph_module.graph = self.graph
        try:
            self.read(graph_module)
        except _core.Error:  # the graph cannot be read
            changed, _ = self.mirror.reverse(self._newer(steps), "cascade", True)
            self.keep_displaced(graph_module, before)
            self.mirror.write_all(self.tables, graph_module, changed)
            graph_module.recompile()
        else:
            self.keep_displaced(graph_module, before)
            self.undo_since(graph_module, steps)

    def drop_if_done(self, graph_module: GraphModule) -> None:
        """Removes the history if it has no steps."""
        if self.author is None and not self.mirror.has_steps():
            _core.Mirror.put_back_containers(self.tables, graph_module)
            History.drop(graph_module)

    def prune(self) -> None:
        """Releases objects that no step needs any more."""
        nodes, states, modules = self.mirror.changed_by_steps()
        paths = set(modules) | {name.rpartition(".")[0] for name in states}
        held = {id(tensor) for tensor in self.mirror.tensors()}
        tables = self.tables
        tables.displaced = {
            path: [m for m in kept if all(id(t) in held for t in _tensors(m))]
            for path, kept in tables.displaced.items()
            if path in paths
        }
        tables.forget_erased(nodes)
        live = set(self.step_ids())
        tables.signatures = {step: s for step, s in tables.signatures.items() if step in live}

    # ---- copies and files ----------------------------------------------------------------------

    def _state(self, with_meta: bool) -> dict[str, Any]:
        with self.lock:
            self._read_owner()
            return self._saved(with_meta)

    def _read_owner(self) -> None:
        """Reads the changes by others before a copy is made: among them are marks, which the copy would not have."""
        owner = self.graph.owning_module if self.graph is not None else None
        if not isinstance(owner, GraphModule) or owner.__dict__.get(_ATTRIBUTE) is not self:
            return
        if owner.graph is self.graph and self.author is None:
            with contextlib.suppress(_core.Error):  # the graph cannot be read
                self.read(owner)

    def _saved(self, with_meta: bool) -> dict[str, Any]:
        tables = self.tables
        data, tensors = self.mirror.save()
        erased: dict[int, tuple[str, dict[str, Any], Any]] = {}
        names = []
        live = set(self.mirror.live())
        for place, number in enumerate(self.mirror.slots()):
            node = tables.node(number)
            if number in live:
                names.append(self.renamed.get(number, node.name) if node is not None else "")
            elif node is not None:
                erased[place] = (node.name, dict(node.meta) if with_meta else {}, node.type)
            elif number in tables.erased:
                erased[place] = tables.erased[number]
        if not any(names):
            names = self._saved_names
        functions = {
            name: None if _is_importable(name, function) else function
            for name, function in tables.functions.items()
        }
        return {
            "data": data, "tensors": tensors, "erased": erased, "names": names,
            "objects": tables.objects, "functions": functions, "modules": tables.displaced,
            "order": tables.name_order, "made_containers": tables.made_containers,
            "containers": tables.copied_containers, "signatures": tables.signatures,
            "stamped": tables.stamped,
        }

    @classmethod
    def _load(cls, state: dict[str, Any]) -> History:
        self = cls()
        self.mirror = _core.Mirror.load(state["data"], state["tensors"])
        self._saved_names = state["names"]
        tables = self.tables
        for value in state["objects"]:
            tables.add_object(value)
        for name, function in state["functions"].items():
            if function is None:
                tables.find_function(name)
            else:
                tables.add_function(name, function)
        tables.erased = state["erased"]
        tables.displaced = state["modules"]
        tables.name_order = state["order"]
        tables.made_containers = state["made_containers"]
        tables.copied_containers = state["containers"]
        tables.signatures = state["signatures"]
        # Older files do not have it: then what is live, at least.
        tables.stamped = state.get("stamped", {step.signature for step in self.by_refx()})
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return History._load, (self._state(with_meta=False),)

    def __deepcopy__(self, memo: dict[int, Any]) -> History:
        state = self._state(with_meta=True)
        # torch.fx, too, copies neither what nodes hold nor their metadata.
        shared = {key: state.pop(key) for key in ("erased", "objects", "functions")}
        history = History._load({**copy.deepcopy(state, memo), **shared})
        memo[id(self)] = history
        history._copied_graph = self._copy_graph(memo)
        # A GraphModule that was unpickled and not used since has it as an attribute only, which
        # GraphModule.__deepcopy__ drops: so give it to the copy that is being made.
        unfinished = [v for v in memo.values() if isinstance(v, GraphModule) and not v.__dict__]
        if unfinished:
            unfinished[-1].__dict__[_ATTRIBUTE] = history
        return history

    def _copy_graph(self, memo: dict[int, Any]) -> Graph | None:
        """Copies the graph with its marks. The GraphModule that is being copied finds the copy in ``memo``."""
        graph = self._copied_graph if self.graph is None else self.graph
        if graph is None:
            return None
        copied_graph: Graph = copy.deepcopy(graph, memo)
        for node, copied in zip(graph.nodes, copied_graph.nodes):
            marks = vars(node).get("transformations")
            if isinstance(marks, set):
                copied.transformations = set(marks)
        return copied_graph


def _tensors(module: torch.nn.Module) -> Iterator[torch.Tensor]:
    for table in (module._parameters, module._buffers):
        yield from (tensor for tensor in table.values() if tensor is not None)


def _is_importable(name: str, function: Callable[..., Any]) -> bool:
    try:
        return _functions.find(name) is function
    except LookupError:
        return False
