# SPDX-License-Identifier: Apache-2.0
"""The base classes of transformations."""

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

    To write your own, derive from this class and edit the graph in ``transform``, as in any pass of torch.fx. Calling
    the object applies it. The changes become a step in the history of the GraphModule, which ``log`` lists and
    ``reverse`` undoes.

    Attributes:
        preserves_computation: whether the outputs stay the same up to rounding. If not, its steps are recorded as
            approximate.
    """

    preserves_computation: bool = False

    @abstractmethod
    def transform(self, graph_module: GraphModule) -> GraphModule:
        """Rewrites the GraphModule and returns it."""

    def __call__(self, graph_module: GraphModule, lint_and_recompile: bool = True) -> GraphModule:
        """Applies the transformation.

        Args:
            graph_module: the GraphModule, which is changed in place.
            lint_and_recompile: call ``graph.lint()`` and ``recompile()`` afterwards. With False the old code stays until
                ``recompile()`` is called, and a transformation of your own may leave the graph incomplete for a later one
                to complete: both are recorded as one step.
        """
        require_graph_module(self, graph_module)
        return finish(self._run(graph_module, lint_and_recompile), lint_and_recompile)

    def _run(self, graph_module: GraphModule, checked: bool) -> GraphModule:
        return record_step(self, self.transform, graph_module, checked)

    @property
    def signature(self) -> str:
        """Identifies the transformation by its class and attributes. It is the same in every process."""
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
        """Whether a node was transformed by this transformation."""
        return not marks_of(node).isdisjoint(_core.all_names(self.signature))

    def get_transformed_nodes(self, graph_module: GraphModule) -> list[Node]:
        """The nodes that were transformed by this transformation."""
        return [node for node in graph_module.graph.nodes if self.transformed(node)]


class NothingReversed(UserWarning):
    """Warns that a GraphModule has no history, so that nothing was reversed."""


class ReversibleTransformation(Transformation):
    """A transformation that can be reversed.

    You need not write ``reverse``: refx records what ``transform`` changes, and restores it exactly. If your class
    defines ``reverse``, that method is called instead.
    """

    def reverse(self, graph_module: GraphModule) -> GraphModule:
        """Undoes what this transformation did to the GraphModule."""
        if History.find(graph_module) is None:
            _require_unmarked(self, graph_module)
            _require_unmade(self, graph_module)
            return graph_module
        with History.session(graph_module) as history:
            history.read(graph_module)
            steps = history.steps_of(self.signature)
            if not steps:
                _require_unmade(self, graph_module)
            history.reverse(graph_module, steps)
        return graph_module

    def __call__(self, graph_module: GraphModule, lint_and_recompile: bool = True,
                 reverse: bool = False) -> GraphModule:
        """Applies the transformation, or undoes it.

        Args:
            graph_module: the GraphModule, which is changed in place.
            lint_and_recompile: call ``graph.lint()`` and ``recompile()`` afterwards. With False the old code stays until
                ``recompile()`` is called, and a transformation of your own may leave the graph incomplete for a later one
                to complete: both are recorded as one step.
            reverse: undo what this transformation did.
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
        return record_step(self, self.reverse, graph_module, checked)

    def mark_as_restored(self, node: Node) -> None:
        """Removes the mark of this transformation from a node."""
        if not self.transformed(node):
            raise ValueError("The node was not transformed by this transformation.")
        node.transformations = marks_of(node).difference(_core.all_names(self.signature))


def require_graph_module(transformation: Transformation, given: Any) -> None:
    if not isinstance(given, GraphModule) and hasattr(given, "to_exported"):
        raise TypeError(f"{type(transformation).__name__} takes a torch.fx.GraphModule, not a refx.Model; "
                        "model.apply(...) rewrites it, and model.to_exported().module() is a GraphModule")
    if not isinstance(given, GraphModule):
        raise TypeError(f"{type(transformation).__name__} takes a torch.fx.GraphModule, not a {type(given).__name__}; "
                        "torch.fx.symbolic_trace(model) makes one, and refx.export(model, args).apply(...) rewrites "
                        "exported programs")


def require_finished(graph_module: GraphModule) -> None:
    """If the graph is incomplete and cannot be read, undoes what left it so, and raises."""
    history = History.find(graph_module)
    if history is not None:
        with history.lock:
            history.require_finished(graph_module)


def finish(graph_module: GraphModule, lint_and_recompile: bool) -> GraphModule:
    """Lints and recompiles the GraphModule, if requested."""
    if lint_and_recompile:
        with History.session(graph_module) as history:  # no other thread edits the graph meanwhile
            history.require_finished(graph_module)
            graph_module.graph.lint()
            graph_module.recompile()
    return graph_module


_GONE = ("but the GraphModule's history is gone: it was not carried over to this GraphModule, or was "
         "forgotten; reverse the GraphModule that was transformed")


def _require_unmarked(transformation: Transformation, graph_module: GraphModule) -> None:
    signatures = set(_core.all_names(transformation.signature))
    for node in graph_module.graph.nodes:
        stamp = node.meta.get("refx")
        marks = marks_of(node).union(stamp if isinstance(stamp, tuple) else ())
        if not signatures.isdisjoint(marks):
            raise _core.Error(f"node '{node.name}' was transformed by {transformation.signature}, {_GONE}")


def _require_unmade(transformation: Transformation, graph_module: GraphModule) -> None:
    """Raises if modules or tensors say that this transformation made them, although the history is gone."""
    signatures = set(_core.all_names(transformation.signature))
    things = itertools.chain(
        graph_module.named_modules(), graph_module.named_parameters(), graph_module.named_buffers(),
        ((str(node.target), _core.attribute_at(graph_module, str(node.target)))
         for node in graph_module.graph.nodes if node.op == "get_attr"))
    for path, thing in things:
        if path and not signatures.isdisjoint(getattr(thing, "__dict__", {}).get(STAMP, ())):
            raise _core.Error(f"'{path}' was made by {transformation.signature}, {_GONE}")


def record_step(transformation: Transformation, function: Any, graph_module: GraphModule,
             checked: bool) -> GraphModule:
    """Runs the code of an author. What it changes becomes a step.

    Unless ``checked``, it may leave the graph incomplete. Then the following changes belong to the same step.
    """
    with History.session(graph_module) as history:
        if history.author is not None and history.pending is None:  # called by another transformation: its step
            return function(graph_module)
        unfinished = history.resume_pending(graph_module)
        if unfinished is None:
            history.read(graph_module)
            unfinished = history.step_ids(), history.called_modules(graph_module)
            history.author = (type(transformation).__name__, transformation.signature,
                              bool(transformation.preserves_computation))
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
                    history.pending = unfinished
        except BaseException:
            history.undo_author(graph_module, before, steps)
            raise
        finally:
            if history.pending is None:
                history.author = None
        return result
