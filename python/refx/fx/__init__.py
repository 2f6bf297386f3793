# SPDX-License-Identifier: Apache-2.0
"""Reversible transformations of ``torch.fx.GraphModule``.

The names, arguments and behaviour are those of ``optimum.fx.optimization``: only the import changes.

    from refx.fx import MergeLinears, compose

    gm = torch.fx.symbolic_trace(model)
    merge = MergeLinears()
    gm = merge(gm)                  # the traced model does not change
    gm = merge(gm, reverse=True)    # as before, bit for bit

``Rule`` is a declarative rewrite rule, see ``refx.rule``. ``explain`` lists the sites of a transformation and
its refusals, ``log`` the steps in the history. ``reverse`` undoes steps, and ``bisect`` finds the steps that make
a check fail.
"""

from typing import TYPE_CHECKING

from .._step import Step
from . import _library
from ._base import NothingReversed, ReversibleTransformation, Transformation
from ._compose import compose
from ._library import *  # noqa: F403
from ._optimizer import StaleOptimizer, remap_optimizer
from ._rule import Rule
from ._tools import Explanation, Refusal, Site, bisect, explain, forget, log, reverse

__all__ = [
    "Explanation",
    "NothingReversed",
    "Refusal",
    "ReversibleTransformation",
    "Rule",
    "Site",
    "StaleOptimizer",
    "Step",
    "Transformation",
    "bisect",
    "compose",
    "explain",
    "forget",
    "log",
    "remap_optimizer",
    "reverse",
]
__all__ += [*_library.__all__, *_library.OLD_CLASSES]
globals().update(_library.OLD_CLASSES)


def __dir__() -> list[str]:
    """The names of this module, without former names of classes."""
    return sorted(set(globals()) - set(_library.OLD_CLASSES))


if TYPE_CHECKING:
    from ._builtin import BuiltIn

    def __getattr__(name: str) -> type[BuiltIn]:  # one for every transformation of the library
        ...
