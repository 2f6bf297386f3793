# SPDX-License-Identifier: Apache-2.0
"""Transformations of ``torch.fx.GraphModule`` that can be taken back.

The names, arguments and meaning of ``optimum.fx.optimization``: change the import, nothing else.

    from refx.fx import MergeLinears, compose

    gm = torch.fx.symbolic_trace(model)
    merge = MergeLinears()
    gm = merge(gm)                  # model itself stays as it is
    gm = merge(gm, reverse=True)    # as before, bit for bit

``Rule`` is a rewrite that is written down, see ``refx.rule``. ``explain`` says where a transformation
applies, and where not and why. ``log`` lists the steps that were taken, ``reverse`` takes back some of
them, ``bisect`` finds those that break something.
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
__all__ += _library.__all__

if TYPE_CHECKING:
    from ._builtin import BuiltIn

    def __getattr__(name: str) -> type[BuiltIn]:  # one for every transformation of the library
        ...
