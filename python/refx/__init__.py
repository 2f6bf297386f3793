# SPDX-License-Identifier: Apache-2.0
"""Reversible rewrites of PyTorch graphs.

Every rewrite of a model is a step in a history. Each step can be listed and taken back, alone and in
any order, bit for bit. ``refx.load`` opens what ``torch.export.save`` wrote; ``refx.fx`` works on
``torch.fx.GraphModule``.
"""

import torch

from refx_program import wrong_torch

from . import _build

if _problem := wrong_torch(torch.__version__, _build.TORCH, _build.VERSION):
    raise ImportError(_problem)

from . import _core  # noqa: E402
from ._core import Error, InternalError, explain  # noqa: E402
from ._lab import Benchmark, Bisection, Report, Sensitivity, Tuning, Verification  # noqa: E402
from ._model import DetachedTensor, Model, Site, export, from_exported, load  # noqa: E402
from ._rule import Any, Factor, Matched, Rule, Weight, either, rule, rules  # noqa: E402
from ._step import Step  # noqa: E402

__version__ = _build.VERSION

__all__ = ["Any", "Benchmark", "Bisection", "DetachedTensor", "Error", "Factor", "InternalError", "Matched", "Model",
           "Report", "Rule", "Sensitivity", "Site", "Step", "Tuning", "Verification", "Weight", "either", "explain",
           "export", "from_exported", "fx", "load", "rule", "rules"]

from . import fx  # noqa: E402
