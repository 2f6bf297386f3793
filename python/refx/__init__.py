# SPDX-License-Identifier: Apache-2.0
"""Reversible rewrites of PyTorch graphs.

Every rewrite of a model is a step in its history. Steps can be listed and reversed, one by one and in
any order, bit for bit. ``refx.load`` reads files of ``torch.export.save``; ``refx.fx`` works on
``torch.fx.GraphModule``.
"""

import torch

from refx_program import wrong_torch

from . import _build

if _problem := wrong_torch(torch.__version__, _build.TORCH, _build.VERSION):
    raise ImportError(_problem)

from . import _core  # noqa: E402
from ._benchmark import Benchmark, Contest, Rates, StepBenchmark, Timing  # noqa: E402
from ._bisection import Bisection, Culprit  # noqa: E402
from ._core import Error, InternalError, explain  # noqa: E402
from ._model import DetachedTensor, Model, Refusal, Site, export, from_exported, load  # noqa: E402
from ._report import Report  # noqa: E402
from ._rule import Any, Factor, Matched, Rule, Weight, either, rule, rules, value_or  # noqa: E402
from ._sensitivity import Sensitivity, StepSensitivity  # noqa: E402
from ._step import Step  # noqa: E402
from ._tuning import Combination, SiteChoice, SiteClass, Trial, Tuning, WithinBudget  # noqa: E402
from ._verification import (  # noqa: E402
    Distance,
    LossyCheck,
    OutputCheck,
    SetCheck,
    StepCheck,
    StepPower,
    Verification,
)

__version__ = _build.VERSION

__all__ = ["Any", "Benchmark", "Bisection", "Combination", "Contest", "Culprit", "DetachedTensor",
           "Distance", "Error", "Factor", "InternalError", "LossyCheck", "Matched", "Model",
           "OutputCheck", "Rates", "Refusal", "Report", "Rule", "Sensitivity", "SetCheck", "Site",
           "SiteChoice", "SiteClass", "Step", "StepBenchmark", "StepCheck", "StepPower",
           "StepSensitivity", "Timing", "Trial", "Tuning", "Verification", "Weight", "WithinBudget",
           "either", "explain", "export", "from_exported", "fx", "load", "rule", "rules", "value_or"]

# Users see the public names, in reprs and in pickles, too.
for _type in [globals().get(_name) for _name in __all__]:
    if isinstance(_type, type) and _type.__module__.startswith("refx._"):
        _type.__module__ = "refx"
del _type

from . import fx  # noqa: E402
