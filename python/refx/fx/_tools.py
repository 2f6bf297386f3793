# SPDX-License-Identifier: Apache-2.0
"""Functions for the history of a GraphModule: explain, log, reverse, bisect and forget."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable

from torch.fx import GraphModule, Node

from .. import _core
from .._bisection import Bisection
from .._progress import Progress, callback
from .._step import Step
from ._base import Transformation, finish, require_graph_module
from ._builtin import BuiltIn
from ._compose import Composition
from ._history import History


@dataclasses.dataclass(frozen=True)
class Site:
    """A site where a transformation applies."""

    name: str
    nodes: tuple[Node, ...] = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True)
class Refusal:
    """A site that a transformation refuses, and why."""

    site: str
    code: str
    """Identifies the reason: a code of ``refx list --reasons``. It does not change in later versions."""
    reason: str
    """The reason as text."""
    nodes: tuple[Node, ...] = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True)
class Explanation:
    """The sites of a transformation in a GraphModule, and its refusals."""

    transformation: str
    sites: list[Site]
    refusals: list[Refusal]

    def __str__(self) -> str:
        lines = [f"{self.transformation}: {len(self.sites)} sites, {len(self.refusals)} refusals"]
        lines += [f"  {site.name}" for site in self.sites]
        lines += [f"  {refusal.site}: refused, {refusal.reason}" for refusal in self.refusals]
        return "\n".join(lines)


def explain(transformation: Transformation | type[BuiltIn], graph_module: GraphModule) -> Explanation:
    """Lists the sites and the refusals of a transformation in a GraphModule, without changing anything.

    Args:
        transformation: a transformation of refx, its class, or a composition of such transformations.
        graph_module: the GraphModule.
    """
    if isinstance(transformation, type) and issubclass(transformation, BuiltIn):
        transformation = transformation()
    if isinstance(transformation, Transformation):
        require_graph_module(transformation, graph_module)
    if isinstance(transformation, Composition):
        parts = [explain(part, graph_module) for part in transformation._parts]
        return Explanation(
            transformation.signature,
            [site for part in parts for site in part.sites],
            [refusal for part in parts for refusal in part.refusals],
        )
    if not isinstance(transformation, BuiltIn):
        raise _core.Error(
            f"{getattr(transformation, '__name__', type(transformation).__name__)} does not say where it applies: "
            "explain(MergeLinears(), graph_module) knows the transformations that come with refx"
        )
    history = History.find(graph_module) or History()
    with history.lock:
        history.read(graph_module)
        sites, refusals = history.mirror.find(transformation._name)

        def nodes(numbers: list[int]) -> tuple[Node, ...]:
            return tuple(history.tables.live_nodes(numbers))

        return Explanation(
            transformation._name,
            [Site(name, nodes(numbers)) for name, numbers in sites],
            [Refusal(name, code, reason, nodes(numbers)) for name, numbers, code, reason in refusals],
        )


def log(graph_module: GraphModule) -> list[Step]:
    """The steps of a GraphModule that can be reversed, oldest first."""
    history = History.find(graph_module)
    if history is None:
        return []
    with history.lock:
        history.read(graph_module)
        return list(history.by_refx())


def reverse(graph_module: GraphModule, what: None | int | str | Step | Iterable[int | str | Step] = None, *,
            dependents: str = "reapply", discard_changes: bool = False,
            lint_and_recompile: bool = True) -> GraphModule:
    """Reverses steps.

    Args:
        graph_module: the GraphModule, which is changed in place.
        what: a step or its id, the name of a transformation or a site (with ``*`` and ``?``), or a list of these. None
            means all steps.
        dependents: what happens to later steps that build on a reversed one: "reapply" applies them again where they
            still match, "cascade" reverses them, too, "refuse" raises an error.
        discard_changes: discard changes by training that cannot be carried back.
        lint_and_recompile: call ``graph.lint()`` and ``recompile()`` afterwards.
    """
    if History.find(graph_module) is None:
        if what is None:
            return graph_module
        raise _core.Error(f"no step matches '{what}'; the history is empty")
    with History.session(graph_module) as history:
        history.read(graph_module)
        if what is None:
            steps = [step.id for step in history.by_refx()]
        else:
            chosen = [what] if isinstance(what, (int, str, Step)) else list(what)
            steps = list(dict.fromkeys(step for one in chosen for step in _select(history, one)))
        history.reverse(graph_module, steps, dependents, discard_changes)
    return finish(graph_module, lint_and_recompile)


def _select(history: History, what: int | str | Step) -> list[int]:
    if isinstance(what, Step):
        own = next((step for step in history.steps() if step.id == what.id), None)
        if own is None or (own.transformation, own.site) != (what.transformation, what.site):
            raise _core.Error(f"{what} is not a step of this GraphModule")
        what = what.id
    return history.mirror.select(str(what))


def bisect(graph_module: GraphModule, check: Callable[[GraphModule], bool | None], *,
           progress: Progress | None = None) -> Bisection:
    """Finds the smallest sets of steps that make a check fail.

    To repair the GraphModule, reverse the steps in ``repair`` of the result with ``dependents="cascade"``.

    Args:
        graph_module: the GraphModule. It is not changed.
        check: a function that takes a copy with some of the steps, and returns True (good), False (bad) or None
            (undecided).
        progress: a function that is called as ``progress(done, total, what)``, or a bar of tqdm.
    """
    history = History.find(graph_module)
    if history is None:
        raise _core.Error("there is nothing to search: the history is empty")
    with history.lock:
        history.read(graph_module)
        steps = list(history.steps())
        if any(step.transformation == _core.Mirror.OTHERS for step in steps):
            raise _core.Error("the graph was changed by others since then, and these changes cannot be reversed")

        def judge(kept: list[int]) -> bool | None:
            form = copy.deepcopy(graph_module)
            others = [step.id for step in steps if step.id not in set(kept)]
            copied = History.find(form)
            if others and copied is not None:
                copied.read(form)
                copied.reverse(form, others, dependents="cascade")
                copied.drop_if_done(form)
            return check(finish(form, True))

        return Bisection.of_steps(history.mirror.bisect(judge, callback(progress)), steps)


def forget(graph_module: GraphModule) -> None:
    """Removes the history, and the originals that it keeps. The GraphModule does not change.

    Transformed nodes stay marked: reversing them is an error from then on.
    """
    History.drop(graph_module)
