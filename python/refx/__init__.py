"""Reversible rewrites of PyTorch graphs.

Every rewrite of a model is a step in a history. Each step can be listed and taken back, alone and in
any order, bit for bit. ``refx.load`` opens what ``torch.export.save`` wrote; ``refx.fx`` works on
``torch.fx.GraphModule``.
"""

import torch

from . import _build


def _check_torch() -> None:
    def minor(version: str) -> str:
        return ".".join(version.split(".")[:2])

    if minor(torch.__version__) != minor(_build.TORCH):
        raise ImportError(
            f"refx {_build.VERSION} was built for torch {_build.TORCH}, but this is torch "
            f"{torch.__version__}: install torch {minor(_build.TORCH)}, or build refx again with "
            "`pip install --no-build-isolation --force-reinstall refx`"
        )


_check_torch()

from . import _core  # noqa: E402
from ._core import Error, InternalError  # noqa: E402
from ._lab import Benchmark, Bisection, Report, Sensitivity, Tuning, Verification  # noqa: E402
from ._model import DetachedTensor, Model, Site, export, from_exported, load  # noqa: E402
from ._rule import Any, Factor, Matched, Rule, Weight, either, rule, rules  # noqa: E402
from ._step import Step  # noqa: E402

__version__ = _build.VERSION

__all__ = ["Any", "Benchmark", "Bisection", "DetachedTensor", "Error", "Factor", "InternalError", "Matched", "Model",
           "Report", "Rule", "Sensitivity", "Site", "Step", "Tuning", "Verification", "Weight", "either", "export",
           "from_exported", "fx", "load", "rule", "rules"]

from . import fx  # noqa: E402
