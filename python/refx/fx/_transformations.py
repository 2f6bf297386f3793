"""The transformations, and how to write one."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import warnings
from abc import ABC, abstractmethod
from typing import Any, Callable, Optional, Union

from torch.fx import GraphModule, Node

from .. import _core
from .._lab import Bisection, Progress, callback
from .._step import Step
from ._journal import STAMP, Journal

_MARKS = "refx"


def _journal(graph_module: GraphModule) -> Journal:
    journal = Journal.find(graph_module)
    if journal is None:
        journal = Journal()
        journal.hang(graph_module)
    return journal


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
            lint_and_recompile: check the graph and generate its code again. ``False`` saves that
                time while several transformations follow one another.
        """
        return _finish(self._run(graph_module), lint_and_recompile)

    def _run(self, graph_module: GraphModule) -> GraphModule:
        return _journalled(self, self.transform, graph_module)

    @property
    def signature(self) -> str:
        """Identifies the transformation by class and attributes, in every process."""
        cls = type(self)
        parameters = ", ".join(f"{k}={v!r}" for k, v in sorted(vars(self).items()))
        name = f"{cls.__module__}.{cls.__qualname__}"
        return f"{name}({parameters})" if parameters else name

    def mark_as_transformed(self, node: Node) -> None:
        """Marks a node as transformed by this transformation."""
        marks = node.meta.get(_MARKS, ())
        if self.signature not in marks:
            node.meta[_MARKS] = (*marks, self.signature)

    def transformed(self, node: Node) -> bool:
        """Whether the node was transformed by this transformation."""
        owner = node.graph.owning_module
        if isinstance(owner, GraphModule):
            journal = Journal.find(owner)
            if journal is not None and journal.graph is None:
                journal.read(owner)  # a copy, whose marks are still to be set
        return self.signature in node.meta.get(_MARKS, ())

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
        journal = Journal.find(graph_module)
        if journal is None:
            _require_unmarked(self, graph_module)
            _require_unmade(self, graph_module)
            return graph_module
        with journal.at_work(graph_module):
            journal.read(graph_module)
            steps = journal.steps_of(self.signature)
            if not steps:
                _require_unmade(self, graph_module)
            journal.reverse(graph_module, steps)
        return graph_module

    def __call__(self, graph_module: GraphModule, lint_and_recompile: bool = True,
                 reverse: bool = False) -> GraphModule:
        """Rewrites the GraphModule, or takes that back.

        Args:
            graph_module: what to rewrite, in place.
            lint_and_recompile: check the graph and generate its code again. ``False`` saves that
                time while several transformations follow one another.
            reverse: take back what this transformation did.
        """
        if not reverse:
            return super().__call__(graph_module, lint_and_recompile)
        knows_nothing = Journal.find(graph_module) is None and not self._has_own_reverse()
        graph_module = _finish(self._run_reverse(graph_module), lint_and_recompile)
        if knows_nothing:
            warnings.warn(f"{self.signature}: nothing was reversed, the GraphModule has no history",
                          NothingReversed, stacklevel=2)
        return graph_module

    def _has_own_reverse(self) -> bool:
        return type(self).reverse is not ReversibleTransformation.reverse

    def _run_reverse(self, graph_module: GraphModule) -> GraphModule:
        if not self._has_own_reverse():
            return self.reverse(graph_module)
        return _journalled(self, self.reverse, graph_module)

    def mark_as_restored(self, node: Node) -> None:
        """Takes the mark of this transformation from a node."""
        if not self.transformed(node):
            raise ValueError("The node was not transformed by this transformation.")
        marks = tuple(mark for mark in node.meta[_MARKS] if mark != self.signature)
        if marks:
            node.meta[_MARKS] = marks
        else:
            del node.meta[_MARKS]


def _finish(graph_module: GraphModule, lint_and_recompile: bool) -> GraphModule:
    if lint_and_recompile:
        graph_module.graph.lint()
        graph_module.recompile()
    return graph_module


_GONE = ("but the GraphModule's history is gone: it was not carried over to this GraphModule, or was "
         "forgotten; reverse the GraphModule that was transformed")


def _require_unmarked(transformation: Transformation, graph_module: GraphModule) -> None:
    signature = transformation.signature
    for node in graph_module.graph.nodes:
        if signature in node.meta.get(_MARKS, ()):
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


def _journalled(transformation: Transformation, function: Any, graph_module: GraphModule) -> GraphModule:
    """Runs somebody's torch.fx code; what it changes becomes a step."""
    journal = _journal(graph_module)
    with journal.at_work(graph_module):
        if journal.author is not None:  # inside another one: its step
            return function(graph_module)
        journal.read(graph_module)
        steps, before = journal.step_ids(), journal.called_modules(graph_module)
        journal.author = (type(transformation).__name__, transformation.signature)
        try:
            result = function(graph_module)
            if result is graph_module:
                journal.read(graph_module)
                journal.keep_displaced(graph_module, before)
        except BaseException:
            journal.undo_author(graph_module, before, steps)
            raise
        finally:
            journal.author = None
        return result


