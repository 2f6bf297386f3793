"""The functions that a graph calls, by name."""

from __future__ import annotations

import importlib
import operator
from typing import Any, Callable

import torch
from torch.fx.node import _get_qualified_name

# Where Python and torch hide what everybody knows by another name.
_PUBLIC_MODULES = {"_operator": "operator"}


def name_of(function: Callable[..., Any]) -> str:
    """A name under which the library may know the function."""
    if isinstance(function, torch._ops.OpOverload):
        return str(function)  # aten.linear.default
    if isinstance(function, torch._ops.OpOverloadPacket):
        return f"torch.ops.{function}"
    if getattr(operator, getattr(function, "__name__", ""), None) is function:
        return f"operator.{function.__name__}"
    try:
        name = _get_qualified_name(function)
    except (RuntimeError, AttributeError):
        kind = type(function)
        return f"{kind.__module__}.{kind.__qualname__} object"
    if getattr(function, "__module__", None) == "builtins":
        return f"builtins.{function.__name__}"
    return name


def find(name: str) -> Callable[..., Any]:
    """The function of that name; raises LookupError if there is none."""
    if name.count(".") == 2 and not name.startswith(("torch.", "operator.")):
        space, op, overload = name.split(".")
        packet = getattr(getattr(torch.ops, space, None), op, None)
        if packet is not None and hasattr(packet, overload):
            return getattr(packet, overload)
    parts = name.split(".")
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
    raise LookupError(name)
