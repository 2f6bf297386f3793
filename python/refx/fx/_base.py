# SPDX-License-Identifier: Apache-2.0
"""What a transformation is, and how to write one."""

from __future__ import annotations

import itertools
import warnings
from abc import ABC, abstractmethod
from typing import Any

from torch.fx import GraphModule, Node

from .. import _core
from ._history import STAMP, History
from ._marks import marks_of


class Transformation(ABC):
    """A rewrite of a ``torch.fx.GraphModule``.

    Derive from it, edit the graph in ``transform`` as you would in any torch.fx pass, and call the
    object. What ``transform`` changed becomes a step of the GraphModule's history: it is in ``log``
    and ``reverse`` can take it back.

    Attributes:
        preserves_computation: whether the outputs stay the same, up to rounding.
    """

    preserves_computation: bool = False

    @abstractmethod
    def transform(self, graph_module: GraphModule) -> GraphModule:
        """Rewrites the GraphModule and returns it."""

    def __call__(self, graph_module: GraphModule, lint_and_recompile: bool = True) -> GraphModule:
        """Rewrites the GraphModule.

        Args:
            graph_module: what to rewrite, in place.
            lint_and_recompile: call ``graph.lint()`` and ``recompile()`` afterwards. With ``False``
                the former code stays until ``recompile()`` is called; a pass of your own may leave
                the graph unfinished, and a later one finish it: both are one step then.
        """
        require_graph_module(self, graph_module)
        return finish(self._run(graph_module, lint_and_recompile), lint_and_recompile)

    def _run(self, graph_module: GraphModule, checked: bool) -> GraphModule:
        return recorded(self, self.transform, graph_module, checked)

    @property
    def signature(self) -> str:
        """Identifies the transformation by class and attributes, in every process."""
        cls = type(self)
        parameters = ", ".join(f"{k}={v!r}" for k, v in sorted(vars(self).items()))
        name = f"{cls.__module__}.{cls.__qualname__}"
        return f"{name}({parameters})" if parameters else name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in sorted(vars(self).items()))})"

    def mark_as_transformed(self, node: Node) -> None:
        """Marks a node as transformed by this transformation."""
        node.transformations = marks_of(node) | {self.signature}

    def transformed(self, node: Node) -> bool:
        """Whether the node was transformed by this transformation."""
        return self.signature in marks_of(node)

    def get_transformed_nodes(self, graph_module: GraphModule) -> list[Node]:
        """The nodes that were transformed by this transformation."""
        return [node for node in graph_module.graph.nodes if self.transformed(node)]


class NothingReversed(UserWarning):
    """A GraphModule was to be reversed that has no history: it never had one, or lost it."""


class ReversibleTransformation(Transformation):
    """A transformation that can be taken back.

    ``reverse`` need not be written: refx knows what ``transform`` changed, and restores it exactly. A
    class that does define ``reverse`` is obeyed.
    """

    def reverse(self, graph_module: GraphModule) -> GraphModule:
        """Takes back what this transformation did to the GraphModule."""
        if History.find(graph_module) is None:
            _require_unmarked(self, graph_module)
            _require_unmade(self, graph_module)
            return graph_module
        with History.at_work(graph_module) as history:
            history.read(graph_module)
            steps = history.steps_of(self.signature)
            if not steps:
                _require_unmade(self, graph_module)
            history.reverse(graph_module, steps)
        return graph_module

    def __call__(self, graph_module: GraphModule, lint_and_recompile: bool = True,
                 reverse: bool = False) -> GraphModule:
        """Rewrites the GraphModule, or takes that back.

        Args:
            graph_module: what to rewrite, in place.
            lint_and_recompile: call ``graph.lint()`` and ``recompile()`` afterwards. With ``False``
                the former code stays until ``recompile()`` is called; a pass of your own may leave
                the graph unfinished, and a later one finish it: both are one step then.
            reverse: take back what this transformation did.
        """
        if not reverse:
            return super().__call__(graph_module, lint_and_recompile)
        require_graph_module(self, graph_module)
        knows_nothing = History.find(graph_module) is None and not self._has_own_reverse()
        graph_module = finish(self._run_reverse(graph_module, lint_and_recompile), lint_and_recompile)
        if knows_nothing:
            warnings.warn(f"{self.signature}: nothing was reversed, the GraphModule has no history",
                          NothingReversed, stacklevel=2)
        return graph_module

    def _has_own_reverse(self) -> bool:
        return type(self).reverse is not ReversibleTransformation.reverse

    def _run_reverse(self, graph_module: GraphModule, checked: bool) -> GraphModule:
        if not self._has_own_reverse():
            return self.reverse(graph_module)
        return recorded(self, self.reverse, graph_module, checked)

    def mark_as_restored(self, node: Node) -> None:
        """Takes the mark of this transformation from a node."""
        if not self.transformed(node):
            raise ValueError("The node was not transformed by this transformation.")
        node.transformations = marks_of(node) - {self.signature}


