# SPDX-License-Identifier: Apache-2.0
"""Optimizers of rewritten GraphModules: which weights consist of which, and the state of each."""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch.nn import Module, Parameter
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.weak import TensorWeakRef, WeakTensorKeyDictionary

from .. import _core


class StaleOptimizer(UserWarning):
    """Warns that an optimizer holds parameters that a rewrite, or its undo, removed from the GraphModule."""


# One of the originals that a weight is made of: its name, and the views that lead to it, each as
# (dim, start, length, shape). A name of None is a part without an original.
_Part = tuple[str | None, tuple[tuple[int, int, int, torch.Size], ...]]

# What the weights that steps made are made of; None: they were computed, not put together.
_parts: Any = WeakTensorKeyDictionary()
# id -> (weak reference, likewise to the gradient when it was displaced, version of that gradient)
_displaced: dict[int, tuple[Any, Any, int]] = {}
_checked: weakref.WeakSet[Optimizer] = weakref.WeakSet()  # warned, or seen to train what it holds
_hook: Any = None


def _is_displaced(tensor: torch.Tensor) -> bool:
    known = _displaced.get(id(tensor))
    return known is not None and known[0]() is tensor


def _has_new_gradient(tensor: torch.Tensor) -> bool:
    """Whether a removed parameter got a gradient since. A gradient of zeros does not count."""
    if tensor.grad is None:
        return False
    _, grad, version = _displaced[id(tensor)]
    if grad is not None and grad() is tensor.grad and tensor.grad._version == version:
        return False
    return bool(tensor.grad.any())


def remember_parts(made: Iterable[Any]) -> list[torch.Tensor]:
    """Remembers which weights the new weights consist of. Returns all tensors affected."""
    affected = []
    for _, whole, pieces in made:
        known: list[_Part] | None = [] if pieces else None
        for name, part, dim, start, length in pieces:
            assert known is not None
            if part is None:
                known.append((None, ((dim, start, length, torch.Size()),)))
                continue
            affected.append(part)
            inner = _parts.get(part, [(name, ())])
            if inner is None:  # made of what was computed
                known = None
                break
            known += [(leaf, ((dim, start, length, part.shape), *views)) for leaf, views in inner]
        _parts[whole] = known
        if pieces:
            affected.append(whole)
    return affected


def changed_flags(made: Iterable[Any]) -> dict[str, bool]:
    """By the names of originals: ``requires_grad`` of the weight made of them, if somebody changed it."""
    flags: dict[str, bool] = {}
    for whole_name, whole, pieces in reversed(list(made)):  # a part may be the whole of an earlier step
        parts = {name: part for name, part, *_ in pieces if part is not None}
        were = {part.requires_grad for part in parts.values()}
        now = flags.get(whole_name, whole.requires_grad)
        if len(were) == 1 and now not in were:
            flags.update(dict.fromkeys(parts, now))
    return flags


def set_flags(flags: dict[str, bool], module: Module) -> None:
    """Sets ``requires_grad`` of the parameters with these names."""
    if flags:
        for name, parameter in module.named_parameters(remove_duplicate=False):
            if name in flags:
                parameter.requires_grad_(flags[name])


def _forget(key: int, _: Any) -> None:
    _displaced.pop(key, None)


def watch_for_stale(affected: list[torch.Tensor], module: Module) -> None:
    """Makes optimizers warn that hold parameters among these that the module no longer has."""
    global _hook
    if not affected:
        return
    held = {id(parameter) for parameter in module.parameters()}
    _checked.clear()  # what an optimizer holds may have been displaced just now
    for tensor in affected:
        if id(tensor) in held:
            _displaced.pop(id(tensor), None)
        elif isinstance(tensor, Parameter):
            grad = tensor.grad
            _displaced[id(tensor)] = (weakref.ref(tensor, functools.partial(_forget, id(tensor))),
                                      None if grad is None else TensorWeakRef(grad),
                                      0 if grad is None else grad._version)
    if _hook is None and _displaced:
        _hook = register_optimizer_step_pre_hook(_before_step)