class _BuiltIn(ReversibleTransformation):
    """A transformation that the library does."""

    preserves_computation = True
    _name: str

    @property
    def signature(self) -> str:
        return self._name if type(self).__bases__ == (_BuiltIn,) else super().signature

    def transform(self, graph_module: GraphModule) -> GraphModule:
        """Rewrites every site of the GraphModule. ``explain`` says which, and which not and why."""
        journal = _journal(graph_module)
        with journal.at_work(graph_module):
            journal.read(graph_module)
            # Inside somebody's transformation it is part of that one.
            author = journal.author
            journal.apply(graph_module, self._name, author[1] if author else self.signature)
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
        journal = Journal.find(graph_module)
        return {node for step in (journal.steps() if journal is not None else ())
                if step.signature == self.signature
                for node in step.nodes if self._name in node.meta.get(_MARKS, ())}

    def _run(self, graph_module: GraphModule) -> GraphModule:
        if type(self).transform is _BuiltIn.transform:
            return self.transform(graph_module)
        return super()._run(graph_module)


class MergeLinears(_BuiltIn):
    """Merges linears that have the same input into one, whose output is then sliced."""

    _name = "merge-linears"


class FuseBiasInLinear(_BuiltIn):
    """Makes the bias of a linear a column of its weight; the input gets a column of ones."""

    _name = "fuse-bias-in-linear"


class ChangeTrueDivToMulByInverse(_BuiltIn):
    """Multiplies by ``1 / c`` instead of dividing by a constant ``c``."""

    _name = "change-true-div-to-mul-by-inverse"


class FuseBatchNorm2dInConv2d(_BuiltIn):
    """Folds a batch norm in evaluation mode into the convolution before it."""

    _name = "fuse-batch-norm-2d-in-conv-2d"


class FuseBatchNorm1dInLinear(_BuiltIn):
    """Folds a batch norm in evaluation mode into the linear before or after it."""

    _name = "fuse-batch-norm-1d-in-linear"


class _Composition(Transformation):
    def __init__(self, parts: tuple[Transformation, ...], inplace: bool) -> None:
        self._parts = parts
        self._inplace = inplace
        self.preserves_computation = all(part.preserves_computation for part in parts)

    @property
    def signature(self) -> str:
        return f"compose({', '.join(part.signature for part in self._parts)})"

    def _run(self, graph_module: GraphModule) -> GraphModule:
        return self.transform(graph_module)

    def transform(self, graph_module: GraphModule) -> GraphModule:
        """Applies the parts, left to right."""
        if not self._inplace:
            graph_module = copy.deepcopy(graph_module)
        journal = Journal.find(graph_module)
        steps = journal.step_ids() if journal is not None else []
        try:
            for part in self._parts:
                graph_module = part(graph_module, lint_and_recompile=False)
        except BaseException:
            journal = Journal.find(graph_module)
            if journal is not None:
                with journal.at_work(graph_module):
                    journal.read(graph_module)
                    journal.undo_since(graph_module, steps)
            raise
        return graph_module

    def transformed(self, node: Node) -> bool:
        return any(part.transformed(node) for part in self._parts)


class _ReversibleComposition(_Composition, ReversibleTransformation):
    def reverse(self, graph_module: GraphModule) -> GraphModule:
        """Takes the parts back, right to left."""
        if not self._inplace:
            graph_module = copy.deepcopy(graph_module)
        try:
            for part in reversed(self._parts):
                assert isinstance(part, ReversibleTransformation)
                graph_module = part._run_reverse(graph_module)
        except BaseException:
            graph_module.recompile()  # for what was taken back
            raise
        return graph_module

    def _has_own_reverse(self) -> bool:
        return any(part._has_own_reverse() for part in self._parts
                   if isinstance(part, ReversibleTransformation))

    def _run_reverse(self, graph_module: GraphModule) -> GraphModule:
        return self.reverse(graph_module)


def compose(*args: Transformation, inplace: bool = True) -> Transformation:
    """One transformation out of several, applied left to right and reversed right to left.

    It is reversible if all of them are, and preserves the computation if all do.

    Args:
        args: the transformations.
        inplace: ``False`` leaves the GraphModule as it is, in both directions, and works on a copy.
    """
    if not args:
        raise _core.Error("compose needs at least one transformation")
    reversible = all(isinstance(part, ReversibleTransformation) for part in args)
    return (_ReversibleComposition if reversible else _Composition)(args, inplace)


# ---- what refx adds --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Site:
    """A place where a transformation applies."""

    name: str
    nodes: tuple[Node, ...] = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True)
class Refusal:
    """A place that looks right, and why it is left alone."""

    site: str
    reason: str
    nodes: tuple[Node, ...] = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True)