def require_graph_module(transformation: Transformation, given: Any) -> None:
    if not isinstance(given, GraphModule) and hasattr(given, "to_exported"):
        raise TypeError(f"{type(transformation).__name__} takes a torch.fx.GraphModule, not a refx.Model; "
                        "model.apply(...) rewrites it, and model.to_exported().module() is a GraphModule")
    if not isinstance(given, GraphModule):
        raise TypeError(f"{type(transformation).__name__} takes a torch.fx.GraphModule, not a {type(given).__name__}; "
                        "torch.fx.symbolic_trace(model) makes one, and refx.export(model, args).apply(...) rewrites "
                        "exported programs")


def finished(graph_module: GraphModule) -> None:
    """Raises if a pass left the graph in no state to be read, and takes back what did."""
    history = History.find(graph_module)
    if history is not None:
        with history.lock:
            history.require_finished(graph_module)


def finish(graph_module: GraphModule, lint_and_recompile: bool) -> GraphModule:
    """Lints and recompiles the GraphModule, if that was asked for."""
    if lint_and_recompile:
        with History.at_work(graph_module) as history:  # no other thread edits the graph meanwhile
            history.require_finished(graph_module)
            graph_module.graph.lint()
            graph_module.recompile()
    return graph_module


_GONE = ("but the GraphModule's history is gone: it was not carried over to this GraphModule, or was "
         "forgotten; reverse the GraphModule that was transformed")


def _require_unmarked(transformation: Transformation, graph_module: GraphModule) -> None:
    signature = transformation.signature
    for node in graph_module.graph.nodes:
        stamp = node.meta.get("refx")
        if signature in marks_of(node) or (isinstance(stamp, tuple) and signature in stamp):
            raise _core.Error(f"node '{node.name}' was transformed by {signature}, {_GONE}")


def _require_unmade(transformation: Transformation, graph_module: GraphModule) -> None:
    """What the transformation made says so, also where nodes were made anew and have no marks."""
    signature = transformation.signature
    things = itertools.chain(
        graph_module.named_modules(), graph_module.named_parameters(), graph_module.named_buffers(),
        ((str(node.target), _core.attribute_at(graph_module, str(node.target)))
         for node in graph_module.graph.nodes if node.op == "get_attr"))
    for path, thing in things:
        if path and signature in getattr(thing, "__dict__", {}).get(STAMP, ()):
            raise _core.Error(f"'{path}' was made by {signature}, {_GONE}")


def recorded(transformation: Transformation, function: Any, graph_module: GraphModule,
             checked: bool) -> GraphModule:
    """Runs somebody's torch.fx code; what it changes becomes a step. Unless that is to be checked, the
    graph may be in no state to be read afterwards: then what comes next belongs to the same step.
    """
    with History.at_work(graph_module) as history:
        if history.author is not None and history.unfinished is None:  # inside another one: its step
            return function(graph_module)
        unfinished = history.go_on(graph_module)
        if unfinished is None:
            history.read(graph_module)
            unfinished = history.step_ids(), history.called_modules(graph_module)
            history.author = (type(transformation).__name__, transformation.signature)
        steps, before = unfinished
        try:
            result = function(graph_module)
            if not isinstance(result, GraphModule):
                raise TypeError(f"{function.__qualname__} has to return the GraphModule, not a {type(result).__name__}")
            if result is graph_module:
                try:
                    history.read(graph_module)
                    history.keep_displaced(graph_module, before)
                except _core.Error:
                    if checked:
                        raise
                    history.unfinished = unfinished
        except BaseException:
            history.undo_author(graph_module, before, steps)
            raise
        finally:
            if history.unfinished is None:
                history.author = None
        return result
