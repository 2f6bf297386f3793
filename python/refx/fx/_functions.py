# SPDX-License-Identifier: Apache-2.0
"""Converts the functions that a graph calls to names, and names to functions.

The library decides what a name means.
"""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.fx.node import _get_qualified_name

from .. import _core


def name_of(function: Callable[..., Any]) -> str:
    """The name under which the library may know a function."""
    if isinstance(function, torch._ops.OpOverload):
        return str(function)  # aten.linear.default
    if isinstance(function, torch._ops.OpOverloadPacket):
        return f"torch.ops.{function}"
    if getattr(operator, getattr(function, "__name__", ""), None) is function:
        return f"operator.{function.__name__}"  # not _operator, where it is from
    try:
        name = _get_qualified_name(function)
    except (RuntimeError, AttributeError):
        kind = type(function)
        return f"{kind.__module__}.{kind.__qualname__} object"
    if getattr(function, "__module__", None) == "builtins":
        return f"builtins.{function.__name__}"
    return name


def find(name: str) -> Callable[..., Any]:
    """The function with a name. Raises LookupError if there is none."""
    parts = _core.operator_parts(name)
    if parts is not None:
        found = _overload(*parts)
        if found is not None:
            return found
    return _importable(name.split("."))


def _overload(space: str, op: str, overload: str) -> Callable[..., Any] | None:
    packet = getattr(getattr(torch.ops, space, None), op, None)
    return getattr(packet, overload, None)


def _importable(parts: list[str]) -> Callable[..., Any]:
    for end in range(len(parts) - 1, 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:end]))
        except ImportError:
            continue
        try:
            for part in parts[end:]:
                found = getattr(found, part)
        except AttributeError:
            continue
        if callable(found):
            return found
    raise LookupError(".".join(parts))