def _before_step(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
    """Warns of stale optimizers. An optimizer of the traced model has new gradients, a stale one has none."""
    if optimizer in _checked:
        return
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    displaced = [p for p in parameters if p.requires_grad and _is_displaced(p)]
    stale = sum(not _has_new_gradient(p) for p in displaced)
    if displaced:
        _checked.add(optimizer)
    if stale:
        warnings.warn(
            f"{stale} of the optimizer's {len(parameters)} parameters are no longer in the GraphModule: it was "
            "rewritten, or that was undone, after the optimizer was made. They are not trained; "
            "refx.fx.remap_optimizer(optimizer, before, after) gives it the present ones", StaleOptimizer, stacklevel=3)


def _view(whole: torch.Tensor, views: tuple[tuple[int, int, int, torch.Size], ...]) -> torch.Tensor:
    for dim, start, length, shape in views:
        whole = whole.narrow(dim, start, length).view(shape)
    return whole


def _named(parameters: Module | Mapping[str, Parameter]) -> dict[str, Parameter]:
    if isinstance(parameters, Module):
        return dict(parameters.named_parameters(remove_duplicate=False))
    return dict(parameters)


def _cannot(name: str, why: str) -> _core.Error:
    return _core.Error(f"the optimizer cannot be remapped: '{name}' {why}; make a new optimizer")


def _positions(parameters: dict[str, Parameter]) -> dict[int, int]:
    positions: dict[int, int] = {}
    for parameter in parameters.values():
        positions.setdefault(id(parameter), len(positions))
    return positions


def _is_sorted(parameters: list[Parameter], positions: dict[int, int]) -> bool:
    order = [positions.get(id(parameter), -1) for parameter in parameters]
    return order == sorted(order)


class _Remapping:
    """Splits the state of an optimizer into the state of the originals, and joins it for the new parameters."""

    def __init__(self, optimizer: Optimizer, before: dict[str, Parameter], after: dict[str, Parameter]):
        self.optimizer = optimizer
        self.after = after
        self.names = {id(p): name for name, p in before.items()}
        self.order_before = _positions(before)
        self.present = {id(p) for p in after.values()}
        self.originals: dict[str, tuple[int, dict[str, Any]]] = {}  # group and state
        self.held = {id(p) for group in optimizer.param_groups for p in group["params"]}

    def run(self) -> None:
        if isinstance(self.optimizer, torch.optim.LBFGS):
            raise _core.Error("the optimizer cannot be remapped: LBFGS keeps one vector for all parameters; make a new "
                              "optimizer")
        state: dict[Parameter, dict[str, Any]] = {}
        groups: list[list[Parameter]] = [[] for _ in self.optimizer.param_groups]
        for number, group in enumerate(self.optimizer.param_groups):
            for parameter in group["params"]:
                if id(parameter) in self.present:
                    groups[number].append(parameter)
                    state[parameter] = self.optimizer.state.get(parameter, {})
                else:
                    self.take_apart(number, parameter)
        used: set[str] = set()
        seen = set(self.held)
        for name, parameter in self.after.items():
            if id(parameter) in seen:
                continue
            seen.add(id(parameter))
            parts = _parts.get(parameter, [(name, ())])
            if parts is None:
                if parameter.requires_grad:
                    raise _cannot(name, "was computed from several weights, and what the optimizer knows of those "
                                        "does not say what it would know of it")
                continue
            if not any(leaf in self.originals for leaf, _ in parts):
                continue  # the optimizer did not have it, either
            number, state[parameter] = self.put_together(name, parameter, parts)
            groups[number].append(parameter)
            used |= {leaf for leaf, _ in parts if leaf is not None}
        for name in self.originals:
            if name not in used:
                raise _cannot(name, "is not among the parameters of `after`")
        order_after = _positions(self.after)
        for group, parameters in zip(self.optimizer.param_groups, groups):
            # state_dict() numbers parameters by their order: a group in the model's order stays in it.
            if _is_sorted(group["params"], self.order_before):
                parameters.sort(key=lambda parameter: order_after[id(parameter)])
            group["params"][:] = parameters
        self.optimizer.state.clear()
        self.optimizer.state.update({p: s for p, s in state.items() if s})
        _checked.discard(self.optimizer)

    def take_apart(self, number: int, parameter: Parameter) -> None:
        name = self.names.get(id(parameter))
        if name is None:
            raise _core.Error("the optimizer has a parameter that is not in `before`, which are the parameters before "
                              "the rewrite: `before = dict(gm.named_parameters())`")
        parts = _parts.get(parameter, [(name, ())])
        if parts is None:
            raise _cannot(name, "was computed from several weights, and what the optimizer knows of it cannot be "
                                "divided among them")
        known = self.optimizer.state.get(parameter, {})
        for leaf, views in parts:
            if leaf is not None:
                self.originals[leaf] = number, {
                    key: _view(value, views).clone() if _is_like(value, parameter) else value
                    for key, value in known.items()}

    def put_together(self, name: str, parameter: Parameter, parts: list[_Part]) -> tuple[int, dict[str, Any]]:
        missing = [leaf for leaf, _ in parts if leaf is not None and leaf not in self.originals]
        if missing:
            raise _cannot(name, f"contains '{missing[0]}', which the optimizer does not have")
        found = [(leaf, views, *self.originals[leaf]) for leaf, views in parts if leaf is not None]
        first, _, number, known = found[0]
        made: dict[str, Any] = {}
        for key, value in known.items():
            per_element = isinstance(value, torch.Tensor) and value.dim() > 0
            made[key] = value.new_zeros(parameter.shape) if per_element else _copy(value)
        for leaf, views, group, state in found:
            if group != number:
                raise _cannot(name, f"contains '{first}' and '{leaf}', which are in different parameter groups")
            if state.keys() != known.keys():
                raise _cannot(name, f"contains '{first}' and '{leaf}', of which the optimizer knows different things")
            for key, value in state.items():
                if isinstance(value, torch.Tensor) and value.dim() > 0:
                    target = _view(made[key], views)
                    if target.shape != value.shape:
                        raise _cannot(name, f"has a state '{key}' that is not one number for each element")
                    target.copy_(value)
                elif bool(value != made[key]):
                    raise _cannot(name, f"contains '{first}' and '{leaf}', whose state '{key}' differs")
        return number, made


def _is_like(value: Any, parameter: torch.Tensor) -> bool:
    return isinstance(value, torch.Tensor) and value.dim() > 0 and value.shape == parameter.shape


def _copy(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def remap_optimizer(optimizer: Optimizer, before: Module | Mapping[str, Parameter],
                    after: Module | Mapping[str, Parameter]) -> None:
    """Moves an optimizer to the parameters that a rewrite, or its undo, put in place of others.

    Parameter groups and the state of each element (momentum, the moments of Adam) are split and joined like the weights.
    If weights were computed and not joined, such as by folding a batch norm, that is an ``Error``, and the optimizer is
    not changed.

    Args:
        optimizer: an optimizer of parameters in ``before``. It is changed in place.
        before: the parameters before the rewrite, ``dict(gm.named_parameters())``.
        after: the current GraphModule, or its parameters by name.
    """
    with torch.no_grad():
        _Remapping(optimizer, _named(before), _named(after)).run()