class Explanation:
    """What a transformation would do to a GraphModule, and what not."""

    transformation: str
    sites: list[Site]
    refusals: list[Refusal]

    def __str__(self) -> str:
        lines = [f"{self.transformation}: {len(self.sites)} sites, {len(self.refusals)} refusals"]
        lines += [f"  {site.name}" for site in self.sites]
        lines += [f"  {refusal.site}: refused, {refusal.reason}" for refusal in self.refusals]
        return "\n".join(lines)


def explain(transformation: Transformation, graph_module: GraphModule) -> Explanation:
    """The sites of a transformation in a GraphModule, and the refusals with their reasons.

    Nothing is changed. Only for the transformations that come with refx, and compositions of them.
    """
    if isinstance(transformation, _Composition):
        parts = [explain(part, graph_module) for part in transformation._parts]
        return Explanation(
            transformation.signature,
            [site for part in parts for site in part.sites],
            [refusal for part in parts for refusal in part.refusals],
        )
    if not isinstance(transformation, _BuiltIn):
        raise _core.Error(
            f"{type(transformation).__name__} does not say where it applies: explain() knows the "
            "transformations that come with refx"
        )
    journal = Journal.find(graph_module) or Journal()
    with journal.lock:
        journal.read(graph_module)
        sites, refusals = journal.mirror.find(transformation._name)

        def nodes(numbers: list[int]) -> tuple[Node, ...]:
            return tuple(journal.tables.live_nodes(numbers))

        return Explanation(
            transformation._name,
            [Site(name, nodes(numbers)) for name, numbers in sites],
            [Refusal(name, reason, nodes(numbers)) for name, numbers, reason in refusals],
        )


def log(graph_module: GraphModule) -> list[Step]:
    """The steps that were applied to the GraphModule and can be taken back, oldest first."""
    journal = Journal.find(graph_module)
    if journal is None:
        return []
    with journal.lock:
        journal.read(graph_module)
        return list(journal.by_refx())


def reverse(graph_module: GraphModule, what: Union[None, int, str, Step] = None, *,
            dependents: str = "reapply", discard_changes: bool = False,
            lint_and_recompile: bool = True) -> GraphModule:
    """Takes steps back.

    Args:
        graph_module: the GraphModule, changed in place.
        what: a step or its id; a transformation's name or a site, with ``*`` and ``?``; ``None`` is
            every step.
        dependents: what happens to later steps that build on a reversed one: ``"reapply"`` applies
            them again where they still match, ``"cascade"`` reverses them too, ``"refuse"`` raises.
        discard_changes: drop what was trained since, where it cannot be carried back.
    """
    journal = Journal.find(graph_module)
    if journal is None:
        if what is None:
            return graph_module
        raise _core.Error(f"no live step matches '{what}'; the history is empty")
    with journal.at_work(graph_module):
        journal.read(graph_module)
        if what is None:
            steps = [step.id for step in journal.by_refx()]
        else:
            if isinstance(what, Step):
                own = next((step for step in journal.steps() if step.id == what.id), None)
                if own is None or (own.transformation, own.site) != (what.transformation, what.site):
                    raise _core.Error(f"{what} is not a live step of this GraphModule")
                what = what.id
            steps = journal.mirror.select(str(what))
        journal.reverse(graph_module, steps, dependents, discard_changes)
    return _finish(graph_module, lint_and_recompile)


def bisect(graph_module: GraphModule, check: Callable[[GraphModule], Optional[bool]], *,
           progress: Optional[Progress] = None) -> Bisection:
    """The smallest sets of steps that make a check fail.

    Args:
        graph_module: the GraphModule; it stays as it is.
        check: takes a copy that has some of the steps and not the others, and returns True (good),
            False (bad) or None (cannot say).
        progress: called as ``progress(done, total, what)``; or a bar of tqdm.

    Reversing the steps in the result's ``repair`` with ``dependents="cascade"`` makes the check pass.
    """
    journal = Journal.find(graph_module)
    if journal is None:
        raise _core.Error("there is nothing to search: the history is empty")
    with journal.lock:
        journal.read(graph_module)
        steps = list(journal.steps())
        if any(step.transformation == "changes by others" for step in steps):
            raise _core.Error("the graph was changed by others since, which cannot be taken back")

        def judge(kept: list[int]) -> Optional[bool]:
            form = copy.deepcopy(graph_module)
            others = [step.id for step in steps if step.id not in set(kept)]
            copied = Journal.find(form)
            if others and copied is not None:
                copied.read(form)
                copied.reverse(form, others, dependents="cascade")
                copied.drop_if_done(form)
            return check(_finish(form, True))

        return Bisection.of(journal.mirror.bisect(judge, callback(progress)), steps)


def forget(graph_module: GraphModule) -> None:
    """Drops the history, and with it the originals that it keeps. The GraphModule stays as it is.

    What was transformed still says so: to reverse it is an error from then on.
    """
    Journal.drop(graph_module)
